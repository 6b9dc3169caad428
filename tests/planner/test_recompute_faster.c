#include "tests/support/proof_case.h"
#include "tests/support/test.h"

#include "planner/choice.h"

// Plans that are faster with something recomputed than with everything kept, where there is room
// for both: the search takes the faster one, that it once passed by.

struct faster_case {
    const char *model, *cluster, *stack;
    int64_t seq_len, global_batch;
    enum precision precision;
    struct {
        enum choice choice;
        int64_t value;
    } pins[6];
    unsigned classes;  // 1 << enum op_class
};

// Kept inputs of products in fp8 keep apart what is merged where they are made again.
static const struct faster_case CASES[] = {
    {"mixtral-8x7b",
     "dgx-b200",
     "megatron-core",
     1024,
     16,
     PRECISION_FP8,
     {{CHOICE_TP, 1},
      {CHOICE_PP, 1},
      {CHOICE_CP, 1},
      {CHOICE_EP, 8},
      {CHOICE_MICRO_BATCH, 1},
      {CHOICE_ZERO, 0}},
     1u << OP_CLASS_ACTIVATION},
};

static struct proof_question question_of(struct arena *arena, const struct faster_case *of)
{
    struct question_words words =
        proof_words(of->model, of->cluster, of->stack, of->seq_len, of->global_batch);
    words.workload.precision = of->precision;
    struct proof_question question = proof_make(arena, &words);
    for (size_t i = 0; i < sizeof of->pins / sizeof *of->pins; i++) {
        // The first choice of all stands only where it is pinned to something.
        if (of->pins[i].choice == 0 && of->pins[i].value == 0) break;
        pins_set(&question.request.pins, of->pins[i].choice, of->pins[i].value, of->pins[i].value);
    }
    return question;
}

static double best_s(struct arena *arena, const struct proof_question *question,
                     const struct pins *pins, bool exhaustive)
{
    struct search_result found = proof_find(arena, question, pins, exhaustive);
    assert_true(found.best_count > 0);
    return found.best[0].closed_form_s;
}

static void what_is_faster_recomputed_is_found(void **state)
{
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct proof_question question = question_of(*state, &CASES[i]);
        struct pins pins = question.request.pins, kept = pins, made = pins;
        int value = recompute_value(RECOMPUTE_SELECTIVE, CASES[i].classes);
        pins_set(&kept, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
        pins_set(&made, CHOICE_RECOMPUTE, value, value);
        double kept_s = best_s(*state, &question, &kept, false);
        double made_s = best_s(*state, &question, &made, false);
        double free_s = best_s(*state, &question, &pins, false);
        double least_s = best_s(*state, &question, &pins, true);
        // Else the case shows nothing.
        if (made_s > kept_s * (1 - 1e-3)) fail_msg("case %zu: %g s, %g kept", i, made_s, kept_s);
        if (free_s > least_s * (1 + 1e-9)) fail_msg("case %zu: %g s for %g", i, free_s, least_s);
        assert_true(least_s <= made_s * (1 + 1e-9));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_faster_recomputed_is_found),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
