#include "reports/table/step_table.h"
#include "core/table.h"
#include "core/units.h"
#include "reports/table/band_text.h"
#include "reports/table/layout_legend.h"
#include "reports/table/model_text.h"
#include "reports/table/money_text.h"
#include "reports/table/plan_table.h"
#include "reports/table/reliability_text.h"

#include <assert.h>

static void add_part(struct table *table, const char *name, double seconds, double step_s)
{
    assert(step_s > 0);
    struct arena *arena = table->arena;
    if (seconds <= 0) return;
    const char *cells[] = {name, units_seconds(arena, seconds),
                           units_percent(arena, seconds / step_s)};
    table_row(table, cells);
}

static char *breakdown_text(struct arena *arena, const struct cost *cost)
{
    struct table table = table_new(arena, "lrr");
    static const char *const HEADER[] = {"part of the step", "time", "share"};
    table_row(&table, HEADER);
    add_part(&table, "compute", cost->compute_s, cost->step_s);
    add_part(&table, "recompute", cost->recompute_s, cost->step_s);
    add_part(&table, "exposed tp communication", cost->exposed_s[PART_TP], cost->step_s);
    add_part(&table, "exposed cp communication", cost->exposed_s[PART_CP], cost->step_s);
    add_part(&table, "exposed ep communication", cost->exposed_s[PART_EP], cost->step_s);
    add_part(&table, "exposed dp communication", cost->exposed_s[PART_DP], cost->step_s);
    add_part(&table, "exposed pp communication", cost->exposed_pp_s, cost->step_s);
    add_part(&table, "exposed offload copies", cost->exposed_s[PART_OFFLOAD], cost->step_s);
    add_part(&table, "stage imbalance", cost->imbalance_s, cost->step_s);
    add_part(&table, "bubble", cost->bubble_s, cost->step_s);
    add_part(&table, "update", cost->update_s, cost->step_s);
    add_part(&table, "overhead", cost->overhead_s, cost->step_s);
    add_part(&table, "step", cost->step_s, cost->step_s);
    return table_text(&table);
}

enum { STAGE_ROWS_MAX = 16 };

// Where the memory schedule of the plan has one arena for all that comes and goes, it stands in the
// place of three.
static void add_stage(struct table *table, const struct memory_parts *memory, int stage,
                      bool is_planned)
{
    const int64_t bytes[] = {
        memory->weights_bytes,   memory->gradients_bytes,
        memory->optimizer_bytes, is_planned ? memory->planned_bytes : memory->activations_bytes,
        memory->transient_bytes, memory->logits_bytes,
        memory->buffers_bytes,   memory->peak_bytes};
    enum { COUNT = sizeof bytes / sizeof *bytes, TRANSIENT = 4, BUFFERS = 6 };
    const char *cells[1 + COUNT];
    int count = 0;
    cells[count++] = arena_print(table->arena, "%d", stage);
    for (int i = 0; i < COUNT; i++) {
        if (is_planned && i >= TRANSIENT && i < BUFFERS) continue;
        cells[count++] = units_bytes(table->arena, (double)bytes[i]);
    }
    table_row(table, cells);
}

static char *memory_text(struct arena *arena, const struct evaluation *evaluation)
{
    assert(evaluation->program->shape.stage_count > 0);
    static const char *const HEADER[] = {"stage",     "weights",     "grads",
                                         "optimizer", "activations", "working",
                                         "logits",    "buffers",     "allocated"};
    static const char *const PLANNED_HEADER[] = {"stage",   "weights", "grads",    "optimizer",
                                                 "planned", "buffers", "allocated"};
    bool is_planned = evaluation->prediction.planned_bytes > 0;
    struct table table = table_new(arena, is_planned ? "rrrrrrr" : "rrrrrrrrr");
    table_row(&table, is_planned ? PLANNED_HEADER : HEADER);
    int stage_count = evaluation->program->shape.stage_count;
    for (int stage = 0; stage < stage_count && stage < STAGE_ROWS_MAX; stage++) {
        add_stage(&table, &evaluation->stage_memory[stage], stage, is_planned);
    }
    char *text = table_text(&table);
    if (stage_count <= STAGE_ROWS_MAX) return text;
    return arena_print(arena, "%s... %d more stages\n", text, stage_count - STAGE_ROWS_MAX);
}

// What of the plan's work was measured, where a table of measured kernels is used.
static const char *measured_text(struct arena *arena, const struct measured_use *use)
{
    if (!use->table) return "";
    return arena_print(arena,
                       "Measured: %d of %d GEMMs and attentions, by %d rows of kernel "
                       "table %s (%s)\n",
                       use->price_count, use->kernel_count, use->row_count, use->table->name,
                       use->table->date);
}

char *step_table_text(struct arena *arena, const struct evaluation_request *request,
                      const struct evaluation *evaluation)
{
    const struct memory_parts *worst = &evaluation->stage_memory[evaluation->worst_stage];
    const struct prediction *prediction = &evaluation->prediction;
    const char *fit = memory_band_text(arena, prediction, evaluation->graph, request->stack->name);
    const char *device = cluster_device_noun(request->cluster);
    struct layout_legend legend = {0};
    layout_legend_meet(&legend, &request->parallel, request->stack);
    return arena_print(
        arena,
        "%s on %s, seq %lld, batch %lld, %s, stack %s\n%s: %s a step, %s %s per %s, "
        "MFU %s\n%s%s%s%s\n%s%s\n%sStage %d needs most: %s allocated%s + %s reserve = %s reserved "
        "of "
        "%s.\n%s%s%s%s",
        model_text(arena, request->model->name, evaluation->graph),
        cluster_text(arena, request->cluster), (long long)request->workload.seq_len,
        (long long)request->workload.global_batch, precision_name(request->workload.precision),
        request->stack->name, parallel_text(arena, &request->parallel, request->stack),
        units_seconds(arena, prediction->step_s),
        units_count(arena, prediction->tokens_per_s_per_gpu), model_rate_text(evaluation->graph),
        device, units_ratio(arena, prediction->mfu_ratio),
        band_text(arena, prediction, evaluation->graph), prediction->band ? "\n" : "",
        money_text(arena, request->workload.tokens, prediction, device),
        measured_text(arena, &evaluation->measured), breakdown_text(arena, &prediction->cost),
        layout_legend_text(arena, &legend), memory_text(arena, evaluation), evaluation->worst_stage,
        units_bytes(arena, (double)worst->peak_bytes), worst->planned_bytes > 0 ? " (planned)" : "",
        units_bytes(arena, (double)worst->reserve_bytes),
        units_bytes(arena, (double)worst->reserved_bytes),
        units_bytes(arena, (double)prediction->device_bytes), *fit ? "Memory " : "", fit,
        *fit ? "\n" : "",
        reliability_text(arena, request->cluster, request->workload.tokens, prediction));
}
