#include "planner/memo.h"

#include "planner/index.h"
#include "simulator/evaluate.h"

#include <assert.h>
#include <string.h>

// Keys are compared byte by byte, so they are zeroed first.
struct axis_key {
    int parent, part, size, stride;
};

struct lower_key {
    const struct graph *graph;
    int kind, recompute, sp, micro_batch, sharding, axis_count;
    struct axis_key axes[MESH_AXIS_MAX];  // strides 0; of dp only whether it is there
};

struct price_key {
    const struct block_program *program;
    int axis_count;
    struct axis_key axes[MESH_AXIS_MAX];  // those that the program communicates over
};

struct lower_entry {
    struct lower_key key;
    const struct block_program *program;
    struct block_program *light;
    unsigned axes;  // that its instructions communicate over
};

struct price_entry {
    struct price_key key;
    struct memo_block block;
};

struct graph_entry {
    enum attention attention;
    int tp;
    const struct graph *graph;
    const struct graph_gradients *gradients;
};

enum { GRAPH_MAX = 256 };

struct memo {
    struct arena *arena, *scratch;
    const struct search_request *request;
    struct price_context context;
    struct graph_entry graphs[GRAPH_MAX];
    int graph_count;
    struct index lowered, priced;
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
                    .precision = precision},
        .fabrics = request->fabrics,
        .cluster = request->cluster,
    };
    memo->lowered.key_bytes = sizeof(struct lower_key);
    memo->priced.key_bytes = sizeof(struct price_key);
    return memo;
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

static const struct graph_entry *graph_entry(struct memo *memo, enum attention attention, int tp)
{
    for (int i = 0; i < memo->graph_count; i++) {
        const struct graph_entry *entry = &memo->graphs[i];
        if (entry->attention == attention && entry->tp == tp) return entry;
    }
    assert(memo->graph_count < GRAPH_MAX);
    struct parallel parallel = {.attention = attention, .degree[AXIS_TP] = tp};
    struct graph_entry *entry = &memo->graphs[memo->graph_count++];
    const struct graph *graph =
        evaluation_graph(memo->arena, memo->request->model, memo->request->stack, &parallel);
    *entry = (struct graph_entry){attention, tp, graph, NULL};
    return entry;
}

const struct graph *memo_graph(struct memo *memo, enum attention attention, int tp)
{
    return graph_entry(memo, attention, tp)->graph;
}

const struct graph *memo_graph_of(void *memo, enum attention attention, int tp)
{
    return memo_graph(memo, attention, tp);
}

// Which axis comes when in the canonical order.
static int axis_rank(enum axis axis)
{
    static const int RANKS[AXIS_COUNT] = {
        [AXIS_TP] = 0, [AXIS_CP] = 1, [AXIS_EP] = 2, [AXIS_ETP] = 3, [AXIS_DP] = 4, [AXIS_PP] = 5};
    return RANKS[axis];
}

struct mesh memo_mesh(const struct graph *graph, const struct parallel *parallel)
{
    struct mesh mesh = mesh_make(parallel, graph->kv_head_count);
    for (int i = 1; i < mesh.axis_count; i++) {
        struct mesh_axis moved = mesh.axes[i];
        int at = i;
        for (; at > 0 && axis_rank(mesh.axes[at - 1].parent) > axis_rank(moved.parent); at--) {
            mesh.axes[at] = mesh.axes[at - 1];
        }
        mesh.axes[at] = moved;
    }
    return mesh;
}

static const struct graph_gradients *gradients_of(struct memo *memo, const struct graph *graph)
{
    for (int i = 0; i < memo->graph_count; i++) {
        struct graph_entry *entry = &memo->graphs[i];
        if (entry->graph != graph) continue;
        if (!entry->gradients) entry->gradients = graph_differentiate(memo->arena, graph);
        return entry->gradients;
    }
    assert(0 && "the graph is the memo's own");
    return NULL;
}

// Parameters without a tie whose gradients are partial over the same axes are alike.
static void add_light(struct block_program *light, const struct parameter *parameter)
{
    for (int i = 0; i < light->parameter_count && !parameter->tie; i++) {
        struct parameter *other = &light->parameters[i];
        bool alike = !other->tie && other->kind == parameter->kind &&
                     other->gradient_partial_axes == parameter->gradient_partial_axes;
        if (!alike) continue;
        other->elements += parameter->elements;
        return;
    }
    struct parameter *added = &light->parameters[light->parameter_count++];
    *added = *parameter;
    added->decayed = false;
}

// The working memory of a block, asked of a program that holds nothing else: what it depends on
// (the stack keeps placeholders for some weights) is the memory model's affair.
static int64_t transient_bytes(const struct memo *memo, struct block_program *program,
                               const struct mesh *mesh, const struct parallel *parallel,
                               enum schedule_kind schedule)
{
    struct block_use use = {0, 1};
    struct program_chunk chunk = {.uses = &use, .use_count = 1};
    int class_of = 0;
    struct program alone = {
        .cluster = memo->request->cluster,
        .workload = memo->request->workload,
        .parallel = *parallel,
        .mesh = *mesh,
        .blocks = &program,
        .block_count = 1,
        .chunks = &chunk,
        .chunk_class_count = 1,
        .class_of = &class_of,
        .shape = {1, 1, 1, 0},
    };
    alone.parallel.schedule = schedule;
    return memory_of_stage(&alone, memo->request->stack, 0).transient_bytes;
}

static struct block_program *lighten(struct memo *memo, struct block_program *program,
                                     const struct mesh *mesh, const struct parallel *parallel)
{
    struct arena *arena = memo->arena;
    struct block_program *light = ARENA_NEW(arena, struct block_program, 1);
    *light = *program;
    light->parameters = ARENA_NEW(arena, struct parameter, program->parameter_count);
    light->instrs = ARENA_NEW(arena, struct instr, program->instr_count);
    light->parameter_count = light->instr_count = 0;
    for (int i = 0; i < program->parameter_count; i++) {
        add_light(light, &program->parameters[i]);
    }
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        bool is_loss = instr->kind == OP_LOSS || instr->kind == OP_LOSS_BACKWARD;
        if (instr->collective != COLLECTIVE_NONE || !is_loss) continue;
        light->instrs[light->instr_count++] = *instr;
    }
    if (program->block->role == BLOCK_HEAD) return light;  // its logits are counted apart
    light->backward_transient_bytes =
        transient_bytes(memo, program, mesh, parallel, SCHEDULE_1F1B);  // W follows B
    light->parted_transient_bytes = transient_bytes(memo, program, mesh, parallel, SCHEDULE_ZB_H1);
    return light;
}

static struct lower_entry *lower(struct memo *memo, const struct lower_key *key,
                                 const struct mesh *mesh, const struct parallel *parallel)
{
    const struct search_request *request = memo->request;
    const struct graph *graph = key->graph;
    struct lower_request lower_request = {
        .block = &graph->blocks[key->kind],
        .mesh = mesh,
        .parallel = parallel,
        .recompute = (enum recompute)key->recompute,
        .seq_len = request->workload.seq_len,
        .precision = request->workload.precision,
        .expert_imbalance = request->workload.expert_imbalance,
        .capacity_factor = request->workload.capacity_factor,
        .merge_contractions = request->stack->merge_contractions,
        .dropout_ratio = graph->dropout_ratio,
        .differentiated = &gradients_of(memo, graph)->blocks[key->kind],
    };
    struct lower_entry *entry = ARENA_NEW(memo->arena, struct lower_entry, 1);
    memcpy(&entry->key, key, sizeof *key);
    struct block_program *program = lower_block(memo->arena, &lower_request);
    entry->program = program;
    entry->light = lighten(memo, program, mesh, parallel);
    for (int i = 0; i < entry->program->instr_count; i++) {
        entry->axes |= entry->program->instrs[i].axes;
    }
    index_put(memo->arena, &memo->lowered, entry);
    return entry;
}

static const struct lower_entry *lowered(struct memo *memo, const struct graph *graph, int kind,
                                         const struct mesh *mesh, const struct parallel *parallel,
                                         enum recompute recompute)
{
    struct lower_key key;
    memset(&key, 0, sizeof key);
    key.graph = graph;
    key.kind = kind;
    key.recompute = (int)recompute;
    key.sp = parallel->sp;
    key.micro_batch = parallel->micro_batch;
    key.sharding = parallel->zero < 2 ? 0 : parallel->zero;
    for (int i = 0; i < mesh->axis_count; i++) {
        const struct mesh_axis *axis = &mesh->axes[i];
        int size = axis->parent == AXIS_DP ? 2 : axis->size;
        if (axis->parent == AXIS_PP) continue;  // no layout uses it, and it comes last
        key.axes[key.axis_count++] = (struct axis_key){(int)axis->parent, axis->part, size, 0};
    }
    const struct lower_entry *found = index_find(&memo->lowered, &key);
    return found ? found : lower(memo, &key, mesh, parallel);
}

const struct memo_block *memo_block(struct memo *memo, const struct graph *graph, int kind,
                                    const struct mesh *mesh, const struct parallel *parallel,
                                    enum recompute recompute)
{
    const struct lower_entry *source = lowered(memo, graph, kind, mesh, parallel, recompute);
    struct price_key key;
    memset(&key, 0, sizeof key);
    key.program = source->program;
    for (int i = 0; i < mesh->axis_count; i++) {
        const struct mesh_axis *axis = &mesh->axes[i];
        if (!(source->axes >> i & 1)) continue;
        key.axes[key.axis_count++] =
            (struct axis_key){(int)axis->parent, axis->part, axis->size, axis->stride};
    }
    const struct price_entry *found = index_find(&memo->priced, &key);
    if (found) return &found->block;
    struct price_entry *entry = ARENA_NEW(memo->arena, struct price_entry, 1);
    memcpy(&entry->key, &key, sizeof key);  // padding too: keys are compared as bytes
    entry->block.program = source->program;
    entry->block.light = source->light;
    entry->block.price = block_price(&memo->context, mesh, source->program, parallel->overlap);
    index_put(memo->arena, &memo->priced, entry);
    return &entry->block;
}
