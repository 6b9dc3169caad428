#include "planner/memo.h"

#include "cost_models/memory.h"
#include "plan/layout/sequence.h"
#include "plan/layout/strategy.h"
#include "plan/passes.h"
#include "planner/choice.h"
#include "planner/index.h"
#include "planner/traces.h"
#include "simulator/evaluate.h"

#include <assert.h>
#include <string.h>

// Keys are compared byte by byte, so they are zeroed first.
struct axis_key {
    int32_t size, stride;
    uint8_t parent, part, expert, shards;
};

static struct axis_key axis_key(const struct mesh_axis *axis)
{
    return (struct axis_key){axis->size,          axis->stride,          (uint8_t)axis->parent,
                             (uint8_t)axis->part, (uint8_t)axis->expert, (uint8_t)axis->shards};
}

// Everything that lowering depends on but what one search has one of: precision, sequence length,
// imbalance and capacity, passes. Sharding only where lower_sharding does not add it.
struct lower_key {
    const struct graph *graph;
    const struct layout_rule *layouts;  // of the plan, by address
    int kind, recompute, sp, cp_kind, micro_batch, sharding, axis_count, stays, rounds;
    struct axis_key axes[MESH_AXIS_MAX];  // strides 0; of data parallelism whether it is there
};

struct price_key {
    const struct lower_entry *source;
    int sharding, axis_count;
    unsigned overlap;
    struct axis_key axes[MESH_AXIS_MAX];  // those that the program communicates over
};

// What ZeRO 2 or 3 makes of a block: its light program, and the work of what they add.
struct sharded {
    struct block_program *light;
    const struct block_work *work;  // NULL: nothing is added
};

// The program itself is not kept.
struct lower_entry {
    struct lower_key key;
    const struct block_work *work;
    const uint32_t *traces;
    struct block_program parameters;  // as lower_sharding reads them
    struct sharded sharded[SHARDING_COUNT];
};

struct price_entry {
    struct price_key key;
    struct memo_block block;
};

// The layouts of a block on a mesh, whatever its micro-batch and recompute.
struct layouts_entry {
    struct lower_key key;  // of which only what they depend on is set
    struct op_layouts *layouts;
};

struct graph_entry {
    enum attention attention;
    int tp;
    const struct graph *graph;
    uint64_t experts, attention_cores;  // 1 << kind of a block that has some
    const struct graph_gradients *gradients;
};

enum { GRAPH_MAX = 256 };

struct memo {
    struct arena *arena, *scratch;
    const struct search_request *request;
    struct price_context context;
    enum tier parameters;  // of every plan of the search: one of the pins
    struct graph_entry graphs[GRAPH_MAX];
    int graph_count;
    struct index layouts, lowered, priced;
};

struct memo *memo_new(struct arena *arena, struct arena *scratch,
                      const struct search_request *request)
{
    struct memo *memo = ARENA_NEW(arena, struct memo, 1);
    enum precision precision = request->workload.precision;
    memo->arena = arena;
    memo->scratch = scratch;
    memo->request = request;
    memo->context = (struct price_context){
        .compute = {.device = cluster_slowest_device(request->cluster, precision),
                    .stack = request->stack,
                    .precision = precision,
                    .gemms = gemm_memo_new(arena)},
        .fabrics = request->fabrics,
        .cluster = request->cluster,
    };
    struct int_range offload = pins_get(&request->pins, CHOICE_OFFLOAD);
    // What a stack never moves has no price, though a bound asks before the pin is refused.
    if (request->stack->copy_ratio > 0)
        memo->parameters = offload.set ? offload_of_value(offload.low).parameters
                                       : request->pins.search_parameters;
    memo->layouts.key_bytes = memo->lowered.key_bytes = sizeof(struct lower_key);
    memo->priced.key_bytes = sizeof(struct price_key);
    return memo;
}

bool memo_keeps_casts(const struct memo *memo)
{
    const struct search_request *request = memo->request;
    return precision_bytes(request->workload.precision) < 2 &&
           joins_are_executed(stack_joins(request->stack));
}

enum stays memo_longest_stay(const struct memo *memo)
{
    // 0 where none is pinned: none is moved.
    struct offload offload = offload_of_value(pins_get(&memo->request->pins, CHOICE_OFFLOAD).low);
    return offload.parameter_layers > 0 || offload_keeps_some(&offload) ? STAYS_ALWAYS : STAYS_NOT;
}

const struct price_context *memo_context(const struct memo *memo)
{
    return &memo->context;
}

const struct search_request *memo_request(const struct memo *memo)
{
    return memo->request;
}

struct memo_counts memo_counts(const struct memo *memo)
{
    return (struct memo_counts){memo->graph_count, memo->lowered.count, memo->priced.count};
}

static bool has_experts(const struct block *block)
{
    for (int t = 0; t < block->tensor_count; t++) {
        const struct tensor *tensor = &block->tensors[t];
        if (tensor_find_dim(tensor, DIM_EXPERT) >= 0 || tensor_find_dim(tensor, DIM_GATE) >= 0)
            return true;
    }
    return false;
}

static bool has_attention(const struct block *block)
{
    for (int o = 0; o < block->op_count; o++)
        if (strategy_in_attention(block, &block->ops[o])) return true;
    return false;
}

static uint64_t blocks_with(const struct graph *graph, bool (*has)(const struct block *))
{
    uint64_t mask = 0;
    assert(graph->block_count <= 64);
    for (int b = 0; b < graph->block_count; b++)
        if (has(&graph->blocks[b])) mask |= 1ull << b;
    return mask;
}

static const struct graph_entry *graph_entry(struct memo *memo, enum attention attention, int tp)
{
    for (int i = 0; i < memo->graph_count; i++) {
        const struct graph_entry *entry = &memo->graphs[i];
        if (entry->attention == attention && entry->tp == tp) return entry;
    }
    assert(memo->graph_count < GRAPH_MAX);
    const struct pins *pins = &memo->request->pins;
    struct int_range chunks = pins_get(pins, CHOICE_LOSS_CHUNKS);
    struct parallel parallel = {.attention = attention,
                                .loss_chunks = chunks.set ? (int)chunks.low : 0,
                                .degree[AXIS_TP] = tp,
                                .lora = adapters_of_value(pins->lora > 0 ? pins->lora : 0),
                                .passes = pins->passes >= 0 ? (unsigned)pins->passes
                                                            : memo->request->stack->passes};
    struct graph_entry *entry = &memo->graphs[memo->graph_count++];
    const struct graph *graph =
        evaluation_graph(memo->arena, memo->request->model, memo->request->stack, &parallel);
    *entry = (struct graph_entry){.attention = attention,
                                  .tp = tp,
                                  .graph = graph,
                                  .experts = blocks_with(graph, has_experts),
                                  .attention_cores = blocks_with(graph, has_attention)};
    return entry;
}

const struct graph *memo_graph(struct memo *memo, enum attention attention, int tp)
{
    assert(tp >= 1);
    return graph_entry(memo, attention, tp)->graph;
}

const struct graph *memo_graph_of(void *memo, enum attention attention, int tp)
{
    return memo_graph(memo, attention, tp);
}

// In a canonical order: by digit.
struct mesh memo_mesh(const struct graph *graph, const struct parallel *parallel)
{
    struct mesh mesh = mesh_make(parallel, graph->kv_head_count);
    for (int i = 1; i < mesh.axis_count; i++) {
        struct mesh_axis moved = mesh.axes[i];
        int at = i;
        for (; at > 0 && axis_digit(mesh.axes[at - 1].parent) > axis_digit(moved.parent); at--) {
            mesh.axes[at] = mesh.axes[at - 1];
        }
        mesh.axes[at] = moved;
    }
    return mesh;
}

static struct graph_entry *entry_of(struct memo *memo, const struct graph *graph)
{
    for (int i = 0; i < memo->graph_count; i++)
        if (memo->graphs[i].graph == graph) return &memo->graphs[i];
    assert(0 && "the graph is the memo's own");
    return NULL;
}

const struct differentiated *memo_gradients(struct memo *memo, const struct graph *graph, int kind)
{
    struct graph_entry *entry = entry_of(memo, graph);
    if (!entry->gradients) entry->gradients = graph_differentiate(memo->arena, entry->graph);
    return &entry->gradients->blocks[kind];
}

static struct op_layouts *layouts_of(struct memo *memo, const struct differentiated *facts,
                                     const struct lower_key *key)
{
    struct lower_key wanted;
    // Those of one plan are seldom asked for twice.
    if (key->layouts != memo->request->pins.layouts) return NULL;
    memcpy(&wanted, key, sizeof wanted);
    wanted.recompute = wanted.micro_batch = wanted.sharding = 0;
    const struct layouts_entry *found = index_find(&memo->layouts, &wanted);
    if (found) return found->layouts;
    struct layouts_entry *entry = ARENA_NEW(memo->arena, struct layouts_entry, 1);
    memcpy(&entry->key, &wanted, sizeof wanted);
    entry->layouts = lower_layouts(memo->arena, facts);
    index_put(memo->arena, &memo->layouts, entry);
    return entry->layouts;
}

// Data parallelism and experts may split a parameter itself, which is then not stored over them.
static bool is_split_alike(const struct parameter *a, const struct parameter *b)
{
    for (int i = 0; i < MESH_AXIS_MAX; i++) {
        if ((a->layout.of[i] > 0) != (b->layout.of[i] > 0)) return false;
    }
    return true;
}

// Parameters without a tie whose gradients are partial over the same axes are alike.
static void add_light(struct block_program *light, const struct parameter *parameter)
{
    for (int i = 0; i < light->parameter_count && !parameter->tie; i++) {
        struct parameter *other = &light->parameters[i];
        bool alike = !other->tie && other->kind == parameter->kind &&
                     other->gradient_partial_axes == parameter->gradient_partial_axes &&
                     is_split_alike(other, parameter);
        if (!alike) continue;
        other->elements += parameter->elements;
        other->tensor_count += parameter->tensor_count;
        return;
    }
    struct parameter *added = &light->parameters[light->parameter_count++];
    *added = *parameter;
    added->decayed = false;
}

static void copy_parameters(struct arena *arena, struct block_program *program)
{
    const struct parameter *from = program->parameters;
    program->parameters = ARENA_NEW(arena, struct parameter, program->parameter_count);
    if (program->parameter_count == 0) return;
    memcpy(program->parameters, from,
           (size_t)program->parameter_count * sizeof *program->parameters);
}

static void sum_parameters(struct memo *memo, const struct block_program *program,
                           struct block_program *light)
{
    light->parameters = ARENA_NEW(memo->scratch, struct parameter, program->parameter_count);
    light->parameter_count = 0;
    for (int i = 0; i < program->parameter_count; i++) {
        add_light(light, &program->parameters[i]);
    }
    copy_parameters(memo->arena, light);
}

static bool is_loss(const struct instr *instr)
{
    if (instr->collective != COLLECTIVE_NONE) return false;
    return op_is_loss(instr->kind) || instr->kind == OP_LOSS_BACKWARD ||
           instr->kind == OP_LINEAR_LOSS_BACKWARD;
}

// The loss is found by its instructions, which name its buffers.
static void keep_loss(struct arena *arena, const struct block_program *program,
                      struct block_program *light)
{
    light->instrs = NULL;
    light->buffers = NULL;
    light->instr_count = light->buffer_count = 0;
    int count = 0;
    for (int i = 0; i < program->instr_count; i++)
        count += is_loss(&program->instrs[i]);
    if (count == 0) return;
    light->instrs = ARENA_NEW(arena, struct instr, count);
    for (int i = 0; i < program->instr_count; i++) {
        if (is_loss(&program->instrs[i])) light->instrs[light->instr_count++] = program->instrs[i];
    }
    light->buffer_count = program->buffer_count;
    light->buffers = ARENA_COPY(arena, struct buffer, program->buffers, program->buffer_count);
}

static struct block_program *lighten(struct memo *memo, const struct block_program *program)
{
    struct arena *arena = memo->arena;
    struct block_program *light = ARENA_NEW(arena, struct block_program, 1);
    *light = *program;
    sum_parameters(memo, program, light);
    const struct search_request *request = memo->request;
    memory_note_kernels(request->stack, request->workload.precision, light);
    keep_loss(arena, program, light);
    light->weights = ARENA_NEW(arena, struct weight, program->weight_count);
    for (int i = 0; i < program->weight_count; i++)
        light->weights[i] = program->weights[i];
    return light;
}

static struct lower_request request_of(struct memo *memo, const struct lower_key *key,
                                       const struct mesh *mesh, const struct parallel *parallel)
{
    const struct search_request *request = memo->request;
    const struct graph *graph = key->graph;
    unsigned joins = stack_joins(request->stack);
    const struct differentiated *facts = memo_gradients(memo, key->graph, key->kind);
    return (struct lower_request){
        .block = &graph->blocks[key->kind],
        .mesh = mesh,
        .parallel = parallel,
        .recompute = (enum recompute)(key->recompute % RECOMPUTE_COUNT),
        .seq_len = request->workload.seq_len,
        .precision = request->workload.precision,
        .expert_imbalance = request->workload.expert_imbalance,
        .capacity_factor = request->workload.capacity_factor,
        .joins = joins,
        .zigzag = sequence_order_of(graph, &request->workload, parallel, joins).half > 0,
        .dropout_ratio = graph->dropout_ratio,
        .stays_turn = key->stays & STAYS_TURN,
        .stays_rounds = key->rounds,
        .differentiated = facts,
        .layouts = layouts_of(memo, facts, key),
    };
}

enum sharding memo_sharding(const struct parallel *parallel)
{
    if (parallel->zero < 2) return SHARDING_STATES;
    if (parallel->accumulates) return parallel->zero == 3 ? SHARDING_ONCE : SHARDING_STATES;
    return parallel->zero == 2 ? SHARDING_GRADIENTS : SHARDING_PARAMETERS;
}

static struct lower_entry *lower(struct memo *memo, const struct lower_key *key,
                                 const struct mesh *mesh, const struct parallel *parallel)
{
    struct arena_mark mark = arena_mark(memo->scratch);
    struct parallel whole = *parallel;
    if (key->sharding == 0) whole.zero = 0;
    whole.offload.parameters = key->stays == STAYS_ALWAYS ? TIER_DEVICE : memo->parameters;
    struct lower_request request = request_of(memo, key, mesh, &whole);
    struct block_program *program = lower_block(memo->scratch, &request);
    struct lower_entry *entry = ARENA_NEW(memo->arena, struct lower_entry, 1);
    memcpy(&entry->key, key, sizeof *key);
    entry->work = block_work(memo->arena, &memo->context, mesh, program);
    if (memo->request->pins.per_operator) entry->traces = traces_of(memo->arena, program);
    struct block_program *light = lighten(memo, program);
    entry->sharded[key->sharding].light = light;
    // Without the combine pass each parameter is sharded by itself.
    const struct block_program *kept = pass_is_on(parallel, PASS_COMBINE) ? light : program;
    entry->parameters = (struct block_program){.block = program->block};
    memcpy(entry->parameters.phase_first, program->phase_first, sizeof program->phase_first);
    entry->parameters.begins = program->begins;
    entry->parameters.parameter_count = kept->parameter_count;
    entry->parameters.parameters = kept->parameters;
    if (kept != light) copy_parameters(memo->arena, &entry->parameters);
    index_put(memo->arena, &memo->lowered, entry);
    arena_reset(memo->scratch, mark);
    return entry;
}

static const struct sharded *sharded_of(struct memo *memo, struct lower_entry *entry,
                                        const struct mesh *mesh, const struct parallel *parallel)
{
    struct sharded *sharded = &entry->sharded[memo_sharding(parallel)];
    if (sharded->light) return sharded;
    assert(entry->sharded[SHARDING_STATES].light && "what ZeRO adds is added to that");
    struct arena_mark mark = arena_mark(memo->scratch);
    struct lower_request request = request_of(memo, &entry->key, mesh, parallel);
    const struct block_program *added = lower_sharding(memo->scratch, &request, &entry->parameters);
    sharded->work = block_work(memo->arena, &memo->context, mesh, added);
    sharded->light = ARENA_NEW(memo->arena, struct block_program, 1);
    *sharded->light = *entry->sharded[0].light;
    sharded->light->begins = added->begins;
    sum_parameters(memo, added, sharded->light);
    arena_reset(memo->scratch, mark);
    return sharded;
}

static struct lower_key lower_key(struct memo *memo, const struct graph *graph, int kind,
                                  const struct mesh *mesh, const struct parallel *parallel,
                                  enum recompute recompute, enum stays stays)
{
    assert(kind >= 0 && kind < graph->block_count);
    struct lower_key key;
    memset(&key, 0, sizeof key);
    key.graph = graph;
    key.layouts = parallel->layouts;
    key.kind = kind;
    key.recompute = recompute_value(
        recompute, recompute == parallel->recompute ? parallel->recompute_classes : 0);
    key.sp = parallel->sp;
    const struct graph_entry *entry = entry_of(memo, graph);
    bool splits_experts = entry->experts >> kind & 1;
    // Kinds of context parallelism differ in attention alone.
    if (entry->attention_cores >> kind & 1) key.cp_kind = (int)parallel->cp_kind;
    key.micro_batch = parallel->micro_batch;
    key.stays = memo->parameters != TIER_DEVICE ? (int)stays : STAYS_NOT;
    int64_t batch = memo->request->workload.global_batch;
    if (key.stays & STAYS_BETWEEN) key.rounds = (int)parallel_micro_batch_count(parallel, batch);
    bool is_inside = graph->blocks[kind].input_count > 0 && !memo_keeps_casts(memo);
    key.sharding = is_inside ? SHARDING_STATES : (int)memo_sharding(parallel);
    for (int i = 0; i < mesh->axis_count; i++) {
        const struct mesh_axis *axis = &mesh->axes[i];
        // Without experts in the block the part of dp that splits them is as good as the rest.
        bool is_data = axis->parent == AXIS_DP && (axis->expert == AXIS_DP || !splits_experts);
        if (axis->parent == AXIS_PP) continue;  // no layout uses it, and it comes last
        struct axis_key own = axis_key(axis);
        own.stride = 0;
        if (is_data) own.size = 2;
        key.axes[key.axis_count++] = own;
    }
    return key;
}

// Where stages are matters to software whose host waits longer in a pipeline over nodes.
static struct price_key price_key(const struct stack *stack, const struct lower_entry *source,
                                  const struct sharded *sharded, const struct mesh *mesh,
                                  unsigned overlap)
{
    assert(sharded >= source->sharded && sharded < source->sharded + SHARDING_COUNT);
    struct price_key key;
    memset(&key, 0, sizeof key);
    key.source = source;
    key.overlap = overlap;
    key.sharding = (int)(sharded - source->sharded);
    unsigned axes = block_work_axes(source->work);
    if (stack->pipeline_sync_s > 0) axes |= mesh_axes_of(mesh, AXIS_PP);
    if (sharded->work) axes |= block_work_axes(sharded->work);
    for (int i = 0; i < mesh->axis_count; i++) {
        const struct mesh_axis *axis = &mesh->axes[i];
        if (!(axes >> i & 1)) continue;
        key.axes[key.axis_count++] = axis_key(axis);
    }
    return key;
}

const struct memo_block *memo_block(struct memo *memo, const struct graph *graph, int kind,
                                    const struct mesh *mesh, const struct parallel *parallel,
                                    enum recompute recompute, enum stays stays)
{
    struct lower_key wanted = lower_key(memo, graph, kind, mesh, parallel, recompute, stays);
    struct lower_entry *source = index_find(&memo->lowered, &wanted);
    if (!source) source = lower(memo, &wanted, mesh, parallel);
    const struct sharded *sharded = sharded_of(memo, source, mesh, parallel);
    unsigned overlap = step_overlap(memo->context.compute.stack, parallel);
    struct price_key key = price_key(memo->context.compute.stack, source, sharded, mesh, overlap);
    struct price_entry *entry = index_find(&memo->priced, &key);
    if (!entry) {
        entry = ARENA_NEW(memo->arena, struct price_entry, 1);
        memcpy(&entry->key, &key, sizeof key);  // padding too: keys are compared as bytes
        entry->block.light = sharded->light;
        entry->block.traces = source->traces;
        entry->block.price =
            block_work_price(&memo->context, mesh, source->work, sharded->work, overlap);
        index_put(memo->arena, &memo->priced, entry);
    }
    return &entry->block;
}
