#include "planner/division.h"

#include <assert.h>
#include <string.h>

// A chunk while a division is made.
struct division_class {
    int first, last;                                   // holds the embedding / the head
    int counts[DIVISION_BAND_MAX][DIVISION_KIND_MAX];  // blocks of each kind, by band
    struct division_block *blocks;                     // in order, where that counts
    int block_count;
};

struct division_block {
    int band, kind;
};

// Whether blocks of a kind stand behind those of another, as dense layers and those of experts that
// take turns do.
static bool takes_turns(const struct graph *graph)
{
    bool is_over[DIVISION_KIND_MAX] = {false};
    for (int i = 1; i < graph->sequence_count; i++) {
        if (graph->sequence[i] == graph->sequence[i - 1]) continue;
        is_over[graph->sequence[i - 1]] = true;
        if (is_over[graph->sequence[i]]) return true;
    }
    return false;
}

static bool is_layer(const struct graph *graph, int position)
{
    return graph->blocks[graph->sequence[position]].role == BLOCK_LAYER;
}

static int band_of(struct division *division, struct division_band wanted)
{
    for (int i = 0; i < division->band_count; i++) {
        const struct division_band *band = &division->bands[i];
        if (band->recomputed == wanted.recomputed && band->moved == wanted.moved &&
            band->away == wanted.away && band->stays == wanted.stays)
            return i;
    }
    assert(division->band_count < DIVISION_BAND_MAX);
    division->bands[division->band_count] = wanted;
    return division->band_count++;
}

// Of a block behind so many layers of its stage. `fetching`: the blocks from it on that fetch,
// where that counts.
static enum stays stays(const struct graph *graph, int position, const struct offload *offload,
                        int layer, int *fetching)
{
    if (!offload_moves_parameters(offload)) return STAYS_NOT;
    if (!program_fetches(graph, graph->sequence[position], offload, layer)) return STAYS_ALWAYS;
    if (!offload_keeps_some(offload)) return STAYS_NOT;
    return stays_of(offload, is_layer(graph, position), layer, --*fetching);
}

// The counts of one chunk. `layers` of its stage are recomputed; `*before` counts those of its
// earlier chunks, and grows by those of this one. `blocks`: room for its own; NULL: counts will do.
static struct division_class class_from(struct division *division, const struct graph *graph,
                                        const struct chunk_span *span,
                                        const struct offload *offload, int layers, int *before,
                                        struct division_block *blocks)
{
    assert(span->count >= 0 && span->first + span->count <= graph->sequence_count);
    struct division_class class = {0};
    int fetching = stays_fetching(graph, offload, *span);
    for (int i = span->first; i < span->first + span->count; i++) {
        struct division_band band_is = {.stays = stays(graph, i, offload, *before, &fetching)};
        if (is_layer(graph, i)) {
            band_is.recomputed = layers < 0 || *before < layers;
            band_is.moved = offload_classes(offload, *before);
            band_is.away = offload_away(offload, *before);
            ++*before;
        }
        int band = band_of(division, band_is);
        class.counts[band][graph->sequence[i]]++;
        if (blocks) blocks[class.block_count++] = (struct division_block){band, graph->sequence[i]};
    }
    class.blocks = blocks;
    class.first = span->count > 0 && span->first == 0;
    class.last = span->count > 0 && span->first + span->count == graph->sequence_count;
    return class;
}

// Of bands that were not known when a class was made it has no blocks.
static bool same_class(const struct division *division, const struct division_class *a,
                       const struct division_class *b)
{
    size_t bytes = (size_t)division->band_count * sizeof *a->counts;
    bool is_same = a->first == b->first && a->last == b->last && a->block_count == b->block_count &&
                   memcmp(a->counts, b->counts, bytes) == 0;
    return is_same &&
           (a->block_count == 0 ||
            memcmp(a->blocks, b->blocks, (size_t)a->block_count * sizeof *a->blocks) == 0);
}

static int class_find(struct divisions *divisions, struct division *division,
                      const struct division_class *class)
{
    // Neighbours are mostly equal: the newest class is the likeliest.
    for (int i = division->class_count - 1; i >= 0; i--) {
        if (same_class(division, &divisions->classes[i], class)) return i;
    }
    ARENA_GROW(divisions->arena, divisions->classes, division->class_count,
               divisions->class_capacity);
    memcpy(&divisions->classes[division->class_count], class, sizeof *class);
    return division->class_count++;
}

static void find_heads(struct division *division)
{
    size_t row_bytes = (size_t)division->chunk_count * sizeof *division->class_of;
    for (int stage = 0; stage < division->stage_count; stage++) {
        const int *row = &division->class_of[stage * division->chunk_count];
        bool repeats = stage > 0 && memcmp(row - division->chunk_count, row, row_bytes) == 0;
        if (!repeats || stage == division->stage_count - 1) {
            division->heads[division->head_count++] = stage;
        }
    }
}

static struct division *division_new(struct arena *arena, const struct graph *graph, int stages,
                                     int chunks)
{
    struct division *division = ARENA_NEW(arena, struct division, 1);
    assert(graph->block_count <= DIVISION_KIND_MAX);
    *division = (struct division){
        .stage_count = stages, .chunk_count = chunks, .kind_count = graph->block_count};
    division->bands[1].recomputed = true;
    division->band_count = 2;
    division->class_of = ARENA_NEW(arena, int, stages *chunks);
    division->stage_layers = ARENA_NEW(arena, int, stages);
    division->heads = ARENA_NEW(arena, int, stages);
    return division;
}

static void add_stage(struct divisions *divisions, struct division *division,
                      const struct graph *graph, const struct chunk_span *spans, int stage,
                      const struct offload *offload, int layers)
{
    int before = 0;
    bool by_bucket = divisions->streams || offload_moves_gradients(offload);
    bool is_ordered = offload_keeps_some(offload) || (by_bucket && takes_turns(graph));
    for (int chunk = 0; chunk < division->chunk_count; chunk++) {
        const struct chunk_span *span = &spans[chunk];
        struct division_block *blocks =
            is_ordered ? ARENA_NEW(divisions->arena, struct division_block, span->count) : NULL;
        struct division_class class =
            class_from(division, graph, span, offload, layers, &before, blocks);
        division->class_of[stage * division->chunk_count + chunk] =
            class_find(divisions, division, &class);
        for (int i = span->first; i < span->first + span->count; i++) {
            division->stage_layers[stage] += is_layer(graph, i);
        }
    }
    if (division->stage_layers[stage] > division->layers_most) {
        division->layers_most = division->stage_layers[stage];
    }
}

static void add_in_order(struct arena *arena, const struct division *division,
                         const struct division_class *class, struct program_chunk *chunk)
{
    chunk->uses = ARENA_NEW(arena, struct block_use, class->block_count);
    for (int i = 0; i < class->block_count; i++) {
        const struct division_block *block = &class->blocks[i];
        const struct division_band *band = &division->bands[block->band];
        bool repeats = i > 0 && memcmp(block, block - 1, sizeof *block) == 0;
        struct block_use use = {division_block(block->kind, band->recomputed, band->stays), 1,
                                band->moved, band->away};
        if (repeats)
            chunk->uses[chunk->use_count - 1].count++;
        else
            chunk->uses[chunk->use_count++] = use;
    }
}

static void add_uses(struct divisions *divisions, struct division *division, int index)
{
    struct arena *arena = divisions->arena;
    const struct division_class *class = &divisions->classes[index];
    struct program_chunk *chunk = &division->chunks[index];
    chunk->first = class->first;
    chunk->last = class->last;
    if (class->blocks) return add_in_order(arena, division, class, chunk);
    chunk->uses = ARENA_NEW(arena, struct block_use, division->band_count * division->kind_count);
    for (int at = 0; at < division->kind_count * division->band_count; at++) {
        int kind = at / division->band_count, band = at % division->band_count;
        const struct division_band *of = &division->bands[band];
        int count = class->counts[band][kind];
        int block = division_block(kind, of->recomputed, of->stays);
        struct block_use use = {block, count, of->moved, of->away};
        if (count > 0) chunk->uses[chunk->use_count++] = use;
    }
}

static struct division *division_make(struct divisions *divisions, const struct graph *graph,
                                      const struct parallel *parallel, int layers)
{
    struct arena *arena = divisions->arena;
    int stages = parallel->degree[AXIS_PP], chunks = parallel->vpp;
    struct chunk_span *spans = ARENA_NEW(arena, struct chunk_span, stages * chunks);
    struct err err = {0};
    bool ok = stages_split(graph, parallel, spans, &err);
    assert(ok && "the plan is legal");
    (void)ok;
    struct division *division = division_new(arena, graph, stages, chunks);
    for (int stage = 0; stage < stages; stage++) {
        add_stage(divisions, division, graph, &spans[stage * chunks], stage, &parallel->offload,
                  layers);
    }
    find_heads(division);
    assert(division->heads[0] == 0 && division->head_count <= stages);
    division->chunks = ARENA_NEW(arena, struct program_chunk, division->class_count);
    for (int i = 0; i < division->class_count; i++) {
        add_uses(divisions, division, i);
    }
    struct schedule_shape shape = {stages, chunks, 1, 0, NULL};
    division->runs = stage_runs_make(arena, &shape, division->class_of, division->class_count);
    return division;
}

// Keys are compared byte by byte.
struct division_key {
    const int *stage_layers;
    int stage_count, chunk_count, layers;
    int second_stage;  // where the second chunk begins: schedules place chunks up or down
    int64_t moved;     // offload_value, of states alone which layers'
};

struct division_entry {
    struct division_key key;
    struct division *division;
};

const struct division *division_get(struct divisions *divisions, const struct graph *graph,
                                    const struct parallel *parallel, int layers)
{
    struct schedule_shape shape = {parallel->degree[AXIS_PP], parallel->vpp, 1, 0, NULL};
    const struct schedule_row *row = schedule_row(parallel->schedule);
    struct offload moved = parallel->offload;
    // The tier is no matter where it is that of all or of none.
    if (moved.optimizer_layers == 0) moved.optimizer = TIER_DEVICE;
    struct division_key key = {parallel->stage_layers_count > 0 ? parallel->stage_layers : NULL,
                               shape.stage_count,
                               shape.chunk_count,
                               layers,
                               shape.chunk_count > 1 ? row->stage_of(&shape, shape.stage_count) : 0,
                               offload_value(&moved)};
    divisions->index.key_bytes = sizeof key;
    const struct division_entry *found = index_find(&divisions->index, &key);
    if (found) return found->division;
    struct division_entry *entry = ARENA_NEW(divisions->arena, struct division_entry, 1);
    struct division *division = division_make(divisions, graph, parallel, layers);
    int *base_class = ARENA_NEW(divisions->arena, int, division->class_count);
    struct parallel plain = *parallel;
    // Gradients that leave do so in buckets, whose blocks are in order.
    plain.offload = (struct offload){.optimizer = moved.optimizer,
                                     .optimizer_layers = moved.optimizer_layers,
                                     .parameter_layers = moved.parameter_layers,
                                     .gradients = parallel->offload.gradients,
                                     .gradient_layers = moved.gradient_layers};
    if (moved.parameter_layers > 0) plain.offload.parameters = moved.parameters;
    bool is_plain = layers == 0 && key.moved == offload_value(&plain.offload);
    division->base = is_plain ? division : division_get(divisions, graph, &plain, 0);
    assert(division->base->base == division->base && "nothing is left to take off a base");
    for (int i = 0; i < division->stage_count * division->chunk_count; i++) {
        base_class[division->class_of[i]] = division->base->class_of[i];
    }
    division->base_class = base_class;
    *entry = (struct division_entry){key, division};
    index_put(divisions->arena, &divisions->index, entry);
    return division;
}
