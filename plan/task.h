#pragma once
#include "core/trace.h"

// The one vocabulary of what a step is made of: pipeline schedules, the memory scheduler, scripts
// and their graph, prices, traces and runs name tasks by it. The table is plan/tasks.inc.
enum task_kind {
#define TASK(id, name, stream, talks) TASK_##id,
#include "plan/tasks.inc"
#undef TASK
    TASK_KIND_COUNT
};
enum { SLOT_KIND_COUNT = TASK_WEIGHT + 1 };  // the first of them are slots

// As traces, tables and messages call it: "F", "update".
const char *task_kind_name(enum task_kind kind);
enum stream task_kind_stream(enum task_kind kind);
bool task_kind_talks(enum task_kind kind);
// Whether it runs once a step, behind or between slots.
bool task_kind_is_once(enum task_kind kind);
