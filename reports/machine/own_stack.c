#include "reports/machine/own_stack.h"

#include "executor/calibrate/calibrate.h"
#include "models/import.h"
#include "plan/passes.h"
#include "plan/unexecuted.h"
#include "topologies/provenance.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct answers {
    const struct backend *const *backends;
    int count;
};

// The table that runs plans of this precision; NULL: none does.
static const struct backend *table_of(const struct answers *answers, enum precision precision)
{
    assert(answers->count > 0);
    for (int i = 0; i < answers->count; i++) {
        const struct backend *backend = answers->backends[i];
        if (!backend->at && precision == PRECISION_FP32) return backend;
        if (backend->at && backend->at(precision)) return backend->at(precision);
    }
    return NULL;
}

static bool has_gemms_in(const struct answers *answers, enum precision precision)
{
    const struct backend *backend = table_of(answers, precision);
    return backend && backend->is_low_precision;
}

// On one rank, as short as the vocabulary is small: kernels are asked what, not how large.
static struct block_program *lower_layer(struct arena *arena, const struct graph *graph)
{
    struct parallel *parallel = ARENA_NEW(arena, struct parallel, 1);
    struct mesh *mesh = ARENA_NEW(arena, struct mesh, 1);
    const struct block *layer = NULL;
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel->degree[axis] = 1;
    parallel->vpp = parallel->micro_batch = 1;
    parallel_default_order(parallel);
    *mesh = mesh_make(parallel, graph->kv_head_count);
    for (int b = 0; b < graph->block_count; b++) {
        if (graph->blocks[b].role == BLOCK_LAYER) layer = &graph->blocks[b];
    }
    assert(layer && "the graph of a layer has one");
    const struct lower_request request = {.block = layer,
                                          .mesh = mesh,
                                          .parallel = parallel,
                                          .seq_len = graph->vocab,
                                          .precision = PRECISION_FP32};
    return lower_block(arena, &request);
}

// Whether it has a kernel for every operator of a layer with such attention.
static bool runs_attention(struct arena *arena, const struct backend *backend,
                           const struct model_config *config, enum attention attention)
{
    const struct import_options options = {.flash = attention == ATTENTION_FLASH};
    const struct graph *graph = model_graph(arena, config, &options);
    const struct block_program *program = lower_layer(arena, graph);
    const struct calibrate_block block = {.program = program,
                                          .batch = 1,
                                          .seq = graph->vocab,
                                          .vocab = graph->vocab,
                                          .head_count = graph->head_count};
    struct kernel_array *arrays =
        ARENA_NEW(arena, struct kernel_array, program->block->tensor_count);
    calibrate_shapes(&block, arrays);
    for (int i = 0; i < program->instr_count; i++) {
        const struct kernel_call call = calibrate_call(&block, arrays, &program->instrs[i]);
        if (backend->can_run(&call)) return false;
    }
    return true;
}

static bool find_attention(struct arena *arena, const struct backend *backend, unsigned *attention,
                           struct err *err)
{
    static const char LAYER[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 4, "
        "\"num_key_value_heads\": 2, \"intermediate_size\": 128, \"num_hidden_layers\": 1, "
        "\"max_position_embeddings\": 64, \"vocab_size\": 64, \"hidden_act\": \"silu\"}";
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!json_parse(arena, "layer", LAYER, strlen(LAYER), document, err)) return false;
    struct json root = json_root(document);
    const struct model_config *config = model_read(arena, "layer", &root, NULL, NULL, err);
    for (int a = 0; config && a < ATTENTION_COUNT; a++)
        *attention |= (unsigned)runs_attention(arena, backend, config, (enum attention)a) << a;
    return config != NULL;
}

// Axes that a back end splits over.
static unsigned axes(void)
{
    const struct workload any = {0};
    unsigned found = 0;
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        struct parallel parallel = {.passes = PASS_ALL};
        for (int other = 0; other < AXIS_COUNT; other++)
            parallel.degree[other] = other == axis ? 2 : 1;
        if (!unexecuted_of(&any, &parallel)) found |= 1u << axis;
    }
    return found;
}

// What the engine runs on every back end.
static void fill_engine(struct stack *stack)
{
    enum { ZERO_MOST = 3 };
    stack->schedules = (1u << SCHEDULE_KIND_COUNT) - 1;
    stack->zero_stages = (2u << ZERO_MOST) - 1;
    // Others would exchange shards once a micro-batch.
    stack->zero_stages_with_pipeline = 1u << 0 | 1u << 1;
    stack->zero_stages_grouped = 1u << ZERO_MOST;
    // Per-op is what another program does, and sets of classes do what it does.
    stack->recompute = ((1u << RECOMPUTE_COUNT) - 1) & ~(1u << RECOMPUTE_PER_OP);
    stack->recompute_classes = ((1u << OP_CLASS_COUNT) - 1) & ~(1u << OP_CLASS_NONE);
    stack->axes = axes();
    stack->tp_kinds = (1u << TP_KIND_COUNT) - 1;
    stack->cp_kinds = (1u << CP_KIND_COUNT) - 1;
    stack->sequence_parallel = true;
    // Of the tasks of a step the norm and the update walk over gradients, which have prices of
    // their own; what accumulates in GEMMs is in theirs, and nobody clears any but tables whose
    // rows are added to.
    stack->gradient_passes = 0;
    stack->vocab_parallel = stack->fp32_gradient_accumulation = true;
    stack->passes =
        1u << PASS_ATTENTION | 1u << PASS_BUCKETS | 1u << PASS_COMBINE | 1u << PASS_EARLY_STOP;
}

// Moves of both kinds and tiers, but for those that the engine refuses.
static unsigned offloads(void)
{
    static const struct {
        enum offloads offloads;
        struct offload offload;
    } ROWS[] = {
        {OFFLOADS_OPTIMIZER, {.optimizer = TIER_HOST}},
        {OFFLOADS_OPTIMIZER_NVME, {.optimizer = TIER_NVME}},
        {OFFLOADS_ACTIVATIONS, {.activations = TIER_HOST}},
        {OFFLOADS_ACTIVATIONS_NVME, {.activations = TIER_NVME}},
        {OFFLOADS_CLASSES, {.activations = TIER_HOST}},
        {OFFLOADS_PARAMETERS, {.optimizer = TIER_HOST, .parameters = TIER_HOST}},
        {OFFLOADS_PARAMETERS_NVME, {.optimizer = TIER_NVME, .parameters = TIER_NVME}},
        {OFFLOADS_GRADIENTS, {.optimizer = TIER_HOST, .gradients = true}},
    };
    const struct workload any = {0};
    unsigned found = 0;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const struct parallel moved = {.offload = ROWS[i].offload};
        if (!unexecuted_of(&any, &moved)) found |= 1u << ROWS[i].offloads;
    }
    return found;
}

// All that a plan can have beside compute, but for what the engine refuses.
static unsigned overlaps(void)
{
    const struct workload any = {0};
    unsigned found = 0, split = axes();
    for (unsigned overlap = 1; overlap < OVERLAP_END; overlap <<= 1) {
        struct parallel parallel = {.overlap = overlap, .passes = PASS_ALL, .tp_relay = 2};
        for (int axis = 0; axis < AXIS_COUNT; axis++)
            parallel.degree[axis] = split >> axis & 1 ? 2 : 1;
        if (!unexecuted_of(&any, &parallel)) found |= overlap;
    }
    return found;
}

// Gradients, masters and moments are reals; logits and their gradient are what kernels compute with
// in the precision that plans have unless another is asked for.
static void fill_widths(const struct answers *answers, struct stack *stack)
{
    const struct backend *backend = answers->backends[0];
    enum precision usual = backend->is_host ? PRECISION_FP32 : PRECISION_BF16;
    const struct backend *table = table_of(answers, usual);
    stack->gradient_bytes = stack->reduce_bytes = backend->real_bytes;
    stack->master_bytes = stack->moment_bytes = backend->real_bytes;
    stack->logits_bytes_per_element = 2.0 * (table ? table : backend)->compute_bytes;
}

static bool fill_answers(struct arena *arena, const struct answers *answers, struct stack *stack,
                         struct err *err)
{
    enum { ALL_PHASES = (1 << PHASE_COUNT) - 1 };
    const struct backend *backend = answers->backends[0];
    stack->device_kinds = 1u << (backend->is_host ? DEVICE_KIND_CPU : DEVICE_KIND_GPU);
    stack->joins = backend->joins;
    stack->unfused_attention = backend->unfused_attention;
    stack->walks_scans = backend->walks_scans;
    stack->merge_contractions = stack->joins >> JOIN_MERGED & 1;
    stack->cp_zigzag = stack->joins >> JOIN_HALVES & 1;
    stack->grouped_gemm_fused = stack->joins >> JOIN_GROUPED & 1;
    if (stack->joins & joins_of_pass()) stack->passes |= 1u << PASS_FUSION;
    if (backend->is_asynchronous) {
        stack->passes |= 1u << PASS_STREAMS | 1u << PASS_LATENCY_HIDING;
        stack->overlap = overlaps();
    }
    // What a plan without a relay has nothing of.
    stack->overlap_default = stack->overlap & ~(unsigned)OVERLAP_TP;
    if (has_gemms_in(answers, PRECISION_FP8)) stack->fp8_gemms = ALL_PHASES;
    // plan/lower/casts.h
    stack->cached_weight_cast = stack->fp8_gemms != 0;
    if (has_gemms_in(answers, PRECISION_FP4)) stack->fp4_gemms = ALL_PHASES;
    stack->offload = offloads();
    // Shards are gathered from where the device has them.
    stack->parameter_zero_stages = 1u << 0;
    fill_widths(answers, stack);
    return find_attention(arena, backend, &stack->attention, err);
}

static const char *flag_text(struct arena *arena, const char *ability)
{
    assert(*ability);
    const char *value = strchr(ability, '=');
    if (strcmp(ability, "recompute=selective") == 0) return "(by the classes)";
    if (strcmp(ability, "offload=classes") == 0) return "--offload (a list of classes)";
    if (strcmp(ability, "stages") == 0) return "--stages (layers of each)";
    if (!value) {
        char *option = arena_print(arena, "--%s {}", ability);
        for (char *c = option; *c; c++)
            *c = *c == '_' ? '-' : *c;
        return option;
    }
    return arena_print(arena, "--%.*s %s", (int)(value - ability), ability, value + 1);
}

// Its flags are those of `meshwright plan`.
static void fill_flags(struct arena *arena, const struct answers *answers, struct stack *stack)
{
    static const char *const SETTINGS[] = {
        "vpp",        "micro-batch",    "global-batch",    "seq-len",
        "zero-group", "zero-gradients", "zero-parameters", "recompute-layers",
        "in-flight",  "stages"};
    enum { SETTING_COUNT = sizeof SETTINGS / sizeof *SETTINGS };
    int count = 0;
    const char **abilities = stack_abilities(arena, stack, &count);
    stack->flags_of = "meshwright plan";
    stack->flags_joined = ",";
    stack->flags = ARENA_NEW(arena, struct stack_flag, count + SETTING_COUNT + PRECISION_COUNT);
    for (int i = 0; i < count; i++)
        stack->flags[stack->flag_count++].ability = abilities[i];
    for (int i = 0; i < SETTING_COUNT; i++)
        stack->flags[stack->flag_count++].ability = SETTINGS[i];
    // Those in less than 16 bits are abilities.
    for (int p = 0; p < PRECISION_COUNT; p++) {
        bool is_wide = precision_bytes((enum precision)p) >= 2;
        if (!is_wide || !table_of(answers, (enum precision)p)) continue;
        stack->flags[stack->flag_count++].ability =
            arena_print(arena, "precision=%s", precision_name((enum precision)p));
    }
    assert(stack->flag_count <= count + SETTING_COUNT + PRECISION_COUNT);
    for (int i = 0; i < stack->flag_count; i++)
        stack->flags[i].flag = flag_text(arena, stack->flags[i].ability);
}

// The software that runs most like it on devices.
static const char START[] = "megatron-core";
#define AS_START NAN
#define ANSWERED INFINITY
#define ESTIMATED PROVENANCE_ESTIMATED
#define PUBLISHED PROVENANCE_PUBLISHED
static const struct own_constant {
    const char *key;
    double host;
    const char *host_source;
    enum provenance_kind kind;
    double device;
    const char *device_source;
} CONSTANTS[] = {
#define CONSTANT(key, host, host_source, kind, device, device_source) \
    {#key, host, host_source, kind, device, device_source},
#include "reports/machine/own_constants.inc"
};
enum { CONSTANT_COUNT = sizeof CONSTANTS / sizeof *CONSTANTS };

static double value_of(const struct json_field *field, const struct stack *stack)
{
    const char *at = (const char *)stack + field->offset;
    return field->type == JSON_TYPE_I64 ? (double)*(const int64_t *)(const void *)at
                                        : *(const double *)(const void *)at;
}

static void set_value(const struct json_field *field, struct stack *stack, double value)
{
    char *at = (char *)stack + field->offset;
    if (field->type == JSON_TYPE_I64) {
        *(int64_t *)(void *)at = (int64_t)value;
    } else {
        *(double *)(void *)at = value;
    }
}

static void fill_constants(struct arena *arena, bool is_host, const struct stack *start,
                           struct stack *stack)
{
    stack->provenance = ARENA_NEW(arena, struct provenance, CONSTANT_COUNT + 1);
    stack->provenance[stack->provenance_count++] = (struct provenance){
        .key = "flags", .kind = PROVENANCE_PUBLISHED, .source = "meshwright help plan"};
    for (int i = 0; i < CONSTANT_COUNT; i++) {
        const struct own_constant *constant = &CONSTANTS[i];
        const struct json_field *field = stack_fields();
        while (field->key && strcmp(field->key, constant->key) != 0)
            field++;
        assert(field->key && (field->type == JSON_TYPE_F64 || field->type == JSON_TYPE_I64));
        double value = is_host ? constant->host : constant->device;
        if (!isinf(value)) set_value(field, stack, isnan(value) ? value_of(field, start) : value);
        stack->provenance[stack->provenance_count++] = (struct provenance){
            .key = constant->key,
            .kind = is_host ? PROVENANCE_ESTIMATED : constant->kind,
            .source = is_host ? constant->host_source : constant->device_source,
        };
    }
}

static const char *description(struct arena *arena, const struct backend *backend)
{
    const char *joins = "";
    for (int j = 0; j < JOIN_COUNT; j++) {
        if (!(backend->joins >> j & 1)) continue;
        joins = arena_print(arena, "%s%s%s", joins, *joins ? ", " : "", join_name((enum join)j));
    }
    if (backend->is_host)
        return arena_print(arena,
                           "our executor on CPU ranks: one thread a rank, OpenBLAS, joined kernels "
                           "(%s), ranks of a host through shared memory",
                           joins);
    return arena_print(
        arena, "our executor: cuBLASLt, cuDNN fused attention, joined kernels (%s), NCCL", joins);
}

struct stack *own_stack_make(struct arena *arena, const struct backend *const *backends,
                             int backend_count, struct err *err)
{
    assert(backend_count > 0);
    const struct answers answers = {backends, backend_count};
    const struct stack *start = stack_load(arena, START, err);
    if (!start) return NULL;
    struct stack *stack = ARENA_NEW(arena, struct stack, 1);
    stack->name = backends[0]->is_host ? CPU_STACK : GPU_STACK;
    stack->description = description(arena, backends[0]);
    fill_engine(stack);
    if (!fill_answers(arena, &answers, stack, err)) return NULL;
    fill_flags(arena, &answers, stack);
    fill_constants(arena, backends[0]->is_host, start, stack);
    return stack;
}
