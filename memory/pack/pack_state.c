#include "memory/pack/pack_state.h"
#include "core/divisor.h"
#include "core/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Old values, newest last: a buffer's low and rest, a section, that a buffer was placed, or how
// many were waiting.
enum change_kind { CHANGE_LOW, CHANGE_SECTION, CHANGE_PLACED, CHANGE_WAITING };
struct pack_change {
    enum change_kind kind;
    int index;
    union {
        struct {
            int64_t low, rest;
        };
        struct pack_section section;
    };
};

// To be filled in.
static struct pack_change *record(struct pack_state *state, enum change_kind kind, int index)
{
    if (state->trail_count == state->trail_room) {
        state->trail_room = state->trail_room ? 2 * state->trail_room : 1024;
        struct pack_change *trail = ARENA_NEW(state->arena, struct pack_change, state->trail_room);
        if (state->trail_count)
            memcpy(trail, state->trail, (size_t)state->trail_count * sizeof *trail);
        state->trail = trail;
    }
    struct pack_change *change = &state->trail[state->trail_count++];
    change->kind = kind;
    change->index = index;
    return change;
}

static uint64_t hash_of(int buffer, int64_t low)
{
    return hash_mix((uint64_t)low * HASH_STEP + (uint64_t)buffer + 1);
}

static bool is_free(const struct pack_state *state, int buffer)
{
    return state->buffers[buffer].fixed_offset < 0;
}

// The lowest offset from `low` on that is aligned and does not run into a fixed neighbour.
static int64_t lowest_from(const struct pack_state *state, int buffer, int64_t low)
{
    const struct pack_buffer *at = &state->buffers[buffer];
    if (state->has_alignment) low = round_up(low, at->alignment);
    // Neighbours stand in no order of addresses: after each step up all are asked again.
    if (!state->has_fixed) return low;
    for (int i = state->first_neighbour[buffer]; i < state->first_neighbour[buffer + 1]; i++) {
        const struct pack_buffer *other = &state->buffers[state->neighbours[i]];
        int64_t fixed = other->fixed_offset;
        if (fixed < 0 || fixed >= low + at->size || fixed + other->size <= low) continue;
        low = round_up(fixed + other->size, at->alignment);
        i = state->first_neighbour[buffer] - 1;
    }
    return low;
}

// Each section once, however many of its buffers change.
static void mark_stale(struct pack_state *state, int buffer)
{
    for (int s = state->first[buffer]; s < state->last[buffer]; s++) {
        if (state->is_stale[s]) continue;
        state->is_stale[s] = true;
        state->stale[state->stale_count++] = s;
    }
}

static void set_low(struct pack_state *state, int buffer, int64_t low)
{
    if (low <= state->low[buffer]) return;
    state->low[buffer] = low;
    state->hash[buffer] = hash_of(buffer, low);
    mark_stale(state, buffer);
}

static struct pack_change *record_low(struct pack_state *state, enum change_kind kind, int buffer)
{
    struct pack_change *change = record(state, kind, buffer);
    change->low = state->low[buffer];
    change->rest = state->rest[buffer];
    return change;
}

// Insertion sort: from one node to the next the order hardly changes.
static void sort_by_low(struct pack_state *state, int *items, int count)
{
    int64_t *sorted = state->sorted;
    for (int i = 0; i < count; i++) {
        int item = items[i];
        int64_t key = state->low[item];
        int at = i;
        for (; at > 0 && sorted[at - 1] > key; at--) {
            sorted[at] = sorted[at - 1];
            items[at] = items[at - 1];
        }
        sorted[at] = key;
        items[at] = item;
    }
}

// The floor and who starts there.
static struct pack_section floor_of(const struct pack_state *state, int s)
{
    const int *cover = &state->cover[state->first_cover[s]];
    struct pack_section section = {.floor = INT64_MAX};
    for (int i = 0; i < state->live[s]; i++) {
        int64_t low = state->low[cover[i]];
        if (low > section.floor || (state->has_fixed && !is_free(state, cover[i]))) continue;
        if (low < section.floor) section.candidates = 0;
        section.floor = low;
        section.candidates++;
    }
    return section;
}

static int64_t reach_without_order(const struct pack_state *state, int s)
{
    const int *cover = &state->cover[state->first_cover[s]];
    int64_t least = INT64_MAX, total = 0, top = 0;
    for (int i = 0; i < state->live[s]; i++) {
        int64_t low = state->low[cover[i]], end = low + state->size[cover[i]];
        if (low < least) least = low;
        if (end > top) top = end;
        total += state->size[cover[i]];
    }
    return total && least + total > top ? least + total : top;
}

// One machine with release times: in order of release, the end is the least there is (Jackson).
static int64_t reach_of(struct pack_state *state, int s)
{
    if (state->no_inference) return reach_without_order(state, s);
    int *cover = &state->cover[state->first_cover[s]];
    int64_t end = 0;
    sort_by_low(state, cover, state->live[s]);
    for (int i = 0; i < state->live[s]; i++)
        end = (end > state->sorted[i] ? end : state->sorted[i]) + state->size[cover[i]];
    return end;
}

// A buffer that was refuted at its rest waits in vain where nothing can come to lie in its way
// there any more: every packing would allow it to be moved down.
static bool waits_with_reason(struct pack_state *state, int buffer)
{
    if (state->low[buffer] == INT64_MAX || state->low[buffer] == state->rest[buffer]) return true;
    int64_t top = state->rest[buffer] + state->size[buffer];
    if (state->obstacle[buffer] >= 0 && state->low[state->obstacle[buffer]] < top) return true;
    for (int i = state->first_neighbour[buffer]; i < state->first_neighbour[buffer + 1]; i++) {
        int other = state->neighbours[i];
        if (state->low[other] >= top || !is_free(state, other)) continue;
        state->obstacle[buffer] = other;
        return true;
    }
    return false;
}

static bool update(struct pack_state *state, int s, int64_t reach)
{
    record(state, CHANGE_SECTION, s)->section = state->sections[s];
    state->sections[s] = floor_of(state, s);
    state->sections[s].reach = reach;
    return reach <= state->height;
}

static bool refresh_section(struct pack_state *state, int s)
{
    state->is_stale[s] = false;
    if (update(state, s, reach_of(state, s))) return true;
    state->conflict = s;
    return false;
}

// The reach of sections under `placed`, -1 for none, is known to be as before. What refuted the
// last change often refutes the next one too, so it is asked first.
static bool refresh(struct pack_state *state, int placed)
{
    int from = placed < 0 ? 0 : state->first[placed], to = placed < 0 ? 0 : state->last[placed];
    int last = state->conflict;
    bool holds = true;
    if (state->is_stale[last] && (last < from || to <= last)) holds = refresh_section(state, last);
    for (int i = 0; i < state->stale_count; i++) {
        int s = state->stale[i];
        if (holds && state->is_stale[s] && (s < from || to <= s)) holds = refresh_section(state, s);
        state->is_stale[s] = false;
    }
    for (int s = from; s < to && holds; s++)
        update(state, s, state->sections[s].reach);
    state->stale_count = 0;
    for (int i = 0; i < state->waiting_count && holds; i++) {
        holds = waits_with_reason(state, state->waiting[i]);
        if (!holds) state->conflict = state->first[state->waiting[i]];
    }
    return holds;
}

// Fixed buffers stand where they are: they can only refute the height.
bool pack_state_start(struct pack_state *state)
{
    for (int b = 0; b < state->buffer_count; b++)
        if (!is_free(state, b) && state->low[b] + state->buffers[b].size > state->height)
            return false;
    for (int b = 0; b < state->buffer_count; b++) {
        if (is_free(state, b)) state->low[b] = state->rest[b] = lowest_from(state, b, 0);
        state->hash[b] = is_free(state, b) ? hash_of(b, state->low[b]) : 0;
        state->obstacle[b] = -1;
        mark_stale(state, b);
    }
    return refresh(state, -1);
}

// Moves `buffer` behind the live ones of a section.
static void take_out(struct pack_state *state, int s, int buffer)
{
    int *cover = &state->cover[state->first_cover[s]];
    int at = 0, last = --state->live[s];
    while (cover[at] != buffer)
        at++;
    // Shifted, not swapped: the live ones stay nearly sorted by their lows, as sort_by_low wants
    // them.
    for (; at < last; at++)
        cover[at] = cover[at + 1];
    cover[last] = buffer;
}

bool pack_state_place(struct pack_state *state, int buffer)
{
    assert(state->low[buffer] != INT64_MAX && "it is not placed yet");
    int64_t low = state->low[buffer], top = low + state->size[buffer];
    // It is the lowest and raises others to its top at most: they end as before.
    bool keeps_reach = !state->has_fixed && !state->has_alignment && !state->no_inference;
    state->offsets[buffer] = low;
    record_low(state, CHANGE_PLACED, buffer);
    state->low[buffer] = INT64_MAX;
    state->hash[buffer] = 0;
    mark_stale(state, buffer);
    for (int s = state->first[buffer]; s < state->last[buffer]; s++) {
        state->crossing[s] -= s > state->first[buffer];
        assert(state->sections[s].floor == low);  // or something could still come to lie under it
        take_out(state, s, buffer);
    }
    for (int i = state->first_neighbour[buffer]; i < state->first_neighbour[buffer + 1]; i++) {
        int other = state->neighbours[i];
        if (state->rest[other] >= top || state->low[other] == INT64_MAX || !is_free(state, other))
            continue;
        record_low(state, CHANGE_LOW, other);
        state->rest[other] = lowest_from(state, other, top);
        set_low(state, other, state->rest[other]);
    }
    return refresh(state, keeps_reach ? buffer : -1);
}

// The lowest top that could carry `buffer` above the floor of a section it covers.
static int64_t next_support(const struct pack_state *state, int buffer, int section)
{
    int64_t floor = state->sections[section].floor, least = INT64_MAX;
    for (int i = state->first_neighbour[buffer]; i < state->first_neighbour[buffer + 1]; i++) {
        int other = state->neighbours[i];
        int64_t low = state->low[other];
        if (low == INT64_MAX) continue;
        bool covers = state->first[other] <= section && section < state->last[other];
        if (is_free(state, other) && covers && low == floor) low++;
        int64_t top = low + state->buffers[other].size;
        if (top > floor && top < least) least = top;
    }
    return least;
}

static void wait(struct pack_state *state, int buffer)
{
    if (state->waiting_count == state->waiting_room) {
        state->waiting_room = 2 * state->waiting_room + state->buffer_count;
        int *waiting = ARENA_NEW(state->arena, int, state->waiting_room);
        if (state->waiting_count)
            memcpy(waiting, state->waiting, (size_t)state->waiting_count * sizeof *waiting);
        state->waiting = waiting;
    }
    record(state, CHANGE_WAITING, buffer);
    state->waiting[state->waiting_count++] = buffer;
}

bool pack_state_leave_empty(struct pack_state *state, int section, int64_t unit)
{
    assert(section >= 0 && section < state->section_count && unit >= 0);
    const int *cover = &state->cover[state->first_cover[section]];
    int count = state->live[section];
    int64_t floor = state->sections[section].floor;
    int mark = state->trail_count;
    for (int i = 0; i < count; i++) {
        int buffer = cover[i];
        if (state->low[buffer] != floor || !is_free(state, buffer)) continue;
        int64_t next = unit ? floor + unit : next_support(state, buffer, section);
        if (next > state->height) next = state->height;
        record_low(state, CHANGE_LOW, buffer)->low = next;
    }
    // Lows change together, so that all were asked on the same state.
    int end = state->trail_count;
    for (int i = mark; i < end; i++) {
        int buffer = state->trail[i].index;
        int64_t next = lowest_from(state, buffer, state->trail[i].low);
        state->trail[i].low = floor;
        set_low(state, buffer, next);
        if (unit)
            state->rest[buffer] = next;
        else
            wait(state, buffer);
    }
    return refresh(state, -1);
}

bool pack_state_wait(struct pack_state *state, int buffer, int64_t unit)
{
    assert(buffer >= 0 && buffer < state->buffer_count && unit >= 0);
    int64_t next = state->low[buffer] + unit;
    if (!unit) {
        next = INT64_MAX;
        for (int i = state->first_neighbour[buffer]; i < state->first_neighbour[buffer + 1]; i++) {
            int other = state->neighbours[i];
            int64_t top = state->low[other] + state->buffers[other].size;
            if (state->low[other] != INT64_MAX && top > state->low[buffer] && top < next)
                next = top;
        }
    }
    // Nothing carries it: at the height itself it no longer fits, which refutes its sections.
    if (next > state->height) next = state->height;
    next = lowest_from(state, buffer, next);
    for (int twin = buffer;
         twin == buffer || (twin < state->buffer_count && state->twin[twin] >= 0); twin++) {
        record_low(state, CHANGE_LOW, twin);
        set_low(state, twin, next);
        if (unit)
            state->rest[twin] = next;
        else
            wait(state, twin);
    }
    return refresh(state, -1);
}

void pack_state_undo(struct pack_state *state, int trail_count)
{
    assert(trail_count >= 0 && trail_count <= state->trail_count);
    while (state->trail_count > trail_count) {
        const struct pack_change *change = &state->trail[--state->trail_count];
        if (change->kind == CHANGE_WAITING) state->waiting_count--;
        if (change->kind == CHANGE_SECTION) state->sections[change->index] = change->section;
        if (change->kind == CHANGE_WAITING || change->kind == CHANGE_SECTION) continue;
        state->low[change->index] = change->low;
        state->rest[change->index] = change->rest;
        state->hash[change->index] = hash_of(change->index, change->low);
        if (change->kind == CHANGE_LOW) continue;
        for (int s = state->first[change->index]; s < state->last[change->index]; s++) {
            state->crossing[s] += s > state->first[change->index];
            // take_out has put it right behind the live ones, and changes are undone newest first.
            state->live[s]++;
        }
    }
}
