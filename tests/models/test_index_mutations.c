#include "tests/support/test.h"

#include "tests/support/index_sets.h"
#include "tests/support/mutate.h"
#include "tests/support/random_case.h"
#include "tests/support/tiny_models.h"

// A proof that can fail: each collective of some random blocks is removed, doubled, or changed, and
// the brute force over index sets sees every one of them.

enum { CASES = 3, FEW = 10, MANY = 40, MOST = 120 };

// A gradient that is only summed up into those of parameters may as well stay in parts: they are
// reduced at the end of the step.
static bool is_idle(const struct block_program *program, int at)
{
    int output = program->instrs[at].outputs[0];
    if (program->instrs[at].collective != COLLECTIVE_REDUCE_SCATTER) return false;
    if (program->buffers[output].external) return false;
    for (int i = at + 1; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        for (int n = 0; n < instr->input_count; n++) {
            bool sums = instr->kind == OP_REDUCE || instr->kind == OP_GATHER_BACKWARD;
            if (instr->inputs[n] == output && !(sums && instr->phase == PHASE_WEIGHT)) return false;
        }
    }
    return true;
}

static int check_mutants(struct arena *arena, struct draw *draw, const struct random_case *drawn,
                         int at, int counts[MUTATION_COUNT])
{
    int missed = 0;
    for (int mutation = 0; mutation < MUTATION_COUNT; mutation++) {
        struct arena_mark mark = arena_mark(arena);
        struct sets_case task = random_case_sets(drawn);
        bool is_harmless = mutation == MUTATION_REMOVE && is_idle(drawn->program, at);
        if (is_harmless) continue;
        task.program =
            mutate(arena, draw, &drawn->mesh, drawn->program, at, (enum mutation)mutation);
        if (task.program) {
            struct sets_result result = sets_check(arena, &task);
            counts[mutation]++;
            if (result.violation_count == 0) {
                const struct instr *instr = &drawn->program->instrs[at];
                int tensor = drawn->program->buffers[instr->inputs[0]].tensor;
                printf("# nobody saw instruction %d, %s of %s over axes %x, %s\n", at,
                       collective_name(instr->collective),
                       tensor < 0 ? "a flat buffer" : drawn->program->block->tensors[tensor].name,
                       instr->axes, mutation_name((enum mutation)mutation));
                missed++;
            }
        }
        arena_reset(arena, mark);
    }
    return missed;
}

// Each collective of a case, changed in each way.
static int check_case(struct arena *arena, struct draw *draw, const struct random_case *drawn,
                      int number, int counts[MUTATION_COUNT])
{
    struct sets_case task = random_case_sets(drawn);
    int missed = 0;
    assert_string_equal(sets_check(arena, &task).text, "");
    for (int at = 0; at < drawn->program->instr_count; at++) {
        if (!drawn->program->instrs[at].collective) continue;
        missed += check_mutants(arena, draw, drawn, at, counts);
    }
    if (missed > 0) random_case_print(drawn, number);
    return missed;
}

static void no_collective_can_be_changed_unseen(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("mutations", 20261122);
    const char *wanted = getenv("MESHWRIGHT_CASES");
    int count = wanted ? atoi(wanted) : CASES, counts[MUTATION_COUNT] = {0}, missed = 0;
    for (int i = 0; i < count; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct random_case *drawn = ARENA_NEW(arena, struct random_case, 1);
        random_case_draw(arena, &draw, drawn);
        missed += check_case(arena, &draw, drawn, i, counts);
        arena_reset(arena, mark);
    }
    for (int mutation = 0; mutation < MUTATION_COUNT; mutation++) {
        printf("# %d collectives %s\n", counts[mutation], mutation_name((enum mutation)mutation));
        assert_true(counts[mutation] > 0);
    }
    assert_int_equal(missed, 0);
}

// Each row of techniques that has more than one axis, or two sequence dims, by itself: what draws
// seldom have.
static const struct row {
    enum tp_kind kind;
    int tp, relay, micro_batch;
    int video;  // ranks that split frames and places in turn; 0: tp of text
} ROWS[] = {
    {TP_2D, 6, 0, 2, 0},       {TP_2_5D, 12, 0, 4, 0},     {TP_3D, 8, 0, 4, 0},
    {TP_2D_SUMMA, 4, 2, 2, 0}, {TP_2D_SUMMA, 9, 9, 3, 0},  {TP_2_5D_SUMMA, 8, 0, 4, 0},
    {TP_2D_SUMMA, 8, 4, 2, 0}, {TP_2D_SUMMA, 12, 4, 3, 0}, {TP_1D, 1, 0, 1, 2},
};

static const char VIDEO[] =
    "{\"model_type\": \"STDiT\", \"depth\": 1, \"hidden_size\": 4, \"num_heads\": 2, "
    "\"input_size\": [2, 4, 4], \"model_max_length\": 2, \"caption_channels\": 4}";

// A case that is worth its time; of grids with unlike sides one whose pairs cut pieces.
static bool is_fit(const struct block_program *program, const struct row *row)
{
    int count = 0, pieces = 0, most = row->kind == TP_2D_SUMMA && row->relay ? MOST : MANY;
    for (int i = 0; i < program->instr_count; i++)
        count += program->instrs[i].collective != COLLECTIVE_NONE;
    for (int b = 0; b < program->buffer_count; b++)
        pieces += program->buffers[b].pieces > 0;
    bool wants_pieces = row->relay && (row->tp == 8 || row->tp == 12);
    return count >= FEW && count < most && (pieces > 0 || !wants_pieces);
}

static void no_collective_of_a_row_can_be_changed_unseen(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("mutations of rows", 20261130);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const struct row *row = &ROWS[i];
        struct arena_mark mark = arena_mark(arena);
        struct random_case *drawn = ARENA_NEW(arena, struct random_case, 1);
        struct import_options options = {.flash = true};
        struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                    .tp_kind = row->kind,
                                    .tp_relay = row->relay,
                                    .micro_batch = row->micro_batch,
                                    .vpp = 1,
                                    .cp_kind = row->video ? CP_AXIAL : CP_RING,
                                    .recompute_layers = -1};
        parallel.degree[AXIS_TP] = row->tp;
        const struct graph *graph = row->video ? tiny_graph(arena, VIDEO, &options) : NULL;
        if (graph) parallel.degree[AXIS_CP] = row->video;
        do {
            random_case_draw_row(arena, &draw, &parallel,
                                 graph ? &graph->blocks[graph->sequence[1]] : NULL,
                                 graph ? graph->frames * graph->places : row->micro_batch, drawn);
        } while (!graph && !is_fit(drawn->program, row));
        int counts[MUTATION_COUNT] = {0};
        int missed = check_case(arena, &draw, drawn, (int)i, counts);
        printf("# %s of %d: %d removed, %d doubled\n", tp_kind_name(row->kind), row->tp,
               counts[MUTATION_REMOVE], counts[MUTATION_DOUBLE]);
        assert_true(missed == 0 && counts[MUTATION_REMOVE] > 0);
        arena_reset(arena, mark);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_collective_can_be_changed_unseen),
        cmocka_unit_test(no_collective_of_a_row_can_be_changed_unseen),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
