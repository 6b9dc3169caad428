#pragma once
#include <stdint.h>

// Numbers that a seed decides: equal seeds, equal numbers, on every machine. SplitMix64 of Steele,
// Lea and Flood (2014), "Fast splittable pseudorandom number generators". The state is the seed at
// first.
uint64_t random_bits(uint64_t *state);
double random_uniform(uint64_t *state);  // 0 <= it < 1
double random_exponential(uint64_t *state, double mean);
double random_normal(uint64_t *state);  // mean 0, deviation 1
