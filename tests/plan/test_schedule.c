#include "plan/schedule.h"
#include "plan/schedules/common.h"
#include "tests/support/random_plan.h"
#include "tests/support/test.h"

#include <stdio.h>

enum { SHAPES = 300, SEED = 11 };

static struct schedule_shape random_legal(struct random *random, enum schedule_kind kind)
{
    int least = schedule_row(kind)->backward_fused ? 1 : 2;
    struct schedule_shape shape = {random_int(random, least, 12), 1, random_int(random, 1, 40), 0,
                                   NULL};
    const char *why = NULL;
    if (kind == SCHEDULE_ZB_AUTO) shape.in_flight = random_int(random, 0, 30);
    bool searched = kind == SCHEDULE_ZB_H2 && shape.stage_count > 1;
    if (searched) shape.in_flight = random_int(random, 0, 1) * 2 * shape.stage_count;
    if (kind == SCHEDULE_ZB_V) {
        shape.stage_count = random_int(random, 2, 12);
        shape.chunk_count = 2;
    }
    if (kind == SCHEDULE_INTERLEAVED) {
        shape.stage_count = random_int(random, 2, 12);
        shape.chunk_count = random_int(random, 2, 5);
        shape.micro_batch_count = shape.stage_count * random_int(random, 1, 6);
    }
    assert_true(schedule_row(kind)->legal(&shape, &why));
    assert_null(why);
    return shape;
}

static int slot_count(const struct schedule_shape *shape)
{
    return SLOT_KIND_COUNT * shape->chunk_count * shape->micro_batch_count;
}

static struct slot *order_of(struct arena *arena, const struct schedule_row *row,
                             const struct schedule_shape *shape, int stage)
{
    struct slot *slots = ARENA_NEW(arena, struct slot, slot_count(shape));
    row->order(shape, stage, slots);
    return slots;
}

typedef void check(struct arena *arena, const struct schedule_row *row,
                   const struct schedule_shape *shape);

static void for_random_shapes(struct arena *arena, check *fact)
{
    struct random random = random_start(SEED);
    printf("# seed %d\n", SEED);
    for (int i = 0; i < SHAPES; i++) {
        enum schedule_kind kind = (enum schedule_kind)(i % SCHEDULE_KIND_COUNT);
        struct schedule_shape shape = random_legal(&random, kind);
        struct arena_mark mark = arena_mark(arena);
        fact(arena, schedule_row(kind), &shape);
        arena_reset(arena, mark);
    }
}

static void check_permutation(struct arena *arena, const struct schedule_row *row,
                              const struct schedule_shape *shape)
{
    int count = slot_count(shape);
    for (int stage = 0; stage < shape->stage_count; stage++) {
        const struct slot *slots = order_of(arena, row, shape, stage);
        int *seen = ARENA_NEW(arena, int, count);
        for (int i = 0; i < count; i++) {
            const struct slot *slot = &slots[i];
            assert_true(slot->kind < SLOT_KIND_COUNT && slot->chunk < shape->chunk_count);
            assert_in_range(slot->micro_batch, 0, shape->micro_batch_count - 1);
            int task = slot->chunk * shape->micro_batch_count + slot->micro_batch;
            assert_int_equal(seen[task], slot->kind);  // F, then B, then W
            seen[task]++;
            if (row->backward_fused && slot->kind == TASK_WEIGHT) {
                assert_int_equal(slot[-1].kind, TASK_BACKWARD);
                assert_int_equal(slot[-1].chunk, slot->chunk);
                assert_int_equal(slot[-1].micro_batch, slot->micro_batch);
            }
        }
    }
}

static void every_stage_runs_each_task_once_and_w_after_b_after_f(void **state)
{
    for_random_shapes(*state, check_permutation);
}

static void check_placement(struct arena *arena, const struct schedule_row *row,
                            const struct schedule_shape *shape)
{
    int count = shape->stage_count * shape->chunk_count;
    bool *seen = ARENA_NEW(arena, bool, count);
    for (int at = 0; at < count; at++) {
        int stage = row->stage_of(shape, at), chunk = row->chunk_of(shape, at);
        assert_in_range(stage, 0, shape->stage_count - 1);
        assert_in_range(chunk, 0, shape->chunk_count - 1);
        assert_false(seen[stage * shape->chunk_count + chunk]);
        seen[stage * shape->chunk_count + chunk] = true;
    }
}

static void virtual_stages_fill_every_chunk(void **state)
{
    for_random_shapes(*state, check_placement);
}

// Runs whatever can run until nothing can: a forward behind the virtual stage before, a backward
// behind the one after.
static void check_progress(struct arena *arena, const struct schedule_row *row,
                           const struct schedule_shape *shape)
{
    int virtuals = shape->stage_count * shape->chunk_count, m = shape->micro_batch_count;
    bool *done[2] = {ARENA_NEW(arena, bool, virtuals *m), ARENA_NEW(arena, bool, virtuals *m)};
    int *next = ARENA_NEW(arena, int, shape->stage_count);
    int *virtual_of = ARENA_NEW(arena, int, virtuals);
    const struct slot **slots = ARENA_NEW(arena, const struct slot *, shape->stage_count);
    for (int at = 0; at < virtuals; at++)
        virtual_of[row->stage_of(shape, at) * shape->chunk_count + row->chunk_of(shape, at)] = at;
    for (int i = 0; i < shape->stage_count; i++)
        slots[i] = order_of(arena, row, shape, i);
    for (bool moved = true; moved;) {
        moved = false;
        for (int stage = 0; stage < shape->stage_count; stage++) {
            if (next[stage] == slot_count(shape)) continue;
            const struct slot *slot = &slots[stage][next[stage]];
            int at = virtual_of[stage * shape->chunk_count + slot->chunk];
            int b = slot->kind == TASK_BACKWARD, from = b ? at + 1 : at - 1;
            bool waits = slot->kind != TASK_WEIGHT && from >= 0 && from < virtuals &&
                         !done[b][from * m + slot->micro_batch];
            if (waits) continue;
            if (slot->kind != TASK_WEIGHT) done[b][at * m + slot->micro_batch] = true;
            next[stage]++;
            moved = true;
        }
    }
    for (int i = 0; i < shape->stage_count; i++)
        assert_int_equal(next[i], slot_count(shape));
}

static void no_schedule_deadlocks(void **state)
{
    for_random_shapes(*state, check_progress);
}

// What is alive and waiting before each slot ends, weighed in bytes.
static int64_t heaviest_moment(struct arena *arena, const struct schedule_row *row,
                               const struct schedule_shape *shape, int stage, const int *bytes)
{
    int v = shape->chunk_count;
    const struct slot *slots = order_of(arena, row, shape, stage);
    int64_t now = 0, worst = 0;
    for (int i = 0; i < slot_count(shape); i++) {
        int alive = bytes[slots[i].chunk], waiting = bytes[v + slots[i].chunk];
        if (row->backward_fused) waiting = 0;
        if (slots[i].kind == TASK_FORWARD) now += alive;
        if (now > worst) worst = now;
        if (slots[i].kind == TASK_BACKWARD) now += waiting - alive;
        if (now > worst) worst = now;
        if (slots[i].kind == TASK_WEIGHT) now -= waiting;
    }
    assert_int_equal(now, 0);
    return worst;
}

static int64_t heaviest_hold(const struct schedule_row *row, const struct schedule_shape *shape,
                             int stage, const int *bytes)
{
    static struct schedule_in_flight in_flight[SCHEDULE_IN_FLIGHT_MAX * (UINT8_MAX + 1)];
    int v = shape->chunk_count, count = row->in_flight(shape, stage, in_flight);
    int64_t worst = 0;
    assert_in_range(count, 1, SCHEDULE_IN_FLIGHT_MAX);
    for (int i = 0; i < count; i++) {
        int64_t sum = 0;
        for (int chunk = 0; chunk < v; chunk++) {
            const struct schedule_in_flight *hold = &in_flight[i * v + chunk];
            assert_true(hold->alive >= 0 && hold->waiting >= 0);
            sum += (int64_t)hold->alive * bytes[chunk] + (int64_t)hold->waiting * bytes[v + chunk];
        }
        if (sum > worst) worst = sum;
    }
    return worst;
}

// With bytes of all sorts: chunks alike, one much heavier, W holding nothing or more than F.
static void check_holds(struct arena *arena, const struct schedule_row *row,
                        const struct schedule_shape *shape)
{
    struct random random = random_start((uint64_t)(shape->stage_count * 64 + shape->chunk_count));
    int v = shape->chunk_count, *bytes = ARENA_NEW(arena, int, 2 * v);
    for (int stage = 0; stage < shape->stage_count; stage++) {
        for (int tried = 0; tried < 8; tried++) {
            for (int i = 0; i < 2 * v; i++)
                bytes[i] = tried == 0 ? 1 : random_int(&random, 0, tried < 4 ? 10 : 1);
            assert_int_equal(heaviest_hold(row, shape, stage, bytes),
                             heaviest_moment(arena, row, shape, stage, bytes));
        }
    }
}

static void holds_are_the_heaviest_moments_of_the_order(void **state)
{
    for_random_shapes(*state, check_holds);
}

// What lets a search ask few stages for many (planner/compose.c). The last stage of a V has an
// order of its own: there the one before it may hold most.
static void check_first_or_last(struct arena *arena, const struct schedule_row *row,
                                const struct schedule_shape *shape)
{
    struct random random = random_start((uint64_t)(shape->stage_count * 64 + shape->chunk_count));
    int v = shape->chunk_count, last = shape->stage_count - 1;
    int *bytes = ARENA_NEW(arena, int, 2 * v);
    for (int tried = 0; tried < 8; tried++) {
        for (int i = 0; i < 2 * v; i++)
            bytes[i] = tried == 0 ? 1 : random_int(&random, 0, tried < 4 ? 10 : 1);
        int from = random_int(&random, 0, last), to = random_int(&random, from, last);
        int64_t first_bytes = heaviest_hold(row, shape, from, bytes);
        int64_t last_bytes = heaviest_hold(row, shape, to, bytes);
        int64_t most_bytes = first_bytes > last_bytes ? first_bytes : last_bytes;
        int64_t before_bytes =
            to == last && to > from ? heaviest_hold(row, shape, to - 1, bytes) : 0;
        if (before_bytes > most_bytes) most_bytes = before_bytes;
        for (int stage = from; stage <= to; stage++) {
            int64_t found = heaviest_hold(row, shape, stage, bytes);
            if (row->backward_fused)
                assert_true(found <= first_bytes);
            else
                assert_true(found <= most_bytes);
        }
    }
}

static void of_equal_stages_the_first_or_the_last_holds_most(void **state)
{
    for_random_shapes(*state, check_first_or_last);
}

// In micro-batches of a whole stage where F and B, B and W hold the same.
static void check_known_holds(struct arena *arena, const struct schedule_row *row,
                              const struct schedule_shape *shape)
{
    int v = shape->chunk_count, m = shape->micro_batch_count, p = shape->stage_count;
    int *bytes = ARENA_NEW(arena, int, 2 * v);
    for (int i = 0; i < 2 * v; i++)
        bytes[i] = 1;
    for (int stage = 0; stage < p; stage++) {
        int known = m * v, cap = shape->in_flight ? shape->in_flight : p;
        if (row == schedule_row(SCHEDULE_1F1B)) known = p - stage;
        if (row == schedule_row(SCHEDULE_INTERLEAVED))
            known = (p - stage - 1) * 2 + (v - 1) * p + 1;
        if (row == schedule_row(SCHEDULE_ZB_H1)) known = p;
        if (row == schedule_row(SCHEDULE_ZB_H2)) known = shape->in_flight ? 2 * p : 2 * p - 1;
        if (row == schedule_row(SCHEDULE_ZB_AUTO)) known = cap < 2 * p - 1 ? cap : 2 * p - 1;
        if (row == schedule_row(SCHEDULE_ZB_V)) known = 2 * p;
        assert_int_equal(heaviest_hold(row, shape, stage, bytes), known < m * v ? known : m * v);
    }
}

static void stages_hold_as_many_micro_batches_as_the_papers_say(void **state)
{
    for_random_shapes(*state, check_known_holds);
}

static char *order_text(struct arena *arena, enum schedule_kind kind, struct schedule_shape shape,
                        int stage)
{
    const struct slot *slots = order_of(arena, schedule_row(kind), &shape, stage);
    char *text = "";
    for (int i = 0; i < slot_count(&shape); i++) {
        if (slots[i].kind == TASK_WEIGHT && schedule_row(kind)->backward_fused) continue;
        text = arena_print(arena, "%s %c%d", text, "FBW"[slots[i].kind],
                           slots[i].chunk * 10 + slots[i].micro_batch);
    }
    return text;
}

// Figures 3 and 4 of Narayanan et al. 2021, tens are the chunk.
static void orders_are_those_of_the_papers(void **state)
{
    struct arena *arena = *state;
    assert_string_equal(
        order_text(arena, SCHEDULE_GPIPE, (struct schedule_shape){3, 1, 3, 0, NULL}, 1),
        " F0 F1 F2 B0 B1 B2");
    assert_string_equal(
        order_text(arena, SCHEDULE_1F1B, (struct schedule_shape){3, 1, 4, 0, NULL}, 0),
        " F0 F1 F2 B0 F3 B1 B2 B3");
    assert_string_equal(
        order_text(arena, SCHEDULE_1F1B, (struct schedule_shape){3, 1, 4, 0, NULL}, 2),
        " F0 B0 F1 B1 F2 B2 F3 B3");
    assert_string_equal(
        order_text(arena, SCHEDULE_INTERLEAVED, (struct schedule_shape){2, 2, 4, 0, NULL}, 0),
        " F0 F1 F10 F11 F2 B10 F3 B11 F12 B0 F13 B1 B12 B13 B2 B3");
    assert_string_equal(
        order_text(arena, SCHEDULE_INTERLEAVED, (struct schedule_shape){2, 2, 4, 0, NULL}, 1),
        " F0 F1 F10 B10 F11 B11 F2 B0 F3 B1 F12 B12 F13 B13 B2 B3");
}

// From the rules in plan/schedules/zero_bubble.c and zero_bubble_v.c.
static void zero_bubble_orders_delay_w(void **state)
{
    struct arena *arena = *state;
    struct schedule_shape shape = {3, 1, 5, 0, NULL};
    assert_string_equal(order_text(arena, SCHEDULE_ZB_H1, shape, 0),
                        " F0 F1 F2 B0 W0 F3 B1 W1 F4 B2 W2 B3 W3 B4 W4");
    assert_string_equal(order_text(arena, SCHEDULE_ZB_H1, shape, 2),
                        " F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 F4 B4 W2 W3 W4");
    assert_string_equal(order_text(arena, SCHEDULE_ZB_H2, shape, 0),
                        " F0 F1 F2 F3 F4 B0 W0 B1 W1 B2 W2 B3 W3 B4 W4");
    assert_string_equal(order_text(arena, SCHEDULE_ZB_H2, shape, 2),
                        " F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 W0 W1 W2 W3 W4");
    shape = (struct schedule_shape){2, 2, 3, 0, NULL};
    assert_string_equal(order_text(arena, SCHEDULE_ZB_V, shape, 1),
                        " F0 F10 F1 F11 B10 B0 W0 F2 W10 F12 B11 B1 W1 B12 B2 W2 W11 W12");
}

static void shapes_that_cannot_run_are_refused_with_a_reason(void **state)
{
    (void)state;
    const char *why = NULL;
    struct schedule_shape shape = {4, 2, 10, 0, NULL};
    assert_false(schedule_row(SCHEDULE_INTERLEAVED)->legal(&shape, &why));
    assert_string_equal(why, "needs micro-batches in multiples of pp");
    assert_false(schedule_row(SCHEDULE_1F1B)->legal(&shape, &why));
    assert_string_equal(why, "runs one chunk a stage (vpp 1)");
    shape = (struct schedule_shape){1, 2, 8, 0, NULL};
    assert_false(schedule_row(SCHEDULE_INTERLEAVED)->legal(&shape, &why));
    assert_string_equal(why, "needs at least two stages (pp)");
    shape = (struct schedule_shape){4, 1, 8, 0, NULL};
    assert_false(schedule_row(SCHEDULE_INTERLEAVED)->legal(&shape, &why));
    assert_string_equal(why, "needs at least two chunks a stage (vpp)");
    assert_false(schedule_row(SCHEDULE_ZB_V)->legal(&shape, &why));
    assert_string_equal(why, "runs exactly two chunks a stage (vpp 2)");
    shape = (struct schedule_shape){1, 2, 8, 0, NULL};
    assert_false(schedule_row(SCHEDULE_ZB_V)->legal(&shape, &why));
    assert_string_equal(why, "needs at least two stages (pp)");
    for (int kind = SCHEDULE_ZB_H1; kind <= SCHEDULE_ZB_H2; kind++) {
        assert_false(schedule_row((enum schedule_kind)kind)->legal(&shape, &why));
        assert_string_equal(why, "runs one chunk a stage (vpp 1)");
    }
    shape = (struct schedule_shape){4, 1, 8, -1, NULL};
    assert_false(schedule_row(SCHEDULE_ZB_AUTO)->legal(&shape, &why));
    assert_string_equal(why, "holds at least one micro-batch a stage (in-flight)");
    shape.in_flight = 7;
    assert_false(schedule_row(SCHEDULE_ZB_H2)->legal(&shape, &why));
    assert_string_equal(
        why, "holds 2 pp - 1 micro-batches a stage (in-flight 0), or 2 pp where it is searched");
}

static void task_numbers_read_back(void **state)
{
    (void)state;
    struct schedule_shape shape = {4, 3, 8, 0, NULL};
    for (int number = 0; number < 1000; number++) {
        struct task_id id = task_id_of(&shape, number);
        assert_int_equal(task_number(&shape, &id), number);
    }
}

static void equal_neighbours_share_a_run(void **state)
{
    struct arena *arena = *state;
    struct schedule_shape shape = {5, 2, 10, 0, NULL};
    const int class_of[] = {0, 1, 2, 1, 2, 1, 2, 1, 2, 3};
    const struct stage_runs *runs = stage_runs_make(arena, &shape, class_of, 4);
    assert_int_equal(runs->run_count, 3);
    assert_int_equal(runs->runs[1].first, 1);
    assert_int_equal(runs->runs[1].count, 3);
    assert_int_equal(runs->class_uses[1], 4);
}

// What the search takes for granted before it asks a schedule: struct schedule_row, hold_ratio.
static void no_stage_holds_less_than_its_share_of_1f1b(void **state)
{
    (void)state;
    enum { STAGES = 24, CHUNKS = 4, MICRO_BATCHES = 50 };
    struct schedule_in_flight in_flight[SCHEDULE_IN_FLIGHT_MAX * CHUNKS];
    for (int kind = 0; kind < SCHEDULE_KIND_COUNT; kind++) {
        const struct schedule_row *row = schedule_row((enum schedule_kind)kind);
        for (int i = 0; i < STAGES * CHUNKS * MICRO_BATCHES; i++) {
            struct schedule_shape shape = {i % STAGES + 1, i / STAGES % CHUNKS + 1,
                                           i / STAGES / CHUNKS + 1, 0, NULL};
            const char *why = NULL;
            if (!row->legal(&shape, &why)) continue;
            for (int stage = 0; stage < shape.stage_count; stage++) {
                int count = row->in_flight(&shape, stage, in_flight), most = 0;
                for (int n = 0; n < count; n++) {
                    int alive = 0;
                    for (int chunk = 0; chunk < shape.chunk_count; chunk++)
                        alive += in_flight[n * shape.chunk_count + chunk].alive;
                    if (alive > most) most = alive;
                }
                int left = shape.stage_count - stage;
                int wanted = left < shape.micro_batch_count ? left : shape.micro_batch_count;
                assert_true(most >= row->hold_ratio * wanted * shape.chunk_count);
            }
        }
    }
}

// Of moments none of which is below another each is kept until there is no room, then the last one
// takes the larger of each count; what covers others takes their place.
static void holds_that_another_covers_are_none(void **state)
{
    enum { MOST = SCHEDULE_IN_FLIGHT_MAX, CHUNKS = 2 };
    struct schedule_in_flight *in_flight =
        ARENA_NEW(*state, struct schedule_in_flight, (MOST + 1) * CHUNKS);
    struct hold_list list = {in_flight, CHUNKS, 0};
    for (int i = 0; i < MOST; i++) {
        struct schedule_in_flight moment[CHUNKS] = {{i, 7}, {3, 2 * MOST - i}};
        hold_list_add(&list, moment);
        assert_int_equal(list.count, i + 1);
        moment[0].alive = i > 0 ? i - 1 : 0;
        moment[1].alive = 2;
        hold_list_add(&list, moment);
        assert_int_equal(list.count, i + 1);
    }
    // Larger in one count than the last, in one than all: no room.
    hold_list_add(&list, (const struct schedule_in_flight[CHUNKS]){{MOST + 5, 1}, {9, 4}});
    assert_int_equal(list.count, MOST);
    const struct schedule_in_flight *last = &in_flight[(MOST - 1) * CHUNKS];
    assert_true(last[0].alive == MOST + 5 && last[0].waiting == 7);
    assert_true(last[1].alive == 9 && last[1].waiting == MOST + 1);
    assert_true(last[-1].alive == 3 && last[-1].waiting == MOST + 2);
    assert_true(last[-2].alive == MOST - 2 && last[-2].waiting == 7);
    // Covers the first and the third of those that are left, in their order.
    hold_list_add(&list, (const struct schedule_in_flight[CHUNKS]){{0, 8}, {3, 2 * MOST}});
    assert_int_equal(list.count, MOST);
    assert_true(in_flight[0].alive == 1 && in_flight[1].waiting == 2 * MOST - 1);
    last = &in_flight[(MOST - 1) * CHUNKS];
    assert_true(last[0].alive == 0 && last[0].waiting == 8 && last[1].waiting == 2 * MOST);
    hold_list_add(&list, (const struct schedule_in_flight[CHUNKS]){{500, 500}, {500, 500}});
    assert_int_equal(list.count, 1);
    assert_true(in_flight[0].alive == 500 && in_flight[1].waiting == 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_stage_holds_less_than_its_share_of_1f1b),
        cmocka_unit_test(every_stage_runs_each_task_once_and_w_after_b_after_f),
        cmocka_unit_test(virtual_stages_fill_every_chunk),
        cmocka_unit_test(no_schedule_deadlocks),
        cmocka_unit_test(holds_are_the_heaviest_moments_of_the_order),
        cmocka_unit_test(of_equal_stages_the_first_or_the_last_holds_most),
        cmocka_unit_test(stages_hold_as_many_micro_batches_as_the_papers_say),
        cmocka_unit_test(orders_are_those_of_the_papers),
        cmocka_unit_test(holds_that_another_covers_are_none),
        cmocka_unit_test(zero_bubble_orders_delay_w),
        cmocka_unit_test(shapes_that_cannot_run_are_refused_with_a_reason),
        cmocka_unit_test(task_numbers_read_back),
        cmocka_unit_test(equal_neighbours_share_a_run),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
