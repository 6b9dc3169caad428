#include "planner/meshes.h"

#include "planner/branches.h"
#include "planner/choice.h"
#include "planner/meshes_check.h"
#include "planner/meshes_giving.h"
#include "planner/scan.h"

#include <assert.h>
#include <string.h>

// Plans of the search that are given other meshes, of these the ones that are changed further, and
// those that are kept beside as many as are wanted.
enum { SEEDS = 8, CLIMBERS = 3, KEPT = 24 };

bool meshes_are_asked(const struct pins *pins)
{
    return pins->stage_tp_count > 0 || pins->search_stage_tp || pins->stage_ranks_count > 0 ||
           pins->search_stage_ranks;
}

// The seed's sequences a micro-batch where the stage with least tp can split them; else as often
// that many, and the fewest that it can.
static void try_meshes(struct giving *giving, const struct parallel *seed, const int *tps)
{
    assert(seed->degree[AXIS_TP] % meshes_smallest(tps, seed->degree[AXIS_PP]) == 0);
    struct parallel parallel = *seed;
    int stages = seed->degree[AXIS_PP],
        parts = seed->degree[AXIS_TP] / meshes_smallest(tps, stages);
    int64_t each = giving->split.request->workload.global_batch / seed->degree[AXIS_DP];
    int sizes[] = {seed->micro_batch % parts == 0 ? seed->micro_batch : seed->micro_batch * parts,
                   parts};
    parallel.stage_tp = tps;
    parallel.stage_tp_count = stages;
    for (int i = 0; i < 2; i++) {
        bool is_legal = each % sizes[i] == 0 && (i == 0 || sizes[1] != sizes[0]) &&
                        pins_allow(giving->asked, CHOICE_MICRO_BATCH, sizes[i]);
        parallel.micro_batch = sizes[i];
        if (!is_legal) continue;
        giving_find_reason(giving, &parallel);
        giving_try_layers(giving, &parallel);
    }
}

static const int *meshes_of(struct arena *arena, int stages, int first, int end, int inside,
                            int outside)
{
    assert(first >= 0 && first < end && end <= stages);
    int *tps = ARENA_NEW(arena, int, stages);
    for (int s = 0; s < stages; s++)
        tps[s] = s >= first && s < end ? inside : outside;
    return tps;
}

static void try_all(struct giving *giving, const struct parallel *seed)
{
    int stages = seed->degree[AXIS_PP], tp = seed->degree[AXIS_TP];
    for (int less = 1; less < tp; less++) {
        if (tp % less != 0) continue;
        for (int cut = 1; cut < stages; cut++) {
            try_meshes(giving, seed, meshes_of(giving->arena, stages, 0, cut, less, tp));
            try_meshes(giving, seed, meshes_of(giving->arena, stages, cut, stages, less, tp));
        }
        if (stages < 3) continue;
        try_meshes(giving, seed, meshes_of(giving->arena, stages, 1, stages - 1, less, tp));
        try_meshes(giving, seed, meshes_of(giving->arena, stages, 1, stages - 1, tp, less));
    }
}

static void try_seed(struct giving *giving, const struct parallel *seed, bool is_first)
{
    const struct pins *asked = giving->asked;
    if (is_first || asked->search_stage_tp) giving_offer(giving, seed);
    if (asked->search_stage_tp)
        try_all(giving, seed);
    else
        try_meshes(giving, seed, asked->stage_tp);
}

// The best plans with one mesh that these pins leave, as seeds; with branches side by side where
// that is asked for.
static bool seek(struct giving *giving, const struct pins *pins, struct search_result *result,
                 struct err *err)
{
    struct search_request request = *giving->split.request;
    request.pins = *pins;
    request.pins.branches = BRANCHES_OFF;
    request.top = SEEDS;
    request.nothing = SEARCH_FITS_ONLY;
    *result = (struct search_result){0};
    if (!search_plans(giving->arena, &request, result, err)) return false;
    for (int i = 0; i < result->best_count; i++) {
        struct parallel forms[2];
        int count = giving_forms(giving, &result->best[i].parallel, forms);
        for (int f = 0; f < count; f++)
            try_seed(giving, &forms[f], !giving->answer->has_alike);
    }
    return true;
}

// Stages of pinned meshes, and the least sequences that each of them can split.
static bool seek_pinned(struct giving *giving, struct search_result *result, struct err *err)
{
    const struct pins *asked = giving->asked;
    struct pins pins = giving_seed_pins(giving->arena, asked);
    int most = meshes_largest(asked->stage_tp, asked->stage_tp_count);
    pins_set(&pins, CHOICE_TP, most, most);
    pins_set(&pins, CHOICE_PP, asked->stage_tp_count, asked->stage_tp_count);
    return seek(giving, &pins, result, err);
}

// Of the plans that any pins leave, and of those that have stages and tp at all.
static bool seek_any(struct giving *giving, struct search_result *result, struct err *err)
{
    struct pins pins = giving_seed_pins(giving->arena, giving->asked), piped = pins;
    int ranks = giving->split.request->cluster->rank_count;
    struct search_result more;
    struct err none = {0};
    bool is_mixed = !cluster_is_uniform(giving->split.request->cluster);
    if (is_mixed) (void)!giving_seek_alike(giving, &more, &none);
    none = (struct err){0};
    if (!seek(giving, &pins, result, err)) return false;
    if (ranks < 2) return true;
    if (!pins_get(&piped, CHOICE_TP).set) pins_set(&piped, CHOICE_TP, 2, ranks);
    if (!pins_get(&piped, CHOICE_PP).set) pins_set(&piped, CHOICE_PP, 2, ranks);
    (void)seek(giving, &piped, &more, &none);
    return true;
}

static void take_best(struct giving *giving, const struct search_request *request,
                      struct search_result *result)
{
    int wanted = request->top > 0 ? request->top : 1;
    const struct ranking *ranking = &giving->ranking;
    result->best = ARENA_NEW(giving->arena, struct candidate, wanted);
    result->best_count = 0;
    for (int i = 0; i < ranking->count && result->best_count < wanted; i++) {
        // Plans that were made better may have become one.
        const struct candidate *plan = &ranking->items[i];
        bool is_new =
            result->best_count == 0 ||
            candidate_compare(ranking->objective, &result->best[result->best_count - 1], plan) != 0;
        if (is_new) result->best[result->best_count++] = candidate_copy(giving->arena, plan);
    }
    assert(result->best_count >= 1 && "some plan was ranked");
    result->considered_count += giving->split.played_count;
    result->priced_count += giving->split.played_count;
    result->cut_count = 0;
    result->bound_s = result->layers_s = 0;
    result->bound_bytes = 0;
    if (result->status != SEARCH_STOPPED) result->status = SEARCH_FEASIBLE;
}

// Plans without numbers of ranks of their own have been changed where they were found.
static void climb(struct giving *giving)
{
    bool is_numbers = meshes_search_numbers(giving->asked);
    for (int i = 0, climbed = 0; climbed < CLIMBERS && i < giving->ranking.count; i++) {
        struct candidate *plan = &giving->ranking.items[i];
        if (is_numbers && plan->parallel.stage_ranks_count == 0) continue;
        giving_better(giving, plan);
        climbed++;
    }
    ranking_sort(&giving->ranking);
}

// Pinned numbers of ranks: given to plans of like stages, and shared out as those are that are
// searched, so that a pin does not lose to the search that finds it.
static bool seek_ranks(struct giving *giving, struct search_result *result, struct err *err)
{
    struct search_result divided = {0};
    struct err why = {0}, none = {0};
    bool is_given = giving_seek_ranks(giving, result, &why);
    bool is_divided = giving_seek_divisions(giving, &divided, &none);
    if (!is_given && is_divided) *result = divided;
    // Of these stages; shares of other meshes were only tried beside them.
    if (!is_given && !giving->refused.kind) giving->refused = why;
    return is_given || is_divided || err_set(err, why.kind, "%s", why.text);
}

static bool seek_asked(struct giving *giving, struct search_result *result, struct err *err)
{
    const struct pins *asked = giving->asked;
    if (asked->stage_ranks_count > 0 && !asked->search_stage_tp)
        return seek_ranks(giving, result, err);
    if (meshes_search_numbers(asked)) return giving_seek_divisions(giving, result, err);
    return asked->search_stage_tp ? seek_any(giving, result, err)
                                  : seek_pinned(giving, result, err);
}

// Degrees that follow from the meshes are no option that was given, and may be nothing else.
static bool refuse_following(struct arena *arena, const struct pins *asked, struct err *err)
{
    static const enum choice FOLLOWING[] = {CHOICE_TP, CHOICE_PP};
    for (size_t i = 0; i < sizeof FOLLOWING / sizeof *FOLLOWING; i++) {
        const char *option = arena_print(arena, "%s ", choice_option(arena, FOLLOWING[i]));
        bool follows =
            !pins_get(asked, FOLLOWING[i]).set && strncmp(err->text, option, strlen(option)) == 0;
        if (!follows) continue;
        char *reason = arena_copy(arena, err->text), *hint = strstr(reason, "; with all else");
        if (hint) *hint = '\0';
        *err = (struct err){0};
        return err_set(err, ERR_USAGE, "%s: %s", meshes_option(asked), reason);
    }
    return false;
}

bool meshes_search(struct arena *arena, const struct search_request *request,
                   struct search_result *result, struct meshes_answer *answer, struct err *err)
{
    struct search_request own = *request;
    *answer = (struct meshes_answer){.is_asked = true};
    if (!meshes_check_pinned(request, err)) return false;
    own.pins = giving_seed_pins(arena, &request->pins);
    struct giving giving = {.arena = arena,
                            .split = {.arena = arena, .request = &own},
                            .asked = &request->pins,
                            .ranking = ranking_new(arena, request->objective, KEPT + request->top),
                            .answer = answer,
                            .may_branch = branches_are_asked(request)};
    if (!seek_asked(&giving, result, err)) return refuse_following(arena, &request->pins, err);
    climb(&giving);
    if (giving.ranking.count > 0 && meshes_search_numbers(giving.asked)) {
        giving_seek_found(&giving);
        climb(&giving);
    }
    bool is_free = request->pins.search_stage_ranks && request->pins.stage_tp_count == 0;
    if (is_free) giving_make_plain(&giving);
    answer->played_count = giving.split.played_count;
    if (giving.ranking.count > 0) {
        take_best(&giving, request, result);
        return true;
    }
    if (giving.refused.kind) {
        (void)!err_set(err, ERR_USAGE, "%s", giving.refused.text);
        return refuse_following(arena, &request->pins, err);
    }
    if (!giving.has_size && giving.indivisible.kind)
        return err_set(err, ERR_USAGE, "%s", giving.indivisible.text);
    if (request->pins.search_stage_ranks)
        return err_set(err, ERR_USAGE,
                       "--stage-ranks auto: no plan fits, of one mesh or of any numbers of ranks");
    return err_set(err, ERR_USAGE, "%s: %s", meshes_option(&request->pins),
                   giving.has_size || result->best_count == 0
                       ? "no plan of these meshes fits"
                       : "no micro-batch that all of these stages can split divides the "
                         "sequences of a replica");
}
