#pragma once
#include "core/trace.h"
#include "models/adapters.h"
#include "plan/offload.h"
#include "topologies/cluster.h"

#include <stdint.h>

// What is chosen: degrees, schedule, sharding, recompute. The pins of the command line, the
// "parallel" object of plan.json and the variables of the search are this one record.

// The named axes: the lines of plan/axes.inc, whose columns are told here. Degrees are an array
// indexed by axis.
enum axis {
#define AXIS(id, ...) AXIS_##id,
#include "plan/axes.inc"
    AXIS_COUNT
};

const char *axis_name(enum axis axis);  // "tp"
bool axis_from_name(const char *name, enum axis *axis);
bool axis_takes_ranks(enum axis axis);  // ep and etp fold into dp, cp, tp; the others multiply
enum stream axis_stream(enum axis axis);
unsigned axis_overlap(enum axis axis);  // of enum overlap, or 0
int axis_digit(enum axis axis);

enum recompute {
    RECOMPUTE_NONE,
    RECOMPUTE_SELECTIVE,
    RECOMPUTE_FULL,
    RECOMPUTE_PER_OP,  // of a layer all but the attention core and every second product, from the
                       // first on: torchtitan's selective_ac_option "op"
    RECOMPUTE_COUNT
};
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
#define SCHEDULE(id, row) SCHEDULE_##id,
#include "plan/schedules/schedules.inc"
    SCHEDULE_KIND_COUNT
};
// How context parallelism gives attention the keys of the other ranks.
enum cp_kind { CP_RING, CP_ALL_GATHER, CP_ULYSSES, CP_AXIAL, CP_KIND_COUNT };
// How tensor parallel ranks are laid out: in a line, or as a grid of two or three axes (tx, ty, tz;
// plan/layout/grid.h), each of which splits another dimension.
enum tp_kind { TP_1D, TP_2D, TP_2_5D, TP_3D, TP_2D_SUMMA, TP_2_5D_SUMMA, TP_KIND_COUNT };
// Passes over graph and program (plan/passes.h); a plan holds a mask of 1 << pass.
enum pass {
    PASS_ATTENTION,       // an unfused attention chain becomes the flash operator
    PASS_FUSION,          // chains of memory-bound operators become one kernel
    PASS_BUCKETS,         // gradients are reduced in buckets while backward runs
    PASS_COMBINE,         // many small collectives become one
    PASS_LATENCY_HIDING,  // collectives start early and are waited for late
    PASS_STREAMS,         // communication runs on streams of its own
    PASS_EARLY_STOP,      // of recomputed forward work only what backward reads is run
    PASS_COUNT
};

// What may run beside compute; a plan holds a mask of these, bounded by what the stack can do.
enum overlap {
    OVERLAP_GRAD_REDUCE = 1,
    OVERLAP_PARAM_GATHER = 2,
    OVERLAP_TP = 4,
    OVERLAP_PP = 8,
    OVERLAP_CP = 16,
    OVERLAP_EP = 32,
    OVERLAP_END = 64
};

const char *recompute_name(enum recompute recompute);
const char *attention_name(enum attention attention);
const char *optimizer_name(enum optimizer optimizer);
const char *schedule_name(enum schedule_kind kind);  // plan/schedule.c
const char *cp_kind_name(enum cp_kind kind);
const char *tp_kind_name(enum tp_kind kind);
const char *pass_name(enum pass pass);
bool recompute_from_name(const char *name, enum recompute *recompute);
bool optimizer_from_name(const char *name, enum optimizer *optimizer);

// A mask of overlaps as the command line writes it: "none" or names joined by commas, and back.
// plan/overlap.c
const char *overlap_text(struct arena *arena, unsigned overlap);
MUST_CHECK bool overlap_parse(const char *text, unsigned *overlap);

// Recompute as people write it: none, full, selective, or the classes of operators that are
// recomputed joined by commas ("norm,activation"); the attention class alone is "selective",
// classes 0. plan/lower/recompute.c
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
    // rows an expert has room for over the mean of a sequence (0 = dropless; later tokens are
    // dropped; density_capacity).
    double expert_imbalance, capacity_factor;
    bool unclipped;  // no global gradient norm is asked for
};

enum { STAGE_MAX = 1024 };

// A record of the choices (plan/choices.inc) and of what follows them.
struct parallel {
    int degree[AXIS_COUNT];  // every one >= 1
#define CHOICE_NUMBER(id, member, ...) int member;
#define CHOICE_SIZE(id, member, ...) int member;
#define CHOICE_SWITCH(id, member, ...) bool member;
#define CHOICE_WORD(id, member, searched, type, ...) type member;
#define CHOICE_WORDS(id, member, pin, searched, type, ...) type member;
#include "plan/choices.inc"
    unsigned recompute_classes;   // RECOMPUTE_SELECTIVE: 1 << enum op_class; 0 = attention alone
    bool accumulates;             // ZeRO 2 and 3: gradients of the micro-batches are added up whole
                                  // and scattered once a step, not in every micro-batch; follows
                                  // from the stack and the batch (cost_models/stack.h)
    enum axis order[AXIS_COUNT];  // axes that take ranks, innermost first
    int order_count;
    int stage_layers_count;   // 0 = as even as possible (plan/stages.h)
    const int *stage_layers;  // layers (BLOCK_LAYER) of each stage, when pinned or searched
    // Ranks of tp of each stage, where stages have meshes of their own: the widest is the degree of
    // tp. In a stage with fewer what tp leaves is dp: it splits the sequences of a micro-batch, so
    // that stages have as many ranks and take the same sequences at a time. Groups of ZeRO are
    // of the dp of the widest: in a stage with fewer ranks of tp a group is as many ranks more, the
    // same devices. 0 = the same everywhere.
    int stage_tp_count;
    const int *stage_tp;
    // Ranks of each stage, where stages have unlike numbers of them: they follow each other in rank
    // order, each with a mesh of its own. What tp and cp leave of a stage's ranks is its dp; dp
    // times the sequences that a rank of dp takes at a time is the same in all. The degrees of tp
    // and dp and the micro-batch are those of the first stage with most ranks of tp. 0 = all alike.
    int stage_ranks_count;
    const int *stage_ranks;
    bool branches;  // of the model side by side, on stages of their own (plan/branches.h)
    // Micro-batches of each replica (rank of dp), where they are not all the same: replicas of
    // faster devices take more. 0 = the same everywhere.
    int replica_count;
    const int *replica_micro_batches;
    const struct layout_rule *layouts;  // of operators that do not do what the table of techniques
    int layout_count;                   // says; plan/layout/rules.h
    int layout_stage;                   // of the plan as the ranks of a stage see it 1 + its stage,
                                        // whose rules hold as well; else 0
};

// With numbers of stages and replicas of its own, in `arena`; layouts of operators stay shared.
struct parallel parallel_copy(struct arena *arena, const struct parallel *parallel);
// Ranks of tp of a stage, the first stage with a mesh like its own, and the plan as its ranks see
// it: tp, dp, the sequences that a rank of dp takes at a time, the groups of ZeRO and the rules of
// operators are its own.
int parallel_stage_tp(const struct parallel *parallel, int stage);
int parallel_stage_ranks(const struct parallel *parallel, int stage);
int parallel_mesh_of(const struct parallel *parallel, int stage);
struct parallel parallel_at(const struct parallel *parallel, int stage);
// Whether ZeRO shards anything over less than all of dp.
bool parallel_groups_shards(const struct parallel *parallel);
// Whether stages have meshes of their own.
bool parallel_has_meshes(const struct parallel *parallel);
// The default order: tp, cp, dp, pp, innermost first.
void parallel_default_order(struct parallel *parallel);
// Puts the axes that an order lacks behind those that precede them in the default one.
void parallel_complete_order(struct parallel *parallel);
// dp * tp * cp * pp, or what the stages have together.
int64_t parallel_rank_count(const struct parallel *parallel);
// Whether no stage waits for its neighbour between the two micro-batches it could work on together:
// there is one stage, or each has several chunks.
bool parallel_interleaves(const struct parallel *parallel);
// Of the replica with most.
int64_t parallel_micro_batch_count(const struct parallel *parallel, int64_t global_batch);
// Of one replica, and of those before it.
int64_t parallel_replica_count(const struct parallel *parallel, int64_t global_batch, int replica);
int64_t parallel_replica_first(const struct parallel *parallel, int64_t global_batch, int replica);
