#pragma once
#include "memory/keep/keep.h"

// The integer program of one way to recompute and one tier.
//
// What is done to the first N layers of a stage are items: moving a class, and recomputing. Since
// each covers the first layers, the sets of items of the layers form a chain; that is what rows
// about pairs of items say. Columns count the layers of each set, so that costs that are not linear
// in the counts of items (what a layer copies beyond its window) are linear in the columns.

enum { KEEP_ITEMS_MOST = OFFLOAD_CLASS_MAX + 1 };

// Of choices that take equally long the one that moves least: what moving everything costs beside
// the 100 that the objective runs to for the time.
static const double KEEP_MOVE_COST = 1e-3;

struct keep_model {
    const struct keep_problem *problem;
    const struct keep_recompute *recompute;  // NULL: nothing is recomputed
    enum tier tier;                          // TIER_DEVICE: nothing is moved
    const struct keep_class *moved[OFFLOAD_CLASS_MAX];
    int moved_count, item_count;  // the recompute is the last item
    int layers_most;
    double time_unit_s, move_unit_bytes;
    struct milp *milp;
    int count[KEEP_ITEMS_MOST], used[KEEP_ITEMS_MOST];
    // k < l: 1 where item k covers no fewer layers than l
    int order[KEEP_ITEMS_MOST][KEEP_ITEMS_MOST];
    int worst, lack;
};

// Layers of each item, and what they come to in seconds and bytes, counted layer by layer.
struct keep_choice {
    int count[KEEP_ITEMS_MOST];
    double added_s, lack_bytes, moved_bytes;
    bool tiers_fit;
};

double keep_bytes_per_s(const struct keep_problem *problem, enum tier tier);
// What a program counts device memory in, and how much of it there is.
double keep_device_unit(const struct keep_problem *problem);
double keep_device_room(const struct keep_problem *problem);
// Another stage has as many layers of the same windows, and no more room.
bool keep_is_covered(const struct keep_problem *problem, int stage);
struct keep_model keep_model_of(const struct keep_problem *problem,
                                const struct keep_recompute *recompute, enum tier tier);
// `for_lack`: asks for the choice that lacks least memory instead of the fastest that fits.
struct milp_result keep_model_solve(struct arena *arena, struct keep_model *model, bool for_lack,
                                    const struct milp_options *options, struct keep_choice *choice);

// Takes out of the counts what moves nothing, and fills the rest of the choice.
void keep_model_finish(const struct keep_model *model, struct keep_choice *choice);
// memory/keep/keep_search.c: the same without GLPK, of the options the cutoff alone. FEASIBLE or
// UNKNOWN where there were too many nodes; of what lacks least always, unless that is its bound.
struct milp_result keep_search(struct arena *arena, struct keep_model *model, bool for_lack,
                               const struct milp_options *options, struct keep_choice *choice);

// One layer and micro-batch with a set of items (1 << index): what is kept on the device, what is
// moved, and what it takes longer: what is recomputed, and of the copies what compute does not
// hide.
double keep_kept_bytes(const struct keep_model *model, unsigned set);
double keep_moved_bytes(const struct keep_model *model, unsigned set);
double keep_added_s(const struct keep_model *model, const struct keep_stage *stage, unsigned set);

// memory/keep/keep_bound.c: no solution of the program has an objective below this; INFINITY: it
// has none. Takes microseconds, where a program takes milliseconds. Rooms that are missed by less
// than the slack, in units of the rows, are left for the program to judge.
static const double KEEP_BOUND_SLACK = 1e-4;
double keep_least(const struct keep_model *model, bool for_lack);

// Fills all of a choice but its counts. Of a stage: adds to it, and returns bytes on the device.
void keep_weigh(const struct keep_model *model, struct keep_choice *choice);
double keep_weigh_stage(const struct keep_model *model, const struct keep_stage *stage,
                        struct keep_choice *choice);
