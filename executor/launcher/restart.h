#pragma once
#include <stdbool.h>
#include <stdint.h>

// Whether a job whose ranks have ended is started again, and with which of them. A rank is taken to
// be gone for good that dies again with no new checkpoint between: a second time in a row where no
// step has begun since, as where its device is gone, a third time in any case. Kills that come by
// chance, twice on one rank within an interval, cost it nothing.
enum { RESTART_DEATHS = 3 };

struct restart_rule {
    int left;             // restarts
    int died_rank;        // in the job before; -1: none
    int64_t died_behind;  // the last checkpoint then
    int deaths;           // of that rank in a row, since that checkpoint
};

struct restart_end {  // how a job has ended, otherwise than well
    bool may_help;    // not by a signal to the launcher, nor by what is wrong with the input
    int failed_rank;  // -1: of no one in particular
    int rank_count;
    bool has_begun;     // a step
    bool is_fixed;      // others say how many ranks there are
    int64_t last_step;  // of the last checkpoint; 0: there is none
};

enum restart_next { RESTART_NOT, RESTART_AGAIN, RESTART_WITHOUT };

enum restart_next restart_next(struct restart_rule *rule, const struct restart_end *end);
