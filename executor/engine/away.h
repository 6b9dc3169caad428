#pragma once
#include "executor/engine/engine.h"

// Parameters on NVMe (executor/engine/away.c). Where the plan keeps none there nothing is opened,
// and engine->away is NULL. Places are bytes into all weights that are there, as the state
// lays them out.
MUST_CHECK bool away_open(struct engine *engine);
void away_close(struct engine *engine);
void away_start(struct engine *engine);  // of a step: what was read ahead is old
// The units that a fetch covers, one behind another; good until the fetch after the next one. NULL
// and the engine's err set where the drive failed.
char *away_fetch(struct engine *engine, int task);
// Weights as they were updated: `from` may be used again when this returns.
MUST_CHECK bool away_put(struct engine *engine, int task, const char *from, int64_t at,
                         int64_t bytes);
MUST_CHECK bool away_get(struct engine *engine, char *to, int64_t at, int64_t bytes);
// Waits for all that was put.
MUST_CHECK bool away_finish(struct engine *engine);
