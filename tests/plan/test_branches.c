#include "tests/support/test.h"

#include "models/import.h"
#include "plan/boundary.h"
#include "plan/branches.h"
#include "plan/program.h"

#include <string.h>

// Branches of a model on stages of their own: what can be, how layers are shared out, who hands on
// to whom, and how far each stage runs ahead.

struct plan_case {
    struct graph *graph;
    struct cluster *cluster;
    struct workload workload;
    struct parallel parallel;
    int layers[8];
};

// two-towers-2b: 40 layers of the picture; what embeds the text, 18 and 18 layers.
static struct plan_case base(struct arena *arena, const char *model, int stages)
{
    struct err err = {0};
    struct plan_case plan = {.workload = {.seq_len = 256,
                                          .global_batch = 32,
                                          .precision = PRECISION_BF16,
                                          .optimizer = OPTIMIZER_ADAMW}};
    struct model_config *config = model_load(arena, model, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    plan.graph = model_graph(arena, config, &(struct import_options){.flash = true});
    plan.cluster = cluster_load(arena, "dgx-h100", &err);
    assert_string_equal(err.text, "");
    plan.parallel = (struct parallel){.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                      .vpp = 1,
                                      .micro_batch = 1,
                                      .schedule = SCHEDULE_1F1B,
                                      .branches = true,
                                      .recompute_layers = -1};
    plan.parallel.degree[AXIS_PP] = stages;
    plan.parallel.degree[AXIS_DP] = 8 / stages;
    parallel_default_order(&plan.parallel);
    return plan;
}

static void check_error(const struct plan_case *plan, const char *text)
{
    struct err err = {0};
    assert_false(program_check(plan->graph, plan->cluster, &plan->workload, &plan->parallel, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, text);
}

static void pin_layers(struct plan_case *plan, const int *layers)
{
    int count = plan->parallel.degree[AXIS_PP];
    memcpy(plan->layers, layers, (size_t)count * sizeof *layers);
    plan->parallel.stage_layers = plan->layers;
    plan->parallel.stage_layers_count = count;
}

static void what_cannot_be_is_said(void **state)
{
    struct plan_case plan = base(*state, "llama-3-8b", 4);
    check_error(&plan, "--branches: llama-3-8b is a chain of blocks, without branches");
    plan = base(*state, "two-towers-2b", 1);
    check_error(&plan, "--branches: takes 3 stages at least, for what is in front of a branch, the "
                       "branch and what joins it; --pp is 1");
    plan = base(*state, "t5-base", 4);
    check_error(&plan,
                "--branches: t5-base is a chain of blocks, without branches: its decoder reads all "
                "that its encoder makes; --pp gives both stages of their own, --stage-ranks these "
                "as many ranks as it says");
    plan = base(*state, "two-towers-2b", 4);
    pin_layers(&plan, (const int[]){20, 19, 19, 19});
    check_error(&plan, "--branches: with --pp 4 no stage has a branch for itself; the first one "
                       "begins behind layer 40, where a stage has to begin");
    plan = base(*state, "two-towers-2b", 4);
    plan.parallel.schedule = SCHEDULE_ZB_V;
    plan.parallel.vpp = 2;
    check_error(&plan, "--branches: not with schedules of several chunks a stage");
    plan = base(*state, "two-towers-2b", 4);
    plan.parallel.replica_count = 1;
    struct err err = {0};
    assert_false(branches_check(plan.graph, &plan.parallel, &err));
    assert_string_equal(err.text, "--branches: not with --replica-batches");
    plan.parallel.replica_count = 0;
    err = (struct err){0};
    assert_true(branches_check(plan.graph, &plan.parallel, &err));
}

static struct program *lower(struct arena *arena, const struct plan_case *plan)
{
    struct err err = {0};
    bool fine = program_check(plan->graph, plan->cluster, &plan->workload, &plan->parallel, &err);
    assert_string_equal(err.text, "");
    assert_true(fine);
    return program_lower(arena, plan->graph, plan->cluster, &plan->workload, &plan->parallel, 0);
}

// Of 8 stages: shares of 40 and 37 layers.
static void layers_are_shared_out_branch_by_branch(void **state)
{
    struct plan_case plan = base(*state, "two-towers-2b", 8);
    const struct program *program = lower(*state, &plan);
    int begin, layers[8];
    assert_int_equal(branches_begin(plan.graph, &begin, 1), 1);
    assert_int_equal(begin, 41);
    assert_true(branches_split(plan.graph, 8, layers));
    const int wanted[] = {10, 10, 10, 10, 9, 9, 9, 10};
    assert_memory_equal(layers, wanted, sizeof wanted);
    assert_int_equal(program->spans[4].first, begin);
    assert_int_equal(program->spans[4].count, 9);
    assert_false(branches_split(plan.graph, 1, layers));
}

// 4 stages of the picture, 2 of the text alone, 2 where the text reads the picture.
static void a_stage_runs_as_far_ahead_as_its_way_is_long(void **state)
{
    struct plan_case plan = base(*state, "two-towers-2b", 8);
    const struct program *program = lower(*state, &plan);
    const struct schedule_shape *shape = &program->shape;
    const int next[] = {1, 2, 3, 6, 5, 6, 7, -1}, ahead[] = {5, 4, 3, 2, 3, 2, 1, 0};
    assert_non_null(shape->tree);
    for (int s = 0; s < 8; s++) {
        struct slot slots[3 * 32];
        int count = 0;
        assert_int_equal(schedule_next(shape, s), next[s]);
        schedule_row(SCHEDULE_1F1B)->order(shape, s, slots);
        while (slots[count].kind == TASK_FORWARD)
            count++;
        assert_int_equal(count, ahead[s] + 1);
    }
    // The text stands in front of the picture among what is read.
    assert_int_equal(schedule_before(shape, 6, 0), 5);
    assert_int_equal(schedule_before(shape, 6, 1), 3);
    assert_int_equal(schedule_before(shape, 6, 2), -1);
    assert_int_equal(schedule_before(shape, 4, 0), -1);
    assert_int_equal(schedule_before(shape, 5, 0), 4);
    const struct program_chunk *text = &program->chunks[program->class_of[5]];
    const struct block_program *block = program->blocks[text->uses[0].block_program];
    assert_true(block->inputs[0] >= 0 && block->inputs[1] < 0);
    struct boundary_message message;
    struct boundary boundary;
    assert_true(boundary_message(program, 6, 0, false, false, 1, &message));
    assert_int_equal(message.from_stage, 3);
    const struct program_chunk *joint = &program->chunks[program->class_of[6]];
    block = program->blocks[joint->uses[0].block_program];
    assert_true(boundary_of(program, &message, 0, &boundary));
    assert_int_equal(boundary.to.buffer, block->inputs[1]);
    assert_false(boundary_of(program, &message, 1, &boundary));
    assert_false(boundary_message(program, 6, 0, false, false, 2, &message));
    assert_true(boundary_message(program, 6, 0, true, true, 1, &message));
    assert_int_equal(message.to_stage, 3);
}

// Whether the sender's rank sends each of these receivers, and nobody else, as many elements of
// input `edge` of theirs.
static void check_pieces(struct arena *arena, const struct program *program, int stage, int rank,
                         int first_peer, int peers, int64_t elements_each)
{
    struct boundary_message message;
    struct boundary boundary;
    struct boundary_piece *pieces;
    assert_true(boundary_message(program, stage, 0, true, false, 0, &message));
    assert_true(boundary_of(program, &message, 0, &boundary));
    assert_int_equal(boundary_pieces(arena, &boundary, rank, true, &pieces), peers);
    for (int i = 0; i < peers; i++) {
        assert_int_equal(pieces[i].peer, first_peer + i);
        assert_int_equal(pieces[i].part.elements, elements_each);
    }
}

// Two stages of the picture, one of the text and one of both: what it says goes past the stage of
// the text to ranks that lie behind it, each of which takes one of four sequences.
static void branches_have_as_many_ranks_as_they_are_given(void **state)
{
    enum { PLACES = 257, TOKENS = 256, WIDTH = 1408 };
    struct plan_case plan = base(*state, "two-towers-2b", 4);
    plan.workload.seq_len = TOKENS;
    plan.parallel.degree[AXIS_DP] = 2;
    plan.parallel.micro_batch = 2;
    plan.parallel.stage_ranks = (const int[]){2, 1, 1, 4};
    plan.parallel.stage_ranks_count = 4;
    const struct program *program = lower(*state, &plan);
    const int next[] = {1, 3, 3, -1};
    assert_non_null(program->shape.tree);
    for (int s = 0; s < 4; s++)
        assert_int_equal(program->shape.tree->next[s], next[s]);
    check_pieces(*state, program, 0, 0, 2, 1, 2 * PLACES * WIDTH);
    check_pieces(*state, program, 0, 1, 2, 1, 2 * PLACES * WIDTH);
    check_pieces(*state, program, 1, 2, 4, 4, PLACES * WIDTH);
    check_pieces(*state, program, 2, 3, 4, 4, TOKENS * WIDTH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_is_said),
        cmocka_unit_test(layers_are_shared_out_branch_by_branch),
        cmocka_unit_test(a_stage_runs_as_far_ahead_as_its_way_is_long),
        cmocka_unit_test(branches_have_as_many_ranks_as_they_are_given),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
