#include "reports/comparison/run_ranks.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Spans of the trace in two orders: by rank, stream and start, and by rank, stream, task and start.
struct path_walk {
    struct arena *scratch;
    const struct program *program;
    const struct trace *trace;
    const struct span **by_start, **by_task;
    const struct trace_flow **flow_to;  // [span] the arrow that ends in it; NULL: none does
    struct rank_times *const *ranks;
    struct run_ranks *result;
};

static int place_order(const struct span *x, const struct span *y)
{
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return (x->stream > y->stream) - (x->stream < y->stream);
}

static int start_order(const void *a, const void *b)
{
    const struct span *x = *(const struct span *const *)a, *y = *(const struct span *const *)b;
    int order = place_order(x, y);
    if (order) return order;
    if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
    return (x > y) - (x < y);
}

static int task_order(const void *a, const void *b)
{
    const struct span *x = *(const struct span *const *)a, *y = *(const struct span *const *)b;
    int order = place_order(x, y);
    if (order) return order;
    if (x->task != y->task) return x->task < y->task ? -1 : 1;
    return start_order(a, b);
}

// How many of the list are before `key`.
static int64_t count_below(const struct span *const *list, int64_t count, const struct span *key,
                           int (*order)(const void *, const void *))
{
    assert(count >= 0);
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (order(&list[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The span of a stream of a rank that started last before `at_ns`; NULL: none did.
static const struct span *last_before(const struct path_walk *walk, int rank, enum stream stream,
                                      int64_t at_ns)
{
    int64_t low = 0, high = walk->trace->span_count;
    const struct span key = {.rank = rank, .stream = stream};
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        const struct span *span = walk->by_start[middle];
        int order = place_order(span, &key);
        if (order < 0 || (order == 0 && span->start_ns < at_ns))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || place_order(walk->by_start[low - 1], &key) != 0) return NULL;
    return walk->by_start[low - 1];
}

// What the rank did up to that moment: what ended last, compute that goes on beyond it included.
static const struct span *before(const struct path_walk *walk, int rank, int64_t at_ns,
                                 int64_t *end_ns)
{
    const struct span *last = NULL;
    *end_ns = 0;
    for (int stream = 0; stream < STREAM_COUNT; stream++) {
        const struct span *span = last_before(walk, rank, (enum stream)stream, at_ns);
        if (!span || (span->end_ns > at_ns && stream != STREAM_COMPUTE)) continue;
        int64_t until_ns = span->end_ns < at_ns ? span->end_ns : at_ns;
        bool is_inner = last && until_ns == *end_ns && span->start_ns > last->start_ns;
        if (last && until_ns <= *end_ns && !is_inner) continue;
        last = span;
        *end_ns = until_ns;
    }
    return last;
}

// Whether two ranks may be in one group of this exchange. Tasks of the whole step go over all axes
// of their stage, some over all ranks; only those that meet in time are asked.
static bool may_meet(const struct path_walk *walk, const struct span *span, int kind, int other)
{
    const struct mesh *mesh = &walk->program->mesh;
    if (kind == TASK_NORM || kind == TASK_TIED_REDUCE) return true;
    int stage = mesh_stage_of(mesh, span->rank);
    bool is_of_stage = mesh_stage_of(mesh, other) == stage;
    if (kind >= SLOT_KIND_COUNT) return is_of_stage;
    // Stages with unlike numbers of ranks have no axis that joins them.
    if (mesh->stage_ranks && !is_of_stage) return span->stream == STREAM_PP;
    struct program room;
    if (mesh->stage_ranks) mesh = &program_at(walk->program, stage, &room)->mesh;
    for (int i = 0; i < mesh->axis_count; i++) {
        bool is_over = axis_stream(mesh->axes[i].parent) == span->stream ||
                       axis_stream(mesh->axes[i].expert) == span->stream;
        if (!is_over && mesh_coordinate(mesh, i, span->rank) != mesh_coordinate(mesh, i, other))
            return false;
    }
    return true;
}

// Of all ranks of an exchange the part of the one that came last; it may be `span` itself.
static const struct span *latest(const struct path_walk *walk, const struct span *span, int kind)
{
    const struct span *late = span;
    int64_t count = walk->trace->span_count;
    struct span first = *span;
    first.start_ns = -1;
    int64_t turn = count_below(walk->by_task, count, span, task_order) -
                   count_below(walk->by_task, count, &first, task_order);
    for (int rank = 0; rank < walk->trace->rank_count; rank++) {
        first.rank = rank;
        if (rank == span->rank || !walk->ranks[rank] || !may_meet(walk, span, kind, rank)) continue;
        int64_t at = count_below(walk->by_task, count, &first, task_order) + turn;
        if (at >= count) continue;
        const struct span *other = walk->by_task[at];
        if (place_order(other, &first) != 0 || other->task != span->task) continue;
        if (other->start_ns > late->start_ns && other->start_ns < span->end_ns) late = other;
    }
    return late;
}

static const struct span *cause_of(const struct path_walk *walk, const struct span *span)
{
    int kind = task_id_of(&walk->program->shape, span->task).kind;
    const struct trace_flow *flow = walk->flow_to[span - walk->trace->spans];
    if (kind == TASK_RECEIVE) {
        if (!flow) return span;
        const struct span *from = &walk->trace->spans[flow->from];
        return from->start_ns > span->start_ns && from->start_ns < span->end_ns ? from : span;
    }
    bool talks = kind < SLOT_KIND_COUNT || task_kind_talks((enum task_kind)kind);
    return talks && span->stream <= STREAM_DP ? latest(walk, span, kind) : span;
}

static const char *kind_words(int kind)
{
    static const char *const SLOTS[] = {"forward", "backward", "weight gradients"};
    return kind < SLOT_KIND_COUNT ? SLOTS[kind] : task_kind_name((enum task_kind)kind);
}

static const char *words_of(const struct path_walk *walk, const struct span *span)
{
    int kind = task_id_of(&walk->program->shape, span->task).kind;
    if (span->stream == STREAM_COMPUTE || kind >= SLOT_KIND_COUNT) return kind_words(kind);
    return arena_print(walk->scratch, "%s in %s", stream_name(span->stream), kind_words(kind));
}

static void add(const struct path_walk *walk, int rank, const char *what, int64_t from_ns,
                int64_t to_ns)
{
    assert(from_ns <= to_ns && walk->ranks[rank]);
    struct run_ranks *result = walk->result;
    double s = 1e-9 * (double)(to_ns - from_ns);
    int at = 0;
    while (at < result->part_count && strcmp(result->parts[at].what, what) != 0)
        at++;
    // Kinds of tasks by streams are fewer than there is room for.
    if (at == PATH_PARTS_MAX) at--;
    if (at == result->part_count) result->parts[result->part_count++] = (struct path_part){what, 0};
    result->parts[at].s += s;
    walk->ranks[rank]->path_s += s;
}

// Compute runs from the end of the last exchange inside it.
static int64_t compute_from(const struct path_walk *walk, const struct span *span, int64_t at_ns)
{
    int64_t from_ns = span->start_ns;
    for (int stream = STREAM_COMPUTE + 1; stream < STREAM_COUNT; stream++) {
        const struct span *in = last_before(walk, span->rank, (enum stream)stream, at_ns);
        if (!in || in->task != span->task || in->start_ns < span->start_ns) continue;
        if (in->end_ns < at_ns && in->end_ns > from_ns) from_ns = in->end_ns;
    }
    return from_ns;
}

// Both orders hold the spans themselves, so that what is found has its number in the trace.
static void index_spans(struct path_walk *walk)
{
    const struct trace *trace = walk->trace;
    int64_t count = trace->span_count;
    walk->by_start = ARENA_NEW(walk->scratch, const struct span *, count);
    walk->by_task = ARENA_NEW(walk->scratch, const struct span *, count);
    walk->flow_to = ARENA_NEW(walk->scratch, const struct trace_flow *, count);
    for (int64_t i = 0; i < count; i++)
        walk->by_start[i] = walk->by_task[i] = &trace->spans[i];
    qsort(walk->by_start, (size_t)count, sizeof *walk->by_start, start_order);
    qsort(walk->by_task, (size_t)count, sizeof *walk->by_task, task_order);
    for (int64_t i = 0; i < trace->flow_count; i++) {
        assert(trace->flows[i].to >= 0 && trace->flows[i].to < count);
        walk->flow_to[trace->flows[i].to] = &trace->flows[i];
    }
}

void run_path_walk(struct arena *scratch, const struct program *program, const struct trace *trace,
                   struct rank_times *const *ranks, struct run_ranks *result)
{
    struct path_walk walk = {
        .scratch = scratch, .program = program, .trace = trace, .ranks = ranks, .result = result};
    if (trace->span_count == 0) return;
    index_spans(&walk);
    const struct span *last = trace->spans;
    for (int64_t i = 0; i < trace->span_count; i++)
        if (trace->spans[i].end_ns > last->end_ns) last = &trace->spans[i];
    int rank = last->rank;
    // The moment goes down with every turn.
    for (int64_t at_ns = last->end_ns; at_ns > 0;) {
        int64_t end_ns;
        const struct span *span = before(&walk, rank, at_ns, &end_ns);
        if (!span || end_ns < at_ns) {
            add(&walk, rank, "waiting", end_ns, at_ns);
            at_ns = end_ns;
            continue;
        }
        const struct span *cause = span->stream == STREAM_COMPUTE ? span : cause_of(&walk, span);
        int64_t from_ns =
            span->stream == STREAM_COMPUTE ? compute_from(&walk, span, at_ns) : cause->start_ns;
        assert(from_ns < at_ns && "every turn goes back in time");
        add(&walk, rank, words_of(&walk, span), from_ns, at_ns);
        rank = cause->rank;
        at_ns = from_ns;
    }
}
