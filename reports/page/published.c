#include "reports/page/published.h"
#include "core/file.h"
#include "validation/trial.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Twelve times the hidden size squared are the matrices of a layer, of whatever model: enough to
// say which of two is larger.
static double size_of(double layers, double hidden)
{
    assert(layers >= 0 && hidden >= 0);
    return 12 * layers * hidden * hidden;
}

// What one of both does not say is taken to be one step of the scale off.
static double factor(double a, double b)
{
    return a > 0 && b > 0 ? fabs(log(a / b)) : 1;
}

struct wanted {
    const struct evaluation_request *request;
    const struct graph *graph;
    const char *device;
};

// What a run of another kind says of this plan is least, of another device less, and so on; a
// factor of e in size counts one.
static double distance(const struct wanted *wanted, const struct row *row)
{
    const struct evaluation_request *request = wanted->request;
    const struct row_facts *facts = &row->facts;
    bool is_mixture = wanted->graph->expert_count > 0;
    double sum = (row->kind == ROW_KIND_MIXTURE) == is_mixture ? 0 : 6;
    if (strcmp(row->device, wanted->device) != 0) sum += 3;
    if (strcmp(row->stack, request->stack->name) != 0) sum += 1.5;
    if (row->precision != request->workload.precision) sum += 1;
    sum += factor(size_of(facts->model.layers, facts->model.hidden),
                  size_of(wanted->graph->layer_count, (double)wanted->graph->hidden));
    sum += 0.5 * factor(facts->gpus, request->cluster->rank_count);
    return sum + 0.25 * factor((double)facts->seq_len, (double)request->workload.seq_len);
}

// The same model on as many of the same GPUs.
static bool is_alike(const struct row *a, const struct row *b)
{
    return strcmp(a->model_name, b->model_name) == 0 && a->facts.gpus == b->facts.gpus &&
           strcmp(a->device, b->device) == 0;
}

// Keeps the nearest rows in place of the others, each but once; the order is that of nearness.
static void keep_nearest(struct arena *arena, const struct wanted *wanted, struct rows *rows)
{
    struct row *kept = ARENA_NEW(arena, struct row, PUBLISHED_MAX);
    double least = 0;
    int count = 0;
    while (count < PUBLISHED_MAX) {
        const struct row *best = NULL;
        for (int i = 0; i < rows->count; i++) {
            const struct row *row = &rows->items[i];
            bool is_known = row->step_s > 0 && row->tier == 'A';
            for (int k = 0; k < count; k++)
                is_known = is_known && !is_alike(row, &kept[k]);
            if (!is_known) continue;
            double own = distance(wanted, row);
            if (!best || own < least) best = row, least = own;
        }
        if (!best) break;
        kept[count++] = *best;
    }
    assert(count <= PUBLISHED_MAX);
    rows->items = kept;
    rows->count = count;
}

static struct published_run run_of(const struct trial *trial)
{
    const struct row *row = trial->row;
    return (struct published_run){.id = row->id,
                                  .model = row->model_name,
                                  .source = row->source,
                                  .device = row->device,
                                  .stack = row->stack,
                                  .gpus = row->facts.gpus,
                                  .seq_len = row->facts.seq_len,
                                  .global_batch = row->facts.global_batch,
                                  .precision = row->precision,
                                  .measured_s = row->step_s,
                                  .predicted_s = trial->prediction.step_s};
}

bool published_find(struct arena *arena, const struct evaluation_request *request,
                    const struct evaluation *evaluation, struct published *published,
                    struct err *err)
{
    *published = (struct published){0};
    const char *path = file_find_built(arena, "validation/published.jsonl");
    if (!path) return true;
    struct rows *rows = ARENA_NEW(arena, struct rows, 1);
    if (!rows_read(arena, path, rows, err)) return false;
    const struct wanted wanted = {
        request, evaluation->graph,
        cluster_slowest_device(request->cluster, request->workload.precision)->name};
    keep_nearest(arena, &wanted, rows);
    struct trials trials = {0};
    trials_ask(arena, rows, QUESTION_STATED, &trials);
    if (!trials_answer(arena, &trials, NULL, NULL, err)) return false;
    assert(trials.count <= PUBLISHED_MAX);
    for (int i = 0; i < trials.count; i++) {
        if (trials.items[i].answered)
            published->runs[published->count++] = run_of(&trials.items[i]);
    }
    return true;
}
