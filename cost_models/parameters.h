#pragma once
#include "cost_models/stack.h"
#include "plan/step_end.h"

// The parameters that one chunk of a stage holds, counted as one rank does: what gradient
// reduction, update and memory are multiples of.

struct parameter_sums {
    double elements[PARAMETER_KIND_COUNT];  // local, tied parameters of the chunk once
    double
        away_elements[PARAMETER_KIND_COUNT];  // of them, those that blocks fetch (plan/offload.h)
    int tensor_count[PARAMETER_KIND_COUNT];
    // What a rank keeps beside its shard of all: of parameters that an axis of storage splits
    // already (heads under Ulysses) it has a part of its own, by member of struct storage.
    bool has_more;
    double more[PARAMETER_KIND_COUNT][STORED_COUNT];
};

struct parameter_sums parameter_sums(const struct program *program,
                                     const struct program_chunk *chunk);

// Adds the parameters of another chunk of a stage.
void parameter_sums_add(struct parameter_sums *sums, const struct parameter_sums *other);

// Elements of all kinds that one rank keeps, each divided over the axes of its storage; of frozen
// parameters there is neither gradient nor state. `member` picks that of struct storage.
double parameter_stored(const struct program *program, const struct parameter_sums *sums,
                        enum stored member);
// The same of what of a chunk, or of all chunks of a stage, the host updates (struct offload);
// `sums` are those of the chunk or the stage.
double parameter_away(const struct program *program, const struct program_chunk *chunk,
                      const struct parameter_sums *sums, enum stored member);
double parameter_away_of_stage(const struct program *program, int stage,
                               const struct parameter_sums *sums, enum stored member);

// Of one kind what stays of the weights on the device (`away`: of those that do not), divided over
// the axes of their storage.
double parameter_weights(const struct program *program, const struct parameter_sums *sums,
                         enum parameter_kind kind, bool away);
// Of those off the device the ones that are trained, of all kinds.
double parameter_fetched(const struct program *program, const struct parameter_sums *sums);

// Elements of a chunk's gradients that one rank keeps at a time: all of them, or the rooms that
// they pass through (plan/step_end.h).
double parameter_gradients(const struct program *program, const struct stack *stack,
                           const struct program_chunk *chunk, const struct parameter_sums *sums);

// Bytes of a weight as the GEMMs read it from memory: what is narrower than 16 bits is cast on the
// way, and kept in 16.
double parameter_weight_bytes(enum precision precision);

// How this software does the end of a step (plan/step_end.h).
struct step_rules step_rules_of(const struct stack *stack, const struct program *program);
