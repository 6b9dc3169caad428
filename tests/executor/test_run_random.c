#include "tests/support/test.h"

#include "tests/support/run_draw.h"

#include <math.h>
#include <stdlib.h>

// Random plans over all techniques at once on up to eight ranks, each against one rank that does it
// all, in double precision. MESHWRIGHT_CASES runs more of them.

static const double TOLERANCE = 1e-11;

enum { OTHERWISE_CASES = 24 };

struct expectation {
    struct run_outcome *of[DRAWN_MODEL_COUNT][2];  // without and with dropout
};

static struct run_outcome *expected_of(struct arena *arena, struct expectation *known, int model,
                                       bool dropout)
{
    struct run_outcome **at = &known->of[model][dropout];
    if (*at) return *at;
    struct run_case of = run_case_new(run_draw_config(model), DRAWN_SEQ, DRAWN_BATCH);
    of.dropout = dropout;
    struct err err = {0};
    *at = run_case_run(arena, &of, &err);
    assert_string_equal(err.text, "");
    assert_string_equal((*at)->error, "");
    return *at;
}

// What the rank with most held against what was planned for it.
static const char *memory_difference(struct arena *arena, const struct run_outcome *found)
{
    double planned = (double)run_outcome_planned_bytes(found);
    if (fabs((double)found->peak_bytes - planned) <= 0.01 * planned) return NULL;
    return arena_print(arena, "%lld bytes held, %.0f planned", (long long)found->peak_bytes,
                       planned);
}

static int case_count(void)
{
    const char *given = getenv("MESHWRIGHT_CASES");
    return given ? atoi(given) : OTHERWISE_CASES;
}

static void random_plans_compute_what_one_rank_does(void **state)
{
    struct draw draw = draw_start("random runs", 91);
    struct expectation known = {0};
    struct arena scratch = {0};
    int wanted = case_count(), ran = 0, failed = 0, refused = 0;
    while (ran < wanted) {
        int model;
        struct draw seed = draw;
        struct run_case of = run_draw(&draw, &scratch, &model);
        struct run_outcome *expected = expected_of(*state, &known, model, of.dropout);
        struct err why = {0};
        struct run_outcome *found = run_case_run(&scratch, &of, &why);
        // Choices that do not go together are refused before anything starts.
        if (!found) {
            if (getenv("MESHWRIGHT_SHOW")) print_message("# refused: %s\n", why.text);
            assert_int_equal(why.kind, ERR_USAGE);
            arena_free(&scratch);
            assert_in_range(++refused, 0, 20 * wanted + 100);
            continue;
        }
        ran++;
        const char *difference = run_outcome_difference(&scratch, expected, found, TOLERANCE);
        if (!difference) difference = run_outcome_traffic(&scratch, found);
        if (!difference) difference = memory_difference(&scratch, found);
        if (difference) {
            failed++;
            print_error("# MESHWRIGHT_SEED=%llu, %s, dropout %d poison %d roam %d: %s: %s\n",
                        (unsigned long long)seed.state, expected->program->graph->model_type,
                        of.dropout, of.poison, of.roam, run_case_text(&scratch, &of), difference);
        }
        arena_free(&scratch);
    }
    print_message("# %d plans ran, %d drawn were refused\n", ran, refused);
    arena_free(&scratch);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_plans_compute_what_one_rank_does),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
