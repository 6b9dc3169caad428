#pragma once
#include <stdint.h>

// Work on the host that parts of an array have for themselves, over the cores: what a rank does
// before the first step, when no kernel runs yet.

// Shorter ranges stay with the caller: a thread costs more than they are worth.
enum { SPREAD_LEAST = 1 << 15 };

// body(context, first, end) for ranges that make up 0 .. count, on up to `thread_count` threads;
// returns when all are done. What cannot have a thread of its own is done by the caller.
void spread(int64_t count, int thread_count,
            void (*body)(void *context, int64_t first, int64_t end), void *context);
