#include "tests/support/test.h"

#include "models/import.h"
#include "plan/layout/rules.h"
#include "plan/layout/strategy.h"
#include "tests/support/boundary_places.h"
#include "tests/support/draw.h"

#include <string.h>

// Stages with unlike numbers of ranks: who is of which, what crosses, what cannot be.

struct plan_case {
    struct graph *graph;
    struct cluster *cluster;
    struct workload workload;
    struct parallel parallel;
    int ranks[4], tps[4];
};

// llama-3-8b on 8 ranks: 4 with tp 2, 1 and 3.
static struct plan_case base(struct arena *arena, const char *model)
{
    struct err err = {0};
    struct plan_case plan = {.workload = {.seq_len = BOUNDARY_SEQ,
                                          .global_batch = 24,
                                          .precision = PRECISION_BF16,
                                          .optimizer = OPTIMIZER_ADAMW}};
    struct model_config *config = model_load(arena, model, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    plan.graph =
        model_graph(arena, config, &(struct import_options){.flash = true, .vocab_multiple = 1024});
    plan.cluster = cluster_load(arena, "dgx-h100", &err);
    assert_string_equal(err.text, "");
    plan.parallel = (struct parallel){.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                      .vpp = 1,
                                      .micro_batch = 3,
                                      .schedule = SCHEDULE_1F1B,
                                      .recompute_layers = -1};
    plan.parallel.degree[AXIS_TP] = 2;
    plan.parallel.degree[AXIS_PP] = 3;
    plan.parallel.degree[AXIS_DP] = 2;
    parallel_default_order(&plan.parallel);
    return plan;
}

static void set_ranks(struct plan_case *plan, int count, const int *ranks, const int *tps)
{
    memcpy(plan->ranks, ranks, (size_t)count * sizeof *ranks);
    memcpy(plan->tps, tps, (size_t)count * sizeof *tps);
    plan->parallel.stage_ranks = plan->ranks;
    plan->parallel.stage_tp = plan->tps;
    plan->parallel.stage_ranks_count = plan->parallel.stage_tp_count = count;
    plan->cluster->rank_count = (int)parallel_rank_count(&plan->parallel);
}

static struct program *lower(struct arena *arena, const struct plan_case *plan)
{
    struct err err = {0};
    bool fine = program_check(plan->graph, plan->cluster, &plan->workload, &plan->parallel, &err);
    assert_string_equal(err.text, "");
    assert_true(fine);
    return program_lower(arena, plan->graph, plan->cluster, &plan->workload, &plan->parallel, 0);
}

static void stages_follow_each_other(void **state)
{
    static const int STAGES[] = {0, 0, 0, 0, 1, 2, 2, 2}, ENDS[] = {4, 5, 8};
    static const struct {
        int tp, dp, micro_batch, first;
    } SEEN[] = {{2, 2, 3, 0}, {1, 1, 6, 4}, {1, 3, 2, 5}};
    struct plan_case plan = base(*state, "llama-3-8b");
    set_ranks(&plan, 3, (const int[]){4, 1, 3}, (const int[]){2, 1, 1});
    struct program *program = lower(*state, &plan), room;
    const struct mesh *mesh = &program->mesh;
    assert_int_equal(mesh->rank_count, 8);
    assert_int_equal(parallel_rank_count(&plan.parallel), 8);
    for (int rank = 0; rank < 8; rank++) {
        assert_int_equal(mesh_stage_of(mesh, rank), STAGES[rank]);
        assert_int_equal(mesh_stage_end(mesh, rank), ENDS[STAGES[rank]]);
    }
    assert_int_equal(mesh_at_stage(mesh, 3, 2), 5);
    assert_int_equal(mesh_at_stage(mesh, 7, 0), 2);
    for (int stage = 0; stage < 3; stage++) {
        const struct program *seen = program_at(program, stage, &room);
        assert_int_equal(seen->parallel.degree[AXIS_TP], SEEN[stage].tp);
        assert_int_equal(seen->parallel.degree[AXIS_DP], SEEN[stage].dp);
        assert_int_equal(seen->parallel.micro_batch, SEEN[stage].micro_batch);
        assert_int_equal(seen->mesh.first_rank, SEEN[stage].first);
        assert_int_equal(seen->mesh.rank_count, 8);
        assert_int_equal(mesh_axes_of(&seen->mesh, AXIS_PP), 0);
        assert_int_equal(mesh_size(&seen->mesh, (1u << seen->mesh.axis_count) - 1),
                         SEEN[stage].tp * SEEN[stage].dp);
        assert_int_equal(mesh_stage_ranks(mesh, stage), SEEN[stage].tp * SEEN[stage].dp);
        assert_true(mesh_has(&seen->mesh, SEEN[stage].first));
        assert_false(mesh_has(&seen->mesh, SEEN[stage].first - 1));
    }
}

static struct boundary between(const struct program *program, int from, int to)
{
    const struct boundary_message message = {from, 0, to, 0, from > to};
    struct boundary boundary;
    assert_true(boundary_of(program, &message, 0, &boundary));
    assert_false(boundary_is_plain(&boundary));
    return boundary;
}

static void check_sent(struct arena *arena, const struct boundary *boundary, int rank, int count,
                       const int *peers, const int *sequences)
{
    struct boundary_piece *pieces;
    assert_int_equal(boundary_pieces(arena, boundary, rank, true, &pieces), count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(pieces[i].peer, peers[i]);
        assert_int_equal(pieces[i].part.count[0], sequences[i]);
    }
}

// Six sequences a round: three on either pair of stage 0, all of them on rank 4, two on each rank
// of stage 2. Of a pair the first rank has what the second has.
static void what_crosses_is_worked_out_by_hand(void **state)
{
    struct plan_case plan = base(*state, "llama-3-8b");
    set_ranks(&plan, 3, (const int[]){4, 1, 3}, (const int[]){2, 1, 1});
    struct program *program = lower(*state, &plan);
    struct boundary boundary = between(program, 0, 1);
    check_sent(*state, &boundary, 0, 1, (const int[]){4}, (const int[]){3});
    check_sent(*state, &boundary, 1, 0, NULL, NULL);
    check_sent(*state, &boundary, 2, 1, (const int[]){4}, (const int[]){3});
    check_sent(*state, &boundary, 3, 0, NULL, NULL);
    assert_true(boundary_sent_ratio(&boundary) == 0.5);
    boundary = between(program, 1, 2);
    check_sent(*state, &boundary, 4, 3, (const int[]){5, 6, 7}, (const int[]){2, 2, 2});
    boundary = between(program, 2, 1);
    check_sent(*state, &boundary, 6, 1, (const int[]){4}, (const int[]){2});
    // Both ranks of a pair need the gradient.
    boundary = between(program, 1, 0);
    check_sent(*state, &boundary, 4, 4, (const int[]){0, 1, 2, 3}, (const int[]){3, 3, 3, 3});
    assert_true(boundary_sent_ratio(&boundary) == 2);
}

static void check_error(struct plan_case *plan, const char *text)
{
    struct err err = {0};
    plan->cluster->rank_count = (int)parallel_rank_count(&plan->parallel);
    assert_false(program_check(plan->graph, plan->cluster, &plan->workload, &plan->parallel, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, text);
}

static void what_cannot_be_is_refused_with_the_reason(void **state)
{
    static const int RANKS[] = {4, 1, 3}, TPS[] = {2, 1, 1};
    struct plan_case good = base(*state, "llama-3-8b"), plan = good;
    set_ranks(&plan, 2, RANKS, TPS);
    plan.parallel.stage_tp_count = 0;
    check_error(&plan, "--stage-ranks: 2 numbers for --pp 3; one a stage is wanted");
    plan = good;
    set_ranks(&plan, 3, (const int[]){4, 1, 3}, (const int[]){2, 2, 1});
    check_error(&plan, "--stage-ranks: 1 for stage 1 is no multiple of its tp 2 times cp 1");
    set_ranks(&plan, 3, (const int[]){4, 1, 5}, TPS);
    check_error(&plan,
                "--stage-ranks: stage 2 splits the 6 sequences of dp 2 times --micro-batch 3 "
                "by its dp 5, which does not divide them");
    set_ranks(&plan, 3, (const int[]){2, 1, 3}, TPS);
    check_error(&plan, "--stage-ranks: stage 0 has 2, but --tp 2, --cp 1 and --dp 2, which are its "
                       "own, are 4");
    set_ranks(&plan, 3, RANKS, TPS);
    plan.parallel.zero = 1;
    plan.parallel.zero_group = 1;
    // As many devices as one rank of dp with tp 2.
    check_error(&plan,
                "--stage-ranks: --zero-group is 2 ranks of dp and cp in stage 2, which do not "
                "divide its 3");
    plan.parallel.zero_group = 0;
    int last = plan.parallel.order_count - 1;
    plan.parallel.order[last] = plan.parallel.order[0];
    plan.parallel.order[0] = AXIS_PP;
    check_error(&plan, "--stage-ranks: not with an order in which pp is not last");
    plan = base(*state, "gpt2-large");
    set_ranks(&plan, 3, RANKS, TPS);
    check_error(&plan, "--stage-ranks: stages 0 and 2 share tied embeddings, which lie in one "
                       "layout; give both as many ranks, not 4 and 3");
}

// A group is as many devices in each stage, or all of a stage that has no more.
static void groups_of_zero_are_as_many_devices(void **state)
{
    static const int RANKS[] = {8, 4, 2}, TPS[] = {2, 1, 1};
    static const int STATES[] = {2, 4, 2}, WEIGHTS[] = {1, 2, 2};
    struct plan_case plan = base(*state, "llama-3-8b");
    struct program room;
    set_ranks(&plan, 3, RANKS, TPS);
    plan.parallel.degree[AXIS_DP] = 4;
    plan.parallel.micro_batch = 1;
    plan.parallel.zero = 3;
    plan.parallel.zero_group = 2;
    plan.parallel.zero_gradients = plan.parallel.zero_parameters = 1;
    plan.workload.global_batch = 16;
    struct program *program = lower(*state, &plan);
    for (int stage = 0; stage < 3; stage++) {
        const struct program *seen = program_at(program, stage, &room);
        const struct program *back;
        struct program other, third;
        const struct storage *storage = &seen->storage[PARAMETER_DENSE];
        assert_int_equal(mesh_size(&seen->mesh, storage->optimizer_axes), STATES[stage]);
        assert_int_equal(mesh_size(&seen->mesh, storage->weight_axes), WEIGHTS[stage]);
        // Seen from a stage, which may have fewer, the first has its own still.
        back = program_at(program_at(seen, (stage + 1) % 3, &other), 0, &third);
        assert_int_equal(mesh_size(&back->mesh, back->storage[PARAMETER_DENSE].optimizer_axes), 2);
    }
}

static void all_that_a_rank_holds_comes_once(void **state)
{
    enum { CASES = 24, RANKS_MOST = 16 };
    static const int TPS[] = {1, 2, 4}, DPS[] = {1, 2, 3, 4};
    struct draw draw = draw_start("stage ranks", 23);
    struct arena scratch = {0};
    for (int ran = 0; ran < CASES;) {
        struct plan_case plan = base(&scratch, "llama-3-8b");
        int ranks[4], tps[4], count = draw_int(&draw, 2, 4), widest = 0, all = 0;
        int cp = draw_int(&draw, 1, 2);
        for (int s = 0; s < count; s++) {
            tps[s] = DRAW_ONE(&draw, TPS);
            ranks[s] = tps[s] * cp * DRAW_ONE(&draw, DPS);
            all += ranks[s];
            if (tps[s] > tps[widest]) widest = s;
        }
        if (all > RANKS_MOST) continue;
        ran++;
        plan.parallel.degree[AXIS_TP] = tps[widest];
        plan.parallel.degree[AXIS_CP] = cp;
        plan.parallel.cp_kind = CP_ALL_GATHER;
        plan.parallel.degree[AXIS_DP] = ranks[widest] / tps[widest] / cp;
        plan.parallel.degree[AXIS_PP] = count;
        plan.parallel.sp = draw_int(&draw, 0, 1);
        plan.parallel.micro_batch = 12 / plan.parallel.degree[AXIS_DP] * draw_int(&draw, 1, 2);
        set_ranks(&plan, count, ranks, tps);
        struct program *program = lower(&scratch, &plan);
        for (int s = 0; s + 1 < count; s++) {
            const struct boundary_message forward = {s, 0, s + 1, 0, false};
            const struct boundary_message backward = {s + 1, 0, s, 0, true};
            boundary_places_check(&scratch, program, &forward);
            boundary_places_check(&scratch, program, &backward);
        }
        arena_free(&scratch);
        scratch = (struct arena){0};
    }
    (void)state;
}

static void say(struct plan_case *plan, const struct layout_rule *rule, const char *text)
{
    plan->parallel.layouts = rule;
    plan->parallel.layout_count = 1;
    check_error(plan, text);
}

// A rule of one stage is heeded there alone, and before what is said of all.
static void a_stage_has_rules_of_its_own(void **state)
{
    const struct layout_rule rules[] = {
        {.operator= "layer.mlp.up", .axis = AXIS_TP, .is_of_stage = true, .stage = 1},
        {.operator= "layer.mlp.up", .axis = AXIS_TP, .dim = DIM_HIDDEN},
        {.operator= "layer.mlp.gate", .axis = AXIS_TP, .is_of_stage = true, .stage = 0}};
    struct plan_case plan = base(*state, "llama-3-8b");
    set_ranks(&plan, 3, (const int[]){4, 2, 2}, (const int[]){2, 2, 1});
    plan.parallel.micro_batch = 1;
    plan.parallel.layouts = rules;
    plan.parallel.layout_count = 3;
    const struct program *program = lower(*state, &plan);
    static const enum dim WANTED[][2] = {{DIM_HIDDEN, DIM_NONE}, {DIM_NONE, DIM_FFN}};
    static const char *const NAMES[] = {"mlp.up", "mlp.gate"};
    for (int stage = 0; stage < 2; stage++) {
        struct program room;
        const struct program *seen = program_at(program, stage, &room);
        const struct block *block = &plan.graph->blocks[plan.graph->sequence[1]];
        for (int o = 0; o < block->op_count; o++) {
            for (int n = 0; n < 2; n++) {
                if (strcmp(block->ops[o].name, NAMES[n]) != 0) continue;
                struct strategy strategy =
                    strategy_of(&seen->mesh, &seen->parallel, block, &block->ops[o]);
                assert_int_equal(strategy.of[0], WANTED[stage][n]);
            }
        }
    }
}

static void rules_of_stages_that_cannot_be_are_refused(void **state)
{
    struct plan_case plan = base(*state, "llama-3-8b");
    set_ranks(&plan, 3, (const int[]){4, 2, 2}, (const int[]){2, 2, 1});
    plan.parallel.micro_batch = 1;
    struct layout_rule rule = {.operator= "layer.mlp.up", .axis = AXIS_TP, .is_of_stage = true};
    rule.stage = 3;
    say(&plan, &rule, "layouts: layer.mlp.up is said of stage 3; there are 3 of them");
    rule.stage = 1;
    rule.operator= "embedding.embedding.token";
    say(&plan, &rule, "layouts: embedding.embedding.token is said of stage 1, which has none");
    rule.operator= "layer.mlp.up";
    plan.parallel.stage_ranks_count = 0;
    plan.parallel.stage_tp_count = 0;
    plan.cluster->rank_count = 12;
    say(&plan, &rule,
        "layouts: layer.mlp.up is said of stage 1, but stages have no numbers of ranks "
        "(--stage-ranks), which alone tell them apart");
    plan = base(*state, "gemma-2-9b");
    set_ranks(&plan, 3, (const int[]){2, 4, 2}, (const int[]){2, 2, 2});
    plan.parallel.degree[AXIS_DP] = plan.parallel.micro_batch = 1;
    plan.parallel.micro_batch = 2;
    rule.stage = 0;
    rule.operator= "embedding.embedding.token";
    say(&plan, &rule,
        "layouts: embedding.embedding.token is said of stage 0, but what it shares with another "
        "stage lies in one layout: it can only be said of all");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_follow_each_other),
        cmocka_unit_test(what_crosses_is_worked_out_by_hand),
        cmocka_unit_test(what_cannot_be_is_refused_with_the_reason),
        cmocka_unit_test(a_stage_has_rules_of_its_own),
        cmocka_unit_test(rules_of_stages_that_cannot_be_are_refused),
        cmocka_unit_test(groups_of_zero_are_as_many_devices),
        cmocka_unit_test(all_that_a_rank_holds_comes_once),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
