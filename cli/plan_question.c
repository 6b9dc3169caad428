#include "cli/plan_question.h"

#include "cli/options.h"
#include "cli/plan_options.h"

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
    if (!plan_kernels(arena, kernels, &request->cluster, err)) return NULL;
    request->stack = stack_read(arena, &plan->stack, err);
    request->fabrics = request->stack ? fabrics_load(arena, err) : NULL;
    if (!request->fabrics || !fabrics_cover(request->fabrics, plan->cluster, err)) return NULL;
    request->bands = bands_load(arena, err);
    return request->bands ? plan : NULL;
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
