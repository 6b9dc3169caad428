#pragma once
#include "core/json_write.h"
#include "memory/stage_graph.h"
#include "simulator/evaluate.h"

// The memory schedule of a whole plan: made, written into plan.json, read back, and what it changes
// in the prediction.

// One of each group of stages that are alike, with everything that was found out about it.
struct plan_stage {
    int stage;  // the first of them
    int *stages;
    int stage_count, micro_batches;  // of the graph
    const struct stage_graph *graph;
    const struct memory_problem *problem;
    struct memory_schedule result;
};
struct plan_stages {
    struct plan_stage *stages;
    int count;
    const struct memory_graph *refused;  // whose schedule the checker found wrong: a bug
};

// The groups without graphs and problems, in order of their first stage. Stages are alike when they
// hold the same classes of chunks and run them in the same order.
void plan_stages_group(struct arena *arena, const struct program *program,
                       struct plan_stages *stages);
// The graph and the problem of a group (`alignment` of sizes), not yet scheduled. Graphs are large:
// who needs one at a time gives each an arena of its own. ERR_USAGE where a plan has nothing to
// schedule.
MUST_CHECK bool plan_stage_build(struct arena *arena, const struct program *program,
                                 const struct stack *stack, int64_t alignment,
                                 struct plan_stage *stage, struct err *err);

// All groups with their graphs, of as many micro-batches as make the most alive.
MUST_CHECK bool plan_stages_make(struct arena *arena, const struct program *program,
                                 const struct stack *stack, int64_t alignment,
                                 struct plan_stages *stages, struct err *err);

// All of it: stages made, each scheduled by options->method (memory_schedule_graph, whose errors
// are handed on; `refused` is set with ERR_SYSTEM). options->time_limit_s is of one group.
MUST_CHECK bool plan_schedule_make(struct arena *arena, struct arena *scratch,
                                   const struct program *program, const struct stack *stack,
                                   const struct memory_options *options, struct plan_stages *stages,
                                   struct err *err);

// What is written of it. Lives in `arena`.
struct plan_schedule *plan_schedule_of(struct arena *arena, const struct plan_stages *stages,
                                       int64_t alignment);

// The text of the plan file with its memory.schedule added or replaced; every other byte is as it
// was. `memory` is the plan file's "memory" object (struct plan's `memory`).
char *plan_schedule_text(struct arena *arena, const struct json *memory,
                         const struct plan_schedule *schedule);

// Reads memory.schedule of the "memory" object; *schedule is NULL where it has none. The graphs of
// the stages are made again from `program`: wrong is what is no order of them, has buffers that are
// alive at once and overlap, is not aligned, lies above arena_bytes, or states other live bytes
// than the order has. ERR_INPUT with the place in the file.
MUST_CHECK bool plan_schedule_read(struct arena *arena, const struct json *memory,
                                   const struct program *program, const struct stack *stack,
                                   const struct plan_schedule **schedule, struct err *err);

// What is compared. Without a schedule activations, transient, logits and buffers of memory_parts
// count what the stack's software allocates: the heaviest moment of the pipeline's schedule, the
// worst block's working memory above it, its copies of the logits, gathered and scattered blocks,
// messages. With one, planned_bytes is the arena that holds all of those at fixed addresses, as our
// executor lays them out: activations, transient and logits are 0, and buffers keep only what a
// framework holds for good (placeholders, scores). Weights, gradients, optimizer states and the
// reserve are the same in both.
//
// Sets planned_bytes of the stages and with them worst stage, peak_bytes and reserved_bytes.
void plan_schedule_apply(const struct plan_schedule *schedule, struct evaluation *evaluation);
