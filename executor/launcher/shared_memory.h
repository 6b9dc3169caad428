#pragma once
#include "core/err.h"

#include <stdint.h>

// Memory that the processes of one host share. It is a file without a place in any folder: others
// open it through its owner's entry in /proc, and the kernel frees it when the last of them is
// gone, so that nothing stale stays whoever dies, and /dev/shm may be as small as containers make
// it. Pages take memory when they are first touched.

enum { SHARED_NAME_BYTES = 48 };

struct shared_memory {
    int file;
    char name[SHARED_NAME_BYTES];  // for other processes, while this one lives and has it open
};

// Regions of the file: the heartbeats of the ranks, then what the transport `host` needs.
enum { SHARED_HEARTBEATS = 0, SHARED_TRANSPORT = 16 << 20 };

MUST_CHECK bool shared_memory_create(struct shared_memory *memory, struct err *err);
void shared_memory_close(struct shared_memory *memory);  // mappings stay

// Maps a region, which is grown to that size and was zero before anybody wrote it. NULL and
// ERR_SYSTEM when the owner is gone.
MUST_CHECK void *shared_memory_map(const char *name, int64_t first_byte, int64_t bytes,
                                   struct err *err);
void shared_memory_unmap(void *memory, int64_t bytes);
