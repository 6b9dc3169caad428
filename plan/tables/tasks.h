#pragma once
#include "core/trace.h"

// The tasks of a step of a recommendation model: cost models price them, the executor runs and
// counts them, traces name them. The table is plan/tables/tasks.inc.
enum table_task {
#define TABLE_TASK(id, name, stream, waits, talks) TABLE_TASK_##id,
#include "plan/tables/tasks.inc"
#undef TABLE_TASK
    TABLE_TASK_COUNT
};

const char *table_task_name(enum table_task task);
enum stream table_task_stream(enum table_task task);
unsigned table_task_waits(enum table_task task);  // 1 << task that must have ended
bool table_task_talks(enum table_task task);
