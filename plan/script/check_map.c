#include "plan/script/checking.h"

#include <assert.h>
#include <string.h>

// The first run that ends behind `offset`.
static int find(const struct check_map *map, int64_t offset)
{
    int low = 0, high = map->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (map->runs[middle].end > offset) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static void reserve(struct check_map *map)
{
    enum { MORE = 2 };  // a write cuts at most one run in two and is one itself
    if (map->count + MORE <= map->capacity) return;
    ARENA_GROW(map->arena, map->runs, map->capacity, map->capacity);
}

void check_map_write(struct check_map *map, int64_t first, int64_t end, int value)
{
    if (first >= end) return;
    reserve(map);
    struct check_run pieces[3];
    int count = 0, from = find(map, first), to = from;
    if (from < map->count && map->runs[from].first < first)
        pieces[count++] = (struct check_run){map->runs[from].first, first, map->runs[from].value};
    pieces[count++] = (struct check_run){first, end, value};
    while (to < map->count && map->runs[to].first < end)
        to++;
    if (to > from && map->runs[to - 1].end > end)
        pieces[count++] = (struct check_run){end, map->runs[to - 1].end, map->runs[to - 1].value};
    assert(map->count - (to - from) + count <= map->capacity && "reserve makes room");
    memmove(&map->runs[from + count], &map->runs[to],
            (size_t)(map->count - to) * sizeof *map->runs);
    memcpy(&map->runs[from], pieces, (size_t)count * sizeof *pieces);
    map->count += count - (to - from);
}

int check_map_other(const struct check_map *map, int64_t first, int64_t end, int value)
{
    for (int at = find(map, first); first < end; at++) {
        if (at == map->count || map->runs[at].first > first) return CHECK_MAP_NOTHING;
        if (map->runs[at].value != value) return map->runs[at].value;
        first = map->runs[at].end;
    }
    return CHECK_MAP_SAME;
}
