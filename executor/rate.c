#include "executor/rate.h"

#include <assert.h>
#include <math.h>

// cos(pi x), 0 <= x <= 1, to 1e-15: its series up to the 22nd power, on the half where that is
// enough (the next term is below 3e-17).
static double cosine_of_half_turns(double x)
{
    if (x > 0.5) return -cosine_of_half_turns(1 - x);
    double y = 3.14159265358979323846 * x, squared = y * y, term = 1, sum = 1;
    for (int i = 2; i <= 22; i += 2) {
        term *= -squared / (double)(i * (i - 1));
        sum += term;
    }
    return sum;
}

// What is left of the rate above the least one when the share `over` of the decay is over.
static double left_of(enum rate_kind kind, double over)
{
    switch (kind) {
    case RATE_COSINE:
        return (1 + cosine_of_half_turns(over)) / 2;
    case RATE_LINEAR:
        return 1 - over;
    case RATE_WSD:
        return 1 - sqrt(over);
    case RATE_CONSTANT:
        break;
    }
    return 1;
}

double rate_at(const struct rate_course *rate, int64_t step)
{
    assert(step >= 0 && rate->warmup_steps >= 0);
    if (step < rate->warmup_steps)
        return rate->peak * (double)(step + 1) / (double)rate->warmup_steps;
    int64_t decay =
        rate->kind == RATE_WSD ? rate->cooldown_steps : rate->steps - rate->warmup_steps;
    int64_t over = step + 1 - (rate->steps - decay);
    if (decay <= 0 || over <= 0) return rate->peak;
    double ratio = over < decay ? (double)over / (double)decay : 1;
    assert(ratio > 0 && ratio <= 1 && "the decay has begun, and ends once");
    return rate->least + (rate->peak - rate->least) * left_of(rate->kind, ratio);
}
