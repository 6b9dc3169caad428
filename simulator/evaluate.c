#include "simulator/evaluate.h"
#include "models/match.h"
#include "plan/passes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Megatron pads the vocabulary so that every tensor rank holds a multiple of 128 rows.
static const int64_t VOCAB_MULTIPLE = 128;

struct graph *evaluation_graph(struct arena *arena, const struct model_config *model,
                               const struct stack *stack, const struct parallel *parallel)
{
    struct import_options options = {
        .dropout = stack->dropout,
        .vocab_multiple = VOCAB_MULTIPLE * parallel->degree[AXIS_TP],
    };
    struct graph *graph = model_graph(arena, model, &options);
    bool fuses = parallel->attention == ATTENTION_FLASH && pass_is_on(parallel, PASS_ATTENTION);
    if (fuses) match_attention_graph(arena, graph);
    return graph;
}

// Matrix flops of one step over all ranks, as the instructions say them.
static double hardware_flop(const struct program *program)
{
    double stage_flop = 0;
    int chunk_count = program->shape.stage_count * program->shape.chunk_count;
    for (int i = 0; i < chunk_count; i++) {
        const struct program_chunk *chunk = &program->chunks[program->class_of[i]];
        for (int u = 0; u < chunk->use_count; u++) {
            const struct block_program *block = program->blocks[chunk->uses[u].block_program];
            for (int k = 0; k < block->instr_count; k++) {
                const struct instr *instr = &block->instrs[k];
                bool matrix = instr->kind == OP_CONTRACT || instr->kind == OP_ATTENTION ||
                              instr->kind == OP_ATTENTION_BACKWARD;
                if (instr->collective != COLLECTIVE_NONE || !matrix) continue;
                stage_flop += instr->flop * chunk->uses[u].count;
            }
        }
    }
    int ranks_per_stage = program->mesh.rank_count / program->shape.stage_count;
    return stage_flop * ranks_per_stage * program->shape.micro_batch_count;
}

// Were the rates of its kernels measured on the device itself?
static bool is_calibrated(const struct device *device, enum precision precision)
{
    char gemm[64];
    snprintf(gemm, sizeof gemm, "efficiency.gemm_ratio.%s", precision_name(precision));
    const char *const keys[] = {
        gemm,
        "efficiency.attention_forward_ratio",
        "efficiency.attention_backward_ratio",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct provenance *entry = device_provenance(device, keys[i]);
        if (!entry || entry->kind != PROVENANCE_MEASURED) return false;
    }
    return true;
}

// The band of the slowest device, which paces the others; where another is known less well, that
// one decides. No published run mixed devices or computed in fp32, so that such a plan is like one
// of a stack never measured with the device.
static const struct band *find_band(const struct evaluation_request *request, int64_t expert_count,
                                    const struct device *slowest)
{
    enum precision precision = request->workload.precision;
    const struct cluster *cluster = request->cluster;
    const char *kind = band_kind(expert_count, precision_bytes(precision) < 2);
    const char *stack = precision_bytes(precision) > 2 ? "*" : request->stack->name;
    for (int i = 0; i < cluster->node_group_count; i++) {
        if (strcmp(cluster->nodes[i].device->name, slowest->name) != 0) stack = "*";
    }
    const struct band *found =
        bands_find(request->bands, slowest->name, stack, kind, is_calibrated(slowest, precision));
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct device *device = cluster->nodes[i].device;
        const struct band *other =
            bands_find(request->bands, device->name, stack, kind, is_calibrated(device, precision));
        if (other->confidence > found->confidence) found = other;
    }
    return found;
}

static void add_band(const struct evaluation_request *request, const struct evaluation *evaluation,
                     const struct device *device, struct prediction *out)
{
    out->bands = request->bands;
    out->band = find_band(request, evaluation->graph->expert_count, device);
    double low_ratio = out->band->low_ratio, high_ratio = out->band->high_ratio;
    double tokens = request->workload.tokens;
    out->step_s_low = out->step_s * low_ratio;
    out->step_s_high = out->step_s * high_ratio;
    out->money_low = money_of(request->cluster, out->tokens_per_s / low_ratio, tokens);
    out->money_high = money_of(request->cluster, out->tokens_per_s / high_ratio, tokens);
}

// The rates at which machines fail are published of GPUs.
static struct goodput find_goodput(const struct evaluation_request *request,
                                   const struct evaluation *evaluation, const struct device *device,
                                   double step_s)
{
    if (strcmp(device->kind, "cpu") == 0) return (struct goodput){0};
    const struct workload *workload = &request->workload;
    double step_tokens = (double)workload->global_batch * (double)workload->seq_len;
    struct goodput_request asked = {
        .cluster = request->cluster,
        .step_s = step_s,
        .checkpoint_bytes =
            goodput_checkpoint_bytes(evaluation->program, evaluation->graph, request->stack),
        .steps = ceil(workload->tokens / step_tokens),
    };
    return goodput_of(&asked);
}

static struct prediction predict(const struct evaluation_request *request,
                                 const struct evaluation *evaluation, const struct device *device)
{
    const struct workload *workload = &request->workload;
    double gpus = (double)parallel_rank_count(&request->parallel);
    double sequences = (double)workload->global_batch;
    struct prediction out = {.cost = evaluation->simulation->cost};
    out.step_s = out.cost.step_s;
    out.tokens_per_s = sequences * (double)workload->seq_len / out.step_s;
    out.tokens_per_s_per_gpu = out.tokens_per_s / gpus;
    double model_flop = graph_model_flop(evaluation->graph, workload->seq_len) * sequences;
    out.model_flop_per_s_per_gpu = model_flop / out.step_s / gpus;
    out.hardware_flop_per_s_per_gpu = hardware_flop(evaluation->program) / out.step_s / gpus;
    out.mfu_ratio = out.model_flop_per_s_per_gpu / device->peak_flop_per_s[workload->precision];
    out.money = money_of(request->cluster, out.tokens_per_s, workload->tokens);
    const struct memory_parts *worst = &evaluation->stage_memory[evaluation->worst_stage];
    out.peak_bytes = worst->peak_bytes;
    out.reserved_bytes = worst->reserved_bytes;
    out.goodput = find_goodput(request, evaluation, device, out.step_s);
    if (request->bands) add_band(request, evaluation, device, &out);
    return out;
}

struct price_context evaluation_context(const struct evaluation_request *request)
{
    enum precision precision = request->workload.precision;
    return (struct price_context){
        .compute = {.device = cluster_slowest_device(request->cluster, precision),
                    .stack = request->stack,
                    .precision = precision},
        .fabrics = request->fabrics,
        .cluster = request->cluster,
    };
}

bool evaluate(struct arena *arena, struct arena *scratch, const struct evaluation_request *request,
              struct evaluation *evaluation, struct err *err)
{
    struct parallel chosen = request->parallel;
    const struct parallel *parallel = &chosen;
    const struct workload *workload = &request->workload;
    const struct stack *stack = request->stack;
    const char *why = NULL;
    if (!stack_can_run(stack, parallel, arena, &why)) return err_set(err, ERR_USAGE, "%s", why);

    struct graph *graph = evaluation_graph(arena, request->model, stack, parallel);
    if (!program_check(graph, request->cluster, workload, parallel, err)) return false;
    if (!cluster_check_precision(request->cluster, workload->precision, err)) return false;
    if (!stack_check_precision(stack, workload->precision, err)) return false;
    chosen.accumulates = stack_accumulates(stack, parallel, workload->global_batch);
    struct price_context context = evaluation_context(request);
    struct program *program = program_lower(arena, graph, request->cluster, workload, parallel,
                                            stack->merge_contractions);
    struct step_price *price = step_price(arena, &context, program);
    evaluation->graph = graph;
    evaluation->program = program;
    evaluation->price = price;
    evaluation->measured = measured_use_of(arena, &context.compute, program);
    evaluation->simulation = simulate_step(arena, scratch, price, &request->engine);
    int stage_count = program->shape.stage_count;
    evaluation->stage_memory = ARENA_NEW(arena, struct memory_parts, stage_count);
    for (int stage = 0; stage < stage_count; stage++) {
        evaluation->stage_memory[stage] = memory_of_stage(program, stack, stage);
    }
    memory_worst(program, stack, &evaluation->worst_stage);
    evaluation->hosts = (struct host_need){0};
    if (!offload_is_none(&parallel->offload))
        evaluation->hosts = hosts_need(program, evaluation->stage_memory);
    evaluation->prediction = predict(request, evaluation, context.compute.device);
    return true;
}
