#pragma once
#include "exchange/nearest.h"
#include "tests/support/random_question.h"

// A drawn plan as a target takes it: what the target refuses becomes something else, also drawn,
// since most drawn plans are for none of them as they are. Such plans are legal for the target's
// options, not always for a simulator.

struct drawn_export {
    const struct facts *facts;
    struct settings settings;
    struct parallel parallel;
    struct workload workload;
};

// False where it is still refused after a dozen changes.
bool drawn_export(struct arena *arena, struct draw *draw, const struct exchange_target *target,
                  const struct random_question *question, struct drawn_export *exported);
