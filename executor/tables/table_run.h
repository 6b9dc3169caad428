#pragma once
#include "executor/communicators/communicator.h"
#include "plan/tables/placement.h"
#include "plan/tables/tasks.h"

// Trains a recommendation model as its placement says, one rank of it: the tasks of
// plan/tables/tasks.inc in their order, in double precision. Weights, features, ids and labels are
// drawn from the seed by (table or layer, index in the whole) and (step, sample): any placement on
// any number of ranks trains the same model, up to the order of sums.
//
// Ids follow Zipf's law by rank of popularity, and ranks are spread over the rows (a * k + c modulo
// the rows). The loss is the binary cross entropy, its mean over the step's samples.

struct table_run_request {
    const struct table_placement *placement;
    const struct table_workload *workload;
    const struct transport *transport;
    struct communicator *communicator;  // its back end has reals of 8 bytes
    int rank, step_count;
    int64_t seed;
    double learning_rate;
    void (*report)(void *context, int step, double loss, double step_s);  // NULL: nobody listens
    void *context;
};

struct table_run_piece {  // on this rank, in the placement's order
    int piece;            // index
    double *weights;      // [row_count][column_count]
    double *state;        // [row_count][columns of state]
};

struct table_run_result {
    struct table_run_piece *pieces;
    int piece_count;
    double *dense;  // parameters of the towers, layer by layer: weights [outputs][inputs], bias
    int64_t dense_count;
    double *loss, *step_s;                     // [step]
    double received[TABLE_TASK_COUNT];         // numbers that came from other ranks, all steps
    double received_by_all[TABLE_TASK_COUNT];  // the sum over ranks
    double task_s[TABLE_TASK_COUNT];           // all steps
};

// The text of what failed, NULL: nothing did. Lives in `arena`.
const char *table_run(struct arena *arena, const struct table_run_request *request,
                      struct table_run_result *result);
