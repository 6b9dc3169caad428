#include "memory/keep/keep_model.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// The program by branch and bound over the chains of sets that the layers have, from the first one
// on: each layer's set is one of those within the set of the layer before. What the layers that are
// left take at least is read from the lower hull of the sets within the one at hand, as whole
// numbers of layers need not be. The search starts from the best chain of two sets.

// What is better, of its value; far less than what one layer of one class costs to move.
static const double BETTER_RATIO = 1e-9, ROUNDING = 1e-12;

struct hull {
    int count;
    double *kept, *cost;  // by rising bytes kept and falling cost
};

// A stage that no other covers.
struct stage {
    const struct keep_stage *of;
    const double *cost;             // [set] of a layer, in the units of the objective
    const struct hull *hulls;       // [set]
    double *costs;                  // [layer] of those before it
    double lack_bytes;              // of it before any layer
    double room_bytes, tier_bytes;  // of a micro-batch: kept, moved; of the first set at hand
};

struct chain_walk {
    const struct keep_model *model;
    int stage_count, layer_count;
    unsigned set_count, recompute;  // the set of the recompute alone; 0: there is none
    struct stage *stages;
    double *kept_bytes, *moved_bytes;  // [set] of a layer
    double *kept, *moved;              // [layer] of those before it
    double move_cost;                  // a byte; 0: it is in the cost of the layers
    unsigned *sets, *best_sets;        // [layer]
    int pair_count;                    // layers that the last pair of sets was pushed for
    double best;                       // objective; only less is wanted
    bool for_lack, is_found, is_cut_short;
    int64_t node_count, node_cap;
};

// Sums in another order differ in their last bits, which is no gain.
static double below(double value)
{
    return value - BETTER_RATIO * fmax(1, fabs(value));
}

// Points come by rising x; of equal x the first has the least y.
static void hull_add(struct hull *hull, double x, double y)
{
    if (hull->count > 0 && y >= hull->cost[hull->count - 1]) return;
    while (hull->count > 1) {
        int last = hull->count - 1;
        double x0 = hull->kept[last - 1], y0 = hull->cost[last - 1];
        double line = (hull->cost[last] - y0) * (x - x0) - (y - y0) * (hull->kept[last] - x0);
        if (line < 0) break;
        hull->count--;
    }
    assert(hull->count == 0 || x >= hull->kept[hull->count - 1]);
    hull->kept[hull->count] = x;
    hull->cost[hull->count++] = y;
}

static double hull_at(const struct hull *hull, double room)
{
    assert(hull->count > 0);
    int at = 0, last = hull->count - 1;
    if (room < hull->kept[0]) return INFINITY;
    while (at < last && hull->kept[at + 1] <= room)
        at++;
    if (at == last) return hull->cost[last];
    double share = (room - hull->kept[at]) / (hull->kept[at + 1] - hull->kept[at]);
    return hull->cost[at] + share * (hull->cost[at + 1] - hull->cost[at]);
}

// All sets by bytes kept, then by cost.
static unsigned *sorted_sets(struct arena *arena, const struct chain_walk *walk, const double *cost)
{
    unsigned *sorted = ARENA_NEW(arena, unsigned, walk->set_count);
    for (unsigned set = 0; set < walk->set_count; set++) {
        unsigned at = set;
        double kept = walk->kept_bytes[set];
        for (; at > 0; at--) {
            double before = walk->kept_bytes[sorted[at - 1]];
            if (before < kept || (before == kept && cost[sorted[at - 1]] <= cost[set])) break;
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = set;
    }
    return sorted;
}

static const struct hull *make_hulls(struct arena *arena, const struct chain_walk *walk,
                                     const double *cost)
{
    struct hull *hulls = ARENA_NEW(arena, struct hull, walk->set_count);
    const unsigned *sorted = sorted_sets(arena, walk, cost);
    for (unsigned set = 0; set < walk->set_count; set++) {
        size_t within = (size_t)1 << __builtin_popcount(set);
        hulls[set].kept = ARENA_NEW(arena, double, within);
        hulls[set].cost = ARENA_NEW(arena, double, within);
        for (unsigned i = 0; i < walk->set_count; i++)
            if ((sorted[i] & ~set) == 0)
                hull_add(&hulls[set], walk->kept_bytes[sorted[i]], cost[sorted[i]]);
    }
    return hulls;
}

static void add_stage(struct arena *arena, struct chain_walk *walk, struct stage *stage,
                      const struct keep_stage *of)
{
    double *cost = ARENA_NEW(arena, double, walk->set_count);
    const struct keep_model *model = walk->model;
    double each = walk->move_cost > 0
                      ? 0
                      : KEEP_MOVE_COST / model->problem->stage_count / model->move_unit_bytes;
    for (unsigned set = 0; set < walk->set_count; set++)
        cost[set] =
            keep_added_s(model, of, set) / model->time_unit_s + each * walk->moved_bytes[set];
    stage->of = of;
    stage->cost = cost;
    stage->hulls = make_hulls(arena, walk, cost);
    stage->costs = ARENA_NEW(arena, double, walk->layer_count + 1);
}

static void start(struct arena *arena, struct chain_walk *walk)
{
    const struct keep_model *model = walk->model;
    const struct keep_problem *problem = model->problem;
    assert(model->item_count < 31 && "sets are bit masks");
    walk->layer_count = model->layers_most;
    walk->set_count = 1u << model->item_count;
    assert(model->item_count >= 0 && model->item_count < 31 && walk->layer_count >= 0);
    walk->recompute = model->recompute ? 1u << model->moved_count : 0;
    walk->kept_bytes = ARENA_NEW(arena, double, walk->set_count);
    walk->moved_bytes = ARENA_NEW(arena, double, walk->set_count);
    for (unsigned set = 0; set < walk->set_count; set++) {
        walk->kept_bytes[set] = keep_kept_bytes(model, set);
        walk->moved_bytes[set] = keep_moved_bytes(model, set);
    }
    walk->kept = ARENA_NEW(arena, double, walk->layer_count + 1);
    walk->moved = ARENA_NEW(arena, double, walk->layer_count + 1);
    walk->sets = ARENA_NEW(arena, unsigned, walk->layer_count + 1);
    walk->best_sets = ARENA_NEW(arena, unsigned, walk->layer_count + 1);
    walk->stages = ARENA_NEW(arena, struct stage, problem->stage_count);
    int uncovered = 0;
    for (int s = 0; s < problem->stage_count; s++)
        uncovered += !keep_is_covered(problem, s);
    if (uncovered > 1)
        walk->move_cost = KEEP_MOVE_COST / problem->stage_count / model->move_unit_bytes;
    for (int s = 0; s < problem->stage_count; s++)
        if (!keep_is_covered(problem, s))
            add_stage(arena, walk, &walk->stages[walk->stage_count++], &problem->stages[s]);
}

// Of a rank's host or drive, kept below its limit as rows are.
static double limit(const struct chain_walk *walk, double bytes)
{
    const struct keep_problem *problem = walk->model->problem;
    return bytes * keep_device_room(problem) / fmax(1, (double)problem->device_bytes);
}

// What is on its way to a drive passes the host.
static bool passes(const struct chain_walk *walk, double transit_bytes)
{
    bool on_nvme = walk->model->tier == TIER_NVME;
    return !on_nvme || 2 * transit_bytes <= limit(walk, (double)walk->model->problem->host_bytes);
}

// What is left for the layers of a stage whose first has this set, and the widest on their way so
// much; false: nothing is.
static bool set_room(const struct chain_walk *walk, struct stage *stage, unsigned first,
                     double transit_bytes)
{
    assert(transit_bytes >= 0);
    const struct keep_model *model = walk->model;
    const struct keep_problem *problem = model->problem;
    double room = keep_device_room(problem) - (double)stage->of->other_bytes - 2 * transit_bytes;
    if (first & walk->recompute) room -= (double)model->recompute->transient_bytes;
    bool on_nvme = model->tier == TIER_NVME;
    double tier = limit(walk, (double)(on_nvme ? problem->nvme_bytes : problem->host_bytes));
    double alive = stage->of->in_flight;
    stage->room_bytes = alive > 0 ? room / alive : INFINITY;
    stage->tier_bytes = alive > 0 && model->moved_count > 0 ? tier / alive : INFINITY;
    stage->lack_bytes = -room;
    return room >= 0;
}

// The first layer's set is the largest of the chain: it says what is on its way.
static bool set_rooms(struct chain_walk *walk, unsigned first)
{
    if (!passes(walk, walk->moved_bytes[first])) return false;
    for (int s = 0; s < walk->stage_count; s++) {
        bool has_room = set_room(walk, &walk->stages[s], first, walk->moved_bytes[first]);
        if (!has_room && !walk->for_lack) return false;
    }
    return true;
}

// Whether so much fits, but for rounding.
static bool fits(double bytes, double room)
{
    return bytes <= room * (1 + ROUNDING);
}

// Sums up to a layer, so that a step back costs nothing.
static void push(struct chain_walk *walk, int layer, unsigned set)
{
    assert(layer >= 0 && layer < walk->layer_count && set < walk->set_count);
    walk->sets[layer] = set;
    walk->kept[layer + 1] = walk->kept[layer] + walk->kept_bytes[set];
    walk->moved[layer + 1] = walk->moved[layer] + walk->moved_bytes[set];
    for (int s = 0; s < walk->stage_count; s++)
        walk->stages[s].costs[layer + 1] = walk->stages[s].costs[layer] + walk->stages[s].cost[set];
}

// The objective of a whole chain; INFINITY: it does not fit.
static double weigh(const struct chain_walk *walk)
{
    unsigned first = walk->sets[0];
    double worst = 0, moves = 0;
    for (int s = 0; s < walk->stage_count; s++) {
        struct stage stage = walk->stages[s];
        int layers = stage.of->layer_count;
        double transit = walk->moved_bytes[first];
        bool is_mixed = layers > 0 && first & ~walk->sets[layers - 1] & walk->recompute;
        if (is_mixed) transit = fmax(transit, walk->moved_bytes[first & ~walk->recompute]);
        bool has_room = set_room(walk, &stage, first, transit);
        if (!passes(walk, transit)) return INFINITY;
        if (!fits(walk->moved[layers], stage.tier_bytes)) return INFINITY;
        if (walk->for_lack) {
            double lack = stage.lack_bytes + stage.of->in_flight * walk->kept[layers];
            worst = fmax(worst, lack / keep_device_unit(walk->model->problem));
            continue;
        }
        if (!has_room || !fits(walk->kept[layers], stage.room_bytes)) return INFINITY;
        worst = fmax(worst, stage.costs[layers]);
        moves += walk->move_cost * walk->moved[layers];
    }
    return worst + moves;
}

static void take(struct chain_walk *walk)
{
    double objective = weigh(walk);
    if (!(objective < walk->best)) return;
    walk->best = objective;
    walk->is_found = true;
    memcpy(walk->best_sets, walk->sets, (size_t)walk->layer_count * sizeof *walk->sets);
}

// What no chain that goes on with this set is below.
static double least(const struct chain_walk *walk, int layer, unsigned set)
{
    double worst = 0, moves = 0;
    for (int s = 0; s < walk->stage_count; s++) {
        const struct stage *stage = &walk->stages[s];
        int layers = stage->of->layer_count, left = layers - layer - 1;
        if (left < 0) {
            worst = fmax(worst, stage->costs[layers]);
            moves += walk->move_cost * walk->moved[layers];
            continue;
        }
        double kept = walk->kept[layer] + walk->kept_bytes[set];
        double moved = walk->moved[layer] + walk->moved_bytes[set];
        double cost = stage->costs[layer] + stage->cost[set];
        if (!fits(kept, stage->room_bytes) || !fits(moved, stage->tier_bytes)) return INFINITY;
        double room = stage->room_bytes * (1 + ROUNDING) - kept;
        if (left > 0) cost += left * hull_at(&stage->hulls[set], room / left);
        worst = fmax(worst, cost);
        moves += walk->move_cost * moved;
    }
    return worst + moves;
}

// Subsets from the largest down: what recomputes or moves most has room first.
static void descend(struct chain_walk *walk, int layer, unsigned before)
{
    if (layer == walk->layer_count) {
        take(walk);
        return;
    }
    for (unsigned set = before;; set = (set - 1) & before) {
        if (walk->node_count++ >= walk->node_cap) {
            walk->is_cut_short = true;
            return;
        }
        bool has_room = layer > 0 || set_rooms(walk, set);
        if (has_room && least(walk, layer, set) < below(walk->best)) {
            push(walk, layer, set);
            descend(walk, layer + 1, set);
        }
        if (set == 0 || walk->is_cut_short) return;
    }
}

// The larger set for so many first layers. Sums of what is as it was before stay.
static void push_pair(struct chain_walk *walk, int first_count, unsigned large, unsigned small)
{
    int at = 0;
    while (at < walk->pair_count && walk->sets[at] == (at < first_count ? large : small))
        at++;
    for (; at < walk->layer_count; at++)
        push(walk, at, at < first_count ? large : small);
    walk->pair_count = walk->layer_count;
}

// The fewest first layers with the larger set that leave room: more of them cost no less. For the
// least lack the most that the tier takes.
static void try_pair(struct chain_walk *walk, unsigned large, unsigned small)
{
    int low = 0, high = walk->layer_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        push_pair(walk, middle, large, small);
        bool has_room = weigh(walk) < INFINITY;
        take(walk);
        if (has_room != walk->for_lack) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    push_pair(walk, low, large, small);
    take(walk);
}

// What no chain of the two sets is below, as if nothing were on its way or made again.
static double pair_least(const struct chain_walk *walk, unsigned large, unsigned small)
{
    double worst = 0, moves = 0, least_moved = walk->moved_bytes[small];
    for (int s = 0; s < walk->stage_count; s++) {
        const struct stage *stage = &walk->stages[s];
        double layers = stage->of->layer_count, alive = stage->of->in_flight;
        double room = keep_device_room(walk->model->problem) - (double)stage->of->other_bytes;
        double each = layers > 0 && alive > 0 ? room * (1 + ROUNDING) / alive / layers : INFINITY;
        double kept[] = {walk->kept_bytes[large], walk->kept_bytes[small]};
        double cost[] = {stage->cost[large], stage->cost[small]};
        int heavy = kept[1] > kept[0], cheap = cost[1] < cost[0];
        if (kept[!heavy] > each) return INFINITY;
        double value = cost[cheap];
        if (kept[heavy] > each && cheap == heavy) {
            double share = (each - kept[!heavy]) / (kept[heavy] - kept[!heavy]);
            value = cost[!heavy] + share * (cost[heavy] - cost[!heavy]);
        }
        worst = fmax(worst, layers * value);
        moves += walk->move_cost * layers * least_moved;
    }
    return (worst + moves) * (1 - BETTER_RATIO);
}

static void try_pairs(struct chain_walk *walk)
{
    for (unsigned large = 0; large < walk->set_count; large++) {
        if (!set_rooms(walk, large)) continue;
        if (!walk->for_lack && least(walk, 0, large) >= below(walk->best)) continue;
        for (unsigned small = large;; small = (small - 1) & large) {
            bool may_win = walk->for_lack || pair_least(walk, large, small) < walk->best;
            if (may_win) try_pair(walk, large, small);
            if (small == 0) break;
        }
    }
}

struct milp_result keep_search(struct arena *arena, struct keep_model *model, bool for_lack,
                               const struct milp_options *options, struct keep_choice *choice)
{
    enum { NODE_CAP = 100000 };
    struct chain_walk walk = {
        .model = model, .for_lack = for_lack, .best = INFINITY, .node_cap = NODE_CAP};
    struct milp_result result = {MILP_INFEASIBLE, INFINITY, INFINITY, NULL, ""};
    start(arena, &walk);
    if (options->has_cutoff) walk.best = below(options->cutoff);
    try_pairs(&walk);
    if (!for_lack) descend(&walk, 0, walk.set_count - 1);
    walk.is_cut_short |= for_lack;
    if (walk.is_cut_short) {
        result.status = walk.is_found ? MILP_FEASIBLE : MILP_UNKNOWN;
        result.bound = keep_least(model, for_lack);
    }
    if (!walk.is_found) return result;
    if (!walk.is_cut_short || walk.best <= result.bound) result.status = MILP_OPTIMAL;
    double *counts = ARENA_NEW(arena, double, model->item_count + 1);
    for (int k = 0; k < model->item_count; k++) {
        choice->count[k] = 0;
        for (int i = 0; i < walk.layer_count; i++)
            choice->count[k] += walk.best_sets[i] >> k & 1 ? 1 : 0;
        counts[k] = choice->count[k];
    }
    assert(walk.best >= 0 && walk.best < INFINITY);
    result.objective = walk.best;
    result.bound = fmin(result.bound, walk.best);
    result.values = counts;
    keep_model_finish(model, choice);
    return result;
}
