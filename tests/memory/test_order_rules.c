#include "memory/order/order.h"
#include "tests/support/draw.h"
#include "tests/support/random_problem.h"
#include "tests/support/test.h"

// The greedy order, step by step against what every ready operator would leave alive, and the bound
// that no order is below.

enum { PROBLEMS = 300, MOST = 40 };

static bool has_run(const bool *ran, int op)
{
    return op < 0 || ran[op];
}

static int64_t alive_bytes(const struct memory_problem *problem, const bool *ran)
{
    int64_t bytes = 0;
    for (int b = 0; b < problem->buffer_count; b++) {
        const struct memory_buffer *buffer = &problem->buffers[b];
        bool waits = buffer->kept;
        for (int u = 0; u < buffer->user_count; u++)
            waits = waits || !ran[problem->users[buffer->first_user + u]];
        if (waits && has_run(ran, buffer->producer)) bytes += buffer->bytes;
    }
    return bytes;
}

static bool is_ready(const struct memory_problem *problem, const bool *ran, int op)
{
    for (int p = problem->first_predecessor[op]; p < problem->first_predecessor[op + 1]; p++) {
        if (!ran[problem->predecessors[p]]) return false;
    }
    return !ran[op];
}

// The first of those that leave least.
static int best_next(const struct memory_problem *problem, bool *ran, int *ties)
{
    int best = -1;
    int64_t best_bytes = 0;
    for (int op = 0; op < problem->operator_count; op++) {
        if (!is_ready(problem, ran, op)) continue;
        ran[op] = true;
        int64_t bytes = alive_bytes(problem, ran);
        ran[op] = false;
        *ties += best >= 0 && bytes == best_bytes;
        if (best >= 0 && bytes >= best_bytes) continue;
        best = op;
        best_bytes = bytes;
    }
    return best;
}

static void the_greedy_order_leaves_least_at_every_step(void **state)
{
    (void)state;
    struct draw draw = draw_start("greedy orders", 1);
    int ties = 0, moved = 0;
    for (int i = 0; i < PROBLEMS; i++) {
        struct arena arena = {0}, scratch = {0};
        int count = draw_int(&draw, i == 0 ? 0 : 1, i == 0 ? 0 : MOST);
        const struct memory_problem *problem =
            random_problem(&arena, &draw, count, draw_int(&draw, 0, 1) ? 1 : 64);
        const int *order = order_greedy(&arena, &scratch, problem);
        const int *plain = order_program(&arena, problem);
        bool ran[MOST] = {0};
        for (int at = 0; at < count; at++) {
            assert_int_equal(order[at], best_next(problem, ran, &ties));
            assert_int_equal(plain[at], at);
            moved += order[at] != at;
            ran[order[at]] = true;
        }
        arena_free(&arena);
        arena_free(&scratch);
    }
    assert_true(ties > 100 && moved > 100);
}

// What is there at first, what is there at last, and what an operator touches.
static void the_simple_bound_is_the_largest_of_three(void **state)
{
    (void)state;
    static const int64_t BYTES[][4] = {{31, 5, 3, 2}, {2, 3, 37, 5}, {3, 23, 19, 5}};
    static const int64_t BOUNDS[] = {31 + 5, 37 + 5, 3 + 23 + 19};
    for (int i = 0; i < 3; i++) {
        struct arena scratch = {0};
        const int64_t *bytes = BYTES[i];
        // The first two are there at first, of which one operator makes the others, which are kept;
        // the first and the third are touched with one of them by either.
        const struct memory_buffer buffers[] = {
            {.bytes = bytes[0], .producer = -1, .first_user = 0, .user_count = 1},
            {.bytes = bytes[1], .producer = -1, .first_user = 1, .user_count = 1},
            {.bytes = bytes[2], .producer = 0, .first_user = 2, .kept = true},
            {.bytes = bytes[3], .producer = 1, .first_user = 2, .kept = true}};
        static const int USERS[] = {0, 1}, NONE[] = {0, 0, 0};
        static const int FIRST[][3] = {{0, 2, 4}, {0, 2, 4}, {0, 3, 4}};
        static const int TOUCHED[][4] = {{0, 2, 1, 3}, {0, 2, 1, 3}, {0, 1, 2, 3}};
        const struct memory_problem problem = {.operator_count = 2,
                                               .buffer_count = 4,
                                               .buffers = buffers,
                                               .users = USERS,
                                               .first_predecessor = NONE,
                                               .first_successor = NONE,
                                               .first_touched = FIRST[i],
                                               .touched = TOUCHED[i]};
        assert_int_equal(order_simple_bound(&problem), BOUNDS[i]);
        const struct memory_problem none = {.buffer_count = 4, .buffers = buffers};
        assert_int_equal(order_simple_bound(&none), 0);
        arena_free(&scratch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_greedy_order_leaves_least_at_every_step),
        cmocka_unit_test(the_simple_bound_is_the_largest_of_three),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
