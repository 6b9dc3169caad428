#include "core/random.h"
#include "core/real.h"

#include <math.h>

uint64_t random_bits(uint64_t *state)
{
    uint64_t bits = *state += 0x9e3779b97f4a7c15u;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    return bits ^ bits >> 31;
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
