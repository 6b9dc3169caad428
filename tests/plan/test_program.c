#include "tests/support/test.h"

#include "models/import.h"
#include "plan/program.h"
#include "plan/unexecuted.h"

#include <string.h>

struct plan_case {
    struct graph *graph;
    struct cluster *cluster;
    struct workload workload;
    struct parallel parallel;
};

// llama-2-70b, 64 heads and 8 kv heads, 80 layers, on 128 GPUs: tp 8, pp 4, dp 4.
static struct plan_case base(struct arena *arena, const char *model)
{
    struct err err = {0};
    struct plan_case plan = {.workload = {.seq_len = 4096,
                                          .global_batch = 64,
                                          .precision = PRECISION_BF16,
                                          .optimizer = OPTIMIZER_ADAMW}};
    struct model_config *config = model_load(arena, model, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    plan.graph =
        model_graph(arena, config, &(struct import_options){.flash = true, .vocab_multiple = 1024});
    plan.cluster = cluster_load(arena, "dgx-h100-x16", &err);
    assert_string_equal(err.text, "");
    plan.parallel = (struct parallel){.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                      .vpp = 1,
                                      .micro_batch = 1,
                                      .schedule = SCHEDULE_1F1B,
                                      .recompute_layers = -1};
    plan.parallel.degree[AXIS_TP] = 8;
    plan.parallel.degree[AXIS_PP] = 4;
    plan.parallel.degree[AXIS_DP] = 4;
    parallel_default_order(&plan.parallel);
    return plan;
}

static struct program *lower(struct arena *arena, const struct plan_case *plan)
{
    struct err err = {0};
    bool fine = program_check(plan->graph, plan->cluster, &plan->workload, &plan->parallel, &err);
    assert_string_equal(err.text, "");
    assert_true(fine);
    return program_lower(arena, plan->graph, plan->cluster, &plan->workload, &plan->parallel,
                         1u << JOIN_CHAIN | 1u << JOIN_MERGED);
}

static void check_error(const struct plan_case *plan, const char *text)
{
    struct err err = {0};
    assert_false(program_check(plan->graph, plan->cluster, &plan->workload, &plan->parallel, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, text);
}

static void equal_chunks_share_a_class(void **state)
{
    struct plan_case plan = base(*state, "llama-2-70b");
    struct program *program = lower(*state, &plan);
    assert_int_equal(program->block_count, 3);
    assert_int_equal(program->chunk_class_count, 3);
    assert_int_equal(program->class_of[1], program->class_of[2]);
    const struct program_chunk *first = &program->chunks[program->class_of[0]];
    const struct program_chunk *last = &program->chunks[program->class_of[3]];
    assert_true(first->first && !first->last && last->last && !last->first);
    assert_int_equal(first->use_count, 2);
    assert_int_equal(first->uses[1].count, 20);
    assert_int_equal(program->shape.micro_batch_count, 16);
    assert_int_equal(program->mesh.rank_count, 128);
}

static void recompute_of_some_layers_makes_two_variants(void **state)
{
    struct plan_case plan = base(*state, "llama-2-70b");
    plan.parallel.recompute = RECOMPUTE_FULL;
    plan.parallel.recompute_layers = 5;
    struct program *program = lower(*state, &plan);
    assert_int_equal(program->block_count, 4);
    const struct program_chunk *middle = &program->chunks[program->class_of[1]];
    assert_int_equal(middle->use_count, 2);
    assert_int_equal(middle->uses[0].count, 5);
    assert_int_equal(middle->uses[1].count, 15);
    const struct block_program *recomputed = program->blocks[middle->uses[0].block_program];
    const struct block_program *kept = program->blocks[middle->uses[1].block_program];
    assert_true(recomputed->saved_bytes < kept->saved_bytes);

    plan.parallel.recompute_layers = -1;
    program = lower(*state, &plan);
    assert_int_equal(program->block_count, 3);
}

static void local_parameters_add_up_to_the_model(void **state)
{
    struct plan_case plan = base(*state, "llama-2-70b");
    plan.parallel.degree[AXIS_TP] = 1;
    plan.parallel.degree[AXIS_DP] = 32;
    struct program *program = lower(*state, &plan);
    int64_t elements = 0;
    for (int stage = 0; stage < 4; stage++) {
        elements += program->chunks[program->class_of[stage]].parameter_elements;
    }
    int64_t padding = 2 * (plan.graph->vocab_padded - plan.graph->vocab) * plan.graph->hidden;
    assert_int_equal(elements, plan.graph->parameter_count + padding);
}

static void storage_follows_zero(void **state)
{
    struct plan_case plan = base(*state, "llama-2-70b");
    for (int zero = 0; zero <= 3; zero++) {
        plan.parallel.zero = zero;
        struct program *program = lower(*state, &plan);
        unsigned dp = mesh_axes_of(&program->mesh, AXIS_DP);
        assert_int_equal(program->storage[PARAMETER_DENSE].optimizer_axes, zero >= 1 ? dp : 0);
        assert_int_equal(program->storage[PARAMETER_DENSE].gradient_axes, zero >= 2 ? dp : 0);
        assert_int_equal(program->storage[PARAMETER_DENSE].weight_axes, zero >= 3 ? dp : 0);
    }
    plan.parallel.zero_group = 2;
    struct program *program = lower(*state, &plan);
    assert_int_equal(mesh_size(&program->mesh, program->storage[PARAMETER_DENSE].weight_axes), 2);
}

static void check_tied_pair(const struct program *program, int64_t elements)
{
    assert_int_equal(program->tie_count, 1);
    assert_int_equal(program->ties[0].stage_count, 2);
    assert_true(program->ties[0].stages[0] == 0 && program->ties[0].stages[1] == 1);
    assert_int_equal(program->ties[0].elements, elements);
}

static void tied_embeddings_on_two_stages_are_reduced_over_the_pair(void **state)
{
    struct plan_case plan = base(*state, "gemma-2-9b");
    plan.parallel.degree[AXIS_PP] = 2;
    plan.parallel.degree[AXIS_DP] = 8;
    struct program *program = lower(*state, &plan);
    check_tied_pair(program, plan.graph->vocab_padded * plan.graph->hidden / 8);
    // Layers with a window and without are two kinds.
    assert_int_equal(program->block_count, 4);

    plan.parallel.degree[AXIS_PP] = 1;
    plan.parallel.degree[AXIS_DP] = 16;
    assert_int_equal(lower(*state, &plan)->tie_count, 0);
    plan = base(*state, "llama-2-70b");
    assert_int_equal(lower(*state, &plan)->tie_count, 0);

    // The prediction module in front of the head reads the table too.
    plan = base(*state, "deepseek-v3");
    plan.parallel.degree[AXIS_TP] = 1;
    plan.parallel.degree[AXIS_PP] = 2;
    plan.parallel.degree[AXIS_DP] = 64;
    check_tied_pair(lower(*state, &plan), plan.graph->vocab_padded * plan.graph->hidden);
}

static void a_wrong_gpu_count_names_the_nearest(void **state)
{
    struct plan_case plan = base(*state, "llama-2-70b");
    plan.parallel.degree[AXIS_DP] = 2;
    check_error(&plan, "--dp 2 --tp 8 --cp 1 --pp 4: 64 ranks, the cluster has 128 GPUs; --dp 4 "
                       "uses them all");
    plan.parallel.degree[AXIS_PP] = 5;
    check_error(&plan, "--dp 2 --tp 8 --cp 1 --pp 5: 80 ranks, the cluster has 128 GPUs; the "
                       "nearest that --dp can use all of are 120 and 160");
    plan.parallel.degree[AXIS_PP] = 20;
    check_error(&plan, "--dp 2 --tp 8 --cp 1 --pp 20: 320 ranks, the cluster has 128 GPUs; the "
                       "nearest it works with is 160");
}

static void tp_must_fit_heads_kv_heads_and_sequence(void **state)
{
    struct err err = {0};
    struct plan_case plan = base(*state, "llama-2-70b");
    plan.parallel.degree[AXIS_TP] = 5;
    assert_true(cluster_take_gpus(plan.cluster, 80, &err));
    check_error(&plan,
                "--tp 5: 64 heads cannot be split by 5; the nearest that divide are 4 and 8");

    plan = base(*state, "falcon-40b");
    plan.graph->head_count = 12;
    plan.graph->kv_head_count = 4;
    plan.parallel.degree[AXIS_TP] = 6;
    assert_true(cluster_take_gpus(plan.cluster, 96, &err));
    check_error(&plan,
                "--tp 6: 4 kv heads neither divide 6 nor are divided by it; the nearest that "
                "divide are 4 and 12");

    plan = base(*state, "llama-2-70b");
    plan.parallel.sp = true;
    plan.workload.seq_len = 4092;
    check_error(&plan,
                "--tp 8: a sequence of 4092 over cp 1 cannot be split by 8, as --sp on does; "
                "the nearest that divides is 4");
}

static void batch_must_fit_dp_and_micro_batch(void **state)
{
    struct plan_case plan = base(*state, "llama-2-70b");
    plan.parallel.micro_batch = 3;
    check_error(&plan, "--micro-batch 3: a global batch of 64 over dp 4 cannot be split by 3; the "
                       "nearest that divide are 2 and 4");
    plan.workload.global_batch = 30;
    check_error(&plan, "--dp 4: a global batch of 30 cannot be split by 4; the nearest that divide "
                       "are 3 and 5");
}

static void other_choices_out_of_range_are_named(void **state)
{
    struct plan_case plan = base(*state, "llama-2-70b");
    plan.parallel.zero = 4;
    check_error(&plan, "--zero 4: expected 0 to 3");
    plan = base(*state, "llama-2-70b");
    plan.parallel.degree[AXIS_EP] = 2;
    check_error(&plan, "--ep 2: the model has no experts; only 1 works");
    plan = base(*state, "llama-2-70b");
    plan.parallel.zero = 3;
    plan.parallel.zero_group = 3;
    check_error(&plan, "--zero-group 3: dp 4 times cp 1 cannot be split into groups of 3; the "
                       "nearest that divide are 2 and 4");
    plan = base(*state, "llama-2-70b");
    plan.parallel.order[0] = AXIS_PP;
    check_error(&plan, "order: tp stands there 0 times, expected 1");
    plan = base(*state, "llama-2-70b");
    plan.parallel.degree[AXIS_CP] = 4;
    plan.parallel.degree[AXIS_DP] = 1;
    plan.workload.seq_len = 4098;
    check_error(&plan,
                "--cp 4: a sequence of 4098 cannot be split by 4; the nearest that divide are "
                "3 and 6");
}

// 8 experts of which 2 are chosen, 32 heads, 8 kv heads, on 16 GPUs: tp 2, dp 8.
static struct plan_case mixture(struct arena *arena)
{
    struct err err = {0};
    struct plan_case plan = base(arena, "mixtral-8x7b");
    assert_true(cluster_take_gpus(plan.cluster, 16, &err));
    plan.parallel.degree[AXIS_TP] = 2;
    plan.parallel.degree[AXIS_PP] = 1;
    plan.parallel.degree[AXIS_DP] = 8;
    return plan;
}

static void experts_must_divide_and_fold_over_the_ranks_of_a_stage(void **state)
{
    struct plan_case plan = mixture(*state);
    plan.parallel.degree[AXIS_EP] = 6;
    check_error(&plan, "--ep 6: 8 experts cannot be split by 6; the nearest that divide are 4 and "
                       "8");
    plan.parallel.degree[AXIS_EP] = 1;
    plan.parallel.degree[AXIS_ETP] = 3;
    check_error(&plan,
                "--etp 3: experts of ffn 14336 cannot be split by 3; the nearest that divide "
                "are 2 and 4");
    plan.parallel.degree[AXIS_EP] = 8;
    plan.parallel.degree[AXIS_ETP] = 4;
    check_error(&plan, "--ep 8: ep 8 times etp 4 cannot be laid over tp 2, cp 1 and dp 8; the "
                       "nearest that divides is 4");
    plan.parallel.degree[AXIS_EP] = 1;
    plan.parallel.degree[AXIS_ETP] = 7;
    check_error(&plan, "--etp 7: ep 1 times etp 7 cannot be laid over tp 2, cp 1 and dp 8; the "
                       "nearest that divide are 4 and 8");
    plan = mixture(*state);
    plan.workload.seq_len = 4095;
    check_error(&plan, "--tp 2: a sequence of 4095 over cp 1 cannot be split by 2, as experts do; "
                       "the nearest that divides is 1");
    // With sp the context's slices of a sequence hold those of tp, which leave later than they do.
    plan = mixture(*state);
    plan.parallel.sp = true;
    plan.parallel.degree[AXIS_CP] = plan.parallel.degree[AXIS_EP] = 2;
    plan.parallel.degree[AXIS_DP] = 4;
    plan.parallel.degree[AXIS_ETP] = 2;
    check_error(&plan, "--ep 2: ep 2 times etp 2 cannot be laid over tp 2, cp 2 and dp 4; the "
                       "nearest that divides is 1");
}

static void ulysses_must_fit_heads_and_kv_heads(void **state)
{
    struct plan_case plan = base(*state, "llama-2-70b");
    struct err err = {0};
    plan.parallel.cp_kind = CP_ULYSSES;
    plan.parallel.degree[AXIS_TP] = 2;
    plan.parallel.degree[AXIS_DP] = 1;
    plan.parallel.degree[AXIS_CP] = 64;
    assert_true(cluster_take_gpus(plan.cluster, 128, &err));
    plan.parallel.degree[AXIS_PP] = 1;
    check_error(&plan, "--cp 64: ulysses cannot split 64 heads and 8 kv heads over tp 2 by 64; the "
                       "nearest that divides is 32");
    // The ring does not mind.
    plan.parallel.cp_kind = CP_RING;
    assert_true(program_check(plan.graph, plan.cluster, &plan.workload, &plan.parallel, &err));
}

// ZeRO stores the experts over their own data parallelism.
static void experts_are_stored_over_the_ranks_that_share_them(void **state)
{
    struct plan_case plan = mixture(*state);
    plan.parallel.degree[AXIS_EP] = 8;
    plan.parallel.sp = true;
    plan.parallel.zero = 3;
    struct program *program = lower(*state, &plan);
    const struct storage *dense = &program->storage[PARAMETER_DENSE];
    const struct storage *experts = &program->storage[PARAMETER_EXPERT];
    assert_int_equal(mesh_size(&program->mesh, dense->weight_axes), 8);
    assert_int_equal(mesh_size(&program->mesh, experts->weight_axes), 2);
    assert_int_equal(mesh_axes_of(&program->mesh, AXIS_EP) & experts->weight_axes, 0);
    assert_int_equal(mesh_size(&program->mesh, mesh_axes_of(&program->mesh, AXIS_EP)), 8);
}

static void the_schedule_has_its_say(void **state)
{
    struct plan_case plan = base(*state, "llama-2-70b");
    plan.parallel.vpp = 2;
    struct err err = {0};
    assert_false(program_check(plan.graph, plan.cluster, &plan.workload, &plan.parallel, &err));
    assert_non_null(strstr(err.text, "--schedule 1f1b: "));
    plan.parallel.schedule = SCHEDULE_INTERLEAVED;
    struct program *program = lower(*state, &plan);
    assert_int_equal(program->shape.chunk_count, 2);
    assert_true(program->chunks[program->class_of[0]].first);
    assert_true(program->chunks[program->class_of[3 * 2 + 1]].last);
}

// t5's table of distances and gpt-oss's sinks are split with the heads, over ranks that ZeRO 2
// would shard them over.
static void tables_of_heads_leave_no_shards(struct arena *arena, const char *model,
                                            const char *what)
{
    struct plan_case plan = base(arena, model);
    plan.workload.seq_len = 512;
    plan.parallel.degree[AXIS_TP] = plan.parallel.degree[AXIS_PP] = 1;
    plan.parallel.degree[AXIS_CP] = 4;
    plan.parallel.degree[AXIS_DP] = 32;
    for (int zero = 0; zero < 4; zero++) {
        for (int kind = 0; kind < 2; kind++) {
            struct err err = {0};
            plan.parallel.zero = zero;
            plan.parallel.cp_kind = kind ? CP_ULYSSES : CP_RING;
            bool is_legal =
                program_check(plan.graph, plan.cluster, &plan.workload, &plan.parallel, &err);
            assert_int_equal(is_legal, kind == 0 || zero < 2);
            if (!is_legal)
                assert_non_null(strstr(
                    err.text, arena_print(arena, "the weights of %s are split over cp", what)));
        }
    }
}

static void tables_of_heads_leave_no_shards_to_ulysses(void **state)
{
    tables_of_heads_leave_no_shards(*state, "t5-base", "distances");
    tables_of_heads_leave_no_shards(*state, "gpt-oss-20b", "sinks");
}

// Sequences may be as long as a table of positions that they are looked up in.
static void sequences_fit_the_table_of_positions(void **state)
{
    const struct {
        const char *model;
        int64_t positions;  // 0: no table, or none of the text
    } rows[] = {{"gpt2", 1024},
                {"opt-1.3b", 2050},
                {"whisper-large-v3", 448},
                {"t5-base", 0},
                {"llama-2-7b", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {0};
        struct model_config *config = model_load(*state, rows[i].model, NULL, NULL, &err);
        assert_string_equal(err.text, "");
        struct graph *graph = model_graph(*state, config, &(struct import_options){0});
        int64_t most = rows[i].positions ? rows[i].positions : 1 << 20;
        assert_true(unexecuted_check_positions(graph, most, &err));
        assert_int_equal(unexecuted_check_positions(graph, most + 1, &err), !rows[i].positions);
        if (rows[i].positions) assert_non_null(strstr(err.text, "a table of "));
    }
}

static bool is_legal(const struct plan_case *plan)
{
    struct err err = {0};
    return program_check(plan->graph, plan->cluster, &plan->workload, &plan->parallel, &err);
}

// As a grid tp 8 is 2 x 4, or 2 x 2 x 2, tp 16 is 4 x 4 and tp 64 is 4 x 4 x 4: tx, and tz with it,
// split the sequences of a micro-batch.
static void grids_that_cannot_be_are_refused(void **state)
{
    struct plan_case plan = base(*state, "llama-2-70b");
    plan.parallel.tp_kind = TP_2D;
    check_error(
        &plan,
        "--micro-batch 1: --tp-kind 2d splits its sequences by 2; the nearest that divides is 2");
    plan.parallel.degree[AXIS_TP] = 16;
    plan.parallel.degree[AXIS_PP] = 2;
    check_error(
        &plan,
        "--micro-batch 1: --tp-kind 2d splits its sequences by 4; the nearest that divides is 4");
    plan.parallel.sp = true;
    check_error(&plan, "--tp-kind 2d: a grid leaves --sp nothing to split; only off works");
    plan.parallel.sp = false;
    plan.parallel.micro_batch = 4;
    assert_true(is_legal(&plan));
    plan.workload.global_batch = 24;
    check_error(&plan, "--tp-kind 2d: tp 16 splits the sequences of a micro-batch by 4, which a "
                       "global batch of 24 over dp 4 is no multiple of");
    plan.workload.global_batch = 64;
    plan.parallel.tp_kind = TP_2D_SUMMA;
    plan.parallel.degree[AXIS_CP] = 2;
    plan.parallel.degree[AXIS_PP] = 1;
    plan.parallel.cp_kind = CP_ULYSSES;
    check_error(&plan, "--tp-kind 2d-summa: sums over heads would follow what --cp-kind ulysses "
                       "hands out of them; ring and allgather work");
    plan = base(*state, "llama-2-70b");
    plan.parallel.tp_kind = TP_3D;
    check_error(
        &plan,
        "--micro-batch 1: --tp-kind 3d splits its sequences by 4; the nearest that divides is 4");
    plan.parallel.degree[AXIS_TP] = 64;
    plan.parallel.degree[AXIS_PP] = 2;
    plan.parallel.degree[AXIS_DP] = 1;
    check_error(
        &plan,
        "--micro-batch 1: --tp-kind 3d splits its sequences by 16; the nearest that divides is 16");
    plan.graph->hidden = 8190;
    check_error(&plan, "--tp 64: a 3d grid of 4 x 4 x 4 (tx, ty, tz) cannot split hidden 8190, 64 "
                       "heads and 8 kv heads; the nearest that divide are 36 and 240");
    plan.graph->hidden = 8192;
    plan = base(*state, "mixtral-8x7b");
    plan.parallel.tp_kind = TP_2D;
    plan.parallel.degree[AXIS_TP] = 4;
    plan.parallel.degree[AXIS_DP] = 8;
    check_error(&plan, "--tp-kind 2d: the model has experts, which no grid splits; only 1d works");
}

static void replicas_of_their_own_numbers_are_checked(void **state)
{
    struct plan_case plan = base(*state, "llama-2-70b");
    plan.parallel.replica_micro_batches = (int[]){20, 20, 20, 4};
    plan.parallel.replica_count = 3;
    check_error(&plan, "--replica-batches: 3 numbers for --dp 4; one a replica is wanted");
    plan.parallel.replica_count = 4;
    assert_true(is_legal(&plan));
    plan.parallel.replica_micro_batches = (int[]){20, 20, 24, 0};
    check_error(&plan, "--replica-batches: 0 micro-batches for replica 3; it needs 1 at least");
    plan.parallel.replica_micro_batches = (int[]){20, 20, 20, 5};
    check_error(
        &plan, "--replica-batches: 65 micro-batches of 1 are 65 sequences; the global batch is 64");
    plan.parallel.micro_batch = 2;
    plan.parallel.replica_micro_batches = (int[]){10, 10, 10, 2};
    assert_true(is_legal(&plan));
    // The ranks of an expert are of one replica, or exchange in every micro-batch of two.
    plan = base(*state, "mixtral-8x7b");
    plan.parallel.replica_micro_batches = (int[]){20, 20, 20, 4};
    plan.parallel.replica_count = 4;
    int tp = plan.parallel.degree[AXIS_TP];
    plan.parallel.degree[AXIS_ETP] = tp;
    assert_true(is_legal(&plan));
    plan.parallel.degree[AXIS_ETP] = 2 * tp;
    check_error(&plan, "--replica-batches: not with an --etp that takes ranks of dp, which "
                       "exchange in every micro-batch");
}

// What compares whole sequences keeps them whole, however the length divides.
static void sequences_that_are_compared_stay_whole(void **state)
{
    struct plan_case plan = base(*state, "clip-vit-large-patch14");
    plan.workload.seq_len = 64;
    plan.parallel.degree[AXIS_TP] = plan.parallel.degree[AXIS_PP] = 1;
    plan.parallel.degree[AXIS_CP] = 2;
    plan.parallel.degree[AXIS_DP] = 64;
    check_error(&plan, "--cp 2: clip-vit-large-patch14 compares what whole sequences say; only 1 "
                       "works");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_chunks_share_a_class),
        cmocka_unit_test(recompute_of_some_layers_makes_two_variants),
        cmocka_unit_test(local_parameters_add_up_to_the_model),
        cmocka_unit_test(storage_follows_zero),
        cmocka_unit_test(tied_embeddings_on_two_stages_are_reduced_over_the_pair),
        cmocka_unit_test(a_wrong_gpu_count_names_the_nearest),
        cmocka_unit_test(tp_must_fit_heads_kv_heads_and_sequence),
        cmocka_unit_test(batch_must_fit_dp_and_micro_batch),
        cmocka_unit_test(other_choices_out_of_range_are_named),
        cmocka_unit_test(experts_must_divide_and_fold_over_the_ranks_of_a_stage),
        cmocka_unit_test(ulysses_must_fit_heads_and_kv_heads),
        cmocka_unit_test(experts_are_stored_over_the_ranks_that_share_them),
        cmocka_unit_test(the_schedule_has_its_say),
        cmocka_unit_test(tables_of_heads_leave_no_shards_to_ulysses),
        cmocka_unit_test(sequences_fit_the_table_of_positions),
        cmocka_unit_test(sequences_that_are_compared_stay_whole),
        cmocka_unit_test(grids_that_cannot_be_are_refused),
        cmocka_unit_test(replicas_of_their_own_numbers_are_checked),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
