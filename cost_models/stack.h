#pragma once
#include "models/graph.h"
#include "plan/lower/joins.h"
#include "plan/parallel.h"

// The software that runs the plan, as data: the same plan runs at a different speed on different
// software. cost_models/stacks/NAME.json; cost_models/schema/stack.schema.json; a provenance for
// every constant. The planner proposes nothing the stack cannot run.

// What it can move off the device: see plan/offload.h. Checkpoints are what layers that are
// recomputed in full save, and nothing else.
enum offloads {
    OFFLOADS_OPTIMIZER,
    OFFLOADS_OPTIMIZER_NVME,
    OFFLOADS_ACTIVATIONS,
    OFFLOADS_ACTIVATIONS_NVME,
    OFFLOADS_CHECKPOINTS,
    OFFLOADS_CHECKPOINTS_NVME,
    OFFLOADS_CLASSES,  // activations class by class
    OFFLOADS_PARAMETERS,
    OFFLOADS_PARAMETERS_NVME,
    OFFLOADS_GRADIENTS,
    OFFLOADS_COUNT
};

// What it is written for.
enum device_kind {
    DEVICE_KIND_GPU,
    DEVICE_KIND_NPU,
    DEVICE_KIND_CPU,
    DEVICE_KIND_TPU,
    DEVICE_KIND_HPU,
    DEVICE_KIND_COUNT
};

// What gives an ability where this software is launched: "--sequence-parallel" for "sp=on". "{}"
// stands for the value, "{groups}" for the number of shard groups; in brackets stands what nobody
// types.
struct stack_flag {
    const char *ability, *flag;
};

// A member of a stack that was otherwise before some release; a number, or 0 and 1.
struct stack_change {
    const char *key;
    double value;
};

// An earlier release of the same software, newest first. It has what the next newer one has, less
// what `changes` says.
struct stack_release {
    const char *name, *date, *source;
    struct stack_change *changes;
    int change_count;
};

// A way to run the same release that a user knows of: not compiled, say. It has what the newest
// has, less what `changes` says.
struct stack_build {
    const char *name, *source;
    struct stack_change *changes;
    int change_count;
};

struct stack {
    const char *name;
    const char *description;
    const char *release;             // which one this is, or which build; NULL: not told apart
    struct stack_release *releases;  // earlier ones, of the newest; none in plan files
    int release_count;
    const struct stack *newest;  // NULL: this one
    struct stack_build *builds;  // none in plan files
    int build_count;
    struct stack_change *with_experts;  // what differs where the model has experts; as builds
    int with_experts_count;
    const char *fork;      // a stack that has schedules this one lacks; NULL: there is none
    const char **aliases;  // other names of it: of the programs built on it
    int alias_count;
    bool only_when_named;          // never taken unasked: a fork that few have
    bool experts_only_when_named;  // nor for experts, which no measured run of it had
    unsigned device_kinds;  // bit per enum device_kind it is taken for unasked; none: for any
    // what it can run
    unsigned schedules;                  // bit per enum schedule_kind; none without a pipeline
    unsigned zero_stages;                // bits 0..3
    unsigned zero_stages_with_pipeline;  // those it can combine with pp > 1
    unsigned zero_stages_grouped;  // those for which shards of one node are a common choice, so
                                   // that the search tries them unasked; others are tried around
                                   // the best plans (planner/polish.h)
    unsigned recompute;            // bit per enum recompute
    unsigned recompute_whole;      // bits of those that it does in all layers of a stage alone, not
                                   // in the first few
    unsigned recompute_classes;    // bit per enum op_class that it can recompute selectively
    unsigned expert_recompute_classes;  // and in experts alone, so that only a model that has some
                                        // is offered them: stack_for_model
    unsigned attention;                 // bit per enum attention
    unsigned unfused_attention;         // bit per enum unfused (plan/unfused.h): what it has no
                                        // fused kernel for, though asked; of our own alone
    unsigned fp16_attention;  // those that a described run in fp16 has which does not say; none:
                              // as any run. Scripts that still train in fp16 are older than
                              // the kernels, or leave them to a flag
    unsigned axes;            // bit per enum axis with a degree above 1
    unsigned tp_kinds;        // bit per enum tp_kind
    unsigned cp_kinds;        // bit per enum cp_kind
    bool cp_zigzag;  // each rank has an early and a late piece of the sequence, so that causal
                     // attention is equal work; else the last rank has most
    bool sequence_parallel;
    bool adapters;        // it can train adapters alone (models/adapters.h)
    bool stages_by_flop;  // layers go to stages as plan/stages.h says of such software, and no
                          // otherwise
    bool order_fixed;     // ranks follow the default order of axes (tp, cp, dp, pp)
    bool fills_pipeline;  // a step has no fewer micro-batches than stages behind the first; with
                          // fewer the software ends (nanotron, PipelineEngine)
    bool fills_1f1b;      // 1F1B takes no fewer than stages, other schedules do (PyTorch's own,
                          // torch.distributed.pipelining, Schedule1F1B)
    bool splits_experts_as_tp;  // experts take the tensor ranks as all else does: etp is tp
    unsigned overlap;           // mask of enum overlap it can do
    unsigned overlap_default;
    unsigned exposed_zero_stages;    // ZeRO stages whose gradients are reduced behind the last
                                     // backward pass, whatever the overlap
    unsigned passes;                 // bit per enum pass
    unsigned joins;                  // bit per enum join (plan/lower/joins.h); see stack_joins
    unsigned offload;                // bit per enum offloads
    unsigned offload_zero_stages;    // with which it can move optimizer states; none: with all
    unsigned parameter_zero_stages;  // the same of parameters
    unsigned nvme_zero_stages;       // and move them to NVMe; none: with all
    // With which gradients leave beside optimizer states, as backward makes them; none: where the
    // plan says so.
    unsigned gradients_leave_zero_stages;
    // GEMMs of a layer with one of its parameters that run in fp8 and in fp4: bit per enum
    // phase; the others run in bf16. None: the stack does not train in that precision.
    unsigned fp8_gemms, fp4_gemms;
    // how fast it runs it
    double gemm_scale;               // on the device's gemm_ratio
    double attention_forward_scale;  // on the device's attention ratios
    double attention_backward_scale;
    double attention_flop_per_s_most;  // forward kernels written for an older device gain no more
                                       // than this on a newer one, backward ones less by what such
                                       // kernels lose there (cost_models/attention.c); 0 = no limit
    bool attention_native_with_fp4;    // devices that multiply in fp4 (Blackwell) run kernels of
                                       // their own, without that limit
    double element_wise_scale;    // memory traffic and launches of what is bound by memory over
                                  // those of the program: each op reading its inputs and writing
                                  // its outputs once, less what the fusion pass saves where the
                                  // stack has it (plan/lower/fusion.h)
    double host_op_s;             // host time of one operator (launch bound below)
    double host_norm;             // how host and device combine (cost_models/host.h); 0 = 3
    double pipeline_sync_s;       // host time of an exchange of tensor parallelism for each rank of
                                  // its group, in a pipeline over nodes
    double node_sync_s;           // the same for each node of its group behind the first, whatever
                                  // the pipeline
    double host_task_s;           // what a stage of a pipeline loses between two tasks: the code of
                                  // the schedule, sending, receiving and waiting on the host
    double unaligned_gemm_ratio;  // rate of a batched GEMM with a side that is no multiple of 8
    double grouped_gemm_ratio;  // rate of a grouped GEMM (experts) over one GEMM of the same tiles
    bool grouped_gemm_fused;    // one kernel for all experts; else one an expert
    double permute_passes;  // times that the rows of experts are read and written by a dispatch or
                            // a combine: 1, and 1 more where they are sorted again by expert
                            // behind the all-to-all
    double route_kernels;   // kernels between the router's GEMM and the dispatch
    double expert_host_s;   // host time of one pass through a mixture beside its launches: the wait
                            // for the rows an expert has, the dispatcher, automatic
                            // differentiation of as many GEMMs
    double expert_stash_ratio;       // where they are replayed: share of copying kept rows to paged
                                     // buffers and back that nothing hides
    double expert_graph_host_ratio;  // share of the host's work left where expert_graph replays
                                     // attention and router alone: in 16 bits on such a device
    bool expert_graph;      // narrow experts on a device whose matrix units take block scales leave
                            // the rows an expert has on the device: a layer is replayed from a
                            // graph, without the host (full-iteration graphs of the MXFP8 mixtures
                            // in Megatron-Bridge's perf_recipes; none on Hopper, nor in bf16)
    bool expert_fusion;     // there, what stands between the GEMMs of narrow experts (activation,
                            // bias, quantisation) runs inside one grouped kernel a GEMM, which
                            // fills the device as one GEMM does (cuDNN's grouped GEMM with GLU and
                            // quantisation, Transformer Engine's NVTE_CUTEDSL_FUSED_GROUPED_MLP)
    bool expert_attention;  // there, attention of layers with experts runs in fp8 as well
    bool narrow_head;       // there, in models with or without experts, so does the head
    double cast_bytes;      // memory traffic of quantising one element of an operand in 16 bits,
                            // its transpose and the search for its maximum included
    double cast_kernels;    // that quantise one operand
    bool dispatch_once;  // a token is sent once to a node and there once to a rank, however many of
                         // its experts they hold
    bool low_precision_gathers;  // tp gathers operands of low-precision GEMMs after they are
                                 // quantised
    bool cached_weight_cast;     // weights are quantised once a step, not in every micro-batch
    bool narrow_weights;         // and in fp8 kept so alone, without a copy in 16 bits, where the
                                 // optimizer's state is sharded (stack_has_narrow_weights)
    bool delayed_scaling;        // scales come from maxima of earlier steps, which are all-reduced
                                 // once a step
    // Traffic of one element of the logits in the loss and in its gradient, where they run as
    // operators of their own; 0 = what the program reads and writes, times element_wise_scale.
    double loss_forward_bytes, loss_backward_bytes;
    // Traffic of adding one element of a gradient to the kept one, once a micro-batch, where a
    // kernel of its own does; 0 = the GEMM does, or nothing is added. Gradients that ZeRO scatters
    // in every micro-batch are added nowhere.
    double accumulate_bytes;
    double gradient_passes;       // times a step that the whole gradient is walked over beside
                                  // the update: zeroing, unscaling, copying
    double overlap_ratio;         // share of gradient and parameter communication that proceeds
                                  // while compute runs
    double tp_overlap_ratio;      // share of tp's gathers and scatters hidden behind GEMMs when
                                  // OVERLAP_TP; an all-reduce is in one piece and hides nothing
    double ep_overlap_ratio;      // share of the exchanges of experts hidden behind compute when
                                  // OVERLAP_EP
    bool ep_overlap_interleaved;  // in a pipeline only where a stage has several chunks
                                  // (Megatron-Core: overlap_moe_expert_parallel_comm wants a
                                  // virtual pipeline)
    double expert_comm_units;     // multiprocessors that such an exchange takes from the compute
                                  // beside it
    double contention_ratio;      // slow-down of compute by communication beside it
    double network_scale;         // on the fabric's efficiency
    double copy_ratio;            // of the bandwidth between device and host (or NVMe) that copies
                                  // of pinned memory reach; 0 = it moves nothing
    double host_update_ratio;     // of the host's memory bandwidth that an update there reaches
    double step_overhead_s;       // data loading, logging, host work, once a step
    double reduce_bytes;          // of a gradient element while it is reduced: 4 or 2
    bool merge_contractions;      // q,k,v and gate,up as one GEMM
    bool lays_out;                // single operators otherwise, as plan/layout/rules.h has it
    bool gathers_each;            // tp gathers once for each GEMM that reads it (JOIN_APART)
    bool fp32_gradient_accumulation;  // weight gradients read and written in fp32 by the GEMM
    bool dropout;                     // trains with the dropout of the config
    bool vocab_parallel;              // tp also splits the vocabulary
    bool accumulates_whole;           // gradients of sharded parameters (ZeRO 2 and 3) are kept
                                      // whole until the last micro-batch, which scatters their sum
    bool accumulates_in_pipeline;     // the same in a pipeline alone: without one every micro-batch
                                      // scatters its own
    bool owned_tensors;               // ZeRO 1 gives every tensor to one rank: its gradient, of
                                      // which an owner needs all, is all-reduced instead of
                                      // scattered, and updated parameters come from each of the
                                      // owners in turn, a broadcast each, not in one all-gather
    bool pipeline_scatter;            // what is whole over tp is sent to the next stage in pieces
                                      // and gathered there
    bool post_validation;          // under schedules that part B and W the optimizer does not wait
                                   // for the global norm: it steps, and takes the step back in
                                   // the rare case that the norm says so (Qi et al. 2023, 4)
    bool searched_zero_bubble;     // zb-h1 and zb-h2 are what it finds under limits of p and of 2p
                                   // micro-batches a stage, not the patterns of p and 2p - 1
    bool dummy_gradient;           // keeps a placeholder for the gradients of every distinct shape
                                   // of a layer's weights
    bool walks_scans;              // scans go along the sequence token by token, on a processor
    bool score_buffer;             // unfused attention keeps a buffer as large as its scores
    bool fp32_weights;             // where weights are stored in shards, the shards are the master
                                   // copy, which is narrowed when it is gathered
    int64_t bucket_bytes;          // of gradient reduction
    double bucket_bytes_per_rank;  // and no less than this for every rank that reduces, so that
                                   // latency does not outgrow bandwidth; 0 = does not grow
    // memory
    double gradient_bytes;            // of a kept gradient element: 4 or 2
    double fp16_gradient_bytes;       // the same in fp16 runs; 0 = the same
    double master_bytes;              // of the optimizer's own copy of a weight: 4, 0 = none
    double moment_bytes;              // of one moment of the optimizer: 4 or 2
    double reduce_buffer_bytes;       // of a gradient element once more, where ranks reduce; 0
    double logits_bytes_per_element;  // alive in the loss: logits, their fp32 copy, gradient
    double left_logits_bytes;         // and of the micro-batch before, where there is one; 0
    bool keeps_gathers;  // what tp gathers for a layer stays for its backward, from the second
                         // time on where the layer is recomputed
    bool regathers_between_nodes;   // but not in a pipeline whose tensor groups no node holds:
                                    // there it is gathered once more
    int64_t reserve_bytes;          // context, communicators, workspaces; not part of "allocated"
    double reserve_ratio;           // allocator slack over activations, not part of "allocated"
    double pipeline_reserve_ratio;  // the same in a pipeline, where activations of several
                                    // micro-batches come and go between each other; 0 = the same
    const char *flags_joined;       // what stands between the words of one flag; NULL: a blank
    const char *flags_of;      // the program and version whose flags these are; NULL: not known
    struct stack_flag *flags;  // none, or one for every ability
    int flag_count;
    struct provenance *provenance;
    int provenance_count;
};

// A shipped name, an alias of one, whatever their case, or a path; `NAME@RELEASE` is an earlier
// release of it or one of its builds, `NAME@RELEASE+BUILD` a build of that release. NULL and a set
// `err` if it is wrong; an unknown name is ERR_INPUT with the nearest one.
MUST_CHECK const struct stack *stack_load(struct arena *arena, const char *name, struct err *err);
MUST_CHECK const struct stack *stack_read(struct arena *arena, const struct json *object,
                                          struct err *err);
void stack_write(struct json_writer *writer, const char *key, const struct stack *stack);

// cost_models/stack_release.c: the stack as it was at one of its releases, as one of its builds, as
// several of them ("26.04+bf16-gradients"), or `stack` itself at the newest. NULL: it knows none of
// that name. Builds are of the newest release unless one stands before them.
const struct stack *stack_at_release(struct arena *arena, const struct stack *stack,
                                     const char *release);

// Of the parts of such a name those that are builds of the stack, joined alike; NULL: none is.
const char *stack_builds_among(struct arena *arena, const struct stack *stack, const char *release);

// Whether its software runs on devices of this kind ("gpu"; struct device).
bool stack_is_for(const struct stack *stack, const char *device_kind);

// The stack as it runs a model with experts or one without: itself, or a copy that offers more or
// less, or of which numbers differ (`with_experts`).
const struct stack *stack_for_model(struct arena *arena, const struct stack *stack,
                                    bool has_experts);

// What it offers to choose, one text each: "tp", "schedule=1f1b", "zero=1", "recompute=norm",
// "sp=on", "overlap=tp", "offload=optimizer", "precision=fp8". Not what every software does: no
// ZeRO, no recompute; nor passes, which say how it is built and are not launched.
const char **stack_abilities(struct arena *arena, const struct stack *stack, int *count);
// The flag of an ability or of a setting ("micro-batch"); NULL where there is none.
const char *stack_flag_of(const struct stack *stack, const char *ability);

// The members "releases", "builds" and "with_experts", where there are any.
void stack_read_releases(struct arena *arena, const struct json *object, struct stack *stack,
                         struct err *err);
// Changes `stack` to what it has where the model has experts.
void stack_apply_experts(struct stack *stack);
void stack_write_provenance(struct json_writer *writer, const struct stack *stack);
// The member "aliases", where there is one.
void stack_read_aliases(struct arena *arena, const struct json *object, struct stack *stack,
                        struct err *err);
void stack_write_aliases(struct json_writer *writer, const struct stack *stack);

// The members "flags_of" and "flags", which go together. An ability without a flag, and a flag of
// what is neither an ability nor a setting, is an error.
void stack_read_flags(struct arena *arena, const struct json *object, struct stack *stack,
                      struct err *err);
void stack_write_flags(struct json_writer *writer, const struct stack *stack);

// The members of the file, as its reader takes them.
const struct json_field *stack_fields(void);
// The stack itself, or its fork where the schedule is one that only that has (-1: any will do).
// NULL and a set `err` when the fork cannot be loaded. cost_models/stack_fork.c
MUST_CHECK const struct stack *stack_for_schedule(struct arena *arena, const struct stack *stack,
                                                  int schedule, struct err *err);
// A copy whose numbers may be changed without changing the original's.
struct stack *stack_copy(struct arena *arena, const struct stack *stack);

// The rules by which its software joins instructions to one kernel: those it names, of which chain
// where it names none, and merged where it merges contractions.
unsigned stack_joins(const struct stack *stack);

// ERR_USAGE where the stack runs no GEMMs in this precision.
MUST_CHECK bool stack_check_precision(const struct stack *stack, enum precision precision,
                                      struct err *err);

// GEMMs with parameters that run narrower than 16 bits: bit per enum phase.
unsigned stack_low_precision_gemms(const struct stack *stack, enum precision precision);
// Whether a rank keeps weights as the GEMMs read them beside the optimizer's copy.
bool stack_keeps_low_precision_weights(const struct stack *stack, enum precision precision,
                                       bool sharded);
// Whether it keeps weights of fp8 GEMMs as these read them alone, at this stage of ZeRO.
bool stack_has_narrow_weights(const struct stack *stack, enum precision precision, int zero);
// Bytes of such a weight beside those of one in 16 bits: its casts where they are kept, less the 16
// bits where they stand for it. Of weights that are whole on the rank.
double stack_cast_bytes_kept(const struct stack *stack, enum precision precision, int zero);
// Bytes of a gradient element as it is kept, and as it is reduced.
double stack_gradient_bytes(const struct stack *stack, enum precision precision);
double stack_reduce_bytes(const struct stack *stack, enum precision precision);

// Whether any constant of it was fitted to runs, or measured. What none was is of software that
// nobody compared predictions with; its band is wider.
bool stack_is_fitted(const struct stack *stack);

// Whether it is our executor, which refuses what plan/unexecuted.h lists.
bool stack_is_executed(const struct stack *stack);
// Whether it is that on GPUs, whose kernels differ from those of other software.
bool stack_is_own_gpu(const struct stack *stack);
// Whether it takes layouts of single operators (plan/layout/rules.h). Ours does.
bool stack_lays_out(const struct stack *stack);
// Whether it trains models of two sequence dims: those are what axial parallelism is for.
bool stack_has_videos(const struct stack *stack);
MUST_CHECK bool stack_check_executed(const struct stack *stack, const struct workload *workload,
                                     const struct parallel *parallel, struct err *err);
// State bytes a parameter beside weight and gradient. In fp32 the weight is its own master copy.
double stack_state_bytes(const struct stack *stack, enum optimizer optimizer,
                         enum precision precision);
// The same of states on the host, where the weights that are updated have to be: in fp32 as well.
double stack_host_state_bytes(const struct stack *stack, enum optimizer optimizer,
                              enum precision precision);

// Allocator slack over activations in a pipeline of so many stages.
double stack_reserve_ratio(const struct stack *stack, int stage_count);

// What runs beside compute where nobody chooses (enum overlap): with what tp gathers handed on in
// so many parts that as well, since it is what they are for.
unsigned stack_overlap_default(const struct stack *stack, int tp_relay);

// The bytes in which gradients are reduced, and moved, piece by piece over so many ranks.
double stack_bucket_bytes(const struct stack *stack, const struct parallel *parallel,
                          int rank_count);

// Whether a plan with or without a pipeline adds up whole gradients of sharded parameters.
bool stack_keeps_sums(const struct stack *stack, bool is_pipeline);
// struct parallel's `accumulates`: with a single micro-batch there is nothing to add up.
bool stack_accumulates(const struct stack *stack, const struct parallel *parallel,
                       int64_t global_batch);

// The stack with the rules by which the software of `of` refuses plans (those of the two checks
// below, and stages by FLOP): none of them is a constant. In `arena`.
const struct stack *stack_with_rules(struct arena *arena, const struct stack *stack,
                                     const struct stack *of);

// Whether the software takes so few micro-batches a step. ERR_USAGE.
MUST_CHECK bool stack_check_rounds(const struct stack *stack, enum schedule_kind schedule,
                                   int stage_count, int64_t micro_batch_count, struct err *err);

// Whether the software splits experts so. ERR_USAGE.
MUST_CHECK bool stack_check_experts(const struct stack *stack, int64_t expert_count, int tp,
                                    int etp, struct err *err);

// Where optimizer states leave and gradients with them (gradients_leave_zero_stages), says so.
void stack_moves_along(const struct stack *stack, int zero, struct offload *offload);

// Whether the stack can run these choices; else a reason in `arena`:
// "stack megatron-2021 has no zero stage 3". Without `why` nothing is worded, and `arena` may be
// NULL.
bool stack_can_run(const struct stack *stack, const struct parallel *parallel, struct arena *arena,
                   const char **why);
