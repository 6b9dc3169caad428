#pragma once
#include "memory/sections.h"

// Buffers placed one after another, each where it fits given those before: what every greedy rule
// and every improvement of one comes down to.

enum pack_fit { FIT_FIRST, FIT_BEST };

// Fixed buffers first, then those of order[0 .. order_count - 1] that are free and live; fills
// their offsets and returns the height. INT64_MAX as soon as one would end above `limit`; the
// offsets are then of no use.
int64_t pack_in_order(struct arena *scratch, const struct pack_problem *problem,
                      const struct pack_sections *sections, const int *order, int order_count,
                      enum pack_fit fit, int64_t limit, int64_t *offsets);

// By which buffer is placed first; ties by size, lifetime and index. The more often a rule is the
// best one on training graphs, the earlier it stands.
enum pack_key {
    KEY_FULLEST_SIZE,   // by the fullest section it lives in, fullest first; there by size
    KEY_SIZE,           // largest first
    KEY_FULLEST_LIFE,   // by fullest section; there by lifetime
    KEY_FULLEST_START,  // there by start of life, so that those that end together are neighbours
    KEY_LOAD_SIZE,      // by how full that section is, then by size
    KEY_LIFE,           // longest-lived first
    KEY_START,          // by start of life, as an allocator meets them
    KEY_END,            // by end of life, latest first: the same from the other side
    KEY_LOAD_AREA,      // by how full its fullest section is, then by size times lifetime
    KEY_AREA,           // size times lifetime, most first
    PACK_KEY_COUNT
};
// Every key with first fit, then every key with best fit.
enum { PACK_RULE_COUNT = 2 * PACK_KEY_COUNT };
// All buffers of the problem, sorted. Lives in `arena`.
int *pack_sorted(struct arena *arena, const struct pack_problem *problem,
                 const struct pack_sections *sections, enum pack_key key);

// One of the rules: pack_sorted, pack_in_order.
int64_t pack_by_rule(struct arena *scratch, const struct pack_problem *problem,
                     const struct pack_sections *sections, int rule, int64_t limit,
                     int64_t *offsets);

// Brings a packing under `target` by ejection chains: whatever ends above is taken out and put
// where it displaces least (size and lifetime, weighted by how often a buffer found no free place
// before: guided ejection search, Nagata and Braysy 2009); what it displaces follows. True:
// `offsets` are then a packing no higher than `target`; false, after `move_cap` buffers placed or
// displaced or at the deadline (of clock_s(); 0 = none): unchanged. Adds those moves to
// *move_count.
bool pack_repair(struct arena *scratch, const struct pack_problem *problem,
                 const struct pack_sections *sections, int64_t target, int64_t move_cap,
                 double deadline_s, int64_t *offsets, int64_t *move_count);
