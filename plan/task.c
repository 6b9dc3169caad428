#include "plan/task.h"

#include <assert.h>

static const struct {
    const char *name;
    enum stream stream;
    bool talks;
} ROWS[TASK_KIND_COUNT] = {
#define TASK(id, name, stream, talks) [TASK_##id] = {name, STREAM_##stream, talks},
#include "plan/tasks.inc"
#undef TASK
};

const char *task_kind_name(enum task_kind kind)
{
    assert((unsigned)kind < TASK_KIND_COUNT);
    return ROWS[kind].name;
}

enum stream task_kind_stream(enum task_kind kind)
{
    assert((unsigned)kind < TASK_KIND_COUNT);
    return ROWS[kind].stream;
}

bool task_kind_talks(enum task_kind kind)
{
    assert((unsigned)kind < TASK_KIND_COUNT);
    return ROWS[kind].talks;
}

bool task_kind_is_once(enum task_kind kind)
{
    return kind >= TASK_SMALL_REDUCE;
}
