#pragma once
#include "memory/plan_schedule.h"
#include "plan/script/script.h"

// Scripts from schedules: the graph of a stage (stage_graph.h) in the order and at the offsets of
// its memory schedule, as the executor runs it.

// The script of one stage. `graph` holds every micro-batch of the step (stage_graph_of), or,
// without a pipeline, so many that it is repeated; it may be that of a stage that is alike. `order`
// and `offsets` are those of a schedule of it. Lives in `arena`.
struct script *plan_script_stage(struct arena *arena, const struct program *whole,
                                 const struct stage_graph *graph, int stage, const int *order,
                                 const int64_t *offsets, int64_t arena_bytes, int64_t alignment,
                                 const struct step_rules *rules);

// The scripts of all stages, scripts[stage], checked (script_check). Schedules of the plan that
// hold every micro-batch are used (all of them without a pipeline); others are made here with every
// micro-batch (options as plan_schedule_make; of those used the plan's alignment holds), and
// *is_planned says whether none had to be. `schedule` NULL: the plan has none. ERR_USAGE where a
// step has more instructions than can be written out (2 million), or storage is split over axes
// that split a parameter itself and gradients are scattered (sinks under Ulysses).
MUST_CHECK struct script **
plan_scripts_make(struct arena *arena, struct arena *scratch, const struct program *program,
                  const struct stack *stack, const struct plan_schedule *schedule,
                  const struct memory_options *options, bool *is_planned, struct err *err);

// The same of a plan whose replicas take unlike numbers of micro-batches: [replica][stage].
// `scripts` are those of `program`, which has the most. NULL and no error where replicas are alike.
MUST_CHECK struct script ***
plan_scripts_of_replicas(struct arena *arena, struct arena *scratch, const struct program *program,
                         const struct stack *stack, struct script **scripts,
                         const struct memory_options *options, struct err *err);

// Bytes of the rank with most while its script runs: state by the memory model's sums
// (cost_models/memory.h) and the arena, where reals have `real_bytes` and what kernels compute with
// `compute_bytes`, whatever the plan's precision: where these are one, weights are kept once.
// Workspaces and offloading are not in it.
int64_t plan_scripts_peak_bytes(const struct script *const *scripts, const struct stack *stack,
                                int real_bytes, int compute_bytes);
// Of the rank with most what is moved to its host, or to NVMe, in the same numbers.
int64_t plan_scripts_nvme_bytes(const struct script *const *scripts, const struct stack *stack,
                                int real_bytes, int compute_bytes);
int64_t plan_scripts_host_bytes(const struct script *const *scripts, const struct stack *stack,
                                int real_bytes, int compute_bytes);
