#include "simulator/evaluate.h"
#include "models/adapters.h"
#include "models/attended.h"
#include "models/match.h"
#include "models/op_linear_loss.h"
#include "plan/documents.h"
#include "plan/passes.h"
#include "plan/stage_meshes.h"
#include "plan/unexecuted.h"
#include "simulator/unlike.h"

#include <assert.h>
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
        .ties_pairs = !stack_is_executed(stack),
        .vocab_multiple = VOCAB_MULTIPLE * parallel->degree[AXIS_TP],
    };
    struct graph *graph = model_graph(arena, model, &options);
    bool fuses = parallel->attention == ATTENTION_FLASH && pass_is_on(parallel, PASS_ATTENTION);
    if (fuses) match_attention_graph(arena, graph);
    if (parallel->loss_chunks > 1) match_loss_graph(arena, graph, parallel->loss_chunks);
    adapters_add(arena, graph, parallel->lora);
    return graph;
}

// Matrix flops of one step over all ranks, as the instructions say them.
static double hardware_flop(const struct program *program)
{
    double flop = 0, first_ranks = mesh_stage_ranks(&program->mesh, 0);
    int chunk_count = program->shape.stage_count * program->shape.chunk_count;
    for (int i = 0; i < chunk_count; i++) {
        const struct program_chunk *chunk = &program->chunks[program->class_of[i]];
        double ranks = mesh_stage_ranks(&program->mesh, i / program->shape.chunk_count);
        assert(ranks > 0 && first_ranks > 0);
        for (int u = 0; u < chunk->use_count; u++) {
            const struct block_program *block = program->blocks[chunk->uses[u].block_program];
            for (int k = 0; k < block->instr_count; k++) {
                const struct instr *instr = &block->instrs[k];
                bool matrix = instr->kind == OP_CONTRACT || instr->kind == OP_ATTENTION ||
                              instr->kind == OP_ATTENTION_BACKWARD ||
                              instr->kind == OP_LINEAR_LOSS ||
                              instr->kind == OP_LINEAR_LOSS_BACKWARD;
                if (instr->collective != COLLECTIVE_NONE || !matrix) continue;
                flop += instr->flop * chunk->uses[u].count * (ranks / first_ranks);
            }
        }
    }
    assert(flop >= 0);
    return flop * first_ranks * program_rounds(program);
}

// Where the rates of its kernels are from: of `kind` all of them?
static bool has_rates(const struct device *device, enum precision precision,
                      enum provenance_kind kind)
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
        if (!entry || entry->kind != kind) return false;
    }
    return true;
}

// Were they measured on the device itself?
static bool is_calibrated(const struct device *device, enum precision precision)
{
    return has_rates(device, precision, PROVENANCE_MEASURED);
}

// The name under which the device was measured, if it is what was: one whose rates were taken from
// another device is not, whatever it calls itself.
static const char *measured_name(const struct device *device, enum precision precision)
{
    char gemm[64];
    snprintf(gemm, sizeof gemm, "efficiency.gemm_ratio.%s", precision_name(precision));
    const struct provenance *entry = device_provenance(device, gemm);
    return entry && entry->kind == PROVENANCE_ASSUMED ? "*" : device->name;
}

// The band of the slowest device, which paces the others; where another is known less well, that
// one decides. No published run mixed devices, computed in fp32 or trained on samples that are no
// sequences, so that such a plan is like one of a stack never measured with the device; nor is one
// over links that nobody described.
static const struct band *find_band(const struct evaluation_request *request,
                                    const struct bands *bands, const struct graph *graph,
                                    const struct device *slowest)
{
    enum precision precision = request->workload.precision;
    const struct cluster *cluster = request->cluster;
    const char *kind = band_kind(graph->expert_count, precision_bytes(precision) < 2);
    bool is_like_none =
        precision_bytes(precision) > 2 || cluster_assumes_links(cluster) || graph->seq_len_max == 1;
    const char *stack = is_like_none ? "*" : request->stack->name;
    for (int i = 0; i < cluster->node_group_count; i++) {
        if (strcmp(cluster->nodes[i].device->name, slowest->name) != 0) stack = "*";
    }
    const struct band *found = bands_find(bands, measured_name(slowest, precision), stack, kind,
                                          is_calibrated(slowest, precision));
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct device *device = cluster->nodes[i].device;
        const struct band *other = bands_find(bands, measured_name(device, precision), stack, kind,
                                              is_calibrated(device, precision));
        if (other->confidence > found->confidence) found = other;
    }
    return found;
}

// Whether runs show what this software does on such devices. One family of runs shows it of the
// devices that it ran on alone; none does of a device whose rates are guesses: of 78 runs on two
// such devices, Ascend 910B and MI300X, the bands of devices left out held 54. Our own executor's
// kernels are those that were measured.
static bool is_shown(const struct evaluation_request *request)
{
    const struct stack *stack = request->stack;
    const struct bands *bands = request->bands;
    if (stack_is_executed(stack) || bands->rows[0].confidence == CONFIDENCE_ANCHORED) return true;
    if (!stack_is_fitted(stack)) return false;
    if (!stack_is_for(stack, request->cluster->nodes[0].device->kind)) return false;
    for (int i = 0; i < request->cluster->node_group_count; i++) {
        const struct device *device = request->cluster->nodes[i].device;
        if (has_rates(device, request->workload.precision, PROVENANCE_ESTIMATED)) return false;
    }
    return bands_families(bands, stack->name) != 1 ||
           bands_cluster_runs(bands, request->cluster, stack->name) > 0;
}

// Else the band of software that no constant had seen.
static const struct bands *bands_for(struct arena *arena, const struct evaluation_request *request)
{
    return is_shown(request) ? request->bands : bands_unfitted(arena, request->bands);
}

static void add_band(struct arena *arena, const struct evaluation_request *request,
                     const struct evaluation *evaluation, const struct device *device,
                     struct prediction *out)
{
    const struct bands *bands = bands_for(arena, request);
    out->bands = request->bands;
    out->band = find_band(request, bands, evaluation->graph, device);
    out->selected_count = request->selected_count;
    if (request->selected_count > 1) out->band = bands_selected(bands, out->band);
    out->memory_band = bands_memory(request->bands, request->stack->name, &out->is_own_memory_band);
    double low_ratio = out->band->low_ratio, high_ratio = out->band->high_ratio;
    out->step_s_low = out->step_s * low_ratio;
    out->step_s_high = out->step_s * high_ratio;
    assert(0 < out->step_s_low && out->step_s_low <= out->step_s_high);
}

struct prediction prediction_keep(struct arena *arena, const struct prediction *prediction)
{
    struct prediction kept = *prediction;
    if (!prediction->band) return kept;
    struct band *band = ARENA_NEW(arena, struct band, 1);
    *band = *prediction->band;
    kept.band = band;
    return kept;
}

enum memory_fit memory_fit(const struct prediction *prediction)
{
    int64_t left_bytes = prediction->device_bytes - prediction->reserved_bytes;
    assert(prediction->peak_bytes <= prediction->reserved_bytes && "what is allocated is reserved");
    const struct memory_band *band = prediction->memory_band;
    if (left_bytes < 0) return MEMORY_LACKS;
    if (!band) return MEMORY_FITS;
    double more_bytes = (band->high_ratio - 1) * (double)prediction->peak_bytes;
    return (double)left_bytes < more_bytes ? MEMORY_FITS_NARROWLY : MEMORY_FITS;
}

const char *memory_fit_name(enum memory_fit fit)
{
    static const char *const NAMES[] = {"fits", "fits narrowly", "does not fit"};
    assert((size_t)fit < sizeof NAMES / sizeof *NAMES);
    return NAMES[fit];
}

// The rates at which machines fail are published of GPUs; of CPUs there are those of their file.
struct money_request evaluation_money(const struct evaluation_request *request,
                                      const struct evaluation *evaluation, double step_s)
{
    const struct workload *workload = &request->workload;
    bool is_cpu = strcmp(request->cluster->nodes[0].device->kind, "cpu") == 0;
    bool is_unknown = is_cpu && request->cluster->failures.gpu_mtbf_h == CLUSTER_GPU_MTBF_H;
    return (struct money_request){
        .cluster = request->cluster,
        .step_s = step_s,
        .step_tokens = (double)workload->global_batch * (double)workload->seq_len,
        .tokens = workload->tokens,
        .checkpoint_bytes =
            is_unknown
                ? 0
                : goodput_checkpoint_bytes(evaluation->program, evaluation->graph, request->stack),
        .band = evaluation->prediction.band,
        .communicators = communicators_of(evaluation->program),
    };
}

// Forward and backward of the experts' parameters, for the tokens of one sequence.
static double expert_flop(const struct graph *graph, int64_t seq_len)
{
    double elements = 0;
    for (int i = 0; i < graph->sequence_count; i++) {
        const struct block *block = &graph->blocks[graph->sequence[i]];
        for (int o = 0; o < block->op_count; o++) {
            const struct op *op = &block->ops[o];
            if (op->kind != OP_CONTRACT || op->phase != PHASE_FORWARD) continue;
            for (int k = 0; k < op->input_count; k++) {
                const struct tensor *tensor = &block->tensors[op->inputs[k]];
                if (tensor->role != TENSOR_PARAMETER || tensor_find_dim(tensor, DIM_EXPERT) < 0)
                    continue;
                elements += (double)tensor_elements(tensor, 1, 1);
            }
        }
    }
    if (elements <= 0) return 0;
    assert(graph->expert_count >= graph->top_k && graph->top_k > 0);
    return 6 * elements / (double)graph->expert_count * (double)graph->top_k * (double)seq_len;
}

// What experts have no room for is dropped, and nobody computes it, nor what is masked.
static double model_flop(const struct graph *graph, const struct evaluation_request *request)
{
    const struct workload *workload = &request->workload;
    double flop = graph_model_flop(graph, workload->seq_len), room = workload->capacity_factor;
    if (room > 0 && room < 1) flop -= (1 - room) * expert_flop(graph, workload->seq_len);
    if (request->document_tokens > 0)
        flop -= attended_masked_flop(graph, workload->seq_len, request->document_tokens);
    return flop;
}

// Of the fastest units that a run of this precision may use: its narrow products', or those of what
// stays wide.
static double peak_flop_per_s(const struct device *device, enum precision precision)
{
    return fmax(device->peak_flop_per_s[precision],
                device->peak_flop_per_s[wide_precision(device, precision)]);
}

// Of unlike devices the stage that leaves least of its own.
static void find_worst(const struct evaluation_request *request, struct evaluation *evaluation)
{
    int stages = evaluation->program->shape.stage_count;
    int64_t least = INT64_MAX;
    for (int stage = 0; stage < stages && !cluster_has_one_device(request->cluster); stage++) {
        const struct mesh *mesh = &evaluation->program->mesh;
        int64_t left = unlike_stage_bytes(request->cluster, mesh, stage) -
                       evaluation->stage_memory[stage].reserved_bytes;
        if (left >= least) continue;
        least = left;
        evaluation->worst_stage = stage;
    }
}

static double peak_mean_flop_per_s(const struct evaluation_request *request)
{
    const struct cluster *cluster = request->cluster;
    enum precision precision = request->workload.precision;
    double sum = 0;
    int left = (int)parallel_rank_count(&request->parallel), all = left;
    for (int g = 0; g < cluster->node_group_count && left > 0; g++) {
        const struct node_group *nodes = &cluster->nodes[g];
        int ranks = nodes->count * nodes->gpus < left ? nodes->count * nodes->gpus : left;
        sum += ranks * peak_flop_per_s(nodes->device, precision);
        left -= ranks;
    }
    assert(left == 0 && sum > 0 && "the plan has no more ranks than the cluster");
    return sum / all;
}

static struct prediction predict(struct arena *arena, const struct evaluation_request *request,
                                 const struct evaluation *evaluation, const struct device *device)
{
    const struct workload *workload = &request->workload;
    double gpus = (double)parallel_rank_count(&request->parallel);
    double sequences = (double)workload->global_batch;
    struct prediction out = {.cost = evaluation->simulation->cost};
    out.step_s = out.cost.step_s;
    out.tokens_per_s = sequences * (double)workload->seq_len / out.step_s;
    out.tokens_per_s_per_gpu = out.tokens_per_s / gpus;
    double flop = model_flop(evaluation->graph, request) * sequences;
    out.model_flop_per_s_per_gpu = flop / out.step_s / gpus;
    out.hardware_flop_per_s_per_gpu = hardware_flop(evaluation->program) / out.step_s / gpus;
    double peak = cluster_has_one_device(request->cluster)
                      ? peak_flop_per_s(device, workload->precision)
                      : peak_mean_flop_per_s(request);
    out.mfu_ratio = out.model_flop_per_s_per_gpu / peak;
    assert(out.step_s > 0 && out.tokens_per_s > 0 && peak > 0);
    assert(out.mfu_ratio <= 1 + 1e-9 && "no kernel is priced above its peak");
    const struct memory_parts *worst = &evaluation->stage_memory[evaluation->worst_stage];
    out.peak_bytes = worst->peak_bytes;
    out.reserved_bytes = worst->reserved_bytes;
    out.device_bytes =
        unlike_stage_bytes(request->cluster, &evaluation->program->mesh, evaluation->worst_stage);
    if (request->bands) add_band(arena, request, evaluation, device, &out);
    return out;
}

// What follows from the length of the run.
static void price_run(const struct evaluation_request *request, struct evaluation *evaluation)
{
    struct prediction *prediction = &evaluation->prediction;
    const struct money_request asked = evaluation_money(request, evaluation, prediction->step_s);
    struct money_band priced = money_of(&asked);
    prediction->money = priced.money;
    prediction->money_low = priced.low;
    prediction->money_high = priced.high;
    prediction->goodput = priced.goodput;
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

bool evaluate_check_pace(const struct graph *graph, const struct cluster *cluster,
                         const struct workload *workload, struct err *err)
{
    static const double LONGEST_S = 1e7;
    enum precision precision = workload->precision;
    const struct device *device = cluster_slowest_device(cluster, precision);
    double flop = graph_model_flop(graph, workload->seq_len) * (double)workload->global_batch;
    double seconds = flop / (double)cluster->rank_count / device->peak_flop_per_s[precision];
    assert(seconds >= 0);
    if (seconds <= LONGEST_S) return true;
    return err_set(
        err, ERR_INPUT,
        "cluster %s: a step takes %.2g days on %lld of %s, whose peak is %.3g FLOP/s in %s",
        cluster->name, seconds / 86400, (long long)cluster->rank_count, device->name,
        device->peak_flop_per_s[precision], precision_name(precision));
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
    if (!program_check_lora(graph, parallel->lora, err)) return false;
    if (!program_check(graph, request->cluster, workload, parallel, err)) return false;
    int stages = parallel->degree[AXIS_PP];
    int64_t rounds = parallel_micro_batch_count(parallel, workload->global_batch);
    if (!stack_check_rounds(stack, parallel->schedule, stages, rounds, err)) return false;
    const int *degree = parallel->degree;
    if (!stack_check_experts(stack, graph->expert_count, degree[AXIS_TP], degree[AXIS_ETP], err))
        return false;
    if (!cluster_check_precision(request->cluster, workload->precision, err)) return false;
    if (!evaluate_check_pace(graph, request->cluster, workload, err)) return false;
    if (!stack_check_precision(stack, workload->precision, err)) return false;
    if (!stack_check_executed(stack, workload, parallel, err)) return false;
    const char *device = request->cluster->nodes[0].device->kind;
    bool may_run =
        !stack_is_executed(stack) || (unexecuted_check_graph(graph, device, err) &&
                                      unexecuted_check_positions(graph, workload->seq_len, err));
    if (!may_run) return false;
    chosen = stage_meshes_plain(&request->parallel);
    chosen.accumulates = stack_accumulates(stack, parallel, workload->global_batch);
    assert(rounds > 0 && stages > 0);
    struct price_context context = evaluation_context(request);
    struct program *program =
        program_lower(arena, graph, request->cluster, workload, parallel, stack_joins(stack));
    if (request->document_tokens > 0) documents_apply(program, request->document_tokens);
    struct step_price *price = step_price(arena, &context, program);
    evaluation->graph = graph;
    evaluation->program = program;
    evaluation->price = price;
    evaluation->measured = measured_use_of(arena, &context.compute, program);
    evaluation->simulation = unlike_play(arena, scratch, request, program, price, &request->engine);
    int stage_count = program->shape.stage_count;
    evaluation->stage_memory = ARENA_NEW(arena, struct memory_parts, stage_count);
    for (int stage = 0; stage < stage_count; stage++) {
        evaluation->stage_memory[stage] = memory_of_stage(program, stack, stage);
    }
    memory_worst(program, stack, &evaluation->worst_stage);
    find_worst(request, evaluation);
    evaluation->hosts = (struct host_need){0};
    if (!offload_is_none(&parallel->offload))
        evaluation->hosts = hosts_need(program, evaluation->stage_memory);
    evaluation->prediction = predict(arena, request, evaluation, context.compute.device);
    price_run(request, evaluation);
    return true;
}
