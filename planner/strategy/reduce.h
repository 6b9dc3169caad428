#pragma once
#include "planner/strategy/problem.h"

// A problem made smaller without losing its optimum: choices that another one dominates or that no
// neighbour allows are left out, edges that are a sum of two terms become costs of nodes, a node
// that a neighbour decides joins it (chains of equal layouts), and one that uses no memory is
// folded into its only neighbour. What is left maps back to the whole problem.

// Above any sum of allowed costs, small enough that doubles keep whole units beside it.
#define REDUCED_FORBIDDEN 1e16

// Usage of the choices of a node over [birth, death), above the least of them, which is in `base`.
struct reduced_part {
    int birth, death;
    double *usage;  // [count of the node]
};

struct reduced_node {
    int count;     // choices left
    int *labels;   // [count]: strategies of the problem
    double *cost;  // [count]
    struct reduced_part *parts;
    int part_count, part_room;
    int *edges;  // those that are left, where the node is
    int edge_count, edge_room;
    bool is_gone;
};

struct reduced_edge {
    int ends[2];
    double *cost;  // [count of the first][count of the second]
    bool is_gone;
};

struct reduced {
    struct arena *arena;
    const struct strategy_problem *problem;
    struct reduced_node *nodes;  // as many as the problem has
    struct reduced_edge *edges;
    int edge_count, edge_room;
    double *base;       // [time_count + 1]: change of usage, whatever is chosen
    double fixed_cost;  // of nodes that are gone
    // Nodes that are gone and hang on another: choice[strategy of `by`]; by -1: choice[0].
    struct reduced_step {
        int node, by;
        int *choice;
    } * steps;
    int step_count, step_room;
    bool is_impossible;  // some node has no choice left
};

// Lives in `arena`, as does all that it was made of.
struct reduced *reduced_make(struct arena *arena, const struct strategy_problem *problem);
// Fills the strategies of the nodes that are gone; those of the others are given.
void reduced_expand(const struct reduced *reduced, int *choice);

// Steps of it, each over the whole problem; they return whether anything changed.
bool reduced_drop_unsupported(struct reduced *reduced);
bool reduced_drop_dominated(struct reduced *reduced);
bool reduced_split_edges(struct reduced *reduced);
bool reduced_join_nodes(struct reduced *reduced);
bool reduced_fold_leaves(struct reduced *reduced);

// The last step: the parts of each node follow each other without overlap, and what is used alike
// for a while is one part.
void reduced_flatten(struct reduced *reduced);

// Keeps the choices that are marked.
void reduced_restrict(struct reduced *reduced, int node, const bool *keep);
// The costs of the node's edge to `other` as rows of `node`, and what is at its other end.
int reduced_other(const struct reduced_edge *edge, int node);
double reduced_cost(const struct reduced *reduced, const struct reduced_edge *edge, int node,
                    int own, int others);
// Joins two nodes by an edge of these costs, [a][b]; parallel edges become one, a node with itself
// takes its diagonal.
void reduced_connect(struct reduced *reduced, int a, int b, double *cost);
// Usage that is the same for all choices leaves the parts for the base.
void reduced_settle_usage(struct reduced *reduced, int node);
