#include "planner/uneven.h"

#include "planner/bound.h"
#include "planner/choice.h"
#include "planner/ranking.h"
#include "planner/scan.h"
#include "planner/uneven_split.h"

#include <assert.h>
#include <string.h>

// Plans of a search that become seeds, as many whatever is wanted, plans that are changed step by
// step, and how far below the micro-batch of a seed smaller ones are tried.
enum { SEEDS = 8, SEEDS_EACH = 2, CLIMBERS = 3, HALVINGS = 2, KEPT = 24 };

struct seeking {
    struct arena *arena;
    struct uneven_split split;
    struct ranking ranking;
    struct uneven_answer *answer;
    const struct cluster *roomy;  // where seeds are sought
};

static int64_t batch_for(const struct search_request *request, int dp)
{
    assert(dp >= 1);
    int64_t batch = request->workload.global_batch;
    return (batch + dp - 1) / dp * dp;
}

static void keep_even(struct seeking *seeking, const struct candidate *played)
{
    struct uneven_answer *answer = seeking->answer;
    const struct parallel *parallel = &played->parallel;
    if (parallel->replica_count > 0 || parallel->stage_layers_count > 0) return;
    if (answer->has_even && answer->even_s <= played->cost.step_s) return;
    answer->has_even = true;
    answer->even_s = played->cost.step_s;
    answer->even = candidate_copy(seeking->arena, played).parallel;
}

static void offer(struct seeking *seeking, const struct parallel *parallel)
{
    struct candidate played;
    if (!uneven_fit(&seeking->split, parallel, &played)) return;
    keep_even(seeking, &played);
    for (int i = 0; i < seeking->ranking.count; i++) {
        const struct candidate *known = &seeking->ranking.items[i];
        if (candidate_compare(OBJECTIVE_TIME, known, &played) == 0) return;
    }
    (void)ranking_offer(&seeking->ranking, &played);
}

// As it is, with other numbers of micro-batches, of layers, and both.
static void try_splits(struct seeking *seeking, const struct parallel *parallel)
{
    struct parallel batches = *parallel, layers = *parallel;
    bool is_pinned = seeking->split.request->pins.replica_count > 0;
    if (!is_pinned) offer(seeking, parallel);
    if (uneven_batches(&seeking->split, &batches)) offer(seeking, &batches);
    if (!uneven_layers(&seeking->split, &layers)) return;
    if (!is_pinned) offer(seeking, &layers);
    if (uneven_batches(&seeking->split, &layers)) offer(seeking, &layers);
}

// Stages far apart, so that each lies on nodes of one kind, and replicas far apart.
static void try_orders(struct seeking *seeking, const struct parallel *parallel)
{
    static const enum axis ORDERS[][4] = {{AXIS_TP, AXIS_CP, AXIS_DP, AXIS_PP},
                                          {AXIS_TP, AXIS_CP, AXIS_PP, AXIS_DP}};
    int orders = parallel->degree[AXIS_PP] > 1 && parallel->degree[AXIS_DP] > 1 ? 2 : 1;
    for (int i = 0; i < orders; i++) {
        struct parallel ordered = *parallel;
        ordered.order_count = 4;
        memcpy(ordered.order, ORDERS[i], sizeof ORDERS[i]);
        parallel_complete_order(&ordered);
        try_splits(seeking, &ordered);
    }
}

static void try_seed(struct seeking *seeking, const struct parallel *parallel)
{
    const struct pins *pins = &seeking->split.request->pins;
    struct parallel smaller = *parallel;
    try_splits(seeking, parallel);
    for (int i = 0; i <= HALVINGS; i++) {
        if (pins_allow(pins, CHOICE_MICRO_BATCH, smaller.micro_batch))
            try_orders(seeking, &smaller);
        if (smaller.micro_batch % 2 != 0) return;
        smaller.micro_batch /= 2;
    }
}

// Each device with as much memory as the largest: what stages hold on their own is asked of each
// split.
static const struct cluster *roomy_cluster(struct arena *arena, const struct cluster *cluster)
{
    struct cluster *roomy = cluster_copy_nodes(arena, cluster);
    int64_t most_bytes = 0;
    for (int i = 0; i < cluster->node_group_count; i++) {
        int64_t bytes = cluster->nodes[i].device->memory_bytes;
        if (bytes > most_bytes) most_bytes = bytes;
    }
    cluster_set_memory(arena, roomy, most_bytes);
    return roomy;
}

// The best plans of these degrees, which the even split of a batch that divides them finds.
static void seek(struct seeking *seeking, int dp, int pp)
{
    assert(seeking->split.request->cluster->rank_count % (dp * pp) == 0);
    struct search_request request = *seeking->split.request;
    struct search_result result = {0};
    struct err none = {0};
    struct arena mine = {0};
    struct pins *pins = &request.pins;
    if (!pins_allow(pins, CHOICE_DP, dp) || !pins_allow(pins, CHOICE_PP, pp)) return;
    pins_set(pins, CHOICE_DP, dp, dp);
    pins_set(pins, CHOICE_PP, pp, pp);
    // What replicas exchange within micro-batches keeps them alike.
    if (dp > 1 && pins_allow(pins, CHOICE_ZERO, 1) && !pins_get(pins, CHOICE_ZERO).set)
        pins_set(pins, CHOICE_ZERO, 0, 1);
    if (dp > 1 && !pins_get(pins, CHOICE_EP).set) pins_set(pins, CHOICE_EP, 1, 1);
    if (dp > 1 && !pins_get(pins, CHOICE_VPP).set) pins_set(pins, CHOICE_VPP, 1, 1);
    pins->supposed = true;
    pins->replica_count = 0;
    request.workload.global_batch = batch_for(&request, dp);
    request.top = SEEDS_EACH;
    request.cluster = seeking->roomy;
    request.nothing = SEARCH_FITS_ONLY;
    request.progress = NULL;
    if (search_plans(&mine, &request, &result, &none)) {
        for (int i = 0; i < result.best_count; i++) {
            // Seeds outlive what found them.
            struct parallel seed = parallel_copy(seeking->arena, &result.best[i].parallel);
            try_seed(seeking, &seed);
        }
    }
    arena_free(&mine);
}

static void seek_all(struct seeking *seeking)
{
    int ranks = seeking->split.request->cluster->rank_count;
    for (int dp = 1; dp <= ranks; dp++) {
        for (int pp = 1; ranks % dp == 0 && pp <= ranks / dp; pp++) {
            if (ranks / dp % pp != 0 || search_should_stop(seeking->split.request)) continue;
            seek(seeking, dp, pp);
        }
    }
}

// The nodes of one device kind, as a cluster; NULL where a part of them is all that is in use.
static const struct cluster *one_kind(struct arena *arena, const struct cluster *cluster, int kind)
{
    struct cluster *own = ARENA_NEW(arena, struct cluster, 1);
    int left = cluster->rank_count;
    *own = *cluster;
    own->nodes = ARENA_NEW(arena, struct node_group, cluster->node_group_count);
    own->node_group_count = own->node_count = own->rank_count = own->idle_gpus = 0;
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct node_group *group = &cluster->nodes[i];
        int ranks = group->count * group->gpus < left ? group->count * group->gpus : left;
        left -= ranks;
        if (cluster_device_kind(cluster, i) != kind) continue;
        own->nodes[own->node_group_count++] = *group;
        own->node_count += group->count;
        own->rank_count += ranks;
    }
    assert(left >= 0 && own->rank_count <= cluster->rank_count);
    return own->rank_count > 0 ? own : NULL;
}

static void find_alone(struct arena *arena, const struct search_request *request,
                       struct uneven_answer *answer)
{
    const struct cluster *cluster = request->cluster;
    answer->alone = ARENA_NEW(arena, struct uneven_alone, cluster->node_group_count);
    for (int i = 0; i < cluster->node_group_count; i++) {
        if (cluster_device_kind(cluster, i) != i) continue;
        struct uneven_alone *alone = &answer->alone[answer->alone_count];
        alone->cluster = one_kind(arena, cluster, i);
        if (!alone->cluster || alone->cluster->rank_count == cluster->rank_count) continue;
        answer->alone_count++;
        struct search_request own = *request;
        struct search_result result = {0};
        struct err none = {0};
        own.cluster = alone->cluster;
        own.pins.replica_count = own.pins.stage_layers_count = 0;
        pins_clear(&own.pins, CHOICE_DP);
        own.top = 1;
        own.nothing = SEARCH_FITS_ONLY;
        own.progress = NULL;
        alone->is_found = search_plans(arena, &own, &result, &none) && result.best_count > 0;
        if (!alone->is_found) continue;
        alone->step_s = result.best[0].cost.step_s;
        alone->parallel = result.best[0].parallel;
    }
}

static int wanted_of(const struct search_request *request)
{
    return request->top > 0 ? request->top : 1;
}

static void take_best(struct arena *arena, const struct search_request *request,
                      const struct ranking *ranking, double played, struct search_result *result)
{
    int wanted = wanted_of(request);
    result->best_count = wanted < ranking->count ? wanted : ranking->count;
    result->best = ARENA_NEW(arena, struct candidate, result->best_count);
    for (int i = 0; i < result->best_count; i++)
        result->best[i] = candidate_copy(arena, &ranking->items[i]);
    assert(result->best_count >= 1 && "some plan was ranked");
    result->considered_count += played;
    result->priced_count += played;
    result->cut_count = 0;
    result->bound_s = result->layers_s = 0;
    result->bound_bytes = 0;
    if (result->status != SEARCH_STOPPED) result->status = SEARCH_FEASIBLE;
}

static bool check_pinned(const struct search_request *request, struct err *err)
{
    const struct pins *pins = &request->pins;
    int64_t sum = 0, batch = request->workload.global_batch;
    for (int r = 0; r < pins->replica_count; r++)
        sum += pins->replica_micro_batches[r];
    if (pins->replica_count == 0) return true;
    if (request->objective == OBJECTIVE_MEMORY)
        return err_set(err, ERR_USAGE,
                       "--replica-batches: not with --objective memory, to which "
                       "they are all the same");
    if (!stack_is_executed(request->stack)) {
        return err_set(err, ERR_USAGE,
                       "--replica-batches: stack %s gives all replicas as many micro-batches; "
                       "--stack meshwright runs unlike numbers",
                       request->stack->name);
    }
    if (sum > 0 && batch % sum == 0) return true;
    return err_set(err, ERR_USAGE,
                   "--replica-batches: a global batch of %lld cannot be split into %lld "
                   "micro-batches",
                   (long long)batch, (long long)sum);
}

// The search of even plans. Where there may be others `refused` says why there is none.
static bool search_even(struct arena *arena, const struct search_request *request, bool is_uneven,
                        struct search_result *result, struct err *refused, struct err *err)
{
    struct search_request even = *request;
    if (!is_uneven) return search_plans(arena, &even, result, err);
    even.pins.replica_count = 0;
    if (even.top < SEEDS) even.top = SEEDS;
    if (request->pins.replica_count > 0) even.nothing = SEARCH_FITS_ONLY;
    if (search_plans(arena, &even, result, refused)) return true;
    *result = (struct search_result){.status = SEARCH_NOTHING_FITS};
    return refused->kind == ERR_USAGE || err_set(err, refused->kind, "%s", refused->text);
}

// No plan was found: what the search of even plans has answered holds.
static bool answer_nothing(const struct search_request *request, const struct err *refused,
                           struct err *err)
{
    if (request->pins.replica_count > 0)
        return err_set(err, ERR_USAGE, "--replica-batches: no plan of these micro-batches fits");
    return !refused->kind || err_set(err, refused->kind, "%s", refused->text);
}

// Micro-batches of each replica that are pinned pin its replicas and their size.
static void pin_replicas(struct search_request *request)
{
    struct pins *pins = &request->pins;
    int64_t sum = 0;
    if (pins->replica_count == 0) return;
    for (int r = 0; r < pins->replica_count; r++)
        sum += pins->replica_micro_batches[r];
    assert(sum > 0 && "check_pinned comes first");
    int64_t size = request->workload.global_batch / sum;
    pins_set(pins, CHOICE_DP, pins->replica_count, pins->replica_count);
    pins_set(pins, CHOICE_MICRO_BATCH, size, size);
}

// Whether some stages may be faster than others: nodes that are unlike. Two regions of like ones
// differ in what lies between them alone.
static bool has_unlike_nodes(const struct cluster *cluster)
{
    for (int i = 1; i < cluster->node_group_count; i++) {
        if (!node_group_equals(&cluster->nodes[0], &cluster->nodes[i])) return true;
    }
    return false;
}

static bool search_chains(struct arena *arena, const struct search_request *request,
                          struct search_result *result, struct uneven_answer *answer,
                          struct err *err)
{
    struct search_request own = *request;
    if (!check_pinned(request, err)) return false;
    pin_replicas(&own);
    bool is_uneven = own.pins.replica_count > 0 || has_unlike_nodes(own.cluster);
    struct err refused = {0};
    if (!search_even(arena, &own, is_uneven, result, &refused, err)) return false;
    if (!is_uneven) return true;
    if (result->status == SEARCH_STOPPED || own.objective == OBJECTIVE_MEMORY) {
        // Of even plans, which are not what pinned micro-batches ask for.
        if (own.pins.replica_count > 0) result->best_count = 0;
        if (result->best_count > wanted_of(&own)) result->best_count = wanted_of(&own);
        return !refused.kind || err_set(err, refused.kind, "%s", refused.text);
    }
    answer->is_asked = true;
    struct seeking seeking = {arena,
                              {.arena = arena, .request = &own},
                              ranking_new(arena, OBJECTIVE_TIME, KEPT),
                              answer,
                              roomy_cluster(arena, own.cluster)};
    for (int i = 0; i < result->best_count && i < SEEDS; i++)
        try_seed(&seeking, &result->best[i].parallel);
    // Of like devices on unlike links the best even plans are good seeds.
    bool is_mixed = !cluster_has_one_device(own.cluster) || own.pins.replica_count > 0;
    if (is_mixed) seek_all(&seeking);
    for (int i = 0; i < CLIMBERS && i < seeking.ranking.count; i++)
        uneven_climb(&seeking.split, &seeking.ranking.items[i]);
    ranking_sort(&seeking.ranking);
    answer->played_count = seeking.split.played_count;
    if (seeking.ranking.count == 0) return answer_nothing(&own, &refused, err);
    take_best(arena, &own, &seeking.ranking, answer->played_count, result);
    find_alone(arena, &own, answer);
    return true;
}

// Chains of unlike stages and replicas, and what --branches on finds: the better of the two.
static bool search_both(struct arena *arena, const struct search_request *request,
                        struct search_result *result, struct uneven_answer *answer, struct err *err)
{
    struct search_request chains = *request, trees = *request;
    struct search_result branched = {0};
    struct branches_answer *branches = &answer->branches;
    struct err none = {0};
    chains.pins.branches = BRANCHES_OFF;
    trees.pins.branches = BRANCHES_ON;
    if (!search_chains(arena, &chains, result, answer, err)) return false;
    if (search_should_stop(request)) return true;
    bool is_found = branches_search(arena, &trees, &branched, branches, &none);
    const struct candidate *chain = result->best_count > 0 ? &result->best[0] : NULL;
    const struct candidate *tree = is_found && branched.best_count > 0 ? &branched.best[0] : NULL;
    bool is_better = tree && (!chain || candidate_compare(request->objective, tree, chain) < 0);
    const struct candidate *other = is_better ? chain : tree;
    branches->has_other = other != NULL;
    if (other) {
        branches->other_s = other->cost.step_s;
        branches->other = parallel_copy(arena, &other->parallel);
    }
    if (!is_better) return true;
    struct ranking all = ranking_new(arena, request->objective, KEPT);
    for (int i = 0; i < result->best_count; i++)
        (void)ranking_offer(&all, &result->best[i]);
    for (int i = 0; i < branched.best_count; i++)
        (void)ranking_offer(&all, &branched.best[i]);
    ranking_sort(&all);
    take_best(arena, request, &all, branches->played_count, result);
    return true;
}

static bool search_asked(struct arena *arena, const struct search_request *request,
                         struct search_result *result, struct uneven_answer *answer,
                         struct err *err)
{
    if (meshes_are_asked(&request->pins))
        return meshes_search(arena, request, result, &answer->meshes, err);
    if (!branches_are_asked(request)) return search_chains(arena, request, result, answer, err);
    if (request->pins.branches == BRANCHES_ON || cluster_is_uniform(request->cluster))
        return branches_search(arena, request, result, &answer->branches, err);
    return search_both(arena, request, result, answer, err);
}

bool uneven_search(struct arena *arena, const struct search_request *request,
                   struct search_result *result, struct uneven_answer *answer, struct err *err)
{
    *answer = (struct uneven_answer){0};
    if (!search_asked(arena, request, result, answer, err)) return false;
    bool is_unbounded = result->status == SEARCH_FEASIBLE && result->bound_s == 0;
    if (is_unbounded && request->objective != OBJECTIVE_MEMORY) {
        const struct bound_facts facts = bound_facts_of(request);
        result->bound_s = bound_work_s(request, &facts);
        result->bounds_work = true;
        assert(result->best_count == 0 || result->bound_s <= result->best[0].cost.step_s);
    }
    return true;
}
