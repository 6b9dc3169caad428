#pragma once
#include "cli/options.h"
#include "simulator/inject.h"

// --slow-rank, --degraded-nic, --slow-link and --jitter.

struct inject_arguments {
    struct text_list slow_ranks, degraded_nics, slow_links;
    double jitter_ratio;
    int64_t seed;
};

enum { INJECT_OPTION_COUNT = 6 };

// The rows of the table, without the end row. Returns how many were written.
int inject_options(struct inject_arguments *arguments, struct option options[INJECT_OPTION_COUNT]);
bool inject_is_asked(const struct inject_arguments *arguments);
// ERR_USAGE where a text is not PLACE=FACTOR. `injection` lives in `arena`.
MUST_CHECK bool inject_read(struct arena *arena, const struct inject_arguments *arguments,
                            struct injection *injection, struct err *err);
