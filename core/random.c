#include "core/random.h"
#include "core/hash.h"
#include "core/real.h"

#include <math.h>

uint64_t random_bits(uint64_t *state)
{
    return hash_mix(*state += HASH_STEP);
}

double random_uniform(uint64_t *state)
{
    return (double)(random_bits(state) >> 11) * 0x1p-53;
}

double random_exponential(uint64_t *state, double mean)
{
    return -mean * real_log(1 - random_uniform(state));
}

// Marsaglia's polar method, of whose pair of numbers the second is dropped: there is no state to
// keep it in.
double random_normal(uint64_t *state)
{
    for (;;) {
        double x = 2 * random_uniform(state) - 1, y = 2 * random_uniform(state) - 1;
        double square = x * x + y * y;
        if (square < 1 && square > 0) return x * sqrt(-2 * real_log(square) / square);
    }
}
