#include "memory/keep/keep_model.h"

#include "cost_models/offload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { LAYERS_IN_TRANSIT = 2 };

// Rows run to about this: GLPK's tolerances are absolute there.
static const double SCALE = 100;
static const double MEMORY_SLACK_RATIO = 1e-5;

double keep_device_unit(const struct keep_problem *problem)
{
    return fmax(1, (double)problem->device_bytes) / SCALE;
}

double keep_device_room(const struct keep_problem *problem)
{
    return (double)problem->device_bytes * (1 - MEMORY_SLACK_RATIO);
}

double keep_bytes_per_s(const struct keep_problem *problem, enum tier tier)
{
    if (tier == TIER_NVME) return fmin(problem->nvme_bytes_per_s, problem->host_bytes_per_s);
    return problem->host_bytes_per_s;
}

static bool is_recomputed(const struct keep_model *model, unsigned set)
{
    return model->recompute && set >> model->moved_count & 1;
}

static double class_bytes(const struct keep_model *model, const struct keep_class *class,
                          bool recomputed)
{
    return (double)(recomputed ? model->recompute->saved_bytes[class->op_class] : class->bytes);
}

double keep_moved_bytes(const struct keep_model *model, unsigned set)
{
    double bytes = 0;
    for (int k = 0; k < model->moved_count; k++)
        if (set >> k & 1) bytes += class_bytes(model, model->moved[k], is_recomputed(model, set));
    return bytes;
}

double keep_kept_bytes(const struct keep_model *model, unsigned set)
{
    double bytes = 0;
    for (int c = 0; c < model->problem->class_count; c++)
        bytes += class_bytes(model, &model->problem->classes[c], is_recomputed(model, set));
    return bytes - keep_moved_bytes(model, set);
}

double keep_added_s(const struct keep_model *model, const struct keep_stage *stage, unsigned set)
{
    bool recomputed = is_recomputed(model, set);
    double recompute_s = recomputed ? model->recompute->seconds : 0;
    double window_s = stage->backward_s + (recomputed ? model->recompute->window_s : 0);
    double bytes = keep_moved_bytes(model, set);
    if (bytes <= 0) return recompute_s;
    double copy_s = bytes / keep_bytes_per_s(model->problem, model->tier);
    return recompute_s + copy_exposed_s(copy_s, stage->forward_s) +
           copy_exposed_s(copy_s, window_s);
}

bool keep_is_covered(const struct keep_problem *problem, int s)
{
    const struct keep_stage *at = &problem->stages[s];
    for (int t = 0; t < problem->stage_count; t++) {
        const struct keep_stage *by = &problem->stages[t];
        if (t == s || by->layer_count != at->layer_count) continue;
        if (by->forward_s != at->forward_s || by->backward_s != at->backward_s) continue;
        if (by->in_flight < at->in_flight || by->other_bytes < at->other_bytes) continue;
        bool same = by->in_flight == at->in_flight && by->other_bytes == at->other_bytes;
        if (!same || t < s) return true;
    }
    return false;
}

static void add_items(struct keep_model *model)
{
    struct milp *milp = model->milp;
    int most = model->layers_most;
    for (int k = 0; k < model->item_count; k++) {
        model->count[k] = milp_column(milp, MILP_INTEGER, 0, most, 0);
        model->used[k] = milp_column(milp, MILP_BINARY, 0, 1, 0);
        int row = milp_row(milp, -INFINITY, 0);
        milp_put(milp, row, model->count[k], 1);
        milp_put(milp, row, model->used[k], -most);
        for (int l = 0; l < k; l++)
            model->order[l][k] = milp_column(milp, MILP_BINARY, 0, 1, 0);
    }
}

// The item's count in a stage of `layers`, which is what is there of it at most.
static int add_least(struct keep_model *model, int item, int layers)
{
    struct milp *milp = model->milp;
    int most = model->layers_most;
    if (layers == most) return model->count[item];
    int least = milp_column(milp, MILP_INTEGER, 0, layers, 0);
    int all = milp_column(milp, MILP_BINARY, 0, 1, 0);
    int below = milp_row(milp, -INFINITY, 0), above = milp_row(milp, -INFINITY, 0),
        full = milp_row(milp, 0, INFINITY);
    milp_put(milp, below, least, 1);
    milp_put(milp, below, model->count[item], -1);
    milp_put(milp, above, model->count[item], 1);
    milp_put(milp, above, least, -1);
    milp_put(milp, above, all, -(most - layers));
    milp_put(milp, full, least, 1);
    milp_put(milp, full, all, -layers);
    return least;
}

// Sets that have k without l, or l without k: only one of the two may have layers.
static void add_pair(struct keep_model *model, const int *sets, int k, int l, int layers)
{
    int k_alone = milp_row(model->milp, -INFINITY, 0),
        l_alone = milp_row(model->milp, -INFINITY, layers);
    milp_put(model->milp, k_alone, model->order[k][l], -layers);
    milp_put(model->milp, l_alone, model->order[k][l], layers);
    for (unsigned set = 0; set < 1u << model->item_count; set++) {
        bool has_k = set >> k & 1, has_l = set >> l & 1;
        if (has_k && !has_l) milp_put(model->milp, k_alone, sets[set], 1);
        if (has_l && !has_k) milp_put(model->milp, l_alone, sets[set], 1);
    }
}

// Columns of stages with this many layers: how many have each set of items.
static void add_sets(struct keep_model *model, int layers, int *sets)
{
    assert(layers <= model->layers_most && model->item_count <= KEEP_ITEMS_MOST);
    unsigned set_count = 1u << model->item_count;
    int all = milp_row(model->milp, layers, layers);
    for (unsigned set = 0; set < set_count; set++) {
        sets[set] = milp_column(model->milp, MILP_INTEGER, 0, layers, 0);
        milp_put(model->milp, all, sets[set], 1);
    }
    for (int k = 0; k < model->item_count; k++) {
        int row = milp_row(model->milp, 0, 0);
        milp_put(model->milp, row, add_least(model, k, layers), -1);
        for (unsigned set = 0; set < set_count; set++)
            if (set >> k & 1) milp_put(model->milp, row, sets[set], 1);
        for (int l = 0; l < k; l++)
            add_pair(model, sets, l, k, layers);
    }
}

// What is moved of one layer, of the kind of layer that moves more: those not recomputed, where
// there are any.
static int add_transit(struct keep_model *model, const int *sets, int layers, double unit)
{
    struct milp *milp = model->milp;
    int transit = milp_column(milp, MILP_CONTINUOUS, 0, INFINITY, 0);
    for (int recomputed = 0; recomputed <= (model->recompute != NULL); recomputed++) {
        double all = 0;
        for (int k = 0; k < model->moved_count; k++)
            all += class_bytes(model, model->moved[k], recomputed) / unit;
        int there = milp_column(milp, MILP_BINARY, 0, 1, 0);
        int some = milp_row(milp, -INFINITY, 0), row = milp_row(milp, -all, INFINITY);
        milp_put(milp, some, there, -layers);
        for (unsigned set = 0; set < 1u << model->item_count; set++)
            if (is_recomputed(model, set) == recomputed) milp_put(milp, some, sets[set], 1);
        milp_put(milp, row, transit, 1);
        milp_put(milp, row, there, -all);
        for (int k = 0; k < model->moved_count; k++)
            milp_put(milp, row, model->used[k],
                     -class_bytes(model, model->moved[k], recomputed) / unit);
    }
    return transit;
}

// Room for what is moved, on the host or on NVMe.
static void add_tier(struct keep_model *model, const struct keep_stage *stage, const int *sets,
                     int64_t limit_bytes)
{
    double unit = fmax(1, (double)limit_bytes) / SCALE;
    double room = (double)limit_bytes / unit * (1 - MEMORY_SLACK_RATIO);
    int row = milp_row(model->milp, -INFINITY, room);
    for (unsigned set = 0; set < 1u << model->item_count; set++)
        milp_put(model->milp, row, sets[set],
                 stage->in_flight * keep_moved_bytes(model, set) / unit);
}

static void add_device(struct keep_model *model, const struct keep_stage *stage, const int *sets)
{
    const struct keep_problem *problem = model->problem;
    double unit = keep_device_unit(problem), room = keep_device_room(problem);
    int row = milp_row(model->milp, -INFINITY, (room - (double)stage->other_bytes) / unit);
    for (unsigned set = 0; set < 1u << model->item_count; set++)
        milp_put(model->milp, row, sets[set],
                 stage->in_flight * keep_kept_bytes(model, set) / unit);
    // The most that any stage lacks: one column for all their rows.
    if (model->lack >= 0) milp_put(model->milp, row, model->lack, -1);
    if (model->recompute)
        milp_put(model->milp, row, model->used[model->moved_count],
                 (double)model->recompute->transient_bytes / unit);
    if (model->moved_count == 0) return;
    int transit = add_transit(model, sets, stage->layer_count, unit);
    milp_put(model->milp, row, transit, LAYERS_IN_TRANSIT);
    if (model->tier == TIER_HOST) return add_tier(model, stage, sets, problem->host_bytes);
    add_tier(model, stage, sets, problem->nvme_bytes);
    // What is on its way to NVMe passes the host.
    double host = (double)problem->host_bytes / unit * (1 - MEMORY_SLACK_RATIO);
    int passing = milp_row(model->milp, -INFINITY, host);
    milp_put(model->milp, passing, transit, LAYERS_IN_TRANSIT);
}

static void add_stage(struct keep_model *model, const struct keep_stage *stage, const int *sets)
{
    struct milp *milp = model->milp;
    int time = milp_row(milp, -INFINITY, 0), moves = milp_row(milp, -INFINITY, 0);
    int moved = milp_column(milp, MILP_CONTINUOUS, 0, INFINITY,
                            model->lack >= 0 ? 0 : KEEP_MOVE_COST / model->problem->stage_count);
    for (unsigned set = 0; set < 1u << model->item_count; set++) {
        milp_put(milp, time, sets[set], keep_added_s(model, stage, set) / model->time_unit_s);
        milp_put(milp, moves, sets[set], keep_moved_bytes(model, set) / model->move_unit_bytes);
    }
    milp_put(milp, time, model->worst, -1);
    milp_put(milp, moves, moved, -1);
    add_device(model, stage, sets);
}

static void add_stages(struct arena *arena, struct keep_model *model)
{
    const struct keep_problem *problem = model->problem;
    int **sets = ARENA_NEW(arena, int *, model->layers_most + 1);
    for (int s = 0; s < problem->stage_count; s++) {
        const struct keep_stage *stage = &problem->stages[s];
        if (keep_is_covered(problem, s)) continue;
        int layers = stage->layer_count;
        if (!sets[layers]) {
            sets[layers] = ARENA_NEW(arena, int, 1 << model->item_count);
            add_sets(model, layers, sets[layers]);
        }
        add_stage(model, stage, sets[layers]);
    }
}

static unsigned set_of(const struct keep_model *model, const struct keep_choice *choice, int layer)
{
    unsigned set = 0;
    for (int k = 0; k < model->item_count; k++)
        if (choice->count[k] > layer) set |= 1u << k;
    return set;
}

// Returns bytes on the device.
double keep_weigh_stage(const struct keep_model *model, const struct keep_stage *stage,
                        struct keep_choice *choice)
{
    const struct keep_problem *problem = model->problem;
    double kept = 0, moved = 0, added = 0, transit = 0, transient = 0;
    unsigned first = set_of(model, choice, 0);
    for (int i = 0; i < stage->layer_count; i++) {
        unsigned set = set_of(model, choice, i), recompute = 1u << model->moved_count;
        bool recomputed = is_recomputed(model, set);
        kept += keep_kept_bytes(model, set);
        moved += keep_moved_bytes(model, set);
        added += keep_added_s(model, stage, set);
        transit = fmax(
            transit, keep_moved_bytes(model, recomputed ? first | recompute : first & ~recompute));
        if (recomputed) transient = (double)model->recompute->transient_bytes;
    }
    double device = (double)stage->other_bytes + stage->in_flight * kept +
                    LAYERS_IN_TRANSIT * transit + transient;
    double lack = device - (double)problem->device_bytes;
    bool on_nvme = model->tier == TIER_NVME;
    double host = on_nvme ? LAYERS_IN_TRANSIT * transit : stage->in_flight * moved;
    choice->lack_bytes = fmax(choice->lack_bytes, lack);
    choice->added_s = fmax(choice->added_s, added);
    choice->moved_bytes = fmax(choice->moved_bytes, moved);
    if (host > (double)problem->host_bytes && moved > 0) choice->tiers_fit = false;
    if (on_nvme && stage->in_flight * moved > (double)problem->nvme_bytes)
        choice->tiers_fit = false;
    return device;
}

void keep_weigh(const struct keep_model *model, struct keep_choice *choice)
{
    choice->added_s = choice->lack_bytes = choice->moved_bytes = 0;
    choice->tiers_fit = true;
    for (int s = 0; s < model->problem->stage_count; s++)
        keep_weigh_stage(model, &model->problem->stages[s], choice);
}

struct keep_model keep_model_of(const struct keep_problem *problem,
                                const struct keep_recompute *recompute, enum tier tier)
{
    struct keep_model model = {
        .problem = problem, .recompute = recompute, .tier = tier, .lack = -1};
    assert(problem->class_count <= OFFLOAD_CLASS_MAX);  // each class is there once
    double bytes = 0, recompute_s = 0, slowest = INFINITY;
    for (int c = 0; c < problem->class_count; c++) {
        const struct keep_class *class = &problem->classes[c];
        assert(class->op_class < OFFLOAD_CLASS_MAX);
        bytes += (double)class->bytes;
        if (tier != TIER_DEVICE && class->bytes > 0) model.moved[model.moved_count++] = class;
    }
    for (int s = 0; s < problem->stage_count; s++)
        if (problem->stages[s].layer_count > model.layers_most)
            model.layers_most = problem->stages[s].layer_count;
    for (int r = 0; r < problem->recompute_count; r++)
        recompute_s = fmax(recompute_s, problem->recomputes[r].seconds);
    // The same units whatever is recomputed and where it goes, so that programs can be compared.
    for (enum tier at = TIER_HOST; at < TIER_COUNT; at++)
        if (keep_bytes_per_s(problem, at) > 0)
            slowest = fmin(slowest, keep_bytes_per_s(problem, at));
    double layers = fmax(1, model.layers_most);
    model.time_unit_s = layers * (recompute_s + 2 * bytes / slowest) / SCALE;
    if (model.time_unit_s <= 0) model.time_unit_s = 1;
    model.move_unit_bytes = fmax(1, layers * bytes);
    model.item_count = model.moved_count + (recompute != NULL);
    return model;
}

// Of a class that recomputed layers do not save nothing is moved where all that would be are
// recomputed.
static void drop_idle(const struct keep_model *model, struct keep_choice *choice)
{
    if (!model->recompute) return;
    int recomputed = choice->count[model->moved_count];
    for (int k = 0; k < model->moved_count; k++)
        if (choice->count[k] <= recomputed && class_bytes(model, model->moved[k], true) <= 0)
            choice->count[k] = 0;
}

void keep_model_finish(const struct keep_model *model, struct keep_choice *choice)
{
    drop_idle(model, choice);
    keep_weigh(model, choice);
}

struct milp_result keep_model_solve(struct arena *arena, struct keep_model *model, bool for_lack,
                                    const struct milp_options *options, struct keep_choice *choice)
{
    model->milp = milp_new(arena, "keep");
    model->worst = milp_column(model->milp, MILP_CONTINUOUS, 0, INFINITY, for_lack ? 0 : 1);
    if (for_lack) model->lack = milp_column(model->milp, MILP_CONTINUOUS, 0, INFINITY, 1);
    add_items(model);
    add_stages(arena, model);
    struct milp_result result = milp_solve(model->milp, options);
    if (!result.values) return result;
    for (int k = 0; k < model->item_count; k++)
        choice->count[k] = (int)lround(result.values[model->count[k]]);
    for (int k = 0; k < model->item_count; k++)
        assert(choice->count[k] >= 0 && choice->count[k] <= model->layers_most);
    keep_model_finish(model, choice);
    return result;
}
