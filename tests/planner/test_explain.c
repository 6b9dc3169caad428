// Why a choice lost: the plan that has it, and where its time goes beside the winner's.
#include "tests/support/test.h"

#include "core/units.h"
#include "planner/explain.h"
#include "planner/uneven.h"

#include <math.h>

static struct search_request shipped(struct arena *arena, const char *model, const char *cluster,
                                     int64_t seq_len, int64_t global_batch)
{
    struct err err = {0};
    struct search_request request = {.pins = pins_none(), .top = 5};
    request.model = model_load(arena, model, NULL, NULL, &err);
    request.cluster = cluster_load(arena, cluster, &err);
    request.stack = stack_load(arena, "megatron-core", &err);
    request.fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    request.workload = (struct workload){.seq_len = seq_len,
                                         .global_batch = global_batch,
                                         .precision = PRECISION_BF16,
                                         .optimizer = OPTIMIZER_ADAMW};
    return request;
}

static void a_lost_choice_is_explained_term_by_term(void **state)
{
    struct arena *arena = *state;
    struct search_request request = shipped(arena, "gpt3-13b", "dgx-a100-80g-x8", 2048, 512);
    struct search_result result = {0};
    struct err err = {0};
    assert_true(search_plans(arena, &request, &result, &err));
    int other = result.best[0].parallel.degree[AXIS_TP] == 8 ? 1 : 8;
    struct explanation why = explain_why(arena, &request, &result, CHOICE_TP, other);
    assert_true(why.possible && !why.is_winner);
    assert_int_equal(why.other.parallel.degree[AXIS_TP], other);
    double winner_s = 0, other_s = 0;
    for (int i = 0; i < why.term_count; i++) {
        winner_s += why.terms[i].winner_s;
        other_s += why.terms[i].other_s;
    }
    assert_true(fabs(winner_s - result.best[0].cost.step_s) < 1e-6 * winner_s);
    assert_true(fabs(other_s - why.other.cost.step_s) < 1e-6 * other_s);
    assert_non_null(why.text);
}

// A question that completes the pins of a pipeline does not turn the rival into a described run,
// with even stages and, in fp16, the attention of the scripts that run so; the winner is none.
static void a_question_compares_like_with_like(void **state)
{
    struct arena *arena = *state;
    struct search_request request = shipped(arena, "gpt3-13b", "dgx-a100-80g-x8", 2048, 512);
    request.workload.precision = PRECISION_FP16;
    pins_set(&request.pins, CHOICE_SCHEDULE, SCHEDULE_1F1B, SCHEDULE_1F1B);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 1, 1);
    struct search_result result = {0};
    struct err err = {0};
    assert_true(search_plans(arena, &request, &result, &err));
    assert_int_equal(result.best[0].parallel.attention, ATTENTION_FLASH);
    assert_true(result.best[0].parallel.degree[AXIS_PP] != 4);
    struct explanation why = explain_why(arena, &request, &result, CHOICE_PP, 4);
    assert_true(why.possible && why.fits);
    assert_int_equal(why.other.parallel.attention, ATTENTION_FLASH);

    pins_set(&request.pins, CHOICE_PP, 8, 8);
    assert_true(search_plans(arena, &request, &result, &err));
    assert_int_equal(result.best[0].parallel.attention, ATTENTION_UNFUSED);
    why = explain_why(arena, &request, &result, CHOICE_PP, 4);
    assert_true(why.possible && why.fits);
    assert_int_equal(why.other.parallel.attention, ATTENTION_UNFUSED);
}

static void choices_of_experts_context_and_schedule_are_explained(void **state)
{
    struct arena *arena = *state;
    static const char *const ASKED[] = {"ep=1", "cp=4", "schedule=1f1b", "recompute=norm,experts"};
    struct search_request request = shipped(arena, "mixtral-8x7b", "dgx-h100-x4", 8192, 256);
    pins_set(&request.pins, CHOICE_PP, 2, 2);
    struct search_result result = {0};
    struct err err = {0};
    assert_true(search_plans(arena, &request, &result, &err));
    assert_true(result.best_count > 0);
    for (size_t i = 0; i < sizeof ASKED / sizeof *ASKED; i++) {
        enum choice choice;
        int64_t wanted;
        assert_true(choice_parse_pair(arena, "", ASKED[i], &choice, &wanted, &err));
        struct explanation why = explain_why(arena, &request, &result, choice, wanted);
        assert_true(why.possible);
        assert_true(choice_value(&why.other.parallel, choice) == wanted);
        if (why.fits) assert_true(why.other.closed_form_s >= result.bound_s * (1 - 1e-9));
    }
    assert_string_equal(err.text, "");
}

static void an_impossible_choice_is_explained_by_its_reason(void **state)
{
    struct arena *arena = *state;
    struct search_request request = shipped(arena, "gpt3-13b", "dgx-a100-80g", 2048, 64);
    struct search_result result = {0};
    struct err err = {0};
    assert_true(search_plans(arena, &request, &result, &err));
    struct explanation why = explain_why(arena, &request, &result, CHOICE_MICRO_BATCH, 5);
    assert_false(why.possible);
    assert_non_null(why.reason);
}

static void pairs_of_a_choice_and_a_value_are_read(void **state)
{
    static const char *const WRONG[][2] = {
        {"tb=5", "--why: unknown choice \"tb\": did you mean \"tp\"?"},
        {"tp", "--why: expected KEY=VALUE, found \"tp\""},
        {"offload=everything", "--why: offload: \"everything\" is none of its values"},
        {"schedule=2f2b", "--why: schedule: \"2f2b\" is none of its values"},
    };
    enum choice choice = CHOICE_TP;
    int64_t value = 0;
    struct err err = {0};
    assert_true(choice_parse_pair(*state, "", "--micro-batch=5", &choice, &value, &err));
    assert_true(choice == CHOICE_MICRO_BATCH && value == 5);
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        struct err wrong = {0};
        assert_false(choice_parse_pair(*state, "--why: ", WRONG[i][0], &choice, &value, &wrong));
        assert_int_equal(wrong.kind, ERR_USAGE);
        assert_string_equal(wrong.text, WRONG[i][1]);
    }
}

// A pin that costs time: what is faster without it is said to be, and the term that makes it so.
static void a_choice_that_is_faster_names_what_it_saves(void **state)
{
    struct arena *arena = *state;
    struct search_request request = shipped(arena, "gpt3-13b", "dgx-a100-80g-x8", 2048, 512);
    struct search_result result = {0};
    struct err err = {0};
    pins_set(&request.pins, CHOICE_TP, 8, 8);
    pins_set(&request.pins, CHOICE_PP, 1, 1);
    assert_true(search_plans(arena, &request, &result, &err));
    struct explanation why = explain_why(arena, &request, &result, CHOICE_TP, 2);
    assert_true(why.fits && why.other.cost.step_s < result.best[0].cost.step_s);
    assert_string_equal(why.largest, "tensor parallel");
    double winner_s = result.best[0].cost.exposed_s[PART_TP];
    double other_s = why.other.cost.exposed_s[PART_TP];
    assert_true(other_s < winner_s);
    const char *cause = arena_print(
        arena, "faster (%s against %s), most of it tensor parallel: -%s",
        units_seconds(arena, why.other.cost.step_s),
        units_seconds(arena, result.best[0].cost.step_s), units_seconds(arena, winner_s - other_s));
    assert_non_null(strstr(why.text, cause));
}

// Where nothing fits there is no winner: whether the choice does is the answer.
static void a_choice_is_explained_where_nothing_fits(void **state)
{
    struct arena *arena = *state;
    struct search_request request = shipped(arena, "llama-3-70b", "dgx-h100", 8192, 32);
    struct search_result result = {0};
    struct err err = {0};
    assert_true(search_plans(arena, &request, &result, &err));
    assert_int_equal(result.status, SEARCH_NOTHING_FITS);
    struct explanation why = explain_why(arena, &request, &result, CHOICE_TP, 2);
    assert_true(why.possible && !why.fits && why.term_count == 0);
    assert_non_null(strstr(why.reason, "tp 2 does not fit: it needs at least "));
}

// Of stages with numbers of ranks of their own the other plan has them, too.
static void a_choice_is_explained_of_unlike_stages(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct search_request request = shipped(arena, "llama-2-7b", "dgx-h100", 2048, 64);
    struct cluster *cluster = cluster_load(arena, "dgx-h100", &err);
    assert_true(cluster_take_gpus(cluster, 6, &err));
    request.cluster = cluster;
    request.stack = stack_load(arena, "meshwright", &err);
    request.pins.stage_ranks = (const int[]){2, 4};
    request.pins.stage_ranks_count = 2;
    pins_set(&request.pins, CHOICE_TP, 2, 2);
    struct search_result result = {0};
    struct uneven_answer answer;
    assert_true(uneven_search(arena, &request, &result, &answer, &err));
    struct explanation why = explain_why(arena, &request, &result, CHOICE_SCHEDULE, SCHEDULE_GPIPE);
    assert_true(why.possible && why.fits && !why.is_winner);
    const struct parallel *other = &why.other.parallel;
    assert_int_equal(other->stage_ranks_count, 2);
    assert_true(other->stage_ranks[0] == 2 && other->stage_ranks[1] == 4);
    assert_true(other->schedule == SCHEDULE_GPIPE);

    // What no stage can have is said with its own reason.
    pins_set(&request.pins, CHOICE_ZERO, 3, 3);
    assert_false(uneven_search(arena, &request, &result, &answer, &err));
    assert_non_null(strstr(err.text, "has no zero stage 3 together with a pipeline"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_choice_is_explained_term_by_term),
        cmocka_unit_test(a_question_compares_like_with_like),
        cmocka_unit_test(choices_of_experts_context_and_schedule_are_explained),
        cmocka_unit_test(an_impossible_choice_is_explained_by_its_reason),
        cmocka_unit_test(pairs_of_a_choice_and_a_value_are_read),
        cmocka_unit_test(a_choice_that_is_faster_names_what_it_saves),
        cmocka_unit_test(a_choice_is_explained_where_nothing_fits),
        cmocka_unit_test(a_choice_is_explained_of_unlike_stages),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
