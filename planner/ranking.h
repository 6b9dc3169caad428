#pragma once
#include "planner/space.h"

// The best plans found so far, best first. The order is total and the same in every run: by the
// objective, then by the other one of time and memory, then by the choices in the order of
// planner/choice.h, then by the axis order and the stage layers.

struct ranking {
    enum objective objective;
    struct candidate *items;
    int count, capacity;
};

struct ranking ranking_new(struct arena *arena, enum objective objective, int capacity);
// Whole nanoseconds: what the planner calls equal.
int64_t step_ns(double step_s);
// Negative when `a` comes before `b`.
int candidate_compare(enum objective objective, const struct candidate *a,
                      const struct candidate *b);
// Takes the plan in when it is among the best; false when it is not.
bool ranking_offer(struct ranking *ranking, const struct candidate *plan);
// Whether a plan with these lower limits on its time and memory could still be taken in.
bool ranking_may_take(const struct ranking *ranking, double step_s, int64_t reserved_bytes);
void ranking_sort(struct ranking *ranking);
