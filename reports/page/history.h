#pragma once
#include "core/json_write.h"
#include "reports/page/markup.h"

// Runs of a plan over time, as `meshwright bench --save` keeps them: a point a call, on one
// machine. Who reads the folder fills it (cli/bench_history.h).

struct history_point {
    const char *date;  // "20261123T172400Z", UTC
    int run_count;
    double median_s;       // of the medians of its runs
    double low_s, high_s;  // the least and the most of them
};

struct report_history {
    const char *folder, *machine;  // the latter of the newest run of this plan
    struct history_point *points;  // by date
    int count;
    int other_count;  // saved runs of other plans or machines, which are no points
};

// "2026-11-23 17:24"
const char *history_date_text(struct arena *arena, const char *date);
// Words and a table of the newest; and the data, "history". Nothing where there is no history.
void history_put(struct markup *page, const struct report_history *history);
void history_write(struct json_writer *writer, const struct report_history *history);
