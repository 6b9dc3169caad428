#pragma once
#include "planner/strategy/reduce.h"

// What is left of a problem, laid out for solving: nodes numbered anew in their old order, their
// choices one behind the other, edges that have equal costs sharing one matrix, and only those
// points of time at which the limit could be exceeded.

// One end of an edge, as its node sees it.
struct model_arc {
    int node;              // at the other end
    int edge;              // of which both ends have a message: 2 * edge + (whether the second)
    int side;              // 0: the node is the first of the edge
    bool forbids;          // some pair is forbidden
    const double *cost;    // [choice of the node][choice of the other]
    const double *turned;  // [choice of the other][choice of the node]
};

struct model_part {
    int birth, death;  // points of the model
    int usage;         // where the usages of the node's choices begin in `usages`
};

struct choice_model {
    int node_count, edge_count, point_count, part_count;
    int choice_count;  // of all nodes
    int *starts;       // [node_count + 1]: the choices of a node
    double *cost;      // [choice_count]
    int *names;        // [node_count]: of the reduced problem
    int *arc_starts;   // [node_count + 1]
    struct model_arc *arcs;
    int *messages;  // [2 * edge_count]: where the message of an edge's end begins
    int message_count;
    int *part_starts;  // [node_count + 1]
    int *part_nodes;   // [part_count]
    struct model_part *parts;
    double *usages;
    double *room;  // [point_count]: of the limit, over what is used whatever is chosen
    int choices_most;
    int64_t entry_count;  // of the matrices of all edges: what a sweep takes
    bool is_impossible;   // the limit is exceeded whatever is chosen
};

static inline int model_choices(const struct choice_model *model, int node)
{
    return model->starts[node + 1] - model->starts[node];
}

// Lives in `arena`.
struct choice_model *model_make(struct arena *arena, const struct reduced *reduced);
// The choices of the model as strategies of the problem's nodes, all of them.
void model_expand(const struct choice_model *model, const struct reduced *reduced,
                  const int *choice, int *strategies);

// Points of time that the limit cannot be exceeded at, or that another one covers, are left out:
// point_of[t] counts those kept before t, for t up to time_count.
struct model_points {
    int *point_of;  // [time_count + 1]
    double *room;   // [count]
    int count;
    bool is_impossible;
};
struct model_points model_points_make(struct arena *arena, const struct reduced *reduced);
