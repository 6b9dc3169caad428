#pragma once
#include "plan/plan.h"
#include "reports/comparison/run_ranks.h"
#include "reports/comparison/run_read.h"
#include "reports/page/history.h"
#include "reports/page/neighbours.h"
#include "reports/page/published.h"
#include "reports/table/explain_table.h"
#include "reports/whatif/scenario.h"
#include "simulator/inject.h"

// The report of a plan: one page that needs nothing but itself, and its figures as files.
//
// What of the page others may rely on (its own script, `make wasm`, tests):
// - sections have ids, in this order: verdict, what-if, why, why-not, evidence, measured, step,
// pipeline,
//   memory, traffic, roofline, scaling, sensitivity, pareto, alternatives, inputs. A section that
//   has nothing to say is absent. Each figure is <figure id="figure-NAME">, NAME as its files are
//   called.
// - <script type="application/json" id="report-data"> holds the numbers once, as
//   reports/report.schema.json says:
//     {"report": 1, "meshwright": VERSION,
//      "plan": {...},         the plan file as it was read, or as the command line restates its
//                             tokens, price and failures: model.config, cluster, stack, workload,
//                             parallel are what a planner in the page needs
//      "prediction": {...},   of the plan, as `simulate --json` prints it
//      "memory": {"fits", "device_bytes", "worst_stage", "headroom_bytes", "stages": [...]},
//      "explain": {...},      as `simulate --explain --json`, with "rivals" where there are
//                             alternatives
//      "alternatives": [{"layout", "step_s", "mfu_ratio", "peak_bytes", "reserved_bytes",
//                        "lost_to"}],                             the plan itself first
//      "neighbours": [{"choice", "was", "value", "status", "step_s", "train_s", "money"}]
//      "published": [{"id", "model", "gpus", "device", "stack", "measured_s", "predicted_s",
//                     "source"}]            where the published runs are at hand
//      "measured": {"step_s", "steps_s", "kinds", "ranks", "critical_path", ...}  where a run was
//                                                                  given
//      "history": [{"date", "runs", "step_s", "step_s_least", "step_s_most"}]   where one was given
//      "traffic": {"nodes_per_cell", "bytes": [[...]], ...}       sent a step, row to column;
//                                                                  0 nodes: a cell is a GPU
//      "measured_traffic": {...}   the same of the run, where one was given
//      "injection": {...},    as `simulate --slow-rank ... --json`, where something was injected
//      "scaling": [{"gpus", "fits", "layout", "step_s", "tokens_per_s",
//                   "tokens_per_s_per_gpu", "mfu_ratio", "run_s", "run_money"}]}
//   Units and names are those of plan.json. "<" is written \u003c in it.
// - <section id="what-if" hidden> stands behind the verdict and is empty: a planner in the page
//   fills it and takes `hidden` away. Without one it is not there. Elsewhere the page stays the
//   plan's, whatever the planner answers.
// - elements that hold a number of the data have data-value="KEY", the key being a path into it,
//   "prediction.step_s"; they are written by units as people read them.
// - the page works without any script; what a script adds is sorting, copying and the above.

// A planner that runs in the page (reports/page/page_planner.h): its parts as they are put into it,
// and in <script type="application/json" id="planner-tables"> what it needs beside the plan.
struct report_planner {
    const char *style, *script;
    const char *module_base64;  // packed by gzip
    const char *tables;
    const char *choices_base64;  // {"stacks": {NAME: ...}, "clusters": {NAME: ...}} that are
                                 // shipped, packed by gzip
};

struct report {
    const struct plan *plan;
    const struct evaluation_request *request;
    const struct evaluation *evaluation;  // with a trace
    struct explain explain;
    struct search_result kept;       // the plan itself, then its alternatives, evaluated again
    struct neighbours neighbours;    // of the plan
    struct published published;      // the nearest of the published runs
    const struct measured_run *run;  // of this plan; NULL: none was given
    struct run_ranks ranks;          // of its trace
    const struct report_history *history;  // of this plan; NULL: none was given
    const struct injection *injection;     // slow ranks, degraded links, jitter; NULL: none
    struct injection_result injected;      // with a trace
    const struct scenario *scaling;        // by rising GPUs; NULL: not asked
    const struct scenario_outcome *scaled;
    int scaling_count;
    const struct report_planner *planner;  // NULL: the page stays static
    const char *plan_path;                 // as given
    const char *command;                   // that makes this page; NULL: that of the plan alone
    const char *version;                   // of meshwright
};

// With what several parts of the page are made from, worked out once. Lives in `arena`.
struct report_facts;
const struct report_facts *report_facts_make(struct arena *arena, struct arena *scratch,
                                             const struct report *report);

// The whole page. Equal reports give equal bytes.
char *report_page(struct arena *arena, const struct report_facts *facts);
// The data alone, as it stands in the page, indented.
char *report_data(struct arena *arena, const struct report_facts *facts);

// The figures as files: their names ("waterfall.svg", "waterfall.png"), NULL-terminated, and the
// gnuplot script that writes them into `folder`, an existing one.
const char *const *report_plot_names(struct arena *arena, const struct report_facts *facts);
char *report_plot_script(struct arena *arena, const struct report_facts *facts, const char *folder);
