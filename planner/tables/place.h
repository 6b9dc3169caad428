#pragma once
#include "cost_models/tables/price.h"

// Places the tables of a recommendation model. Two integer programs (GLPK, memory/milp.h):
//
//   how to cut  each table on every rank, whole, by columns or by rows, on the device, on the host
//               or on NVMe with so many of the hottest rows cached; so that the mean rank's
//               seconds, and no less than the longest piece's, are least, and all memory together
//               suffices. Equal tables are counted, not told apart. Its bound is one for every
//               placement made of these cuts: no rank's seconds can be below it
//   who         which rank gets which piece, so that the busiest rank's seconds are least and each
//               rank's memory suffices. Starts from the longest piece first to the least busy rank,
//               improved by moves and swaps; where the product of pieces and ranks is small enough
//               the program goes on from there
//
// Seconds of a rank are those of table_piece_s: look-up, update, its part of the exchanges and what
// it fetches. The step itself is priced by table_price, task by task.

struct place_request {
    const struct recommender *model;
    const struct cluster *cluster;
    const struct fabrics *fabrics;
    const struct table_stack *stack;
    struct table_workload workload;
    bool uses_host, uses_nvme;  // whether tables may live there
};

struct place_result {
    struct table_placement *placement;  // NULL: nothing fits
    struct table_prediction prediction;
    double busiest_s, bound_s;  // of the busiest rank; no placement is below the bound
    double gap_ratio;           // busiest over bound, less 1
    int option_count;           // ways to cut that were weighed
    bool is_program;            // the second program ran as well
    const char *lacks;          // nothing fits: what of, "device memory: 9.9 TB of tables, ..."
};

// ERR_USAGE where the ranks do not divide the batch or a device lacks the precision. What fits
// nowhere is an answer.
MUST_CHECK bool place_tables(struct arena *arena, const struct place_request *request,
                             struct place_result *result, struct err *err);

// The request of a prediction of it.
struct table_request place_priced(const struct place_request *request,
                                  const struct table_placement *placement);

// The smallest number of GPUs of this kind of cluster that holds the model, and its placement.
struct fewest {
    int gpus;              // 0: not even `most`
    int64_t global_batch;  // the largest multiple of gpus that is not above that asked for
    struct place_result result;
};
// `cluster` gives nodes and links; counts of 1, 2, 4 .. of a node, then whole nodes up to `most`
// GPUs are tried from what the memory of all of them at least must hold.
MUST_CHECK bool place_fewest(struct arena *arena, const struct place_request *request, int most,
                             struct fewest *fewest, struct err *err);
