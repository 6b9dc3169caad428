#include "planner/rivals.h"
#include "planner/question.h"

#include <assert.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const struct rivals_row *one = a, *other = b;
    if (one->lead_ratio != other->lead_ratio) return one->lead_ratio < other->lead_ratio ? 1 : -1;
    if (one->constant != other->constant) return one->constant < other->constant ? -1 : 1;
    return one->ratio < other->ratio ? 1 : -1;
}

// Adds a row if another plan than the first is fastest with this constant changed. In whole
// nanoseconds, as events are played.
static void try_constant(struct arena *scratch, const struct bench_plan *plans, int constant,
                         double ratio, struct rivals *rivals)
{
    double first_s = bench_step_s(&plans[0], scratch, constant, ratio), best_s = first_s;
    int best = 0;
    for (int i = 1; i < rivals->plan_count; i++) {
        double step_s = bench_step_s(&plans[i], scratch, constant, ratio);
        if (step_s >= best_s - 0.5e-9) continue;
        best_s = step_s;
        best = i;
    }
    if (best == 0) return;
    rivals->rows[rivals->count++] = (struct rivals_row){
        .constant = &plans[0].bench->constants.items[constant],
        .ratio = ratio,
        .first = best,
        .lead_ratio = first_s / best_s - 1,
    };
}

static bool plan_of(struct arena *arena, struct arena *scratch,
                    const struct evaluation_request *request, const struct bench *bench,
                    struct bench_plan *plan, struct err *err)
{
    struct evaluation evaluation = {0};
    if (!evaluate(arena, scratch, request, &evaluation, err)) return false;
    *plan = bench_plan_new(arena, scratch, bench, evaluation.program);
    return true;
}

bool rivals_find(struct arena *arena, struct arena *scratch, const struct search_request *request,
                 const struct search_result *result, struct rivals *rivals, struct err *err)
{
    *rivals = (struct rivals){.plan_count = result->best_count};
    if (request->objective == OBJECTIVE_MEMORY || result->best_count < 2) return true;
    struct evaluation_request each = search_question(request, &result->best[0].parallel);
    const struct bench *bench = bench_new(arena, &each);
    struct bench_plan *plans = ARENA_NEW(arena, struct bench_plan, result->best_count);
    for (int i = 0; i < result->best_count; i++) {
        each.parallel = result->best[i].parallel;
        if (!plan_of(arena, scratch, &each, bench, &plans[i], err)) return false;
    }
    rivals->rows = ARENA_NEW(arena, struct rivals_row, 2 * bench->constants.count);
    for (int i = 0; i < bench->constants.count; i++) {
        try_constant(scratch, plans, i, 1.1, rivals);
        try_constant(scratch, plans, i, 0.9, rivals);
    }
    assert(rivals->count <= 2 * bench->constants.count);
    qsort(rivals->rows, (size_t)rivals->count, sizeof *rivals->rows, compare);
    return true;
}
