#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A shadow of shared and global memory: who wrote and read each byte last, of a launch. It finds
// accesses of two threads of a block to one byte with no barrier between them, and of two blocks
// at all, when one of them writes; accesses outside of what was allocated; and what is read of
// shared memory before the block has written it. Threads of the emulation run one after another, so
// what is found depends on no order.
//
// Accesses are told by the compiler (-fsanitize=thread, with the calls answered here): objects that
// were compiled without are not watched. What is found is a line on stderr and the end. Names of
// the kernels that ran are added to the file MESHWRIGHT_EMULATED_KERNELS.

// Around the blocks of a launch: where the stacks of its threads are, beside the caller's own, and
// its arguments, which a kernel may read.
struct shadow_launch {
    const char *kernel;
    const void *stacks, *args;
    size_t stacks_bytes, args_bytes;
};
void shadow_begin_launch(const struct shadow_launch *launch);
void shadow_end_launch(void);
void shadow_begin_block(void);
// All threads of the block wait for each other.
void shadow_barrier(void);

// Memory of the device, or of the host that it may use.
void shadow_add_memory(const void *memory, size_t bytes);
void shadow_remove_memory(const void *memory);

// Order between streams, where kernels are watched: two that come to one byte, one of them writing,
// with no event between them are found in whatever order they have run. Each stream counts its
// works, and knows how far it has seen those of others, through events and through the host
// (vector clocks: Mattern 1989, "Virtual time and global states of distributed systems").
enum { SHADOW_STREAMS = 32 };
struct shadow_clock {
    uint32_t seen[SHADOW_STREAMS];
};
void shadow_join(struct shadow_clock *clock, const struct shadow_clock *other);
// What is done from now on is of this stream, which has seen so much; NULL: of none.
void shadow_begin_work(int stream, const struct shadow_clock *clock);
// What comes to memory and is no kernel: copies, and what libraries do.
void shadow_access(const void *memory, size_t bytes, bool writes);
