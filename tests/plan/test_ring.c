#include "plan/schedule.h"
#include "tests/support/random_plan.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>

// The duration of the interleaved order (plan/schedules/ring.c) against the longest path through
// all of its tasks, and against itself with the same stages in other runs.

enum { PLANS = 3000, SEED = 20261121 };

struct durations {
    struct pipeline_times times;
    int end_count;
    double *end_s;  // as schedule_row.ends fills them
};

static double random_time(struct random *random, double least_s)
{
    return least_s * (1 + random_ratio(random));
}

// A ring with the classes of a plan of the search; in half of them classes differ at will.
static struct pipeline_times random_times(struct arena *arena, struct random *random,
                                          int stage_most)
{
    const struct step_price *price;
    do {
        price = random_plan(arena, random, SCHEDULE_INTERLEAVED);
    } while (price->shape.stage_count > stage_most);
    struct chunk_times *classes = ARENA_NEW(arena, struct chunk_times, price->class_count);
    bool at_will = random_int(random, 0, 1);
    for (int i = 0; i < price->class_count; i++) {
        const double(*phase_s)[PART_COUNT] = price->classes[i].phase_s;
        classes[i].forward_s = phase_s[TASK_FORWARD][PART_COMPUTE];
        classes[i].backward_s = phase_s[TASK_BACKWARD][PART_COMPUTE];
        classes[i].weight_s = phase_s[TASK_WEIGHT][PART_COMPUTE];
        if (!at_will) continue;
        classes[i].forward_s = random_time(random, classes[i].forward_s);
        classes[i].backward_s = random_time(random, classes[i].backward_s);
    }
    return (struct pipeline_times){
        .shape = price->shape,
        .classes = classes,
        .class_count = price->class_count,
        .class_of = price->class_of,
        .runs = price->runs,
        .hop_s = price->hop_s,
        .hop_overlapped = price->hop_overlapped,
    };
}

static struct durations durations_of(struct arena *arena, struct pipeline_times times)
{
    struct durations durations = {times, (times.runs->run_count + 1) * times.shape.chunk_count,
                                  NULL};
    durations.end_s = ARENA_NEW(arena, double, durations.end_count);
    schedule_row(SCHEDULE_INTERLEAVED)->ends(&times, durations.end_s);
    return durations;
}

// Chunk of the task at `place` of all forwards or backwards of a stage; -1 where there is none.
static int chunk_at(const struct schedule_shape *shape, int place, bool backward)
{
    if (place < 0 || place >= shape->chunk_count * shape->micro_batch_count) return -1;
    int chunk = place / shape->stage_count % shape->chunk_count;
    return backward ? shape->chunk_count - 1 - chunk : chunk;
}

static double task_s(const struct pipeline_times *times, int stage, int chunk, bool backward)
{
    int class = times->class_of[stage * times->shape.chunk_count + chunk];
    const struct chunk_times *at = &times->classes[class];
    return backward ? at->backward_s + at->weight_s : at->forward_s;
}

// What a blocking hop stops a stage for between a backward and the forward behind it: nothing is
// sent or received where both are of the first chunk on the first stage.
static double gap_behind_s(const struct pipeline_times *times, int stage, int backward, int next)
{
    bool is_still = stage == 0 && backward == 0 && next == 0;
    return times->hop_overlapped || is_still ? 0 : times->hop_s;
}

// What a path gains by staying on a stage for a step. `next` is the forward of the one after.
static double dwell_s(const struct pipeline_times *times, int stage, int forward, int backward,
                      int next)
{
    int last = times->shape.stage_count - 1, top = times->shape.chunk_count - 1;
    bool is_still = stage == last && forward == top && backward == top;
    double gap_s = times->hop_overlapped || is_still ? 0 : times->hop_s, sum_s = 0;
    if (forward >= 0) sum_s += task_s(times, stage, forward, false) + gap_s;
    if (backward >= 0) sum_s += task_s(times, stage, backward, true);
    if (backward >= 0) sum_s += gap_behind_s(times, stage, backward, next);
    return sum_s;
}

static void keep_longer(double *kept_s, double found_s)
{
    if (found_s > *kept_s) *kept_s = found_s;
}

// Where the moves of one moment lead: the definition of the paths in ring.c, word by word, with
// every stage and every moment.
static void pass_moment(const struct pipeline_times *times, int moment, const double *from_s,
                        double *to_s)
{
    const struct schedule_shape *shape = &times->shape;
    int p = shape->stage_count, v = shape->chunk_count;
    for (int i = 0; i < p; i++)
        to_s[i] = -INFINITY;
    for (int i = 0; i < p; i++) {
        int forward = chunk_at(shape, moment - 2 - i, false);
        int backward = chunk_at(shape, moment + i - (v + 1) * p, true);
        int sent = chunk_at(shape, moment + i - (v + 1) * p - 1, true);
        int next = chunk_at(shape, moment - 1 - i, false);
        keep_longer(&to_s[i], from_s[i] + dwell_s(times, i, forward, backward, next));
        bool up = forward >= 0 && (i + 1 < p || forward + 1 < v);
        if (up)
            keep_longer(&to_s[(i + 1) % p],
                        from_s[i] + task_s(times, i, forward, false) + times->hop_s);
        if (sent < 0 || (i == 0 && sent == 0)) continue;
        int below = (i + p - 1) % p, chunk = i > 0 ? sent : sent - 1;
        double hop_s = times->hop_s;
        int behind = chunk_at(shape, moment - 1 - below, false);
        if (!times->hop_overlapped) hop_s = gap_behind_s(times, below, chunk, behind);
        keep_longer(&to_s[below], from_s[i] + task_s(times, below, chunk, true) + hop_s);
    }
}

// ends_s[stage * chunk_count + chunk]
static void longest_paths(const struct pipeline_times *times, double *ends_s)
{
    const struct schedule_shape *shape = &times->shape;
    int p = shape->stage_count, v = shape->chunk_count, total = v * shape->micro_batch_count;
    double at_s[2][STAGE_MAX];
    for (int i = 0; i < p; i++)
        at_s[0][i] = i == 0 ? 0 : -INFINITY;
    double gap_s = times->hop_overlapped ? 0 : times->hop_s;
    for (int moment = 0; moment <= total + (v + 1) * p; moment++) {
        const double *now_s = at_s[moment % 2];
        for (int stage = 0; stage < p; stage++) {
            for (int chunk = 0; chunk < v; chunk++) {
                int behind_last = total - chunk * p - stage + (v + 1) * p;
                if (moment == behind_last) ends_s[stage * v + chunk] = now_s[stage] - gap_s;
            }
        }
        pass_moment(times, moment, now_s, at_s[(moment + 1) % 2]);
    }
}

// The longest path dwells where ring.c lets it in nearly all rings. It grants none that is not
// there, but for rings whose stages do not grow alike within the groups that are passed.
static void the_duration_is_that_of_the_longest_path(void **state)
{
    struct arena *arena = *state;
    struct random random = random_start(SEED);
    double sum = 0, most = 0, least = 0;
    int exact = 0;
    for (int i = 0; i < PLANS; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct durations found = durations_of(arena, random_times(arena, &random, 12));
        const struct schedule_shape *shape = &found.times.shape;
        double *ends_s = ARENA_NEW(arena, double, shape->stage_count * shape->chunk_count);
        longest_paths(&found.times, ends_s);
        double ratio = found.end_s[0] / ends_s[0] - 1;
        sum += fabs(ratio);
        most = fmax(most, ratio);
        least = fmin(least, ratio);
        exact += fabs(ratio) < 1e-12;
        arena_reset(arena, mark);
    }
    printf("# seed %d: %d rings, %d exact, mean %.4f %%, at most %.3f %% too long, %.2f %% too "
           "short\n",
           SEED, PLANS, exact, 100 * sum / PLANS, 100 * most, -100 * least);
    assert_true(exact >= PLANS * 98 / 100);
    assert_true(sum / PLANS <= 0.001);
    assert_true(most <= 0.001 && least >= -0.03);
}

// The ends between are estimated from their neighbours where paths do not stop.
static void the_ends_of_the_first_and_the_last_stage_are_those_of_the_longest_paths(void **state)
{
    struct arena *arena = *state;
    struct random random = random_start(SEED);
    int exact = 0, compared = 0;
    for (int i = 0; i < PLANS; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct durations found = durations_of(arena, random_times(arena, &random, 12));
        const struct schedule_shape *shape = &found.times.shape;
        int p = shape->stage_count, v = shape->chunk_count;
        double *ends_s = ARENA_NEW(arena, double, p *v);
        longest_paths(&found.times, ends_s);
        for (int chunk = 0; chunk < v; chunk++) {
            const double *first_s = &found.end_s[chunk], *last_s = first_s + found.end_count - v;
            exact += fabs(*first_s - ends_s[chunk]) < 1e-12 * ends_s[0];
            exact += fabs(*last_s - ends_s[(p - 1) * v + chunk]) < 1e-12 * ends_s[0];
            compared += 2;
        }
        arena_reset(arena, mark);
    }
    printf("# seed %d: %d ends, %.2f %% exact\n", SEED, compared, 100.0 * exact / compared);
    assert_true(exact >= compared / 100 * 97);
}

// The same ring, every chunk of a class of its own.
static struct pipeline_times set_apart(struct arena *arena, const struct pipeline_times *times,
                                       struct chunk_times **classes)
{
    struct pipeline_times apart = *times;
    int all = times->shape.stage_count * times->shape.chunk_count;
    int *class_of = ARENA_NEW(arena, int, all);
    *classes = ARENA_NEW(arena, struct chunk_times, all);
    for (int at = 0; at < all; at++) {
        (*classes)[at] = times->classes[times->class_of[at]];
        class_of[at] = at;
    }
    apart.classes = *classes;
    apart.class_of = class_of;
    apart.class_count = all;
    apart.runs = stage_runs_make(arena, &times->shape, class_of, all);
    return apart;
}

// Layers whose attention differs fall on chunks as they come: among more than four stages every
// moment is walked then (plan/schedules/ring_walk.c), and all ends are those of the longest paths.
static void unequal_chunks_take_exactly_the_longest_path(void **state)
{
    enum { RINGS = 400 };
    struct arena *arena = *state;
    struct random random = random_start(SEED + 1);
    int compared = 0;
    for (int i = 0; i < RINGS; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct pipeline_times times = random_times(arena, &random, 12);
        struct chunk_times *classes;
        struct pipeline_times uneven = set_apart(arena, &times, &classes);
        int p = times.shape.stage_count, v = times.shape.chunk_count;
        // Four kinds, of which the slowest takes up to twice as long.
        double kinds[4];
        for (int k = 0; k < 4; k++)
            kinds[k] = random_time(&random, 1);
        for (int at = 0; at < p * v; at++) {
            double kind = kinds[random_int(&random, 0, 3)];
            classes[at].forward_s = kind * times.classes[0].forward_s;
            classes[at].backward_s = kind * times.classes[0].backward_s;
        }
        struct durations found = durations_of(arena, uneven);
        double *ends_s = ARENA_NEW(arena, double, p *v);
        longest_paths(&uneven, ends_s);
        for (int run = 0; p > 4 && run < uneven.runs->run_count; run++) {
            for (int chunk = 0; chunk < v; chunk++) {
                double end_s = ends_s[uneven.runs->runs[run].first * v + chunk];
                assert_true(fabs(found.end_s[run * v + chunk] - end_s) < 1e-9 * ends_s[0]);
                compared++;
            }
        }
        arena_reset(arena, mark);
    }
    printf("# seed %d: %d ends of unequal chunks\n", SEED + 1, compared);
    assert_true(compared > RINGS);
}

// Two blocks may be different and take equal times: which runs that cuts makes no difference.
// Hops that stop stages for longer than a forward takes are walked as well: slow links between few
// of many stages, 4.7 % short otherwise.
static void long_stops_take_exactly_the_longest_path(void **state)
{
    enum { RINGS = 400 };
    struct arena *arena = *state;
    struct random random = random_start(SEED + 2);
    int compared = 0;
    for (int i = 0; i < RINGS; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct pipeline_times times = random_times(arena, &random, 12);
        int p = times.shape.stage_count, v = times.shape.chunk_count;
        times.hop_overlapped = false;
        times.hop_s = times.classes[0].forward_s;
        for (int k = 1; k < times.class_count; k++)
            times.hop_s = fmin(times.hop_s, times.classes[k].forward_s);
        times.hop_s *= 1.01 + 4 * random_ratio(&random);
        double *ends_s = ARENA_NEW(arena, double, p *v);
        longest_paths(&times, ends_s);
        double found_s = durations_of(arena, times).end_s[0];
        assert_true(p <= 4 || fabs(found_s / ends_s[0] - 1) < 1e-9);
        compared += p > 4;
        arena_reset(arena, mark);
    }
    printf("# seed %d: %d rings of long stops\n", SEED + 2, compared);
    assert_true(compared > RINGS / 10);
}

static void equal_stages_may_be_called_different(void **state)
{
    struct arena *arena = *state;
    struct random random = random_start(SEED);
    for (int i = 0; i < PLANS; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct pipeline_times times = random_times(arena, &random, 12);
        struct chunk_times *classes;
        struct pipeline_times apart = set_apart(arena, &times, &classes);
        double together_s = durations_of(arena, times).end_s[0];
        double apart_s = durations_of(arena, apart).end_s[0];
        if (fabs(apart_s / together_s - 1) > 1e-9) {
            print_error("plan %d: %.12g s together, %.12g s apart\n", i, together_s, apart_s);
            fail();
        }
        arena_reset(arena, mark);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_duration_is_that_of_the_longest_path),
        cmocka_unit_test(the_ends_of_the_first_and_the_last_stage_are_those_of_the_longest_paths),
        cmocka_unit_test(unequal_chunks_take_exactly_the_longest_path),
        cmocka_unit_test(long_stops_take_exactly_the_longest_path),
        cmocka_unit_test(equal_stages_may_be_called_different),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
