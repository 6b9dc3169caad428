#pragma once
#include "cost_models/step.h"

// The prices of one step, written down as step_price asks for them: one line a price, for whoever
// wants to know what a step consists of (simulator/breakdown.h). Nothing is priced for a ledger,
// and its lines sum to the seconds of the step_price that they were written beside.

enum entry {
    // in every micro-batch, of a block
    ENTRY_OPERATOR,
    ENTRY_EXCHANGE,    // activations, or parameters and gradients of ZeRO 2 and 3
    ENTRY_CONTENTION,  // what compute loses to communication beside it
    ENTRY_HOST,        // what the device waits for the host to launch
    ENTRY_LOSS,        // losses that the host reads, of the block that ends the model
    ENTRY_SEED,        // gradients of them that it writes
    // in every micro-batch, of a class of chunks
    ENTRY_TASK,   // what the host takes between tasks
    ENTRY_BEGIN,  // of a block, too: gradients that begin, or that others add to
    ENTRY_COPY,   // activations to the host and back; of a group of gradients, too
    // once a step, of a class of chunks
    ENTRY_REDUCE,   // gradient_reduce_s
    ENTRY_GATHER,   // parameter_gather_s
    ENTRY_SMALL,    // small_reduce_s
    ENTRY_UPDATE,   // update_s
    ENTRY_SQUARES,  // inside update_s, too: a stage's own part of the gradients' norm
    ENTRY_RATIOS,   // inside update_s, too: its part of the trust ratios
    // of the whole step
    ENTRY_HOP,  // one message to a neighbouring stage
    ENTRY_TIED,
    ENTRY_NORM,
    ENTRY_TRUST,  // inside norm_s, too
    ENTRY_COUNT
};

// A collective of a micro-batch: what its price depends on, and what it is hidden together with.
enum exchange_kind { EXCHANGE_ACTIVATION, EXCHANGE_GATHER, EXCHANGE_SCATTER, EXCHANGE_FETCH };
struct exchange {
    enum phase phase;
    enum exchange_kind kind;
    enum part part;
    unsigned overlap;  // of enum overlap: what would hide it beside compute
    enum collective collective;
    struct routing routing;  // of a dispatch that sends a token once to a place
    unsigned axes;
    double bytes;
    bool deep;     // of a fetch: from NVMe
    double share;  // of the micro-batches, that see it; 1 but of fetches
    bool is_relay;
    double beside_s;  // of a relay's: the work on the part behind it, which runs beside it
    int instr;        // 1 + number in the block
};

struct ledger_line {
    enum entry entry;
    int block;         // index into the program's blocks; -1: not of a block
    int chunk;         // class of chunks; -1: not of a chunk
    const char *what;  // name of the (forward) operator in the graph, or what is communicated or
                       // updated
    enum phase phase;
    bool recompute;
    double count;         // kernels or messages alike that make up `s`
    double launch_count;  // kernels that the host launches for each of them
    double s;             // alone
    double exposed_s;     // what of it nothing hides; of ENTRY_REDUCE, _GATHER and _HOP all of it,
                          // because the schedule decides that
    // operators
    const struct instr *instr;  // the first of those that run as one; NULL: no operator
    int joined;                 // instructions that run as one
    // Of the step graph (plan/script/graph.h), 1 + number, 0: none: the instruction of the block,
    // the use of a block in the chunk, the group or small of the chunk's step_end.
    int of_instr, of_use, of_group;
    struct gemm gemm;  // of contractions, as it runs; else 0
    double flop;       // useful ones
    double bytes;      // of operators read and written, what a fused kernel keeps left
                       // out; of a collective the payload of one message
    enum bound bound;
    bool measured;  // the device's table of kernels has it; then what it is bound by is not known
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
    int use, group;    // of the chunk; 1 + number, 0: none
    int first;         // line of the block that is being priced
};

struct ledger ledger_new(struct arena *arena);

// What follows is for who prices. A `ledger` of NULL writes nothing.

// From here on lines are of this block, of this class of chunks, or (-1, -1) of the whole step.
void ledger_turn_to(struct ledger *ledger, int block, int chunk);
// And of this use of a block in it, or of this group of its step_end; -1: of none.
void ledger_turn_to_part(struct ledger *ledger, int use, int group);
// What the operator of an instruction that is no collective is called.
const char *ledger_name(const struct block *block, const struct instr *instr);
// `line` with block and chunk filled in. One that takes no time is left out.
void ledger_add(struct ledger *ledger, const struct ledger_line *line);
// Seconds of an operator, from what the instruction says.
void ledger_add_operator(struct ledger *ledger, const struct block_program *program,
                         const struct instr *instr, const struct compute_cost *cost);
// Seconds that are neither an instruction's nor communication; `bytes` 0: not bound by memory.
void ledger_add_time(struct ledger *ledger, enum entry entry, enum phase phase, const char *what,
                     double s, double bytes);
// `count` messages alike, of whose seconds `exposed_s` is what is left by now.
void ledger_add_exchange(struct ledger *ledger, const struct exchange *exchange,
                         const struct group_shape *group, double count,
                         const struct collective_cost *cost, double exposed_s);

// What a phase of a block comes to in the end.
struct phase_end {
    double gather_s, scatter_s;   // of parameters and their gradients, exposed
    double fetch_s;               // of parameters from the host, exposed
    const double *comm_s;         // [part] of activations, exposed
    double compute_s;             // of operators without recomputed ones, contention included
    double with_host_s;           // compute with what it waits for the host
    unsigned hidden[PART_COUNT];  // activations: bit per enum collective that hiding takes from;
                                  // 0 = all
};
// What is hidden is taken from the exchanges, of each in proportion; contention and the wait for
// the host are lines of their own.
void ledger_end_phase(struct ledger *ledger, enum phase phase, const struct phase_end *end);
