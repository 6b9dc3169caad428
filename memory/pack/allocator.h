#pragma once
#include "core/arena.h"

#include <stdint.h>

// PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp, version 2.x, default settings,
// one stream), simulated: what an order of allocations and frees makes it reserve from the device.
// Rules: sizes round up to 512 bytes; up to 1 MiB from the small pool, whose segments are 2 MiB; of
// the large pool requests below 10 MiB get segments of 20 MiB, larger ones round up to 2 MiB; best
// fit, lowest address among equals; a block is split when 512 bytes (small pool) or more than 1 MiB
// (large) are left, and its lower part is taken; freed blocks merge with free neighbours of their
// segment. Segments are given back only when `device_bytes` would be passed: then all of which no
// part is in use, as without max_split_size. Requests of 0 bytes take nothing.

struct allocator_event {
    int buffer;
    bool is_free;
    int64_t bytes;  // of an allocation
};

struct allocator_result {
    int64_t allocated_bytes;  // peak of live blocks, with what was not worth splitting off
    int64_t reserved_bytes;   // peak of segments
    int64_t addresses_high;   // highest address ever in use + 1, segments laid end to end
    bool failed;              // device_bytes did not suffice; the rest is what was until then
};

// `device_bytes` 0 = without limit. Buffers are 0 .. buffer_count - 1; one that is alive at the end
// is freed there. Where each lay, segments laid end to end, goes to addresses[buffer] (NULL: not
// asked).
struct allocator_result allocator_run(struct arena *scratch, const struct allocator_event *events,
                                      int event_count, int buffer_count, int64_t device_bytes,
                                      int64_t *addresses);
