#pragma once
#include "planner/pick.h"
#include "planner/refine.h"
#include "planner/scan_tail.h"

// One plan of a tail that is scanned: how long it takes, whether it has room, whether it is taken.
// Included by planner/scan_tail.c and planner/scan_plan.c alone.

// One tail while it is scanned.
struct scan_tail {
    struct scan *scan;
    const struct space_tail *ways;
    struct pick pick;
    double work_s;                       // no plan takes less before its update
    bool is_bounded;                     // by time, of several places for what is moved
    enum tier settled;                   // states there and behind it leave nothing to ask
    double unfit_count[SPACE_MOVE_MAX];  // of one way to divide its stages
    // [states][way to recompute]: beside activations that are moved no more layers are recomputed,
    // since that is no faster than what was asked without
    int recomputed_most[TIER_COUNT][2 * SPACE_VALUE_MAX];
    bool is_lost[TIER_COUNT];  // of states there nothing that has room is fast
    struct refine_seen seen;
    struct candidate priced;  // the last that was
};

bool tail_fits(struct scan *scan, struct candidate *plan);
// Prices it; the last plan's ways are remembered.
void tail_price(struct scan_tail *tail, struct candidate *plan);
void tail_take(struct scan_tail *tail, const struct candidate *plan);
// Whether a plan of the tail is faster whatever this one needs.
bool tail_loses(const struct scan_tail *tail, double step_s);
// No update of such a plan takes less, behind all else of the step.
double tail_least_update_s(const struct scan_tail *tail, const struct offload *offload);
bool tail_may_take(const struct scan_tail *tail, double least_s);
// Whether the plan may be among the best by time: asked of the closed form, or, where that is dear,
// of a bound below it.
bool tail_may_be_fast(struct scan_tail *tail, struct candidate *plan);
// Takes the plan where it is one of the best. False where it has no room.
bool tail_consider(struct scan_tail *tail, const struct parallel *parallel);
