#include "memory/keep/keep.h"

#include "memory/check.h"
#include "memory/keep/keep_model.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Of the tree of each program. The relaxation is close: most end at the root.
enum { NODE_CAP = 2000 };

// Another way recomputes no longer and saves no more of any class.
static bool is_dominated(const struct keep_problem *problem, int r)
{
    const struct keep_recompute *at = &problem->recomputes[r];
    for (int q = 1; q < problem->recompute_count; q++) {
        const struct keep_recompute *by = &problem->recomputes[q];
        bool better = q != r && by->seconds <= at->seconds && by->window_s >= at->window_s &&
                      by->transient_bytes <= at->transient_bytes;
        bool same = by->seconds == at->seconds && by->window_s == at->window_s &&
                    by->transient_bytes == at->transient_bytes;
        for (int c = 0; c < problem->class_count; c++) {
            unsigned class = problem->classes[c].op_class;
            better &= by->saved_bytes[class] <= at->saved_bytes[class];
            same &= by->saved_bytes[class] == at->saved_bytes[class];
        }
        if (better && (!same || q < r)) return true;
    }
    return false;
}

// The host, which is no slower than what lies behind it, has room for all that any stage could
// move.
static bool host_holds_all(const struct keep_problem *problem)
{
    double bytes = 0;
    for (int c = 0; c < problem->class_count; c++)
        bytes += (double)problem->classes[c].bytes;
    for (int s = 0; s < problem->stage_count; s++) {
        const struct keep_stage *stage = &problem->stages[s];
        if (stage->in_flight * stage->layer_count * bytes > (double)problem->host_bytes)
            return false;
    }
    return true;
}

static bool may_use(const struct keep_problem *problem, enum tier tier)
{
    bool is_there = keep_bytes_per_s(problem, tier) > 0 && (problem->tiers >> tier & 1);
    if (!is_there || tier != TIER_NVME) return is_there;
    // What goes to NVMe passes the host's link: no faster, and of use only where the host is full.
    bool is_needed = !may_use(problem, TIER_HOST) || !host_holds_all(problem);
    return is_needed && problem->nvme_bytes > 0;
}

static void take(const struct keep_model *model, int recompute, const struct keep_choice *choice,
                 struct keep_result *result)
{
    bool is_recomputed_at_all = model->recompute && choice->count[model->moved_count] > 0;
    result->recompute = is_recomputed_at_all ? recompute : 0;
    result->recompute_layers = is_recomputed_at_all ? choice->count[model->moved_count] : 0;
    memset(result->layers, 0, sizeof result->layers);
    for (int k = 0; k < model->moved_count; k++)
        result->layers[model->tier][model->moved[k]->op_class] = choice->count[k];
    result->added_s = choice->added_s;
    result->moved_bytes = (int64_t)choice->moved_bytes;
    result->shortfall_bytes = (int64_t)ceil(choice->lack_bytes);
}

// The state of going through ways to recompute and tiers.
struct search {
    const struct keep_problem *problem;
    struct milp_options options;
    bool for_lack, is_cut_short, has_failed;
    double best, bound;  // objectives
    struct keep_result *result;
};

// One way to recompute and one tier, and what its program is no better than.
struct member {
    int recompute;
    enum tier tier;
    double least;
};

struct members {
    struct member *items;
    int count, capacity;
};

static struct keep_model model_of(const struct search *search, const struct member *member)
{
    const struct keep_problem *problem = search->problem;
    int r = member->recompute;
    return keep_model_of(problem, r > 0 ? &problem->recomputes[r] : NULL, member->tier);
}

// Proven, or so near that GLPK is not asked.
static bool is_close(const struct milp_result *found)
{
    static const double NEAR_RATIO = 1e-3;
    if (found->status != MILP_FEASIBLE) return true;
    return found->objective - found->bound <= NEAR_RATIO * fmax(1, found->objective);
}

// GLPK is asked where the chains are too many, for what is better than what was found in them.
static struct milp_result ask(struct arena *arena, struct search *search, struct keep_model *model,
                              struct keep_choice *choice)
{
    struct milp_options options = search->options;
    options.has_cutoff = search->best < INFINITY;
    options.cutoff = search->best;
    bool for_lack = search->for_lack;
    struct milp_result found = keep_search(arena, model, for_lack, &options, choice);
    // Who asks for a smaller tree wants a quick answer.
    bool has_answer = found.values || search->best < INFINITY;
    if (has_answer && options.node_cap < NODE_CAP) return found;
    if (found.status != MILP_UNKNOWN && is_close(&found)) return found;
    if (found.values) {
        options.has_cutoff = true;
        options.cutoff = found.objective;
    }
    struct keep_choice other = {0};
    struct milp_result better = keep_model_solve(arena, model, for_lack, &options, &other);
    if (better.values || !found.values) {
        *choice = other;
        return better;
    }
    if (better.status == MILP_INFEASIBLE) {
        found.status = MILP_OPTIMAL;
        found.bound = found.objective;
    }
    return found;
}

static void try_one(struct arena *arena, struct search *search, const struct member *member)
{
    bool none_better = search->best <= 0 || member->least > search->best + KEEP_BOUND_SLACK;
    if (member->least == INFINITY || none_better) return;
    struct arena_mark mark = arena_mark(arena);
    struct keep_model model = model_of(search, member);
    struct keep_choice choice = {0};
    struct milp_result found = ask(arena, search, &model, &choice);
    if (found.status == MILP_FAILED) search->has_failed = true;
    if (found.status == MILP_FEASIBLE || found.status == MILP_UNKNOWN) search->is_cut_short = true;
    search->bound = fmin(search->bound, found.bound);
    if (found.values && found.objective < search->best) {
        assert(choice.tiers_fit && (search->for_lack || choice.lack_bytes <= 0));
        search->best = found.objective;
        take(&model, member->recompute, &choice, search->result);
    }
    arena_reset(arena, mark);
}

static void add_member(struct arena *arena, const struct search *search, int recompute,
                       enum tier tier, struct members *members)
{
    struct member member = {.recompute = recompute, .tier = tier};
    const struct keep_model model = model_of(search, &member);
    member.least = keep_least(&model, search->for_lack);
    ARENA_GROW(arena, members->items, members->count, members->capacity);
    int at = members->count++;
    // Of equal bounds what comes first stays in front.
    for (; at > 0 && members->items[at - 1].least > member.least; at--)
        members->items[at] = members->items[at - 1];
    members->items[at] = member;
}

// The family is bounded before any of its programs is asked: that with the lowest bound first, so
// that few others can be better.
static void try_all(struct arena *arena, struct search *search)
{
    const struct keep_problem *problem = search->problem;
    struct arena_mark mark = arena_mark(arena);
    struct members members = {0};
    bool may_move = may_use(problem, TIER_HOST) || may_use(problem, TIER_NVME);
    search->best = search->bound = INFINITY;
    for (int r = 0; r < problem->recompute_count; r++) {
        if (r > 0 && is_dominated(problem, r)) continue;
        if (!may_move) add_member(arena, search, r, TIER_DEVICE, &members);
        for (enum tier tier = TIER_HOST; tier < TIER_COUNT; tier++)
            if (may_use(problem, tier)) add_member(arena, search, r, tier, &members);
    }
    for (int i = 0; i < members.count; i++)
        try_one(arena, search, &members.items[i]);
    arena_reset(arena, mark);
}

// What a stage would move where everything is moved.
static int64_t static_bytes(const struct keep_problem *problem)
{
    int64_t bytes = 0;
    int layers = 0;
    for (int c = 0; c < problem->class_count; c++)
        bytes += problem->classes[c].bytes;
    for (int s = 0; s < problem->stage_count; s++)
        if (problem->stages[s].layer_count > layers) layers = problem->stages[s].layer_count;
    return bytes * layers;
}

static struct keep_result find(struct arena *arena, const struct keep_problem *problem,
                               const struct milp_options *options)
{
    struct keep_result result = {.status = MILP_OPTIMAL, .static_bytes = static_bytes(problem)};
    struct keep_model nothing = keep_model_of(problem, NULL, TIER_DEVICE);
    struct keep_choice none = {0};
    keep_weigh(&nothing, &none);
    if (none.lack_bytes <= 0) return result;

    struct search search = {.problem = problem, .options = *options, .result = &result};
    search.options.no_presolve = true;
    search.options.start = NULL;
    if (search.options.node_cap == 0) search.options.node_cap = NODE_CAP;
    try_all(arena, &search);
    if (search.best < INFINITY) {
        double bound = fmin(search.bound, search.best) - KEEP_MOVE_COST;
        result.bound_s = fmin(fmax(0, bound * nothing.time_unit_s), result.added_s);
        result.status = search.is_cut_short || search.has_failed ? MILP_FEASIBLE : MILP_OPTIMAL;
        return result;
    }
    bool is_proven = !search.is_cut_short && !search.has_failed;
    // Nothing fits, or nothing was found: asks again for what lacks least, so that the answer can
    // say how much that is.
    search.for_lack = true;
    try_all(arena, &search);
    if (search.best == INFINITY) take(&nothing, 0, &none, &result);
    result.status = is_proven ? MILP_INFEASIBLE : MILP_UNKNOWN;
    result.bound_s = is_proven ? INFINITY : 0;
    return result;
}

struct keep_result keep_solve(struct arena *arena, const struct keep_problem *problem,
                              const struct milp_options *options)
{
    assert(problem->recompute_count >= 1 && problem->stage_count >= 1);
    struct keep_result result = find(arena, problem, options);
    const char *why = NULL;
    bool holds = check_keep(problem, &result, &why);
    assert(holds && "the checker finds no fault with what is kept");
    (void)holds;
    return result;
}

enum tier keep_tier(const struct keep_result *result)
{
    for (enum tier tier = TIER_HOST; tier < TIER_COUNT; tier++)
        for (int class = 0; class < OFFLOAD_CLASS_MAX; class ++)
            if (result->layers[tier][class] > 0) return tier;
    return TIER_DEVICE;
}

double keep_device_bytes(const struct keep_problem *problem, const struct keep_result *result,
                         int stage)
{
    assert(stage >= 0 && stage < problem->stage_count);
    enum tier tier = keep_tier(result);
    const struct keep_recompute *recompute =
        result->recompute_layers > 0 ? &problem->recomputes[result->recompute] : NULL;
    struct keep_model model = keep_model_of(problem, recompute, tier);
    struct keep_choice choice = {0};
    for (int k = 0; k < model.moved_count; k++)
        choice.count[k] = result->layers[tier][model.moved[k]->op_class];
    if (recompute) choice.count[model.moved_count] = result->recompute_layers;
    return keep_weigh_stage(&model, &problem->stages[stage], &choice);
}
