#include "executor/calibrate/calibrate.h"

#include "core/progress.h"
#include "core/sort.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <time.h>

enum { ROUNDS_MOST = 15 };
static const double COLLECTIVE_SHARE = 0.25;  // of the time, at most

// Of the thread: what others do on its core is not the kernel's.
static double thread_s(void *context)
{
    struct timespec time;
    (void)context;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double wall_s(void *context)
{
    (void)context;
    return clock_s();
}

struct calibrate_clock calibrate_real_clock(void)
{
    return (struct calibrate_clock){.busy_s = thread_s, .wall_s = wall_s};
}

void calibrate_sample(struct arena *arena, struct calibrate_samples *samples, double s)
{
    ARENA_GROW(arena, samples->s, samples->count, samples->capacity);
    samples->s[samples->count++] = s;
}

double calibrate_median(const struct calibrate_samples *samples)
{
    return samples->count > 0 ? sort_median(samples->s, (size_t)samples->count) : 0;
}

bool calibrate_ok(struct err *err, const char *what, const char *fault)
{
    if (!fault) return true;
    return err_set(err, ERR_SYSTEM, "measuring %.100s: %.300s", what, fault);
}

bool calibrate_mean(const struct calibrate_request *request, struct group *world, double *values,
                    int count, struct err *err)
{
    assert(count > 0 && request->rank_count > 0);
    const char *fault = request->transport->host_sum(world, values, count);
    for (int i = 0; i < count; i++)
        values[i] /= request->rank_count;
    return calibrate_ok(err, "on all ranks", fault);
}

static void show(const struct calibrate_request *request, double begun_s)
{
    double done_s = request->clock.wall_s(request->clock.context) - begun_s;
    if (request->progress && request->seconds > 0)
        request->progress(request->progress_context, fmin(done_s / request->seconds, 1));
}

// Whether another round as long as the longest so far ends in time on every rank.
static bool has_time(const struct calibrate_request *request, struct group *world, double left_s,
                     double round_s, struct err *err)
{
    double late = left_s < round_s;
    return calibrate_mean(request, world, &late, 1, err) && late == 0;
}

static bool measure_rounds(struct calibrate_kernels *kernels,
                           const struct calibrate_request *request, struct group *world,
                           double begun_s, double until_s, int *round_count, struct err *err)
{
    double (*now)(void *) = request->clock.wall_s, round_s = 0;
    if (!calibrate_kernels_warm(kernels, world, until_s, err)) return false;
    while (*round_count < ROUNDS_MOST) {
        double start_s = now(request->clock.context);
        bool is_due = *round_count == 0;  // one round in any case, late or not
        if (!is_due && !has_time(request, world, until_s - start_s, round_s, err)) break;
        if (!calibrate_kernels_round(kernels, err)) return false;
        ++*round_count;
        round_s = fmax(round_s, now(request->clock.context) - start_s);
        show(request, begun_s);
    }
    return !err->kind;
}

static const struct kernel_choice *find_choice(const struct calibration *calibration,
                                               const char *shape)
{
    for (int i = 0; i < calibration->choice_count; i++) {
        if (strcmp(calibration->choices[i].shape, shape) == 0) return &calibration->choices[i];
    }
    return NULL;
}

// Shapes of two sides are one where they compute alike: the first measured it.
// Choices live with the device, which is closed before the calibration is written: copies.
static void add_choices(struct arena *arena, const struct calibrate_side *side,
                        struct calibration *calibration)
{
    const struct kernel_choice *found = NULL;
    int count = side->backend->choices ? side->backend->choices(side->device, &found) : 0;
    int before = calibration->choice_count;
    struct kernel_choice *all = ARENA_NEW(arena, struct kernel_choice, before + count);
    for (int i = 0; i < before; i++)
        all[i] = calibration->choices[i];
    calibration->choices = all;
    for (int i = 0; i < count; i++) {
        if (found[i].s <= 0 || find_choice(calibration, found[i].shape)) continue;
        all[calibration->choice_count++] = (struct kernel_choice){
            arena_copy(arena, found[i].shape), arena_copy(arena, found[i].algorithm), found[i].s};
    }
}

static bool measure_side(struct arena *arena, const struct calibrate_request *request,
                         const struct calibrate_side *side, struct group *world, double begun_s,
                         double until_s, struct calibration *calibration, struct err *err)
{
    int round_count = 0;
    if (side->backend->tune) side->backend->tune(side->device);
    struct calibrate_kernels *kernels = calibrate_kernels_new(arena, request, side, err);
    bool done = !err->kind &&
                measure_rounds(kernels, request, world, begun_s, until_s, &round_count, err) &&
                calibrate_kernels_finish(kernels, world, calibration, err);
    calibrate_kernels_free(kernels);
    add_choices(arena, side, calibration);
    if (side == request->sides) calibration->round_count = round_count;
    return done;
}

static bool measure_all(struct arena *arena, const struct calibrate_request *request,
                        struct calibration *calibration, struct err *err)
{
    double begun_s = request->clock.wall_s(request->clock.context), share = 0;
    struct group *world = NULL;
    int *ranks = ARENA_NEW(arena, int, request->rank_count);
    for (int r = 0; r < request->rank_count; r++)
        ranks[r] = r;
    const char *fault = request->transport->group(request->communicator, ranks, request->rank_count,
                                                  "calibrate", &world);
    if (!calibrate_ok(err, "on all ranks", fault)) return false;
    double until_s = begun_s + COLLECTIVE_SHARE * request->seconds;
    if (!calibrate_collectives(arena, request, world, until_s, calibration, err)) return false;
    // What collectives and the sides before leave is there for the next.
    for (int i = 0; i < request->side_count; i++) {
        const struct calibrate_side *side = &request->sides[i];
        share += side->share;
        until_s = begun_s + share * request->seconds;
        if (!measure_side(arena, request, side, world, begun_s, until_s, calibration, err))
            return false;
    }
    calibration->taken_s = request->clock.wall_s(request->clock.context) - begun_s;
    return true;
}

bool calibrate(struct arena *arena, const struct calibrate_request *request,
               struct calibration *calibration, struct err *err)
{
    assert(request->side_count > 0 && request->side_count <= CALIBRATE_SIDES_MAX);
    assert(request->rank >= 0 && request->rank < request->rank_count);
    *calibration = (struct calibration){.rank_count = request->rank_count};
    return measure_all(arena, request, calibration, err);
}
