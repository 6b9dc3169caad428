#include "memory/pack/pack_order.h"

#include "memory/pack/occupancy.h"

#include <assert.h>
#include <stdlib.h>

static bool is_placed(const struct pack_problem *problem, const struct pack_sections *sections,
                      int b, bool fixed)
{
    bool is_fixed = problem->buffers[b].fixed_offset >= 0;
    return sections->first[b] < sections->end[b] && is_fixed == fixed;
}

// Of each place of an order the longest life, in sections, that stands there or behind it.
static int *longest_left(struct arena *arena, const struct pack_sections *sections,
                         const int *order, int order_count)
{
    int *longest = ARENA_NEW(arena, int, order_count), most = 0;
    for (int i = order_count - 1; i >= 0; i--) {
        int life = sections->end[order[i]] - sections->first[order[i]];
        if (most < life) most = life;
        longest[i] = most;
    }
    return longest;
}

int64_t pack_in_order(struct arena *scratch, const struct pack_problem *problem,
                      const struct pack_sections *sections, const int *order, int order_count,
                      enum pack_fit fit, int64_t limit, int64_t *offsets)
{
    struct arena_mark mark = arena_mark(scratch);
    struct occupancy *occupancy = occupancy_new(scratch, sections->count);
    int64_t height = 0;
    for (int b = 0; b < problem->count; b++) {
        if (!is_placed(problem, sections, b, true)) continue;
        // Fixed ones first: the others have to keep clear of them, whenever they are placed.
        offsets[b] = problem->buffers[b].fixed_offset;
        int64_t end = offsets[b] + problem->buffers[b].size;
        occupancy_add(occupancy, sections->first[b], sections->end[b], offsets[b], end);
        if (height < end) height = end;
    }
    int *longest = longest_left(scratch, sections, order, order_count);
    for (int i = 0; i < order_count && height <= limit; i++) {
        int b = order[i];
        occupancy_expect(occupancy, longest[i]);
        if (!is_placed(problem, sections, b, false)) continue;
        const struct pack_buffer *buffer = &problem->buffers[b];
        int first = sections->first[b], end = sections->end[b];
        offsets[b] =
            fit == FIT_BEST
                ? occupancy_best_fit(occupancy, first, end, buffer->size, buffer->alignment)
                : occupancy_first_fit(occupancy, first, end, buffer->size, buffer->alignment, 0);
        int64_t top = offsets[b] + buffer->size;
        occupancy_add(occupancy, first, end, offsets[b], top);
        if (height < top) height = top;
    }
    arena_reset(scratch, mark);
    return height <= limit ? height : INT64_MAX;
}

struct keyed {
    double keys[4];
    int buffer;
};

static int compare_keyed(const void *left, const void *right)
{
    const struct keyed *a = left, *b = right;
    for (int i = 0; i < 4; i++) {
        if (a->keys[i] != b->keys[i]) return a->keys[i] < b->keys[i] ? -1 : 1;
    }
    return (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

static struct keyed key_of(enum pack_key key, const struct pack_buffer *buffer, double load,
                           int fullest)
{
    double size = (double)buffer->size, start = (double)buffer->lower;
    double life = (double)(buffer->upper - buffer->lower);
    switch (key) {
    case KEY_SIZE:
        return (struct keyed){.keys = {-size, -life, start}};
    case KEY_AREA:
        return (struct keyed){.keys = {-size * life, -size, start}};
    case KEY_LIFE:
        return (struct keyed){.keys = {-life, -size, start}};
    case KEY_START:
        return (struct keyed){.keys = {start, -size, -life}};
    case KEY_END:
        return (struct keyed){.keys = {-(double)buffer->upper, -size, -life}};
    case KEY_FULLEST_SIZE:
        return (struct keyed){.keys = {-load, fullest, -size, -life}};
    case KEY_FULLEST_LIFE:
        return (struct keyed){.keys = {-load, fullest, -life, -size}};
    case KEY_FULLEST_START:
        return (struct keyed){.keys = {-load, fullest, start, -life}};
    case KEY_LOAD_SIZE:
        return (struct keyed){.keys = {-load, -size, -life, start}};
    case KEY_LOAD_AREA:
        return (struct keyed){.keys = {-load, -size * life, -size, start}};
    case PACK_KEY_COUNT:
        break;
    }
    return (struct keyed){.keys = {0}};
}

int *pack_sorted(struct arena *arena, const struct pack_problem *problem,
                 const struct pack_sections *sections, enum pack_key key)
{
    assert(key < PACK_KEY_COUNT);
    int *order = ARENA_NEW(arena, int, problem->count);
    int *fullest = pack_sections_fullest(arena, sections, problem->count);
    struct keyed *keyed = ARENA_NEW(arena, struct keyed, problem->count);
    for (int b = 0; b < problem->count; b++) {
        double load = (double)sections->load[fullest[b]];
        keyed[b] = key_of(key, &problem->buffers[b], load, fullest[b]);
        keyed[b].buffer = b;
    }
    qsort(keyed, (size_t)problem->count, sizeof *keyed, compare_keyed);
    for (int b = 0; b < problem->count; b++)
        order[b] = keyed[b].buffer;
    return order;
}
