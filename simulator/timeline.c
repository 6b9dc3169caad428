#include "simulator/timeline.h"
#include "core/json_write.h"
#include "plan/boundary.h"
#include "simulator/memory_time.h"
#include "simulator/task_facts.h"

#include <assert.h>
#include <string.h>

enum { PARTS_MAX = 40000 };

struct timeline {
    const struct trace *trace;  // the plain one
    const struct program *program;
    struct task_facts facts;
    const struct step_price *price;
    bool is_folded, is_measured;
    const int64_t *first_of;  // [slot] the first span of its kind on its stage; -1: none
    bool has_all_parts;
    int *first_layer;  // [stage * chunk_count + chunk]
};

static int stage_of_rank(const struct timeline *timeline, int rank)
{
    return timeline->is_folded ? rank : mesh_stage_of(&timeline->program->mesh, rank);
}

// The rank of the same pipeline, and of the same place in it, on another stage.
static int rank_on(const struct timeline *timeline, int rank, int stage)
{
    return timeline->is_folded ? stage : mesh_at_stage(&timeline->program->mesh, rank, stage);
}

// Where a message of a chunk comes from, or goes to. -1: to nobody, or not to one alone.
static int neighbour_of(const struct timeline *timeline, int rank, const struct task_id *id,
                        struct boundary_message *message)
{
    struct boundary_message other;
    int stage = stage_of_rank(timeline, rank);
    bool sends = id->kind == TASK_SEND, is_backward = id->item % 2;
    const struct program *program = timeline->program;
    bool is_one = boundary_message(program, stage, id->chunk, sends, is_backward, 0, message) &&
                  !boundary_message(program, stage, id->chunk, sends, is_backward, 1, &other);
    return is_one ? rank_on(timeline, rank, sends ? message->to_stage : message->from_stage) : -1;
}

static void put_layers(const struct timeline *timeline, int at, struct json_writer *writer)
{
    const struct graph *graph = timeline->program->graph;
    const struct chunk_span *span = &timeline->program->spans[at];
    int first = timeline->first_layer[at], count = 0;
    for (int i = span->first; i < span->first + span->count; i++)
        count += graph->blocks[graph->sequence[i]].role == BLOCK_LAYER;
    if (count == 0) {
        json_put_text(writer, "layers", graph->blocks[graph->sequence[span->first]].name);
        return;
    }
    json_put_text(writer, "layers",
                  count == 1 ? arena_print(writer->arena, "%d", first)
                             : arena_print(writer->arena, "%d-%d", first, first + count - 1));
}

static void put_amount(struct json_writer *writer, const char *key, double amount, double s)
{
    if (amount <= 0) return;
    json_put_f64(writer, key, amount);
    if (s > 0) json_put_f64(writer, arena_print(writer->arena, "%s_per_s", key), amount / s);
}

static void put_ranks(struct json_writer *writer, int ranks)
{
    if (ranks > 1) json_put_i64(writer, "ranks", ranks);
}

static bool has_parts(const struct timeline *timeline, int64_t index)
{
    const struct span *span = &timeline->trace->spans[index];
    struct task_id id = task_id_of(&timeline->program->shape, span->task);
    if (span->stream != STREAM_COMPUTE || id.kind >= SLOT_KIND_COUNT) return false;
    if (timeline->has_all_parts) return true;
    int at = stage_of_rank(timeline, span->rank) * timeline->program->shape.chunk_count + id.chunk;
    return timeline->first_of[at * SLOT_KIND_COUNT + id.kind] == index;
}

// A task of a micro-batch, or what it waits for on another stream: its share of the collectives
// that nothing hides, so that their rate cannot be told.
static void put_slot(const struct timeline *timeline, int64_t index, const struct task_id *id,
                     int at, struct json_writer *writer)
{
    const struct span *span = &timeline->trace->spans[index];
    const struct phase_facts *facts =
        &timeline->facts.chunks[timeline->program->class_of[at]].phases[id->kind];
    double s = 1e-9 * (double)(span->end_ns - span->start_ns);
    json_put_i64(writer, "micro_batch", id->item);
    put_layers(timeline, at, writer);
    if (span->stream == STREAM_COMPUTE) {
        put_amount(writer, "flop", facts->flop, s);
        if (timeline->is_measured) return;
        put_amount(writer, "bytes", facts->bytes, 0);
        int64_t first = timeline->first_of[at * SLOT_KIND_COUNT + id->kind];
        bool is_told = has_parts(timeline, index) || first < 0;
        if (!is_told)
            json_put_text(writer, "operators",
                          arena_print(writer->arena, "as in the first of its kind, on rank %d",
                                      timeline->trace->spans[first].rank));
        return;
    }
    // A slice of a measured trace is one collective of the task, and what it moved is the run's.
    if (timeline->is_measured) return;
    if (span->stream == STREAM_H2D || span->stream == STREAM_D2H) {
        put_amount(writer, "bytes", facts->message_bytes[PART_OFFLOAD], s);
        return;
    }
    for (int part = PART_TP; part < PART_OFFLOAD; part++) {
        if (axis_stream(part_axis((enum part)part)) != span->stream) continue;
        if (facts->message_bytes[part] > 0)
            json_put_f64(writer, "bytes", facts->message_bytes[part]);
        put_ranks(writer, facts->rank_count[part]);
    }
}

static void put_message(const struct timeline *timeline, const struct span *span,
                        const struct task_id *id, struct json_writer *writer)
{
    struct boundary_message message;
    int peer = neighbour_of(timeline, span->rank, id, &message);
    json_put_i64(writer, "micro_batch", id->item / 2);
    if (peer >= 0) json_put_i64(writer, id->kind == TASK_SEND ? "to_rank" : "from_rank", peer);
    if (timeline->is_measured) return;
    put_amount(writer, "bytes", timeline->facts.hop_bytes,
               1e-9 * (double)(span->end_ns - span->start_ns));
}

// What all chunks of a stage do at once.
static struct once_facts sum_of_stage(const struct timeline *timeline, int stage, size_t member)
{
    int chunk_count = timeline->program->shape.chunk_count;
    struct once_facts sum = {0};
    for (int chunk = 0; chunk < chunk_count; chunk++) {
        int class = timeline->program->class_of[stage * chunk_count + chunk];
        const char *facts = (const char *)&timeline->facts.chunks[class] + member;
        const struct once_facts *own = (const struct once_facts *)(const void *)facts;
        sum.bytes += own->bytes;
        if (own->rank_count > sum.rank_count) sum.rank_count = own->rank_count;
    }
    return sum;
}

static void put_once(const struct timeline *timeline, const struct span *span,
                     const struct task_id *id, struct json_writer *writer)
{
    int chunk_count = timeline->program->shape.chunk_count;
    int stage = stage_of_rank(timeline, span->rank);
    int class = timeline->program->class_of[stage * chunk_count + id->chunk];
    struct once_facts facts = {0};
    switch (id->kind) {
    case TASK_GRADIENT_REDUCE: {
        int buckets = timeline->price->classes[class].bucket_count;
        facts = timeline->facts.chunks[class].reduce;
        facts.bytes /= buckets < 1 ? 1 : buckets;
        put_layers(timeline, stage * chunk_count + id->chunk, writer);
        break;
    }
    case TASK_SMALL_REDUCE:
        facts = sum_of_stage(timeline, stage, offsetof(struct chunk_facts, small));
        break;
    case TASK_PARAMETER_GATHER:
        facts = sum_of_stage(timeline, stage, offsetof(struct chunk_facts, gather));
        break;
    case TASK_UPDATE:
        facts = sum_of_stage(timeline, stage, offsetof(struct chunk_facts, update));
        break;
    case TASK_TIED_REDUCE:
        facts = timeline->facts.tied[id->item];
        break;
    default:
        facts = timeline->facts.norm;
        break;
    }
    if (!timeline->is_measured)
        put_amount(writer, "bytes", facts.bytes, 1e-9 * (double)(span->end_ns - span->start_ns));
    put_ranks(writer, facts.rank_count);
}

static void span_args(const void *context, int64_t index, struct json_writer *writer)
{
    const struct timeline *timeline = context;
    const struct span *span = &timeline->trace->spans[index];
    struct task_id id = task_id_of(&timeline->program->shape, span->task);
    int at = stage_of_rank(timeline, span->rank) * timeline->program->shape.chunk_count + id.chunk;
    if (id.kind < SLOT_KIND_COUNT)
        put_slot(timeline, index, &id, at, writer);
    else if (id.kind == TASK_SEND || id.kind == TASK_RECEIVE)
        put_message(timeline, span, &id, writer);
    else
        put_once(timeline, span, &id, writer);
}

static int span_parts(const void *context, int64_t index, struct arena *scratch,
                      struct span_part **parts)
{
    const struct timeline *timeline = context;
    if (!has_parts(timeline, index)) return 0;
    const struct span *span = &timeline->trace->spans[index];
    struct task_id id = task_id_of(&timeline->program->shape, span->task);
    int at = stage_of_rank(timeline, span->rank) * timeline->program->shape.chunk_count + id.chunk;
    return task_facts_parts(&timeline->facts, scratch, timeline->program->class_of[at],
                            (enum phase)id.kind, timeline->first_layer[at], span, parts);
}

static const char *task_name(const void *context, const struct span *span, struct arena *scratch)
{
    const struct trace *trace = ((const struct timeline *)context)->trace;
    return trace->task_name(trace->context, span, scratch);
}

static const char *track_name(const void *context, const struct span *span)
{
    const struct trace *trace = ((const struct timeline *)context)->trace;
    return trace->track_name(trace->context, span);
}

// What a rank is called, with its stage where there are several.
static const char *rank_name(const void *context, int rank, struct arena *scratch)
{
    const struct timeline *timeline = context;
    const struct trace *trace = timeline->trace;
    int stage_count = timeline->program->shape.stage_count;
    if (timeline->is_folded && stage_count > 1)
        return arena_print(scratch, "stage %d (each of its ranks)", rank);
    const char *name = trace->rank_name ? trace->rank_name(trace->context, rank, scratch)
                                        : arena_print(scratch, "rank %d", rank);
    if (stage_count == 1) return name;
    return arena_print(scratch, "%s, stage %d", name, stage_of_rank(timeline, rank));
}

static void find_places(struct arena *arena, struct timeline *timeline)
{
    const struct schedule_shape *shape = &timeline->program->shape;
    const struct graph *graph = timeline->program->graph;
    int count = shape->stage_count * shape->chunk_count;
    timeline->first_layer = ARENA_NEW(arena, int, count);
    for (int at = 0; at < count; at++) {
        for (int i = 0; i < timeline->program->spans[at].first; i++)
            timeline->first_layer[at] += graph->blocks[graph->sequence[i]].role == BLOCK_LAYER;
    }
}

// The first task of each kind and chunk on each stage, and whether all can have their operators.
static void choose_parts(struct arena *arena, struct timeline *timeline)
{
    const struct schedule_shape *shape = &timeline->program->shape;
    int64_t count = (int64_t)shape->stage_count * shape->chunk_count * SLOT_KIND_COUNT;
    int64_t *first_of = ARENA_NEW(arena, int64_t, count), all = 0;
    int *parts = ARENA_NEW(arena, int, count);
    for (int64_t i = 0; i < count; i++)
        first_of[i] = -1;
    for (int64_t i = 0; i < timeline->trace->span_count; i++) {
        const struct span *span = &timeline->trace->spans[i];
        struct task_id id = task_id_of(shape, span->task);
        if (span->stream != STREAM_COMPUTE || id.kind >= SLOT_KIND_COUNT) continue;
        int at = stage_of_rank(timeline, span->rank) * shape->chunk_count + id.chunk;
        int64_t slot = (int64_t)at * SLOT_KIND_COUNT + id.kind;
        if (first_of[slot] < 0) {
            first_of[slot] = i;
            parts[slot] = task_facts_part_count(&timeline->facts, timeline->program->class_of[at],
                                                (enum phase)id.kind);
        }
        all += parts[slot];
    }
    timeline->first_of = first_of;
    timeline->has_all_parts = all <= PARTS_MAX;
}

// The spans of slots and messages by what they are: [((rank * chunks + chunk) * kinds + kind) * m +
// micro-batch]. A message of direction d has kind 3 + d (its send) or 5 + d (its receive).
enum { TASK_TABLE_KINDS = SLOT_KIND_COUNT + 4 };

struct task_table {
    const struct schedule_shape *shape;
    const int *row_of;  // [rank]; -1: it does not appear
    int64_t *span_of;   // -1: there is none
};

static int64_t *table_place(const struct task_table *table, int rank, int kind, int chunk,
                            int micro_batch)
{
    const struct schedule_shape *shape = table->shape;
    int64_t row = (int64_t)table->row_of[rank] * shape->chunk_count + chunk;
    return &table
                ->span_of[(row * TASK_TABLE_KINDS + kind) * shape->micro_batch_count + micro_batch];
}

static struct task_table table_make(struct arena *scratch, const struct timeline *timeline)
{
    const struct trace *trace = timeline->trace;
    const struct schedule_shape *shape = &timeline->program->shape;
    int *row_of = ARENA_NEW(scratch, int, trace->rank_count), rows = 0;
    for (int rank = 0; rank < trace->rank_count; rank++)
        row_of[rank] = !trace->appears || trace->appears[rank] ? rows++ : -1;
    int64_t places = (int64_t)rows * shape->chunk_count * TASK_TABLE_KINDS;
    places *= shape->micro_batch_count;
    struct task_table table = {shape, row_of, ARENA_NEW(scratch, int64_t, places)};
    memset(table.span_of, 0xff, (size_t)places * sizeof *table.span_of);
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->spans[i];
        struct task_id id = task_id_of(shape, span->task);
        bool is_message = id.kind == TASK_SEND || id.kind == TASK_RECEIVE;
        if (is_message) {
            int kind = SLOT_KIND_COUNT + 2 * (id.kind == TASK_RECEIVE) + id.item % 2;
            *table_place(&table, span->rank, kind, id.chunk, id.item / 2) = i;
        } else if (id.kind < SLOT_KIND_COUNT && span->stream == STREAM_COMPUTE) {
            *table_place(&table, span->rank, id.kind, id.chunk, id.item) = i;
        }
    }
    return table;
}

static int64_t clamp_ns(int64_t at_ns, const struct span *span)
{
    // A moment at the end of a slice is no longer in it.
    int64_t last_ns = span->end_ns > span->start_ns ? span->end_ns - 1 : span->end_ns;
    return at_ns < span->start_ns ? span->start_ns : at_ns > last_ns ? last_ns : at_ns;
}

static struct trace_flow flow_of(const struct trace *trace, const char *name, int64_t from,
                                 int64_t to)
{
    const struct span *source = &trace->spans[from], *target = &trace->spans[to];
    struct trace_flow flow = {name, from, to, clamp_ns(target->start_ns, source), 0};
    flow.arrives_ns = clamp_ns(flow.leaves_ns, target);
    return flow;
}

// The send of a received message; -1 where its rank does not appear.
static int64_t source_of_message(const struct timeline *timeline, const struct task_table *table,
                                 const struct span *span, const struct task_id *id)
{
    struct boundary_message message;
    int rank = neighbour_of(timeline, span->rank, id, &message), way = id->item % 2;
    if (rank >= 0 && timeline->trace->shown_as) rank = timeline->trace->shown_as[rank];
    if (rank < 0 || rank >= timeline->trace->rank_count || table->row_of[rank] < 0) return -1;
    return *table_place(table, rank, SLOT_KIND_COUNT + way, message.from_chunk, id->item / 2);
}

// The weight gradients of the last micro-batch, or the backward before them where W runs right
// behind it and the bucket is ready by then.
static int64_t source_of_reduction(const struct timeline *timeline, const struct task_table *table,
                                   const struct span *span, const struct task_id *id)
{
    int last = timeline->program->shape.micro_batch_count - 1;
    int64_t weight = *table_place(table, span->rank, TASK_WEIGHT, id->chunk, last);
    int64_t backward = *table_place(table, span->rank, TASK_BACKWARD, id->chunk, last);
    // A run that makes them inside the backward has no W.
    if (weight < 0 || backward < 0) return weight < 0 ? backward : weight;
    bool is_early = timeline->trace->spans[weight].start_ns > span->start_ns;
    return is_early ? backward : weight;
}

static void find_flows(struct arena *arena, struct arena *scratch, const struct timeline *timeline,
                       struct trace *shown)
{
    const struct trace *trace = timeline->trace;
    const struct schedule_shape *shape = &timeline->program->shape;
    assert(arena != scratch && "arrows outlive what they are found with");
    struct arena_mark mark = arena_mark(scratch);
    struct task_table table = table_make(scratch, timeline);
    struct trace_flow *flows = ARENA_NEW(arena, struct trace_flow, trace->span_count);
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->spans[i];
        struct task_id id = task_id_of(shape, span->task);
        int64_t from = -1;
        if (id.kind == TASK_RECEIVE)
            from = source_of_message(timeline, &table, span, &id);
        else if (id.kind == TASK_GRADIENT_REDUCE)
            from = source_of_reduction(timeline, &table, span, &id);
        if (from < 0 || trace->spans[from].start_ns > span->end_ns) continue;
        flows[shown->flow_count++] =
            flow_of(trace, id.kind == TASK_RECEIVE ? "message" : "gradients", from, i);
    }
    shown->flows = flows;
    arena_reset(scratch, mark);
}

// One value at each moment, the largest: what goes and comes at once is there once more.
static void find_levels(struct arena *arena, const struct stack *stack,
                        const struct timeline *timeline, struct trace *shown)
{
    const struct trace *trace = timeline->trace;
    struct trace_level *levels = NULL;
    int count = 0, capacity = 0;
    for (int rank = 0; rank < trace->rank_count; rank++) {
        if (trace->appears && !trace->appears[rank]) continue;
        struct memory_time time = memory_time(arena, timeline->program, stack, trace, rank,
                                              stage_of_rank(timeline, rank));
        for (int i = 0; i < time.count; i++) {
            const struct trace_level *level = &time.list[i];
            struct trace_level *last = i > 0 ? &levels[count - 1] : NULL;
            bool is_same = last && last->at_ns == level->at_ns;
            bool is_last = i + 1 == time.count || time.list[i + 1].at_ns != level->at_ns;
            if (is_same && last->bytes < level->bytes) last->bytes = level->bytes;
            bool is_kept = !is_same || (is_last && last->bytes > level->bytes);
            if (!is_kept) continue;
            ARENA_GROW(arena, levels, count, capacity);
            levels[count++] = *level;
        }
    }
    shown->levels = levels;
    shown->level_count = count;
}

static struct timeline *timeline_new(struct arena *arena, const struct evaluation_request *request,
                                     const struct evaluation *evaluation, const struct trace *trace)
{
    struct ledger *ledger = ARENA_NEW(arena, struct ledger, 1);
    *ledger = ledger_new(arena);
    struct price_context context = evaluation_context(request);
    context.ledger = ledger;
    struct timeline *timeline = ARENA_NEW(arena, struct timeline, 1);
    timeline->trace = trace;
    timeline->program = evaluation->program;
    timeline->price = step_price(arena, &context, evaluation->program);
    timeline->facts = task_facts_make(arena, ledger, evaluation->program);
    find_places(arena, timeline);
    return timeline;
}

static struct trace shown_as(const struct timeline *timeline)
{
    struct trace shown = *timeline->trace;
    shown.context = timeline;
    shown.task_name = task_name;
    shown.rank_name = rank_name;
    shown.track_name = track_name;
    shown.span_args = span_args;
    return shown;
}

struct trace timeline_measured(struct arena *arena, struct arena *scratch,
                               const struct evaluation_request *request,
                               const struct evaluation *evaluation, const struct trace *trace)
{
    const struct trace *simulated = &evaluation->simulation->trace;
    struct trace *named = ARENA_NEW(arena, struct trace, 1);
    *named = *trace;
    named->context = simulated->context;
    named->task_name = simulated->task_name;
    named->track_name = simulated->track_name;
    struct timeline *timeline = timeline_new(arena, request, evaluation, named);
    timeline->is_measured = true;
    struct trace shown = shown_as(timeline);
    find_flows(arena, scratch, timeline, &shown);
    return shown;
}

struct trace timeline_make(struct arena *arena, struct arena *scratch,
                           const struct evaluation_request *request,
                           const struct evaluation *evaluation, const struct trace *trace,
                           bool is_folded)
{
    struct timeline *timeline = timeline_new(arena, request, evaluation, trace);
    timeline->is_folded = is_folded;
    choose_parts(arena, timeline);
    struct trace shown = shown_as(timeline);
    shown.span_parts = span_parts;
    find_flows(arena, scratch, timeline, &shown);
    find_levels(arena, request->stack, timeline, &shown);
    return shown;
}
