#pragma once
#include "core/arena.h"

#include <stdint.h>

// Which addresses are in use when: the interval structure behind the greedy rules. Sections of time
// (sections.h) stand in blocks of eight. A section has the address ranges that are in use in it by
// what does not cover its block; over the blocks a segment tree holds two sets a node: what is in
// use somewhere in it, and what covers it as a whole. Neighbouring ranges are joined, so that a
// stack of buffers is one range, and a placement asks a few short sets however many buffers there
// are.

struct occupancy;
struct occupancy *occupancy_new(struct arena *arena, int section_count);
// Addresses lower .. upper - 1 are in use in sections first .. end - 1 (at least one); they may be
// already.
void occupancy_add(struct occupancy *occupancy, int first, int end, int64_t lower, int64_t upper);
// No question from now on is of a life of more sections than these: what only longer ones look at
// is let go.
void occupancy_expect(struct occupancy *occupancy, int section_count);
// The lowest multiple of `alignment`, at least `low`, where `size` is free throughout.
int64_t occupancy_first_fit(struct occupancy *occupancy, int first, int end, int64_t size,
                            int64_t alignment, int64_t low);
// The start of the smallest gap that takes `size`, the lowest of equals; on top of all where none
// does.
int64_t occupancy_best_fit(struct occupancy *occupancy, int first, int end, int64_t size,
                           int64_t alignment);
