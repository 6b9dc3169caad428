#include "core/sort.h"
#include "simulator/walk.h"

#include <assert.h>

// How spans are called and ordered.

// A slot or message as a viewer's reader would say it; else as the table of tasks does.
static const char *kind_words(enum task_kind kind)
{
    switch ((int)kind) {
    case TASK_FORWARD:
        return "forward";
    case TASK_BACKWARD:
        return "backward";
    case TASK_WEIGHT:
        return "weight gradients";
    default:
        return task_kind_name(kind);
    }
}

const char *spans_task_name(const void *context, const struct span *span, struct arena *scratch)
{
    const struct schedule_shape *shape = context;
    struct task_id id = task_id_of(shape, span->task);
    enum task_kind kind = (enum task_kind)id.kind;
    bool is_message = kind == TASK_SEND || kind == TASK_RECEIVE;
    const char *name = kind_words(kind), *item = "micro-batch";
    if (is_message) {
        name = arena_print(scratch, "%s %s", name, kind_words((enum task_kind)(id.item % 2)));
        id.item /= 2;
    }
    if (kind == TASK_GRADIENT_REDUCE)
        item = "bucket";
    else if (task_kind_is_once(kind))
        return name;
    name = arena_print(scratch, "%s, %s %d", name, item, id.item);
    return shape->chunk_count == 1 ? name : arena_print(scratch, "%s, chunk %d", name, id.chunk);
}

const char *spans_track_name(const void *context, const struct span *span)
{
    static const char *const MESSAGES[2][2] = {{"pp send forward", "pp send backward"},
                                               {"pp receive forward", "pp receive backward"}};
    struct task_id id = task_id_of(context, span->task);
    assert(span->start_ns <= span->end_ns);
    if (span->stream != STREAM_PP || (id.kind != TASK_SEND && id.kind != TASK_RECEIVE)) return NULL;
    return MESSAGES[id.kind == TASK_RECEIVE][id.item % 2];
}

static bool is_before(const void *a, const void *b)
{
    const struct span *first = a, *second = b;
    if (first->start_ns != second->start_ns) return first->start_ns < second->start_ns;
    if (first->rank != second->rank) return first->rank < second->rank;
    return first->stream < second->stream;
}

// Spans were added stream by stream in their order, so that ties end on it.
void spans_sort(struct arena *scratch, struct spans *spans)
{
    sort_stable(scratch, spans->list, spans->count, sizeof *spans->list, is_before);
}
