#include "plan/program.h"

#include "plan/branches.h"
#include "plan/layout/rules.h"
#include "plan/stays.h"
#include "plan/ties.h"

#include <assert.h>
#include <string.h>

// Of each kind of block at most ten variants are lowered: with and without recompute, and with
// parameters that stay on the device for good and with those that leave, which may stay from
// forward to backward, and from there to forward.
enum { VARIANT_RECOMPUTED = 1, VARIANT_STAYS = 2, VARIANT_COUNT = VARIANT_STAYS * STAYS_COUNT };

struct building {
    struct arena *arena;
    struct program *program;
    unsigned joins;
    int *variants;  // of variant_at: block program, or -1
};

static int mesh_count(const struct parallel *parallel)
{
    return parallel_has_meshes(parallel) ? parallel->degree[AXIS_PP] : 1;
}

static int *variant_at(const struct building *building, int kind, int stage)
{
    const struct program *program = building->program;
    int mesh = parallel_mesh_of(&program->parallel, stage);
    return &building->variants[(mesh * program->graph->block_count + kind) * VARIANT_COUNT];
}

static int variant_of(struct building *building, int kind, int way, int stage)
{
    struct program *program = building->program, room;
    bool recomputed = way % VARIANT_STAYS;
    enum stays stays = (enum stays)(way / VARIANT_STAYS);
    int *variant = &variant_at(building, kind, stage)[way];
    if (*variant >= 0) return *variant;
    const struct program *seen = program_at(program, stage, &room);
    struct parallel parallel = seen->parallel;
    if (stays == STAYS_ALWAYS) parallel.offload.parameters = TIER_DEVICE;
    struct lower_request request = {
        .block = &program->graph->blocks[kind],
        .mesh = &seen->mesh,
        .parallel = &parallel,
        .recompute = recomputed ? program->parallel.recompute : RECOMPUTE_NONE,
        .seq_len = program->workload.seq_len,
        .precision = program->workload.precision,
        .expert_imbalance = program->workload.expert_imbalance,
        .capacity_factor = program->workload.capacity_factor,
        .joins = building->joins,
        .zigzag = program->order.half > 0,
        .dropout_ratio = program->graph->dropout_ratio,
        .stays_turn = stays & STAYS_TURN,
        .stays_rounds = stays & STAYS_BETWEEN ? program->shape.micro_batch_count : 0,
        .differentiated = &program->gradients->blocks[kind],
    };
    *variant = program->block_count++;
    program->origins[*variant] =
        (struct block_origin){kind, parallel_mesh_of(&program->parallel, stage), request.recompute};
    program->blocks[*variant] = lower_block(building->arena, &request);
    return *variant;
}

int stays_fetching(const struct graph *graph, const struct offload *offload, struct chunk_span span)
{
    int count = 0, layers = 0;
    for (int i = span.first; i < span.first + span.count && offload_keeps_some(offload); i++) {
        int kind = graph->sequence[i];
        count += program_fetches(graph, kind, offload, layers);
        layers += graph->blocks[kind].role == BLOCK_LAYER;
    }
    return count;
}

static bool is_among(int at, int count)
{
    return count < 0 || (count > 0 && at < count);
}

enum stays stays_of(const struct offload *offload, bool is_layer, int layer, int behind)
{
    bool turns = is_among(behind, offload->turn_blocks);
    bool stays = is_layer && is_among(layer, offload->between_layers);
    return (enum stays)((turns ? STAYS_TURN : 0) + (stays ? STAYS_BETWEEN : 0));
}

// `layers_before` counts the layers of this stage's earlier chunks, and grows by those of this one.
static struct program_chunk describe_chunk(struct building *building, int stage,
                                           struct chunk_span span, int *layers_before)
{
    const struct program *program = building->program;
    const struct graph *graph = program->graph;
    int limit = program->parallel.recompute_layers;
    int fetching = stays_fetching(graph, &program->parallel.offload, span);
    struct program_chunk chunk = {.uses = ARENA_NEW(building->arena, struct block_use, span.count)};
    for (int i = span.first; i < span.first + span.count; i++) {
        int kind = graph->sequence[i];
        const struct stage_tree *tree = program->shape.tree;
        if (tree && tree->is_alone[stage]) kind = graph->alone[kind];
        bool is_layer = graph->blocks[kind].role == BLOCK_LAYER;
        bool recomputed = is_layer && program->parallel.recompute != RECOMPUTE_NONE &&
                          (limit < 0 || *layers_before < limit);
        const struct offload *offload = &program->parallel.offload;
        unsigned moved = is_layer ? offload_classes(offload, *layers_before) : 0;
        unsigned away = is_layer ? offload_away(offload, *layers_before) : 0;
        bool fetches = program_fetches(graph, kind, offload, *layers_before);
        enum stays stays = STAYS_ALWAYS;
        if (fetches) stays = stays_of(offload, is_layer, *layers_before, --fetching);
        int way = VARIANT_STAYS * (int)stays + recomputed * VARIANT_RECOMPUTED;
        *layers_before += is_layer;
        int variant = variant_of(building, kind, way, stage);
        struct block_use *last = chunk.use_count ? &chunk.uses[chunk.use_count - 1] : NULL;
        if (last && last->block_program == variant && last->moved == moved && last->away == away) {
            last->count++;
        } else {
            chunk.uses[chunk.use_count++] = (struct block_use){variant, 1, moved, away};
        }
        chunk.parameter_elements += program->blocks[variant]->parameter_elements;
    }
    chunk.first = span.first == 0;
    chunk.last = span.first + span.count == graph->sequence_count;
    return chunk;
}

static bool is_same_chunk(const struct program_chunk *a, const struct program_chunk *b)
{
    if (a->first != b->first || a->last != b->last || a->use_count != b->use_count) return false;
    if (a->mesh != b->mesh || a->mesh_before != b->mesh_before || a->mesh_behind != b->mesh_behind)
        return false;
    return memcmp(a->uses, b->uses, (size_t)a->use_count * sizeof *a->uses) == 0;
}

// Of a tree of stages each is a class of its own where meshes are unlike.
static int mesh_of_virtual(const struct program *program, int own, int v)
{
    const struct schedule_shape *shape = &program->shape;
    if (v < 0) return -1;
    if (shape->tree) return own;
    int stage = schedule_row(program->parallel.schedule)->stage_of(shape, v);
    return parallel_mesh_of(&program->parallel, stage);
}

static void add_meshes(const struct program *program, int stage, int c, struct program_chunk *chunk)
{
    const struct schedule_shape *shape = &program->shape;
    const struct schedule_row *row = schedule_row(program->parallel.schedule);
    int v = 0;
    if (!parallel_has_meshes(&program->parallel)) return;
    while (row->stage_of(shape, v) != stage || row->chunk_of(shape, v) != c)
        v++;
    chunk->mesh = parallel_mesh_of(&program->parallel, stage);
    chunk->mesh_before = mesh_of_virtual(program, v, schedule_before(shape, v, 0));
    chunk->mesh_behind = mesh_of_virtual(program, v, schedule_next(shape, v));
}

static void classify_chunks(struct building *building)
{
    struct program *program = building->program;
    struct schedule_shape shape = program->shape;
    int count = shape.stage_count * shape.chunk_count;
    program->class_of = ARENA_NEW(building->arena, int, count);
    program->chunks = ARENA_NEW(building->arena, struct program_chunk, count);
    for (int stage = 0; stage < shape.stage_count; stage++) {
        int layers_before = 0;
        for (int c = 0; c < shape.chunk_count; c++) {
            int at = stage * shape.chunk_count + c, class = 0;
            struct program_chunk chunk =
                describe_chunk(building, stage, program->spans[at], &layers_before);
            add_meshes(program, stage, c, &chunk);
            while (class < program->chunk_class_count &&
                   !is_same_chunk(&program->chunks[class], &chunk)) {
                class ++;
            }
            if (class == program->chunk_class_count) {
                program->chunks[program->chunk_class_count++] = chunk;
            }
            program->class_of[at] = class;
        }
    }
}

bool program_fetches(const struct graph *graph, int kind, const struct offload *offload, int layer)
{
    const struct block *block = &graph->blocks[kind];
    bool is_tied = false;
    for (int t = 0; t < block->tensor_count; t++)
        is_tied |= block->tensors[t].tie != NULL;
    bool counts = block->role == BLOCK_LAYER && !is_tied;
    return offload_takes_parameters(offload, counts ? layer : -1);
}

struct storage program_stores(const struct program *program, const struct block_program *block,
                              enum parameter_kind kind)
{
    struct storage storage = program->storage[kind];
    storage.weights_away = block->weights_away;
    return storage;
}

struct storage program_storage(const struct mesh *mesh, const struct parallel *parallel,
                               enum parameter_kind kind)
{
    bool is_trained = parameter_kind_is_trained(kind);
    bool is_split[STORED_COUNT] = {[STORED_WEIGHTS] = parallel->zero >= 3,
                                   [STORED_GRADIENTS] =
                                       parallel->zero >= 2 && !parallel->accumulates && is_trained,
                                   [STORED_STATES] = parallel->zero >= 1 && is_trained};
    unsigned axes[STORED_COUNT];
    for (int i = 0; i < STORED_COUNT; i++)
        axes[i] = is_split[i] ? mesh_shard_axes(mesh, parallel, kind, (enum stored)i) : 0;
    return (struct storage){.weight_axes = axes[STORED_WEIGHTS],
                            .gradient_axes = axes[STORED_GRADIENTS],
                            .optimizer_axes = axes[STORED_STATES]};
}

struct program *program_lower(struct arena *arena, const struct graph *graph,
                              const struct cluster *cluster, const struct workload *workload,
                              const struct parallel *parallel, unsigned joins)
{
    assert(graph->sequence_count >= 2 && workload->seq_len > 0);
    struct program *program = ARENA_NEW(arena, struct program, 1);
    *program = (struct program){
        .graph = graph,
        .cluster = cluster,
        .workload = *workload,
        .parallel = *parallel,
        .mesh = mesh_make(parallel, graph->kv_head_count),
        .order = sequence_order_of(graph, workload, parallel, joins),
        .gradients = graph_differentiate(arena, graph),
    };
    int variant_count = graph->block_count * VARIANT_COUNT * mesh_count(parallel);
    program->blocks = ARENA_NEW(arena, struct block_program *, variant_count);
    program->origins = ARENA_NEW(arena, struct block_origin, variant_count);
    struct parallel first = parallel_has_meshes(parallel) && program->mesh.stage_ranks
                                ? parallel_at(parallel, program->mesh.stage)
                                : *parallel;
    for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++)
        program->storage[kind] = program_storage(&program->mesh, &first, (enum parameter_kind)kind);

    program->shape =
        (struct schedule_shape){parallel->degree[AXIS_PP], parallel->vpp,
                                (int)parallel_micro_batch_count(parallel, workload->global_batch),
                                parallel->in_flight, NULL};
    program->spans = ARENA_NEW(arena, struct chunk_span,
                               program->shape.stage_count * program->shape.chunk_count);
    struct err err = {0};
    bool fits = stages_split(graph, parallel, program->spans, &err);
    assert(fits && "program_check comes first");
    (void)fits;
    if (parallel->branches)
        program->shape.tree =
            branches_tree(arena, graph, program->spans, parallel->degree[AXIS_PP]);

    struct building building = {arena, program, joins, ARENA_NEW(arena, int, variant_count)};
    for (int i = 0; i < variant_count; i++)
        building.variants[i] = -1;
    classify_chunks(&building);
    ties_find(arena, program);
    return program;
}

const struct program *program_at(const struct program *program, int stage, struct program *room)
{
    const struct parallel *parallel = &program->parallel;
    if (!parallel_has_meshes(parallel)) return program;
    struct parallel own = parallel_at(parallel, stage);
    bool is_own = parallel->degree[AXIS_TP] == own.degree[AXIS_TP] &&
                  parallel->degree[AXIS_DP] == own.degree[AXIS_DP] &&
                  (!program->mesh.stage_ranks || program->mesh.stage == stage);
    if (layout_rules_are_staged(parallel)) is_own &= parallel->layout_stage == stage + 1;
    if (is_own) return program;
    struct mesh mesh = mesh_at(&program->mesh, &own, stage, program->graph->kv_head_count);
    *room = *program;
    room->parallel = own;
    room->mesh = mesh;
    for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++)
        room->storage[kind] =
            program_storage(&room->mesh, &room->parallel, (enum parameter_kind)kind);
    return room;
}

const struct program *program_of_chunk(const struct program *program,
                                       const struct program_chunk *chunk, struct program *room)
{
    return program_at(program, chunk->mesh, room);
}

const struct program *program_of_block(const struct program *program, int block,
                                       struct program *room)
{
    if (!parallel_has_meshes(&program->parallel)) return program;
    return program_at(program, program->origins[block].mesh, room);
}

bool program_is_same(const struct program *a, const struct program *b)
{
    return a == b || (a->class_of == b->class_of && a->blocks == b->blocks);
}

int program_replica(const struct program *program, int rank)
{
    const struct mesh *mesh = &program->mesh;
    struct layout split = {0};
    for (int a = 0; a < mesh->axis_count; a++) {
        if (mesh->axes[a].parent == AXIS_DP) split.of[a] = DIM_BATCH;
    }
    int dp = program->parallel.degree[AXIS_DP];
    return (int)layout_slice(&split, mesh, DIM_BATCH, dp, rank).first;
}

double program_rounds(const struct program *program)
{
    const struct parallel *parallel = &program->parallel;
    int64_t sequences = (int64_t)parallel->degree[AXIS_DP] * parallel->micro_batch;
    if (parallel->replica_count == 0) return program->shape.micro_batch_count;
    return (double)program->workload.global_batch / (double)sequences;
}

const struct program *program_of_count(struct arena *arena, const struct program *program,
                                       int micro_batch_count)
{
    assert(micro_batch_count >= 1);
    if (micro_batch_count == program->shape.micro_batch_count) return program;
    struct program *own = ARENA_NEW(arena, struct program, 1);
    *own = *program;
    own->shape.micro_batch_count = micro_batch_count;
    return own;
}

int64_t program_first_sequence(const struct program *program, int rank, int micro_batch)
{
    assert(rank >= 0 && micro_batch >= 0);
    const struct parallel *parallel = &program->parallel;
    int64_t size = parallel->micro_batch, batch = program->workload.global_batch;
    if (parallel->replica_count == 0) return micro_batch * size * parallel->degree[AXIS_DP];
    int replica = program_replica(program, rank);
    return size * (parallel_replica_first(parallel, batch, replica) + micro_batch - replica);
}
