#include "planner/space.h"

#include "plan/program.h"

#include <assert.h>
#include <string.h>

struct tails {
    struct arena *arena;
    struct space *space;
    const struct space_group *group;
    const struct graph *graph;
    struct space_tail *items;
    int count, capacity;
};

static void add_tail(struct tails *tails, const struct space_tail *tail)
{
    if (tails->count == tails->capacity) {
        int capacity = tails->capacity ? 2 * tails->capacity : 256;
        struct space_tail *bigger = ARENA_NEW(tails->arena, struct space_tail, capacity);
        if (tails->count) memcpy(bigger, tails->items, (size_t)tails->count * sizeof *bigger);
        tails->items = bigger;
        tails->capacity = capacity;
    }
    tails->items[tails->count++] = *tail;
}

struct parallel space_parallel(const struct space *space, const struct space_group *group,
                               const struct space_tail *tail, int layers)
{
    const struct space_mesh *mesh = &space->meshes[group->mesh];
    const struct pins *pins = &space->request->pins;
    struct parallel parallel = {
        .sp = group->sp,
        .vpp = tail->vpp,
        .micro_batch = group->micro_batch,
        .zero = tail->zero,
        .zero_group = tail->zero > 0 ? mesh->zero_group : 0,
        .recompute = tail->recompute,
        .recompute_layers = layers,
        .schedule = tail->schedule,
        .attention = group->attention,
        .overlap = space->overlap,
        .order_count = mesh->order_count,
        .stage_layers = pins->stage_layers,
        .stage_layers_count = pins->stage_layers_count,
    };
    memcpy(parallel.degree, mesh->degree, sizeof parallel.degree);
    memcpy(parallel.order, mesh->order, sizeof parallel.order);
    return parallel;
}

int space_tail_count(const struct space_tail *tail)
{
    return tail->layers_high - tail->layers_low + 1;
}

// The layers of the fullest stage, and of the emptiest.
static int stage_layers_most(const struct tails *tails, const struct parallel *parallel)
{
    int stage_count = parallel->degree[AXIS_PP];
    struct arena_mark mark = arena_mark(tails->arena);
    struct chunk_span *spans =
        ARENA_NEW(tails->arena, struct chunk_span, stage_count * parallel->vpp);
    struct err err = {0};
    int most = 0;
    bool ok = stages_split(tails->graph, parallel, spans, &err);
    assert(ok && "the plan was checked");
    (void)ok;
    for (int stage = 0; stage < stage_count; stage++) {
        int layers = 0;
        for (int chunk = 0; chunk < parallel->vpp; chunk++) {
            const struct chunk_span *span = &spans[stage * parallel->vpp + chunk];
            for (int i = span->first; i < span->first + span->count; i++) {
                const struct block *block = &tails->graph->blocks[tails->graph->sequence[i]];
                layers += block->role == BLOCK_LAYER;
            }
        }
        if (layers > most) most = layers;
    }
    arena_reset(tails->arena, mark);
    return most;
}

// -1 means all layers and comes after 1 .. most - 1 in cost, so the numbers stand in a tail of
// their own. A pinned number is kept as it is.
static void add_recompute(struct tails *tails, struct space_tail tail, int layers_most)
{
    const struct pins *pins = &tails->space->request->pins;
    struct int_range pinned = pins_get(pins, CHOICE_RECOMPUTE_LAYERS);
    if (pinned.set) {
        if (tail.recompute == RECOMPUTE_NONE && pinned.low > 0) return;
        tail.layers_low = (int)pinned.low;
        tail.layers_high = (int)(pinned.high < layers_most ? pinned.high : layers_most);
        if (tail.recompute == RECOMPUTE_NONE) tail.layers_high = tail.layers_low;
        if (tail.layers_low <= tail.layers_high) add_tail(tails, &tail);
        return;
    }
    tail.layers_low = tail.layers_high = -1;
    add_tail(tails, &tail);
    if (tail.recompute != RECOMPUTE_FULL || layers_most < 2) return;
    tail.layers_low = 1;
    tail.layers_high = layers_most - 1;
    add_tail(tails, &tail);
}

static bool stack_allows(const struct tails *tails, const struct space_tail *tail)
{
    const struct stack *stack = tails->space->request->stack;
    struct parallel parallel = space_parallel(tails->space, tails->group, tail, -1);
    struct arena_mark mark = arena_mark(tails->arena);
    const char *why = NULL;
    bool ok = stack_can_run(stack, &parallel, tails->arena, &why);
    if (!ok) {
        tails->space->dropped[DROP_STACK] += 1;
        err_set(&tails->space->refused, ERR_USAGE, "%s", why);
    }
    arena_reset(tails->arena, mark);
    return ok;
}

static void add_sharding(struct tails *tails, struct space_tail tail, int layers_most)
{
    const struct space *space = tails->space;
    const struct space_mesh *mesh = &space->meshes[tails->group->mesh];
    bool sharded = mesh->degree[AXIS_DP] * mesh->degree[AXIS_CP] > 1;
    int taken = 0;
    for (int z = 0; z < space->zeros.count; z++) {
        tail.zero = space->zeros.values[z];
        // A pinned shard group asks for sharding; without ranks to shard over, the first stage of
        // ZeRO that is left stands for all.
        bool pointless = tail.zero == 0 && mesh->zero_group > 0 && space->zeros.count > 1;
        if (pointless || (!sharded && taken > 0)) continue;
        int before = tails->count;
        for (int r = 0; r < space->recomputes.count; r++) {
            tail.recompute = (enum recompute)space->recomputes.values[r];
            if (stack_allows(tails, &tail)) add_recompute(tails, tail, layers_most);
        }
        taken += tails->count > before;
    }
}

// The chunks a stage worth trying: those that divide its layers, or its layers with the embedding
// and the head counted as layers.
static bool worth_trying(const struct tails *tails, int vpp)
{
    const struct space *space = tails->space;
    int stages = space->meshes[tails->group->mesh].degree[AXIS_PP];
    if (pins_get(&space->request->pins, CHOICE_VPP).set) return true;
    int chunks = stages * vpp;
    return space->layer_count % chunks == 0 || (space->layer_count + 2) % chunks == 0 || vpp <= 2;
}

static struct space_tail bare_tail(const struct space *space, enum schedule_kind schedule, int vpp)
{
    return (struct space_tail){.vpp = vpp,
                               .schedule = schedule,
                               .zero = space->zeros.values[0],
                               .layers_low = -1,
                               .layers_high = -1};
}

// Whether everything divides with so many chunks; else the reason is kept.
static bool divides(struct tails *tails, const struct parallel *parallel)
{
    struct space *space = tails->space;
    const struct search_request *request = space->request;
    struct err err = {0};
    if (program_check(tails->graph, request->cluster, &request->workload, parallel, &err)) {
        return true;
    }
    if (!space->refused.kind) space->refused = err;
    return false;
}

static bool schedule_allows(const struct tails *tails, enum schedule_kind schedule, int vpp)
{
    const struct space_mesh *mesh = &tails->space->meshes[tails->group->mesh];
    int64_t batch = tails->space->request->workload.global_batch;
    int64_t micro_batches = batch / mesh->degree[AXIS_DP] / tails->group->micro_batch;
    struct schedule_shape shape = {mesh->degree[AXIS_PP], vpp, (int)micro_batches, 0};
    const char *why = NULL;
    return schedule_row(schedule)->legal(&shape, &why);
}

static bool add_chunks(struct tails *tails, enum schedule_kind schedule, int vpp)
{
    struct space *space = tails->space;
    const struct pins *pins = &space->request->pins;
    struct space_tail tail = bare_tail(space, schedule, vpp);
    struct parallel parallel = space_parallel(space, tails->group, &tail, -1);
    if (!pins_allow(pins, CHOICE_VPP, vpp) || !worth_trying(tails, vpp)) return false;
    if (!schedule_allows(tails, schedule, vpp) || !divides(tails, &parallel)) return false;
    int before = tails->count;
    add_sharding(tails, tail, stage_layers_most(tails, &parallel));
    return tails->count > before;
}

// Every number of chunks that the schedule takes; one chunk interleaved is 1F1B again, so only a
// pin asks for it.
static bool add_schedule(struct tails *tails, enum schedule_kind schedule)
{
    struct space *space = tails->space;
    struct int_range pinned = pins_get(&space->request->pins, CHOICE_VPP);
    int stages = space->meshes[tails->group->mesh].degree[AXIS_PP];
    int low = schedule == SCHEDULE_INTERLEAVED && !pinned.set ? 2 : 1;
    int high = (space->layer_count + 2) / stages;
    bool any = false;
    for (int vpp = low; vpp <= high; vpp++) {
        any |= add_chunks(tails, schedule, vpp);
    }
    if (any) return true;
    struct space_tail tail = bare_tail(space, schedule, pinned.set ? (int)pinned.low : low);
    struct parallel parallel = space_parallel(space, tails->group, &tail, -1);
    if (!divides(tails, &parallel)) space->dropped[DROP_DIVIDE] += 1;
    return false;
}

int space_tails(struct arena *arena, struct space *space, const struct space_graphs *graphs,
                const struct space_group *group, struct space_tail **tails, int *capacity)
{
    struct tails build = {
        .arena = arena, .space = space, .group = group, .items = *tails, .capacity = *capacity};
    const struct space_mesh *mesh = &space->meshes[group->mesh];
    build.graph = graphs->of(graphs->context, group->attention, mesh->degree[AXIS_TP]);
    // Without a pipeline all schedules are one: the plain one, or the first that is left.
    const struct pins *pins = &space->request->pins;
    bool plain = space->zeros.count > 0 && pins_allow(pins, CHOICE_SCHEDULE, SCHEDULE_1F1B) &&
                 add_schedule(&build, SCHEDULE_1F1B);
    bool more = mesh->degree[AXIS_PP] > 1 || !plain;
    for (int i = 0; i < space->schedules.count && space->zeros.count > 0 && more; i++) {
        enum schedule_kind schedule = (enum schedule_kind)space->schedules.values[i];
        if (schedule == SCHEDULE_1F1B) continue;
        bool any = add_schedule(&build, schedule);
        more = mesh->degree[AXIS_PP] > 1 || !any;
    }
    *tails = build.items;
    *capacity = build.capacity;
    return build.count;
}
