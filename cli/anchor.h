#pragma once
#include "cli/options.h"
#include "planner/search.h"
#include "validation/anchor.h"

// `plan --anchor`: runs that were measured correct the constants before the search.

struct anchor_arguments {
    struct text_list files;  // run.json, a log, or lines of published runs (.jsonl)
    const char *plan;        // that the logs are of; NULL: run.json names its own
};

// Reads what was measured, corrects the request's devices and stack, and says so in `anchor`.
MUST_CHECK bool anchor_take(struct arena *arena, const struct anchor_arguments *arguments,
                            struct search_request *request, struct anchor *anchor, struct err *err);
