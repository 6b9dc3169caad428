#pragma once
#include "cost_models/step.h"

// What stages wait for that share a parameter (struct tied_price), in closed form: one tie after
// the other, each when all of its stages have reduced and are done with those before.

struct stage_finish {
    double reduced_s;  // its gradients are reduced; of a run of alike stages at the latest
    double rest_s;     // from there to its end, less when it began
};

// `stages`: of each; norm_at_s and period_s are put off where a tie ends later.
void tied_finish(const struct step_price *price, struct stage_finish *stages, double *norm_at_s,
                 double *period_s);
// Seconds of all ties on all of their stages.
double tied_sum_s(const struct step_price *price);
