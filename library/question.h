#pragma once
#include "core/json.h"
#include "simulator/evaluate.h"

// What the library asks of the rooms below it, as objects that its callers give.

// The request that a plan file is the question of; shipped fabrics and bands.
MUST_CHECK bool question_of_plan(struct arena *arena, const struct json *plan,
                                 struct evaluation_request *request, struct err *err);

struct question_answer {
    const char *plan;    // plan.json; NULL: nothing fits
    const char *reason;  // why, one line
};
// Searches what the object asks for (library/meshwright.h); a wrong one sets `err`.
struct question_answer question_answer(struct arena *arena, const struct json *question,
                                       struct err *err);

// The best plan, and in `reason` why KEY=VALUE lost against it.
struct question_answer question_why(struct arena *arena, const struct json *question,
                                    const char *choice, struct err *err);

// The base that a changed plan is asked on (reports/page/replan.h). NULL and a set `err` where a
// shipped file cannot be read.
MUST_CHECK const char *question_base(struct arena *arena, const char *plan, struct err *err);
