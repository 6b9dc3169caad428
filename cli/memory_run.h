#pragma once
#include "core/progress.h"
#include "memory/formats.h"
#include "reports/page/memory_plot.h"
#include "reports/table/memory_table.h"

// What the kinds of input of `memory` have in common.

struct memory_arguments {
    const char *input;
    const char *method, *optimizer;
    const char *output, *plot;
    const char *recompute, *offload;  // "auto", "moments"; NULL = as it is
    const char *cluster;              // of a graph, whose prices of that are; NULL = not given
    int64_t capacity, alignment;      // 0 = not given
    int64_t batch;                    // 0 = not given
    int stage;                        // -1 = not given
    double time_limit_s;
    int64_t device_bytes;  // of --policies; 0 = the device's
    bool training, json, verbose, policies;
    void (*spoil)(struct memory_schedule *schedule);  // see struct memory_options
};

// The options as the scheduler takes them.
struct memory_options memory_options_of(const struct memory_arguments *arguments,
                                        int64_t alignment);

// The line on a terminal while memory is scheduled: stages done, what is left, the solver's time.
// `options` point at the watch until memory_watch_end.
struct memory_watch {
    struct progress progress;
    const char *method;
    int done, count;  // stages of a plan; count 0: not told
    double limit_s;
};
void memory_watch_start(struct memory_watch *watch, const struct memory_arguments *arguments,
                        struct memory_options *options);
void memory_watch_end(struct memory_watch *watch);

// The baseline and what it is compared with, up to the method that was asked for, which is last.
struct memory_methods {
    enum memory_method methods[MEMORY_METHOD_COUNT];
    int count;
};
struct memory_methods memory_methods_of(const struct memory_arguments *arguments);

// Every method's row for a graph. `answer`: the row of the last method where it is there already;
// else NULL. False with `err` set by the scheduler; the graph is saved
// (memory_bug.h) where the checker refused its schedule.
MUST_CHECK bool memory_run_graph(struct arena *arena, const struct memory_arguments *arguments,
                                 const struct memory_graph *graph,
                                 const struct memory_problem *problem, int64_t alignment,
                                 const struct memory_schedule *answer, struct memory_report *report,
                                 struct err *err);

// --recompute and --offload of a graph: what is run again and copied out, and the graph with that.
// `operator_s`: what operators take; NULL: the graph says. ERR_USAGE where a price is not known.
struct spill_result;
MUST_CHECK bool memory_spill(struct arena *arena, const struct memory_arguments *arguments,
                             const struct memory_graph *graph, const double *operator_s,
                             int64_t alignment, const struct spill_result **spilled,
                             struct err *err);

// Every method's row for a packing problem: rows[memory_methods_of(arguments).count]. False as
// above; then the problem is saved.
MUST_CHECK bool memory_run_packing(struct arena *arena, const struct memory_arguments *arguments,
                                   const struct pack_problem *problem, struct memory_schedule *rows,
                                   struct err *err);

// Table or JSON on stdout, the picture, and the exit status; `wrote` is the last line (may be "").
int memory_answer(struct arena *arena, const struct memory_arguments *arguments,
                  const struct memory_report *report, const char *wrote);
MUST_CHECK bool memory_draw(struct arena *arena, const struct memory_arguments *arguments,
                            const struct memory_plot *plot, struct err *err);

// Draws a schedule of a graph's problem.
MUST_CHECK bool memory_draw_graph(struct arena *arena, const struct memory_arguments *arguments,
                                  const struct memory_problem *problem,
                                  const struct memory_report *report, struct err *err);

// What a plan keeps is chosen again: its whole file anew, without the schedule, and what was chosen
// in words.
struct plan_kept;
struct plan;
MUST_CHECK char *memory_kept_document(struct arena *arena, const struct plan_kept *kept);
const char *memory_kept_text(struct arena *arena, const struct plan *plan,
                             const struct plan_kept *kept);
// The same of parameters that stay, which --offload moments asks for.
struct plan_stays;
const char *memory_stays_text(struct arena *arena, const struct plan *plan,
                              const struct plan_stays *stays);
bool memory_asks_moments(const struct memory_arguments *arguments);

// A plan: schedules all stages, prints one, and writes them into the plan.
int memory_plan(struct arena *arena, const struct memory_arguments *arguments, struct err *err);

// --policies: what static, least recently used and planned placement of a plan's state move.
int memory_policies(struct arena *arena, const struct memory_arguments *arguments, struct err *err);
