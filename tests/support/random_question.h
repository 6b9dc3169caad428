#pragma once
#include "simulator/evaluate.h"
#include "tests/support/draw.h"

// A question with its plan, over everything that is shipped: models, clusters (of a few nodes),
// stacks, precisions, optimizers, and all choices of a plan that the stack can run.

struct random_question {
    struct evaluation_request request;
    struct evaluation evaluation;
    double closed_form_s;
};

// Draws until the choices go together, and evaluates them. Everything lives in `arena`; no band.
void random_question(struct arena *arena, struct draw *draw, struct random_question *question);
// The same on a cluster of several kinds of nodes.
void random_question_mixed(struct arena *arena, struct draw *draw,
                           struct random_question *question);
// The same choices again, after something of the request was changed. They must still go together.
void random_question_again(struct arena *arena, struct random_question *question);
// False where they do not.
bool random_question_try(struct arena *arena, struct random_question *question);
// A test comment that says all of it.
void random_question_print(const struct random_question *question);

// A cluster whose node groups and devices may be changed without changing the original's.
struct cluster *cluster_copy(struct arena *arena, const struct cluster *cluster);
