#include "cli/plan_question.h"

#include "cli/options.h"
#include "cli/plan_options.h"

// Of how many the plan was selected: what its file says of the search; a plan written by hand was
// pinned.
static double selected_count(const struct plan *plan, struct err *err)
{
    struct json provenance = json_get(&plan->document, "provenance", err);
    if (err->kind || !json_is_object(&provenance) || !json_has(&provenance, "search")) return 0;
    struct json search = json_get(&provenance, "search", err);
    if (!json_is_object(&search) || !json_has(&search, "considered_count")) return 0;
    struct json count = json_get(&search, "considered_count", err);
    return json_f64(&count, 0, 1e300, err);
}

const struct plan *plan_question(struct arena *arena, const char *path, const char *kernels,
                                 struct evaluation_request *request, struct err *err)
{
    const struct plan *plan = plan_load(arena, path, err);
    if (!plan) return NULL;
    *request = (struct evaluation_request){
        .model = plan->model,
        .cluster = plan->cluster,
        .workload = plan->workload,
        .parallel = plan->parallel,
    };
    request->selected_count = selected_count(plan, err);
    if (err->kind) return NULL;
    if (!plan_kernels(arena, kernels, &request->cluster, err)) return NULL;
    request->stack = stack_read(arena, &plan->stack, err);
    request->fabrics = request->stack ? fabrics_load(arena, err) : NULL;
    if (!request->fabrics || !fabrics_cover(request->fabrics, plan->cluster, err)) return NULL;
    request->bands = bands_load(arena, err);
    return request->bands ? plan : NULL;
}

bool plan_override(struct arena *arena, double tokens,
                   const struct reliability_arguments *reliability,
                   const struct price_arguments *price, struct evaluation_request *request,
                   struct err *err)
{
    struct cluster *cluster = ARENA_NEW(arena, struct cluster, 1);
    *cluster = *request->cluster;
    reliability_apply(reliability, &cluster->failures);
    request->cluster = cluster;
    if (tokens > 0) request->workload.tokens = tokens;
    return price_apply(arena, price, &request->cluster, 1, err);
}

int plan_question_status(const char *path, struct err *err)
{
    if (err->kind == ERR_USAGE) {
        const struct err place = *err;
        *err = (struct err){0};
        err_set(err, ERR_INPUT, "%s: %.900s", path, place.text);
    }
    return exit_status(err);
}
