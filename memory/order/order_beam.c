#include "memory/order/order_search.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct beam_state {
    struct order_cursor cursor;
    int place;  // in the path
};

struct beam_candidate {
    int64_t level_bytes;  // after the move, before those that it forces
    int state, unit;
};

struct beam {
    struct arena *arena;
    struct order_path path;
    int64_t limit_bytes;
    int width;
    struct beam_state *now, *next;
    int now_count, next_count;
    struct beam_candidate *candidates;
    int candidate_count, candidate_room;
};

static int compare_candidates(const void *left, const void *right)
{
    const struct beam_candidate *a = left, *b = right;
    if (a->level_bytes != b->level_bytes) return a->level_bytes < b->level_bytes ? -1 : 1;
    if (a->state != b->state) return a->state - b->state;
    return a->unit - b->unit;
}

static void add_candidate(struct beam *beam, struct beam_candidate candidate)
{
    if (beam->candidate_count == beam->candidate_room) {
        int room = beam->candidate_room * 2 + 256;
        struct beam_candidate *larger = ARENA_NEW(beam->arena, struct beam_candidate, room);
        size_t bytes = (size_t)beam->candidate_count * sizeof *larger;
        if (bytes) memcpy(larger, beam->candidates, bytes);
        beam->candidates = larger, beam->candidate_room = room;
    }
    beam->candidates[beam->candidate_count++] = candidate;
}

static void gather(struct beam *beam)
{
    beam->candidate_count = 0;
    for (int s = 0; s < beam->now_count; s++) {
        const struct order_cursor *cursor = &beam->now[s].cursor;
        int end = cursor->local->unit_count;
        for (int unit = order_cursor_next(cursor, 0); unit < end;
             unit = order_cursor_next(cursor, unit + 1)) {
            if (order_cursor_peak(cursor, unit) > beam->limit_bytes) continue;
            int64_t level_bytes = cursor->level_bytes + order_cursor_net(cursor, unit);
            add_candidate(beam, (struct beam_candidate){level_bytes, s, unit});
        }
    }
    qsort(beam->candidates, (size_t)beam->candidate_count, sizeof *beam->candidates,
          compare_candidates);
}

static bool is_known(const struct beam *beam, const struct order_cursor *cursor)
{
    size_t bytes = (size_t)cursor->word_count * sizeof *cursor->done;
    for (int s = 0; s < beam->next_count; s++) {
        const struct order_cursor *other = &beam->next[s].cursor;
        bool same_level = other->level_bytes == cursor->level_bytes;
        if (same_level && memcmp(other->done, cursor->done, bytes) == 0) return true;
    }
    return false;
}

// Makes the next layer; the place in the path when a candidate completes the order, else -1.
static int advance(struct beam *beam)
{
    beam->next_count = 0;
    for (int i = 0; i < beam->candidate_count && beam->next_count < beam->width; i++) {
        const struct beam_candidate *candidate = &beam->candidates[i];
        const struct beam_state *from = &beam->now[candidate->state];
        // Alone, a state moves on without a copy, which a large problem would feel.
        struct beam_state *to = &beam->next[beam->next_count];
        if (beam->width == 1) {
            struct order_cursor empty = to->cursor;
            to->cursor = beam->now[0].cursor;
            beam->now[0].cursor = empty;
        } else {
            order_cursor_copy(&to->cursor, &from->cursor);
        }
        order_cursor_run(&to->cursor, candidate->unit);
        int place = order_path_add(beam->arena, &beam->path, candidate->unit, from->place);
        to->place =
            order_cursor_settle(&to->cursor, beam->arena, &beam->path, place, beam->limit_bytes);
        if (to->cursor.mandatory_left == 0) return to->place;
        // Two ways to one set would take the place of two sets.
        if (!is_known(beam, &to->cursor)) beam->next_count++;
    }
    struct beam_state *swapped = beam->now;
    beam->now = beam->next, beam->now_count = beam->next_count;
    beam->next = swapped;
    return -1;
}

static struct beam_state *make_states(struct arena *arena, int width,
                                      const struct order_local *local)
{
    struct beam_state *states = ARENA_NEW(arena, struct beam_state, width);
    for (int i = 0; i < width; i++)
        states[i].cursor = order_cursor_make(arena, local);
    return states;
}

bool order_beam(struct arena *scratch, const struct order_local *local, int64_t limit_bytes,
                int width, int *units)
{
    struct arena_mark mark = arena_mark(scratch);
    struct beam beam = {.arena = scratch, .limit_bytes = limit_bytes, .width = width};
    beam.now = make_states(scratch, width, local);
    beam.next = make_states(scratch, width, local);
    beam.now_count = 1;
    assert(width >= 1);
    int place = order_cursor_settle(&beam.now[0].cursor, scratch, &beam.path, -1, limit_bytes);
    beam.now[0].place = place;
    bool is_done = beam.now[0].cursor.mandatory_left == 0;
    while (!is_done && beam.now_count > 0) {
        gather(&beam);
        place = advance(&beam);
        is_done = place >= 0;
    }
    if (is_done) order_path_read(&beam.path, place, units);
    arena_reset(scratch, mark);
    return is_done;
}
