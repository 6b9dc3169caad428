#pragma once
#include "cost_models/task_prices.h"
#include "executor/run.h"
#include "simulator/evaluate.h"

// The join of what is predicted and what was measured on the number of the step graph's task
// (plan/script/graph.h): one row a task and place, over all ranks, layers and micro-batches.

struct run_joined {
    int stage, chunk;               // chunk -1: the stage as a whole
    const struct graph_task *task;  // predicted
    double predicted_count, count;  // a step
    double predicted_bytes, bytes;
    double predicted_s, s;
    enum task_pricing pricing;
    bool is_routed;  // bytes depend on which tokens chose which experts, and are not compared
};

struct run_join {
    const struct program *program;  // predicted
    struct run_joined *rows;        // that are predicted or were measured, by number
    int row_count;
    double predicted_count, count;  // tasks a step, all ranks
    int unmatched_count;            // rows
    bool is_routed;                 // some rows are
};

// Numbers of the back end that ran.
struct run_widths {
    int real_bytes, compute_bytes;
};

// Where replicas take unlike numbers of micro-batches the step graph and the simulation count those
// of the one with most for each: what of such a count, or time, is there. Whole numbers stay whole.
double run_replica_count(const struct program *program, double count);

// `ledger` is that of the price of the evaluation's program.
struct run_join run_join_make(struct arena *arena, const struct evaluation_request *request,
                              const struct evaluation *evaluation, const struct ledger *ledger,
                              struct run_widths widths, const struct run_result *result);
bool run_joined_matches(const struct run_joined *row);
// What a row is called: "0.0 F attn.q".
const char *run_joined_name(struct arena *arena, const struct run_join *join,
                            const struct run_joined *row);
// "1,152 tasks predicted, 1,152 measured, none unmatched", or which are; one line each.
const char *run_join_text(struct arena *arena, const struct run_join *join);
