#pragma once
#include "core/arena.h"
#include "plan/offload.h"

#include <stdint.h>

// Placement over time: what of a step's state is on the device at which of its moments. The order
// of accesses is known and repeats step by step. A chunk has a home beside the device, host or
// NVMe, and is on the device whenever a moment of the device accesses it; between two accesses it
// is kept there or not. What is not kept is fetched before the next access and, where the device
// wrote it since its home last had it, written back. A moment of the host (an update) works at the
// homes: what the device wrote is written back before, what it writes is fetched again.
//
// The moments are a circle: behind the last comes the first of the next step.

enum placed_kind {
    PLACED_PARAMETERS,
    PLACED_GRADIENTS,
    PLACED_OPTIMIZER,
    PLACED_ACTIVATIONS,
    PLACED_KIND_COUNT
};
const char *placed_kind_name(enum placed_kind kind);

struct placed_chunk {
    enum placed_kind kind;
    int64_t bytes;
    enum tier home;  // host or NVMe
};

struct placed_access {
    int chunk;
    bool reads;  // needs what is in it; else it is filled anew, and what was in it was dead
    bool writes;
};

struct placed_moment {
    const struct placed_access *accesses;  // each chunk at most once
    int access_count;
    int64_t work_bytes;  // of the device besides, while it works
    double seconds;
    bool on_host;
    bool after_all;  // of the host: waits for all that the device has done before (a norm)
};

struct placement_problem {
    const struct placed_chunk *chunks;
    int chunk_count;
    const struct placed_moment *moments;
    int moment_count;
    int64_t device_bytes;
    // Of this rank. NVMe lies behind the host's link; reads and writes at once pass
    // nvme_duplex_ratio times as fast together, no way faster than alone (0, 1: in turn).
    double up_bytes_per_s, down_bytes_per_s, nvme_bytes_per_s, nvme_duplex_ratio;
    double start_s;       // each piece of a copy, before its bytes flow: given as a kernel is
    int64_t piece_bytes;  // 0: a chunk is one
};

// Between two accesses of a chunk whose second reads what the first left.
struct placed_interval {
    int chunk;
    int start,
        end;        // moments; start < end <= start + moment_count: the end may be of the next step
    bool may_keep;  // both are of the device
    bool is_written;  // by the start, which is one of the device
    bool is_fetched;  // the end is a moment of the device
    int write;  // which writing by the device it follows, 0 .. write_count - 1; -1: its home has it
};
struct placed_intervals {
    const struct placed_interval *items;
    int count, write_count;
};

// The least that any moment of the device needs: no placement fits into less.
int64_t placement_least_bytes(const struct placement_problem *problem);

// Static: a chunk is on the device for good, those first whose stay saves most copies a
// byte and moment, or comes for each access and goes again. Least recently used: whatever does not
// fit when it is needed takes the room of what was used longest ago, and nothing is fetched ahead.
// Planned: see placement_solve.
enum placement_policy {
    PLACEMENT_STATIC,
    PLACEMENT_LRU,
    PLACEMENT_PLANNED,
    PLACEMENT_POLICY_COUNT
};
const char *placement_policy_name(enum placement_policy policy);

struct placed_result {
    const bool *keep;  // [interval]
    int ahead;  // moments for which room is kept to fetch before an access, and to write back
                // behind one: the prefetch distance
    int64_t up_bytes, down_bytes;  // a step
    int64_t nvme_bytes;            // of them, and of moments of the host, read and written there
    int64_t peak_bytes;
    double step_s;     // in the long run, one step behind the other
    double compute_s;  // of the device alone
    double link_s;     // no order of these copies takes less (memory/placement/placement_bound.c)
};

struct placement_solution {
    struct placed_result policies[PLACEMENT_POLICY_COUNT];
    double bound_bytes;  // up and down: no placement of any policy moves less in the long run, not
                         // even one that cuts chunks
    double bound_s;      // nor takes less time: compute, or the bound over both links
    bool is_optimal;     // no placement of whole chunks that repeats step by step moves fewer bytes
                         // than the planned one
};

struct placement_options {
    int ahead_most;      // prefetch distances that are tried: 0 .. this
    int node_cap;        // of the integer program's tree; 0 = the default, as below
    int column_most;     // intervals up to which the relaxation is solved; beyond them the bound is
                         // what cannot be kept
    int exact_most;      // and the integer program
    bool planned_alone;  // of the policies
};

// False where a moment alone needs more than the device has.
//
// Planned: which intervals are kept so that the fewest bytes move, subject to capacity at every
// moment. Relaxed, each interval is kept to a share (a bound for all policies, because the mean of
// their steps is such a share); rounded by filling up in the order of the shares; beside it
// Belady's rule (farthest next access goes first), by distance alone and by bytes saved a byte and
// moment; then the integer program by GLPK from the best of them. This with room for fetching
// ahead by 0, 1, .. moments; of these, and of what is static where more than one is tried, the
// fastest is taken, of equally fast ones the one that moves least.
bool placement_solve(struct arena *arena, const struct placement_problem *problem,
                     const struct placement_options *options, struct placement_solution *solution);

// Fills bytes, peak and seconds of a choice of `keep`, which must fit. `waits`: nothing is fetched
// before its moment has come.
void placement_weigh(struct arena *arena, const struct placement_problem *problem,
                     const struct placed_intervals *intervals, bool waits,
                     struct placed_result *placement);
