#include "tests/support/test.h"

#include "tests/support/draw.h"
#include "tests/support/run_case.h"

// Instructions that the plan joins run as one call each, as many as are priced so, and compute what
// they compute by themselves; on one rank and on many.

static const char GPT2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 37, \"n_embd\": 16, \"n_layer\": 4, \"n_head\": 4, "
    "\"n_positions\": 16, \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1}";
static const char QWEN3[] =
    "{\"model_type\": \"qwen3\", \"vocab_size\": 37, \"hidden_size\": 16, \"intermediate_size\": "
    "24, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 4, \"tie_word_embeddings\": false}";
static const char MIXTRAL[] =
    "{\"model_type\": \"mixtral\", \"vocab_size\": 37, \"hidden_size\": 16, \"intermediate_size\": "
    "24, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"num_local_experts\": 4, \"num_experts_per_tok\": 2, \"tie_word_embeddings\": false}";

enum { SEQ = 16, BATCH = 8 };

// Instructions of the first stage that run with one before them, as the program has them.
static int64_t planned_joins(const struct run_outcome *outcome)
{
    const struct script *script = outcome->scripts[0];
    int64_t joined = 0;
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        if (task->kind != TASK_INSTR) continue;
        const struct instr *instr = &outcome->program->blocks[task->block]->instrs[task->instr];
        joined += instr->joined ? instr->joined - 1 : 0;
    }
    return joined;
}

// Calls of the back end for compute and what is left to run of operators, all ranks and one step.
static double operators_run(const struct run_outcome *outcome)
{
    double count = 0;
    for (int k = 0; k < outcome->kind_count; k++)
        count += outcome->kinds[k].group == RUN_OPERATOR ? outcome->kinds[k].count : 0;
    return count;
}

struct joined_case {
    int dp, tp, cp, pp, zero;
    bool sp, unclipped;
    enum recompute recompute;
};
static const struct joined_case CASES[] = {
    {.dp = 1},
    {.dp = 2, .zero = 3},
    {.dp = 2, .unclipped = true},
    {.tp = 2, .sp = true, .recompute = RECOMPUTE_FULL},
    {.tp = 2, .recompute = RECOMPUTE_SELECTIVE},
    {.cp = 2, .pp = 2},
};

static struct run_case case_of(const char *model, const struct joined_case *from)
{
    struct run_case of = run_case_new(model, SEQ, BATCH);
    struct parallel *parallel = &of.parallel;
    if (from->dp) parallel->degree[AXIS_DP] = from->dp;
    if (from->tp) parallel->degree[AXIS_TP] = from->tp;
    if (from->cp) parallel->degree[AXIS_CP] = from->cp;
    if (from->pp) parallel->degree[AXIS_PP] = from->pp;
    parallel->zero = from->zero;
    parallel->sp = from->sp;
    parallel->recompute = from->recompute;
    of.unclipped = from->unclipped;
    if (from->unclipped) of.clip_norm = 0;
    of.dropout = true;
    of.poison = false;
    return of;
}

static void groups_compute_what_their_members_do(void **state)
{
    static const char *const MODELS[] = {GPT2, QWEN3, MIXTRAL};
    for (size_t m = 0; m < sizeof MODELS / sizeof *MODELS; m++) {
        // Each model alone, and the other plans in turn.
        for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++) {
            if (c > 0 && c % 3 != m) continue;
            struct arena_mark mark = arena_mark(*state);
            struct run_case of = case_of(MODELS[m], &CASES[c]);
            const struct run_outcome *joined = run_case_done(*state, &of);
            struct run_case apart = of;
            apart.operators_apart = true;
            const struct run_outcome *expected = run_case_done(*state, &apart);
            const char *difference = run_outcome_difference(*state, expected, joined, 1e-11);
            if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
            assert_int_equal(expected->joined_count, 0);
            assert_true(joined->joined_count > 0);
            assert_int_equal(joined->joined_count, planned_joins(joined));
            if (CASES[c].pp == 0) {
                double ranks = (double)parallel_rank_count(&of.parallel);
                assert_true(operators_run(expected) - operators_run(joined) ==
                            ranks * (double)joined->joined_count);
            }
            // Memory is that of the plan, whichever way its operators run.
            assert_int_equal(joined->peak_bytes, expected->peak_bytes);
            arena_reset(*state, mark);
        }
    }
}

// One rank with all of the model against many with parts of it.
static void groups_do_not_depend_on_the_plan(void **state)
{
    struct run_case serial = case_of(GPT2, &CASES[0]);
    const struct run_outcome *expected = run_case_done(*state, &serial);
    for (size_t c = 1; c < sizeof CASES / sizeof *CASES; c++) {
        struct run_case of = case_of(GPT2, &CASES[c]);
        serial.clip_norm = of.clip_norm;
        if (CASES[c].unclipped) continue;
        const char *difference =
            run_outcome_difference(*state, expected, run_case_done(*state, &of), 1e-11);
        if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
    }
}

static const char LLAMA[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 37, \"hidden_size\": 16, \"intermediate_size\": "
    "24, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"tie_word_embeddings\": false}";
static const char QWEN2[] =
    "{\"model_type\": \"qwen2\", \"vocab_size\": 37, \"hidden_size\": 16, \"intermediate_size\": "
    "24, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2}";

// GEMMs of a plan that run as part of one.
static int count_merged(const struct program *program)
{
    int count = 0;
    for (int b = 0; b < program->block_count; b++) {
        for (int i = 0; i < program->blocks[b]->instr_count; i++)
            count += program->blocks[b]->instrs[i].merge > 0;
    }
    return count;
}

// Plans in which GEMMs that share their input are one against plans in which each is its own.
static void merged_gemms_compute_what_they_do_alone(void **state)
{
    static const char *const MODELS[] = {LLAMA, QWEN2, QWEN3, GPT2};
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++) {
        for (size_t m = 0; m < sizeof MODELS / sizeof *MODELS; m++) {
            if (c > 0 && c % 4 != m) continue;
            struct arena_mark mark = arena_mark(*state);
            struct run_case of = case_of(MODELS[m], &CASES[c]);
            const struct run_outcome *merged = run_case_done(*state, &of);
            assert_int_equal(merged->joined_count, planned_joins(merged));
            of.without_joins = 1u << JOIN_MERGED;
            const struct run_outcome *alone = run_case_done(*state, &of);
            // Of GPT-2 with context parallelism nothing is left to merge.
            bool has_none = CASES[c].cp > 1 && MODELS[m] == GPT2;
            assert_true(has_none ? count_merged(merged->program) == 0
                                 : count_merged(merged->program) > 0);
            assert_int_equal(count_merged(alone->program), 0);
            const char *difference = run_outcome_difference(*state, alone, merged, 1e-12);
            if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
            assert_true(merged->peak_bytes <= alone->peak_bytes);
            arena_reset(*state, mark);
        }
    }
}

// The first three forward GEMMs of a GPT-2 layer are one, with their biases; the others end in a
// sum, with dropout those of the two whose result is added to the residual in that of the bias;
// what drops and adds goes on into the norm.
static void a_gpt2_layer_has_these_groups(void **state)
{
    struct run_case of = case_of(GPT2, &CASES[0]);
    const struct run_outcome *found = run_case_done(*state, &of);
    const struct block_program *layer = NULL;
    for (int b = 0; b < found->program->block_count; b++) {
        if (found->program->blocks[b]->block->role == BLOCK_LAYER)
            layer = found->program->blocks[b];
    }
    assert_non_null(layer);
    int sums = 0, rows = 0, merged = 0;
    for (int i = 0; i < layer->phase_first[PHASE_BACKWARD]; i++) {
        const struct instr *instr = &layer->instrs[i];
        if (!instr->joined) continue;
        bool is_sum = instr[1].join == JOIN_SUM;
        sums += is_sum;
        rows += instr[1].join == JOIN_ROWS;
        if (instr[1].join == JOIN_MERGED) merged += instr->joined;
        // A product that is added and nothing else is written nowhere.
        if (is_sum) assert_int_equal(instr->passing, 1);
        if (is_sum) assert_int_equal(instr->kept_bytes, instr->write_bytes);
    }
    assert_int_equal(sums, 3);
    assert_int_equal(merged, 6);
    assert_int_equal(rows, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_compute_what_their_members_do),
        cmocka_unit_test(groups_do_not_depend_on_the_plan),
        cmocka_unit_test(merged_gemms_compute_what_they_do_alone),
        cmocka_unit_test(a_gpt2_layer_has_these_groups),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
