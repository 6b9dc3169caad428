#pragma once
#include "exchange/compare_noise.h"
#include "exchange/compare_side.h"

// Two plans, runs or traces: whether the new one is slower or needs more, and which task it is.

enum verdict { VERDICT_SAME, VERDICT_REGRESSION, VERDICT_IMPROVEMENT };
const char *verdict_name(enum verdict verdict);  // "same", "regression", "improvement"

enum { COMPARE_FILES_MAX = 64 };

// One file, or several runs of the same.
struct compare_side {
    struct side_file files[COMPARE_FILES_MAX];
    int count;
    struct samples step_s;  // of one file its steps, of several the median of each
    double median_s, spread_s;
    double tokens_per_step;  // of the first file; 0: not said
    double peak_bytes;       // the most of all files; 0: not said
};

struct compare_request {
    double threshold_ratio;  // changes up to this are none
    bool judges_step, judges_memory;
};

// A quantity of which more is worse.
struct compare_metric {
    const char *name;           // "step_s", "s_per_token", "peak_bytes"
    double base, now, ratio;    // ratio: now / base - 1
    const struct noise *noise;  // NULL: it has none
    bool is_judged;
    enum verdict verdict;
};

struct compare_task {
    const char *name, *kind;
    double base_count, count, base_bytes, bytes;
    double base_s, s;  // median over the files, a step
    double change_s;
    enum verdict verdict;  // of several files a side beyond the noise between them
};

struct compare_choice {
    const char *key, *base, *now;  // NULL: that side does not say it
};

enum { COMPARE_METRICS_MAX = 2 };

struct compare {
    struct compare_request request;
    const struct compare_side *base, *now;
    struct compare_metric metrics[COMPARE_METRICS_MAX];
    int metric_count;
    struct compare_task *tasks;  // of either side, by falling magnitude of change_s, then by name
    int task_count;
    struct compare_choice *choices;  // that differ
    int choice_count;
    enum verdict verdict;
    // The task that lost most where the step is slower, that gained most where it is faster; NULL:
    // none is.
    const struct compare_task *cause;
};

// Reads the files of a side, which must be of one kind (ERR_USAGE). `steps_told`: see side_read.
MUST_CHECK bool compare_side_read(struct arena *arena, const char *const *paths, int count,
                                  int steps_told, struct compare_side *side, struct err *err);
// ERR_USAGE where the two cannot be compared. Both sides must live as long as the answer.
MUST_CHECK bool compare_make(struct arena *arena, const struct compare_request *request,
                             const struct compare_side *base, const struct compare_side *now,
                             struct compare *compare, struct err *err);

// exchange/compare_table.c: what people read; exchange/compare_json.c: the same for programs
// (reports/schema/compare.schema.json).
char *compare_text(struct arena *arena, const struct compare *compare);
char *compare_json_text(struct arena *arena, const struct compare *compare);
