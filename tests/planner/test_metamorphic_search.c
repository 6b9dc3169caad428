#include "planner/choice.h"
#include "tests/support/random_search.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>

// What must hold between the answers to two searches. MESHWRIGHT_CASES draws more.

static int case_count(int otherwise)
{
    const char *wanted = getenv("MESHWRIGHT_CASES");
    return wanted ? atoi(wanted) : otherwise;
}

// The best time by what the search compared; infinite where nothing fits or the pins contradict the
// model.
static double best_s(struct arena *arena, const struct search_request *request,
                     struct search_result *result)
{
    struct err err = {0};
    *result = (struct search_result){0};
    if (!search_plans(arena, request, result, &err)) return INFINITY;
    double least_s = INFINITY;
    for (int i = 0; i < result->best_count; i++)
        least_s = fmin(least_s, result->best[i].closed_form_s);
    return least_s;
}

// Plans that differ by less than a nanosecond are equal.
static void check_no_slower(const char *what, double before_s, double after_s)
{
    if (!(after_s > before_s + 1e-9)) return;
    print_error("%s: %.9f s, before %.9f s\n", what, after_s, before_s);
    fail();
}

static void a_removed_pin_is_never_slower(void **state)
{
    (void)state;
    static const enum choice PINNED[] = {CHOICE_TP,          CHOICE_PP,   CHOICE_DP,
                                         CHOICE_MICRO_BATCH, CHOICE_ZERO, CHOICE_RECOMPUTE};
    struct draw draw = draw_start("removed pins", 31);
    for (int i = 0; i < case_count(25); i++) {
        struct arena arena = {0};
        struct search_request request = random_search(&arena, &draw);
        request.nothing = SEARCH_FITS_ONLY;
        struct search_result result;
        double free_s = best_s(&arena, &request, &result);
        enum choice choice = DRAW_ONE(&draw, PINNED);
        int64_t value = 1 << draw_int(&draw, 0, 3);
        if (choice == CHOICE_ZERO) value = draw_int(&draw, 0, 3);
        if (choice == CHOICE_RECOMPUTE)
            value = recompute_value(value > 2 ? RECOMPUTE_FULL : RECOMPUTE_NONE, 0);
        pins_set(&request.pins, choice, value, value);
        double pinned_s = best_s(&arena, &request, &result);
        check_no_slower(choice_name(choice), pinned_s, free_s);
        arena_free(&arena);
    }
}

static void more_memory_is_never_slower(void **state)
{
    (void)state;
    struct draw draw = draw_start("more memory", 32);
    for (int i = 0; i < case_count(25); i++) {
        struct arena arena = {0};
        struct search_request request = random_search(&arena, &draw);
        request.nothing = SEARCH_FITS_ONLY;
        struct search_result result;
        double before_s = best_s(&arena, &request, &result);
        struct device *device = device_copy(&arena, request.cluster->nodes[0].device);
        device->memory_bytes *= 2;
        request.cluster = cluster_with_device(&arena, request.cluster, device);
        check_no_slower("twice the memory", before_s, best_s(&arena, &request, &result));
        arena_free(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_removed_pin_is_never_slower),
        cmocka_unit_test(more_memory_is_never_slower),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
