#pragma once
#include "library/inquiry.h"
#include "planner/explain.h"

// What the planner answers: the best plan as plan.json, and why a choice lost. The command line and
// the library print the same text.

struct answer {
    const char *plan;    // plan.json; NULL: nothing fits
    const char *reason;  // why, one line; of answer_why what the choice costs
    const char *notes;   // what was taken where nothing was said, and what is odd: a line each
};
// Searches what the object asks for (library/meshwright.h); a wrong one sets `err`.
struct answer answer_question(struct arena *arena, const struct json *question, struct err *err);
// The best plan, and why KEY=VALUE lost against it.
struct answer answer_why(struct arena *arena, const struct json *question, const char *choice,
                         struct err *err);

// The base that a changed plan is asked on (reports/page/replan.h). NULL and a set `err` where a
// shipped file cannot be read.
MUST_CHECK const char *answer_base(struct arena *arena, const char *plan, struct err *err);
