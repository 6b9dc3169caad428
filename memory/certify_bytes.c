#include "memory/certify_bytes.h"
#include "core/divisor.h"

#include <assert.h>
#include <math.h>

// GLPK's tolerances are then less than a thousandth of a unit, and a binary that is taken as 0 at
// 1e-5 hides ten units at most.
static const double UNITS_MOST = 1e6;
// What a bound of GLPK may be wrong by.
static const double BOUND_SLACK_RATIO = 1e-6;

int64_t certify_peak_bytes(struct arena *scratch, const struct memory_problem *problem,
                           const int *order)
{
    struct arena_mark mark = arena_mark(scratch);
    int count = problem->operator_count;
    int *step = ARENA_NEW(scratch, int, count);
    int64_t *change = ARENA_NEW(scratch, int64_t, count + 1);
    for (int t = 0; t < count; t++)
        step[order[t]] = t;
    for (int b = 0; count > 0 && b < problem->buffer_count; b++) {
        const struct memory_buffer *buffer = &problem->buffers[b];
        int first = buffer->producer < 0 ? 0 : step[buffer->producer], last = first;
        for (int u = 0; u < buffer->user_count; u++) {
            int at = step[problem->users[buffer->first_user + u]];
            if (at > last) last = at;
        }
        assert(first >= 0 && first <= last && last < count);
        change[first] += buffer->bytes;
        if (!buffer->kept) change[last + 1] -= buffer->bytes;
    }
    int64_t alive = 0, peak = 0;
    for (int t = 0; t < count; t++) {
        alive += change[t];
        if (alive > peak) peak = alive;
    }
    assert(peak >= certify_least_bytes(problem) || count == 0);
    arena_reset(scratch, mark);
    return peak;
}

// All sizes are multiples of it, and so is every sum of them: bounds round up to it.
static double granule_bytes(const struct memory_problem *problem)
{
    int64_t granule = 0;
    for (int b = 0; b < problem->buffer_count; b++)
        granule = common_divisor(problem->buffers[b].bytes, granule);
    return granule > 0 ? (double)granule : 1;
}

double certify_unit_bytes(const struct memory_problem *problem, int64_t upper_bytes, bool *is_exact)
{
    assert(upper_bytes >= 0);
    double granule = granule_bytes(problem);
    *is_exact = (double)upper_bytes / granule <= UNITS_MOST;
    return *is_exact ? granule : (double)upper_bytes / UNITS_MOST;
}

int64_t certify_bound_bytes(const struct memory_problem *problem, double bound_bytes,
                            int64_t least_bytes)
{
    double granule = granule_bytes(problem);
    double proven = bound_bytes - BOUND_SLACK_RATIO * fabs(bound_bytes);
    if (!(proven > (double)least_bytes)) return least_bytes;
    return (int64_t)ceil(proven / granule) * (int64_t)granule;
}

// No order keeps less alive than one operator touches while it runs.
// What an operator reads and makes is there at once, in any order.
int64_t certify_least_bytes(const struct memory_problem *problem)
{
    int64_t least = 0;
    for (int v = 0; v < problem->operator_count; v++) {
        int64_t bytes = 0;
        for (int i = problem->first_touched[v]; i < problem->first_touched[v + 1]; i++)
            bytes += problem->buffers[problem->touched[i]].bytes;
        if (bytes > least) least = bytes;
    }
    assert(least >= 0);
    return least;
}
