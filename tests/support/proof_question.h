#pragma once
#include "planner/choice.h"
#include "tests/support/draw.h"

// A question as a user may ask it: a shipped model on a shipped cluster of so many nodes or GPUs,
// with a precision that devices and software have, any optimizer, stack, length, batch, experts'
// balance, objective, and now and then pins of its own. It is a search request and the command line
// that asks the same.

struct proof_question {
    const char *command;  // "meshwright plan MODEL CLUSTER ...", without the pins
    struct search_request request;
    const struct graph *graph;  // of tp 1 with flash attention
    unsigned classes;           // 1 << enum op_class that its layers have
    unsigned fixed;             // 1 << enum choice that search takes as the software comes unless
                                // it is pinned: not drawn
};

// Draws one. False where what was drawn does not go together (no such precision, more nodes than
// the cluster can have, more than so many ranks); draw again. All of it lives in `arena`.
MUST_CHECK bool question_draw(struct arena *arena, struct draw *draw, int ranks_most,
                              struct proof_question *question);

// The same of given words; `precision` and what follows in `workload` as they are. False and a set
// `err` where something is wrong.
struct question_words {
    const char *model, *cluster;
    const char *stack;    // NULL: the default
    const char *kernels;  // NULL: none
    int64_t nodes, gpus;  // 0: as the cluster has it
    struct workload workload;
    enum objective objective;
    int top;
    bool offload_auto;
};
MUST_CHECK bool question_make(struct arena *arena, const struct question_words *words,
                              struct proof_question *question, struct err *err);

// The command line of the question with these pins instead of its own. What no option says is
// written behind a '#'.
const char *question_command(struct arena *arena, const struct proof_question *question,
                             const struct pins *pins, bool exhaustive);
