#pragma once
#include "memory/order/order_local.h"

// A set of units that have run, and what memory holds then.

struct order_cursor {
    const struct order_local *local;
    int word_count;
    uint64_t *done, *ready;  // bit sets of units
    int *waits;              // [unit] units still to run before it
    int *uses;               // [buffer] units still to use it
    int64_t level_bytes;
    int mandatory_left;
};

struct order_cursor order_cursor_make(struct arena *arena, const struct order_local *local);
// To the set `done` (NULL: empty).
void order_cursor_load(struct order_cursor *cursor, const uint64_t *done);
void order_cursor_copy(struct order_cursor *to, const struct order_cursor *from);  // same local
// Highest level while a ready unit runs, and the change that it leaves.
int64_t order_cursor_peak(const struct order_cursor *cursor, int unit);
int64_t order_cursor_net(const struct order_cursor *cursor, int unit);
void order_cursor_run(struct order_cursor *cursor, int unit);
void order_cursor_undo(struct order_cursor *cursor, int unit);  // of the last that ran

// The first ready unit from `unit` on; unit_count: none.
static inline int order_cursor_next(const struct order_cursor *cursor, int unit)
{
    int word = unit >> 6;
    if (word >= cursor->word_count) return cursor->local->unit_count;
    uint64_t bits = cursor->ready[word] & ~UINT64_C(0) << (unit & 63);
    while (bits == 0) {
        if (++word == cursor->word_count) return cursor->local->unit_count;
        bits = cursor->ready[word];
    }
    return word * 64 + __builtin_ctzll(bits);
}

// Units that ran, newest first: where they are kept grows with a search.
struct order_path {
    int *unit, *before;
    int count, room;
};
// Returns the place of the new entry. `before`: the place of the one that ran before, or -1.
int order_path_add(struct arena *arena, struct order_path *path, int unit, int before);
// Units up to `place` in the order in which they ran; returns how many.
int order_path_read(const struct order_path *path, int place, int *units);

// Moves that lose nothing under `limit_bytes`: a ready unit, or a chain of units each of which the
// one before made ready (units on the way that leave no more alive run as well), that fits and ends
// no higher than it began and lower than anywhere on the way. Runs them all and adds them to the
// path. Returns the new place.
int order_cursor_settle(struct order_cursor *cursor, struct arena *arena, struct order_path *path,
                        int place, int64_t limit_bytes);
