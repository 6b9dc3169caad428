#include "planner/idle.h"
#include "core/divisor.h"
#include "planner/bound.h"
#include "planner/memo.h"
#include "planner/ranking.h"
#include "planner/scan.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct cluster *idle_cluster(struct arena *arena, const struct cluster *cluster, int gpus)
{
    struct err err = {0};
    struct cluster *copy = cluster_copy_nodes(arena, cluster);
    bool taken = cluster_take_gpus(copy, gpus, &err);
    assert(taken && "fewer GPUs than there are");
    (void)taken;
    copy->idle_gpus = cluster_rented_count(cluster) - gpus;
    assert(copy->idle_gpus >= 0 && "more GPUs are rented than work");
    return copy;
}

// A count that has a plan below the limit, by its closed form.
struct count {
    int gpus;
    double step_s;
};

static int compare_counts(const void *a, const void *b)
{
    const struct count *first = a, *second = b;
    if (first->step_s != second->step_s) return first->step_s < second->step_s ? -1 : 1;
    return second->gpus - first->gpus;
}

// The closed form of the best plan on so many GPUs, when it is below `below_s`; INFINITY otherwise.
static double best_of(const struct search_request *request, const struct bound_facts *facts,
                      int gpus, double below_s)
{
    struct arena work = {0};
    struct candidate best = {0};
    struct search_request fewer = *request;
    fewer.cluster = idle_cluster(&work, request->cluster, gpus);
    fewer.below_s = isfinite(below_s) ? below_s : 0;
    double step_s = INFINITY;
    if (bound_work_s(&fewer, facts) < below_s && scan_best(&work, &fewer, &best)) {
        step_s = best.closed_form_s;
    }
    arena_free(&work);
    return step_s;
}

// What classes of operators gain is found by the whole search alone: no closed form of whole layers
// bounds it.
static bool is_refined(const struct search_request *request)
{
    return request->pins.search_offload && !request->pins.offload.set;
}

// The whole search on so many GPUs; false where there is no plan.
static bool search_count(struct arena *arena, const struct search_request *request, int gpus,
                         const struct cluster **cluster, struct search_result *result)
{
    struct err refused = {0};
    struct search_request fewer = *request;
    *cluster = idle_cluster(arena, request->cluster, gpus);
    fewer.cluster = *cluster;
    fewer.nothing = SEARCH_FITS_ONLY;
    return search_plans(arena, &fewer, result, &refused) && result->best_count > 0;
}

static bool is_before(const struct search_result *a, int a_gpus, const struct search_result *b,
                      int b_gpus)
{
    int64_t a_ns = step_ns(a->best[0].cost.step_s), b_ns = step_ns(b->best[0].cost.step_s);
    return a_ns != b_ns ? a_ns < b_ns : a_gpus > b_gpus;
}

// The best of the counts searched so far, and those put off.
struct hunt {
    struct arena *arena;
    const struct search_request *request;
    struct bound_facts facts;
    struct idle_answer *answer;
    struct search_result *result;
    double best_s;  // INFINITY: no count has a plan yet
    struct count *later;
    int later_count;
};

static void try_count(struct hunt *hunt, int gpus)
{
    struct search_result other = {0};
    const struct cluster *cluster = NULL;
    hunt->answer->searched_count++;
    assert(gpus >= 1 && gpus <= hunt->request->cluster->rank_count);
    if (!search_count(hunt->arena, hunt->request, gpus, &cluster, &other)) return;
    bool has_best = isfinite(hunt->best_s);
    int best_gpus = hunt->answer->cluster->rank_count;
    if (has_best && !is_before(&other, gpus, hunt->result, best_gpus)) return;
    *hunt->result = other;
    hunt->answer->cluster = cluster;
    hunt->best_s = other.best[0].cost.step_s;
}

// A count whose closed form is below the best step is searched at once, so that there is a good
// answer whenever the hunt is stopped; one that only the events may put first is put off.
static void try_closely(struct hunt *hunt, int gpus)
{
    bool refined = is_refined(hunt->request);
    double limit_s = refined ? INFINITY : hunt->best_s / IDLE_EVENTS_RATIO;
    double step_s = best_of(hunt->request, &hunt->facts, gpus, limit_s);
    if (step_s >= limit_s) return;
    if (refined || step_s < hunt->best_s) {
        try_count(hunt, gpus);
    } else {
        hunt->later[hunt->later_count++] = (struct count){gpus, step_s};
    }
}

static void try_later(struct hunt *hunt)
{
    if (hunt->later_count == 0) return;
    qsort(hunt->later, (size_t)hunt->later_count, sizeof *hunt->later, compare_counts);
    for (int i = 0; i < hunt->later_count && !search_should_stop(hunt->request); i++) {
        if (hunt->later[i].step_s * IDLE_EVENTS_RATIO >= hunt->best_s) return;
        try_count(hunt, hunt->later[i].gpus);
    }
}

bool idle_search(struct arena *arena, const struct search_request *request,
                 struct idle_answer *answer, struct search_result *result, struct err *err)
{
    assert(request->objective != OBJECTIVE_MEMORY);
    struct err refused = {0};
    struct arena work = {0};
    *answer = (struct idle_answer){.cluster = request->cluster, .searched_count = 1};
    if (!search_check_request(request, err)) return false;
    bool done = search_plans(arena, request, result, &refused);
    if (!done && refused.kind != ERR_USAGE) {
        return err_set(err, refused.kind, "%s", refused.text);
    }
    struct hunt hunt = {
        .arena = arena,
        .request = request,
        .facts = bound_facts_of(request),
        .answer = answer,
        .result = result,
        .best_s = INFINITY,
        .later = ARENA_NEW(&work, struct count, request->cluster->rank_count),
    };
    if (done && result->best_count > 0) hunt.best_s = answer->all_s = result->best[0].cost.step_s;
    int gpus = request->cluster->rank_count - 1;
    for (; gpus > 0 && !search_should_stop(request); gpus--) {
        try_closely(&hunt, gpus);
    }
    try_later(&hunt);
    arena_free(&work);
    if (search_should_stop(request)) {
        result->status = SEARCH_STOPPED;
        result->bound_s = result->layers_s = 0;
    }
    if (isfinite(hunt.best_s) || done) return true;
    return err_set(err, refused.kind, "%s", refused.text);
}

static int compare_ints_descending(const void *a, const void *b)
{
    return *(const int *)b - *(const int *)a;
}

enum { HINTS_MAX = 64 };

// Of many GPUs no less than this share, and the largest counts only: each costs about a search.
static const double HINT_LEAST_RATIO = 0.75;
enum { HINT_SMALL_COUNT = 64, HINT_MOST = 2 };
// Where all GPUs have no plan, the first count that has one will do.
enum { HINT_MOST_OF_NONE = 8 };

// GPUs of a layout whose degrees are all pinned; 0: they are not.
static int pinned_count(const struct pins *pins)
{
    static const enum axis AXES[] = {AXIS_TP, AXIS_CP, AXIS_PP, AXIS_DP};
    double count = 1;
    for (size_t i = 0; i < sizeof AXES / sizeof *AXES; i++) {
        const struct int_range *range = &pins->degree[AXES[i]];
        bool is_free = AXES[i] == AXIS_CP && !range->set;  // then the search tries 1 as well
        if (!is_free && (!range->set || range->low != range->high)) return 0;
        if (!is_free) count *= (double)range->low;
    }
    count *= pins->degree[AXIS_SP_H].set ? (double)pins->degree[AXIS_SP_H].low : 1;
    count *= pins->degree[AXIS_SP_W].set ? (double)pins->degree[AXIS_SP_W].low : 1;
    return count <= CLUSTER_GPUS_MAX ? (int)count : 0;
}

// The counts that are asked, each once, the largest first; of a pinned layout its own.
static int hint_counts(const struct search_request *request, int most, int counts[HINTS_MAX])
{
    int all = request->cluster->rank_count, count = 0, pinned = pinned_count(&request->pins);
    if (pinned > 0) {
        counts[0] = pinned;
        return pinned < all;
    }
    int divisor = all;
    while (request->workload.global_batch % divisor != 0)
        divisor--;
    counts[count++] = all / divisor * divisor;
    for (int each = 1; each <= all / 2 && count < HINTS_MAX; each *= 2) {
        counts[count++] = all / each * each;
    }
    qsort(counts, (size_t)count, sizeof *counts, compare_ints_descending);
    int kept = 0;
    for (int i = 0; i < count; i++) {
        bool is_new = counts[i] < all && (kept == 0 || counts[kept - 1] != counts[i]);
        if (all > HINT_SMALL_COUNT && counts[i] < HINT_LEAST_RATIO * all) break;
        if (is_new && kept < most) counts[kept++] = counts[i];
    }
    return kept;
}

// Data parallelism can take what the batch divides by, and the GPUs of a node what is left of a
// large cluster: no smaller count splits the work more evenly.
static bool is_even(const struct search_request *request)
{
    int all = request->cluster->rank_count;
    int64_t rest = all / common_divisor(request->workload.global_batch, all);
    if (pinned_count(&request->pins) > 0) return false;
    if (all <= HINT_SMALL_COUNT) return rest == 1;
    for (int i = 0; i < request->cluster->node_group_count; i++) {
        if (request->cluster->nodes[i].gpus % rest != 0) return false;
    }
    return true;
}

struct idle_hint idle_hint(const struct search_request *request, double best_s)
{
    struct idle_hint hint = {0};
    int counts[HINTS_MAX], most = isinf(best_s) ? HINT_MOST_OF_NONE : HINT_MOST;
    int count = is_even(request) ? 0 : hint_counts(request, most, counts);
    struct err refused = {0};
    if (count == 0 || request->objective == OBJECTIVE_MEMORY) return hint;
    if (!search_check_request(request, &refused)) return hint;
    struct search_request quick = *request;
    quick.exhaustive = false;
    struct bound_facts facts = bound_facts_of(&quick);
    double below_s = best_s * (1 - IDLE_HINT_RATIO);
    for (int i = 0; i < count && !search_should_stop(request); i++) {
        double step_s = best_of(&quick, &facts, counts[i], below_s);
        if (step_s >= below_s) continue;
        hint = (struct idle_hint){counts[i], step_s};
        if (isinf(best_s)) break;
        below_s = step_s;
    }
    return hint;
}
