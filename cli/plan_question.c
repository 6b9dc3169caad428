#include "cli/plan_question.h"

#include "cli/options.h"
#include "library/inquiry.h"

const struct plan *plan_question(struct arena *arena, const char *path, const char *kernels,
                                 struct evaluation_request *request, struct err *err)
{
    const struct plan *plan = plan_load(arena, path, err);
    return plan && inquiry_of_plan(arena, plan, kernels, request, err) ? plan : NULL;
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
