#include "simulator/closed_form.h"
#include "simulator/walk.h"
#include "tests/support/random_plan.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>

// Zero-bubble schedules where F, B and W take one unit of time each and hops none, in which the
// papers give their bubbles, and against other ways to find the same orders.

static const double UNIT_S = 1e-6;
enum { UNIT_NS = 1000 };

// Units from the first task of all stages to the last of all, and on the stage that takes longest
// from its own first to its own last, without the work.
struct bubble {
    int64_t step, stage;
};

static struct bubble bubble_of(struct arena *arena, enum schedule_kind kind,
                               struct schedule_shape shape)
{
    struct arena_mark mark = arena_mark(arena);
    struct step_price *price = even_plan(arena, kind, shape, UNIT_S, UNIT_S);
    struct chunk_price class = price->classes[0];
    class.phase_s[TASK_WEIGHT][PART_COMPUTE] = UNIT_S;
    price->classes = &class;
    assert_int_equal(price->class_count, 1);
    struct walk *walk = walk_new(arena, price);
    walk_run(walk, NULL);
    struct bubble bubble = {0, 0};
    for (int stage = 0; stage < shape.stage_count; stage++) {
        const struct stage_walk *own = &walk->stages[stage];
        int64_t waited = (own->end_ns - own->busy_ns) / UNIT_NS;
        assert_int_equal(own->busy_ns,
                         (int64_t)UNIT_NS * 3 * shape.chunk_count * shape.micro_batch_count);
        // The first forward comes up through as many forwards.
        if (waited > bubble.step) bubble.step = waited;
        if (waited - stage > bubble.stage) bubble.stage = waited - stage;
    }
    arena_reset(arena, mark);
    return bubble;
}

// (p-1) (F + B - W) with F = B = W.
static void zb_h1_has_the_bubble_of_the_paper(void **state)
{
    for (int p = 1; p <= 16; p++) {
        for (int m = p; m <= 5 * p; m += p > 4 ? 3 : 1) {
            struct bubble bubble =
                bubble_of(*state, SCHEDULE_ZB_H1, (struct schedule_shape){p, 1, m, 0, NULL});
            assert_int_equal(bubble.stage, p - 1);
            assert_int_equal(bubble.step, p - 1);
        }
    }
}

// (p-1) (F + B - 2W) = 0 on each stage; all wait for the last one, which starts p - 1 later.
static void zb_h2_has_no_bubble_but_the_last_stage_starts_later(void **state)
{
    for (int p = 1; p <= 16; p++) {
        for (int m = 2 * p - 1; m <= 6 * p; m += p > 4 ? 3 : 1) {
            struct bubble bubble =
                bubble_of(*state, SCHEDULE_ZB_H2, (struct schedule_shape){p, 1, m, 0, NULL});
            assert_int_equal(bubble.stage, 0);
            assert_int_equal(bubble.step, p - 1);
        }
    }
}

// Where the norm is validated behind the update the steps run into each other, and what is left is
// each stage's own bubble: (p-1) (F + B - W) = p - 1 under H1, none under H2.
static void validated_steps_keep_only_the_bubble_of_a_stage(void **state)
{
    struct arena scratch = {0};
    for (int p = 2; p <= 16; p++) {
        for (int kind = SCHEDULE_ZB_H1; kind <= SCHEDULE_ZB_H2; kind++) {
            struct schedule_shape shape = {p, 1, 3 * p, 0, NULL};
            struct step_price *price =
                even_plan(*state, (enum schedule_kind)kind, shape, 1e-3, 1e-3);
            struct chunk_price class = price->classes[0];
            class.phase_s[TASK_WEIGHT][PART_COMPUTE] = 1e-3;
            price->classes = &class;
            price->post_validated = true;
            price->norm_s = 5e-3;  // nobody waits for it
            double bubble_s = kind == SCHEDULE_ZB_H1 ? (p - 1) * 1e-3 : 0;
            struct engine_options options = {0};
            struct cost events = simulate_step(*state, &scratch, price, &options)->cost;
            assert_true(fabs(events.bubble_s - bubble_s) < 1e-9);
            assert_true(fabs(events.step_s - (9e-3 * p + bubble_s)) < 1e-9);
            assert_true(fabs(closed_form(price).step_s - events.step_s) < 1e-9);
        }
    }
    arena_free(&scratch);
}

// p - 1 tasks of half a stage, when 1F1B waits for 3 (p-1) whole ones; none is possible before the
// last stage starts.
static void zb_v_waits_only_for_the_last_stage_to_start(void **state)
{
    for (int p = 2; p <= 16; p++) {
        for (int m = p; m <= 5 * p; m += p > 4 ? 3 : 1) {
            struct bubble bubble =
                bubble_of(*state, SCHEDULE_ZB_V, (struct schedule_shape){p, 2, m, 0, NULL});
            assert_int_equal(bubble.step, p - 1);
        }
    }
}

// So that the most memory that fits is also the fastest plan; below p micro-batches it need not be.
static void a_larger_cap_is_never_slower(void **state)
{
    for (int p = 1; p <= 16; p++) {
        for (int m = p; m <= 6 * p; m += p > 4 && m > 2 * p ? 5 : 1) {
            int64_t before = INT64_MAX;
            for (int cap = 1; cap <= 2 * p + 1; cap++) {
                struct bubble bubble = bubble_of(*state, SCHEDULE_ZB_AUTO,
                                                 (struct schedule_shape){p, 1, m, cap, NULL});
                assert_true(bubble.step <= before);
                before = bubble.step;
            }
        }
    }
}

static void zb_auto_is_zb_h1_and_zb_h2_at_their_caps(void **state)
{
    struct arena *arena = *state;
    static const enum schedule_kind KINDS[] = {SCHEDULE_ZB_H1, SCHEDULE_ZB_H2};
    enum { STAGES = 6, MICRO_BATCHES = 15, SLOTS = SLOT_KIND_COUNT * MICRO_BATCHES };
    const int caps[] = {STAGES, 2 * STAGES - 1};
    for (int i = 0; i < 2 * STAGES; i++) {
        struct schedule_shape shape = {STAGES, 1, MICRO_BATCHES, caps[i % 2], NULL};
        struct slot *one = ARENA_NEW(arena, struct slot, SLOTS);
        struct slot *other = ARENA_NEW(arena, struct slot, SLOTS);
        schedule_row(KINDS[i % 2])->order(&shape, i / 2, one);
        schedule_row(SCHEDULE_ZB_AUTO)->order(&shape, i / 2, other);
        assert_memory_equal(one, other, SLOTS * sizeof *one);
    }
}

// Units of the order in which stage i runs warm_ups[i] forwards ahead and lets W wait as long as
// `cap` allows.
enum { STAGES_TRIED = 7, ROUNDS_TRIED = 24 };
static int units_of(int p, int cap, const int *warm_ups)
{
    int end[STAGES_TRIED] = {0}, round[STAGES_TRIED] = {0};
    int forward[STAGES_TRIED][ROUNDS_TRIED] = {{0}}, backward[STAGES_TRIED][ROUNDS_TRIED] = {{0}};
    int forwards[STAGES_TRIED] = {0}, weights[STAGES_TRIED] = {0}, most = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < p; i++) {
            int ahead = warm_ups[i] + round[i] + 1, j = forwards[i], k = round[i], ready = 0;
            if (k == ROUNDS_TRIED) continue;
            if (j < ahead && j < ROUNDS_TRIED) {
                if (i > 0 && !(ready = forward[i - 1][j])) continue;
                forward[i][j] = end[i] = (ready > end[i] ? ready : end[i]) + 1;
                forwards[i]++;
            } else {
                if (i + 1 < p && !(ready = backward[i + 1][k])) continue;
                backward[i][k] = end[i] = (ready > end[i] ? ready : end[i]) + 1;
                round[i]++;
                bool over = round[i] > cap - 1 - warm_ups[i];
                weights[i] += over;
                end[i] += over;
            }
            moved = true;
        }
    }
    for (int i = 0; i < p; i++) {
        if (round[i] < ROUNDS_TRIED) return INT32_MAX;
        int all = end[i] + ROUNDS_TRIED - weights[i];
        if (all > most) most = all;
    }
    return most;
}

static int best_below(int p, int cap, int stage, int *warm_ups)
{
    if (stage < 0) return units_of(p, cap, warm_ups);
    int least = stage == p - 1 ? 0 : warm_ups[stage + 1], best = INT32_MAX;
    for (int step = 0; step < 2 && least + step < cap; step++) {
        if (stage == p - 1 && step > 0) continue;
        warm_ups[stage] = least + step;
        int found = best_below(p, cap, stage - 1, warm_ups);
        if (found < best) best = found;
    }
    return best;
}

static void below_p_no_other_warm_up_is_faster(void **state)
{
    for (int p = 2; p <= STAGES_TRIED; p++) {
        for (int cap = 1; cap <= p; cap++) {
            int warm_ups[STAGES_TRIED], best = best_below(p, cap, p - 1, warm_ups);
            struct schedule_shape shape = {p, 1, ROUNDS_TRIED, cap, NULL};
            struct bubble bubble = bubble_of(*state, SCHEDULE_ZB_AUTO, shape);
            assert_int_equal(bubble.step + 3 * ROUNDS_TRIED, best);
        }
    }
}

// The list scheduling that ZB-V writes out.
enum list_task { F0, F1, B0, B1, W0, W1, LIST_TASKS };
static const enum list_task PRIORITY[LIST_TASKS] = {F1, B0, F0, W0, B1, W1};

// How many micro-batches of `stages` have what this task reads.
static int inputs_of(int p, int m, int stage, enum list_task task, int (*done)[LIST_TASKS])
{
    switch (task) {
    case F0:
        return stage == 0 ? m : done[stage - 1][F0];
    case F1:
        return stage == p - 1 ? done[stage][F0] : done[stage + 1][F1];
    case B1:
        return stage == 0 ? done[stage][F1] : done[stage - 1][B1];
    case B0:
        return stage == p - 1 ? done[stage][B1] : done[stage + 1][B0];
    case W0:
        return done[stage][B0];
    default:
        return done[stage][B1];
    }
}

static enum list_task list_pick(int p, int m, int stage, int (*done)[LIST_TASKS])
{
    const int *own = done[stage];
    bool is_full = own[F0] + own[F1] - own[W0] - own[W1] >= 2 * p;
    for (int i = 0; i < LIST_TASKS; i++) {
        enum list_task task = PRIORITY[i];
        if ((task == F0 || task == F1) && is_full) continue;
        if (own[task] < inputs_of(p, m, stage, task, done)) return task;
    }
    return LIST_TASKS;
}

// Returns how many units it took.
static int list_schedule(struct arena *arena, int p, int m, struct slot **slots)
{
    int units = 0;
    int(*done)[LIST_TASKS] = arena_alloc(arena, (size_t)p, sizeof *done);
    enum list_task *picked = ARENA_NEW(arena, enum list_task, p);
    for (int left = 2 * SLOT_KIND_COUNT * p * m, before = left + 1; left > 0;) {
        assert_true(left < before);
        before = left;
        units++;
        for (int stage = 0; stage < p; stage++)
            picked[stage] = list_pick(p, m, stage, done);
        for (int stage = 0; stage < p; stage++) {
            if (picked[stage] == LIST_TASKS) continue;
            int task = (int)picked[stage];
            *slots[stage]++ =
                (struct slot){(uint8_t)(task / 2), (uint8_t)(task % 2), done[stage][task]++};
            left--;
        }
    }
    return units;
}

// With fewer micro-batches than stages in another order that takes as long.
static void zb_v_is_what_list_scheduling_gives(void **state)
{
    struct arena *arena = *state;
    for (int p = 2; p <= 14; p++) {
        for (int m = 1; m <= 4 * p; m += m > p ? 3 : 1) {
            struct arena_mark mark = arena_mark(arena);
            struct schedule_shape shape = {p, 2, m, 0, NULL};
            int count = 2 * SLOT_KIND_COUNT * m;
            struct slot **listed = ARENA_NEW(arena, struct slot *, p);
            struct slot *found = ARENA_NEW(arena, struct slot, count);
            for (int stage = 0; stage < p; stage++)
                listed[stage] = ARENA_NEW(arena, struct slot, count);
            int units = list_schedule(arena, p, m, listed);
            assert_int_equal(bubble_of(arena, SCHEDULE_ZB_V, shape).step + 6 * m, units);
            for (int stage = 0; m >= p && stage < p; stage++) {
                schedule_row(SCHEDULE_ZB_V)->order(&shape, stage, found);
                assert_memory_equal(found, listed[stage] - count, (size_t)count * sizeof *found);
            }
            arena_reset(arena, mark);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zb_h1_has_the_bubble_of_the_paper),
        cmocka_unit_test(zb_h2_has_no_bubble_but_the_last_stage_starts_later),
        cmocka_unit_test(validated_steps_keep_only_the_bubble_of_a_stage),
        cmocka_unit_test(zb_v_waits_only_for_the_last_stage_to_start),
        cmocka_unit_test(a_larger_cap_is_never_slower),
        cmocka_unit_test(zb_auto_is_zb_h1_and_zb_h2_at_their_caps),
        cmocka_unit_test(below_p_no_other_warm_up_is_faster),
        cmocka_unit_test(zb_v_is_what_list_scheduling_gives),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
