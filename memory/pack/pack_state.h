#pragma once
#include "memory/pack/pack.h"

// What the exact search (pack_search.c) knows at a node, kept up to date one placement at a time.
//
// Time is cut into sections at every birth and death. Buffers are placed bottom up: one is only
// placed when no buffer that still has to be placed lies under it. `low` is how low a buffer can
// still get; so the lowest buffer of a section, in any completion, starts at the section's floor
// (least `low` there) or higher, and those that can start at the floor are its candidates.
// Fixed buffers are obstacles: never placed, in the way of the others, counted in every bound.

struct pack_section {
    int64_t floor;   // least `low` of its free unplaced buffers; INT64_MAX: none is left
    int64_t reach;   // no completion ends lower: of its unplaced buffers, none under its low
    int candidates;  // free buffers with low == floor
};

struct pack_state {
    struct arena *arena;
    int64_t height;
    int buffer_count, section_count;
    const struct pack_buffer *buffers;  // those that live, by first section, then last
    const int *origin;                  // index in the problem
    const int *first, *last;            // sections first .. last - 1 of a buffer
    const int *twin;                    // an equal buffer that goes before this one; -1: none
    const int *first_starting;          // [section_count + 1]: buffers whose first section is this
    const int *first_neighbour, *neighbours;  // CSR: buffers that share a section
    const int *first_cover;                   // CSR of sections ...
    int *cover;                               // ... the placed ones last
    int *live;                                // of a section: how many it has before those
    int64_t *size;                            // of buffers[]
    bool has_fixed, has_alignment;
    bool no_inference;  // reach counts sizes only, no order of lows

    int64_t *low;                   // INT64_MAX: placed
    int64_t *rest;                  // lowest place that what is placed leaves; less than low where
                                    // the buffer waits for something to carry it
    uint64_t *hash;                 // of a free buffer and its low; 0: placed
    int64_t *offsets;               // where placed
    struct pack_section *sections;  // as of the lows
    int *crossing;                  // unplaced free buffers that cross the start of a section
    int conflict;                   // section that refuted the last change

    int *waiting;  // buffers that wait, or waited
    int waiting_count, waiting_room;
    int *obstacle;  // [buffer]: an unplaced neighbour that may still take its place at rest

    struct pack_change *trail;
    int trail_count, trail_room;
    int64_t *sorted;  // lows of a section
    bool *is_stale;   // sections whose lows changed
    int *stale;
    int stale_count;
};

// Everything lives in `arena`. Fixed buffers must not overlap each other.
struct pack_state *pack_state_make(struct arena *arena, const struct pack_problem *problem,
                                   int64_t height);

// False: some section cannot hold what it has to under `height`; `conflict` names it. Undo all the
// same.
bool pack_state_start(struct pack_state *state);
// Places `buffer` at its low, which has to be the floor of all its sections.
bool pack_state_place(struct pack_state *state, int buffer);
// No buffer starts at the floor of `section`: its candidates get the next lows where something may
// carry them, or that are just one unit higher when `unit` > 0.
bool pack_state_leave_empty(struct pack_state *state, int section, int64_t unit);
// `buffer` does not start at its low, and neither do its later twins.
bool pack_state_wait(struct pack_state *state, int buffer, int64_t unit);
// Back to when the trail was that long.
void pack_state_undo(struct pack_state *state, int trail_count);
