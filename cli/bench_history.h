#pragma once
#include "exchange/compare_noise.h"
#include "exchange/compare_side.h"
#include "reports/page/history.h"

// The history of `bench`: a folder of files bench-DATE-NN.json, each a run.json, those of one call
// with one date. What is compared is of the same plan and machine, as the files say.

enum { BENCH_RUNS_MAX = 64 };

// The runs of one call.
struct bench_set {
    const char *date;  // "20261123T172400Z"
    const char *paths[BENCH_RUNS_MAX];
    int count;
    struct samples medians;  // of the steps of each
};

// The present time in UTC, or the first second after it of which the folder has nothing.
const char *bench_date(struct arena *arena, const char *folder);
const char *bench_path(struct arena *arena, const char *folder, const char *date, int number);

// The last sets that are like `now`, a run of the newest one, as a table; and the set before the
// newest in `last`, which has count 0 where there is none. NULL with ERR_INPUT where a file of the
// history is no run, ERR_SYSTEM where the folder cannot be read.
const char *bench_history(struct arena *arena, const char *folder, const struct side_file *now,
                          struct bench_set *last, struct err *err);

// The history of the plan of this hash, on the machine of its newest run, for a report. NULL with
// ERR_INPUT where the folder has no run of it, and errors as above.
MUST_CHECK const struct report_history *bench_report(struct arena *arena, const char *folder,
                                                     const char *plan_hash, struct err *err);
