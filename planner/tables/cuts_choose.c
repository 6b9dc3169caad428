#include "memory/milp.h"
#include "planner/tables/cuts.h"

#include <assert.h>
#include <math.h>

// The first program. Columns: z, the seconds; for each cut how many tables go that way, and whether
// any does. Bytes are in shares of what there is, seconds in shares of the sum of each table's
// fastest way, so that coefficients stay near 1.

enum { NODES_MOST = 4000 };
static const double ENOUGH = 1e-4;  // of the optimum
// Pieces are whole: not every rank can be filled to the last byte.
static const double FILLED_MOST = 0.995;

static double scale_of(const struct table_cuts *cuts, const struct table_limits *limits)
{
    double sum = 0;
    for (int g = 0; g < cuts->group_count; g++) {
        const struct table_group *group = &cuts->groups[g];
        double least = INFINITY;
        for (int c = group->cut_first; c < group->cut_first + group->cut_count; c++)
            least = fmin(least, cuts->cuts[c].total_s);
        sum += least * group->count;
    }
    return sum > 0 ? sum / limits->rank_count : 1;
}

struct columns {
    int z, first_count, first_any;
};

static void put_seconds(struct milp *milp, const struct table_cuts *cuts,
                        const struct table_limits *limits, const struct columns *columns,
                        double scale)
{
    int mean = milp_row(milp, 0, INFINITY);
    milp_put(milp, mean, columns->z, 1);
    for (int c = 0; c < cuts->cut_count; c++)
        milp_put(milp, mean, columns->first_count + c,
                 -cuts->cuts[c].total_s / limits->rank_count / scale);
    for (int g = 0; g < cuts->group_count; g++) {
        const struct table_group *group = &cuts->groups[g];
        int all = milp_row(milp, group->count, group->count);
        for (int c = group->cut_first; c < group->cut_first + group->cut_count; c++) {
            milp_put(milp, all, columns->first_count + c, 1);
            int any = milp_row(milp, 0, INFINITY);
            milp_put(milp, any, columns->first_any + c, group->count);
            milp_put(milp, any, columns->first_count + c, -1);
            int longest = milp_row(milp, 0, INFINITY);
            milp_put(milp, longest, columns->z, 1);
            milp_put(milp, longest, columns->first_any + c,
                     -(cuts->cuts[c].piece_s + cuts->cuts[c].node_s) / scale);
        }
    }
}

static void put_memory(struct milp *milp, const struct table_cuts *cuts,
                       const struct table_limits *limits, const struct columns *columns)
{
    const double all[TIER_COUNT] = {limits->device, limits->host, limits->nvme};
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        if (all[tier] <= 0) continue;  // no cut lives there
        int row = milp_row(milp, 0, FILLED_MOST);
        for (int c = 0; c < cuts->cut_count; c++) {
            double bytes = cuts->cuts[c].tier_bytes[tier];
            if (bytes > 0)
                milp_put(milp, row, columns->first_count + c,
                         bytes / (all[tier] * limits->rank_count));
        }
    }
}

bool cuts_choose(struct arena *arena, const struct table_limits *limits, struct table_cuts *cuts,
                 struct err *err)
{
    struct milp *milp = milp_new(arena, "cuts");
    double scale = scale_of(cuts, limits);
    for (int g = 0; g < cuts->group_count; g++) {
        if (cuts->groups[g].cut_count == 0) return true;  // a table fits nowhere
    }
    struct columns columns = {milp_column(milp, MILP_CONTINUOUS, 0, INFINITY, 1), 1, 0};
    for (int g = 0; g < cuts->group_count; g++) {
        for (int c = 0; c < cuts->groups[g].cut_count; c++)
            milp_column(milp, MILP_INTEGER, 0, cuts->groups[g].count, 0);
    }
    columns.first_any = milp_column_count(milp);
    assert(columns.first_any == columns.first_count + cuts->cut_count);
    for (int c = 0; c < cuts->cut_count; c++)
        milp_column(milp, MILP_BINARY, 0, 1, 0);
    put_seconds(milp, cuts, limits, &columns, scale);
    put_memory(milp, cuts, limits, &columns);
    const struct milp_options options = {.gap_ratio = ENOUGH, .node_cap = NODES_MOST};
    const struct milp_result result = milp_solve(milp, &options);
    if (result.status == MILP_FAILED)
        return err_set(err, ERR_SYSTEM, "placing tables: %s", result.message);
    cuts->fits = result.values != NULL;
    if (!cuts->fits) return true;
    for (int c = 0; c < cuts->cut_count; c++)
        cuts->chosen[c] = (int)lround(result.values[columns.first_count + c]);
    cuts->bound_s = fmax(0, result.bound) * scale;
    cuts->found_s = result.objective * scale;
    return true;
}
