#pragma once
#include "topologies/cluster.h"

#include <stdint.h>

// What is chosen: degrees, schedule, sharding, recompute. The pins of the command line, the
// "parallel" object of plan.json and the variables of the search are this one record.

// The named axes; one row each in the table of plan/parallel.c. Degrees are an array indexed by
// axis, so that a new axis is a new row.
enum axis { AXIS_TP, AXIS_CP, AXIS_EP, AXIS_ETP, AXIS_DP, AXIS_PP, AXIS_COUNT };

const char *axis_name(enum axis axis);  // "tp"
bool axis_from_name(const char *name, enum axis *axis);
bool axis_takes_ranks(enum axis axis);  // ep and etp fold into dp, cp, tp; the others multiply

enum recompute { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL, RECOMPUTE_COUNT };
enum attention { ATTENTION_FLASH, ATTENTION_UNFUSED, ATTENTION_COUNT };
enum optimizer {
    OPTIMIZER_ADAMW,
    OPTIMIZER_ADAM,
    OPTIMIZER_SGD,
    OPTIMIZER_LAMB,
    OPTIMIZER_LARS,
    OPTIMIZER_COUNT
};
enum schedule_kind { SCHEDULE_GPIPE, SCHEDULE_1F1B, SCHEDULE_INTERLEAVED, SCHEDULE_KIND_COUNT };

// What may run beside compute; a plan holds a mask of these, bounded by what the stack can do.
enum overlap {
    OVERLAP_GRAD_REDUCE = 1,
    OVERLAP_PARAM_GATHER = 2,
    OVERLAP_TP = 4,
    OVERLAP_PP = 8,
    OVERLAP_CP = 16,
    OVERLAP_EP = 32
};

const char *recompute_name(enum recompute recompute);
const char *attention_name(enum attention attention);
const char *optimizer_name(enum optimizer optimizer);
const char *schedule_name(enum schedule_kind kind);
bool recompute_from_name(const char *name, enum recompute *recompute);
bool attention_from_name(const char *name, enum attention *attention);
bool optimizer_from_name(const char *name, enum optimizer *optimizer);
bool schedule_from_name(const char *name, enum schedule_kind *kind);

// A mask of overlaps as the command line writes it: "none" or names joined by commas, and back.
// plan/overlap.c
const char *overlap_text(struct arena *arena, unsigned overlap);
MUST_CHECK bool overlap_parse(const char *text, unsigned *overlap);

// State bytes a parameter beside weight and gradient: fp32 master, and the moments.
double optimizer_state_bytes(enum optimizer optimizer, enum precision precision);

// What is asked for; never changed by the planner (convergence depends on it).
struct workload {
    int64_t seq_len;
    int64_t global_batch;  // sequences a step
    enum precision precision;
    enum optimizer optimizer;
    double tokens;  // to train in all, for time and money to finish; 0 = not asked
};

enum { STAGE_MAX = 1024 };

struct parallel {
    int degree[AXIS_COUNT];  // every one >= 1
    bool sp;                 // sequence parallel: tp also splits seq where it has nothing else
    int vpp;                 // model chunks a stage
    int micro_batch;         // sequences
    int zero;                // 0..3
    int zero_group;          // ranks a shard group spans; 0 = all of dp (and cp)
    enum recompute recompute;
    int recompute_layers;  // the first N layers of each stage; -1 = all of them
    enum schedule_kind schedule;
    enum attention attention;
    unsigned overlap;             // of enum overlap
    enum axis order[AXIS_COUNT];  // axes that take ranks, innermost first
    int order_count;
    int stage_layers_count;   // 0 = as even as possible (plan/stages.h)
    const int *stage_layers;  // layers (BLOCK_LAYER) of each stage, when pinned or searched
};

// The default order: tp, cp, dp, pp, innermost first.
void parallel_default_order(struct parallel *parallel);
int64_t parallel_rank_count(const struct parallel *parallel);  // dp * tp * cp * pp
int64_t parallel_micro_batch_count(const struct parallel *parallel, int64_t global_batch);
