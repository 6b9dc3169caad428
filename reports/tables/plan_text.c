#include "reports/tables/plan_text.h"

#include "core/table.h"
#include "core/units.h"

#include <assert.h>
#include <math.h>

// Pieces of one table stand side by side in a placement.
static const char *way_of(struct arena *arena, const struct table_placement *placement, int first,
                          int count)
{
    assert(count > 0 && first + count <= placement->piece_count);
    const struct table_piece *piece = &placement->pieces[first];
    if (piece->rank == PIECE_EVERY_RANK) return "on every rank";
    int low = piece->rank, high = piece->rank;
    for (int i = first; i < first + count; i++) {
        low = placement->pieces[i].rank < low ? placement->pieces[i].rank : low;
        high = placement->pieces[i].rank > high ? placement->pieces[i].rank : high;
    }
    if (count == 1) return arena_print(arena, "whole on rank %d", low);
    const char *by = piece_shares_rows(placement, piece) ? "columns" : "rows";
    return arena_print(arena, "%d pieces by %s on ranks %d to %d", count, by, low, high);
}

static const char *home_of(struct arena *arena, const struct table_piece *piece)
{
    assert(piece->row_count > 0);
    if (piece->tier == TIER_DEVICE) return "device";
    double cached = (double)piece->cached_rows / (double)piece->row_count;
    return arena_print(arena, "%s, %s cached", tier_name(piece->tier), units_ratio(arena, cached));
}

char *table_placement_text(struct arena *arena, const struct table_placement *placement, int most)
{
    const struct recommender *model = placement->model;
    struct table table = table_new(arena, "lrrll");
    table_row(&table, (const char *[]){"table", "rows", "ids", "where", "lives on"});
    int left = 0;
    for (int first = 0, shown = 0; first < placement->piece_count;) {
        int count = 1, at = placement->pieces[first].table;
        while (first + count < placement->piece_count &&
               placement->pieces[first + count].table == at)
            count++;
        if (shown++ < most) {
            table_row(&table,
                      (const char *[]){model->tables[at].name,
                                       units_count(arena, (double)model->tables[at].row_count),
                                       units_count(arena, (double)model->tables[at].id_count),
                                       way_of(arena, placement, first, count),
                                       home_of(arena, &placement->pieces[first])});
        } else {
            left++;
        }
        first += count;
    }
    const char *rest =
        left ? arena_print(arena, "and %d tables more, in the plan file\n", left) : "";
    return arena_print(arena, "%s%s", table_text(&table), rest);
}

static char *head_text(struct arena *arena, const struct place_request *request)
{
    const struct recommender *model = request->model;
    return arena_print(
        arena, "%s: %d tables, %s rows of %lld (%s), %s dense parameters\n%s: %d GPUs, %s\n",
        model->name, model->table_count, units_count(arena, (double)recommender_row_count(model)),
        (long long)recommender_row_width(model),
        units_bytes(arena, (double)recommender_table_parameters(model) * WEIGHT_BYTES),
        units_count(arena, (double)recommender_dense_parameters(model)), request->cluster->name,
        request->cluster->rank_count, request->stack->name);
}

static char *speed_text(struct arena *arena, const struct place_request *request,
                        const struct table_prediction *prediction)
{
    assert(prediction->step_s > 0);
    return arena_print(
        arena,
        "Step of %s samples: %s, %s samples/s; %s of look-ups find their row on the device, the "
        "busiest rank has %.3g times the mean\n",
        units_count(arena, (double)request->workload.global_batch),
        units_seconds(arena, prediction->step_s), units_count(arena, prediction->samples_per_s),
        units_ratio(arena, prediction->hit_ratio), prediction->imbalance);
}

char *table_plan_text(struct arena *arena, const struct place_request *request,
                      const struct place_result *result)
{
    enum { SHOWN_MAX = 32 };
    const struct table_prediction *prediction = &result->prediction;
    return arena_print(
        arena,
        "%s\n%s\n%sPlaced: the busiest rank's tables take %s, no placement less than %s (gap %s; "
        "%d ways to hold them)\nMemory: %s of %s on the fullest device%s\n",
        head_text(arena, request), table_placement_text(arena, result->placement, SHOWN_MAX),
        speed_text(arena, request, prediction), units_seconds(arena, result->busiest_s),
        units_seconds(arena, result->bound_s), units_ratio(arena, result->gap_ratio),
        result->option_count, units_bytes(arena, (double)prediction->memory.device_bytes),
        units_bytes(arena, (double)prediction->device_limit_bytes),
        prediction->host_bytes
            ? arena_print(arena, ", %s of %s on the fullest host",
                          units_bytes(arena, (double)prediction->host_bytes),
                          units_bytes(arena, (double)prediction->host_limit_bytes))
            : "");
}

char *table_step_text(struct arena *arena, const struct table_plan *plan)
{
    const struct table_prediction *prediction = &plan->prediction;
    struct table table = table_new(arena, "llrrrr");
    table_row(&table, (const char *[]){"task", "stream", "begins", "takes", "bytes", "work"});
    for (int task = 0; task < TABLE_TASK_COUNT; task++) {
        const struct table_span *span = &prediction->spans[task];
        if (span->s <= 0) continue;
        table_row(&table,
                  (const char *[]){
                      table_task_name((enum table_task)task),
                      stream_name(table_task_stream((enum table_task)task)),
                      units_seconds(arena, span->start_s), units_seconds(arena, span->s),
                      span->bytes > 0 ? units_bytes(arena, span->bytes) : "",
                      span->flop > 0 ? arena_print(arena, "%.4g GFLOP", span->flop / 1e9) : ""});
    }
    return arena_print(arena, "%s\n%s\n%s", head_text(arena, &plan->request), table_text(&table),
                       speed_text(arena, &plan->request, prediction));
}

char *table_memory_text(struct arena *arena, const struct table_plan *plan)
{
    const struct table_prediction *prediction = &plan->prediction;
    const struct table_memory *memory = &prediction->memory;
    const struct {
        const char *what;
        int64_t bytes;
    } rows[] = {
        {"tables and their state", memory->tier_bytes[TIER_DEVICE]},
        {"towers, gradients, state", memory->dense_bytes},
        {"activations and exchanges", memory->activation_bytes},
        {"reserve of the software", memory->reserve_bytes},
        {"fullest device", memory->device_bytes},
        {"limit of a device", prediction->device_limit_bytes},
        {"fullest host", prediction->host_bytes},
        {"limit of a host", prediction->host_limit_bytes},
        {"fullest drives of a host", prediction->nvme_bytes},
        {"limit of its drives", prediction->nvme_limit_bytes},
    };
    struct table table = table_new(arena, "lr");
    table_row(&table, (const char *[]){"memory of a rank", "bytes"});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        table_row(&table,
                  (const char *[]){rows[i].what, units_bytes(arena, (double)rows[i].bytes)});
    return arena_print(arena, "%s\n%s\n%s\n", head_text(arena, &plan->request), table_text(&table),
                       prediction->fits ? "It fits." : "It does not fit.");
}

static const char *task_name_of(const void *context, const struct span *span, struct arena *scratch)
{
    (void)context;
    (void)scratch;
    return table_task_name((enum table_task)span->task);
}

struct trace table_trace(struct arena *arena, const struct table_prediction *prediction)
{
    struct trace trace = {.spans = ARENA_NEW(arena, struct span, TABLE_TASK_COUNT),
                          .rank_count = 1,
                          .task_name = task_name_of};
    for (int task = 0; task < TABLE_TASK_COUNT; task++) {
        const struct table_span *from = &prediction->spans[task];
        if (from->s <= 0) continue;
        struct span span = {.stream = table_task_stream((enum table_task)task),
                            .task = task,
                            .start_ns = llround(from->start_s * 1e9),
                            .end_ns = llround((from->start_s + from->s) * 1e9)};
        int64_t at = trace.span_count++;
        for (; at > 0 && (trace.spans[at - 1].start_ns > span.start_ns ||
                          (trace.spans[at - 1].start_ns == span.start_ns &&
                           trace.spans[at - 1].stream > span.stream));
             at--)
            trace.spans[at] = trace.spans[at - 1];
        trace.spans[at] = span;
    }
    assert(trace.span_count <= TABLE_TASK_COUNT);
    return trace;
}
