#include "executor/launcher/restart.h"

enum restart_next restart_next(struct restart_rule *rule, const struct restart_end *end)
{
    if (!end->may_help || rule->left <= 0) return RESTART_NOT;
    rule->left--;
    bool is_again = end->failed_rank >= 0 && rule->died_rank == end->failed_rank &&
                    rule->died_behind == end->last_step;
    rule->deaths = is_again ? rule->deaths + 1 : 1;
    bool is_gone = is_again && (!end->has_begun || rule->deaths == RESTART_DEATHS) &&
                   end->rank_count > 1 && !end->is_fixed;
    // Ranks are numbered anew without it.
    rule->died_rank = is_gone ? -1 : end->failed_rank;
    rule->died_behind = end->last_step;
    return is_gone ? RESTART_WITHOUT : RESTART_AGAIN;
}
