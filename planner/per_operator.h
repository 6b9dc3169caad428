#pragma once
#include "planner/layout_prices.h"
#include "planner/search.h"

// Layouts of single operators that are better than the table of techniques, for one plan: which dim
// tp splits in each operator with a matrix, and in those that do not follow (plan/layout/
// annotations.h). The choices of all operators are one strategy problem (planner/strategy/): what
// an operator's layout costs and what two of them cost together are differences of the step of the
// whole plan, lowered and priced with those layouts and with the table's elsewhere, so that
// resharding that neighbours share is counted once; what a layout adds to the fullest stage's
// memory is its usage, what the device has left the limit. The answer, and then every single change
// of it, is priced as a whole plan (planner/layout_prices.h): only what is faster and fits is kept.
// Layers of a kind share one answer. Where stages have numbers of ranks of their own each has one
// of its own as well: from what is best for all, stage by stage, a problem of what the stage has,
// with the others as they are, as long as a step gets shorter.

struct operator_change {
    const char *operator, * was, *now;  // dims, or "whole"
    int stage;                          // -1: all
    double gain_s;                      // what the step would lose without this one
};

struct per_operator {
    struct parallel parallel;  // with its layouts; as asked where the table is best
    double table_s, found_s;   // a step in closed form
    struct operator_change *changes;
    int change_count;
    int operator_count, choice_count;  // of the problem
    double gap_ratio;                  // of its answer; 0: proven
    int priced_count;                  // whole plans
    const char *before, *after;        // collectives of tp in a micro-batch of the layers
};

// The request's plan must be legal. Lives in `arena`; `scratch`, which is the memo's, is reset.
struct per_operator per_operator_find(struct arena *arena, struct arena *scratch,
                                      struct layout_memo *memo,
                                      const struct evaluation_request *request);

// Asks of the best PER_OPERATOR_PLANS plans of a search, and puts the fastest of what is found in
// front of them, as the events judge it; what stood there is found->was. Of the others as many stay
// as were `wanted`. Where no layouts are better than the table's the order is as it was.
enum { PER_OPERATOR_PLANS = 24 };
struct per_operator_found {
    struct per_operator best;  // of the plan that is first now
    struct candidate was;      // the first plan of the table
    bool is_better;
    int plan_count;  // that were asked of
    int priced_count;
};
MUST_CHECK bool per_operator_improve(struct arena *arena, const struct search_request *request,
                                     struct search_result *result, int wanted,
                                     struct per_operator_found *found, struct err *err);
