#include "planner/meshes_giving.h"

#include "plan/layout/rules.h"
#include "plan/stage_meshes.h"
#include "planner/branches.h"
#include "planner/choice.h"
#include "planner/meshes_check.h"
#include "planner/uneven.h"

#include <assert.h>

// Plans with one mesh for all stages, as many however few are wanted: which others are changed
// further hangs on them.
enum { ALIKE = 8 };

static void keep_alike(struct giving *giving, const struct candidate *played)
{
    assert(played->cost.step_s > 0);
    struct meshes_answer *answer = giving->answer;
    if (parallel_has_meshes(&played->parallel)) return;
    if (answer->has_alike && answer->alike_s <= played->cost.step_s) return;
    answer->has_alike = true;
    answer->alike_s = played->cost.step_s;
    answer->alike = parallel_copy(giving->arena, &played->parallel);
}

bool giving_is_asked(const struct giving *giving, const struct parallel *parallel)
{
    const struct pins *asked = giving->asked;
    bool is_asked = pins_allow(asked, CHOICE_DP, parallel->degree[AXIS_DP]) &&
                    pins_allow(asked, CHOICE_MICRO_BATCH, parallel->micro_batch);
    for (int s = 0; s < parallel->degree[AXIS_PP] && asked->stage_tp_count == 0; s++)
        is_asked = is_asked && pins_allow(asked, CHOICE_TP, parallel_stage_tp(parallel, s));
    return is_asked;
}

int giving_forms(const struct giving *giving, const struct parallel *plan, struct parallel forms[2])
{
    int count = 0;
    if (giving->asked->branches != BRANCHES_ON) forms[count++] = *plan;
    forms[count] = *plan;
    return count + (giving->may_branch && branches_put(giving->asked, &forms[count]));
}

void giving_offer(struct giving *giving, const struct parallel *parallel)
{
    struct candidate played;
    if (search_should_stop(giving->split.request)) return;
    if (!uneven_play(&giving->split, parallel, &played)) return;
    keep_alike(giving, &played);
    // What is pinned is what is wanted; the others say what it is worth.
    const struct pins *asked = giving->asked;
    bool is_any =
        meshes_search_numbers(asked) ? asked->stage_ranks_count == 0 : asked->search_stage_tp;
    bool is_wanted = is_any || parallel->stage_tp_count > 0 || parallel->stage_ranks_count > 0;
    for (int i = 0; i < giving->ranking.count && is_wanted; i++) {
        const struct candidate *known = &giving->ranking.items[i];
        is_wanted = candidate_compare(giving->ranking.objective, known, &played) != 0;
    }
    if (is_wanted) (void)ranking_offer(&giving->ranking, &played);
}

// What is pinned is refused with the reason where no plan can have it.
void giving_find_reason(struct giving *giving, const struct parallel *parallel)
{
    const struct search_request *request = giving->split.request;
    struct arena work = {0};
    bool is_any = giving->asked->search_stage_tp || giving->asked->search_stage_ranks;
    if (!giving->has_size && !is_any) {
        const struct graph *graph =
            evaluation_graph(&work, request->model, request->stack, parallel);
        (void)!program_check(graph, request->cluster, &request->workload, parallel,
                             &giving->refused);
    }
    giving->has_size = true;
    arena_free(&work);
}

static void try_fronts(struct giving *giving, const struct parallel *branched)
{
    assert(branched->branches && branched->degree[AXIS_PP] >= 2);
    const struct search_request *request = giving->split.request;
    struct arena work = {0};
    struct parallel parallel = *branched;
    int stages = branched->degree[AXIS_PP];
    const struct graph *graph = evaluation_graph(&work, request->model, request->stack, branched);
    const int *ranks = branched->stage_ranks_count > 0 ? branched->stage_ranks : NULL;
    parallel.stage_layers_count = stages;
    for (int front = 1; front < stages; front++) {
        parallel.stage_layers = branches_layers(giving->arena, graph, stages, front, 0, ranks);
        giving_offer(giving, &parallel);
    }
    arena_free(&work);
}

void giving_try_layers(struct giving *giving, const struct parallel *parallel)
{
    struct parallel layers = *parallel;
    bool is_open = giving->asked->stage_layers_count == 0;
    giving_offer(giving, parallel);
    if (parallel->branches && is_open) try_fronts(giving, parallel);
    if (!parallel->branches && uneven_layers(&giving->split, &layers))
        giving_offer(giving, &layers);
}

void giving_make_plain(struct giving *giving)
{
    for (int i = 0; i < giving->ranking.count; i++) {
        struct candidate *plan = &giving->ranking.items[i], played;
        struct parallel plain = stage_meshes_plain(&plan->parallel);
        if (plain.stage_ranks_count == plan->parallel.stage_ranks_count) continue;
        if (!uneven_play(&giving->split, &plain, &played)) continue;
        keep_alike(giving, &played);
        *plan = played;
    }
    ranking_sort(&giving->ranking);
}

// Layouts of single stages are of plans with numbers of ranks alone.
static void keep_layouts_of_all(struct arena *arena, struct pins *pins)
{
    struct layout_rule *rules = ARENA_NEW(arena, struct layout_rule, pins->layout_count);
    int count = 0;
    for (int i = 0; i < pins->layout_count; i++)
        if (!pins->layouts[i].is_of_stage) rules[count++] = pins->layouts[i];
    if (count == pins->layout_count) return;
    pins->layouts = rules;
    pins->layout_count = count;
}

// Of the search that finds the seeds.
struct pins giving_seed_pins(struct arena *arena, const struct pins *asked)
{
    struct pins pins = *asked;
    keep_layouts_of_all(arena, &pins);
    pins.stage_tp_count = pins.stage_ranks_count = 0;
    pins.search_stage_tp = pins.search_stage_ranks = false;
    pins.supposed = true;
    return pins;
}

void giving_keep_groups(const struct giving *giving, struct parallel *parallel)
{
    static const enum choice GROUPS[] = {CHOICE_ZERO_GROUP, CHOICE_ZERO_GRADIENTS,
                                         CHOICE_ZERO_PARAMETERS};
    for (int i = 0; i < 3; i++)
        if (!pins_get(giving->asked, GROUPS[i]).set) choice_put(parallel, GROUPS[i], 0);
}

bool giving_seek_alike(struct giving *giving, struct search_result *result, struct err *err)
{
    struct search_request request = *giving->split.request;
    struct uneven_answer answer;
    request.pins = giving_seed_pins(giving->arena, giving->asked);
    request.nothing = SEARCH_FITS_ONLY;
    if (request.top < ALIKE) request.top = ALIKE;
    *result = (struct search_result){0};
    if (!uneven_search(giving->arena, &request, result, &answer, err)) return false;
    for (int i = 0; i < result->best_count; i++)
        giving_offer(giving, &result->best[i].parallel);
    return true;
}
