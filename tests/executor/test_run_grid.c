#include "tests/support/test.h"

#include "tests/support/run_case.h"
#include "tests/support/run_draw.h"

// Grids of tp (2D, 2.5D, 3D): 4 and 8 ranks compute what one does, in double precision, weights,
// gradients and losses, over models, pipelines, ZeRO, recompute and both kernels of attention.

static const double TOLERANCE = 1e-12;

enum { SEQ = 8, BATCH = 8 };

struct grid_case {
    enum tp_kind kind;
    int tp, dp, pp, cp, zero, micro_batch;
    enum recompute recompute;
    enum attention attention;
};

static const struct grid_case CASES[] = {
    {TP_2D, 4, 1, 1, 1, 0, 4, RECOMPUTE_NONE, ATTENTION_FLASH},
    {TP_2D, 4, 2, 1, 1, 1, 2, RECOMPUTE_SELECTIVE, ATTENTION_UNFUSED},
    {TP_2D, 4, 2, 1, 1, 3, 2, RECOMPUTE_NONE, ATTENTION_FLASH},
    {TP_2D, 4, 1, 2, 1, 0, 2, RECOMPUTE_FULL, ATTENTION_FLASH},
    {TP_2D, 4, 1, 1, 2, 0, 2, RECOMPUTE_NONE, ATTENTION_FLASH},
    {TP_2D, 8, 1, 1, 1, 0, 4, RECOMPUTE_NONE, ATTENTION_FLASH},
    {TP_2_5D, 8, 1, 1, 1, 0, 4, RECOMPUTE_NONE, ATTENTION_FLASH},
    {TP_2_5D, 8, 1, 1, 1, 0, 8, RECOMPUTE_FULL, ATTENTION_UNFUSED},
    {TP_3D, 8, 1, 1, 1, 0, 4, RECOMPUTE_NONE, ATTENTION_FLASH},
    {TP_3D, 8, 1, 1, 1, 0, 8, RECOMPUTE_SELECTIVE, ATTENTION_UNFUSED},
    {TP_3D, 4, 2, 1, 1, 2, 4, RECOMPUTE_NONE, ATTENTION_FLASH},
    {TP_2D_SUMMA, 4, 1, 1, 1, 0, 4, RECOMPUTE_NONE, ATTENTION_FLASH},
    {TP_2D_SUMMA, 4, 2, 1, 1, 1, 2, RECOMPUTE_SELECTIVE, ATTENTION_UNFUSED},
    {TP_2D_SUMMA, 8, 1, 1, 1, 0, 4, RECOMPUTE_FULL, ATTENTION_FLASH},
    {TP_2_5D_SUMMA, 8, 1, 1, 1, 0, 4, RECOMPUTE_NONE, ATTENTION_FLASH},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

static struct run_case case_of(const char *config, const struct grid_case *grid)
{
    struct run_case of = run_case_new(config, SEQ, BATCH);
    struct parallel *parallel = &of.parallel;
    parallel->tp_kind = grid->kind;
    parallel->degree[AXIS_TP] = grid->tp;
    parallel->degree[AXIS_DP] = grid->dp;
    parallel->degree[AXIS_PP] = grid->pp;
    parallel->degree[AXIS_CP] = grid->cp;
    parallel->zero = grid->zero;
    parallel->micro_batch = grid->micro_batch;
    parallel->recompute = grid->recompute;
    parallel->attention = grid->attention;
    of.poison = true;
    return of;
}

// Each model in two of the cases.
static void a_grid_computes_what_one_rank_does(void **state)
{
    enum { EACH = 2 };
    for (int m = 0; m < DRAWN_MODEL_COUNT; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case alone = run_case_new(run_draw_config(m), SEQ, BATCH);
        struct run_outcome *expected = run_case_done(*state, &alone);
        for (int e = 0; e < EACH; e++) {
            const struct grid_case *grid = &CASES[(EACH * m + e) % CASE_COUNT];
            struct run_case of = case_of(run_draw_config(m), grid);

            struct err why = {0};
            struct run_outcome *found = run_case_run(*state, &of, &why);
            if (!found) fail_msg("%s: %s", run_case_text(*state, &of), why.text);
            const char *difference = run_outcome_difference(*state, expected, found, TOLERANCE);
            if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
        }
        arena_reset(*state, mark);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grid_computes_what_one_rank_does),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
