#pragma once
#include "executor/engine/engine.h"

// The optimizer's states on the host (engine_host_state.c): moments and the weights that they
// move, which are masters whatever the precision, and the gradients they are moved with. On NVMe of
// the first two those of two units alone, one under way and one coming or going. What the engine
// does with them instead of with arrays of the device.

// Whether the plan wants those of any unit there (`is_away`), or on the device; and of a parameter.
bool host_state_leaves(const struct engine *engine, bool is_away);
bool host_state_is_of(const struct engine *engine, int parameter);
MUST_CHECK bool host_state_open(struct engine *engine);
void host_state_close(struct engine *engine);
// Elements [first, first + count) of a parameter, as they are drawn: those that this rank updates.
MUST_CHECK bool host_state_put(struct engine *engine, int parameter, int64_t first, int64_t count,
                               const double *values);
// The weights of what this rank updates of a parameter.
MUST_CHECK bool host_state_get(struct engine *engine, int parameter, double *values);
// The same of weights (0) and moments (1, 2) as reals, out of what is kept or into it.
MUST_CHECK bool host_state_copy(struct engine *engine, int parameter, int array, bool is_out,
                                char *reals);
// Gradients of a bucket that are kept on the host, from their room and back into it.
MUST_CHECK bool host_state_take(struct engine *engine, int task);
MUST_CHECK bool host_state_give(struct engine *engine, int task);
// Whether those of a parameter are; the squares of what this rank updates of it, summed when they
// left complete.
bool host_state_has(const struct engine *engine, int parameter);
// And its gradient, as it was reduced.
void host_state_gradients(struct engine *engine, int parameter, double *values);
double host_state_squares(const struct engine *engine, int parameter);
// Of the units of a bucket gradients go down, the host updates, weights come up.
MUST_CHECK bool host_state_update(struct engine *engine, int task);
// When the last step is over: what was written is on the drive.
MUST_CHECK bool host_state_finish(struct engine *engine);
