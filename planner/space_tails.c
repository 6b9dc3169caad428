#include "planner/space.h"

#include "plan/passes.h"
#include "plan/program.h"
#include "plan/scan_check.h"
#include "plan/step_end.h"
#include "plan/video_check.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Tails depend on these of a group and nothing else; compared byte by byte.
struct tails_key {
    int stage_count, micro_batch_count;
    int attention, sp, cp_kind;
    unsigned axes;  // with a degree above 1
    int sharded, grouped;
};

struct tails_entry {
    struct tails_key key;
    struct space_tails tails;
};

// What the ways to recompute and to move of a tail depend on. Stages, micro-batches, chunks and
// caps differ far more often than these.
struct ways_key {
    int attention, sp, cp_kind;
    unsigned axes;  // with a degree above 1
    int schedule, zero, layers_most;
};

// How layers are split over stages.
struct split_key {
    const struct graph *graph;
    int stage_count, vpp, schedule, reserved;
};

struct split_entry {
    struct split_key key;
    int layers_most;
};

struct ways_entry {
    struct ways_key key;
    struct space_tail tail;  // its recomputes and moves; no recomputes where the stack has none
};

struct build {
    struct arena *arena;
    struct space *space;
    const struct space_group *group;
    const struct graph *graph;
    struct space_tail *items;
    int count, capacity;
};

static void add_tail(struct build *build, const struct space_tail *tail)
{
    ARENA_GROW(build->arena, build->items, build->count, build->capacity);
    build->items[build->count++] = *tail;
}

struct parallel space_parallel(const struct space *space, const struct space_group *group,
                               const struct space_tail *tail,
                               const struct space_recompute *recompute, int layers)
{
    assert(group->mesh >= 0 && group->mesh < space->mesh_count);
    const struct space_mesh *mesh = &space->meshes[group->mesh];
    struct parallel parallel = space->fixed;
    parallel.sp = group->sp;
    parallel.vpp = tail->vpp;
    parallel.micro_batch = group->micro_batch;
    parallel.zero = tail->zero;
    parallel.zero_group = tail->zero > 0 ? mesh->zero_group : 0;
    parallel.zero_gradients = tail->zero > 1 ? mesh->zero_gradients : 0;
    parallel.zero_parameters = tail->zero > 2 ? mesh->zero_parameters : 0;
    parallel.recompute = recompute->recompute;
    parallel.recompute_classes = recompute->classes;
    parallel.recompute_layers = layers;
    parallel.schedule = tail->schedule;
    parallel.in_flight = tail->in_flight;
    parallel.cp_kind = mesh->cp_kind;
    parallel.attention = group->attention;
    parallel.order_count = mesh->order_count;
    memcpy(parallel.degree, mesh->degree, sizeof parallel.degree);
    memcpy(parallel.order, mesh->order, sizeof parallel.order);
    space_take_stages(space, &parallel);
    const struct search_request *request = space->request;
    parallel.accumulates =
        stack_accumulates(request->stack, &parallel, request->workload.global_batch);
    return parallel;
}

struct parallel space_first(const struct space *space, const struct space_group *group,
                            const struct space_tail *tail)
{
    static const struct space_recompute NONE = {RECOMPUTE_NONE, 0, -1, -1, 0};
    const struct space_recompute *recompute =
        tail->recompute_count > 0 ? &tail->recomputes[0] : &NONE;
    return space_parallel(space, group, tail, recompute, recompute->layers_low);
}

static int count_layers(const struct graph *graph, const struct chunk_span *span)
{
    int layers = 0;
    for (int i = span->first; i < span->first + span->count; i++)
        layers += graph->blocks[graph->sequence[i]].role == BLOCK_LAYER;
    return layers;
}

static int find_layers_most(const struct build *build, const struct parallel *parallel)
{
    int stage_count = parallel->degree[AXIS_PP];
    struct arena_mark mark = arena_mark(build->arena);
    struct chunk_span *spans =
        ARENA_NEW(build->arena, struct chunk_span, stage_count * parallel->vpp);
    struct err err = {0};
    int most = 0;
    bool ok = stages_split(build->graph, parallel, spans, &err);
    assert(ok && "the plan was checked");
    (void)ok;
    for (int stage = 0; stage < stage_count; stage++) {
        int layers = 0;
        for (int chunk = 0; chunk < parallel->vpp; chunk++)
            layers += count_layers(build->graph, &spans[stage * parallel->vpp + chunk]);
        if (layers > most) most = layers;
    }
    arena_reset(build->arena, mark);
    return most;
}

// The layers of the fullest stage.
static int stage_layers_most(const struct build *build, const struct parallel *parallel)
{
    struct space *space = build->space;
    struct split_key key = {build->graph, parallel->degree[AXIS_PP], parallel->vpp,
                            (int)parallel->schedule, 0};
    space->splits.key_bytes = sizeof key;
    const struct split_entry *found = index_find(&space->splits, &key);
    if (found) return found->layers_most;
    int most = find_layers_most(build, parallel);
    struct split_entry *entry = ARENA_NEW(space->arena, struct split_entry, 1);
    *entry = (struct split_entry){key, most};
    index_put(space->arena, &space->splits, entry);
    return most;
}

static unsigned split_axes(const struct space_mesh *mesh)
{
    unsigned axes = 0;
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        if (mesh->degree[axis] > 1) axes |= 1u << axis;
    }
    return axes;
}

static const struct space_tail *ways_of(struct space *space, const struct space_group *group,
                                        const struct space_tail *tail, int layers_most)
{
    assert(layers_most >= 0);
    const struct space_mesh *mesh = &space->meshes[group->mesh];
    struct ways_key key = {
        .attention = (int)group->attention,
        .sp = group->sp,
        .cp_kind = (int)mesh->cp_kind,
        .axes = split_axes(mesh),
        .schedule = (int)tail->schedule,
        .zero = tail->zero,
        .layers_most = layers_most,
    };
    space->ways.key_bytes = sizeof key;
    const struct ways_entry *found = index_find(&space->ways, &key);
    if (found) return &found->tail;
    struct ways_entry *entry = ARENA_NEW(space->arena, struct ways_entry, 1);
    *entry = (struct ways_entry){key, space_ways(space, group, *tail, layers_most)};
    index_put(space->arena, &space->ways, entry);
    return &entry->tail;
}

// False when the stack has no way to recompute beside this tail.
static bool add_recomputes(struct build *build, struct space_tail tail, int layers_most)
{
    const struct space_tail *ways = ways_of(build->space, build->group, &tail, layers_most);
    if (ways->recompute_count == 0) return false;
    tail.recomputes = ways->recomputes;
    tail.recompute_count = ways->recompute_count;
    tail.moves = ways->moves;
    tail.move_count = ways->move_count;
    add_tail(build, &tail);
    return true;
}

// Whether several ranks have the same parameters: those of experts may be repeated over tp alone.
static bool is_sharded(const struct build *build, const struct space_mesh *mesh)
{
    int64_t data = (int64_t)mesh->degree[AXIS_DP] * mesh->degree[AXIS_CP];
    int64_t split = (int64_t)mesh->degree[AXIS_EP] * mesh->degree[AXIS_ETP];
    bool has_experts = build->graph->expert_count > 0;
    return data > 1 || (has_experts && data * mesh->degree[AXIS_TP] > split);
}

static bool may_move_gradients(const struct search_request *request, int zero)
{
    const struct pins *pins = &request->pins;
    struct int_range pinned = pins_get(pins, CHOICE_OFFLOAD);
    if (request->stack->gradients_leave_zero_stages)
        return request->stack->gradients_leave_zero_stages >> zero & 1;
    bool moves = pinned.set ? offload_of_value(pinned.low).gradients : pins->search_gradients;
    return !moves || zero < 2;
}

// Stages of ZeRO at which the stack moves the same states: 0 to 3. One where none are asked to
// move.
static int moving_class(const struct search_request *request, int zero)
{
    const struct stack *stack = request->stack;
    const struct pins *pins = &request->pins;
    if (!pins->search_offload && pins_get(pins, CHOICE_OFFLOAD).high == 0) return 0;
    unsigned to_host = stack->offload_zero_stages ? stack->offload_zero_stages : ~0u;
    unsigned to_nvme = stack->nvme_zero_stages ? stack->nvme_zero_stages : ~0u;
    unsigned with_parameters = stack->parameter_zero_stages ? stack->parameter_zero_stages : ~0u;
    return (int)may_move_gradients(request, zero) << 3 | (int)(with_parameters >> zero & 1) << 2 |
           (int)(to_host >> zero & 1) << 1 | (int)(to_nvme >> zero & 1);
}

static void add_sharding(struct build *build, struct space_tail tail, int layers_most)
{
    const struct space *space = build->space;
    const struct space_mesh *mesh = &space->meshes[build->group->mesh];
    bool sharded = is_sharded(build, mesh);
    bool group_pinned = pins_get(&space->request->pins, CHOICE_ZERO_GROUP).set;
    bool grouped = mesh->zero_group > 0;
    unsigned taken = 0;  // classes
    for (int z = 0; z < space->zeros.count; z++) {
        tail.zero = space->zeros.values[z];
        // A shard group asks for sharding, one that nobody pinned for what the stack's users shard
        // so; without ranks to shard over, the first stage of ZeRO that is left stands for all that
        // move the same.
        bool pointless = tail.zero < space_least_zero(mesh);
        bool unasked = grouped && !group_pinned &&
                       !(space->request->stack->zero_stages_grouped >> tail.zero & 1);
        int class = moving_class(space->request, tail.zero);
        if (pointless || unasked || (!sharded && taken >> class & 1)) continue;
        struct parallel parallel = {.zero = tail.zero, .cp_kind = mesh->cp_kind};
        memcpy(parallel.degree, mesh->degree, sizeof parallel.degree);
        if (!scan_leaves_shards(build->graph, &parallel)) continue;
        if (!video_has_choices(build->graph, &parallel)) continue;
        taken |= (unsigned)add_recomputes(build, tail, layers_most) << class;
    }
}

static struct space_tail bare_tail(const struct space *space, enum schedule_kind schedule, int vpp)
{
    return (struct space_tail){.vpp = vpp, .schedule = schedule, .zero = space->zeros.values[0]};
}

// Whether everything divides with so many chunks; else the first reason is kept.
static bool divides(struct build *build, const struct parallel *parallel)
{
    struct space *space = build->space;
    const struct search_request *request = space->request;
    return program_check(build->graph, request->cluster, &request->workload, parallel,
                         &space->refused);
}

static int micro_batch_count(const struct space *space, const struct space_group *group)
{
    int64_t batch = space->request->workload.global_batch;
    return (int)(batch / space->meshes[group->mesh].degree[AXIS_DP] / group->micro_batch);
}

static bool schedule_allows(const struct build *build, const struct space_tail *tail)
{
    const struct space_mesh *mesh = &build->space->meshes[build->group->mesh];
    struct schedule_shape shape = {.stage_count = mesh->degree[AXIS_PP],
                                   .chunk_count = tail->vpp,
                                   .micro_batch_count =
                                       micro_batch_count(build->space, build->group),
                                   .in_flight = tail->in_flight};
    const char *why = NULL;
    return schedule_row(tail->schedule)->legal(&shape, &why);
}

// Whether the software takes so few micro-batches in this schedule.
static bool takes_rounds(const struct build *build, enum schedule_kind schedule)
{
    struct space *space = build->space;
    struct err err = {.kind = space->refused.kind};  // the first refusal is put into words
    int stages = space->meshes[build->group->mesh].degree[AXIS_PP];
    bool is_taken = stack_check_rounds(space->request->stack, schedule, stages,
                                       micro_batch_count(space, build->group), &err);
    if (!is_taken) space_drop(space, DROP_DIVIDE, &err);
    return is_taken;
}

// Caps on the micro-batches that a stage holds: from those of 1F1B to the number from which on
// nothing waits for memory, where F, B and W take equally long (Qi et al. 2023, section 2). Their
// steps between are what memory is traded for. Other schedules know their own number, but zb-h2 of
// software that searches it under a limit.
static int caps_of(const struct build *build, enum schedule_kind schedule, int *caps)
{
    enum { STEPS = 3 };
    const struct pins *pins = &build->space->request->pins;
    int stages = build->space->meshes[build->group->mesh].degree[AXIS_PP], count = 0;
    struct int_range pinned = pins_get(pins, CHOICE_IN_FLIGHT);
    if (schedule == SCHEDULE_ZB_H2 && build->space->request->stack->searched_zero_bubble &&
        stages > 1 && pins_allow(pins, CHOICE_IN_FLIGHT, 2 * stages)) {
        caps[count++] = 2 * stages;
        return count;
    }
    if (schedule != SCHEDULE_ZB_AUTO) {
        caps[count] = 0;
        return count + pins_allow(pins, CHOICE_IN_FLIGHT, 0);
    }
    for (int64_t cap = pinned.low; pinned.set && cap <= pinned.high; cap++) {
        if (count < SPACE_VALUE_MAX && pins_allow(pins, CHOICE_IN_FLIGHT, cap)) {
            caps[count++] = (int)cap;
        }
    }
    for (int step = 0; step < STEPS && !pinned.set; step++) {
        int cap = stages + (stages - 1) * step / (STEPS - 1);
        bool is_new = count == 0 || caps[count - 1] < cap;
        if (is_new && pins_allow(pins, CHOICE_IN_FLIGHT, cap)) caps[count++] = cap;
    }
    return count;
}

static bool add_chunks(struct build *build, enum schedule_kind schedule, int vpp)
{
    assert(vpp >= 1);
    struct space *space = build->space;
    const struct pins *pins = &space->request->pins;
    struct space_tail tail = bare_tail(space, schedule, vpp);
    if (!pins_allow(pins, CHOICE_VPP, vpp)) return false;
    int caps[SPACE_VALUE_MAX];
    int cap_count = caps_of(build, schedule, caps), before = build->count;
    for (int i = 0; i < cap_count; i++) {
        tail.in_flight = caps[i];
        if (!schedule_allows(build, &tail)) continue;
        struct parallel parallel = space_first(space, build->group, &tail);
        if (!divides(build, &parallel)) continue;
        add_sharding(build, tail, stage_layers_most(build, &parallel));
    }
    return build->count > before;
}

// Every number of chunks that the schedule takes; one chunk interleaved is 1F1B again, so only a
// pin asks for it.
static bool add_schedule(struct build *build, enum schedule_kind schedule)
{
    if (!takes_rounds(build, schedule)) return false;
    struct space *space = build->space;
    struct int_range pinned = pins_get(&space->request->pins, CHOICE_VPP);
    int stages = space->meshes[build->group->mesh].degree[AXIS_PP];
    int low = schedule == SCHEDULE_INTERLEAVED && !pinned.set ? 2 : 1;
    int high = (space->layer_count + 2) / stages;
    bool any = false;
    for (int vpp = low; vpp <= high; vpp++) {
        any |= add_chunks(build, schedule, vpp);
    }
    if (any) return true;
    struct space_tail tail = bare_tail(space, schedule, pinned.set ? (int)pinned.low : low);
    struct parallel parallel = space_first(space, build->group, &tail);
    if (!divides(build, &parallel)) space->dropped[DROP_DIVIDE] += 1;
    return false;
}

static void build_tails(struct build *build)
{
    struct space *space = build->space;
    // Without a pipeline all schedules are one: the plain one, or the first that is left.
    const struct pins *pins = &space->request->pins;
    bool pipelined = space->meshes[build->group->mesh].degree[AXIS_PP] > 1;
    bool plain = space->zeros.count > 0 && pins_allow(pins, CHOICE_SCHEDULE, SCHEDULE_1F1B) &&
                 add_schedule(build, SCHEDULE_1F1B);
    bool more = pipelined || !plain;
    for (int i = 0; i < space->schedules.count && space->zeros.count > 0 && more; i++) {
        enum schedule_kind schedule = (enum schedule_kind)space->schedules.values[i];
        if (schedule == SCHEDULE_1F1B) continue;
        bool any = add_schedule(build, schedule);
        more = pipelined || !any;
    }
}

static unsigned space_kind(const struct space_tail *tail)
{
    if (!schedule_row(tail->schedule)->backward_fused) return PIPELINE_PARTED;
    return tail->vpp > 1 ? PIPELINE_CHUNKED : PIPELINE_FUSED;
}

static double move_plan_count(const struct space_tail *tail,
                              const struct space_recompute *recompute)
{
    double count = 0;
    for (int m = 0; m < tail->move_count; m++) {
        const struct space_move *move = &tail->moves[m];
        if (recompute->moves >> m & 1) count += move->layers_high - move->layers_low + 1;
    }
    return count;
}

static struct space_tails describe(const struct build *build)
{
    const struct space *space = build->space;
    bool streams =
        step_streams(&space->request->workload) && pass_is_on(&space->fixed, PASS_COMBINE);
    bool single = micro_batch_count(space, build->group) == 1;
    bool is_pipeline = space->meshes[build->group->mesh].degree[AXIS_PP] > 1;
    bool sums = stack_keeps_sums(space->request->stack, is_pipeline);
    struct space_tails tails = {.streams = streams && single,
                                .accumulates = sums && !single,
                                .tails = build->items,
                                .count = build->count,
                                .zero_least = 3,
                                .recomputes = true,
                                .hold_ratio = 1};
    for (int i = 0; i < build->count; i++) {
        const struct space_tail *tail = &build->items[i];
        if (tail->zero < tails.zero_least) tails.zero_least = tail->zero;
        if (tail->zero > tails.zero_most) tails.zero_most = tail->zero;
        for (int m = 0; m < tail->move_count; m++) {
            if (space_has_move(tail, m))
                tails.state_tiers |= 1u << tail->moves[m].offload.optimizer;
            tails.moves_activations |= offload_moves_activations(&tail->moves[m].offload);
        }
        const struct schedule_row *row = schedule_row(tail->schedule);
        tails.kinds |= space_kind(tail);
        tails.hold_ratio = fmin(tails.hold_ratio, row->hold_ratio);
        int cap = tail->in_flight;
        if (cap > 0 && (tails.in_flight_least == 0 || cap < tails.in_flight_least))
            tails.in_flight_least = cap;
        for (int r = 0; r < tail->recompute_count; r++) {
            const struct space_recompute *recompute = &tail->recomputes[r];
            tails.plan_count += (recompute->layers_high - recompute->layers_low + 1) *
                                move_plan_count(tail, recompute);
            tails.recomputes &= recompute->recompute != RECOMPUTE_NONE;
        }
    }
    return tails;
}

static struct tails_key key_of(const struct build *build)
{
    const struct space *space = build->space;
    const struct space_group *group = build->group;
    const struct space_mesh *mesh = &space->meshes[group->mesh];
    struct tails_key key = {
        .stage_count = mesh->degree[AXIS_PP],
        .micro_batch_count = micro_batch_count(space, group),
        .attention = (int)group->attention,
        .sp = group->sp,
        .cp_kind = (int)mesh->cp_kind,
        .sharded = is_sharded(build, mesh),
        .grouped = mesh->zero_group > 0,
        .axes = split_axes(mesh),
    };
    return key;
}

const struct space_tails *space_tails(struct space *space, const struct space_graphs *graphs,
                                      const struct space_group *group)
{
    const struct space_mesh *mesh = &space->meshes[group->mesh];
    struct build build = {.arena = space->arena, .space = space, .group = group};
    build.graph = graphs->of(graphs->context, group->attention, mesh->degree[AXIS_TP]);
    struct tails_key key = key_of(&build);
    space->tails.key_bytes = sizeof key;
    const struct tails_entry *found = index_find(&space->tails, &key);
    if (found) return &found->tails;
    build_tails(&build);
    struct tails_entry *entry = ARENA_NEW(space->arena, struct tails_entry, 1);
    entry->key = key;
    entry->tails = describe(&build);
    index_put(space->arena, &space->tails, entry);
    return &entry->tails;
}
