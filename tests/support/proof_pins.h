#pragma once
#include "tests/support/proof_question.h"

// Pins to try a proven answer with. Values come from all that a choice may be, not from what search
// tries by itself, so that a value search leaves out is found out. What is drawn may be illegal:
// then the search refuses it, and another is drawn.

enum pins_kind {
    PINS_BACK,    // every choice and the stages as the winner has them
    PINS_SHOWN,   // as another of the plans shown has them
    PINS_ONE,     // one choice is one value
    PINS_TWO,     // two choices are
    PINS_RANGE,   // a choice of numbers is in a range
    PINS_FORBID,  // a value of the winner's is forbidden, any where there is none
    PINS_MOVE,    // the winner with one layer on another stage, nothing else changed
    PINS_STAGES,  // stages alone: even ones, the winner's with a layer moved, any
    PINS_NEAR,    // the winner with one choice, or two, changed
    PINS_LIFT,    // a pin of the question's own is taken away
    PINS_KIND_COUNT
};
const char *pins_kind_name(enum pins_kind kind);  // "one"

// Starts from the question's own pins. `winner` is its answer, NULL where there is none. False
// where there is nothing of that kind to draw; draw again or leave it. `keys` names what was pinned
// ("vpp", "stages", "zero+tp"). The result lives in `arena`.
MUST_CHECK bool pins_draw(struct arena *arena, struct draw *draw, enum pins_kind kind,
                          const struct proof_question *question, const struct parallel *winner,
                          struct pins *pins, const char **keys);

// Layers of each stage of the plan, of degree pp.
const int *winner_stages(struct arena *arena, const struct proof_question *question,
                         const struct parallel *winner);
