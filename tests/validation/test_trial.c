#include "plan/layout/rules.h"
#include "tests/support/test.h"
#include "validation/trial.h"

#include <math.h>

// A few rows of tests/validation: pipelined, sharded, zero bubble, with experts.
static const char *const IDS[] = {"seqsel-22B-seqsel",           "fms-fsdp-llama2_7b-a100-eager",
                                  "internlm-7b-tp2-z4-16",       "zb-1.5B-zb-2p-m24",
                                  "moezoo-h100-235b-tp2ep32pp8", "kempner-mfu-07-7b-tp4-fsdp2"};
enum { WANTED_COUNT = 6 };

static struct rows read_rows(struct arena *arena)
{
    struct rows rows, few = {ARENA_NEW(arena, struct row, WANTED_COUNT), 0};
    struct err err = {0};
    assert_true(rows_read(arena, "tests/validation/published.jsonl", &rows, &err));
    for (int i = 0; i < rows.count; i++) {
        for (int k = 0; k < WANTED_COUNT; k++) {
            if (strcmp(rows.items[i].id, IDS[k]) == 0) few.items[few.count++] = rows.items[i];
        }
    }
    assert_int_equal(few.count, WANTED_COUNT);
    return few;
}

static struct trials run(struct arena *arena, const struct rows *rows)
{
    struct trials trials;
    struct err err = {0};
    trials_ask(arena, rows, QUESTION_STATED, &trials);
    assert_true(trials_answer(arena, &trials, NULL, NULL, &err));
    return trials;
}

static void pins_are_kept(void **state)
{
    struct rows rows = read_rows(*state);
    struct trials trials = run(*state, &rows);
    assert_int_equal(trials.count, rows.count);
    for (int i = 0; i < trials.count; i++) {
        const struct trial *trial = &trials.items[i];
        const struct row_facts *facts = &trial->row->facts;
        assert_ptr_equal(trial->row, &rows.items[i]);
        assert_true(trial->answered);
        assert_null(trial->why_not);
        assert_int_equal(trial->parallel.degree[AXIS_DP], facts->dp);
        assert_int_equal(trial->parallel.degree[AXIS_TP], facts->tp);
        assert_int_equal(trial->parallel.zero, facts->zero_stage);
        assert_true(trial->prediction.step_s_low < trial->prediction.step_s_high);
    }
}

// A build of the row's release is asked, of the newest where its software is no release of the
// stack; a build that the stack has not is an error.
static void a_row_may_name_a_build(void **state)
{
    struct rows rows = read_rows(*state);
    int at = 0;
    while (strcmp(rows.items[at].id, "moezoo-h100-235b-tp2ep32pp8") != 0)
        at++;
    struct row *row = &rows.items[at];
    row->facts.software = "26.04.01";
    row->facts.build = "fp8-head";
    struct trials trials = run(*state, &rows);
    assert_true(trials.items[at].answered && trials.items[at].stack->narrow_head);
    assert_false(trials.items[at].stack->expert_graph);
    assert_true(trials.items[at].stack->gradient_bytes == 4);
    row->facts.software = "v25.04.02";
    row->facts.build = "fp8-head+bf16-gradients";
    trials_ask(*state, &rows, QUESTION_STATED, &trials);
    assert_true(trials.items[at].stack->narrow_head && trials.items[at].stack->expert_graph);
    assert_true(trials.items[at].stack->gradient_bytes == 2);
    row->facts.build = "fp7-head";
    trials_ask(*state, &rows, QUESTION_STATED, &trials);
    assert_null(trials.items[at].stack);
    assert_string_equal(trials.items[at].why_not,
                        "build: stack megatron-core has no build \"fp7-head\"");
}

// Operators that the row says are laid out otherwise, on a stack that lays single ones out.
static void a_row_may_say_how_operators_are_laid_out(void **state)
{
    struct rows rows = read_rows(*state);
    int at = 0;
    while (strcmp(rows.items[at].id, "kempner-mfu-07-7b-tp4-fsdp2") != 0)
        at++;
    struct trials trials = run(*state, &rows);
    const struct trial *trial = &trials.items[at];
    assert_true(trial->stack->gathers_each && stack_lays_out(trial->stack));
    assert_int_equal(trial->parallel.layout_count, 2);
    assert_string_equal(trial->parallel.layouts[1].operator, "head.loss");
    double peak_bytes = (double)trial->prediction.peak_bytes;
    assert_true(peak_bytes > 35.1e9 && peak_bytes < 1.06 * 35.1e9);  // published
    rows.items[at].facts.build = NULL;
    trials = run(*state, &rows);
    assert_false(trials.items[at].answered);
    assert_string_equal(trials.items[at].why_not,
                        "no plan is left: stack fsdp2 lays no operator out by itself");
}

static const struct trial *trial_named(const struct trials *trials, const char *id)
{
    int at = 0;
    while (strcmp(trials->items[at].row->id, id) != 0)
        at++;
    return &trials->items[at];
}

// How many layers each stage had is asked where the row says so, whatever the stack would do, and
// left to it by --coarse; what the model has not is an answer, not a plan.
static void a_row_may_say_how_layers_were_split(void **state)
{
    static const char LINE[] =
        "{\"id\": \"%s\", \"family\": \"made\", \"source\": \"s\", \"tier\": \"A\", \"gpus\": 8, "
        "\"gpus_per_node\": 8, \"nvlink_domain\": 8, \"intra_bytes_per_s\": 450e9, \"device\": "
        "\"h100-sxm5-80g\", \"stack\": \"eager\", \"model\": {\"layers\": 16, \"hidden\": 2048, "
        "\"heads\": 32, \"ffn_hidden\": 8192, \"ffn_gated\": true, \"vocab\": 131072, \"tied\": "
        "true}, \"seq_len\": 4096, \"global_batch\": 256, \"micro_batch\": 2, \"tp\": 1, \"pp\": "
        "2, "
        "\"dp\": 4, \"zero_stage\": 1, \"recompute\": \"none\", \"precision\": \"bf16\", "
        "\"schedule\": \"1f1b\", \"measured\": {\"iter_s\": 3}%s}\n";
    struct arena *arena = *state;
    struct err err = {0};
    struct rows rows;
    const char *text = arena_print(arena, LINE, "even", "");
    text =
        arena_print(arena, "%s%s", text, arena_print(arena, LINE, "said", ", \"stages\": [11, 5]"));
    text = arena_print(arena, "%s%s", text,
                       arena_print(arena, LINE, "short", ", \"stages\": [11, 4]"));
    text = arena_print(arena, "%s%s", text,
                       arena_print(arena, LINE, "words", ", \"stages\": \"flop\""));
    assert_true(rows_parse(arena, "made.jsonl", text, strlen(text), &rows, &err));
    struct trials trials = run(arena, &rows);
    const struct trial *even = trial_named(&trials, "even"), *said = trial_named(&trials, "said");
    assert_true(even->answered && said->answered);
    assert_int_equal(even->parallel.stage_layers_count, 0);
    assert_int_equal(said->parallel.stage_layers_count, 2);
    assert_int_equal(said->parallel.stage_layers[0], 11);
    assert_int_equal(said->parallel.stage_layers[1], 5);
    // The head weighs as four layers: without the split the last stage has 12 of 20.
    assert_true(said->prediction.step_s < 0.97 * even->prediction.step_s);
    assert_false(trial_named(&trials, "short")->answered);
    assert_non_null(strstr(trial_named(&trials, "short")->why_not, "--stages"));
    assert_non_null(strstr(trial_named(&trials, "words")->why_not, "$.stages: expected an array"));
    trials_ask(arena, &rows, QUESTION_COARSE, &trials);
    assert_int_equal(trial_named(&trials, "said")->pins.stage_layers_count, 0);
}

static void a_program_priced_again_takes_as_long(void **state)
{
    struct arena *arena = *state, scratch = {0};
    struct rows rows = read_rows(arena);
    struct trials trials = run(arena, &rows);
    struct err err = {0};
    const struct fabrics *fabrics = fabrics_load(arena, &err);
    for (int i = 0; i < trials.count; i++) {
        const struct trial *trial = &trials.items[i];
        struct trial_program *program = trial_program_new(arena, trial);
        const struct device *device = trial->cluster->nodes[0].device;
        struct device slow = *device;
        for (int p = 0; p < PRECISION_COUNT; p++) {
            slow.efficiency.gemm_ratio[p] /= 2;
        }
        size_t used_bytes = arena->used_bytes;
        double step_s = trial_program_step_s(program, &scratch, device, trial->stack, fabrics);
        double slow_s = trial_program_step_s(program, &scratch, &slow, trial->stack, fabrics);
        double again_s = trial_program_step_s(program, &scratch, device, trial->stack, fabrics);
        assert_true(step_s == trial->prediction.step_s);
        assert_true(slow_s > 1.1 * step_s);
        assert_true(again_s == step_s);
        assert_true(arena->used_bytes == used_bytes);
    }
    arena_free(&scratch);
}

static void an_answer_may_be_asked_for_again(void **state)
{
    struct arena *arena = *state;
    struct rows rows = read_rows(arena);
    struct trials trials = run(arena, &rows);
    struct err err = {0};
    const struct fabrics *fabrics = fabrics_load(arena, &err);
    struct trial *trial = &trials.items[0];
    double step_s = trial->prediction.step_s;
    struct stack slow = *trial->stack;
    slow.step_overhead_s += 1;
    trial->stack = &slow;
    trial_answer(arena, trial, fabrics, NULL);
    assert_true(trial->answered);
    assert_true(fabs(trial->prediction.step_s - step_s - 1) < 1e-6);
    assert_true(trial->prediction.step_s_high == 0);  // without bands
}

static void what_cannot_be_asked_says_why(void **state)
{
    struct arena *arena = *state;
    struct rows rows = read_rows(arena);
    rows.items[0].device = "abacus";
    rows.items[1].facts.dp = 7;
    rows.items[2].stack = "quipu";
    struct trials trials = run(arena, &rows);
    assert_false(trials.items[0].answered);
    assert_non_null(strstr(trials.items[0].why_not, "no device is called \"abacus\""));
    assert_false(trials.items[1].answered);
    assert_non_null(strstr(trials.items[1].why_not, "--dp 7"));
    assert_false(trials.items[2].answered);
    assert_non_null(strstr(trials.items[2].why_not, "quipu"));
    assert_true(trials.items[3].answered);
    // Asked again, what could not be asked is no crash.
    trial_answer(arena, &trials.items[0], NULL, NULL);
    assert_false(trials.items[0].answered);
    assert_non_null(trials.items[0].why_not);
}

static void coarse_questions_leave_details_to_the_stack(void **state)
{
    struct arena *arena = *state;
    struct rows rows = read_rows(arena);
    struct trials stated, coarse;
    trials_ask(arena, &rows, QUESTION_STATED, &stated);
    trials_ask(arena, &rows, QUESTION_COARSE, &coarse);
    int grouped = 0;
    for (int i = 0; i < rows.count; i++) {
        assert_false(coarse.items[i].pins.zero_group.set);
        assert_int_equal(coarse.items[i].pins.overlap, -1);
        assert_int_equal(coarse.items[i].pins.layout_count, 0);
        grouped += stated.items[i].pins.zero_group.set;
    }
    assert_int_equal(grouped, 3);  // InternEvo, sharding inside a node, and over all ranks
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pins_are_kept),
        cmocka_unit_test(a_row_may_name_a_build),
        cmocka_unit_test(a_row_may_say_how_operators_are_laid_out),
        cmocka_unit_test(a_row_may_say_how_layers_were_split),
        cmocka_unit_test(a_program_priced_again_takes_as_long),
        cmocka_unit_test(an_answer_may_be_asked_for_again),
        cmocka_unit_test(what_cannot_be_asked_says_why),
        cmocka_unit_test(coarse_questions_leave_details_to_the_stack),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
