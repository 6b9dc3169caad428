#pragma once
#include "executor/checkpoint/store.h"
#include "executor/engine/engine.h"

// The engine's checkpoints (engine/save.c, engine/resume.c). What a rank writes is copied between
// two steps, which is the pause; a thread writes the copy beside the next steps. Ranks tell each
// other how far they are in the exchange that ends every step, so that all see the same and none
// waits: when all have written, the first commits.

// Numbers of a rank in that exchange.
enum { SAVE_PHASE, SAVE_STOP, SAVE_PAUSE_NS, SAVE_WRITE_NS, SAVE_COUNT };

// The run's first step is 0, or that of the checkpoint that it goes on from, whose weights and
// moments it then has: *resumed.
MUST_CHECK bool resume_open(struct engine *engine, bool *resumed);
// Behind a step: after so many spikes in a row as the options say (roll_back), weights, moments and
// what is known of norms are again those of the last good checkpoint. The number of the step goes
// on, and with it the data: those of the spikes are not seen again (as Chowdhery et al. 2022,
// "PaLM", section 5.1, got past theirs). On all ranks alike.
MUST_CHECK bool resume_after_spikes(struct engine *engine);
MUST_CHECK bool save_open(struct engine *engine);
// Waits until the checkpoint under way is stored or given up, on all ranks.
MUST_CHECK bool save_settle(struct engine *engine);
void save_close(struct engine *engine);
// Before the exchange, and behind it with what all ranks said, SAVE_COUNT each. `step_s` of the
// slowest. *stops: all ranks end behind this step.
void save_tell(struct engine *engine, int64_t mine[SAVE_COUNT]);
MUST_CHECK bool save_step(struct engine *engine, const int64_t *all, double step_s, bool *stops);
// What became of checkpoints so far.
struct run_saved save_account(const struct engine *engine);
// How long this rank stood while it copied a checkpoint behind the step under way; 0: it did not.
double save_paused_s(const struct engine *engine);
// Behind the last step: the last checkpoint is there when it returns.
MUST_CHECK bool save_finish(struct engine *engine, struct run_result *result);

// initial.c: elements [first, first + count) of a parameter's part here take these values.
// `reals`: room on the device where weights are rounded, of INITIAL_PIECE reals; else NULL.
enum { INITIAL_PIECE = 1 << 20 };
MUST_CHECK bool initial_put(struct engine *engine, int parameter, int64_t first, int64_t count,
                            const double *values, char *reals);
MUST_CHECK bool initial_reals(struct engine *engine, char **reals);
