#pragma once
#include "simulator/evaluate.h"
#include "tests/support/draw.h"

// What no step can be faster than, and plans drawn without the search: an oracle for answers that
// the search calls proven. It shares no code with planner/. Its bounds know the model's work, the
// device's peaks, and what must be moved; its draws know what is legal from program_check() and
// stack_can_run() alone, and what a plan takes from evaluate().

struct oracle_question {
    const struct model_config *model;
    const struct cluster *cluster;
    const struct stack *stack;
    const struct fabrics *fabrics;
    struct workload workload;
    const struct graph *graph;  // of tp 1 with flash attention
    bool offloads;              // plans may move state off the device
    bool any_order;             // plans may lay axes over ranks in any order
    // Whether a plan is one that was asked for; NULL: every one is.
    bool (*allows)(const void *context, const struct parallel *parallel);
    const void *context;
};

// Seconds that any plan takes: the matrix units work at their peak on the model's own products from
// begin to end, and then the optimizer walks over its state once.
double oracle_step_s(const struct oracle_question *question);
// Seconds that this plan takes: beside the above, its pipeline fills, and each rank sends its share
// of the gradients over the fastest link there is.
double oracle_plan_s(const struct oracle_question *question, const struct parallel *parallel);
// Bytes that the fullest device of any plan holds, if no state is moved off it.
double oracle_bytes(const struct oracle_question *question);
// Model flop over peak flop, 1 at most.
double oracle_mfu(const struct oracle_question *question, double step_s);

// A legal plan: any at all or, one in two where `near` is not NULL, that one with a few choices
// changed. False where none was found in some tries. Lives in `arena`.
MUST_CHECK bool oracle_draw(struct arena *arena, struct draw *draw,
                            const struct oracle_question *question, const struct parallel *near,
                            struct parallel *drawn);

// What such a plan takes.
struct oracle_price {
    bool fits;
    double closed_form_s, step_s;
    int64_t reserved_bytes;
};
struct oracle_price oracle_price(const struct oracle_question *question,
                                 const struct parallel *parallel);
