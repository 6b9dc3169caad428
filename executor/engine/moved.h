#pragma once
#include "executor/engine/engine.h"

// Activations on NVMe, for executor/engine/offload.c alone. Where the plan keeps none there nothing
// is opened, and engine->moved is NULL.
MUST_CHECK bool moved_open(struct engine *engine);
void moved_close(struct engine *engine);
void moved_start(struct engine *engine);  // of a step
// Bytes that a copy takes in memory.
int64_t moved_bytes(const struct engine *engine, int task);
// Memory of the host for what leaves, which moved_write then writes; and with what comes back, good
// until the next comes. NULL and the engine's err set where the drive failed.
char *moved_out(struct engine *engine, int task);
void moved_write(struct engine *engine, int task);
char *moved_back(struct engine *engine, int task);
