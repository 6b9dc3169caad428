#include "planner/compose.h"

#include "cost_models/offload.h"
#include "plan/lower/casts.h"
#include "plan/step_end.h"
#include "plan/ties.h"
#include "planner/choice.h"
#include "planner/composing.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct composer *composer_new(struct arena *arena, struct arena *scratch, struct memo *memo)
{
    struct composer *composer = ARENA_NEW(arena, struct composer, 1);
    composer->arena = arena;
    composer->scratch = scratch;
    composer->memo = memo;
    composer->request = memo_request(memo);
    composer->divisions.arena = composer->balances.arena = composer->moments.arena = arena;
    composer->divisions.streams = step_streams(&composer->request->workload);
    composer->answers.arena = arena;
    composer->onces.key_bytes = sizeof(struct once_key);
    composer->recompute_values[0] = recompute_value(RECOMPUTE_NONE, 0);
    composer->recompute_count = 1;
    return composer;
}

// Whether a gradient may be a sum that the epilogue of another's GEMM writes (JOIN_BIAS_GRADIENT).
static bool has_sums(struct memo *memo, const struct graph *graph)
{
    for (int kind = 0; kind < graph->block_count; kind++) {
        const struct block *block = memo_gradients(memo, graph, kind)->block;
        for (int o = 0; o < block->op_count; o++)
            if (block->ops[o].kind == OP_REDUCE && block->ops[o].phase == PHASE_WEIGHT) return true;
    }
    return false;
}

static bool has_only_tokens(const struct graph *graph)
{
    for (int b = 0; b < graph->block_count; b++) {
        for (int t = 0; t < graph->blocks[b].tensor_count; t++) {
            const struct tensor *tensor = &graph->blocks[b].tensors[t];
            int seq = tensor_find_dim(tensor, DIM_SEQ);
            bool is_of_workload = seq >= 0 && tensor->extents[seq].size == 0;
            if (tensor_find_dim(tensor, DIM_BATCH) >= 0 && !is_of_workload) return false;
        }
    }
    return true;
}

void composer_group(struct composer *composer, const struct parallel *parallel)
{
    struct parallel sharded = *parallel, whole = *parallel;
    composer->group = *parallel;
    const struct graph *graph =
        memo_graph(composer->memo, parallel->attention, parallel->degree[AXIS_TP]);
    if (composer->graph != graph) {
        composer->has_ties = ties_any(graph);
        composer->sums = has_sums(composer->memo, graph);
        composer->only_tokens = has_only_tokens(graph);
    }
    composer->graph = graph;
    assert(graph->block_count <= DIVISION_KIND_MAX && "variants have a place for each kind");
    whole.zero = 0;
    if (sharded.zero == 0) sharded.zero = 1;
    composer->mesh[0] = memo_mesh(composer->graph, &whole);
    // Only the shard group of its own cuts the mesh.
    composer->mesh[1] =
        parallel_groups_shards(&sharded) ? memo_mesh(composer->graph, &sharded) : composer->mesh[0];
    composer->hop = NULL, composer->division = NULL;
    composer->group_number++;
}

// ZeRO 0 and 1 run the same micro-batches, on the same mesh unless a shard group cuts it; 2 and 3
// communicate in them.
static int way_of(const struct composer *composer, const struct parallel *parallel)
{
    bool is_whole = parallel->zero == 0 && parallel_groups_shards(&composer->group);
    return is_whole ? WAY_WHOLE : (int)memo_sharding(parallel);
}

// Exchanges of experts are hidden in some pipelines of a group and not in others, and parameters
// that are fetched for backward behind more of it where W is not a task of its own.
static int hiding_of(const struct composer *composer, const struct parallel *parallel)
{
    unsigned overlap = step_overlap(composer->request->stack, parallel);
    return (overlap & OVERLAP_EP ? 1 : 0) + (overlap & OVERLAP_APART ? 2 : 0);
}

static const struct mesh *mesh_for(const struct composer *composer, const struct parallel *parallel)
{
    return &composer->mesh[parallel->zero > 0];
}

// The place of a way to recompute in the tables of the composer.
static int recompute_of(struct composer *composer, const struct parallel *parallel)
{
    int value = recompute_value(parallel->recompute, parallel->recompute_classes);
    for (int i = 0; i < composer->recompute_count; i++) {
        if (composer->recompute_values[i] == value) return i;
    }
    assert(composer->recompute_count < RECOMPUTE_WAYS_MAX);
    composer->recompute_values[composer->recompute_count] = value;
    return composer->recompute_count++;
}

// As no block of the plan stays: in that place those that do not.
static enum stays stays_there(const struct parallel *parallel, enum stays stays)
{
    const struct offload *offload = &parallel->offload;
    if (stays == STAYS_ALWAYS) return offload->parameter_layers > 0 ? stays : STAYS_NOT;
    return offload_keeps_some(offload) ? stays : STAYS_NOT;
}

static struct variant *variant_of(struct composer *composer, const struct parallel *parallel,
                                  int recompute_way, enum stays stays)
{
    assert(recompute_way < composer->recompute_count && (unsigned)stays < STAYS_COUNT);
    int hiding = hiding_of(composer, parallel), way = way_of(composer, parallel);
    struct variant *variant = &composer->variants[hiding][way][recompute_way][stays];
    if (variant->group == composer->group_number) return variant;
    *variant = (struct variant){.group = composer->group_number};
    return variant;
}

static const struct memo_block *variant_block(struct composer *composer, struct variant *variant,
                                              const struct parallel *parallel, int recompute_way,
                                              enum stays stays, int kind)
{
    if (variant->blocks[kind]) return variant->blocks[kind];
    const struct graph *graph = composer->graph;
    unsigned classes;
    enum recompute recompute =
        recompute_of_value(composer->recompute_values[recompute_way], &classes);
    bool is_layer = graph->blocks[kind].role == BLOCK_LAYER;
    return variant->blocks[kind] =
               memo_block(composer->memo, graph, kind, mesh_for(composer, parallel), parallel,
                          is_layer ? recompute : RECOMPUTE_NONE, stays);
}

const struct memo_block *composing_kind(struct composer *composer, const struct parallel *parallel,
                                        int recompute_way, enum stays stays, int kind)
{
    stays = stays_there(parallel, stays);
    struct variant *variant = variant_of(composer, parallel, recompute_way, stays);
    return variant_block(composer, variant, parallel, recompute_way, stays, kind);
}

const struct memo_block *composing_recomputed(struct composer *composer,
                                              const struct parallel *parallel, int kind)
{
    return composing_kind(composer, parallel, recompute_of(composer, parallel), STAYS_NOT, kind);
}

bool composer_knows(struct composer *composer, const struct parallel *parallel)
{
    const struct graph *graph = composer->graph;
    int way = recompute_of(composer, parallel);
    for (int i = 0; i < STAYS_COUNT; i++) {
        enum stays stays = stays_there(parallel, (enum stays)i);
        const struct variant *variant = variant_of(composer, parallel, way, stays);
        for (int kind = 0; kind < graph->block_count; kind++) {
            bool is_layer = graph->blocks[kind].role == BLOCK_LAYER;
            if (is_layer && !variant->blocks[kind]) return false;
        }
    }
    return true;
}

const struct memo_block *composing_block(struct composer *composer, const struct parallel *parallel,
                                         int block)
{
    int way = division_recomputes(block) ? recompute_of(composer, parallel) : 0;
    return composing_kind(composer, parallel, way, division_stays(block), division_kind(block));
}

const struct division *composer_division(struct composer *composer, const struct parallel *parallel)
{
    assert(composer->graph && "the composer was told its group");
    int layers = parallel->recompute == RECOMPUTE_NONE ? 0 : parallel->recompute_layers;
    return division_get(&composer->divisions, composer->graph, parallel, layers);
}

static void use_division(struct composer *composer, const struct division *division)
{
    if (composer->division == division) return;
    composer->division = division;
    for (int i = 0; i < HIDING_COUNT * WAY_COUNT; i++) {
        for (int recompute_way = 0; recompute_way < composer->recompute_count; recompute_way++) {
            composer->phases[i / WAY_COUNT][i % WAY_COUNT][recompute_way].known = false;
        }
    }
    if (division->class_count <= composer->class_capacity) return;
    composer->class_capacity = 2 * division->class_count;
    composer->classes = ARENA_NEW(composer->arena, struct chunk_price, composer->class_capacity);
}

static void add_phases(struct phases *sum, const struct block_price *price, int count)
{
    double *into = &sum->s[0][0];
    const double *from = &price->phase_s[0][0];
    for (int i = 0; i < PHASE_COUNT * PART_COUNT; i++) {
        into[i] += count * from[i];
    }
    sum->adding_s += count * price->adding_s;
}

static void add_copies(struct composer *composer, const struct parallel *parallel,
                       const struct block_use *use, const struct memo_block *block,
                       struct phases *sum)
{
    if (!use->moved) return;
    struct copy_price copy = copy_price(memo_context(composer->memo), parallel->offload.activations,
                                        block->light, &block->price, use->moved);
    sum->s[PHASE_FORWARD][PART_OFFLOAD] += use->count * copy.forward_s;
    sum->s[PHASE_BACKWARD][PART_OFFLOAD] += use->count * copy.backward_s;
}

// Of a recomputed block that nobody has lowered yet, where such are guessed.
static bool add_guess(struct composer *composer, const struct parallel *parallel,
                      const struct block_use *use, struct phases *sum)
{
    int block = use->block_program, kind = division_kind(block);
    if (!composer->guesses || !division_recomputes(block) || !composer->guesses[kind]) return false;
    int way = recompute_of(composer, parallel);
    const struct variant *variant = variant_of(composer, parallel, way, division_stays(block));
    if (variant->blocks[kind]) return false;
    const struct memo_block *plain =
        composing_kind(composer, parallel, 0, division_stays(block), kind);
    add_phases(sum, &plain->price, use->count);
    sum->s[PHASE_BACKWARD][PART_RECOMPUTE] +=
        use->count * composing_guessed_s(parallel, composer->guesses[kind], plain);
    return true;
}

static const struct phases *phases_of(struct composer *composer, const struct parallel *parallel)
{
    const struct division *division = composer->division;
    int recompute_way = recompute_of(composer, parallel);
    int hiding = hiding_of(composer, parallel), way = way_of(composer, parallel);
    struct chunk_phases *phases = &composer->phases[hiding][way][recompute_way];
    if (phases->known) return phases->classes;
    if (phases->capacity < division->class_count) {
        phases->capacity = 2 * division->class_count;
        phases->classes = ARENA_NEW(composer->arena, struct phases, phases->capacity);
    }
    for (int i = 0; i < division->class_count; i++) {
        const struct program_chunk *chunk = &division->chunks[i];
        phases->classes[i] = (struct phases){0};
        for (int u = 0; u < chunk->use_count; u++) {
            const struct block_use *use = &chunk->uses[u];
            if (add_guess(composer, parallel, use, &phases->classes[i])) continue;
            const struct memo_block *block =
                composing_block(composer, parallel, use->block_program);
            add_phases(&phases->classes[i], &block->price, use->count);
            add_copies(composer, parallel, use, block, &phases->classes[i]);
        }
    }
    phases->known = !composer->guesses;
    return phases->classes;
}

void composing_blocks(struct composer *composer, const struct parallel *parallel,
                      struct block_program **blocks)
{
    for (int i = 0; i < DIVISION_WAYS; i++) {
        enum stays stays = stays_there(parallel, division_stays(i));
        int way = division_recomputes(i) ? recompute_of(composer, parallel) : 0;
        // Those that do not stay come first.
        int like = division_block(0, division_recomputes(i), stays);
        struct variant *variant = like == i ? variant_of(composer, parallel, way, stays) : NULL;
        for (int kind = 0; kind < composer->graph->block_count; kind++) {
            struct block_program **own = &blocks[DIVISION_WAYS * kind];
            own[i] = variant ? variant_block(composer, variant, parallel, way, stays, kind)->light
                             : own[like];
        }
    }
}

// The program of a plan in memoised blocks.
struct program composing_program(struct composer *composer, const struct parallel *parallel,
                                 const struct division *division, struct block_program **blocks)
{
    const struct search_request *request = composer->request;
    const struct graph *graph = composer->graph;
    struct program program = {
        .graph = graph,
        .cluster = request->cluster,
        .workload = request->workload,
        .parallel = *parallel,
        .mesh = *mesh_for(composer, parallel),
        .blocks = blocks,
        .block_count = DIVISION_WAYS * graph->block_count,
        .chunks = division->chunks,
        .chunk_class_count = division->class_count,
        .class_of = division->class_of,
        .shape = {division->stage_count, division->chunk_count,
                  (int)parallel_micro_batch_count(parallel, request->workload.global_batch),
                  parallel->in_flight, NULL},
    };
    assert(division->stage_count == parallel->degree[AXIS_PP]);
    assert(division->chunk_count == parallel->vpp && program.shape.micro_batch_count >= 1);
    for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++) {
        program.storage[kind] = program_storage(&program.mesh, parallel, (enum parameter_kind)kind);
    }
    assert(division->stage_count == parallel->degree[AXIS_PP]);
    assert(division->chunk_count == parallel->vpp && program.shape.micro_batch_count >= 1);
    return program;
}

static struct once_key once_key(const struct composer *composer, const struct parallel *parallel,
                                const struct division *division, int number)
{
    const struct mesh *mesh = mesh_for(composer, parallel);
    struct once_key key;
    memset(&key, 0, sizeof key);
    key.division = division;
    key.graph = composer->graph;
    key.number = number;
    key.sp = parallel->sp;
    key.cp_kind = (int)parallel->cp_kind;
    key.bucket_bytes = parallel->bucket_bytes;
    key.optimizer = division ? (int)parallel->offload.optimizer : 0;
    key.axis_count = mesh->axis_count;
    for (int i = 0; i < mesh->axis_count; i++) {
        const struct mesh_axis *axis = &mesh->axes[i];
        key.axes[i].size = axis->size;
        key.axes[i].stride = axis->stride;
        key.axes[i].parent = (uint8_t)axis->parent;
        key.axes[i].part = (uint8_t)axis->part;
        key.axes[i].expert = (uint8_t)axis->expert;
        key.axes[i].shards = (uint8_t)axis->shards;
    }
    return key;
}

// Nobody asks for phases of its classes: their blocks have no price.
static const struct step_price *once_put(struct composer *composer, const struct once_key *key,
                                         const struct program *program)
{
    struct once_entry *entry = ARENA_NEW(composer->arena, struct once_entry, 1);
    struct arena_mark mark = arena_mark(composer->scratch);
    const struct block_price *blocks =
        ARENA_NEW(composer->scratch, struct block_price, program->block_count);
    entry->key = *key;
    entry->price =
        step_price_of_blocks(composer->arena, memo_context(composer->memo), program, blocks, NULL);
    arena_reset(composer->scratch, mark);
    index_put(composer->arena, &composer->onces, entry);
    return entry->price;
}

static const struct step_price *hop_of(struct composer *composer, const struct parallel *parallel,
                                       const struct division *division)
{
    if (composer->hop) return composer->hop;
    struct once_key key = once_key(composer, parallel, NULL, parallel->micro_batch);
    const struct once_entry *found = index_find(&composer->onces, &key);
    if (found) return composer->hop = found->price;
    struct block_program *blocks[DIVISION_WAYS * DIVISION_KIND_MAX];
    composing_blocks(composer, parallel, blocks);
    struct program program = composing_program(composer, parallel, division, blocks);
    program.chunk_class_count = 0;
    return composer->hop = once_put(composer, &key, &program);
}

// What is recomputed has a say in three things that happen once a step: whether all products that
// read a weight can take one cast of it, which gradients of adapters are left partial, and which of
// biases, if there are any, a GEMM's epilogue writes, which all micro-batches but the first then
// add.
bool composing_once_hangs(const struct composer *composer, const struct parallel *parallel)
{
    bool sums_beside =
        composer->sums && stack_joins(composer->request->stack) >> JOIN_BIAS_GRADIENT & 1;
    return memo_keeps_casts(composer->memo) || parallel->lora.rank > 0 || sums_beside;
}

// Weights are cast once where the rows that they meet are multiples of a grain on each rank: of odd
// sequences in some micro-batches alone.
static int grain_of(const struct composer *composer, const struct parallel *parallel)
{
    int64_t ranks = (int64_t)parallel->degree[AXIS_TP] * parallel->degree[AXIS_CP];
    int64_t odd = composer->request->workload.seq_len % (CASTS_GRAIN * ranks);
    int shared = parallel->micro_batch & -parallel->micro_batch;
    if (composer->only_tokens && odd == 0) return CASTS_GRAIN;
    return shared < CASTS_GRAIN ? shared : CASTS_GRAIN;
}

const struct step_price *composing_once(struct composer *composer, const struct parallel *parallel,
                                        const struct division *division, const struct division **of)
{
    int zero = parallel->accumulates ? -parallel->zero : parallel->zero;
    bool hangs = composing_once_hangs(composer, parallel);
    *of = hangs ? division : division->base;
    struct once_key key = once_key(composer, parallel, *of, zero);
    if (hangs)
        key.recompute = 1 + recompute_value(parallel->recompute, parallel->recompute_classes);
    if (memo_keeps_casts(composer->memo)) key.grain = grain_of(composer, parallel);
    const struct once_entry *found = index_find(&composer->onces, &key);
    if (found) return found->price;
    struct block_program *blocks[DIVISION_WAYS * DIVISION_KIND_MAX];
    composing_blocks(composer, parallel, blocks);
    struct program program = composing_program(composer, parallel, *of, blocks);
    if (composer->has_ties) ties_find(composer->arena, &program);
    return once_put(composer, &key, &program);
}

struct step_price composing_steady(struct composer *composer, const struct parallel *parallel)
{
    const struct division *division = composer_division(composer, parallel);
    use_division(composer, division);
    struct step_price price = *hop_of(composer, parallel, division);
    const struct phases *phases = phases_of(composer, parallel);
    int rounds =
        (int)parallel_micro_batch_count(parallel, composer->request->workload.global_batch);
    for (int i = 0; i < division->class_count; i++) {
        struct chunk_price *class = &composer->classes[i];
        *class = (struct chunk_price){.bucket_count = 1, .added_s = phases[i].adding_s};
        memcpy(class->phase_s, phases[i].s, sizeof class->phase_s);
        step_add_begins(rounds, class);
        step_add_host(composer->request->stack, division->stage_count, class);
    }
    if (!composer->guesses) composing_add_gradients(composer, parallel);
    price.shape = (struct schedule_shape){division->stage_count, division->chunk_count, rounds,
                                          parallel->in_flight, NULL};
    price.post_validated = step_post_validated(composer->request->stack, parallel);
    unsigned overlap = step_overlap(composer->request->stack, parallel);
    price.reduce_overlapped = overlap & OVERLAP_GRAD_REDUCE;  // which ZeRO may take away
    price.schedule = parallel->schedule;
    price.classes = composer->classes;
    price.class_count = division->class_count;
    price.class_of = division->class_of;
    price.runs = division->runs;
    return price;
}

struct cost composer_cost(struct composer *composer, const struct parallel *parallel)
{
    struct step_price price = composing_steady(composer, parallel);
    const struct division *division = composer->division;
    const struct division *of;
    // Nothing is lowered for a guess.
    struct parallel plain = *parallel;
    if (composer->guesses) plain.recompute = RECOMPUTE_NONE, plain.recompute_classes = 0;
    const struct step_price *once = composing_once(composer, &plain, division, &of);
    assert(once->class_count == of->class_count && "what is read by class was priced by class");
    for (int i = 0; i < division->class_count; i++) {
        struct chunk_price *class = &composer->classes[i];
        int at = of == division ? i : division->base_class[i];
        const struct chunk_price *step = &once->classes[at];
        class->gradient_reduce_s = step->gradient_reduce_s;
        class->parameter_gather_s = step->parameter_gather_s;
        class->small_reduce_s = step->small_reduce_s;
        class->update_s = step->update_s;
        class->bucket_count = step->bucket_count;
        class->zeroed_s = step->zeroed_s;
        class->added_s = step->added_s;
        step_add_begins(price.shape.micro_batch_count, class);
    }
    price.ties = once->ties;
    price.tie_count = once->tie_count;
    price.norm_s = once->norm_s;
    return closed_form_after(&composer->paths, &price);
}

const int *composer_balance(struct composer *composer, const struct parallel *parallel)
{
    const struct graph *graph = composer->graph;
    const struct division *even = composer_division(composer, parallel);
    const struct step_price *hop = hop_of(composer, parallel, even);
    struct arena_mark mark = arena_mark(composer->scratch);
    double *layer_s = ARENA_NEW(composer->scratch, double, graph->sequence_count);
    struct partition_request request = {.stage_count = even->stage_count, .layer_s = layer_s};
    for (int i = 0; i < graph->sequence_count; i++) {
        double s = composing_block_s(composing_recomputed(composer, parallel, graph->sequence[i]));
        enum block_role role = graph->blocks[graph->sequence[i]].role;
        if (role == BLOCK_LAYER) layer_s[request.layer_count++] = s;
        if (role == BLOCK_EMBEDDING) request.first_s += s;
        if (role == BLOCK_HEAD) request.last_s += s;
    }
    if (!hop->hop_overlapped) request.cut_s = 2 * hop->hop_s;
    assert(request.layer_count == graph->layer_count);
    const int *found =
        balance_find(&composer->balances, composer->scratch, &request, even->stage_layers);
    arena_reset(composer->scratch, mark);
    return found;
}
