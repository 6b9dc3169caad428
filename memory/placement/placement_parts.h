#pragma once
#include "memory/placement/placement.h"

// What the parts of a placement's search share. Included by memory/placement/ alone.

struct placed_search {
    const struct placement_problem *problem;
    struct placed_intervals intervals;
    int ahead;  // room is kept for what is on its way for so many moments
    int node_cap, column_most, exact_most;
};

// Of what NVMe gives one way alone, what both ways together get.
static inline double placed_duplex(const struct placement_problem *problem)
{
    return problem->nvme_duplex_ratio > 1 ? problem->nvme_duplex_ratio : 1;
}

// Of the device while a moment works, without what is kept across it.
int64_t placed_moment_bytes(const struct placement_problem *problem, int moment);

// What is left of the device by moment when nothing is kept but what is on its way.
// False where that is too much already.
bool placed_room(const struct placed_search *placing, int64_t *room);
// The moments across which keeping an interval takes room: from the first up to the last, without
// it. Before and behind them it is on its way.
int placed_first(const struct placed_search *placing, const struct placed_interval *interval);
int placed_last(const struct placed_search *placing, const struct placed_interval *interval);
// Takes (or with -1 gives back) the room of an interval.
void placed_take(const struct placed_search *placing, const struct placed_interval *interval,
                 int sign, int64_t *room);
// Keeps in this order what still fits beside what is kept; `keep` must be set.
void placed_fill(struct arena *arena, const struct placed_search *placing, const int *order,
                 int count, bool *keep);

enum placed_rule {
    PLACED_RULE_OLDEST,    // what was used longest ago goes first
    PLACED_RULE_FARTHEST,  // what is used again last
    PLACED_RULE_CHEAPEST,  // what saves least a byte and moment
};
void placed_static(struct arena *arena, const struct placed_search *placing, bool *keep);
// Keeps what has the highest share and, of equal shares, saves most a byte and moment. `shares`
// NULL: all are equal.
void placed_by_saving(struct arena *arena, const struct placed_search *placing,
                      const double *shares, bool *keep);
// Goes round the circle until it repeats itself.
void placed_on_demand(struct arena *arena, const struct placed_search *placing,
                      enum placed_rule rule, bool *keep);

// Up and down, a step.
struct placed_moved {
    int64_t up_bytes, down_bytes;
};
struct placed_moved placed_moved(struct arena *arena, const struct placed_search *placing,
                                 const bool *keep);

// What a moment moves: the device's between it and the homes of what it accesses (of NVMe, read and
// written there), the host's on NVMe alone.
struct placed_traffic {
    int64_t up_bytes, down_bytes, nvme_read_bytes, nvme_written_bytes;
};
// No order of these copies takes less, `room` bytes by moment beside what works and is kept. The
// host holds, of what it works at on NVMe, one moment's reads ahead and two moments' writes behind.
double placed_least_s(struct arena *arena, const struct placed_search *placing,
                      const struct placed_traffic *traffic, const int64_t *room);

// The relaxation and what is made of it. `shares` [interval], rounded by whoever asked; NULL where
// it was not solved.
struct placed_relaxed {
    double bound_bytes;
    const double *shares;
};
struct placed_relaxed placed_relax(struct arena *arena, const struct placed_search *placing);
// Betters `keep` by the integer program. Whether it is proven then that nothing that repeats itself
// step by step moves less.
bool placed_exact(struct arena *arena, const struct placed_search *placing, bool *keep);
