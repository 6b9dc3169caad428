#pragma once
#include "planner/search.h"

// The space that a search goes through, choice by choice: what `--space` prints. Made of the same
// meshes, groups and tails as the search's own.

enum { SPACE_LIST_MAX = 64 };

struct space_list {
    struct {
        int64_t values[SPACE_LIST_MAX];  // in ascending order
        int count;                       // of all values; only the first SPACE_LIST_MAX are kept
        bool is_pinned;
    } choices[32];      // by enum choice
    double plan_count;  // each with even and with balanced stages counted once
    bool has_pipeline;
    unsigned cuts;  // 1 << enum cut: of the degrees
};

// False and ERR_USAGE where no plan is legal.
MUST_CHECK bool space_list(struct arena *arena, const struct search_request *request,
                           struct space_list *list, struct err *err);
