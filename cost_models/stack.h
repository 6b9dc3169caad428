#pragma once
#include "plan/parallel.h"

// The software that runs the plan, as data: the same plan runs at a different speed on different
// software. cost_models/stacks/NAME.json; cost_models/schema/stack.schema.json; a provenance for
// every constant. The planner proposes nothing the stack cannot run.

struct stack {
    const char *name;
    const char *description;
    // what it can run
    unsigned schedules;                  // bit per enum schedule_kind; none without a pipeline
    unsigned zero_stages;                // bits 0..3
    unsigned zero_stages_with_pipeline;  // those it can combine with pp > 1
    unsigned recompute;                  // bit per enum recompute
    unsigned attention;                  // bit per enum attention
    unsigned axes;                       // bit per enum axis with a degree above 1
    bool sequence_parallel;
    unsigned passes;   // bit per enum pass
    unsigned overlap;  // mask of enum overlap it can do
    unsigned overlap_default;
    // how fast it runs it
    double gemm_scale;               // on the device's gemm_ratio
    double attention_forward_scale;  // on the device's attention ratios
    double attention_backward_scale;
    double attention_flop_per_s_most;  // kernels written for an older device gain no more than
                                       // this on a newer one, backward in proportion; 0 = no limit
    double element_wise_scale;    // memory traffic and launches of what is bound by memory over
                                  // those of the program: each op reading its inputs and writing
                                  // its outputs once, less what the fusion pass saves where the
                                  // stack has it (plan/fusion.h)
    double host_op_s;             // host time of one operator (launch bound below)
    double unaligned_gemm_ratio;  // rate of a batched GEMM with a side that is no multiple of 8
    double cast_bytes;            // memory traffic of quantising one GEMM operand element (fp8)
    double gradient_passes;       // times a step that the whole gradient is walked over beside
                                  // the update: zeroing, unscaling, copying
    double overlap_ratio;         // share of gradient and parameter communication that proceeds
                                  // while compute runs
    double tp_overlap_ratio;      // share of tp collectives hidden behind GEMMs when OVERLAP_TP
    double contention_ratio;      // slow-down of compute by communication beside it
    double network_scale;         // on the fabric's efficiency
    double step_overhead_s;       // data loading, logging, host work, once a step
    bool merge_contractions;      // q,k,v and gate,up as one GEMM
    bool fp32_gradient_accumulation;  // weight gradients read and written in fp32 by the GEMM
    bool dropout;                     // trains with the dropout of the config
    bool vocab_parallel;              // tp also splits the vocabulary
    bool pipeline_scatter;            // what is whole over tp is sent to the next stage in pieces
                                      // and gathered there
    bool dummy_gradient;              // keeps a gradient of every distinct weight shape in backward
    int64_t bucket_bytes;             // of gradient reduction
    double bucket_bytes_per_rank;     // and no less than this for every rank that reduces, so that
                                      // latency does not outgrow bandwidth; 0 = does not grow
    // memory
    double gradient_bytes;            // of a kept gradient element: 4 or 2
    double logits_bytes_per_element;  // alive on the last stage: logits, their fp32 copy, gradient
    int64_t reserve_bytes;            // context, communicators, workspaces; not part of "allocated"
    double reserve_ratio;             // allocator slack over activations, not part of "allocated"
    struct provenance *provenance;
    int provenance_count;
};

// A shipped name or a path. NULL and a set `err` if it is wrong.
MUST_CHECK const struct stack *stack_load(struct arena *arena, const char *name, struct err *err);
MUST_CHECK const struct stack *stack_read(struct arena *arena, const struct json *object,
                                          struct err *err);
void stack_write(struct json_writer *writer, const char *key, const struct stack *stack);

// Whether the stack can run these choices; else a reason in `arena`:
// "stack megatron-2021 has no zero stage 3".
bool stack_can_run(const struct stack *stack, const struct parallel *parallel, struct arena *arena,
                   const char **why);
