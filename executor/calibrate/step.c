#include "executor/calibrate/calibrate.h"

#include <assert.h>
#include <string.h>

// The update, copies, and what a call costs.

// Larger than any cache: what an update reads has not been read since the last step.
enum { ELEMENTS_HOST = 8 << 20, ELEMENTS_DEVICE = 64 << 20, ELEMENTS_SHORT = 1 << 16 };
enum { HOST_ELEMENTS_MOST = 16 << 20 };  // of one copy to the host or from it
enum { WEIGHTS, GRADIENTS, FIRST, SECOND, OTHER, ARRAYS };

static int64_t array_bytes(const struct calibrate_step *step)
{
    return step->elements * step->side->backend->real_bytes;
}

static int64_t host_bytes(const struct calibrate_step *step)
{
    return step->host_elements * step->side->backend->real_bytes;
}

static char *array_at(const struct calibrate_step *step, int array)
{
    assert(array >= 0 && array < ARRAYS);
    return (char *)step->memory + array * array_bytes(step);
}

// Numbers as a training has them: squares are positive, and none is denormal.
static const char *fill(struct calibrate_step *step)
{
    const struct calibrate_side *side = step->side;
    const struct backend *backend = side->backend;
    float *reals = step->memory;
    int64_t count = step->elements;
    if (backend->is_host && backend->real_bytes == sizeof(float)) {
        calibrate_fill_host(reals, ARRAYS * count);
        for (int64_t i = SECOND * count; i < OTHER * count; i++)  // of squares
            reals[i] *= reals[i];
    }
    if (!calibrate_has_marks(side)) return NULL;
    calibrate_fill_host(step->host, step->host_elements);
    const char *fault =
        backend->fill(side->device, STREAM_COMPUTE, step->memory, 0, ARRAYS * array_bytes(step));
    int64_t bytes = (GRADIENTS + 1) * array_bytes(step), each = host_bytes(step);
    assert(bytes % each == 0 && "copies of the host's piece fill weights and gradients");
    for (int64_t at = 0; at < bytes && !fault; at += each) {
        fault = backend->copy(side->device, STREAM_COMPUTE, COPY_FROM_HOST,
                              (char *)step->memory + at, step->host, each);
    }
    return fault;
}

bool calibrate_step_open(struct calibrate_step *step, struct err *err)
{
    const struct backend *backend = step->side->backend;
    step->elements = step->request->is_short           ? ELEMENTS_SHORT
                     : calibrate_has_marks(step->side) ? ELEMENTS_DEVICE
                                                       : ELEMENTS_HOST;
    const char *fault =
        backend->allocate(step->side->device, ARRAYS * array_bytes(step), &step->memory);
    if (fault) return calibrate_ok(err, "memory to measure in", fault);
    if (calibrate_has_marks(step->side)) {
        step->host_elements =
            step->elements < HOST_ELEMENTS_MOST ? step->elements : HOST_ELEMENTS_MOST;
        step->host = ARENA_NEW(step->arena, float, step->host_elements);
    }
    return calibrate_ok(err, "memory to measure in", fill(step));
}

void calibrate_step_close(struct calibrate_step *step)
{
    if (step->memory) step->side->backend->release(step->side->device, step->memory);
}

// What warms up is not kept.
static void keep(struct calibrate_step *step, struct calibrate_samples *samples, bool is_kept,
                 double s)
{
    if (is_kept) calibrate_sample(step->arena, samples, s);
}

// With the sum of squares that a clipped step takes first.
static bool measure_update(struct calibrate_step *step, struct calibrate_timer *timer, bool is_kept,
                           struct err *err)
{
    const struct backend *backend = step->side->backend;
    struct device *device = step->side->device;
    bool is_rounded = backend->compute_bytes && backend->compute_bytes != backend->real_bytes;
    const struct update_call call = {.optimizer = OPTIMIZER_ADAMW,
                                     .part = UPDATE_ALL,
                                     .count = step->elements,
                                     .weights = array_at(step, WEIGHTS),
                                     .gradients = array_at(step, GRADIENTS),
                                     .first_moments = array_at(step, FIRST),
                                     .second_moments = array_at(step, SECOND),
                                     .rounded = is_rounded ? array_at(step, OTHER) : NULL,
                                     .gradient_scale = 1,
                                     .learning_rate = 1e-9,
                                     .beta1 = 0.9,
                                     .beta2 = 0.95,
                                     .epsilon = 1e-8,
                                     .step = 1};
    double sum = 0;
    if (!calibrate_timer_start(timer, err)) return false;
    const char *fault = backend->sum_squares(device, STREAM_COMPUTE, array_at(step, GRADIENTS),
                                             step->elements, &sum);
    if (!fault) fault = backend->update(device, STREAM_COMPUTE, &call);
    if (!calibrate_timer_stop(timer, "the update", fault, err)) return false;
    keep(step, &step->update, is_kept, timer->taken_s);
    return true;
}

// Read and written once each: what a copy moves is twice its bytes.
static bool measure_copy(struct calibrate_step *step, struct calibrate_timer *timer, bool is_kept,
                         struct err *err)
{
    if (!calibrate_timer_start(timer, err)) return false;
    const char *fault = step->side->backend->copy(step->side->device, STREAM_COMPUTE, COPY_DEVICE,
                                                  array_at(step, OTHER), array_at(step, GRADIENTS),
                                                  array_bytes(step));
    if (!calibrate_timer_stop(timer, "a copy", fault, err)) return false;
    keep(step, &step->copy, is_kept, timer->taken_s);
    return true;
}

// These wait by themselves, so that the wall tells what they take.
static bool measure_host_copies(struct calibrate_step *step, bool is_kept, struct err *err)
{
    const struct calibrate_clock *clock = &step->request->clock;
    const struct backend *backend = step->side->backend;
    if (!step->host) return true;
    double start_s = clock->wall_s(clock->context);
    const char *fault = backend->copy(step->side->device, STREAM_D2H, COPY_TO_HOST, step->host,
                                      array_at(step, GRADIENTS), host_bytes(step));
    if (!calibrate_ok(err, "a copy to the host", fault)) return false;
    double middle_s = clock->wall_s(clock->context);
    fault = backend->copy(step->side->device, STREAM_H2D, COPY_FROM_HOST, array_at(step, GRADIENTS),
                          step->host, host_bytes(step));
    if (!calibrate_ok(err, "a copy from the host", fault)) return false;
    double end_s = clock->wall_s(clock->context);
    size_t half = (size_t)host_bytes(step) / 2;
    memcpy(step->host, (char *)step->host + half, half);
    keep(step, &step->to_host, is_kept, middle_s - start_s);
    keep(step, &step->from_host, is_kept, end_s - middle_s);
    keep(step, &step->host_copy, is_kept, clock->wall_s(clock->context) - end_s);
    return true;
}

// A sum of next to nothing, many times: what is left is the call. On a device the calls wait until
// all are there, and the host is timed while it makes them.
static bool measure_call(struct calibrate_step *step, struct calibrate_timer *timer, bool is_kept,
                         struct err *err)
{
    enum { CALLS = 200, ELEMENTS = 8 };
    static const double LEAD_S = 5e-3;
    const struct calibrate_clock *clock = &step->request->clock;
    const struct backend *backend = step->side->backend;
    struct device *device = step->side->device;
    const struct op op = {
        .kind = OP_ADD, .name = "a small sum", .input_count = 2, .output_count = 1};
    struct kernel_array array = {.data = step->memory,
                                 .element = ELEMENT_FP32,
                                 .rank = 1,
                                 .dims = {DIM_HIDDEN},
                                 .sizes = {ELEMENTS},
                                 .whole = {ELEMENTS}};
    const struct kernel_call call = {.op = &op,
                                     .inputs = {array, array},
                                     .outputs = {array},
                                     .input_count = 2,
                                     .output_count = 1};
    const char *fault = calibrate_lead(step->side, LEAD_S);
    if (!calibrate_ok(err, op.name, fault) || !calibrate_timer_start(timer, err)) return false;
    double start_s = clock->wall_s(clock->context);
    for (int i = 0; i < CALLS && !fault; i++)
        fault = backend->run(device, STREAM_COMPUTE, &call);
    double called_s = clock->wall_s(clock->context) - start_s;
    if (!calibrate_timer_stop(timer, op.name, fault, err)) return false;
    keep(step, &step->call, is_kept, timer->taken_s / CALLS);
    keep(step, &step->host_call, is_kept && step->host, called_s / CALLS);
    // It has doubled what it was given so often that nothing but infinity is left.
    fault = backend->fill(device, STREAM_COMPUTE, step->memory, 0,
                          (int64_t)ELEMENTS * backend->real_bytes);
    return calibrate_ok(err, op.name, fault);
}

bool calibrate_step_measure(struct calibrate_step *step, bool is_kept, struct err *err)
{
    struct calibrate_timer timer = {.request = step->request, .side = step->side};
    bool done = calibrate_timer_open(&timer, err) && measure_update(step, &timer, is_kept, err) &&
                measure_copy(step, &timer, is_kept, err) &&
                measure_host_copies(step, is_kept, err) && measure_call(step, &timer, is_kept, err);
    calibrate_timer_close(&timer);
    return done;
}
