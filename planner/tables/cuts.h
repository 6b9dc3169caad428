#pragma once
#include "planner/tables/place.h"

// Ways to hold a table, and how many tables go each way.

enum { COLUMN_PARTS_MAX = 64 };

struct table_cut {
    int table;  // the first of its group of equal tables
    int parts;  // pieces; 0: whole on every rank
    bool is_by_columns;
    enum tier tier;
    double cached_ratio, host_ratio;  // of its rows
    int span;        // ranks side by side that get a piece each, from a multiple of it on; 1: any
                     // rank; 0: all hold the table
    double piece_s;  // of the longest piece; of every rank where parts is 0
    double node_s;   // that a piece adds to each rank of its node
    double total_s;  // of all ranks together
    double tier_bytes[TIER_COUNT];  // of all pieces
};

struct table_group {  // of equal tables, in the order of the file
    int first, count;
    int cut_first, cut_count;
};

struct table_limits {           // bytes
    double device, host, nvme;  // of a rank (its device, its share of its host) for tables
    int rank_count, node_ranks;
};

struct table_cuts {
    struct table_group *groups;
    int group_count;
    struct table_cut *cuts;  // by group
    int cut_count;
    int *chosen;  // [cut] how many tables of its group go this way
    double bound_s, found_s;
    bool fits;
};

struct table_limits place_limits(const struct place_request *request);
// All ways that are worth weighing.
void cuts_list(struct arena *arena, const struct place_request *request,
               const struct table_limits *limits, struct table_cuts *cuts);
// The first program.
MUST_CHECK bool cuts_choose(struct arena *arena, const struct table_limits *limits,
                            struct table_cuts *cuts, struct err *err);
// The piece `part` of a table that is cut so.
struct table_piece cut_piece(const struct recommender *model, const struct table_cut *cut,
                             int table, int part);
