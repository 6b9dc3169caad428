#pragma once
#include "cost_models/stack.h"
#include "plan/program.h"

// What is offloaded leaves the device but for what is in transit: of activations two layers, the
// largest that the choice moves anything of, or all of what is moved, counted as activations; of
// gradients and parameters a bucket each, counted as buffers; of parameters that stay on the host
// those of the blocks under way. A host holds the gradients it updates with.
//
// Bytes of the worst rank of each stage, by class. `peak_bytes` is what an allocator has handed
// out; the reserve (context, communicators, workspaces, slack) is printed apart, because half of
// the published numbers mean the one and half the other.
struct memory_parts {
    int64_t weights_bytes, gradients_bytes, optimizer_bytes;
    int64_t activations_bytes;  // saved, of all micro-batches in flight
    int64_t transient_bytes;    // the larger of forward and backward working memory
    int64_t logits_bytes;       // last stage: logits and their gradient
    int64_t buffers_bytes;      // gradient buckets, gathered layers (ZeRO 3), receive buffers
    int64_t planned_bytes;      // the arena of a memory schedule, in place of activations,
                                // transient, logits and the buffers that do not stand; 0 = none
    int64_t reserve_bytes;
    int64_t peak_bytes;              // all of the above but the reserve
    int64_t reserved_bytes;          // with the reserve: must not exceed the device
    int64_t host_bytes, nvme_bytes;  // of the rank, moved there; not part of any of the above
    int64_t standing_bytes;          // of the buffers, what a framework keeps for good
};

struct memory_parts memory_of_stage(const struct program *whole, const struct stack *stack,
                                    int stage);
// Saved by one layer for one micro-batch, as the stack keeps it; of it the bytes of these classes
// (1 << enum op_class), narrow ones in proportion.
double memory_kept_bytes(const struct stack *stack, enum precision precision,
                         const struct block_program *block);
// The same in this plan, which may drop what tp gathered, and the least that any plan keeps.
double memory_held_bytes(const struct program *program, const struct stack *stack,
                         const struct block_program *block);
double memory_least_kept_bytes(const struct stack *stack, enum precision precision,
                               const struct block_program *block);
double memory_class_bytes(const struct stack *stack, enum precision precision,
                          const struct block_program *block, unsigned classes);
// The scores over the vocabulary, which the loss reads; several copies of them live at once. With
// multi-token prediction there are two of each until backward has done with the first.
struct memory_logits {
    double bytes;  // in the run's precision
    double gradient_bytes;
    bool saved;         // what the loss reads is kept for backward
    double made_bytes;  // and what is kept of them in another layout, as the product made them
};
struct memory_logits memory_logits_of(const struct block_program *block);
// Scores and matrices that kernels of the stack keep between products, at most; and the same
// written down in the block, of one that is asked for them often and then needs no instructions.
double memory_kernel_bytes(const struct stack *stack, enum precision precision,
                           const struct block_program *block);
void memory_note_kernels(const struct stack *stack, enum precision precision,
                         struct block_program *block);
// Of the gradients that go to a host together.
double memory_bucket_bytes(const struct program *program, const struct stack *stack);
// Fills the moments of a stage at which it can hold most, room for SCHEDULE_IN_FLIGHT_MAX of them;
// returns how many. Of the program only shape and schedule are read.
int memory_moments(const struct program *program, int stage, struct schedule_in_flight *moments);
// What one micro-batch leaves in a chunk, for whoever follows memory over a step: of the parts
// above activations_bytes are the sums of `saved` and `waiting` at the heaviest moment (and layers
// in transit), logits_bytes `loss` and `logits` of every further micro-batch then alive.
struct memory_in_flight {
    double saved_bytes;    // between F and B
    double waiting_bytes;  // between B and W, where the schedule parts them
    double logits_bytes;   // between F and B, with the head
    double loss_bytes;     // all copies of the logits, of one micro-batch
};
// in_flight[chunk_count] of one stage; not of activations that are offloaded.
void memory_of_chunks(const struct program *whole, const struct stack *stack, int stage,
                      struct memory_in_flight *in_flight);
// By how much weights that stay between some of their uses make a stage's heaviest moment heavier,
// which without them has so many bytes of activations, working memory and logits; `working_bytes`
// of a layer beside what is saved. cost_models/memory_stays.c
double memory_stays_bytes(const struct program *program, const struct stack *stack,
                          double working_bytes, double heaviest_bytes);
// The stage with the largest reserved_bytes.
struct memory_parts memory_worst(const struct program *program, const struct stack *stack,
                                 int *stage);
