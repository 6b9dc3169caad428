#pragma once
#include "plan/offload.h"
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
enum schedule_kind {
    SCHEDULE_GPIPE,
    SCHEDULE_1F1B,
    SCHEDULE_INTERLEAVED,
    SCHEDULE_ZB_H1,    // zero bubble (Qi et al. 2023), handcrafted, memory of 1F1B
    SCHEDULE_ZB_H2,    // twice its memory, no bubble where F, B and W take equally long
    SCHEDULE_ZB_V,     // two chunks a stage, placed as a V (Qi et al. 2024)
    SCHEDULE_ZB_AUTO,  // placed greedily under the cap `in_flight`
    SCHEDULE_KIND_COUNT
};
// How context parallelism gives attention the keys of the other ranks.
enum cp_kind { CP_RING, CP_ALL_GATHER, CP_ULYSSES, CP_KIND_COUNT };
// Passes over graph and program (plan/passes.h); a plan holds a mask of 1 << pass.
enum pass {
    PASS_ATTENTION,       // an unfused attention chain becomes the flash operator
    PASS_FUSION,          // chains of memory-bound operators become one kernel
    PASS_BUCKETS,         // gradients are reduced in buckets while backward runs
    PASS_COMBINE,         // many small collectives become one
    PASS_LATENCY_HIDING,  // collectives start early and are waited for late
    PASS_STREAMS,         // communication runs on streams of its own
    PASS_EARLY_STOP,      // of redone forward work only what backward reads is run
    PASS_COUNT
};

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
const char *cp_kind_name(enum cp_kind kind);
const char *pass_name(enum pass pass);
bool cp_kind_from_name(const char *name, enum cp_kind *kind);
bool recompute_from_name(const char *name, enum recompute *recompute);
bool attention_from_name(const char *name, enum attention *attention);
bool optimizer_from_name(const char *name, enum optimizer *optimizer);
bool schedule_from_name(const char *name, enum schedule_kind *kind);

// A mask of overlaps as the command line writes it: "none" or names joined by commas, and back.
// plan/overlap.c
const char *overlap_text(struct arena *arena, unsigned overlap);
MUST_CHECK bool overlap_parse(const char *text, unsigned *overlap);

// Recompute as people write it: none, full, selective, or the classes of operators that are redone
// joined by commas ("norm,activation"); the attention class alone is "selective", classes 0.
// plan/recompute.c
const char *recompute_words(struct arena *arena, enum recompute recompute, unsigned classes);
MUST_CHECK bool recompute_parse(const char *text, enum recompute *recompute, unsigned *classes);

// Values of the size of the parameters that it keeps beside them: first and second moments, or a
// momentum. How wide they are is the stack's.
int optimizer_moment_count(enum optimizer optimizer);

// What is asked for; never changed by the planner (convergence depends on it).
struct workload {
    int64_t seq_len;
    int64_t global_batch;  // sequences a step
    enum precision precision;
    enum optimizer optimizer;
    double tokens;  // to train in all, for time and money to finish; 0 = not asked
    // Experts: rows of the busiest expert group over the mean (1 = balanced; dropless), and the
    // rows an expert has room for over the mean (0 = dropless; tokens past it are dropped).
    double expert_imbalance, capacity_factor;
};

enum { STAGE_MAX = 1024 };

struct parallel {
    int degree[AXIS_COUNT];  // every one >= 1
    bool sp;                 // sequence parallel: tp also splits seq where it has nothing else
    int vpp;                 // model chunks a stage
    int micro_batch;         // sequences
    int zero;                // 0..3
    bool accumulates;        // ZeRO 2 and 3: gradients of the micro-batches are added up whole and
                             // scattered once a step, not in every micro-batch; follows from the
                             // stack and the batch (cost_models/stack.h), no choice of its own
    int zero_group;          // ranks a shard group spans; 0 = all of dp (and cp)
    enum recompute recompute;
    unsigned recompute_classes;  // RECOMPUTE_SELECTIVE: 1 << enum op_class; 0 = attention alone
    int recompute_layers;        // the first N layers of each stage; -1 = all of them
    struct offload offload;
    enum schedule_kind schedule;
    int in_flight;  // SCHEDULE_ZB_AUTO: micro-batches a stage may hold; 0 = stage count.
                    // SCHEDULE_ZB_H2: 2 * stage count where software searches it; 0 = one less
    enum cp_kind cp_kind;
    int bucket_bytes;  // of gradient reduction; 0 = as large as the stack makes them
    unsigned passes;   // 1 << enum pass; all that the stack can do unless chosen
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
// Whether no stage waits for its neighbour between the two micro-batches it could work on together:
// there is one stage, or each has several chunks.
bool parallel_interleaves(const struct parallel *parallel);
int64_t parallel_micro_batch_count(const struct parallel *parallel, int64_t global_batch);
