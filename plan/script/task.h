#pragma once

// The kinds of tasks that a step is made of: the one vocabulary of script, prices, simulator,
// traces and runs.
enum script_kind {
#define TASK(id, name) SCRIPT_##id,
#include "plan/script/tasks.inc"
#undef TASK
    SCRIPT_KIND_COUNT
};
const char *script_kind_name(enum script_kind kind);
