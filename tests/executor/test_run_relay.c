#include "tests/support/test.h"

#include "tests/support/run_case.h"
#include "tests/support/run_draw.h"

// Relays: what tp gathers is handed on rank by rank (plan/lower/relay.h). Ranks compute what one
// does, in double precision, weights, gradients and losses, over models, micro-batches, context
// parallelism, pipelines that part B and W, ZeRO, recompute and grids; they move what was priced,
// task by task, and hold what was planned.

static const double TOLERANCE = 1e-12;

enum { SEQ = 8, BATCH = 8 };

struct relay_case {
    enum tp_kind kind;
    int tp, parts, dp, pp, cp, zero, micro_batch;
    enum recompute recompute;
    enum schedule_kind schedule;
};

static const struct relay_case CASES[] = {
    {TP_1D, 2, 2, 1, 1, 1, 0, 1, RECOMPUTE_NONE, SCHEDULE_1F1B},
    {TP_1D, 4, 4, 1, 1, 1, 0, 2, RECOMPUTE_NONE, SCHEDULE_1F1B},
    {TP_1D, 4, 2, 1, 1, 1, 0, 2, RECOMPUTE_FULL, SCHEDULE_1F1B},
    {TP_1D, 2, 4, 1, 1, 1, 0, 2, RECOMPUTE_SELECTIVE, SCHEDULE_1F1B},
    {TP_1D, 2, 2, 1, 1, 2, 0, 2, RECOMPUTE_NONE, SCHEDULE_1F1B},
    {TP_1D, 2, 2, 2, 1, 1, 3, 2, RECOMPUTE_NONE, SCHEDULE_1F1B},
    {TP_1D, 2, 2, 2, 1, 1, 2, 1, RECOMPUTE_FULL, SCHEDULE_1F1B},
    {TP_1D, 2, 2, 1, 2, 1, 0, 2, RECOMPUTE_NONE, SCHEDULE_ZB_H1},
    {TP_1D, 4, 2, 1, 2, 1, 0, 2, RECOMPUTE_NONE, SCHEDULE_GPIPE},
    {TP_3D, 8, 2, 1, 1, 1, 0, 4, RECOMPUTE_NONE, SCHEDULE_1F1B},
    {TP_2D, 4, 2, 2, 1, 1, 3, 2, RECOMPUTE_NONE, SCHEDULE_1F1B},
    {TP_2D_SUMMA, 4, 2, 1, 2, 1, 0, 4, RECOMPUTE_SELECTIVE, SCHEDULE_ZB_H1},
    {TP_2_5D, 8, 4, 1, 1, 1, 0, 8, RECOMPUTE_FULL, SCHEDULE_1F1B},
    {TP_2D_SUMMA, 4, 2, 1, 1, 1, 0, 8, RECOMPUTE_NONE, SCHEDULE_1F1B},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

static struct run_case case_of(const char *config, const struct relay_case *relay)
{
    struct run_case of = run_case_new(config, SEQ, BATCH);
    struct parallel *parallel = &of.parallel;
    parallel->tp_kind = relay->kind;
    parallel->degree[AXIS_TP] = relay->tp;
    parallel->degree[AXIS_DP] = relay->dp;
    parallel->degree[AXIS_PP] = relay->pp;
    parallel->degree[AXIS_CP] = relay->cp;
    parallel->zero = relay->zero;
    parallel->micro_batch = relay->micro_batch;
    parallel->recompute = relay->recompute;
    parallel->schedule = relay->schedule;
    parallel->sp = relay->kind == TP_1D;
    parallel->tp_relay = relay->parts;
    of.poison = true;
    return of;
}

static int count_relays(const struct program *program)
{
    int found = 0;
    for (int b = 0; b < program->block_count; b++) {
        for (int i = 0; i < program->blocks[b]->instr_count; i++) {
            const struct instr *instr = &program->blocks[b]->instrs[i];
            found += instr->relay && instr->collective;
        }
    }
    return found;
}

// Products of columns of what ranks have of the tokens.
static int count_columns(const struct program *program)
{
    int found = 0;
    for (int b = 0; b < program->block_count; b++) {
        const struct block_program *block = program->blocks[b];
        for (int i = 0; i < block->instr_count; i++) {
            const struct instr *instr = &block->instrs[i];
            if (!instr->rows || instr->dim == DIM_BATCH || instr->dim == DIM_SEQ) continue;
            int part = block->buffers[instr_part(instr)].tensor;
            found += block->block->tensors[part].role != TENSOR_PARAMETER;
        }
    }
    return found;
}

// Messages of pairs (plan/lower/relay_pair.h).
static int count_turns(const struct program *program)
{
    int found = 0;
    for (int b = 0; b < program->block_count; b++)
        for (int i = 0; i < program->blocks[b]->buffer_count; i++)
            found += program->blocks[b]->buffers[i].skew_axes != 0;
    return found;
}

// Each model in two of the cases.
static void a_relay_computes_what_one_rank_does(void **state)
{
    enum { EACH = 2 };
    int ran = 0, columns = 0;
    for (int m = 0; m < DRAWN_MODEL_COUNT; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case alone = run_case_new(run_draw_config(m), SEQ, BATCH);
        struct run_outcome *expected = run_case_done(*state, &alone);
        for (int e = 0; e < EACH; e++) {
            const struct relay_case *relay = &CASES[(EACH * m + e) % CASE_COUNT];
            struct run_case of = case_of(run_draw_config(m), relay);

            struct err why = {0};
            struct run_outcome *found = run_case_run(*state, &of, &why);
            if (!found) fail_msg("%s: %s", run_case_text(*state, &of), why.text);
            const char *difference = run_outcome_difference(*state, expected, found, TOLERANCE);
            if (!difference) difference = run_outcome_traffic(*state, found);
            if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
            assert_true(found->peak_bytes <= run_outcome_planned_bytes(found));
            ran += count_relays(found->program);
            columns += count_columns(found->program);
        }
        arena_reset(*state, mark);
    }
    assert_true(ran > 100 && columns > 20);
}

static const char NINE[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 36, \"hidden_size\": 18, "
    "\"intermediate_size\": 27, \"num_hidden_layers\": 1, \"num_attention_heads\": 3, "
    "\"num_key_value_heads\": 3, \"head_dim\": 6, \"tie_word_embeddings\": false}";
static const char TWELVE[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 36, \"hidden_size\": 36, "
    "\"intermediate_size\": 36, \"num_hidden_layers\": 1, \"num_attention_heads\": 12, "
    "\"num_key_value_heads\": 12, \"head_dim\": 6, \"tie_word_embeddings\": false}";

// What of layers is gathered or scattered whole.
static int count_whole(const struct program *program)
{
    int found = 0;
    for (int b = 0; b < program->block_count; b++) {
        const struct block_program *block = program->blocks[b];
        for (int i = 0; i < block->instr_count && block->block->role == BLOCK_LAYER; i++)
            found += block->instrs[i].collective == COLLECTIVE_ALL_GATHER ||
                     block->instrs[i].collective == COLLECTIVE_REDUCE_SCATTER;
    }
    return found;
}

// SUMMA streams both operands from three turns on, of which turns have a sense and an order, and
// the gradients of matrices over several micro-batches: on 3 x 3 ranks, and in
// pieces of 2 x 3 (one layer and two), 2 x 4 and 3 x 4, six, four and twelve turns.
static void a_grid_takes_turns(const char *config, enum tp_kind kind, int tp, int parts,
                               int micro_batch, void **state)
{
    static const enum recompute RECOMPUTES[] = {RECOMPUTE_NONE, RECOMPUTE_FULL};
    struct run_case alone = run_case_new(config, SEQ, 3 * micro_batch);
    alone.parallel.micro_batch = 1;
    struct run_outcome *expected = run_case_done(*state, &alone);
    for (int k = tp != 9; k < 2; k++) {
        struct relay_case relay = {kind,          tp,           parts, 1, 1, 1, 0, micro_batch,
                                   RECOMPUTES[k], SCHEDULE_1F1B};
        struct run_case of = case_of(config, &relay);
        of.global_batch = 3 * micro_batch;
        struct err why = {0};
        struct run_outcome *found = run_case_run(*state, &of, &why);
        if (!found) fail_msg("%s: %s", run_case_text(*state, &of), why.text);
        const char *difference = run_outcome_difference(*state, expected, found, TOLERANCE);
        if (!difference) difference = run_outcome_traffic(*state, found);
        if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
        assert_true(found->peak_bytes <= run_outcome_planned_bytes(found));
        assert_true(count_turns(found->program) > 0 && count_whole(found->program) == 0);
    }
}

static void a_grid_of_nine_takes_three_turns(void **state)
{
    a_grid_takes_turns(NINE, TP_2D_SUMMA, 9, 3, 3, state);
}

static void a_grid_of_six_takes_six_turns(void **state)
{
    a_grid_takes_turns(TWELVE, TP_2D_SUMMA, 6, 3, 2, state);
    a_grid_takes_turns(TWELVE, TP_2_5D_SUMMA, 12, 3, 4, state);
}

static void a_grid_of_eight_takes_four_turns(void **state)
{
    a_grid_takes_turns(TWELVE, TP_2D_SUMMA, 8, 4, 2, state);
}

static void a_grid_of_twelve_takes_twelve_turns(void **state)
{
    a_grid_takes_turns(TWELVE, TP_2D_SUMMA, 12, 4, 3, state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_relay_computes_what_one_rank_does),
        cmocka_unit_test(a_grid_of_nine_takes_three_turns),
        cmocka_unit_test(a_grid_of_six_takes_six_turns),
        cmocka_unit_test(a_grid_of_eight_takes_four_turns),
        cmocka_unit_test(a_grid_of_twelve_takes_twelve_turns),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
