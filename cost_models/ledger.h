#pragma once
#include "cost_models/step.h"

// The prices of one step, written down as step_price asks for them: one line a price, for whoever
// wants to know what a step consists of (simulator/account.h). Nothing is priced for a ledger, and
// its lines sum to the seconds of the step_price that they were written beside.

enum entry {
    // in every micro-batch, of a block
    ENTRY_OPERATOR,
    ENTRY_EXCHANGE,    // activations, or parameters and gradients of ZeRO 2 and 3
    ENTRY_CONTENTION,  // what compute loses to communication beside it
    ENTRY_HOST,        // what the device waits for the host to launch
    // once a step, of a class of chunks
    ENTRY_REDUCE,  // gradient_reduce_s
    ENTRY_GATHER,  // parameter_gather_s
    ENTRY_SMALL,   // small_reduce_s
    ENTRY_UPDATE,  // update_s
    // of the whole step
    ENTRY_HOP,  // one message to a neighbouring stage
    ENTRY_TIED,
    ENTRY_NORM,
    ENTRY_COUNT
};

// What of an exchange is hidden together: the seconds of one of these, phase and part.
enum exchange_kind { EXCHANGE_ACTIVATION, EXCHANGE_GATHER, EXCHANGE_SCATTER };

struct ledger_line {
    enum entry entry;
    int block;         // index into the program's blocks; -1: not of a block
    int chunk;         // class of chunks; -1: not of a chunk
    const char *what;  // name of the (forward) operator in the graph, or what is communicated or
                       // updated
    enum phase phase;
    bool recompute;
    double count;      // kernels or messages alike that make up `s`
    double s;          // alone
    double exposed_s;  // what of it nothing hides; of ENTRY_REDUCE, _GATHER and _HOP all of it,
                       // because the schedule decides that
    // operators
    const struct instr *instr;  // the first of those that run as one; NULL: no operator
    int joined;                 // instructions that run as one
    struct gemm gemm;           // of contractions, as it runs; else 0
    double flop;                // useful ones
    double bytes;               // of operators read and written, what a fused kernel keeps left
                                // out; of a collective the payload of one message
    enum bound bound;
    // collectives
    enum collective collective;  // COLLECTIVE_NONE: no collective
    enum exchange_kind exchange;
    enum part part;
    unsigned axes;
    int rank_count, node_count;
    struct collective_cost cost;  // of one message
};

struct ledger {
    struct arena *arena;
    struct ledger_line *lines;
    int count, capacity;
    int block, chunk;  // that is being priced
    int first;         // line of the block that is being priced
};

struct ledger ledger_new(struct arena *arena);

// What follows is for who prices. A `ledger` of NULL writes nothing.

// From here on lines are of this block, of this class of chunks, or (-1, -1) of the whole step.
void ledger_turn_to(struct ledger *ledger, int block, int chunk);
// `line` with block and chunk filled in. One that takes no time is left out.
void ledger_add(struct ledger *ledger, const struct ledger_line *line);
// Seconds of an operator, from what the instruction says.
void ledger_add_operator(struct ledger *ledger, const struct compute_context *context,
                         const struct block_program *program, const struct instr *instr,
                         const struct compute_cost *cost);
// What of the exchanges of this kind, phase and part is left after hiding, in the block that is
// being priced: each keeps its share.
void ledger_expose(struct ledger *ledger, enum phase phase, enum exchange_kind kind, enum part part,
                   double exposed_s);
// Seconds of operators of this phase of the block, first work without redone.
double ledger_compute_s(const struct ledger *ledger, enum phase phase);
