#include "tests/support/oracle_bound.h"
#include "tests/support/proof_case.h"
#include "tests/support/test.h"

#include "cli/plan_options.h"
#include "core/units.h"
#include "plan/passes.h"
#include "reports/table/plan_table.h"

// What search says is proven is not beaten by a search that is allowed less. Questions that once
// were, drawn ones, and answers that must not get worse when more is allowed.
// tests/support/draw_proofs.c draws as many as one has time for.

static void print_line(void *context, const char *text)
{
    (void)context;
    printf("# %s\n", text);
}

static void print_nothing(void *context, const char *text)
{
    (void)context;
    (void)text;
}

// The same, but for plans that the wider answer says it left out.
static void assert_not_beaten_within(void **state, const struct proof_question *question,
                                     const struct search_result *wide,
                                     const struct search_result *narrow)
{
    double value = proof_value(&question->request, narrow);
    const char *differs = "all";
    if (wide->best_count > 0 && narrow->best_count > 0)
        differs =
            proof_differences(*state, question, &wide->best[0].parallel, &narrow->best[0].parallel);
    if (!proof_is_excused(wide, differs, value)) assert_not_beaten(question, wide, narrow);
}

static void more_chunks_do_not_beat_a_proof(void **state)
{
    const struct question_words examples[] = {
        proof_words("deepseek-v2-lite", "dgx-a100-80g-x8", "meshwright", 4096, 32),
        proof_words("llama-7b", "l40s-pcie8-x4", "meshwright", 2048, 32),
        proof_words("gpt3-1.3b", "p4de-efa-x16", "internevo", 4096, 64),
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        struct proof_question question = proof_make(*state, &examples[i]);
        struct pins pins = pins_none();
        struct search_result free = proof_find(*state, &question, &pins, false);
        pins_set(&pins, CHOICE_VPP, 2, 8);
        struct search_result chunked = proof_find(*state, &question, &pins, false);
        assert_not_beaten(&question, &free, &chunked);
    }
}

static void forbidding_the_winners_schedule_does_not_beat_a_proof(void **state)
{
    struct question_words words =
        proof_words("qwen1.5-moe-a2.7b", "p4d-efa-x8", "colossalai", 512, 32);
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    struct search_result free = proof_find(*state, &question, &pins, false);
    pins.forbidden[0].key = choice_name(CHOICE_SCHEDULE);
    pins.forbidden[0].value = SCHEDULE_1F1B;
    pins.forbidden_count = 1;
    struct search_result other = proof_find(*state, &question, &pins, false);
    assert_not_beaten(&question, &free, &other);
}

// Experts that ep leaves whole on several ranks are sharded over those, dp and cp or not.
static void replicated_experts_are_sharded_where_nothing_else_is(void **state)
{
    struct question_words words = proof_words("gpt-oss-20b", "dgx-h100", "meshwright", 4096, 8);
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    pins_set(&pins, CHOICE_TP, 8, 8);
    pins_set(&pins, CHOICE_EP, 4, 4);
    struct search_result free = proof_find(*state, &question, &pins, false);
    pins_set(&pins, CHOICE_ZERO, 1, 1);
    struct search_result sharded = proof_find(*state, &question, &pins, false);
    assert_true(sharded.best_count > 0);
    assert_true(free.best_count > 0);
    assert_not_beaten(&question, &free, &sharded);
}

static void the_bound_holds_in_fp32(void **state)
{
    struct question_words words = proof_words("qwen3-8b", "dgx-h100-x4", "meshwright", 32768, 64);
    words.workload.precision = PRECISION_FP32;
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    struct search_result pruned = proof_find(*state, &question, &pins, false);
    pins_set(&pins, CHOICE_TP, 1, 1);
    pins_set(&pins, CHOICE_CP, 4, 4);
    pins_set(&pins, CHOICE_ZERO, 3, 3);
    struct search_result pinned = proof_find(*state, &question, &pins, true);
    assert_not_beaten(&question, &pruned, &pinned);
}

static void zero_bubble_without_a_pipeline_and_norms_alone_do_not_beat_a_proof(void **state)
{
    struct question_words words = proof_words("llama-2-7b", "dgx-h100", "meshwright", 4096, 64);
    struct proof_question question = proof_make(*state, &words);
    struct pins none = pins_none();
    struct search_result free = proof_find(*state, &question, &none, false);
    for (int schedule = 0; schedule < SCHEDULE_KIND_COUNT; schedule++) {
        struct pins pins = pins_none();
        struct search_result found = {0};
        pins_set(&pins, CHOICE_PP, 1, 1);
        pins_set(&pins, CHOICE_SCHEDULE, schedule, schedule);
        if (proof_ask(*state, &question, &pins, false, &found))
            assert_not_beaten(&question, &free, &found);
    }
    for (unsigned classes = 0; classes < 1u << OP_CLASS_COUNT; classes += 2) {
        if (classes == 1u << OP_CLASS_ATTENTION) continue;
        struct pins pins = pins_none();
        struct search_result found = {0};
        int value = recompute_value(RECOMPUTE_SELECTIVE, classes);
        pins_set(&pins, CHOICE_RECOMPUTE, value, value);
        if (proof_ask(*state, &question, &pins, false, &found))
            assert_not_beaten(&question, &free, &found);
    }
}

// Stages of no layers, the embedding alone, among them.
static void the_winner_pinned_back_is_itself(void **state)
{
    struct question_words examples[] = {
        proof_words("gpt2", "dgx-a100-80g", "meshwright", 1024, 512),
        proof_words("gpt2", "dgx-a100-80g", "megatron-core", 1024, 96),
        proof_words("bert-base", "a100-pcie8", "meshwright", 512, 64),
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        struct proof_question question = proof_make(*state, &examples[i]);
        struct pins pins = pins_none();
        pins_set(&pins, CHOICE_TP, 1, 1);
        pins_set(&pins, CHOICE_PP, 4, 4);
        struct search_result free = proof_find(*state, &question, &pins, false);
        const struct candidate *winner = &free.best[0];
        pins.stage_layers = winner_stages(*state, &question, &winner->parallel);
        pins.stage_layers_count = 4;
        struct search_result back = proof_find(*state, &question, &pins, false);
        assert_true(back.best_count > 0);
        const char *differs =
            proof_differences(*state, &question, &winner->parallel, &back.best[0].parallel);
        // Of two caps that take equally long the smaller is taken, of those that are searched: the
        // free search leaves some out beside stages that it found last, and says so.
        if (back.best[0].parallel.in_flight >= winner->parallel.in_flight)
            assert_string_equal(differs, "");
        assert_true(back.best[0].closed_form_s == winner->closed_form_s);
    }
}

// Whoever asks for the smallest plan reads what that plan takes, not what the fastest does.
static void the_smallest_plan_prints_its_own_time(void **state)
{
    struct question_words words = proof_words("llama-2-7b", "dgx-a100-80g", "meshwright", 4096, 64);
    words.objective = OBJECTIVE_MEMORY;
    struct proof_question question = proof_make(*state, &words);
    const struct search_request *request = &question.request;
    struct search_result result = proof_find(*state, &question, &request->pins, false);
    struct evaluation_request asked = {.model = request->model,
                                       .cluster = request->cluster,
                                       .stack = request->stack,
                                       .fabrics = request->fabrics,
                                       .workload = request->workload,
                                       .parallel = result.best[0].parallel};
    struct evaluation best = {0};
    struct arena scratch = {0};
    struct err err = {0};
    assert_true(evaluate(*state, &scratch, &asked, &best, &err));
    const char *text = plan_table_text(*state, request, &result, &best);
    const char *sentence = strstr(text, "closed form");
    assert_non_null(sentence);
    const char *own =
        arena_print(*state, "closed form %s)", units_seconds(*state, result.best[0].closed_form_s));
    assert_true(strncmp(sentence, own, strlen(own)) == 0);
    arena_free(&scratch);
}

// Wider ranges, one inside the next, up to none at all.
static void a_wider_range_is_never_slower(void **state)
{
    static const enum choice CHOICES[] = {CHOICE_TP,          CHOICE_PP,   CHOICE_VPP,
                                          CHOICE_MICRO_BATCH, CHOICE_ZERO, CHOICE_DP};
    struct question_words examples[] = {
        proof_words("llama-7b", "l40s-pcie8-x2", "megatron-core", 2048, 48),
        proof_words("gpt2-medium", "a100-pcie8", "megatron-core", 1024, 32),
    };
    examples[1].objective = OBJECTIVE_MEMORY;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        struct proof_question question = proof_make(*state, &examples[i]);
        for (size_t k = 0; k < sizeof CHOICES / sizeof *CHOICES; k++) {
            struct search_result narrow = {0}, wide = {0};
            for (int most = 2; most <= 32; most *= 4) {
                struct pins pins = pins_none();
                pins_set(&pins, CHOICES[k], 1, most);
                if (most == 32) pins = pins_none();
                if (!proof_ask(*state, &question, &pins, false, &wide)) continue;
                if (narrow.best_count > 0)
                    assert_not_beaten_within(state, &question, &wide, &narrow);
                narrow = wide;
            }
        }
    }
}

// As a shell would.
static int split(char *line, char *words[], int most)
{
    int count = 0;
    for (char *word = strtok(line, " "); word && count < most; word = strtok(NULL, " "))
        words[count++] = word;
    return count;
}

static void assert_pins_equal(const char *command, const struct pins *a, const struct pins *b)
{
    bool same = a->search_offload == b->search_offload &&
                a->stage_layers_count == b->stage_layers_count &&
                a->forbidden_count == b->forbidden_count;
    for (int i = 0; i < CHOICE_COUNT; i++) {
        struct int_range one = pins_get(a, (enum choice)i), other = pins_get(b, (enum choice)i);
        same &= one.set == other.set && (!one.set || one.low == other.low);
        same &= !one.set || one.high == other.high;
    }
    for (int i = 0; i < a->stage_layers_count && same; i++)
        same = a->stage_layers[i] == b->stage_layers[i];
    for (int i = 0; i < a->forbidden_count && same; i++)
        same = a->forbidden[i].value == b->forbidden[i].value;
    if (!same) fail_msg("%s: other pins", command);
}

// A violation is reported by command lines: they must ask what was asked.
static void printed_command_lines_ask_the_same(void **state)
{
    enum { WORDS = 200, ROUNDS = 300 };
    struct question_words words =
        proof_words("qwen1.5-moe-a2.7b", "p4d-efa-x8", "meshwright", 512, 32);
    words.offload_auto = true;
    struct proof_question question = proof_make(*state, &words);
    struct search_result answer = proof_find(*state, &question, &question.request.pins, false);
    struct draw draw = draw_start("command lines", 5);
    for (int i = 0; i < ROUNDS; i++) {
        struct pins pins, read;
        const char *keys;
        struct err err = {0};
        if (!pins_draw(*state, &draw, (enum pins_kind)(i % PINS_KIND_COUNT), &question,
                       &answer.best[0].parallel, &pins, &keys))
            continue;
        // No option says what is so where nothing is said.
        if (pins.bucket_bytes.low == 0) pins.bucket_bytes.set = false;
        if (pins.passes == PASS_ALL) pins.passes = -1;
        pins.search_offload &= !pins.offload.set;
        const char *command = question_command(*state, &question, &pins, false);
        char *argv[WORDS];
        int argc = split(arena_copy(*state, command), argv, WORDS);
        struct plan_arguments arguments = plan_arguments_default();
        struct option options[PLAN_OPTION_COUNT + 1] = {{0}};
        plan_options(&arguments, options);
        bool ok = options_parse(options, argc - 1, argv + 1, &err) &&
                  plan_pins(*state, &arguments, &read, &err);
        if (!ok) fail_msg("%s: %s", command, err.text);
        assert_pins_equal(command, &pins, &read);
    }
}

// The instrument itself: an answer that is not the best is found out.
static void a_false_proof_is_found_out(void **state)
{
    enum { SAMPLES = 60 };
    struct question_words words = proof_words("llama-2-7b", "dgx-h100", "meshwright", 4096, 64);
    struct proof_question question = proof_make(*state, &words);
    struct search_result answer = proof_find(*state, &question, &question.request.pins, false);
    double claim = proof_claim(&question.request, &answer);
    struct proof_counts counts = {0};
    const struct proof_report report = {
        .counts = &counts, .line = print_nothing, .place = "a false proof", .samples = SAMPLES};
    struct draw draw = draw_start("false proof", 3);
    struct candidate slower = answer.best[0];
    slower.closed_form_s *= 1.1;
    answer.best = &slower;
    answer.best_count = 1;
    answer.bound_s = slower.closed_form_s;
    answer.status = SEARCH_OPTIMAL;
    proof_try_oracle(*state, &draw, &question, &answer, &report);
    assert_true(counts.violations > 0);
    counts = (struct proof_counts){0};
    slower.closed_form_s = claim / 10;
    proof_try_oracle(*state, &draw, &question, &answer, &report);
    assert_true(counts.violations > 0);
}

// The oracle's bound is no empty one: plain questions come near it, and nothing below it.
static void the_oracle_knows_most_of_a_step(void **state)
{
    const struct question_words examples[] = {
        proof_words("llama-2-7b", "dgx-h100", "meshwright", 4096, 64),
        proof_words("gpt3-13b", "dgx-a100-80g-x4", "megatron-core", 2048, 128),
        proof_words("mixtral-8x7b", "dgx-h100-x4", "megatron-core", 4096, 256),
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        struct proof_question question = proof_make(*state, &examples[i]);
        const struct search_request *request = &question.request;
        struct search_result answer = proof_find(*state, &question, &request->pins, false);
        const struct oracle_question oracle = {.model = request->model,
                                               .cluster = request->cluster,
                                               .stack = request->stack,
                                               .fabrics = request->fabrics,
                                               .workload = request->workload,
                                               .graph = question.graph};
        double best_s = answer.best[0].closed_form_s, least_s = oracle_step_s(&oracle);
        double plan_s = oracle_plan_s(&oracle, &answer.best[0].parallel);
        assert_true(least_s <= plan_s && plan_s <= best_s && best_s < 4 * least_s);
        assert_true(oracle_bytes(&oracle) <= (double)answer.best[0].memory.reserved_bytes);
        assert_true(oracle_mfu(&oracle, best_s) < 1);
        assert_true(oracle_mfu(&oracle, least_s) > 0.8);
    }
}

static void drawn_proofs_hold(void **state)
{
    enum { RANKS_MOST = 24, SAMPLES = 8 };
    const char *wanted = getenv("MESHWRIGHT_CASES");
    int questions = wanted ? atoi(wanted) : 15;
    struct draw draw = draw_start("proof", 16);
    struct proof_counts counts = {0};
    (void)state;
    for (int i = 0; i < questions; i++) {
        struct arena arena = {0};
        struct proof_question question;
        // Classes of operators are moved by an integer program that takes what time it wants.
        while (!question_draw(&arena, &draw, RANKS_MOST, &question) ||
               question.request.pins.search_offload)
            arena_free(&arena);
        const struct proof_report report = {.counts = &counts,
                                            .line = print_line,
                                            .place = "tests/planner/test_proof.c",
                                            .exhaustive_most = 20000,
                                            .samples = SAMPLES};
        proof_try(&arena, &draw, &question, &report);
        arena_free(&arena);
    }
    printf("# %d questions, %d answered for certain, %d of them proven, %d checks, %d samples\n",
           counts.questions, counts.certain, counts.proven, counts.checks, counts.samples);
    assert_true(counts.certain >= questions / 3);
    assert_int_equal(counts.violations, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_chunks_do_not_beat_a_proof),
        cmocka_unit_test(forbidding_the_winners_schedule_does_not_beat_a_proof),
        cmocka_unit_test(replicated_experts_are_sharded_where_nothing_else_is),
        cmocka_unit_test(the_bound_holds_in_fp32),
        cmocka_unit_test(zero_bubble_without_a_pipeline_and_norms_alone_do_not_beat_a_proof),
        cmocka_unit_test(the_winner_pinned_back_is_itself),
        cmocka_unit_test(the_smallest_plan_prints_its_own_time),
        cmocka_unit_test(a_wider_range_is_never_slower),
        cmocka_unit_test(printed_command_lines_ask_the_same),
        cmocka_unit_test(a_false_proof_is_found_out),
        cmocka_unit_test(the_oracle_knows_most_of_a_step),
        cmocka_unit_test(drawn_proofs_hold),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
