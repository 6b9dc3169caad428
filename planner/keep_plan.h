#pragma once
#include "memory/keep/keep.h"
#include "planner/compose.h"

// What a plan keeps, recomputes and moves, asked of the integer program (memory/keep/keep.h) in the
// bytes and seconds of the composer, and the plan that an answer names.
//
// The program knows one kind of layer: where layers differ it is their mean, and where chunks of a
// stage are alive in different numbers the mean of these. What an answer turns out to need is told
// to the program, which then answers again.

struct keep_question {
    struct parallel parallel;
    // Ways to recompute that may be chosen beside none (recompute_value), NULL: what the plan
    // recomputes stays, which then is nothing or all layers.
    const int *recomputes;
    int recompute_count;
    bool may_move;  // activations; false: the plan moves none
    // Counted are activations, working memory and logits; planned: and of the buffers those that do
    // not stand, which is what an arena holds.
    bool is_planned;
    const int64_t *limit_bytes;  // of them, [stage]; NULL: what the device has beside all else
};

struct keep_plan {
    struct keep_problem problem;
    struct keep_stage *stages;
    const struct keep_question *question;
    struct parallel base;  // nothing recomputed or moved of what may be
    const int64_t *limit_bytes;
    int layers_most;
    bool merges_classes;  // the stack moves whole layers only
};

// The composer must be in the group of the plan. Lives in `arena`, as the question must.
struct keep_plan *keep_plan_make(struct arena *arena, struct composer *composer,
                                 const struct keep_question *question);
struct parallel keep_plan_chosen(const struct keep_plan *plan, const struct keep_result *result);
// The plan with one value of CHOICE_RECOMPUTE in so many layers of each stage, -1 = all.
struct parallel keep_plan_recomputing(const struct keep_plan *plan, int value, int layers);
// Software that recomputes all layers or none: the program does not know that; all need less
// memory.
void keep_plan_round(const struct stack *stack, struct parallel *chosen);
// Bytes of a stage that are counted when this is chosen, as the program sees it.
double keep_plan_bytes(const struct keep_plan *plan, const struct keep_result *result, int stage);
// What is really needed then, [stage]: the difference is added to what is always there.
void keep_plan_learn(struct keep_plan *plan, const struct keep_result *result,
                     const int64_t *needed_bytes);

// The best plan found that fits the device and its hosts by the composer's word; false where none
// is.
bool keep_plan_find(struct composer *composer, const struct keep_question *question,
                    struct parallel *found);
