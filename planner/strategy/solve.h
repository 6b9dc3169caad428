#pragma once
#include "planner/strategy/problem.h"

// Solves a strategy problem: makes it smaller (reduce.h), bounds it (dual.h), reads choices off the
// bound (round.h) and betters them (search.h) as long as the limit lasts; a small problem that is
// left is solved exactly by GLPK (exact.h).
//
// The time limit is a budget of work: 3.5e8 entries of tables and cost matrices a second, reading
// and reducing included, which is what instances S, T and U of the IOPDDL contest took on one core
// of a shared x86-64 server (2026; small graphs take up to half of that time). What is found hangs
// on the file, the limit and the seed alone, on every machine; the clock only ends a run that takes
// more than twice the limit of processor time, and `is_cut` then says so.

struct strategy_options {
    double time_limit_s;
    uint64_t seed;
    int workers;  // cores that search, each for the limit, and share what they find; 0 and 1: one
    void (*log)(void *context, const char *line);  // NULL: silent
    void *log_context;
};

struct strategy_answer {
    const int *choice;  // [node_count]; NULL: none was found
    struct strategy_value value;
    int64_t bound;       // no valid choice costs less, in whole numbers
    bool is_impossible;  // proven: nothing is allowed or fits
    bool is_cut;         // by the clock
};

// (cost - bound) / cost; 0 where both are.
double strategy_gap(const struct strategy_answer *answer);

// Lives in `arena`.
struct strategy_answer strategy_solve(struct arena *arena, const struct strategy_problem *problem,
                                      const struct strategy_options *options);
