#pragma once
#include "cost_models/step.h"

// Random priced programs with what the planner can produce, for the engine's and the closed form's
// tests and benchmark. The same seed gives the same programs.

struct random {
    uint64_t state;
};
struct random random_start(uint64_t seed);
double random_ratio(struct random *random);                // [0, 1)
int random_int(struct random *random, int low, int high);  // low .. high
double random_log(struct random *random, double low, double high);

// A program of this schedule, in `arena`, with its runs.
struct step_price *random_plan(struct arena *arena, struct random *random,
                               enum schedule_kind schedule);

// Equal chunks of `forward_s` and `backward_s` (W zero) and nothing else.
struct step_price *even_plan(struct arena *arena, enum schedule_kind schedule,
                             struct schedule_shape shape, double forward_s, double backward_s);
