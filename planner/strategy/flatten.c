#include "planner/strategy/reduce.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Where a part begins or ends. Usages are whole numbers: those of one time add up to the same in
// any order.
struct usage_change {
    int time, part;
    bool begins;
};

static int compare_changes(const void *a, const void *b)
{
    const struct usage_change *left = a, *right = b;
    return left->time < right->time ? -1 : left->time > right->time;
}

static bool is_nothing(const double *usage, int count)
{
    for (int k = 0; k < count; k++)
        if (usage[k] > 0) return false;
    return true;
}

struct flat_parts {
    struct reduced_part *parts;
    int count, room;
};

// What is used in sum from one change to the next: goes on with the part before where that is the
// same.
static void put_part(struct reduced *reduced, struct flat_parts *flat, int birth, int death,
                     const double *sum, int choices)
{
    assert(birth <= death && "changes were sorted by time");
    size_t bytes = (size_t)choices * sizeof(double);
    if (birth == death || is_nothing(sum, choices)) return;
    struct reduced_part *last = flat->count > 0 ? &flat->parts[flat->count - 1] : NULL;
    if (last && last->death == birth && memcmp(last->usage, sum, bytes) == 0) {
        last->death = death;
        return;
    }
    ARENA_GROW(reduced->arena, flat->parts, flat->count, flat->room);
    double *usage = ARENA_NEW(reduced->arena, double, choices);
    memcpy(usage, sum, bytes);
    flat->parts[flat->count++] = (struct reduced_part){birth, death, usage};
}

static void flatten_node(struct reduced *reduced, struct reduced_node *node)
{
    int change_count = 2 * node->part_count;
    struct usage_change *changes = ARENA_NEW(reduced->arena, struct usage_change, change_count);
    double *sum = ARENA_NEW(reduced->arena, double, node->count);
    for (int p = 0; p < node->part_count; p++) {
        changes[2 * p] = (struct usage_change){node->parts[p].birth, p, true};
        changes[2 * p + 1] = (struct usage_change){node->parts[p].death, p, false};
    }
    qsort(changes, (size_t)change_count, sizeof *changes, compare_changes);
    struct flat_parts flat = {0};
    for (int i = 0; i < change_count; i++) {
        const struct reduced_part *part = &node->parts[changes[i].part];
        if (i > 0) put_part(reduced, &flat, changes[i - 1].time, changes[i].time, sum, node->count);
        for (int k = 0; k < node->count; k++)
            sum[k] += changes[i].begins ? part->usage[k] : -part->usage[k];
    }
    node->parts = flat.parts;
    node->part_count = flat.count;
    node->part_room = flat.room;
}

void reduced_flatten(struct reduced *reduced)
{
    for (int i = 0; i < reduced->problem->node_count; i++) {
        struct reduced_node *node = &reduced->nodes[i];
        if (!node->is_gone && node->part_count > 1) flatten_node(reduced, node);
    }
}
