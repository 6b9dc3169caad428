#include "planner/strategy/model.h"
#include "core/hash.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

static void put_nodes(struct arena *arena, struct choice_model *model,
                      const struct reduced *reduced, int *number_of)
{
    int count = reduced->problem->node_count;
    model->names = ARENA_NEW(arena, int, count);
    for (int i = 0; i < count; i++) {
        number_of[i] = -1;
        if (reduced->nodes[i].is_gone) continue;
        model->names[model->node_count] = i;
        number_of[i] = model->node_count++;
        model->choice_count += reduced->nodes[i].count;
        if (reduced->nodes[i].count > model->choices_most)
            model->choices_most = reduced->nodes[i].count;
    }
    model->starts = ARENA_NEW(arena, int, model->node_count + 1);
    model->cost = ARENA_NEW(arena, double, model->choice_count);
    for (int i = 0; i < model->node_count; i++) {
        const struct reduced_node *node = &reduced->nodes[model->names[i]];
        model->starts[i + 1] = model->starts[i] + node->count;
        memcpy(model->cost + model->starts[i], node->cost, (size_t)node->count * sizeof(double));
    }
}

// Matrices by content, each with its transpose.
struct shelf {
    struct arena *arena;
    struct shelved {
        int rows, columns;
        const double *cost, *turned;
    } * items;
    int *slots;  // 1 + item, by hash
    int count, slot_count;
};

static const double *turn(struct arena *arena, const double *cost, int rows, int columns)
{
    double *turned = ARENA_NEW(arena, double, rows *columns);
    for (int x = 0; x < rows; x++)
        for (int y = 0; y < columns; y++)
            turned[y * rows + x] = cost[x * columns + y];
    return turned;
}

static const struct shelved *shelve(struct shelf *shelf, const double *cost, int rows, int columns)
{
    size_t bytes = (size_t)rows * (size_t)columns * sizeof(double);
    uint64_t hash = hash_word(HASH_START, (uint64_t)rows);
    for (int i = 0; i < rows * columns; i++)
        hash = hash_word(hash, (uint64_t)(int64_t)cost[i]);
    int slot = (int)(hash_mix(hash) % (uint64_t)shelf->slot_count);
    for (; shelf->slots[slot]; slot = (slot + 1) % shelf->slot_count) {
        const struct shelved *at = &shelf->items[shelf->slots[slot] - 1];
        if (at->rows == rows && at->columns == columns && memcmp(at->cost, cost, bytes) == 0) {
            return at;
        }
    }
    shelf->items[shelf->count] =
        (struct shelved){rows, columns, cost, turn(shelf->arena, cost, rows, columns)};
    shelf->slots[slot] = ++shelf->count;
    return &shelf->items[shelf->count - 1];
}

static bool forbids(const double *cost, int count)
{
    for (int i = 0; i < count; i++)
        if (cost[i] >= REDUCED_FORBIDDEN / 2) return true;
    return false;
}

static void put_arc(struct choice_model *model, int from, struct model_arc arc, int *filled)
{
    model->arcs[model->arc_starts[from] + filled[from]++] = arc;
}

static void put_edges(struct arena *arena, struct choice_model *model,
                      const struct reduced *reduced, const int *number_of)
{
    model->arc_starts = ARENA_NEW(arena, int, model->node_count + 1);
    for (int e = 0; e < reduced->edge_count; e++) {
        if (reduced->edges[e].is_gone) continue;
        model->edge_count++;
        for (int side = 0; side < 2; side++)
            model->arc_starts[number_of[reduced->edges[e].ends[side]] + 1]++;
    }
    for (int i = 0; i < model->node_count; i++)
        model->arc_starts[i + 1] += model->arc_starts[i];
    model->arcs = ARENA_NEW(arena, struct model_arc, 2 * model->edge_count);
    model->messages = ARENA_NEW(arena, int, 2 * model->edge_count);
    struct shelf shelf = {
        .arena = arena,
        .items = ARENA_NEW(arena, struct shelved, model->edge_count),
        .slots = ARENA_NEW(arena, int, 2 * model->edge_count + 1),
        .slot_count = 2 * model->edge_count + 1,
    };
    int *filled = ARENA_NEW(arena, int, model->node_count), edge = 0;
    for (int e = 0; e < reduced->edge_count; e++) {
        const struct reduced_edge *from = &reduced->edges[e];
        if (from->is_gone) continue;
        int a = number_of[from->ends[0]], b = number_of[from->ends[1]];
        assert(a >= 0 && b >= 0 && "an edge that is left joins nodes that are");
        int rows = model_choices(model, a), columns = model_choices(model, b);
        const struct shelved *at = shelve(&shelf, from->cost, rows, columns);
        bool any = forbids(at->cost, rows * columns);
        put_arc(model, a, (struct model_arc){b, edge, 0, any, at->cost, at->turned}, filled);
        put_arc(model, b, (struct model_arc){a, edge, 1, any, at->turned, at->cost}, filled);
        model->messages[2 * edge] = model->message_count;
        model->messages[2 * edge + 1] = model->message_count + rows;
        model->message_count += rows + columns;
        model->entry_count += (int64_t)rows * columns;
        edge++;
    }
}

static void put_parts(struct arena *arena, struct choice_model *model,
                      const struct reduced *reduced)
{
    struct model_points points = model_points_make(arena, reduced);
    model->point_count = points.count;
    model->room = points.room;
    model->is_impossible = points.is_impossible;
    int part_most = 0, usage_most = 0;
    for (int i = 0; i < model->node_count; i++) {
        const struct reduced_node *node = &reduced->nodes[model->names[i]];
        part_most += node->part_count;
        usage_most += node->part_count * node->count;
    }
    model->part_starts = ARENA_NEW(arena, int, model->node_count + 1);
    model->part_nodes = ARENA_NEW(arena, int, part_most);
    model->parts = ARENA_NEW(arena, struct model_part, part_most);
    model->usages = ARENA_NEW(arena, double, usage_most);
    int usage_count = 0;
    for (int i = 0; i < model->node_count; i++) {
        const struct reduced_node *node = &reduced->nodes[model->names[i]];
        for (int p = 0; p < node->part_count; p++) {
            const struct reduced_part *part = &node->parts[p];
            int birth = points.point_of[part->birth], death = points.point_of[part->death];
            if (birth == death) continue;
            model->part_nodes[model->part_count] = i;
            model->parts[model->part_count++] = (struct model_part){birth, death, usage_count};
            memcpy(model->usages + usage_count, part->usage, (size_t)node->count * sizeof(double));
            usage_count += node->count;
        }
        model->part_starts[i + 1] = model->part_count;
    }
}

struct choice_model *model_make(struct arena *arena, const struct reduced *reduced)
{
    struct choice_model *model = ARENA_NEW(arena, struct choice_model, 1);
    int *number_of = ARENA_NEW(arena, int, reduced->problem->node_count);
    put_nodes(arena, model, reduced, number_of);
    put_edges(arena, model, reduced, number_of);
    put_parts(arena, model, reduced);
    model->is_impossible |= reduced->is_impossible;
    return model;
}

void model_expand(const struct choice_model *model, const struct reduced *reduced,
                  const int *choice, int *strategies)
{
    for (int i = 0; i < model->node_count; i++)
        strategies[model->names[i]] = reduced->nodes[model->names[i]].labels[choice[i]];
    reduced_expand(reduced, strategies);
}
