#include "memory/keep/keep_model.h"

#include <assert.h>
#include <math.h>

// What a program is no better than, found without it: each stage by itself, counts that need not be
// whole, and two rows at a time.

enum { SETS_MOST = 1 << KEEP_ITEMS_MOST };

// Of one layer and micro-batch of a stage, by set of items.
struct sets {
    int count;
    double kept_bytes[SETS_MOST], moved_bytes[SETS_MOST], added_s[SETS_MOST];
};

static void describe(const struct keep_model *model, const struct keep_stage *stage,
                     struct sets *sets)
{
    assert(model->item_count >= 0 && model->item_count <= KEEP_ITEMS_MOST);
    sets->count = 1 << model->item_count;
    assert(sets->count > 0);
    for (int set = 0; set < sets->count; set++) {
        sets->kept_bytes[set] = keep_kept_bytes(model, (unsigned)set);
        sets->moved_bytes[set] = keep_moved_bytes(model, (unsigned)set);
        sets->added_s[set] = keep_added_s(model, stage, (unsigned)set);
    }
}

struct mix {
    const double *value, *weight;
    int count;
    double room;
};

// Of sets that are mixed so that they weigh as much as there is room.
static double mixed(const struct mix *mix, int light, int heavy)
{
    double share = (mix->room - mix->weight[light]) / (mix->weight[heavy] - mix->weight[light]);
    return mix->value[light] + share * (mix->value[heavy] - mix->value[light]);
}

static int lighter_for(const struct mix *mix, int light, int heavy)
{
    for (int i = 0; i < mix->count; i++) {
        if (mix->weight[i] > mix->room) continue;
        double now = heavy < 0 ? mix->value[light] : mixed(mix, light, heavy);
        double other = heavy < 0 ? mix->value[i] : mixed(mix, i, heavy);
        if (other < now) light = i;
    }
    return light;
}

static int heavier_for(const struct mix *mix, int light, int heavy)
{
    for (int j = 0; j < mix->count; j++) {
        if (mix->weight[j] <= mix->room) continue;
        double now = heavy < 0 ? mix->value[light] : mixed(mix, light, heavy);
        if (mixed(mix, light, j) < now) heavy = j;
    }
    return heavy;
}

// The least mean value of layers that have room together; INFINITY: no mix has. A program of two
// rows has an optimum of at most two sets, one with room and one without: each is exchanged for a
// better one until the line through both has no set below it.
static double mix_least(const struct mix *mix)
{
    int light = 0, heavy = -1;
    for (int i = 1; i < mix->count; i++)
        if (mix->weight[i] < mix->weight[light]) light = i;
    if (mix->weight[light] > mix->room) return INFINITY;
    for (;;) {
        int next_light = lighter_for(mix, light, heavy);
        int next_heavy = heavier_for(mix, next_light, heavy);
        if (next_light == light && next_heavy == heavy) break;
        light = next_light, heavy = next_heavy;
    }
    return heavy < 0 ? mix->value[light] : mixed(mix, light, heavy);
}

// What the stage holds above its limit with as much moved as the tier takes.
static double stage_lack_bytes(const struct keep_model *model, const struct keep_stage *stage,
                               const struct sets *sets)
{
    const struct keep_problem *problem = model->problem;
    double alive = stage->in_flight * stage->layer_count;
    double tier_bytes =
        (double)(model->tier == TIER_NVME ? problem->nvme_bytes : problem->host_bytes);
    struct mix mix = {sets->kept_bytes, sets->moved_bytes, sets->count, 0};
    if (alive > 0) mix.room = model->moved_count > 0 ? tier_bytes / alive : INFINITY;
    return (double)stage->other_bytes + alive * mix_least(&mix) - keep_device_room(problem);
}

static double stage_least_s(const struct keep_model *model, const struct keep_stage *stage,
                            const struct sets *sets)
{
    double alive = stage->in_flight * stage->layer_count;
    if (alive <= 0) return 0;
    double room = (keep_device_room(model->problem) - (double)stage->other_bytes) / alive;
    struct mix mix = {sets->added_s, sets->kept_bytes, sets->count, room};
    return stage->layer_count * mix_least(&mix);
}

double keep_least(const struct keep_model *model, bool for_lack)
{
    const struct keep_problem *problem = model->problem;
    double lack_bytes = 0, least_s = 0;
    struct sets sets;
    for (int s = 0; s < problem->stage_count; s++) {
        const struct keep_stage *stage = &problem->stages[s];
        if (keep_is_covered(problem, s)) continue;
        describe(model, stage, &sets);
        lack_bytes = fmax(lack_bytes, stage_lack_bytes(model, stage, &sets));
        if (!for_lack) least_s = fmax(least_s, stage_least_s(model, stage, &sets));
    }
    double lack = lack_bytes / keep_device_unit(problem);
    if (for_lack) return lack;
    return lack > KEEP_BOUND_SLACK ? INFINITY : least_s / model->time_unit_s;
}
