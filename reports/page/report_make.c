#include "reports/page/report_make.h"
#include "memory/plan_schedule.h"

#include <assert.h>
#include <string.h>

static bool evaluate_plan(struct arena *arena, struct arena *scratch, struct report *report,
                          struct err *err)
{
    struct evaluation_request *request = ARENA_NEW(arena, struct evaluation_request, 1);
    *request = *report->request;
    request->engine.want_trace = true;
    struct evaluation *evaluation = ARENA_NEW(arena, struct evaluation, 1);
    report->evaluation = evaluation;
    const struct plan_schedule *schedule = NULL;
    if (!evaluate(arena, scratch, request, evaluation, err) ||
        !plan_schedule_read(arena, &report->plan->memory, evaluation->program, request->stack,
                            &schedule, err))
        return false;
    if (schedule) plan_schedule_apply(schedule, evaluation);
    return true;
}

static struct candidate candidate_of(const struct parallel *parallel,
                                     const struct evaluation *evaluation)
{
    assert(evaluation->worst_stage >= 0);
    return (struct candidate){
        .parallel = *parallel,
        .cost = evaluation->prediction.cost,
        .memory = evaluation->stage_memory[evaluation->worst_stage],
        .worst_stage = evaluation->worst_stage,
        .host_short_bytes = hosts_shortfall(&evaluation->hosts),
        .simulated = true,
    };
}

// What the file says of the search; whoever made the plan by hand may leave it out.
static void read_search(const struct plan *plan, struct search_result *kept, struct err *err)
{
    kept->status = SEARCH_NOTHING_FITS;
    if (!json_has(&plan->document, "provenance")) return;
    struct json provenance = json_get(&plan->document, "provenance", err);
    if (err->kind || !json_has(&provenance, "search")) return;
    struct json search = json_get(&provenance, "search", err);
    struct json value = json_get(&search, "status", err);
    const char *status = json_text(&value, err);
    if (status && strcmp(status, "optimal") == 0) kept->status = SEARCH_OPTIMAL;
    if (status && strcmp(status, "best of") == 0) kept->status = SEARCH_BEST_OF;
    if (status && strcmp(status, "feasible") == 0) kept->status = SEARCH_FEASIBLE;
    if (status && strcmp(status, "stopped") == 0) kept->status = SEARCH_STOPPED;
    value = json_get(&search, "bound_s", err);
    kept->bound_s = json_f64(&value, 0, 1e18, err);
    value = json_get(&search, "considered_count", err);
    kept->considered_count = json_f64(&value, 0, 1e300, err);
    value = json_get(&search, "priced_count", err);
    kept->priced_count = json_f64(&value, 0, 1e300, err);
}

// The file keeps what was chosen and what came of it; the latter is worked out again, because the
// terms are wanted and because only numbers of one version can be compared.
static bool read_alternatives(struct arena *arena, struct arena *scratch, struct report *report,
                              struct err *err)
{
    const struct plan *plan = report->plan;
    struct search_result *kept = &report->kept;
    struct json list = {0};
    int count = 0;
    if (json_has(&plan->document, "alternatives")) {
        list = json_get(&plan->document, "alternatives", err);
        count = json_count(&list, err);
        if (err->kind) return false;
    }
    kept->best = ARENA_NEW(arena, struct candidate, count + 1);
    kept->best[kept->best_count++] = candidate_of(&plan->parallel, report->evaluation);
    for (int i = 0; i < count; i++) {
        struct json item = json_item(&list, i);
        struct json parallel = json_get(&item, "parallel", err);
        struct evaluation_request request = *report->request;
        request.parallel = (struct parallel){0};
        if (err->kind || !parallel_read(arena, &parallel, &request.parallel, err)) return false;
        struct evaluation evaluation = {0};
        if (!evaluate(arena, scratch, &request, &evaluation, err)) return false;
        kept->best[kept->best_count++] = candidate_of(&request.parallel, &evaluation);
    }
    return true;
}

static bool explain(struct arena *arena, struct arena *scratch, struct report *report,
                    struct err *err)
{
    const struct evaluation_request *request = report->request;
    const struct search_request search = {
        .model = request->model,
        .cluster = request->cluster,
        .stack = request->stack,
        .fabrics = request->fabrics,
        .workload = request->workload,
        .objective = OBJECTIVE_TIME,
    };
    report->explain.breakdown = breakdown_make(arena, scratch, request, report->evaluation);
    report->explain.sensitivity = sensitivity_make(arena, scratch, request, report->evaluation);
    return rivals_find(arena, scratch, &search, &report->kept, &report->explain.rivals, err);
}

enum { COUNTS_MAX = 16 };

// Halves and doubles of the plan's own count, between the ends.
static int gpu_counts(const struct report_options *options, int64_t own, int64_t counts[COUNTS_MAX])
{
    assert(own > 0);
    int64_t least = options->gpus_least ? options->gpus_least : own / 8;
    int64_t most = options->gpus_most ? options->gpus_most : own * 8;
    int64_t first = own;
    while (first % 2 == 0 && first / 2 >= least && first > 1)
        first /= 2;
    while (first < least)
        first *= 2;
    int count = 0;
    for (int64_t gpus = first; gpus <= most && count < COUNTS_MAX; gpus *= 2)
        counts[count++] = gpus;
    assert(count <= COUNTS_MAX);
    return count;
}

// The plan's cluster with so many GPUs; NULL where it cannot have them.
static const struct cluster *cluster_of(struct arena *arena, const struct cluster *cluster,
                                        int64_t gpus)
{
    assert(gpus > 0);
    struct err err = {0};
    struct cluster *copy = cluster_copy_nodes(arena, cluster);
    if (gpus == cluster->rank_count) return copy;
    int64_t each = cluster->nodes[0].gpus;
    if (gpus > cluster->rank_count &&
        (cluster->node_group_count > 1 || !cluster_set_nodes(copy, (gpus + each - 1) / each, &err)))
        return NULL;
    return cluster_take_gpus(copy, gpus, &err) ? copy : NULL;
}

static bool scale(struct arena *arena, const struct report_options *options, struct report *report,
                  struct err *err)
{
    if (options->no_scaling) return true;
    const struct evaluation_request *request = report->request;
    int64_t counts[COUNTS_MAX];
    int wanted = gpu_counts(options, request->cluster->rank_count, counts), count = 0;
    struct scenario *scenarios = ARENA_NEW(arena, struct scenario, wanted);
    for (int i = 0; i < wanted; i++) {
        const struct cluster *cluster = cluster_of(arena, request->cluster, counts[i]);
        if (!cluster) continue;
        scenarios[count++] = (struct scenario){
            .label = arena_print(arena, "%lld GPUs", (long long)counts[i]),
            .cluster = cluster,
            .workload = request->workload,
            .pins = {.sp = -1,
                     .cp_kind = -1,
                     .recompute = -1,
                     .schedule = -1,
                     .attention = -1,
                     .overlap = -1,
                     .passes = -1},
            .tokens = request->workload.tokens,
        };
    }
    const struct scenario_request asked = {
        .model = request->model,
        .stack = request->stack,
        .fabrics = request->fabrics,
        .bands = request->bands,
        .objective = OBJECTIVE_TIME,
        .progress = options->progress,
        .progress_context = options->progress_context,
    };
    struct scenario_outcome *outcomes = ARENA_NEW(arena, struct scenario_outcome, count);
    if (!scenarios_run(arena, &asked, scenarios, count, outcomes, err)) return false;
    report->scaling = scenarios;
    report->scaled = outcomes;
    report->scaling_count = count;
    return true;
}

bool report_make(struct arena *arena, struct arena *scratch, const struct report_options *options,
                 struct report *report, struct err *err)
{
    if (!evaluate_plan(arena, scratch, report, err)) return false;
    read_search(report->plan, &report->kept, err);
    if (err->kind || !read_alternatives(arena, scratch, report, err)) return false;
    if (!explain(arena, scratch, report, err)) return false;
    report->neighbours =
        neighbours_find(arena, scratch, report->request, report->evaluation->graph);
    if (!published_find(arena, report->request, report->evaluation, &report->published, err))
        return false;
    return scale(arena, options, report, err);
}

bool report_measured(struct arena *arena, struct arena *scratch, const char *path,
                     struct report *report, struct err *err)
{
    const struct evaluation *evaluation = report->evaluation;
    struct measured_run *run = ARENA_NEW(arena, struct measured_run, 1);
    if (!measured_run_read(arena, path, report->plan->document.document->text, evaluation->program,
                           run, err))
        return false;
    report->run = run;
    report->ranks = run_ranks_make(arena, scratch, report->request, evaluation, &run->trace);
    return true;
}

bool report_inject(struct arena *arena, struct arena *scratch, const struct injection *injection,
                   struct report *report, struct err *err)
{
    report->injection = injection;
    return inject(arena, scratch, report->request, report->evaluation, injection, true,
                  &report->injected, err);
}
