#pragma once
#include "memory/plan_schedule.h"
#include "memory/stage_unroll.h"
#include "plan/script/script.h"

// Scripts from schedules: the graph of a stage (stage_graph.h) in the order and at the offsets of
// its memory schedule, as the executor runs it.

// The script of one stage, slots by `unroll`. `graph` holds as many micro-batches as that was made
// of; it may be that of a stage that is alike. `schedule` is of it.
// Lives in `arena`.
struct script *plan_script_stage(struct arena *arena, const struct program *whole,
                                 const struct stage_graph *graph, int stage,
                                 const struct stage_unroll *unroll,
                                 const struct stage_schedule *schedule, int64_t alignment,
                                 const struct step_rules *rules);

// The scripts of all stages, scripts[stage], checked (script_check). Schedules of the plan are
// used; others are made here (options as plan_schedule_make; of those used the plan's alignment
// holds), and *is_planned says whether none had to be. `schedule` NULL: the plan has none.
// ERR_USAGE where a step has more instructions than can be written out (2 million), or storage is
// split over axes that split a parameter itself and gradients are scattered (sinks under Ulysses).
MUST_CHECK struct script **
plan_scripts_make(struct arena *arena, struct arena *scratch, const struct program *program,
                  const struct stack *stack, const struct plan_schedule *schedule,
                  const struct memory_options *options, bool *is_planned, struct err *err);

// The same, made only to be checked. Of a step that repeats rounds of micro-batches only so many
// are written out (*micro_batches) that each round follows one that is alike, and each place is
// taken again; *task_count is that of the whole step.
MUST_CHECK bool plan_scripts_verify(struct arena *arena, const struct program *program,
                                    const struct stack *stack, const struct plan_schedule *schedule,
                                    const struct memory_options *options, double *task_count,
                                    int *micro_batches, struct err *err);

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
