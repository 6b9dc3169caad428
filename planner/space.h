#pragma once
#include "planner/choice.h"

// The space of plans that pins, stack and divisibility leave. It is a tree: a *mesh* (degrees and
// axis order), in it *groups* (attention, sequence parallelism, micro-batch), in them *tails*
// (chunks, schedule, ZeRO, recompute). What makes no difference is not counted twice: sequence
// parallelism without tp, a schedule without pp, ZeRO without dp, axis orders that put every
// communicator on the same links. There only the first allowed value stays.

struct space_mesh {
    int degree[AXIS_COUNT];
    enum axis order[AXIS_COUNT];
    int order_count;
    int zero_group;
};

struct space_group {
    int mesh;  // index
    enum attention attention;
    bool sp;
    int micro_batch;
};

// `layers_low .. layers_high` are the numbers of recomputed layers a stage that stand for one plan
// each; -1 .. -1 where the choice is all or none.
struct space_tail {
    int vpp;
    enum schedule_kind schedule;
    int zero;
    enum recompute recompute;
    int layers_low, layers_high;
};

enum { SPACE_VALUE_MAX = 64 };
struct space_values {
    int count;
    int values[SPACE_VALUE_MAX];
};

struct space {
    const struct search_request *request;
    int layer_count;  // of the model
    struct space_values zeros, recomputes, schedules, attentions, switches;
    unsigned overlap;
    struct space_mesh *meshes;
    int mesh_count;
    struct space_group *groups;  // mesh by mesh
    int group_count;
    double plan_count;           // once space_count was called
    double dropped[DROP_COUNT];  // meshes and groups without any legal plan
    struct err refused;          // why the first of them was
};

// Meshes and groups of a request, in `arena`. `graph_of` gives the graph of a tp degree and
// attention, for the checks. An empty space is no error here: group_count is 0.
struct space_graphs {
    const struct graph *(*of)(void *context, enum attention attention, int tp);
    void *context;
};
struct space *space_make(struct arena *arena, const struct search_request *request,
                         const struct space_graphs *graphs);
// The legal tails of a group, in a fixed order; reuses `tails`, which holds `*capacity`.
int space_tails(struct arena *arena, struct space *space, const struct space_graphs *graphs,
                const struct space_group *group, struct space_tail **tails, int *capacity);
// The record of a plan of the space; `layers` is in the tail's range.
struct parallel space_parallel(const struct space *space, const struct space_group *group,
                               const struct space_tail *tail, int layers);
// Plans of one tail.
int space_tail_count(const struct space_tail *tail);
