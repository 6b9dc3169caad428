#include "planner/spared.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

static int compare_bytes(const void *a, const void *b)
{
    const struct spared *first = a, *second = b;
    if (first->bytes != second->bytes) return first->bytes < second->bytes ? -1 : 1;
    return (first->seconds > second->seconds) - (first->seconds < second->seconds);
}

// Whether a mixture of the first and the last of three in the order of their bytes is no dearer
// than the one between them.
static bool is_beaten(const struct spared *first, const struct spared *middle,
                      const struct spared *last)
{
    return (middle->seconds - first->seconds) * (last->bytes - first->bytes) >=
           (last->seconds - first->seconds) * (middle->bytes - first->bytes);
}

static void add(struct spared_hull *hull, const struct spared *point)
{
    struct spared *points = hull->points;
    if (hull->count > 0 && point->bytes <= points[hull->count - 1].bytes) return;
    while (hull->count > 1 && is_beaten(&points[hull->count - 2], &points[hull->count - 1], point))
        hull->count--;
    if (hull->count == 1 && point->seconds <= points[0].seconds) hull->count = 0;
    points[hull->count++] = *point;
}

void spared_hull_make(struct spared_hull *hull, struct spared *points, int count)
{
    assert(count > 0 && count <= SPARED_MAX);
    qsort(points, (size_t)count, sizeof *points, compare_bytes);
    hull->count = 0;
    for (int i = 0; i < count; i++)
        add(hull, &points[i]);
}
