#include "memory/check.h"

#include <assert.h>
#include <math.h>

// As check.c: nothing here is called by a solver, and no solver is called from here. A micro-batch
// is walked through the layers of a stage, forward and back, beside the engine that copies.

static const double BYTE = 1;
static const double SECONDS_RATIO = 1e-9;

// What one stage comes to.
struct tally {
    double kept, moved;  // bytes of one micro-batch
    double in_transit;   // of the largest layer
    double added_s;      // to one micro-batch
    double recompute_s;  // of them
    bool recomputes;
};

struct keep_walk {
    const struct keep_problem *problem;
    const struct keep_result *result;
    enum tier tier;
    double bytes_per_s;
};

// What goes to NVMe passes the host: the slower of both paces it.
static bool find_tier(struct keep_walk *walk, const char **why)
{
    const struct keep_problem *problem = walk->problem;
    *why = "activations are moved to two tiers";
    for (int tier = 1; tier < TIER_COUNT; tier++) {
        bool any = false;
        for (int class = 0; class < OFFLOAD_CLASS_MAX; class ++)
            any |= walk->result->layers[tier][class] != 0;
        if (!any) continue;
        if (walk->tier != TIER_DEVICE) return false;
        walk->tier = (enum tier)tier;
    }
    double host = problem->host_bytes_per_s, nvme = problem->nvme_bytes_per_s;
    walk->bytes_per_s = walk->tier == TIER_NVME && nvme < host ? nvme : host;
    *why = "activations are moved to a tier that may not be used";
    if (walk->tier == TIER_DEVICE) return true;
    return problem->tiers >> walk->tier & 1 && walk->bytes_per_s > 0;
}

// Counts within the layers there are, and of nothing but the classes of the problem.
static bool check_counts(const struct keep_walk *walk, const char **why)
{
    const struct keep_problem *problem = walk->problem;
    const struct keep_result *result = walk->result;
    int most = 0;
    for (int s = 0; s < problem->stage_count; s++)
        if (problem->stages[s].layer_count > most) most = problem->stages[s].layer_count;
    *why = "layers are recomputed that are not there, or in no known way";
    if (result->recompute < 0 || result->recompute >= problem->recompute_count) return false;
    if (result->recompute_layers < 0 || result->recompute_layers > most) return false;
    if ((result->recompute == 0) != (result->recompute_layers == 0)) return false;
    *why = "layers are moved that are not there";
    for (int class = 0; class < OFFLOAD_CLASS_MAX; class ++) {
        int count = result->layers[walk->tier][class];
        bool known = walk->tier == TIER_DEVICE && count == 0;
        for (int c = 0; c < problem->class_count; c++)
            known |= (int)problem->classes[c].op_class == class;
        if (count < 0 || count > most || (count > 0 && !known)) return false;
        if (result->layers[TIER_DEVICE][class] != 0) return false;
    }
    return true;
}

// What one layer does.
struct layer {
    double saved, moved;           // bytes
    double in_transit;             // moved of a layer of its kind wherever any is
    double forward_s, backward_s;  // beside which it may copy
    bool recomputed;
};

static struct layer layer_of(const struct keep_walk *walk, const struct keep_stage *stage,
                             int index)
{
    assert(index >= 0 && index < stage->layer_count);
    const struct keep_problem *problem = walk->problem;
    const struct keep_recompute *recompute = &problem->recomputes[walk->result->recompute];
    assert(index >= 0 && index < stage->layer_count);
    struct layer layer = {.recomputed = index < walk->result->recompute_layers};
    layer.forward_s = stage->forward_s;
    layer.backward_s = stage->backward_s + (layer.recomputed ? recompute->window_s : 0);
    for (int c = 0; c < problem->class_count; c++) {
        unsigned class = problem->classes[c].op_class;
        double bytes =
            (double)(layer.recomputed ? recompute->saved_bytes[class] : problem->classes[c].bytes);
        int count = walk->tier == TIER_DEVICE ? 0 : walk->result->layers[walk->tier][class];
        layer.saved += bytes;
        if (index < count) layer.moved += bytes;
        if (count > 0) layer.in_transit += bytes;
    }
    return layer;
}

// Down while this layer's successor computes, up while it goes back: whichever takes longer.
static void add_layer(const struct keep_walk *walk, const struct layer *layer, struct tally *tally)
{
    assert(layer->moved <= layer->saved);
    double recompute_s =
        layer->recomputed ? walk->problem->recomputes[walk->result->recompute].seconds : 0;
    double copy_s = layer->moved > 0 ? layer->moved / walk->bytes_per_s : 0;
    double end_s = copy_s > layer->forward_s ? copy_s : layer->forward_s;
    end_s += copy_s > layer->backward_s ? copy_s : layer->backward_s;
    tally->added_s += end_s - layer->forward_s - layer->backward_s + recompute_s;
    tally->recompute_s += recompute_s;
    tally->kept += layer->saved - layer->moved;
    tally->moved += layer->moved;
    tally->recomputes |= layer->recomputed;
    if (layer->in_transit > tally->in_transit) tally->in_transit = layer->in_transit;
}

// Before any point of forward, and of backward, the link has carried what was moved by then: in the
// time that the layers took and what the result says that was waited.
static bool check_links(const struct keep_walk *walk, const struct keep_stage *stage,
                        const struct tally *tally, const char **why)
{
    assert(walk->tier != TIER_DEVICE && walk->bytes_per_s > 0);
    double waited_s = walk->result->added_s - tally->recompute_s;
    for (int backward = 0; backward <= 1; backward++) {
        double bytes = 0, time_s = waited_s;
        *why = backward ? "more is copied back than the link carries by then"
                        : "more is copied out than the link carries by then";
        for (int i = 0; i < stage->layer_count; i++) {
            int index = backward ? stage->layer_count - 1 - i : i;
            struct layer layer = layer_of(walk, stage, index);
            bytes += layer.moved;
            time_s += backward ? layer.backward_s : layer.forward_s;
            if (bytes > time_s * walk->bytes_per_s * (1 + SECONDS_RATIO) + BYTE) return false;
        }
    }
    return true;
}

// On the way are two layers, in whichever tier the copies end.
static bool check_room(const struct keep_walk *walk, const struct keep_stage *stage,
                       const struct tally *tally, double *lack_bytes, const char **why)
{
    const struct keep_problem *problem = walk->problem;
    double transit = 2 * tally->in_transit;
    double device =
        (double)stage->other_bytes + stage->in_flight * tally->kept + transit +
        (tally->recomputes ? (double)problem->recomputes[walk->result->recompute].transient_bytes
                           : 0);
    double away = stage->in_flight * tally->moved;
    bool on_nvme = walk->tier == TIER_NVME;
    double host = on_nvme ? transit : away;
    *lack_bytes = fmax(*lack_bytes, device - (double)problem->device_bytes);
    *why = "the host has no room for what is moved";
    if (tally->moved > 0 && host > (double)problem->host_bytes + BYTE) return false;
    *why = "NVMe has no room for what is moved";
    return !on_nvme || away <= (double)problem->nvme_bytes + BYTE;
}

static bool is_near(double found_s, double stated_s)
{
    return fabs(found_s - stated_s) <= SECONDS_RATIO * (1 + fabs(found_s));
}

// A result that fits lacks nothing; one that does not says how much.
static bool check_stated(const struct keep_result *result, const struct tally *worst,
                         double lack_bytes, const char **why)
{
    *why = "the added seconds are not those stated";
    if (!is_near(worst->added_s, result->added_s)) return false;
    *why = "the bytes moved are not those stated";
    if (fabs(worst->moved - (double)result->moved_bytes) > BYTE) return false;
    bool fits = result->status == MILP_OPTIMAL || result->status == MILP_FEASIBLE;
    *why = "the device has no room for what is kept";
    if (fits && (lack_bytes > BYTE || result->shortfall_bytes != 0)) return false;
    *why = "what is lacking is not what is stated";
    if (!fits && fabs(lack_bytes - (double)result->shortfall_bytes) > BYTE) return false;
    *why = "the bound is above what was found";
    return !fits || result->bound_s <= result->added_s * (1 + SECONDS_RATIO);
}

bool check_keep(const struct keep_problem *problem, const struct keep_result *result,
                const char **why)
{
    assert(problem->stage_count > 0);
    struct keep_walk walk = {.problem = problem, .result = result};
    struct tally worst = {0};
    double lack_bytes = 0;
    if (!find_tier(&walk, why) || !check_counts(&walk, why)) return false;
    for (int s = 0; s < problem->stage_count; s++) {
        struct tally tally = {0};
        for (int i = 0; i < problem->stages[s].layer_count; i++) {
            struct layer layer = layer_of(&walk, &problem->stages[s], i);
            add_layer(&walk, &layer, &tally);
        }
        if (walk.tier != TIER_DEVICE && !check_links(&walk, &problem->stages[s], &tally, why))
            return false;
        if (!check_room(&walk, &problem->stages[s], &tally, &lack_bytes, why)) return false;
        if (tally.added_s > worst.added_s) worst.added_s = tally.added_s;
        if (tally.moved > worst.moved) worst.moved = tally.moved;
    }
    return check_stated(result, &worst, lack_bytes, why);
}
