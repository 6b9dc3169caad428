#include "executor/spikes.h"

#include <assert.h>
#include <math.h>

static const double KEPT = 0.97;
enum { STEPS_BEFORE = 25 };

static void take_in(struct spikes *spikes, double norm)
{
    double away = norm - spikes->mean;
    // The first are a plain mean.
    double kept =
        spikes->count < STEPS_BEFORE ? (double)spikes->count / (double)(spikes->count + 1) : KEPT;
    spikes->mean += (1 - kept) * away;
    spikes->variance = kept * (spikes->variance + (1 - kept) * away * away);
    spikes->count++;
}

bool spikes_take(struct spikes *spikes, double deviations, double norm)
{
    assert(!(spikes->variance < 0) && spikes->count >= 0);
    if (!isfinite(norm)) return true;
    double most = spikes->mean + deviations * sqrt(spikes->variance);
    bool is_spike = spikes->count >= STEPS_BEFORE && norm > most;
    take_in(spikes, is_spike ? most : norm);
    return is_spike;
}
