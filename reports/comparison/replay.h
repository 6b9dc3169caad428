#pragma once
#include "executor/communicators/communicator.h"
#include "simulator/evaluate.h"

// One rank of a plan alone on this machine (executor/communicators/communicator.h, `mock`): what
// the others and the links do in the meantime is what the model says. Exchanges take as long as
// they are priced, messages from other stages are there when the simulated step has them arrive,
// whether this rank is early or late.

struct script;
struct replay {
    const struct evaluation_request *request;
    const struct evaluation *evaluation;  // with a trace
    const struct script *script;          // of the rank's stage
    int rank;
};

// Lives in `arena`, as `replay` must.
struct communicator_delays *replay_delays(struct arena *arena, const struct replay *replay);
