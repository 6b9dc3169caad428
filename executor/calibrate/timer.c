#include "executor/calibrate/calibrate.h"

#include <assert.h>

// A host's kernels are over when their call returns: it needs none.
bool calibrate_has_marks(const struct calibrate_side *side)
{
    return !side->backend->is_host && side->backend->event_new != NULL;
}

static double busy_s(const struct calibrate_timer *timer)
{
    return timer->request->clock.busy_s(timer->request->clock.context);
}

bool calibrate_timer_open(struct calibrate_timer *timer, struct err *err)
{
    const struct calibrate_side *side = timer->side;
    if (!calibrate_has_marks(side)) return true;
    timer->from = side->backend->event_new(side->device);
    timer->to = side->backend->event_new(side->device);
    return (timer->from && timer->to) || err_set(err, ERR_SYSTEM, "measuring: no more marks");
}

void calibrate_timer_close(struct calibrate_timer *timer)
{
    const struct calibrate_side *side = timer->side;
    if (timer->from) side->backend->event_free(side->device, timer->from);
    if (timer->to) side->backend->event_free(side->device, timer->to);
}

bool calibrate_timer_start(struct calibrate_timer *timer, struct err *err)
{
    const struct calibrate_side *side = timer->side;
    assert(!timer->from == !timer->to && "marks come in pairs");
    timer->start_s = busy_s(timer);
    if (!timer->from) return true;
    return calibrate_ok(err, "a mark",
                        side->backend->event_record(side->device, STREAM_COMPUTE, timer->from));
}

bool calibrate_timer_stop(struct calibrate_timer *timer, const char *what, const char *fault,
                          struct err *err)
{
    const struct calibrate_side *side = timer->side;
    const struct backend *backend = side->backend;
    if (!fault && timer->to) fault = backend->event_record(side->device, STREAM_COMPUTE, timer->to);
    // What went wrong on the device is known when it has been waited for.
    if (!fault) fault = backend->synchronize(side->device, STREAM_COMPUTE);
    if (!calibrate_ok(err, what, fault)) return false;
    timer->taken_s = timer->to ? backend->event_seconds(side->device, timer->from, timer->to)
                               : busy_s(timer) - timer->start_s;
    return true;
}

const char *calibrate_lead(const struct calibrate_side *side, double seconds)
{
    assert(seconds >= 0);
    if (!calibrate_has_marks(side) || !side->backend->delay) return NULL;
    return side->backend->delay(side->device, STREAM_COMPUTE, seconds, 1);
}
