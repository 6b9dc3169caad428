#include "planner/plan_keep.h"

#include "planner/choice.h"
#include "planner/keep_plan.h"
#include "planner/space.h"
#include "simulator/unlike.h"

#include <assert.h>
#include <string.h>

struct keeping {
    struct arena *arena, *scratch;
    const struct plan_keep_request *request;
    struct search_request search;  // as the composer wants to be asked
    struct composer *composer;
    int recomputes[SPACE_VALUE_MAX];
    struct keep_question question;
    struct keep_plan *plan;
    int64_t *needed_bytes;
};

static bool check(const struct plan_keep_request *request, struct err *err)
{
    const struct parallel *parallel = &request->request->parallel;
    bool recomputes_some = parallel->recompute != RECOMPUTE_NONE && parallel->recompute_layers >= 0;
    if (recomputes_some && !request->may_recompute)
        return err_set(err, ERR_USAGE,
                       "the plan recomputes %d layers of each stage: say --recompute auto as well",
                       parallel->recompute_layers);
    if (offload_keeps_some(&parallel->offload))
        return err_set(
            err, ERR_USAGE,
            "some of the plan's parameters stay between two uses: only --offload moments "
            "chooses that again");
    if (offload_moves_activations(&parallel->offload) && !request->may_move)
        return err_set(err, ERR_USAGE, "the plan moves activations: say --offload auto as well");
    return true;
}

static void start(struct keeping *keeping)
{
    const struct evaluation_request *of = keeping->request->request;
    keeping->search = (struct search_request){.model = of->model,
                                              .cluster = of->cluster,
                                              .stack = of->stack,
                                              .fabrics = of->fabrics,
                                              .workload = of->workload,
                                              .pins = pins_none()};
    // What blocks are lowered with once for all plans of a search is that of this plan.
    struct pins *pins = &keeping->search.pins;
    pins->passes = (int)of->parallel.passes;
    pins->lora = (int)choice_value(&of->parallel, CHOICE_LORA);
    pins->search_parameters = of->parallel.offload.parameters;
    pins->layouts = of->parallel.layouts;
    struct memo *memo = memo_new(keeping->arena, keeping->scratch, &keeping->search);
    struct parallel parallel = of->parallel;
    parallel.accumulates = stack_accumulates(of->stack, &parallel, of->workload.global_batch);
    // Beside classes that move in unlike numbers of layers states leave of all or of none.
    if (keeping->request->may_move)
        parallel.offload.optimizer_layers = parallel.offload.parameter_layers =
            parallel.offload.gradient_layers = 0;
    keeping->composer = composer_new(keeping->arena, keeping->scratch, memo);
    composer_group(keeping->composer, &parallel);
    const struct graph *graph = memo_graph(memo, parallel.attention, parallel.degree[AXIS_TP]);
    struct space_values values = space_recomputes(&keeping->search, graph);
    memcpy(keeping->recomputes, values.values, sizeof keeping->recomputes);
    int stage_count = parallel.degree[AXIS_PP];
    int64_t *limits = ARENA_NEW(keeping->arena, int64_t, stage_count);
    for (int s = 0; s < stage_count; s++)
        limits[s] = keeping->request->options->capacity;
    keeping->question = (struct keep_question){
        .parallel = parallel,
        .recomputes = keeping->request->may_recompute ? keeping->recomputes : NULL,
        .recompute_count = keeping->request->may_recompute ? values.count : 0,
        .may_move = keeping->request->may_move,
        .is_planned = true,
        .limit_bytes = keeping->request->options->capacity > 0 ? limits : NULL,
    };
    keeping->plan = keep_plan_make(keeping->arena, keeping->composer, &keeping->question);
    keeping->needed_bytes = ARENA_NEW(keeping->arena, int64_t, stage_count);
}

static bool evaluate_plan(struct keeping *keeping, const struct parallel *parallel,
                          struct plan_kept *kept, struct err *err)
{
    kept->request = *keeping->request->request;
    kept->request.parallel = *parallel;
    kept->evaluation = ARENA_NEW(keeping->arena, struct evaluation, 1);
    return evaluate(keeping->arena, keeping->scratch, &kept->request, kept->evaluation, err);
}

// What each stage lacks of its limit, with the arena it was given.
static void judge(struct keeping *keeping, struct plan_kept *kept)
{
    assert(kept->evaluation->program->shape.stage_count == keeping->plan->problem.stage_count);
    const struct evaluation *evaluation = kept->evaluation;
    int64_t capacity = keeping->request->options->capacity;
    kept->lack_bytes = hosts_shortfall(&evaluation->hosts);
    for (int s = 0; s < evaluation->program->shape.stage_count; s++) {
        const struct memory_parts *parts = &evaluation->stage_memory[s];
        int64_t device_bytes =
            unlike_stage_bytes(kept->request.cluster, &evaluation->program->mesh, s);
        int64_t lack =
            capacity > 0 ? parts->planned_bytes - capacity : parts->reserved_bytes - device_bytes;
        int64_t limit = keeping->plan->limit_bytes[s];
        keeping->needed_bytes[s] = parts->planned_bytes;
        // The reserve is that of what the memory model counts.
        if (lack > 0 && parts->planned_bytes < limit + lack)
            keeping->needed_bytes[s] = limit + lack;
        if (lack > kept->lack_bytes) kept->lack_bytes = lack;
    }
    kept->fits = kept->lack_bytes <= 0;
}

// Orders and lays out one choice.
static bool lay_out(struct keeping *keeping, const struct parallel *parallel,
                    struct plan_kept *kept, struct err *err)
{
    const struct memory_options *options = keeping->request->options;
    if (!evaluate_plan(keeping, parallel, kept, err) ||
        !plan_schedule_make(keeping->arena, keeping->scratch, kept->evaluation->program,
                            kept->request.stack, options, &kept->stages, err))
        return false;
    kept->schedule = plan_schedule_of(keeping->arena, &kept->stages, options->alignment);
    plan_schedule_apply(kept->schedule, kept->evaluation);
    judge(keeping, kept);
    return true;
}

static bool is_better(const struct plan_kept *a, const struct plan_kept *b)
{
    if (a->fits != b->fits) return a->fits;
    if (!a->fits) return a->lack_bytes < b->lack_bytes;
    return a->evaluation->prediction.step_s < b->evaluation->prediction.step_s;
}

static bool same_choice(const struct parallel *a, const struct parallel *b)
{
    return choice_value(a, CHOICE_RECOMPUTE) == choice_value(b, CHOICE_RECOMPUTE) &&
           choice_value(a, CHOICE_RECOMPUTE_LAYERS) == choice_value(b, CHOICE_RECOMPUTE_LAYERS) &&
           choice_value(a, CHOICE_OFFLOAD) == choice_value(b, CHOICE_OFFLOAD);
}

// The program works with mean layers, and some software recomputes all or none: what it finds no
// room for may still fit with all recomputed.
static bool try_all_recomputed(struct keeping *keeping, struct plan_kept *best, struct err *err)
{
    const struct keep_problem *problem = &keeping->plan->problem;
    for (int r = 1; r < problem->recompute_count; r++) {
        const struct keep_recompute *recompute = &problem->recomputes[r];
        int value = recompute_value(recompute->recompute, recompute->classes);
        struct parallel all = keep_plan_recomputing(keeping->plan, value, -1);
        struct plan_kept made = {.round_count = best->round_count};
        if (!lay_out(keeping, &all, &made, err)) return false;
        if (is_better(&made, best)) *best = made;
    }
    return true;
}

static bool run_rounds(struct keeping *keeping, struct plan_kept *best, struct err *err)
{
    struct milp_options options = {.log = keeping->request->options->log,
                                   .log_context = keeping->request->options->log_context};
    struct parallel before = {0};
    int round = 0;
    for (; round < PLAN_KEEP_ROUNDS; round++) {
        struct keep_result result = keep_solve(keeping->arena, &keeping->plan->problem, &options);
        struct parallel chosen = keep_plan_chosen(keeping->plan, &result);
        keep_plan_round(keeping->request->request->stack, &chosen);
        if (round > 0 && same_choice(&chosen, &before)) break;
        struct plan_kept made = {0};
        if (!lay_out(keeping, &chosen, &made, err)) return false;
        if (round == 0 || is_better(&made, best)) *best = made;
        keep_plan_learn(keeping->plan, &result, keeping->needed_bytes);
        before = chosen;
    }
    best->round_count = round;
    return best->fits || try_all_recomputed(keeping, best, err);
}

bool plan_keep(struct arena *arena, struct arena *scratch, const struct plan_keep_request *request,
               struct plan_kept *kept, struct err *err)
{
    struct keeping keeping = {.arena = arena, .scratch = scratch, .request = request};
    struct plan_kept all = {0};
    if (!check(request, err)) return false;
    // The composer is asked about legal plans only.
    if (!evaluate_plan(&keeping, &request->request->parallel, &all, err)) return false;
    start(&keeping);
    if (!evaluate_plan(&keeping, &keeping.plan->base, &all, err) ||
        !run_rounds(&keeping, kept, err))
        return false;
    assert(kept->fits == (kept->lack_bytes <= 0));
    kept->kept_s = all.evaluation->prediction.step_s;
    kept->reserved_bytes = all.evaluation->prediction.reserved_bytes;
    return true;
}
