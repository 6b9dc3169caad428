#include "tests/support/test.h"

#include "models/import.h"
#include "plan/boundary.h"
#include "plan/program.h"
#include "tests/support/boundary_places.h"
#include "tests/support/draw.h"

#include <stdlib.h>
#include <string.h>

// Stages with meshes of their own: what can be, what crosses between them by hand, and on drawn
// degrees element by element against places that are worked out here alone.

struct plan_case {
    struct graph *graph;
    struct cluster *cluster;
    struct workload workload;
    struct parallel parallel;
    int stage_tp[8];
};

enum { SEQ = 4096, HIDDEN = 4096 };

// llama-3-8b, 32 heads and 8 kv heads, 32 layers, on 16 GPUs: tp 4, pp 2, dp 2.
static struct plan_case base(struct arena *arena, const char *model)
{
    struct err err = {0};
    struct plan_case plan = {.workload = {.seq_len = SEQ,
                                          .global_batch = 16,
                                          .precision = PRECISION_BF16,
                                          .optimizer = OPTIMIZER_ADAMW}};
    struct model_config *config = model_load(arena, model, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    plan.graph =
        model_graph(arena, config, &(struct import_options){.flash = true, .vocab_multiple = 1024});
    plan.cluster = cluster_load(arena, "dgx-h100-x2", &err);
    assert_string_equal(err.text, "");
    plan.parallel = (struct parallel){.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                      .vpp = 1,
                                      .micro_batch = 2,
                                      .schedule = SCHEDULE_1F1B,
                                      .recompute_layers = -1};
    plan.parallel.degree[AXIS_TP] = 4;
    plan.parallel.degree[AXIS_PP] = 2;
    plan.parallel.degree[AXIS_DP] = 2;
    parallel_default_order(&plan.parallel);
    return plan;
}

static void set_meshes(struct plan_case *plan, int count, const int *tps)
{
    memcpy(plan->stage_tp, tps, (size_t)count * sizeof *tps);
    plan->parallel.stage_tp = plan->stage_tp;
    plan->parallel.stage_tp_count = count;
}

// Ranks over which a stage keeps one copy of the states of dense parameters.
static int shard_ranks(const struct program *program)
{
    unsigned axes =
        mesh_shard_axes(&program->mesh, &program->parallel, PARAMETER_DENSE, STORED_STATES);
    return mesh_size(&program->mesh, axes);
}

static int grid_ranks(const struct program *program, enum grid_axis grid)
{
    int ranks = 1;
    for (int a = 0; a < program->mesh.axis_count; a++)
        if (program->mesh.axes[a].grid == grid) ranks *= program->mesh.axes[a].size;
    return ranks;
}

static struct program *lower(struct arena *arena, const struct plan_case *plan)
{
    struct err err = {0};
    bool fine = program_check(plan->graph, plan->cluster, &plan->workload, &plan->parallel, &err);
    assert_string_equal(err.text, "");
    assert_true(fine);
    return program_lower(arena, plan->graph, plan->cluster, &plan->workload, &plan->parallel, 0);
}

static void check_error(struct plan_case plan, int count, const int *tps, const char *text)
{
    struct err err = {0};
    set_meshes(&plan, count, tps);
    assert_false(program_check(plan.graph, plan.cluster, &plan.workload, &plan.parallel, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, text);
}

static void a_stage_has_a_mesh_of_its_own(void **state)
{
    struct plan_case plan = base(*state, "llama-3-8b");
    set_meshes(&plan, 2, (const int[]){4, 2});
    struct program *program = lower(*state, &plan), room;
    const struct program *wide = program_at(program, 0, &room);
    assert_ptr_equal(wide, program);
    const struct program *narrow = program_at(program, 1, &room);
    assert_int_equal(narrow->parallel.degree[AXIS_TP], 2);
    assert_int_equal(narrow->parallel.degree[AXIS_DP], 4);
    assert_int_equal(narrow->parallel.micro_batch, 1);
    assert_int_equal(mesh_size(&narrow->mesh, mesh_axes_of(&narrow->mesh, AXIS_TP)), 2);
    assert_int_equal(mesh_size(&narrow->mesh, mesh_axes_of(&narrow->mesh, AXIS_DP)), 4);
    assert_int_equal(program->mesh.rank_count, 16);
    // A layer of the narrow stage holds twice the weights and reduces them over four ranks.
    const struct block_use *front = &program->chunks[program->class_of[0]].uses[1];
    const struct block_use *back = &program->chunks[program->class_of[1]].uses[0];
    const struct block_program *a = program->blocks[front->block_program];
    const struct block_program *b = program->blocks[back->block_program];
    assert_ptr_equal(a->block, b->block);
    assert_ptr_not_equal(a, b);
    for (int i = 0; i < a->parameter_count; i++) {
        const struct parameter *x = &a->parameters[i], *y = &b->parameters[i];
        bool is_norm = a->block->tensors[x->tensor].rank == 1;
        assert_int_equal(y->elements, is_norm ? x->elements : 2 * x->elements);
        assert_int_equal(mesh_size(&program->mesh, x->gradient_partial_axes), 2);
        assert_int_equal(mesh_size(&program->mesh, y->gradient_partial_axes), 4);
    }
    assert_true(program_is_same(program, narrow));
}

// One rank of dp of the wide stage is two of the narrow one, and so is a group.
static void a_group_of_zero_is_the_same_devices(void **state)
{
    struct plan_case plan = base(*state, "llama-3-8b");
    plan.parallel.zero = 1;
    plan.parallel.zero_group = 1;
    set_meshes(&plan, 2, (const int[]){4, 2});
    struct program *program = lower(*state, &plan), room;
    const struct program *narrow = program_at(program, 1, &room);
    assert_int_equal(shard_ranks(program), 1);
    assert_int_equal(narrow->parallel.zero_group, 2);
    assert_int_equal(shard_ranks(narrow), 2);
}

// 2 x 2 (tx, ty), and 1 x 2 in a stage of two: tx, the outer one, is lent. In 3D 2 x 2 x 2 (tx, ty,
// tz) and 2 x 2 x 1: tz is, from between the others.
static void a_grid_lends_what_a_stage_has_no_use_for(void **state)
{
    struct plan_case plan = base(*state, "llama-3-8b");
    plan.parallel.tp_kind = TP_2D;
    plan.parallel.micro_batch = 4;
    set_meshes(&plan, 2, (const int[]){4, 2});
    struct program *program = lower(*state, &plan), room;
    const struct program *narrow = program_at(program, 1, &room);
    assert_int_equal(grid_ranks(program, GRID_X), 2);
    assert_int_equal(grid_ranks(narrow, GRID_X), 1);
    assert_int_equal(grid_ranks(narrow, GRID_Y), 2);
    plan.parallel.tp_kind = TP_3D;
    plan.parallel.degree[AXIS_TP] = 8;
    plan.parallel.degree[AXIS_DP] = 1;
    plan.parallel.micro_batch = 8;
    set_meshes(&plan, 2, (const int[]){8, 4});
    program = lower(*state, &plan);
    narrow = program_at(program, 1, &room);
    assert_int_equal(grid_ranks(program, GRID_Z), 2);
    assert_int_equal(grid_ranks(narrow, GRID_Z), 1);
    assert_int_equal(grid_ranks(narrow, GRID_X), 2);
    int lent = 0;
    while (narrow->mesh.axes[lent].parent != AXIS_DP)
        lent++;
    assert_int_equal(narrow->mesh.axes[lent].stride, 2);
}

// Of 8 kv heads tp 8 leaves cp 4 one, tp 4 two, which cp.0 splits.
static void ulysses_takes_the_kv_heads_that_each_stage_leaves(void **state)
{
    struct err err = {0};
    struct plan_case plan = base(*state, "llama-3-8b");
    plan.cluster = cluster_load(*state, "dgx-h100-x8", &err);
    plan.parallel.degree[AXIS_TP] = 8;
    plan.parallel.degree[AXIS_CP] = 4;
    plan.parallel.degree[AXIS_DP] = 1;
    plan.parallel.cp_kind = CP_ULYSSES;
    struct program *alike = lower(*state, &plan);
    assert_int_equal(__builtin_popcount(mesh_axes_of(&alike->mesh, AXIS_CP)), 1);
    set_meshes(&plan, 2, (const int[]){8, 4});
    struct program *unlike = lower(*state, &plan);
    assert_int_equal(__builtin_popcount(mesh_axes_of(&unlike->mesh, AXIS_CP)), 2);
}

// Without sp a rank of the wide stage holds both sequences, one of the narrow stage the one: it is
// sent that by the rank in its place. Back come two gradients of a sequence each.
static void what_crosses_is_worked_out_by_hand(void **state)
{
    struct plan_case plan = base(*state, "llama-3-8b");
    set_meshes(&plan, 2, (const int[]){4, 2});
    struct program *program = lower(*state, &plan);
    enum { SEQUENCE = SEQ * HIDDEN * 2 };  // bytes
    struct boundary_sum there = boundary_sum_behind(program, 0, false);
    struct boundary_sum back = boundary_sum_behind(program, 0, true);
    assert_int_equal(there.bytes, SEQUENCE);
    assert_int_equal(there.count, 1);
    assert_int_equal(back.bytes, 2 * SEQUENCE);
    assert_int_equal(back.count, 2);
    struct boundary boundary;
    struct boundary_piece *pieces;
    const struct boundary_message forward = {0, 0, 1, 0, false}, backward = {1, 0, 0, 0, true};
    assert_true(boundary_of(program, &forward, 0, &boundary));
    assert_false(boundary_is_plain(&boundary));
    assert_true(boundary_sent_ratio(&boundary) == 0.5);
    // Stage 0 is ranks 0 to 7, four of each replica; rank 2 of it has the place of rank 10.
    assert_int_equal(boundary_pieces(*state, &boundary, 2, true, &pieces), 1);
    assert_int_equal(pieces[0].peer, 10);
    assert_int_equal(pieces[0].part.first[0], 1);
    assert_int_equal(pieces[0].part.count[0], 1);
    assert_true(boundary_of(program, &backward, 0, &boundary));
    assert_true(boundary_sent_ratio(&boundary) == 2);
    assert_int_equal(boundary_pieces(*state, &boundary, 2, false, &pieces), 2);
    assert_int_equal(pieces[0].peer, 8);
    assert_int_equal(pieces[1].peer, 10);
    assert_int_equal(pieces[1].part.first[0], 1);
}

// With sp a rank holds 1/4 of the tokens of two sequences, or half of those of one: half of what
// each holds goes to, or comes from, each of two.
static void pieces_of_sequences_cross_with_sp(void **state)
{
    struct plan_case plan = base(*state, "llama-3-8b");
    plan.parallel.sp = true;
    set_meshes(&plan, 2, (const int[]){4, 2});
    struct program *program = lower(*state, &plan);
    for (int is_back = 0; is_back < 2; is_back++) {
        struct boundary_sum sum = boundary_sum_behind(program, 0, is_back);
        assert_int_equal(sum.bytes, SEQ / 2 * HIDDEN * 2);
        assert_int_equal(sum.count, 2);
    }
}

static void what_cannot_be_is_refused_with_the_reason(void **state)
{
    static const int HALF[] = {4, 2};
    const struct plan_case fine = base(*state, "llama-3-8b");
    check_error(fine, 3, (const int[]){4, 2, 2},
                "--stage-tp: 3 numbers for --pp 2; one a stage is wanted");
    check_error(fine, 2, (const int[]){4, 0}, "--stage-tp: 0 for stage 1 does not divide --tp 4");
    check_error(fine, 2, (const int[]){4, 3}, "--stage-tp: 3 for stage 1 does not divide --tp 4");
    check_error(fine, 2, (const int[]){2, 2},
                "--stage-tp: the largest is 2, and --tp 4; they are one");
    struct plan_case plan = fine;
    plan.parallel.micro_batch = 1;
    check_error(plan, 2, HALF,
                "--stage-tp: stage 1 splits the 1 sequences of --micro-batch by 2, which does not "
                "divide them");
    plan = base(*state, "gpt2");
    plan.parallel.micro_batch = 4;
    plan.workload.seq_len = 1024;
    check_error(plan, 2, HALF,
                "--stage-tp: stages 0 and 1 share tied embeddings, which lie in one layout; give "
                "both as many ranks of tp, not 4 and 2");
}

// What a stage could not have for itself, and what the stages cannot have at once.
static void meshes_that_do_not_nest_are_refused(void **state)
{
    static const int HALF[] = {4, 2};
    struct err err = {0};
    struct plan_case plan = base(*state, "llama-3-8b");
    plan.parallel.tp_kind = TP_2D;
    plan.parallel.degree[AXIS_TP] = 8;
    plan.parallel.degree[AXIS_DP] = 1;
    check_error(plan, 2, (const int[]){8, 4},
                "--stage-tp: stage 1: --micro-batch 1: --tp-kind 2d splits its sequences by 2; the "
                "nearest that divides is 2");
    // With tp 4 etp is all of it, ep is dp; with tp 2 dp would leave the sequences before what tp
    // lends it, which is inside of it.
    plan = base(*state, "mixtral-8x7b");
    plan.parallel.degree[AXIS_ETP] = 4;
    plan.parallel.degree[AXIS_EP] = 2;
    check_error(plan, 2, HALF,
                "--ep 2: ep 2 times etp 4 cannot be laid over tp 4, cp 1 and dp 2, as each stage "
                "has them; the nearest that divides is 1");
    plan = base(*state, "gpt2");
    plan.cluster = cluster_load(*state, "dgx-h100-x9", &err);
    plan.workload.seq_len = 1024;
    plan.workload.global_batch = 24;
    plan.parallel.micro_batch = plan.parallel.degree[AXIS_TP] = 12;
    plan.parallel.degree[AXIS_PP] = 3;
    check_error(plan, 3, (const int[]){12, 6, 4},
                "--stage-tp: tp over 12 kv heads cannot be cut into the same finer axes for all of "
                "the stages");
    plan.parallel.degree[AXIS_PP] = 6;
    plan.parallel.degree[AXIS_DP] = 1;
    plan.parallel.tp_kind = TP_2D;
    check_error(plan, 6, (const int[]){12, 6, 12, 12, 12, 12},
                "--stage-tp: grids of tp over 12 kv heads cannot be cut into the same finer axes "
                "for all of the stages");
}

static void all_that_a_rank_holds_comes_once(void **state)
{
    enum { CASES = 24 };
    struct draw draw = draw_start("stage meshes", 22);
    struct arena scratch = {0};
    for (int ran = 0; ran < CASES;) {
        static const int TPS[] = {2, 4, 8};
        struct plan_case plan = base(&scratch, "llama-3-8b");
        int tp = DRAW_ONE(&draw, TPS), pp = 2, tps[4];
        if (tp <= 4 && draw_int(&draw, 0, 1)) pp = 16 / tp > 4 ? 4 : 16 / tp;
        int left = 16 / tp / pp;
        if (left > 1 && draw_int(&draw, 0, 1)) {
            plan.parallel.degree[AXIS_CP] = 2;
            plan.parallel.cp_kind = CP_ALL_GATHER;
            left /= 2;
        }
        plan.parallel.degree[AXIS_TP] = tp;
        plan.parallel.degree[AXIS_PP] = pp;
        plan.parallel.degree[AXIS_DP] = left;
        if (draw_int(&draw, 0, 1)) {
            static const enum axis ORDER[] = {AXIS_DP, AXIS_PP, AXIS_CP, AXIS_TP};
            memcpy(plan.parallel.order, ORDER, sizeof ORDER);
            plan.parallel.order_count = 4;
            parallel_complete_order(&plan.parallel);
        }
        plan.parallel.sp = draw_int(&draw, 0, 1);
        plan.parallel.micro_batch = tp * draw_int(&draw, 1, 2);
        plan.workload.global_batch = (int64_t)plan.parallel.micro_batch * left * 4;
        for (int s = 0; s < pp; s++)
            tps[s] = tp >> draw_int(&draw, 0, tp == 2 ? 1 : 2);
        tps[draw_int(&draw, 0, pp - 1)] = tp;
        set_meshes(&plan, pp, tps);
        if (!parallel_has_meshes(&plan.parallel)) continue;
        ran++;
        struct program *program = lower(&scratch, &plan);
        for (int s = 0; s + 1 < pp; s++) {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_has_a_mesh_of_its_own),
        cmocka_unit_test(a_group_of_zero_is_the_same_devices),
        cmocka_unit_test(a_grid_lends_what_a_stage_has_no_use_for),
        cmocka_unit_test(ulysses_takes_the_kv_heads_that_each_stage_leaves),
        cmocka_unit_test(what_crosses_is_worked_out_by_hand),
        cmocka_unit_test(pieces_of_sequences_cross_with_sp),
        cmocka_unit_test(what_cannot_be_is_refused_with_the_reason),
        cmocka_unit_test(meshes_that_do_not_nest_are_refused),
        cmocka_unit_test(all_that_a_rank_holds_comes_once),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
