#pragma once
#include "reports/whatif/scenario.h"

// A list of scenarios as the product of lists: clusters, GPU counts, lengths, batches, precisions,
// and factors on what a cluster is made of. Each axis is a row of one table
// (reports/whatif/sweep.c).

enum sweep_axis {
    SWEEP_NODES,
    SWEEP_GPUS,
    SWEEP_SEQ_LEN,
    SWEEP_GLOBAL_BATCH,
    SWEEP_PRECISION,               // enum precision
    SWEEP_BANDWIDTH_FACTOR,        // of the NICs
    SWEEP_INTRA_BANDWIDTH_FACTOR,  // inside a node
    SWEEP_MEMORY_FACTOR,           // of a device
    SWEEP_FLOPS_FACTOR,            // peak rates, what kernels sustain in proportion
    SWEEP_PRICE_FACTOR,
    SWEEP_AXIS_COUNT
};

const char *sweep_option(enum sweep_axis axis);  // "--seq-len"
const char *sweep_key(enum sweep_axis axis);     // of JSON and CSV: "seq_len"
const char *sweep_head(enum sweep_axis axis);    // of a column: "seq"
// "4,096", "bf16", "x0.5"
const char *sweep_value_text(struct arena *arena, enum sweep_axis axis, double value);

enum { SWEEP_LIST_MAX = 4096, SWEEP_SCENARIO_MAX = 100000 };

struct sweep_list {
    double *values;
    int count;  // 0: the axis stays as the base has it
};

// "8,16,32", "8..1024" (doubling; the last is 1024 in any case), "8..64:8" (in steps of 8), or
// several of them joined by commas; precisions by name. False with ERR_USAGE.
MUST_CHECK bool sweep_parse(struct arena *arena, enum sweep_axis axis, const char *text,
                            struct sweep_list *list, struct err *err);

struct sweep {
    const struct cluster *const *clusters;
    const char *const *words;  // how the command line names them; NULL: it cannot
    int cluster_count;
    struct sweep_list axes[SWEEP_AXIS_COUNT];
    struct workload workload;  // where no list says otherwise
    struct pins pins;
    int64_t sequences_per_gpu;  // the batch grows with the GPUs; 0: it stays
    int64_t batch_tokens;       // the batch is what is nearest to so many tokens; 0: it is given
};

// One scenario with where it stands in the sweep.
struct sweep_point {
    struct scenario scenario;
    int cluster;       // index
    const char *name;  // of the cluster, as sweep_cluster_name has it
    double at[SWEEP_AXIS_COUNT];
};

struct sweep_points {
    struct sweep_point *items;
    int count;
};

// Clusters first, then the axes in their order, the last changing fastest. More GPUs than a cluster
// of one kind of nodes has are more of its nodes. ERR_USAGE where a cluster cannot have so many, or
// where there are more than SWEEP_SCENARIO_MAX. All of it lives in `arena`.
MUST_CHECK bool sweep_points(struct arena *arena, const struct sweep *sweep,
                             struct sweep_points *points, struct err *err);

// The axis whose list gives the sizes: nodes or GPUs.
enum sweep_axis sweep_size_axis(const struct sweep *sweep);
// Whether this batch follows from a size that nobody named alone (sequences_per_gpu, and several
// sizes to choose from) and is past what the optimizer is known to bear: such a size is shown and
// never the answer (planner/batch.h).
bool sweep_batch_is_past(const struct sweep *sweep, int64_t batch);
// The point that is `like` another but for its size, which no list needs to hold. ERR_USAGE as
// above.
MUST_CHECK bool sweep_point_of_size(struct arena *arena, const struct sweep *sweep,
                                    const struct sweep_point *like, double size,
                                    struct sweep_point *point, struct err *err);

// What tells a cluster of the list from the others: its name; where another has the same, the word
// of the command line; where that is the same too, with the number of the place: "dgx-h100 #2".
const char *sweep_cluster_name(struct arena *arena, const struct sweep *sweep, int cluster);

// A cluster of so many GPUs, as above; whole nodes, and a last one with the rest.
MUST_CHECK struct cluster *sweep_cluster(struct arena *arena, const struct cluster *cluster,
                                         int64_t gpus, struct err *err);
