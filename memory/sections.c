#include "memory/sections.h"

#include "core/sort.h"

#include <assert.h>

static int instant_index(const int64_t *instants, int count, int64_t instant)
{
    assert(count > 0);
    int low = 0, high = count - 1;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (instants[middle] < instant) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// The distinct instants, ascending; returns how many.
static int collect(const struct pack_problem *problem, int64_t *instants)
{
    int count = 0, distinct = 0;
    for (int b = 0; b < problem->count; b++) {
        instants[count++] = problem->buffers[b].lower;
        instants[count++] = problem->buffers[b].upper;
    }
    sort_i64s(instants, (size_t)count);
    for (int i = 0; i < count; i++) {
        if (distinct == 0 || instants[i] != instants[distinct - 1]) {
            instants[distinct++] = instants[i];
        }
    }
    return distinct;
}

struct pack_sections *pack_sections_make(struct arena *arena, const struct pack_problem *problem)
{
    struct pack_sections *sections = ARENA_NEW(arena, struct pack_sections, 1);
    int64_t *instants = ARENA_NEW(arena, int64_t, 2 * (size_t)problem->count);
    int instant_count = collect(problem, instants);
    sections->count = instant_count > 1 ? instant_count - 1 : 1;
    sections->first = ARENA_NEW(arena, int, problem->count);
    sections->end = ARENA_NEW(arena, int, problem->count);
    sections->load = ARENA_NEW(arena, int64_t, sections->count + 1);
    for (int b = 0; b < problem->count; b++) {
        const struct pack_buffer *buffer = &problem->buffers[b];
        if (buffer->lower >= buffer->upper) continue;
        sections->first[b] = instant_index(instants, instant_count, buffer->lower);
        sections->end[b] = instant_index(instants, instant_count, buffer->upper);
        assert(sections->first[b] < sections->end[b] && sections->end[b] <= sections->count);
        sections->load[sections->first[b]] += buffer->size;
        sections->load[sections->end[b]] -= buffer->size;
    }
    for (int s = 0; s < sections->count; s++) {
        if (s > 0) sections->load[s] += sections->load[s - 1];
        if (sections->load[s] > sections->load_most) sections->load_most = sections->load[s];
    }
    assert(sections->load[sections->count] <= 0 && sections->load_most >= 0);
    return sections;
}

// The earlier of equally full ones, so that the answer does not depend on the tree.
static int fuller(const struct pack_sections *sections, int left, int right)
{
    if (left < 0 || right < 0) return left < 0 ? right : left;
    if (sections->load[left] != sections->load[right]) {
        return sections->load[left] > sections->load[right] ? left : right;
    }
    return left < right ? left : right;
}

// A segment tree, as buffers ask for ranges of many sections.
int *pack_sections_fullest(struct arena *arena, const struct pack_sections *sections, int count)
{
    int *fullest = ARENA_NEW(arena, int, count);
    int leaf_count = sections->count;
    int *tree = ARENA_NEW(arena, int, 2 * (size_t)leaf_count);
    for (int s = 0; s < leaf_count; s++)
        tree[leaf_count + s] = s;
    for (int node = leaf_count - 1; node >= 1; node--) {
        tree[node] = fuller(sections, tree[2 * node], tree[2 * node + 1]);
    }
    for (int b = 0; b < count; b++) {
        int best = -1;
        int low = sections->first[b] + leaf_count, high = sections->end[b] + leaf_count;
        for (; low < high; low /= 2, high /= 2) {
            if (low % 2) best = fuller(sections, best, tree[low++]);
            if (high % 2) best = fuller(sections, best, tree[--high]);
        }
        assert(best < sections->count);
        assert(best < leaf_count);
        fullest[b] = best > 0 ? best : 0;
    }
    return fullest;
}
