#pragma once
#include "cost_models/stack.h"
#include "memory/schedule.h"
#include "plan/program.h"

// What one rank of a stage holds and does in a step, as a graph for the scheduler: the slots of the
// stage's schedule, in each the blocks of the chunk, in each the instructions. Slots stay in the
// order that the pipeline's schedule gives; within a slot instructions may change places as far as
// data lets them. Persistent: weights, gradients, optimizer states (gradients because every update
// waits for the norm of all). In the arena: activations, what collectives gather and make, logits,
// messages from neighbours, copies for offload.
//
// Collectives run when the plan says. Where parameters are gathered ahead (overlap param-gather) a
// block's are there before the block in front of them begins (those from the host behind the one
// in front of that); where messages go beside compute
// (overlap pp) the next slot's is received while a slot runs, and what a slot sends is gone when
// the next ends. What is offloaded of a layer is out when the next layer of the slot has worked, or
// the slot ends, and comes back while the layer whose backward is before its own works.
//
// A step repeats itself: where it has many instructions only so many micro-batches stand in the
// graph as make the most alive at once (`micro_batches`); those after them use the places of the
// ones before. That holds because a tensor that lives while another micro-batch works has a place
// that nothing else uses (an operator at the start holds them all): one for each micro-batch that
// is in flight, in turn. All else lives within the work on its own micro-batch. Where the graph has
// every micro-batch of the step, or each ends before the next begins, no place is held. Weights
// that stay from one micro-batch to the next (plan/offload.h, between) live across them wherever
// there is room: then the graph has every micro-batch of the step.
struct stage_graph {
    struct memory_graph *graph;
    int micro_batches;
    // Where an operator comes from: operator o is instruction `instr[o]` of position `position[o]`
    // of chunk `chunk[o]` for micro-batch `micro_batch[o]`; instr -1: of another kind.
    const enum task_kind *kind;  // a message sent may be the losses, to whoever asks
    const int *instr, *position, *chunk, *micro_batch;
    const int *slot;    // by operator, of the stage's schedule; -1: before the first
    const int *buffer;  // of tensor t: in its block program; -1: persistent or a held place
    const int *turns;   // by tensor: places its kind takes turns in, micro-batch k the one of
                        // micro-batch k modulo this; 0: not held, any micro-batch's will do
    // The blocks as steps and values (stage_chunks.h), and what became of those of one block for
    // one micro-batch: works[micro_batch * chunks of the stage + chunk][position].
    const struct stage_chunk *chunks;
    struct stage_work *const *works;
};
struct stage_work {
    int *tensors;    // by value; -1: nothing of the stage uses it
    int *operators;  // by step
};
// With this many micro-batches, which must be legal and at most those of the step.
MUST_CHECK struct stage_graph *stage_graph_of(struct arena *arena, const struct program *program,
                                              const struct stack *stack, int stage,
                                              int micro_batches, struct err *err);

// The memory schedule of a plan: of each distinct stage order and offsets. In plan.json under
// memory.schedule (plan/plan.schema.json); `simulate` and the executor read it there.
struct stage_schedule {
    int stage;        // the first of those that are alike
    int stage_count;  // stages it holds for, in `stages`
    const int *stages;
    int micro_batches;
    int64_t live_bytes, arena_bytes, bound_bytes;
    int operator_count, tensor_count;
    const int *order;        // operators of the stage graph by step
    const int64_t *offsets;  // [tensor] of the stage graph, -1: persistent or of no bytes
};
struct plan_schedule {
    int64_t alignment;
    struct stage_schedule *stages;
    int count;
};
