#pragma once
#include "planner/memory/sections.h"

// Buffers placed one after another, each where it fits given those before: what every greedy rule
// and every improvement of one comes down to.

enum pack_fit { FIT_FIRST, FIT_BEST };

// Fixed buffers first, then those of order[0 .. order_count - 1] that are free and live; fills
// their offsets and returns the height. INT64_MAX as soon as one would end above `limit`; the
// offsets are then of no use.
int64_t pack_in_order(struct arena *scratch, const struct pack_problem *problem,
                      const struct pack_sections *sections, const int *order, int order_count,
                      enum pack_fit fit, int64_t limit, int64_t *offsets);

// By which buffer is placed first; ties by size, lifetime and index.
enum pack_key {
    KEY_SIZE,           // largest first
    KEY_AREA,           // size times lifetime, most first
    KEY_LIFE,           // longest-lived first
    KEY_START,          // by start of life, as an allocator meets them
    KEY_END,            // by end of life, latest first: the same from the other side
    KEY_FULLEST_SIZE,   // by the fullest section it lives in, fullest first; there by size
    KEY_FULLEST_LIFE,   // there by lifetime
    KEY_FULLEST_START,  // there by start of life, so that those that end together are neighbours
    KEY_LOAD_SIZE,      // by how full that section is, then by size
    KEY_LOAD_AREA,      // then by size times lifetime
    PACK_KEY_COUNT
};
// All buffers of the problem, sorted. Lives in `arena`.
int *pack_sorted(struct arena *arena, const struct pack_problem *problem,
                 const struct pack_sections *sections, enum pack_key key);
