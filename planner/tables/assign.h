#pragma once
#include "planner/tables/cuts.h"

// Pieces to ranks.
struct assign_item {
    double s;                  // of each rank that holds a part of it
    double node_s;             // of each rank of the node
    double bytes[TIER_COUNT];  // of each rank that holds a part
    int span;                  // ranks that do: 1, or those of a whole node
    int rank;                  // the answer: the first of them
};
struct assign_request {
    struct assign_item *items;
    int item_count;
    const struct table_limits *limits;
    double base_s;                  // that every rank has beside them
    double bound_s;                 // no answer is below it
    double base_bytes[TIER_COUNT];  // on every rank
};
struct assign_result {
    bool fits;
    double busiest_s;
    double bound_s;  // the request's, or a higher one that the program has proven
    bool is_program;
};
// Seconds of the busiest rank without looking for better; from UNPLACED_S on it does not fit so,
// and the more the more finds no room.
static const double UNPLACED_S = 1e9;
double assign_quickly(struct arena *scratch, const struct assign_request *request);
MUST_CHECK bool assign_items(struct arena *arena, const struct assign_request *request,
                             struct assign_result *result, struct err *err);
