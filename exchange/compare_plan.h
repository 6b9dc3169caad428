#pragma once
#include "exchange/compare.h"
#include "simulator/breakdown.h"
#include "simulator/sensitivity.h"

// A plan beside what was measured of it elsewhere: another trainer's log, a profile of one rank, or
// a run.json. Predicted beside measured, what explains the difference, and a row for `fit`.

struct measurement {
    const char *path, *framework;  // "megatron-lm", ...; "profile" of a trace, "run" of a run.json
    struct samples step_s;
    double median_s;
    double peak_bytes;              // 0: not said
    bool is_reserved;               // held by the allocator, not handed out
    double flop_per_s_per_gpu;      // as its trainer counts; 0: not said
    const struct side_file *kinds;  // of a profile: seconds of a rank a step, by kind; else NULL
};

struct kind_row {
    const char *kind;
    double predicted_count, count, predicted_s, s;  // a step of one rank
};

// A constant that would alone make the predicted step the measured one, as far as the step follows
// it in proportion.
struct lone_cause {
    const struct constant *constant;
    double elasticity, wanted;
};

enum { LONE_CAUSES_MAX = 5 };

struct plan_compare {
    const struct evaluation_request *request;
    const struct evaluation *evaluation;
    const struct measurement *measured;
    double ratio;            // measured / predicted step
    double threshold_ratio;  // below 0: the band of the prediction decides
    enum verdict verdict;    // of the measured step beside the predicted one
    struct kind_row *rows;   // by falling magnitude of the difference; of a profile alone
    int row_count, row_capacity;
    struct lone_cause causes[LONE_CAUSES_MAX];
    int cause_count;
};

// Reads what was measured of this plan. ERR_INPUT where it says that it is of another: another
// global batch. `steps_told`: see side_read. Lives in `arena`.
MUST_CHECK bool measurement_read(struct arena *arena, const char *path, int steps_told,
                                 const struct evaluation_request *request,
                                 struct measurement *measured, struct err *err);

void plan_compare_make(struct arena *arena, struct arena *scratch,
                       const struct evaluation_request *request,
                       const struct evaluation *evaluation, const struct measurement *measured,
                       double threshold_ratio, struct plan_compare *compare);

// exchange/compare_plan_table.c, exchange/compare_plan_json.c
char *plan_compare_text(struct arena *arena, const struct plan_compare *compare);
char *plan_compare_json_text(struct arena *arena, const struct plan_compare *compare);

// exchange/compare_row.c: one line of a file of published runs (tests/validation/README.md), of
// this name and source. NULL and ERR_INPUT where the model's family has no such line.
MUST_CHECK char *plan_compare_row(struct arena *arena, const struct plan_compare *compare,
                                  const char *id, const char *source, struct err *err);
