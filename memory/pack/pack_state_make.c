#include "memory/pack/pack_state.h"
#include "memory/sections.h"

#include <assert.h>
#include <stdlib.h>

struct entry {
    struct pack_buffer buffer;
    int origin;
};

#define COMPARE(a, b) \
    if ((a) != (b)) return ((a) > (b)) - ((a) < (b))

static int compare_entries(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    COMPARE(a->buffer.lower, b->buffer.lower);
    COMPARE(a->buffer.upper, b->buffer.upper);
    COMPARE(a->buffer.size, b->buffer.size);
    COMPARE(a->buffer.alignment, b->buffer.alignment);
    COMPARE(a->buffer.fixed_offset, b->buffer.fixed_offset);
    COMPARE(a->origin, b->origin);
    return 0;
}

static bool are_twins(const struct pack_buffer *a, const struct pack_buffer *b)
{
    return a->fixed_offset < 0 && b->fixed_offset < 0 && a->lower == b->lower &&
           a->upper == b->upper && a->size == b->size && a->alignment == b->alignment;
}

static void take_buffers(struct pack_state *state, const struct pack_problem *problem)
{
    struct entry *entries = ARENA_NEW(state->arena, struct entry, problem->count);
    int count = 0;
    for (int i = 0; i < problem->count; i++)
        if (problem->buffers[i].lower < problem->buffers[i].upper)
            entries[count++] = (struct entry){problem->buffers[i], i};
    qsort(entries, (size_t)count, sizeof *entries, compare_entries);
    struct pack_buffer *buffers = ARENA_NEW(state->arena, struct pack_buffer, count);
    int *origin = ARENA_NEW(state->arena, int, count);
    int *twin = ARENA_NEW(state->arena, int, count);
    for (int b = 0; b < count; b++) {
        buffers[b] = entries[b].buffer;
        origin[b] = entries[b].origin;
        twin[b] = b > 0 && are_twins(&buffers[b - 1], &buffers[b]) ? b - 1 : -1;
        state->has_fixed |= buffers[b].fixed_offset >= 0;
        state->has_alignment |= buffers[b].alignment > 1;
    }
    state->buffers = buffers;
    state->origin = origin;
    state->twin = twin;
    assert(count <= problem->count);
    state->buffer_count = count;
}

static void make_sections(struct pack_state *state)
{
    int count = state->buffer_count;
    const struct pack_problem problem = {.buffers = state->buffers, .count = count};
    const struct pack_sections *sections = pack_sections_make(state->arena, &problem);
    state->section_count = count > 0 ? sections->count : 0;
    int *starting = ARENA_NEW(state->arena, int, state->section_count + 2);
    state->crossing = ARENA_NEW(state->arena, int, state->section_count + 1);
    for (int b = 0; b < count; b++) {
        starting[sections->first[b] + 1]++;
        for (int s = sections->first[b] + 1;
             s < sections->end[b] && state->buffers[b].fixed_offset < 0; s++)
            state->crossing[s]++;
    }
    for (int s = 0; s < state->section_count; s++)
        starting[s + 1] += starting[s];
    state->first = sections->first;
    state->last = sections->end;
    assert(state->section_count == 0 || starting[state->section_count] == count);
    state->first_starting = starting;
}

static void make_cover(struct pack_state *state)
{
    int *start = ARENA_NEW(state->arena, int, state->section_count + 2);
    for (int b = 0; b < state->buffer_count; b++)
        for (int s = state->first[b]; s < state->last[b]; s++)
            start[s + 1]++;
    for (int s = 0; s < state->section_count; s++)
        start[s + 1] += start[s];
    int *fill = ARENA_NEW(state->arena, int, state->section_count);
    state->cover = ARENA_NEW(state->arena, int, start[state->section_count]);
    for (int b = 0; b < state->buffer_count; b++)
        for (int s = state->first[b]; s < state->last[b]; s++)
            state->cover[start[s] + fill[s]++] = b;
    state->first_cover = start;
    state->live = fill;
    state->sorted = ARENA_NEW(state->arena, int64_t, state->buffer_count);
    state->size = ARENA_NEW(state->arena, int64_t, state->buffer_count);
    for (int b = 0; b < state->buffer_count; b++)
        state->size[b] = state->buffers[b].size;
}

// Buffers stand in order of birth: of a pair the later one is born while the other lives.
static void make_neighbours(struct pack_state *state)
{
    int count = state->buffer_count;
    int *start = ARENA_NEW(state->arena, int, count + 1);
    for (int b = 0; b < count; b++)
        for (int other = b + 1; other < state->first_starting[state->last[b]]; other++) {
            start[b + 1]++;
            start[other + 1]++;
        }
    for (int b = 0; b < count; b++)
        start[b + 1] += start[b];
    int *fill = ARENA_NEW(state->arena, int, count);
    int *neighbours = ARENA_NEW(state->arena, int, start[count]);
    for (int b = 0; b < count; b++)
        for (int other = b + 1; other < state->first_starting[state->last[b]]; other++) {
            neighbours[start[b] + fill[b]++] = other;
            neighbours[start[other] + fill[other]++] = b;
        }
    state->first_neighbour = start;
    state->neighbours = neighbours;
}

struct pack_state *pack_state_make(struct arena *arena, const struct pack_problem *problem,
                                   int64_t height)
{
    struct pack_state *state = ARENA_NEW(arena, struct pack_state, 1);
    state->arena = arena;
    state->height = height;
    take_buffers(state, problem);
    make_sections(state);
    make_cover(state);
    make_neighbours(state);
    int count = state->buffer_count;
    state->low = ARENA_NEW(arena, int64_t, count);
    state->rest = ARENA_NEW(arena, int64_t, count);
    state->obstacle = ARENA_NEW(arena, int, count);
    state->hash = ARENA_NEW(arena, uint64_t, count);
    state->offsets = ARENA_NEW(arena, int64_t, count);
    for (int b = 0; b < count; b++)
        if (state->buffers[b].fixed_offset >= 0)
            state->low[b] = state->offsets[b] = state->buffers[b].fixed_offset;
    state->sections = ARENA_NEW(arena, struct pack_section, state->section_count);
    state->is_stale = ARENA_NEW(arena, bool, state->section_count + 1);
    state->stale = ARENA_NEW(arena, int, state->section_count);
    return state;
}
