#pragma once
#include "planner/per_operator.h"

// Layouts of the operators of one plan, as they are found: what the files of planner/per_operator.h
// share. A choice is a rule of a node, 0 the table's.

enum { OPERATOR_CHOICES = 10 };

// An operator that may be laid out by itself, and its rules; the first is none: the table's.
struct operator_node {
    int block, op;  // of the graph
    struct layout_rule rules[OPERATOR_CHOICES];
    int count;
    bool has_matrix;
};

struct operator_finding {
    struct arena *arena, *scratch;
    const struct evaluation_request *request;
    struct layout_prices *prices;
    const struct graph *graph;
    struct operator_node nodes[LAYOUT_SITES_MAX];
    int node_count;
    int64_t limit_bytes;
    int priced_count;
    int stage;    // whose choices are asked about, with those of the others as they are; -1: all
                  // stages have the same
    int *staged;  // [stage * node_count + node]
};

// Whether the stage that is asked about has this operator, and may lay it out by itself.
bool finding_is_open(const struct operator_finding *finding, int node);
// The step and the memory of the plan with these choices, [node]; memory as layout_prices_value.
struct layout_value finding_value(struct operator_finding *finding, const int *choice,
                                  double below_s);
// What it does with the tensors of its blocks (planner/layout_prices.h); NULL: not known.
const uint32_t *const *finding_traces(struct operator_finding *finding, const int *choice);
// Whether it fits and is faster.
bool finding_is_better(const struct operator_finding *finding, const struct layout_value *value,
                       const struct layout_value *than);

// planner/per_operator_problem.c: the answer of the strategy problem, in `choice`, which begins
// with the table's for all open operators, of value `table`. What it has of operators, layouts and
// gap is added up in `found`.
void finding_solve(struct operator_finding *finding, const struct layout_value *table, int *choice,
                   struct per_operator *found);
// Every choice of every open operator by itself, until none is better; then what gains nothing goes
// back to the table. `best` is the value of the choices.
void finding_descend(struct operator_finding *finding, int *choice, struct layout_value *best);

// planner/per_operator_stages.c: choices of each stage, from those that all have on. False: no
// stage gets better by choices of its own.
bool finding_refine(struct operator_finding *finding, const int *choice, struct layout_value *best,
                    struct per_operator *found);
// The plan with them: rules of each stage, in the arena.
struct parallel finding_staged_plan(const struct operator_finding *finding);
