#include "planner/space.h"

#include "plan/program.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

// Micro-batches past this gain nothing: every kernel is long by then. A pin may go further.
enum { MICRO_BATCH_MAX = 1024 };

// tp stays innermost or second: a tensor group that skips both dp and pp neighbours has no link
// that another order would not give it cheaper.
static const enum axis ORDERS[][4] = {
    {AXIS_TP, AXIS_CP, AXIS_DP, AXIS_PP},
    {AXIS_TP, AXIS_CP, AXIS_PP, AXIS_DP},
    {AXIS_DP, AXIS_TP, AXIS_CP, AXIS_PP},
    {AXIS_PP, AXIS_TP, AXIS_CP, AXIS_DP},
};
enum { ORDER_KINDS = sizeof ORDERS / sizeof *ORDERS, DIVISOR_MAX = 512 };

static const struct pins *pins_of(const struct space *space)
{
    return &space->request->pins;
}

static void value_add(struct space_values *values, int value)
{
    assert(values->count < SPACE_VALUE_MAX);
    values->values[values->count++] = value;
}

// The values of a word or small number that the pins leave, in ascending order.
static struct space_values allowed_values(const struct pins *pins, enum choice choice, int count)
{
    struct space_values values = {0};
    for (int value = 0; value < count; value++) {
        if (pins_allow(pins, choice, value)) value_add(&values, value);
    }
    return values;
}

// The divisors of `whole` in ascending order, at most `most`.
static int divisors(int64_t whole, int64_t most, int *found)
{
    int count = 0;
    for (int64_t part = 1; part <= most && part <= whole && count < DIVISOR_MAX; part++) {
        if (whole % part == 0) found[count++] = (int)part;
    }
    return count;
}

// Those of `whole` that the pins leave. An axis that the table knows but this search does not widen
// has degree 1 unless it is pinned.
static int degrees(const struct pins *pins, enum choice choice, int64_t whole, bool widened,
                   int *found)
{
    int all[DIVISOR_MAX], count = 0;
    bool searched = widened || pins_get(pins, choice).set;
    int all_count = divisors(whole, searched ? whole : 1, all);
    for (int i = 0; i < all_count; i++) {
        if (pins_allow(pins, choice, all[i])) found[count++] = all[i];
    }
    return count;
}

static struct parallel mesh_parallel(const struct space *space, const struct space_mesh *mesh)
{
    const struct pins *pins = pins_of(space);
    struct parallel parallel = {.vpp = 1,
                                .micro_batch = 1,
                                .zero = mesh->zero_group > 0 ? 1 : 0,
                                .zero_group = mesh->zero_group,
                                .recompute_layers = -1,
                                .schedule = SCHEDULE_1F1B,
                                .passes = space->request->stack->passes,
                                .overlap = space->overlap,
                                .stage_layers = pins->stage_layers,
                                .stage_layers_count = pins->stage_layers_count,
                                .order_count = mesh->order_count};
    memcpy(parallel.degree, mesh->degree, sizeof parallel.degree);
    memcpy(parallel.order, mesh->order, sizeof parallel.order);
    return parallel;
}

static bool group_shape_equal(const struct group_shape *a, const struct group_shape *b)
{
    return a->rank_count == b->rank_count && a->node_count == b->node_count &&
           a->ranks_per_node == b->ranks_per_node &&
           a->ranks_per_node_least == b->ranks_per_node_least && a->intra == b->intra &&
           a->network == b->network &&
           a->network_bytes_per_s_per_rank == b->network_bytes_per_s_per_rank;
}

// Two orders are one when every communicator has the same links under both.
static bool same_placement(const struct space *space, const struct space_mesh *a,
                           const struct space_mesh *b)
{
    const struct cluster *cluster = space->request->cluster;
    struct parallel parallel_a = mesh_parallel(space, a), parallel_b = mesh_parallel(space, b);
    struct mesh mesh_a = mesh_make(&parallel_a, 0), mesh_b = mesh_make(&parallel_b, 0);
    static const unsigned GROUPS[] = {1u << AXIS_TP, 1u << AXIS_CP, 1u << AXIS_DP, 1u << AXIS_PP,
                                      1u << AXIS_DP | 1u << AXIS_CP};
    for (size_t i = 0; i < sizeof GROUPS / sizeof *GROUPS; i++) {
        unsigned axes_a = 0, axes_b = 0;
        for (int axis = 0; axis < AXIS_COUNT; axis++) {
            if (!(GROUPS[i] >> axis & 1)) continue;
            axes_a |= mesh_axes_of(&mesh_a, (enum axis)axis);
            axes_b |= mesh_axes_of(&mesh_b, (enum axis)axis);
        }
        struct group_shape shape_a = mesh_group(&mesh_a, cluster, axes_a);
        struct group_shape shape_b = mesh_group(&mesh_b, cluster, axes_b);
        if (!group_shape_equal(&shape_a, &shape_b)) return false;
    }
    return true;
}

// What is being filled; the arrays grow by doubling.
struct build {
    struct arena *arena;
    struct space *space;
    const struct space_graphs *graphs;
    int mesh_capacity, group_capacity;
};

static void *grown(struct arena *arena, void *items, int count, int *capacity, size_t size)
{
    if (count < *capacity) return items;
    *capacity = *capacity ? 2 * *capacity : 64;
    char *bigger = arena_alloc(arena, (size_t)*capacity, size);
    if (count) memcpy(bigger, items, (size_t)count * size);
    return bigger;
}

static void drop(struct space *space, enum drop why, const struct err *err)
{
    space->dropped[why] += 1;
    if (space->refused.kind == ERR_NONE && err->kind) space->refused = *err;
}

static void add_groups(struct build *build, int mesh_index, const int *micro_batches, int count)
{
    struct space *space = build->space;
    const struct space_mesh *mesh = &space->meshes[mesh_index];
    // Without tp there is nothing that sp could split: its first allowed value stands for both.
    int switch_count = mesh->degree[AXIS_TP] > 1 ? space->switches.count : 1;
    for (int a = 0; a < space->attentions.count; a++) {
        for (int s = 0; s < switch_count && s < space->switches.count; s++) {
            for (int m = 0; m < count; m++) {
                space->groups = grown(build->arena, space->groups, space->group_count,
                                      &build->group_capacity, sizeof *space->groups);
                space->groups[space->group_count++] = (struct space_group){
                    .mesh = mesh_index,
                    .attention = (enum attention)space->attentions.values[a],
                    .sp = space->switches.values[s] == 1,
                    .micro_batch = micro_batches[m],
                };
            }
        }
    }
}

static void add_mesh(struct build *build, const struct space_mesh *mesh, const int *micro_batches,
                     int micro_batch_count)
{
    struct space *space = build->space;
    space->meshes = grown(build->arena, space->meshes, space->mesh_count, &build->mesh_capacity,
                          sizeof *space->meshes);
    space->meshes[space->mesh_count++] = *mesh;
    add_groups(build, space->mesh_count - 1, micro_batches, micro_batch_count);
}

static void add_orders(struct build *build, const struct space_mesh *degrees_only,
                       const int *micro_batches, int micro_batch_count)
{
    struct space *space = build->space;
    int first = space->mesh_count;
    for (int order = 0; order < ORDER_KINDS; order++) {
        struct space_mesh mesh = *degrees_only;
        mesh.order_count = 4;
        memcpy(mesh.order, ORDERS[order], sizeof ORDERS[order]);
        bool is_new = true;
        for (int i = first; i < space->mesh_count && is_new; i++) {
            is_new = !same_placement(space, &mesh, &space->meshes[i]);
        }
        if (is_new) add_mesh(build, &mesh, micro_batches, micro_batch_count);
    }
}

// The micro-batches that make whole ones of each replica's share of the batch.
static int micro_batches_of(const struct space *space, int dp, int *found)
{
    const struct pins *pins = pins_of(space);
    int64_t batch = space->request->workload.global_batch;
    if (batch % dp != 0) return 0;
    int all[DIVISOR_MAX], count = 0;
    int64_t most = pins_get(pins, CHOICE_MICRO_BATCH).set ? batch : MICRO_BATCH_MAX;
    int all_count = divisors(batch / dp, most, all);
    for (int i = 0; i < all_count; i++) {
        if (pins_allow(pins, CHOICE_MICRO_BATCH, all[i])) found[count++] = all[i];
    }
    return count;
}

static void add_degrees(struct build *build, const struct space_mesh *mesh)
{
    struct space *space = build->space;
    int micro_batches[DIVISOR_MAX];
    int count = micro_batches_of(space, mesh->degree[AXIS_DP], micro_batches);
    struct parallel parallel = mesh_parallel(space, mesh);
    struct err err = {0};
    if (count == 0) {
        err_set(&err, ERR_USAGE, "dp %d has no micro-batch that splits batch %lld evenly",
                mesh->degree[AXIS_DP], (long long)space->request->workload.global_batch);
        drop(space, DROP_DIVIDE, &err);
        return;
    }
    parallel.micro_batch = micro_batches[0];
    const struct graph *graph = build->graphs->of(
        build->graphs->context, (enum attention)space->attentions.values[0], mesh->degree[AXIS_TP]);
    if (!program_check(graph, space->request->cluster, &space->request->workload, &parallel,
                       &err)) {
        drop(space, DROP_DIVIDE, &err);
        return;
    }
    add_orders(build, mesh, micro_batches, count);
}

// The shard groups of a mesh: all of dp and cp unless they are pinned.
static void add_zero_groups(struct build *build, struct space_mesh *mesh)
{
    const struct pins *pins = pins_of(build->space);
    int groups[DIVISOR_MAX] = {0}, count = 1;
    int64_t shards = (int64_t)mesh->degree[AXIS_DP] * mesh->degree[AXIS_CP];
    if (pins_get(pins, CHOICE_ZERO_GROUP).set && !pins_allow(pins, CHOICE_ZERO_GROUP, 0)) {
        count = degrees(pins, CHOICE_ZERO_GROUP, shards, true, groups);
    }
    for (int i = 0; i < count; i++) {
        mesh->zero_group = groups[i];
        add_degrees(build, mesh);
    }
}

static void add_meshes(struct build *build)
{
    const struct pins *pins = pins_of(build->space);
    int64_t ranks = build->space->request->cluster->rank_count;
    int tps[DIVISOR_MAX], cps[DIVISOR_MAX], pps[DIVISOR_MAX];
    int tp_count = degrees(pins, CHOICE_TP, ranks, true, tps);
    for (int t = 0; t < tp_count; t++) {
        int cp_count = degrees(pins, CHOICE_CP, ranks / tps[t], false, cps);
        for (int c = 0; c < cp_count; c++) {
            int64_t rest = ranks / tps[t] / cps[c];
            int pp_count = degrees(pins, CHOICE_PP, rest, true, pps);
            for (int p = 0; p < pp_count; p++) {
                struct space_mesh mesh = {0};
                int64_t dp = rest / pps[p];
                bool staged = pins->stage_layers_count > 0;
                if (staged && pps[p] != pins->stage_layers_count) continue;
                if (!pins_allow(pins, CHOICE_DP, dp) || pps[p] > STAGE_MAX) continue;
                for (int axis = 0; axis < AXIS_COUNT; axis++) {
                    mesh.degree[axis] = 1;
                }
                mesh.degree[AXIS_TP] = tps[t];
                mesh.degree[AXIS_CP] = cps[c];
                mesh.degree[AXIS_PP] = pps[p];
                mesh.degree[AXIS_DP] = (int)dp;
                // Axes that take no ranks of their own: only their pin moves them.
                struct int_range ep = pins_get(pins, CHOICE_EP), etp = pins_get(pins, CHOICE_ETP);
                if (ep.set) mesh.degree[AXIS_EP] = (int)ep.low;
                if (etp.set) mesh.degree[AXIS_ETP] = (int)etp.low;
                add_zero_groups(build, &mesh);
            }
        }
    }
}

struct space *space_make(struct arena *arena, const struct search_request *request,
                         const struct space_graphs *graphs)
{
    const struct pins *pins = &request->pins;
    const struct stack *stack = request->stack;
    struct space *space = ARENA_NEW(arena, struct space, 1);
    space->request = request;
    space->zeros = allowed_values(pins, CHOICE_ZERO, 4);
    space->recomputes = allowed_values(pins, CHOICE_RECOMPUTE, RECOMPUTE_COUNT);
    space->schedules = allowed_values(pins, CHOICE_SCHEDULE, SCHEDULE_KIND_COUNT);
    space->attentions = allowed_values(pins, CHOICE_ATTENTION, ATTENTION_COUNT);
    space->switches = allowed_values(pins, CHOICE_SP, 2);
    space->overlap = pins->overlap >= 0 ? (unsigned)pins->overlap : stack->overlap_default;
    // The first attention that the stack has is the better one; the other is for pins.
    for (int i = 0; i < space->attentions.count; i++) {
        if (!(stack->attention >> space->attentions.values[i] & 1)) continue;
        space->attentions.values[0] = space->attentions.values[i];
        break;
    }
    if (space->attentions.count > 1) space->attentions.count = 1;
    struct build build = {.arena = arena, .space = space, .graphs = graphs};
    if (space->attentions.count > 0) {
        space->layer_count =
            graphs->of(graphs->context, (enum attention)space->attentions.values[0], 1)
                ->layer_count;
        add_meshes(&build);
    }
    return space;
}
