#pragma once
#include "planner/fewer.h"

// A plan around a rank that stays slow: without the rank, or with it and its measured factor, where
// its stage may get fewer layers and its replica fewer micro-batches. Every plan that keeps the
// rank is played with it slow (simulator/inject.h); the fastest step wins, and of equal ones the
// plan that keeps more ranks.

struct around_request {
    struct search_request search;  // of all ranks; its pins are not looked at
    struct parallel was;           // the plan that runs, one of them
    int slow_rank;
    double ratio;  // its own work by that of the others, >= 1
};

struct around_answer {
    bool is_found;  // false: there is no other plan that fits
    bool keeps;     // all ranks work on, the slow one too
    double stay_s;  // a step of `was` with the rank slow
    double step_s;  // of the plan found; with the rank slow where that is in it
    struct parallel parallel;
    struct search_request request;  // the ranks that it is of
    struct search_result result;    // that it was found among
    enum fewer_kept kept;           // of `was`
};

// ERR_USAGE where `was` is no plan of these ranks. The answer lives in `arena`.
MUST_CHECK bool around_search(struct arena *arena, const struct around_request *request,
                              struct around_answer *answer, struct err *err);
