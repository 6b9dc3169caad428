#include "executor/engine/engine.h"

#include <assert.h>
#include <math.h>

// Gradients in fp16 are scaled: most of those of activations are so small that fp16 has few digits
// for them or none. The seed of the loss's gradient is so many times as large, and updates take as
// much out again. Dynamic, as Micikevicius et al. 2018 (section 3.2) have it: the scale doubles
// after so many steps that went well, and when a gradient had no room it is halved and the step is
// left out. The numbers are those of PyTorch's GradScaler.

static const double FIRST_SCALE = 65536, LARGEST_SCALE = 0x1p24;
enum { STEPS_TO_GROW = 2000 };

bool scale_is_on(const struct engine *engine)
{
    const struct backend *backend = engine->backend;
    return backend->compute_bytes == 2 && backend->compute == PRECISION_FP16;
}

void scale_open(struct engine *engine)
{
    double asked = engine->request->options->loss_scale;
    engine->scale = (struct scale){.now = 1, .of_step = 1};
    if (scale_is_on(engine)) engine->scale.now = asked > 0 ? asked : FIRST_SCALE;
}

void scale_start(struct engine *engine)
{
    struct scale *scale = &engine->scale;
    scale->of_step = scale->now;
    if (step_takes_norm(&engine->program->workload)) return;
    assert(!scale_is_on(engine) && "what is scaled takes the norm");
    scale->skips = false;
    scale->skip = RUN_UPDATED;
    engine->norm = 0;
    engine->gradient_scale = 1;
    engine->update_count++;
}

// All ranks see one norm, so all of them do the same. A step without scaling is left out where
// that is asked for alone: else what has diverged shows.
void scale_settle(struct engine *engine, double scaled_norm)
{
    struct scale *scale = &engine->scale;
    scale->of_step = scale->now;
    engine->norm = scaled_norm / scale->now;
    double most = engine->request->options->clip_norm;
    double deviations = engine->request->options->spike_deviations;
    // What is too large without a factor has diverged: that no smaller one helps.
    bool may_halve = scale->now > 1 || deviations == 0;
    bool has_no_room = scale_is_on(engine) && !isfinite(scaled_norm) && may_halve;
    bool is_spike =
        deviations > 0 && !has_no_room && spikes_take(&engine->spikes, deviations, engine->norm);
    scale->skip = has_no_room ? RUN_SKIP_ROOM : is_spike ? RUN_SKIP_SPIKE : RUN_UPDATED;
    scale->skips = scale->skip != RUN_UPDATED;
    bool clips = most > 0 && engine->norm > most;
    engine->gradient_scale = (clips ? most / engine->norm : 1) / scale->now;
    if (!scale->skips) engine->update_count++;
    if (!scale_is_on(engine)) return;
    scale->good_steps = has_no_room ? 0 : scale->good_steps + 1;
    if (has_no_room && scale->now > 1) scale->now /= 2;
    if (scale->good_steps < STEPS_TO_GROW) return;
    scale->good_steps = 0;
    if (scale->now < LARGEST_SCALE) scale->now *= 2;
}
