#include "planner/memory/pack_state.h"

#include <stdlib.h>
#include <string.h>

// Old values, newest last: a buffer's low, a section, or that a buffer was placed.
enum change_kind { CHANGE_LOW, CHANGE_SECTION, CHANGE_PLACED };
struct pack_change {
    enum change_kind kind;
    int index;
    int64_t low;
    struct pack_section section;
};

static void record(struct pack_state *state, struct pack_change change)
{
    if (state->trail_count == state->trail_room) {
        state->trail_room = state->trail_room ? 2 * state->trail_room : 1024;
        struct pack_change *trail = ARENA_NEW(state->arena, struct pack_change, state->trail_room);
        if (state->trail_count)
            memcpy(trail, state->trail, (size_t)state->trail_count * sizeof *trail);
        state->trail = trail;
    }
    state->trail[state->trail_count++] = change;
}

static bool is_free(const struct pack_state *state, int buffer)
{
    return state->buffers[buffer].fixed_offset < 0;
}

// The lowest offset from `low` on that is aligned and does not run into a fixed neighbour.
static int64_t lowest_from(const struct pack_state *state, int buffer, int64_t low)
{
    const struct pack_buffer *at = &state->buffers[buffer];
    if (state->has_alignment) low = (low + at->alignment - 1) / at->alignment * at->alignment;
    if (!state->has_fixed) return low;
    for (int i = state->first_neighbour[buffer]; i < state->first_neighbour[buffer + 1]; i++) {
        const struct pack_buffer *other = &state->buffers[state->neighbours[i]];
        int64_t fixed = other->fixed_offset;
        if (fixed < 0 || fixed >= low + at->size || fixed + other->size <= low) continue;
        low = (fixed + other->size + at->alignment - 1) / at->alignment * at->alignment;
        i = state->first_neighbour[buffer] - 1;
    }
    return low;
}

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
    record(state, (struct pack_change){CHANGE_LOW, buffer, state->low[buffer], {0}});
    state->low[buffer] = low;
    mark_stale(state, buffer);
}

// Insertion sort: from one node to the next the order hardly changes.
static void sort_by_low(const int64_t *low, int *items, int count)
{
    for (int i = 1; i < count; i++) {
        int item = items[i];
        int64_t key = low[item];
        int at = i;
        for (; at > 0 && low[items[at - 1]] > key; at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

// One machine with release times: in order of release, the end is the least there is (Jackson).
static struct pack_section section_of(struct pack_state *state, int s)
{
    int *cover = &state->cover[state->first_cover[s]];
    int count = state->first_cover[s + 1] - state->first_cover[s];
    struct pack_section section = {.floor = INT64_MAX};
    sort_by_low(state->low, cover, count);
    int64_t end = 0, least = INT64_MAX, total = 0, top = 0;
    for (int i = 0; i < count; i++) {
        int64_t low = state->low[cover[i]];
        if (low == INT64_MAX) break;
        if (is_free(state, cover[i])) {
            if (section.floor == INT64_MAX) section.floor = low;
            section.candidates += low == section.floor;
        }
        if (least == INT64_MAX) least = low;
        if (low + state->buffers[cover[i]].size > top) top = low + state->buffers[cover[i]].size;
        total += state->buffers[cover[i]].size;
        end = (end > low ? end : low) + state->buffers[cover[i]].size;
    }
    if (state->no_inference) end = total && least + total > top ? least + total : top;
    section.reach = end;
    return section;
}

static bool refresh(struct pack_state *state)
{
    int conflict = -1;
    for (int i = 0; i < state->stale_count; i++) {
        int s = state->stale[i];
        state->is_stale[s] = false;
        if (conflict >= 0) continue;
        struct pack_section section = section_of(state, s);
        record(state, (struct pack_change){CHANGE_SECTION, s, 0, state->sections[s]});
        state->sections[s] = section;
        if (section.reach > state->height) conflict = s;
    }
    state->stale_count = 0;
    state->conflict = conflict;
    return conflict < 0;
}

bool pack_state_start(struct pack_state *state)
{
    for (int b = 0; b < state->buffer_count; b++)
        if (!is_free(state, b) && state->low[b] + state->buffers[b].size > state->height)
            return false;
    for (int b = 0; b < state->buffer_count; b++) {
        if (is_free(state, b)) state->low[b] = lowest_from(state, b, 0);
        mark_stale(state, b);
    }
    return refresh(state);
}

bool pack_state_place(struct pack_state *state, int buffer)
{
    int64_t top = state->low[buffer] + state->buffers[buffer].size;
    state->offsets[buffer] = state->low[buffer];
    record(state, (struct pack_change){CHANGE_PLACED, buffer, state->low[buffer], {0}});
    state->low[buffer] = INT64_MAX;
    mark_stale(state, buffer);
    for (int s = state->first[buffer] + 1; s < state->last[buffer]; s++)
        state->crossing[s]--;
    for (int i = state->first_neighbour[buffer]; i < state->first_neighbour[buffer + 1]; i++) {
        int other = state->neighbours[i];
        if (state->low[other] < top && is_free(state, other))
            set_low(state, other, lowest_from(state, other, top));
    }
    return refresh(state);
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

bool pack_state_leave_empty(struct pack_state *state, int section, int64_t unit)
{
    const int *cover = &state->cover[state->first_cover[section]];
    int count = state->first_cover[section + 1] - state->first_cover[section];
    int64_t floor = state->sections[section].floor;
    int mark = state->trail_count;
    for (int i = 0; i < count; i++) {
        int buffer = cover[i];
        if (state->low[buffer] != floor || !is_free(state, buffer)) continue;
        int64_t next = unit ? floor + unit : next_support(state, buffer, section);
        if (next > state->height) next = state->height;
        record(state, (struct pack_change){CHANGE_LOW, buffer, next, {0}});
    }
    // Lows change together, so that all were asked on the same state.
    int end = state->trail_count;
    for (int i = mark; i < end; i++) {
        struct pack_change *change = &state->trail[i];
        int64_t next = lowest_from(state, change->index, change->low);
        change->low = floor;
        state->low[change->index] = next;
        mark_stale(state, change->index);
    }
    return refresh(state);
}

void pack_state_undo(struct pack_state *state, int trail_count)
{
    while (state->trail_count > trail_count) {
        const struct pack_change *change = &state->trail[--state->trail_count];
        if (change->kind == CHANGE_SECTION) {
            state->sections[change->index] = change->section;
            continue;
        }
        state->low[change->index] = change->low;
        if (change->kind == CHANGE_LOW) continue;
        for (int s = state->first[change->index] + 1; s < state->last[change->index]; s++)
            state->crossing[s]++;
    }
}
