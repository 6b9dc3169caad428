#include "planner/per_operator.h"

#include "planner/question.h"
#include "planner/ranking.h"
#include "simulator/unlike.h"

#include <assert.h>
#include <string.h>

// The plan as the events play it. Layouts are priced on the slowest device: where ranks are unlike
// the seconds that are told are those of the events.
static bool judge(const struct search_request *request, struct per_operator *layouts,
                  struct candidate *plan, struct err *err)
{
    struct arena work = {0}, scratch = {0};
    struct evaluation_request asked = search_question(request, &layouts->parallel);
    struct evaluation evaluation = {0};
    bool done = evaluate(&work, &scratch, &asked, &evaluation, err);
    if (done && unlike_is(&asked, evaluation.program)) {
        layouts->table_s = plan->cost.step_s;
        layouts->found_s = evaluation.simulation->cost.step_s;
    }
    if (done) {
        plan->parallel = layouts->parallel;
        plan->closed_form_s = layouts->found_s;
        plan->cost = evaluation.simulation->cost;
        plan->memory = evaluation.stage_memory[evaluation.worst_stage];
        plan->worst_stage = evaluation.worst_stage;
        plan->simulated = true;
    }
    arena_free(&scratch);
    arena_free(&work);
    return done;
}

static void put_first(struct arena *arena, struct search_result *result,
                      const struct candidate *plan)
{
    struct candidate *best = ARENA_NEW(arena, struct candidate, result->best_count + 1);
    best[0] = *plan;
    memcpy(best + 1, result->best, (size_t)result->best_count * sizeof *best);
    result->best = best;
    result->best_count++;
    // No bound of the table's plans is one of these.
    result->status = SEARCH_BEST_OF;
    if (result->bound_s > plan->closed_form_s) result->bound_s = plan->closed_form_s;
}

bool per_operator_improve(struct arena *arena, const struct search_request *request,
                          struct search_result *result, int wanted,
                          struct per_operator_found *found, struct err *err)
{
    assert(result->best_count >= 1);
    struct arena known = {0}, scratch = {0};
    struct candidate best = result->best[0];
    bool ok = true;
    *found = (struct per_operator_found){.was = result->best[0]};
    if (!stack_lays_out(request->stack))
        return err_set(err, ERR_USAGE, "--per-operator: stack %s lays no operator out by itself",
                       request->stack->name);
    struct layout_memo *memo = layout_memo_new(&known, &scratch, request);
    for (int i = 0; i < result->best_count && i < PER_OPERATOR_PLANS && ok; i++) {
        struct evaluation_request asked = search_question(request, &result->best[i].parallel);
        struct per_operator layouts = per_operator_find(arena, &scratch, memo, &asked);
        struct candidate plan = result->best[i];
        found->plan_count++;
        found->priced_count += layouts.priced_count;
        if (i == 0) found->best = layouts;
        if (layouts.change_count == 0) continue;
        ok = judge(request, &layouts, &plan, err);
        if (!ok || candidate_compare(request->objective, &plan, &best) >= 0) continue;
        best = plan;
        found->best = layouts;
        found->is_better = true;
    }
    arena_free(&scratch);
    arena_free(&known);
    if (ok && found->is_better) put_first(arena, result, &best);
    if (result->best_count > wanted) result->best_count = wanted;
    return ok;
}
