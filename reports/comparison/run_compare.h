#pragma once
#include "cost_models/input.h"
#include "executor/run.h"
#include "reports/comparison/run_tasks.h"
#include "simulator/breakdown.h"

// Predicted beside measured: the prices of a step and what a run of it took, kind by kind.

struct run_row {
    enum run_group group;
    const char *name;        // "F", "contraction", "tp all-reduce"
    double count;            // a step, all ranks together, as measured
    double predicted_count;  // of tasks; 0 of what else there is
    double predicted_s, measured_s;
    double predicted_bytes, bytes;  // payloads; 0 of what is no communication
};

// Of the ranks with most (memory/plan_script.h): the state and the arena as planned, and
// what is moved to their hosts and drives.
struct run_memory {
    int64_t peak_bytes, host_peak_bytes, nvme_bytes;
};

struct run_compare {
    const struct evaluation_request *request;
    const struct evaluation *evaluation;  // with a trace
    const struct run_result *result;
    struct run_join join;
    struct run_row *rows;  // tasks, operators, collectives
    int row_count;
    double predicted_step_s, measured_step_s;  // the latter: median of the steps after the first
    double between_s;          // steps, mean of the same: run_result's; 0: there was no second one
    double tokens_per_s;       // measured
    double predicted_moved_s;  // of the stage that works most: waited for what is moved to hosts
                               // and drives and back; run_result's moved_s
    double predicted_nvme_bytes_per_s;  // of a rank; 0: nothing is moved there
    struct run_memory predicted;
    struct input_price input;  // predicted, of a run on files; no readers: of another
    double pause_s, write_s;   // predicted, of a checkpoint where the run writes any; else 0
};

// `ledger` is that of the price of `evaluation`'s program (simulator/breakdown.h), `memory` what is
// planned.
struct run_compare run_compare_make(struct arena *arena, const struct evaluation_request *request,
                                    const struct evaluation *evaluation,
                                    const struct ledger *ledger, struct run_memory memory,
                                    struct run_widths widths, const struct run_result *result);

// What `run` prints at the end.
char *run_table_text(struct arena *arena, const struct run_compare *compare);
// Of it, which way attention went; "" where there is one way.
char *run_attention_text(struct arena *arena, const struct run_compare *compare);
// NULL, or that a drive is much slower than the plan counts on.
char *run_drive_text(struct arena *arena, const struct run_compare *compare, const char *folder);
// NULL, or which attention its library should have taken and did not: the answer is no.
char *run_attention_refusal(struct arena *arena, const struct run_compare *compare);

// run.json (executor/run.schema.json).
struct run_facts {
    const char *plan_path, *plan_hash;
    const char *backend, *device, *libraries, *transport, *machine;
    int rank_count;
};
char *run_json_text(struct arena *arena, const struct run_compare *compare,
                    const struct run_facts *facts);

// reports/comparison/run_overlay.c: the predicted ranks above the measured ones, on one clock, each
// with its arrows and its memory over time.
struct trace run_overlay(struct arena *arena, struct arena *scratch,
                         const struct run_compare *compare);
