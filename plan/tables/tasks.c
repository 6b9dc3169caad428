#include "plan/tables/tasks.h"

static const struct {
    const char *name;
    enum stream stream;
    unsigned waits;
    bool talks;
} TASKS[TABLE_TASK_COUNT] = {
#define AFTER(id) (1u << TABLE_TASK_##id)
#define TABLE_TASK(id, name, stream, waits, talks) [TABLE_TASK_##id] = {name, stream, waits, talks},
#include "plan/tables/tasks.inc"
#undef TABLE_TASK
#undef AFTER
};

const char *table_task_name(enum table_task task)
{
    return TASKS[task].name;
}

enum stream table_task_stream(enum table_task task)
{
    return TASKS[task].stream;
}

unsigned table_task_waits(enum table_task task)
{
    return TASKS[task].waits;
}

bool table_task_talks(enum table_task task)
{
    return TASKS[task].talks;
}
