#pragma once
#include <stdint.h>

// The learning rate of a step: a function of its number alone, so that it is the same on all ranks
// and where a run goes on. In whole numbers and + - * / sqrt, which every machine rounds alike.
//
// Linear warm-up: the last of its steps has the whole rate. Then
//   constant  as it is
//   linear    down to the least in the last step
//   cosine    the same on half a cosine (Loshchilov and Hutter 2017, equation 5, without restarts)
//   wsd       warm-up, stable, decay: as it is, and in the last `cooldown_steps` down to the least
//             as 1 - sqrt of the share that is over (Haegele et al. 2024, equation 1)

enum rate_kind { RATE_CONSTANT, RATE_COSINE, RATE_LINEAR, RATE_WSD };

struct rate_course {
    enum rate_kind kind;
    double peak, least;
    int64_t steps;  // of the run
    int64_t warmup_steps, cooldown_steps;
};

// Of the step with this number, from 0; of one behind the last as of the last.
double rate_at(const struct rate_course *rate, int64_t step);
