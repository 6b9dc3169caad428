#pragma once
#include "simulator/evaluate.h"

// Which GPUs send how much to which in a step: from the prices' own list of messages, as rings and
// pairwise exchanges move them. A ring of n ranks passes (n-1)/n of a gathered or scattered payload
// on to the next rank, twice for an all-reduce; an all-to-all sends 1/n of it to every peer
// (Thakur, Rabenseifner and Gropp, 2005, "Optimization of collective communication operations in
// MPICH"). Where a switch reduces or a tree is taken, the same bytes cross other links inside the
// group.

enum { TRAFFIC_CELLS_MAX = 32 };

struct traffic {
    int rank_count;
    int nodes_per_cell;  // 0: a cell is one rank
    int cell_count;      // at most TRAFFIC_CELLS_MAX
    double *bytes;       // [from * cell_count + to], a step; of a cell to itself inside it
    double total_bytes;
    double inside_bytes;  // of it between GPUs of one node
};

// Of an evaluated plan. Lives in `arena`.
struct traffic traffic_make(struct arena *arena, struct arena *scratch,
                            const struct evaluation_request *request,
                            const struct evaluation *evaluation);
// The same of what a run sent: bytes[from * rank_count + to] of the cluster's ranks.
struct traffic traffic_of_pairs(struct arena *arena, const struct cluster *cluster, int rank_count,
                                const double *bytes);
