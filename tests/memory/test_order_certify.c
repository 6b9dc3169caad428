#include "memory/order/order_certify.h"
#include "tests/support/draw.h"
#include "tests/support/memory_graphs.h"
#include "tests/support/test.h"

#include <string.h>

// The second opinion on segments: what the search found is certified, and what it did not is
// disputed, whichever way it is wrong.

enum { GRAPHS = 60 };

static void log_line(void *context, const char *line)
{
    if (strncmp(line, "segment ", 8) == 0) ++*(int *)context;
}

static int operators_of(const struct order_part *part)
{
    return part->local->first_step[part->local->unit_count];
}

static void right_parts_are_certified_and_wrong_ones_disputed(void **state)
{
    (void)state;
    struct draw draw = draw_start("certificates", 3);
    int asked = 0, several = 0;
    for (int i = 0; i < GRAPHS; i++) {
        struct arena arena = {0}, scratch = {0};
        struct memory_graph *graph = i % 2
                                         ? graph_random(&arena, &draw, draw_int(&draw, 3, 9))
                                         : graph_random_plain(&arena, &draw, draw_int(&draw, 3, 9));
        const struct memory_problem *problem = memory_problem_make(&arena, graph, 1);
        const struct order_division *division =
            order_divide(&arena, &scratch, problem, NULL, false, false);
        struct order_parts parts =
            order_parts_solve(&arena, &scratch, division, &(struct order_limits){0});
        int lines = 0, largest = 0;
        struct order_options options = {
            .certify_operators = 30, .log = log_line, .log_context = &lines};
        struct order_certificate found = order_certify(&scratch, division, &parts, &options);
        assert_int_equal(found.certified_count, parts.count);
        assert_int_equal(found.disputed_count + lines, 0);
        asked += parts.count;
        several += parts.count > 1;
        for (int p = 0; p < parts.count; p++) {
            struct order_part *part = &parts.parts[p];
            largest = operators_of(part) > largest ? operators_of(part) : largest;
            for (int more = -1; more <= 1; more += 2) {
                part->peak_bytes += more, part->bound_bytes += more;
                found = order_certify(&scratch, division, &parts, &options);
                assert_int_equal(found.certified_count, parts.count - 1);
                assert_int_equal(found.disputed_count, 1);
                part->peak_bytes -= more, part->bound_bytes -= more;
            }
            // Right, but not proven by the search: neither.
            part->bound_bytes--;
            found = order_certify(&scratch, division, &parts, &options);
            assert_int_equal(found.certified_count, parts.count - 1);
            assert_int_equal(found.disputed_count, 0);
            part->bound_bytes++;
        }
        assert_int_equal(lines, 2 * parts.count);
        options.certify_operators = largest - 1;
        assert_true(order_certify(&scratch, division, &parts, &options).certified_count <
                    parts.count);
        options = (struct order_options){.certify_operators = largest, .deadline_s = 1e-9};
        assert_int_equal(order_certify(&scratch, division, &parts, &options).certified_count, 0);
        arena_free(&arena);
        arena_free(&scratch);
    }
    print_message("# %d segments\n", asked);
    assert_true(asked > GRAPHS && several > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_parts_are_certified_and_wrong_ones_disputed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
