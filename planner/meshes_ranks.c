#include "core/divisor.h"
#include "planner/choice.h"
#include "planner/meshes_check.h"
#include "planner/meshes_giving.h"

#include <assert.h>

// Plans of like stages that are given the numbers of ranks.
enum { RANKS_SEEDS = 4 };

// The fewest sequences of a round that the dp of all stages divides, as micro-batches of the stage
// whose degrees the plan has; 0: the ranks of one are no multiple of its tp and cp.
static int64_t round_of(const struct parallel *parallel)
{
    int64_t sequences = 1;
    for (int s = 0; s < parallel->stage_ranks_count; s++) {
        int each = parallel_stage_tp(parallel, s) * parallel->degree[AXIS_CP];
        if (parallel->stage_ranks[s] % each != 0) return 0;
        sequences = common_multiple(sequences, parallel->stage_ranks[s] / each);
    }
    return sequences;
}

// A plan of another number of ranks with those that each stage is to have.
static struct parallel with_ranks(const struct giving *giving, const struct parallel *seed)
{
    const struct pins *asked = giving->asked;
    struct parallel parallel = *seed;
    int widest = 0;
    parallel.stage_ranks = asked->stage_ranks;
    parallel.stage_ranks_count = asked->stage_ranks_count;
    parallel.stage_tp = asked->stage_tp;
    parallel.stage_tp_count = asked->stage_tp_count;
    parallel.layouts = asked->layouts;
    parallel.layout_count = asked->layout_count;
    giving_keep_groups(giving, &parallel);
    parallel_default_order(&parallel);
    while (parallel_stage_tp(&parallel, widest) != parallel.degree[AXIS_TP])
        widest++;
    parallel.degree[AXIS_DP] =
        asked->stage_ranks[widest] / (parallel.degree[AXIS_TP] * parallel.degree[AXIS_CP]);
    if (parallel.degree[AXIS_DP] < 1) parallel.degree[AXIS_DP] = 1;
    return parallel;
}

static bool try_round(struct giving *giving, const struct parallel *seed, int64_t round)
{
    assert(round >= 1 && round % seed->degree[AXIS_DP] == 0);
    struct parallel parallel = *seed;
    int64_t size = round / seed->degree[AXIS_DP];
    bool is_legal = giving->split.request->workload.global_batch % round == 0 &&
                    pins_allow(giving->asked, CHOICE_MICRO_BATCH, size);
    if (!is_legal) return false;
    parallel.micro_batch = (int)size;
    giving_find_reason(giving, &parallel);
    giving_try_layers(giving, &parallel);
    return true;
}

// Why the sequences of a round that are pinned cannot be: a stage or the batch does not divide.
static void note_pinned(struct giving *giving, const struct parallel *parallel, int64_t round)
{
    struct arena work = {0};
    int dp = parallel->degree[AXIS_DP], cp = parallel->degree[AXIS_CP];
    const char *what = arena_print(&work,
                                   "--stage-ranks: %lld sequences a round (dp %d, micro-batch "
                                   "%lld) do not divide",
                                   (long long)round, dp, (long long)(round / dp));
    for (int s = 0; s < parallel->stage_ranks_count; s++) {
        int tp = parallel_stage_tp(parallel, s), parts = parallel->stage_ranks[s] / (tp * cp);
        if (round % parts == 0) continue;
        (void)err_set(&giving->indivisible, ERR_USAGE,
                      "%s into %d parts, one for each replica of stage %d (tp %d, cp %d)", what,
                      parts, s, tp, cp);
    }
    (void)err_set(&giving->indivisible, ERR_USAGE, "%s the batch of %lld", what,
                  (long long)giving->split.request->workload.global_batch);
    arena_free(&work);
}

// With as many sequences a round as divide the batch: those that are pinned, or powers of two times
// the fewest.
static void try_rounds(struct giving *giving, const struct parallel *seed)
{
    enum { DOUBLINGS = 4 };
    struct parallel parallel = with_ranks(giving, seed);
    int64_t round = round_of(&parallel), dp = parallel.degree[AXIS_DP];
    struct int_range size = pins_get(giving->asked, CHOICE_MICRO_BATCH);
    if (!pins_allow(giving->asked, CHOICE_DP, dp)) return;
    if (round == 0) {
        giving_find_reason(giving, &parallel);
        return;
    }
    if (size.set && size.low == size.high) {
        int64_t pinned = dp * size.low;
        bool divides = pinned % round == 0 && try_round(giving, &parallel, pinned);
        if (!divides) note_pinned(giving, &parallel, pinned);
        return;
    }
    bool is_any = false;
    for (int i = 0; i < DOUBLINGS; i++)
        is_any |= try_round(giving, &parallel, round << i);
    if (!is_any)
        (void)err_set(&giving->indivisible, ERR_USAGE,
                      "--stage-ranks: no micro-batch that all of these stages can split divides "
                      "the sequences of a replica");
}

// Experts over ranks that may not be there in all stages, or on all ranks.
static void try_ranks(struct giving *giving, const struct parallel *seed)
{
    struct parallel whole = *seed;
    bool may_be_whole = seed->degree[AXIS_EP] * seed->degree[AXIS_ETP] > 1 &&
                        pins_allow(giving->asked, CHOICE_EP, 1) &&
                        pins_allow(giving->asked, CHOICE_ETP, 1);
    try_rounds(giving, seed);
    if (!may_be_whole) return;
    whole.degree[AXIS_EP] = whole.degree[AXIS_ETP] = 1;
    try_rounds(giving, &whole);
}

// Other numbers of micro-batches may not interleave, and stages with fewer ranks lack room that the
// seed's have.
static void try_form(struct giving *giving, const struct parallel *seed)
{
    const struct pins *asked = giving->asked;
    struct parallel plain = *seed;
    bool may_be_plain = seed->vpp > 1 && pins_allow(asked, CHOICE_VPP, 1) &&
                        pins_allow(asked, CHOICE_SCHEDULE, SCHEDULE_1F1B);
    if (may_be_plain) {
        plain.vpp = 1;
        plain.schedule = SCHEDULE_1F1B;
        plain.in_flight = 0;
        try_ranks(giving, &plain);
    }
    try_ranks(giving, seed);
    if (pins_get(asked, CHOICE_RECOMPUTE).set || pins_get(asked, CHOICE_RECOMPUTE_LAYERS).set ||
        plain.recompute == RECOMPUTE_FULL || plain.vpp > 1)
        return;
    plain.recompute = RECOMPUTE_FULL;
    plain.recompute_classes = 0;
    plain.recompute_layers = -1;
    try_ranks(giving, &plain);
}

static void try_ways(struct giving *giving, const struct parallel *seed)
{
    struct parallel forms[2];
    int count = giving_forms(giving, seed, forms);
    for (int f = 0; f < count; f++)
        try_form(giving, &forms[f]);
}

// A cluster like this one with so many ranks in each of the stages: of its first nodes, or of more
// than there are; where nothing joins nodes, of one that has them all.
static const struct cluster *cluster_of_ranks(struct arena *arena,
                                              const struct search_request *request, int ranks)
{
    assert(ranks >= 1);
    const struct cluster *cluster = request->cluster;
    struct cluster *own = ARENA_NEW(arena, struct cluster, 1);
    *own = *cluster;
    own->nodes = ARENA_NEW(arena, struct node_group, cluster->node_group_count);
    own->node_count = 0;
    for (int i = 0, all = 0; i < cluster->node_group_count; i++) {
        struct node_group *group = &own->nodes[i];
        bool is_last = i == cluster->node_group_count - 1;
        *group = cluster->nodes[i];
        if (!meshes_have_network(request) && ranks > group->gpus) group->gpus = ranks;
        int wanted = (ranks - all + group->gpus - 1) / group->gpus;
        if (is_last || wanted < group->count) group->count = wanted;
        all += group->count * group->gpus;
        own->node_count += group->count;
        own->node_group_count = i + 1;
        if (all >= ranks) break;
    }
    own->rank_count = ranks;
    own->idle_gpus = 0;
    return own;
}

// What seeds keep: dp and the micro-batch are those of other numbers of ranks.
static struct pins pins_of_seeds(struct arena *arena, const struct pins *asked)
{
    struct pins pins = giving_seed_pins(arena, asked);
    int count = asked->stage_ranks_count;
    if (asked->stage_tp_count > 0) {
        int most = meshes_largest(asked->stage_tp, count);
        pins_set(&pins, CHOICE_TP, most, most);
    }
    pins_set(&pins, CHOICE_PP, count, count);
    pins.degree[AXIS_DP] = pins.micro_batch = (struct int_range){0};
    pins.branches = BRANCHES_OFF;
    return pins;
}

// The best plans where all stages have so many ranks, or the one that lacks least room.
static bool seek_alike(struct giving *giving, int ranks, struct err *err)
{
    struct search_request like = *giving->split.request;
    struct search_result found = {0};
    int count = giving->asked->stage_ranks_count;
    like.pins = pins_of_seeds(giving->arena, giving->asked);
    like.cluster = cluster_of_ranks(giving->arena, &like, ranks * count);
    like.top = RANKS_SEEDS;
    like.nothing = SEARCH_CLOSEST;
    if (!search_plans(giving->arena, &like, &found, err)) return false;
    for (int i = 0; i < found.best_count; i++)
        try_ways(giving, &found.best[i].parallel);
    if (found.best_count == 0 && found.closest.parallel.degree[AXIS_PP] > 0)
        try_ways(giving, &found.closest.parallel);
    return true;
}

// Seeds have as many ranks in all stages as the largest, the smallest and the mean: of the first
// every degree, of the others no room that is not there. What they are compared with is one mesh
// for all.
bool giving_seek_ranks(struct giving *giving, struct search_result *result, struct err *err)
{
    assert(giving->asked->stage_ranks_count >= 1);
    const int *ranks = giving->asked->stage_ranks;
    int count = giving->asked->stage_ranks_count;
    assert(count >= 1 && "numbers of ranks were asked for");
    int sizes[] = {meshes_largest(ranks, count), meshes_smallest(ranks, count),
                   giving->split.request->cluster->rank_count / count};
    bool has_seeds = false;
    struct err why = {0};
    for (int i = 0; i < 3; i++) {
        bool is_new = (i == 0 || sizes[i] != sizes[0]) && (i < 2 || sizes[i] != sizes[1]);
        if (!is_new) continue;
        struct err own = {0};
        has_seeds |= seek_alike(giving, sizes[i], &own);
        // Numbers that are asked for come first, and the mean of them last.
        if (!why.kind) why = own;
    }
    if (!has_seeds) return err_set(err, why.kind, "%s", why.text);
    why = (struct err){0};
    if (giving->answer->has_alike) return true;
    if (!giving_seek_alike(giving, result, &why)) *result = (struct search_result){0};
    return true;
}
