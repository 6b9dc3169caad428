#include "memory/order/order_local.h"

#include "tests/support/memory_graphs.h"
#include "tests/support/memory_net.h"
#include "tests/support/random_problem.h"
#include "tests/support/test.h"

// A part of the ordering problem against its definition, told from the graph again: buffer by
// buffer who makes it, who touches it and when, with nothing of the tables that building uses.

struct part_case {
    const struct memory_problem *problem;
    const struct order_division *division;
    const struct order_local *local;
    int segment;
};

// The step of unit `u` at which `op` runs, or -1.
static int step_of(const struct part_case *of, int u, int op)
{
    int unit = of->local->units[u];
    const int *first = &of->division->first_operator[unit];
    for (int i = first[0]; i < first[1]; i++) {
        if (of->division->operators[i] == op) return i - first[0];
    }
    return -1;
}

// The unit here that runs `op`, or -1.
static int place_of(const struct part_case *of, int op)
{
    for (int u = 0; u < of->local->unit_count; u++) {
        if (step_of(of, u, op) >= 0) return u;
    }
    return -1;
}

// The last step of unit `u` that makes or reads a buffer; -1: none does.
static int last_step(const struct part_case *of, int u, int number)
{
    const struct memory_buffer *buffer = &of->problem->buffers[number];
    int last = buffer->producer < 0 ? -1 : step_of(of, u, buffer->producer);
    for (int i = 0; i < buffer->user_count; i++) {
        int step = step_of(of, u, of->problem->users[buffer->first_user + i]);
        if (step > last) last = step;
    }
    return last;
}

static bool stays(const struct part_case *of, int number)
{
    return of->problem->buffers[number].kept || of->division->last_segment[number] > of->segment;
}

static int other_users(const struct part_case *of, int number)
{
    int producer = of->problem->buffers[number].producer;
    int maker = producer < 0 ? -1 : place_of(of, producer), count = 0;
    for (int u = 0; u < of->local->unit_count; u++)
        count += u != maker && last_step(of, u, number) >= 0;
    return count;
}

// What a step of unit `u` makes for others, and what it and its unit alone need.
static void check_step(const struct part_case *of, int u, int step, int64_t *made_bytes)
{
    int64_t made = 0, inside = 0;
    for (int b = 0; b < of->problem->buffer_count; b++) {
        const struct memory_buffer *buffer = &of->problem->buffers[b];
        int birth = buffer->producer < 0 ? -1 : step_of(of, u, buffer->producer);
        if (birth < 0) continue;
        bool lives_on = stays(of, b) || other_users(of, b) > 0;
        if (lives_on && birth == step) made += buffer->bytes;
        if (!lives_on && birth <= step && step <= last_step(of, u, b)) inside += buffer->bytes;
    }
    int at = of->local->first_step[u] + step;
    assert_true(of->local->made_bytes[at] == made);
    assert_true(of->local->inside_bytes[at] == inside);
    *made_bytes += made;
}

static void check_touches(const struct part_case *of, int u)
{
    const struct order_local *local = of->local;
    int count = 0;
    for (int b = 0; b < of->problem->buffer_count; b++) {
        int producer = of->problem->buffers[b].producer;
        bool is_own = producer >= 0 && step_of(of, u, producer) >= 0;
        count += !is_own && last_step(of, u, b) >= 0;
    }
    assert_int_equal(local->first_touch[u + 1] - local->first_touch[u], count);
    for (int t = local->first_touch[u]; t < local->first_touch[u + 1]; t++) {
        const struct order_touch *touch = &local->touches[t];
        assert_int_equal(touch->step, last_step(of, u, local->buffer[touch->buffer]));
        for (int other = local->first_touch[u]; other < t; other++)
            assert_int_not_equal(local->touches[other].buffer, touch->buffer);
    }
}

static bool waits_for(const struct part_case *of, int u, int before)
{
    int unit = of->local->units[u];
    const int *first = &of->division->first_operator[unit];
    for (int i = first[0]; u != before && i < first[1]; i++) {
        int op = of->division->operators[i];
        const int *predecessor = &of->problem->first_predecessor[op];
        for (int p = predecessor[0]; p < predecessor[1]; p++) {
            if (step_of(of, before, of->problem->predecessors[p]) >= 0) return true;
        }
    }
    return false;
}

static void check_edges(const struct part_case *of, int u)
{
    const struct order_local *local = of->local;
    int before = 0, after = 0;
    for (int other = 0; other < local->unit_count; other++) {
        before += waits_for(of, u, other);
        after += waits_for(of, other, u);
    }
    assert_int_equal(local->indegree[u], before);
    assert_int_equal(local->first_successor[u + 1] - local->first_successor[u], after);
    for (int s = local->first_successor[u]; s < local->first_successor[u + 1]; s++)
        assert_true(waits_for(of, local->successors[s], u));
}

static void check_buffers(const struct part_case *of)
{
    const struct order_local *local = of->local;
    int count = 0;
    for (int b = 0; b < of->problem->buffer_count; b++) {
        bool is_touched = false;
        for (int u = 0; u < local->unit_count; u++)
            is_touched = is_touched || last_step(of, u, b) >= 0;
        count += is_touched;
    }
    assert_int_equal(local->buffer_count, count);
    for (int i = 0; i < count; i++) {
        int number = local->buffer[i], producer = of->problem->buffers[number].producer;
        assert_true(local->buffer_bytes[i] == of->problem->buffers[number].bytes);
        assert_int_equal(local->producer[i], producer < 0 ? -1 : place_of(of, producer));
        assert_int_equal(local->stays[i], stays(of, number));
        assert_int_equal(local->user_count[i], other_users(of, number));
    }
}

// What is there all the time: at the entry, and not freed here.
static int64_t through_bytes(const struct part_case *of)
{
    int64_t bytes = of->local->entry_bytes;
    for (int i = 0; i < of->local->buffer_count; i++) {
        if (of->local->producer[i] < 0 && !of->local->stays[i]) bytes -= of->local->buffer_bytes[i];
    }
    return bytes;
}

// No set of units before it can spare a mandatory unit what it makes and what it still reads.
static int64_t least_bytes(const struct part_case *of)
{
    const struct order_local *local = of->local;
    int64_t most = local->entry_bytes, exit_bytes = through_bytes(of);
    for (int i = 0; i < local->buffer_count; i++) {
        bool is_made = local->producer[i] >= 0 && local->producer[i] < local->mandatory_count;
        if (is_made && local->stays[i]) exit_bytes += local->buffer_bytes[i];
    }
    if (exit_bytes > most) most = exit_bytes;
    for (int u = 0; u < local->mandatory_count; u++) {
        int steps = local->first_step[u + 1] - local->first_step[u];
        int64_t made = 0;
        for (int step = 0; step < steps; step++) {
            made += local->made_bytes[local->first_step[u] + step];
            int64_t bytes =
                through_bytes(of) + made + local->inside_bytes[local->first_step[u] + step];
            for (int i = 0; i < local->buffer_count; i++) {
                bool is_through = local->producer[i] < 0 && local->stays[i];
                if (local->producer[i] == u || is_through) continue;
                if (last_step(of, u, local->buffer[i]) >= step) bytes += local->buffer_bytes[i];
            }
            if (bytes > most) most = bytes;
        }
    }
    return most;
}

static void check_part(const struct part_case *of)
{
    const struct order_local *local = of->local;
    check_buffers(of);
    for (int u = 0; u < local->unit_count; u++) {
        int64_t made_bytes = 0;
        for (int step = 0; step < local->first_step[u + 1] - local->first_step[u]; step++)
            check_step(of, u, step, &made_bytes);
        assert_true(local->outcome_bytes[u] == made_bytes);
        check_touches(of, u);
        check_edges(of, u);
    }
    assert_true(local->least_bytes == least_bytes(of));
}

static struct order_builder build(struct arena *arena, const struct order_division *division)
{
    const struct memory_problem *problem = division->problem;
    int64_t *bytes = ARENA_NEW(arena, int64_t, problem->buffer_count);
    for (int b = 0; b < problem->buffer_count; b++)
        bytes[b] = problem->buffers[b].bytes;
    return order_builder_make(arena, division, bytes);
}

// Every segment as a part, with all of its units mandatory and with half of them; and the first
// two together, where what is freed lies between.
static void check_segments(struct arena *arena, const struct memory_problem *problem)
{
    struct arena scratch = {0};
    const struct order_division *division =
        order_divide(arena, &scratch, problem, NULL, false, false);
    struct order_builder builder = build(arena, division);
    int *units = ARENA_NEW(arena, int, division->unit_count);
    for (int u = 0; u < division->unit_count; u++)
        units[u] = u;
    for (int k = 0; k < division->segment_count; k++) {
        for (int width = 1; width <= 2 && k + width <= division->segment_count; width++) {
            int first = division->first_unit[k], last = k + width - 1;
            int count = division->first_unit[last + 1] - first;
            for (int half = 0; half < 2; half++) {
                struct part_case of = {problem, division, NULL, last};
                of.local = order_local_make(arena, &builder, last, &units[first], count,
                                            half ? count / 2 : count, division->base_bytes[k]);
                check_part(&of);
            }
        }
    }
    // What building left behind would show in the next part.
    for (int u = 0; u < division->unit_count; u++)
        assert_int_equal(builder.unit_place[u], 0);
    for (int b = 0; b < problem->buffer_count; b++)
        assert_int_equal(builder.buffer_place[b], 0);
    arena_free(&scratch);
}

static void parts_are_what_their_units_touch_and_make(void **state)
{
    (void)state;
    struct draw draw = draw_start("parts of the ordering problem", 51);
    for (int i = 0; i < 120; i++) {
        struct arena arena = {0};
        int size = draw_int(&draw, 2, 14);
        const struct memory_problem *problem =
            i % 3 == 0   ? random_problem(&arena, &draw, size, 1)
            : i % 3 == 1 ? memory_problem_make(&arena, graph_random(&arena, &draw, size), 1)
                         : memory_problem_make(&arena, graph_layered(&arena, &draw, size, 2), 1);
        check_segments(&arena, problem);
        arena_free(&arena);
    }
}

// A chain and one aside: x is read by both, a and b are made, c reads both.
static const struct order_local *three_units(struct arena *arena, int64_t aside_bytes)
{
    struct arena scratch = {0};
    struct net net = {.arena = arena};
    int x = net_tensor(&net, "x", 10), a = net_tensor(&net, "a", 20);
    int b = net_tensor(&net, "b", aside_bytes), c = net_tensor(&net, "c", 5);
    net_operator(&net, "first", &x, 1, &a, 1);
    net_operator(&net, "aside", &x, 1, &b, 1);
    net_operator(&net, "last", (const int[]){a, b}, 2, &c, 1);
    const struct memory_problem *problem = memory_problem_make(arena, net_finish(&net, "three"), 1);
    struct order_division *division = order_divide(arena, &scratch, problem, NULL, true, true);
    struct order_builder builder = build(arena, division);
    static const int UNITS[] = {0, 1, 2};
    const struct order_local *local = order_local_make(arena, &builder, 0, UNITS, 3, 3, 10);
    arena_free(&scratch);
    return local;
}

static void equal_parts_are_told_from_others(void **state)
{
    const struct order_local *one = three_units(*state, 7), *same = three_units(*state, 7);
    const struct order_local *other = three_units(*state, 8);
    // c stays after all: nobody reads it.
    assert_int_equal(one->least_bytes, 20 + 7 + 5);
    assert_true(order_local_same(one, same) && order_local_same(same, one));
    assert_true(order_local_hash(one) == order_local_hash(same));
    assert_false(order_local_same(one, other));
    assert_true(order_local_hash(one) != order_local_hash(other));
    // Each table by itself.
    int numbers[16];
    int64_t sizes[16];
    struct order_touch touches[16];
    bool stay[16];
#define CHANGED(member, copy, count, change)                              \
    do {                                                                  \
        struct order_local changed = *one;                                \
        memcpy(copy, one->member, (size_t)(count) * sizeof *one->member); \
        change;                                                           \
        changed.member = copy;                                            \
        assert_false(order_local_same(one, &changed));                    \
    } while (0)
    int units = one->unit_count, steps = one->first_step[units], buffers = one->buffer_count;
    CHANGED(first_step, numbers, units + 1, numbers[units]++);
    CHANGED(first_touch, numbers, units + 1, numbers[units]++);
    CHANGED(first_successor, numbers, units + 1, numbers[units]++);
    CHANGED(made_bytes, sizes, steps, sizes[steps - 1]++);
    CHANGED(inside_bytes, sizes, steps, sizes[steps - 1]++);
    CHANGED(touches, touches, one->first_touch[units], touches[one->first_touch[units] - 1].step++);
    CHANGED(successors, numbers, one->first_successor[units],
            numbers[one->first_successor[units] - 1]++);
    CHANGED(buffer_bytes, sizes, buffers, sizes[buffers - 1]++);
    CHANGED(user_count, numbers, buffers, numbers[buffers - 1]++);
    CHANGED(stays, stay, buffers, stay[buffers - 1] = !stay[buffers - 1]);
    CHANGED(producer, numbers, buffers, numbers[buffers - 1]++);
#undef CHANGED
    struct order_local changed = *one;
    changed.mandatory_count--;
    assert_false(order_local_same(one, &changed));
    changed = *one;
    changed.unit_count--;
    assert_false(order_local_same(one, &changed));
    // Where the part begins is no matter.
    changed = *one;
    changed.entry_bytes++;
    assert_true(order_local_same(one, &changed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_what_their_units_touch_and_make),
        cmocka_unit_test(equal_parts_are_told_from_others),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
