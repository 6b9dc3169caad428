#pragma once
#include "cli/options.h"
#include "core/err.h"

// What the command line of `run` says of checkpoints and of what can befall ranks.

enum { SLOW_RANKS_MAX = 64 };

struct checkpoint_arguments {
    const char *folder;  // NULL: none are written
    int every, keep;     // 0: by measured cost and failures; all
    const char *resume;  // NULL: not asked for; "": asked for; "auto"
    int restarts;
    int ranks_left;  // 0: all
    bool replan;
    const char *slow;  // R=FACTOR, FIRST..LAST=FACTOR, joined by commas; NULL: no rank is made slow
    struct slow_ranks {
        int first, last;
        double ratio;
    } slow_ranks[SLOW_RANKS_MAX];
    int slow_count;
};

enum { CHECKPOINT_OPTION_COUNT = 9 };

// The rows of the table, without the end row. Returns how many were written.
int checkpoint_options(struct checkpoint_arguments *arguments,
                       struct option options[CHECKPOINT_OPTION_COUNT]);
// ERR_USAGE where one needs another.
MUST_CHECK bool checkpoint_options_check(const struct checkpoint_arguments *arguments,
                                         struct err *err);

// Fills slow_ranks. ERR_USAGE.
MUST_CHECK bool checkpoint_options_slow(struct checkpoint_arguments *arguments, struct err *err);
// How many times as long what this rank works takes; 1: it is not made slow.
double checkpoint_options_slow_ratio(const struct checkpoint_arguments *arguments, int rank);
