#pragma once
#include "core/trace.h"
#include "cost_models/ledger.h"

// What the tasks of a step do, summed from the prices of the step: flop, bytes, ranks, and the
// operators of a phase in their order. Viewers of a trace show it.

// One micro-batch through a chunk, in one phase.
struct phase_facts {
    double flop, bytes;                // of its operators
    double message_bytes[PART_COUNT];  // sent by a rank in its collectives, hidden or not
    int rank_count[PART_COUNT];        // of the largest group; 0: there are none
};

// Once a step, of a class of chunks: payloads of collectives, or bytes that an update touches.
struct once_facts {
    double bytes;
    int rank_count;
};

struct chunk_facts {
    struct phase_facts phases[PHASE_COUNT];
    struct once_facts reduce, gather, small, update;
};

struct task_facts {
    const struct ledger *ledger;
    const struct program *program;
    struct chunk_facts *chunks;  // [class]
    double hop_bytes;            // of one message to a neighbouring stage
    struct once_facts tied[TIE_MAX], norm;
    int tie_count;
};

struct task_facts task_facts_make(struct arena *arena, const struct ledger *ledger,
                                  const struct program *program);

// The layers of one phase of a chunk (backward from its last), in each its operators, over a span
// from `start_ns` to `end_ns` in proportion to their prices: whole, without gaps. `first_layer` is
// that of the chunk. How many; 0 where the phase has none. They live in `arena`.
int task_facts_parts(const struct task_facts *facts, struct arena *arena, int class,
                     enum phase phase, int first_layer, const struct span *span,
                     struct span_part **parts);
// How many task_facts_parts would return.
int task_facts_part_count(const struct task_facts *facts, int class, enum phase phase);
