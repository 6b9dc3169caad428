#pragma once
#include "core/arena.h"
#include "core/err.h"

#include <stdint.h>

// What does not fit into a host's memory: a file in a directory of a fast drive, read by a thread
// of its own and written by another, both beside the work. The file has no name once it is open, so
// that nothing is left of it however a run ends. Reads are done in the order in which they are
// made, and writes; a read and a write of the same bytes, or of the same memory, as well, and
// others at once. The host's memory holds no copy of the file: what is written is on the drive
// before it is read, and what the drive refuses is told by the next wait, never lost.

struct nvme;

// With room for `bytes`, which are zeros, on the drive from now on. NULL and ERR_SYSTEM where there
// is none.
struct nvme *nvme_open(struct arena *arena, const char *folder, int64_t bytes, struct err *err);
void nvme_close(struct nvme *nvme);

enum nvme_way { NVME_READ, NVME_WRITE, NVME_SYNC };
// Begins to move `bytes` between memory and the file's bytes from `at` on; memory must be left
// alone until nvme_wait of the number that is returned. NVME_SYNC moves nothing: what was written
// is on the drive.
int64_t nvme_start(struct nvme *nvme, enum nvme_way way, void *memory, int64_t bytes, int64_t at);
// Waits for a request and all before it of its thread. NULL, or what went wrong first with any,
// good until close.
const char *nvme_wait(struct nvme *nvme, int64_t number);
// What was read and written so far, and for how long a thread was at it.
struct nvme_moved {
    double bytes, s;
};
struct nvme_moved nvme_moved(struct nvme *nvme);
