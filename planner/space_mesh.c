#include "planner/space.h"

#include "plan/layout/spatial.h"
#include "plan/program.h"
#include "planner/placement.h"

#include <assert.h>
#include <string.h>

// What a space with very many meshes leaves out. Past so many tokens on a rank larger micro-batches
// gain nothing: every kernel runs in many waves by then.
static const int64_t MICRO_BATCH_TOKENS_MOST = 1 << 15;
// Context parallelism of shorter pieces than this sends keys for longer than it works on them, and
// more micro-batches or tensor ranks do the same for less (estimated).
static const int64_t CP_TOKENS_LEAST = 2048;
// A tensor group communicates in every operator: over more than two nodes it hardly ever pays, and
// nodes of few GPUs are joined by a network that may be taken for a fabric (estimated).
static const int TP_NODES_MOST = 2;
static const int64_t TP_RANKS_LEAST = 8;

// tp stays innermost or second: a tensor group that skips both dp and pp neighbours has no link
// that another order would not give it cheaper. Axes of which a search by itself takes none are
// put in by add_other_axes.
enum { SEARCHED_AXES = 4 };
static const enum axis ORDERS[][SEARCHED_AXES] = {
    {AXIS_TP, AXIS_CP, AXIS_DP, AXIS_PP},
    {AXIS_TP, AXIS_CP, AXIS_PP, AXIS_DP},
    {AXIS_DP, AXIS_TP, AXIS_CP, AXIS_PP},
    {AXIS_PP, AXIS_TP, AXIS_CP, AXIS_DP},
};
enum { ORDER_KINDS = sizeof ORDERS / sizeof *ORDERS, DIVISOR_MAX = 512 };
// Experts take their ranks from the innermost axes; the orders that do not begin with tp would put
// them beside it.
enum { ORDER_KINDS_OF_EXPERTS = 2 };

// What is being filled; the arrays grow by doubling.
struct build {
    struct space *space;
    const struct space_graphs *graphs;
    int mesh_capacity, group_capacity;
    struct space_mesh base;     // the degrees that no search tries by itself
    int64_t ranks;              // that those leave; 0 where they do not divide
    const struct graph *graph;  // of the tp degree at hand
    int micro_batches[DIVISOR_MAX];
    int micro_batch_count;         // of the dp and cp at hand
    struct space_values switches;  // of sp, legal with the degrees at hand
};

static bool is_searched(enum axis axis)
{
    for (int i = 0; i < SEARCHED_AXES; i++)
        if (ORDERS[0][i] == axis) return true;
    return false;
}

// Values of one choice.
struct degrees {
    int values[DIVISOR_MAX];
    int count;
};

static const struct pins *pins_of(const struct build *build)
{
    return &build->space->request->pins;
}

// Whether a value that nobody pinned is left out because the space is narrow; the cut is noted.
static bool is_cut(const struct build *build, enum choice choice, enum cut cut, bool beyond)
{
    struct space *space = build->space;
    if (!space->narrow || !beyond || pins_get(pins_of(build), choice).set) return false;
    space->cuts |= 1u << cut;
    return true;
}

// How far the search widens a degree by itself: not at all where the stack has no such axis.
static int64_t widest(const struct build *build, enum axis axis, int64_t most)
{
    return build->space->request->stack->axes >> axis & 1 ? most : 1;
}

// The divisors of `whole` that the pins leave, in ascending order: up to `most`, and further only
// where the choice is pinned.
static struct degrees degrees_of(const struct build *build, enum choice choice, int64_t whole,
                                 int64_t most)
{
    const struct pins *pins = pins_of(build);
    struct degrees found = {0};
    if (most > whole || pins_get(pins, choice).set) most = whole;
    for (int64_t part = 1; part <= most && found.count < DIVISOR_MAX; part++) {
        if (whole % part == 0 && pins_allow(pins, choice, part)) {
            found.values[found.count++] = (int)part;
        }
    }
    return found;
}

static struct parallel mesh_parallel(const struct build *build, const struct space_mesh *mesh)
{
    const struct space *space = build->space;
    struct parallel parallel = space->fixed;
    parallel.vpp = 1;
    parallel.micro_batch = 1;
    parallel.zero = space_least_zero(mesh);
    parallel.zero_group = mesh->zero_group;
    parallel.zero_gradients = mesh->zero_gradients;
    parallel.zero_parameters = mesh->zero_parameters;
    parallel.recompute_layers = -1;
    parallel.schedule = SCHEDULE_1F1B;
    parallel.cp_kind = mesh->cp_kind;
    parallel.order_count = mesh->order_count;
    memcpy(parallel.degree, mesh->degree, sizeof parallel.degree);
    memcpy(parallel.order, mesh->order, sizeof parallel.order);
    space_take_stages(space, &parallel);
    return parallel;
}

// False when the experts' mesh cannot be laid over the ranks in this order.
static bool place(const struct build *build, const struct space_mesh *mesh,
                  struct placement *placement)
{
    struct parallel parallel = mesh_parallel(build, mesh);
    int64_t kv_heads = build->graph->kv_head_count;
    if (!mesh_folds(&parallel, kv_heads)) return false;
    struct mesh laid = mesh_make(&parallel, kv_heads);
    *placement = placement_of(&laid, &parallel, build->space->request->cluster);
    return true;
}

// An order of the searched axes with the others in it: each behind the one that precedes it in the
// table of axes.
static void add_other_axes(const enum axis searched[SEARCHED_AXES], struct space_mesh *mesh)
{
    mesh->order_count = 0;
    for (int i = 0; i < SEARCHED_AXES; i++) {
        enum axis axis = searched[i];
        mesh->order[mesh->order_count++] = axis;
        for (axis++; axis < AXIS_COUNT && !is_searched(axis); axis++) {
            if (axis_takes_ranks(axis)) mesh->order[mesh->order_count++] = axis;
        }
    }
}

static void add_groups(struct build *build, int mesh_index)
{
    struct space *space = build->space;
    for (int a = 0; a < space->attentions.count; a++) {
        for (int s = 0; s < build->switches.count; s++) {
            for (int m = 0; m < build->micro_batch_count; m++) {
                ARENA_GROW(space->arena, space->groups, space->group_count, build->group_capacity);
                space->groups[space->group_count++] = (struct space_group){
                    .mesh = mesh_index,
                    .attention = (enum attention)space->attentions.values[a],
                    .sp = build->switches.values[s] == 1,
                    .micro_batch = build->micro_batches[m],
                };
            }
        }
    }
}

// Nothing more is added to a space that is going to be cut.
static bool is_too_wide(const struct space *space)
{
    return !space->narrow && space->mesh_count >= SPACE_MESHES_MOST;
}

static void add_orders(struct build *build, const struct space_mesh *degrees_only)
{
    struct space *space = build->space;
    struct placement placements[ORDER_KINDS];
    int count = 0;
    int kinds = build->graph->expert_count > 0 ? ORDER_KINDS_OF_EXPERTS : ORDER_KINDS;
    if (space->request->stack->order_fixed) kinds = 1;
    for (int order = 0; order < kinds; order++) {
        struct space_mesh mesh = *degrees_only;
        add_other_axes(ORDERS[order], &mesh);
        bool is_new = place(build, &mesh, &placements[count]);
        for (int i = 0; i < count && is_new; i++) {
            is_new = !placement_equal(&placements[count], &placements[i]);
        }
        if (!is_new || is_too_wide(space)) continue;
        count++;
        ARENA_GROW(space->arena, space->meshes, space->mesh_count, build->mesh_capacity);
        space->meshes[space->mesh_count++] = mesh;
        add_groups(build, space->mesh_count - 1);
    }
}

// The micro-batches that make whole ones of each replica's share of the batch.
static void find_micro_batches(struct build *build, const struct space_mesh *mesh)
{
    const struct workload *workload = &build->space->request->workload;
    int dp = mesh->degree[AXIS_DP];
    build->micro_batch_count = 0;
    if (workload->global_batch % dp != 0) return;
    int64_t share = workload->global_batch / dp;
    struct parallel parallel = mesh_parallel(build, mesh);
    bool contrasts = build->graph->contrasts;
    int64_t least = grid_batch_parts(&parallel);
    if (least == 0) least = 1;  // no grid: the check says so
    bool is_pinned = pins_get(pins_of(build), CHOICE_MICRO_BATCH).set;
    struct degrees all = degrees_of(build, CHOICE_MICRO_BATCH, share, share);
    int64_t most = MICRO_BATCH_TOKENS_MOST * mesh->degree[AXIS_CP] / workload->seq_len;
    for (int i = 0; i < all.count; i++) {
        int size = all.values[i];
        bool beyond = size > least && size > most && !contrasts;
        if (contrasts && size < share && !is_pinned) continue;
        if (size % least != 0 && !is_pinned) continue;
        if (is_cut(build, CHOICE_MICRO_BATCH, CUT_MICRO_BATCH, beyond)) break;
        build->micro_batches[build->micro_batch_count++] = size;
    }
}

static void add_degrees(struct build *build, const struct space_mesh *mesh)
{
    struct space *space = build->space;
    struct parallel parallel = mesh_parallel(build, mesh);
    struct err err = {.kind = space->refused.kind};  // the first refusal is put into words
    if (build->micro_batch_count == 0) {
        err_set(&err, ERR_USAGE, "dp %d has no micro-batch that splits batch %lld evenly",
                mesh->degree[AXIS_DP], (long long)space->request->workload.global_batch);
        space_drop(space, DROP_DIVIDE, &err);
        return;
    }
    parallel.micro_batch = build->micro_batches[0];
    // Without tp there is nothing that sp could split: its first allowed value stands for both.
    // Else on first, which needs less memory; with experts the stacks that have them demand it.
    bool tensor = mesh->degree[AXIS_TP] > 1;
    int most = tensor ? space->switches.count : 1;
    if (most > 1 && is_cut(build, CHOICE_SP, CUT_SP, build->graph->expert_count > 0)) most = 1;
    build->switches.count = 0;
    for (int i = 0; i < space->switches.count && build->switches.count < most; i++) {
        int at = tensor ? space->switches.count - 1 - i : i;
        parallel.sp = space->switches.values[at] == 1;
        if (program_check(build->graph, space->request->cluster, &space->request->workload,
                          &parallel, &err)) {
            build->switches.values[build->switches.count++] = space->switches.values[at];
        }
    }
    if (build->switches.count > 0) {
        add_orders(build, mesh);
    } else {
        space_drop(space, DROP_DIVIDE, &err);
    }
}

// ZeRO 3 gathers parameters in every micro-batch: over the part of the shards that lies in one node
// that is cheap, and the rest of the ranks hold replicas.
static int node_group(const struct build *build, const struct space_mesh *mesh)
{
    const struct search_request *request = build->space->request;
    unsigned zeros = request->stack->zero_stages;
    if (mesh->degree[AXIS_PP] > 1) zeros = request->stack->zero_stages_with_pipeline;
    bool is_common = false;
    for (int zero = 1; zero <= 3; zero++) {
        bool grouped = zeros & request->stack->zero_stages_grouped & 1u << zero;
        is_common |= grouped && pins_allow(&request->pins, CHOICE_ZERO, zero);
    }
    if (!is_common) return 0;
    int node = request->cluster->nodes[0].gpus;
    int cp = mesh->degree[AXIS_CP], dp = mesh->degree[AXIS_DP];
    int inside = mesh->degree[AXIS_TP] * cp;
    if (node % inside != 0 || dp % (node / inside) != 0) return 0;
    int group = node / inside * cp;
    return group > 1 && group < dp * cp ? group : 0;
}

// Of gradients or parameters: as what is stored in more parts, or what is asked for.
static struct degrees parts_of(const struct build *build, enum choice choice, int64_t outer)
{
    bool is_open = pins_allow(pins_of(build), choice, 0);
    return is_open ? (struct degrees){{0}, 1} : degrees_of(build, choice, outer, outer);
}

// What of the ranks that share out states share out gradients, and of those parameters.
static void add_zero_parts(struct build *build, struct space_mesh *mesh, int64_t shards)
{
    int64_t states = mesh->zero_group > 0 ? mesh->zero_group : shards;
    struct degrees gradients = parts_of(build, CHOICE_ZERO_GRADIENTS, states);
    for (int i = 0; i < gradients.count; i++) {
        mesh->zero_gradients = gradients.values[i];
        int64_t outer = mesh->zero_gradients > 0 ? mesh->zero_gradients : states;
        struct degrees parameters = parts_of(build, CHOICE_ZERO_PARAMETERS, outer);
        for (int k = 0; k < parameters.count; k++) {
            mesh->zero_parameters = parameters.values[k];
            add_degrees(build, mesh);
        }
    }
}

// The shard groups of a mesh: all of dp and cp, and those of one node; else what is pinned.
static void add_zero_groups(struct build *build, struct space_mesh *mesh)
{
    const struct pins *pins = pins_of(build);
    struct degrees groups = {.count = 0};
    int64_t shards = (int64_t)mesh->degree[AXIS_DP] * mesh->degree[AXIS_CP];
    if (!pins_allow(pins, CHOICE_ZERO_GROUP, 0)) {
        groups = degrees_of(build, CHOICE_ZERO_GROUP, shards, shards);
    } else {
        int node = node_group(build, mesh);
        bool whole = pins_allow(pins, CHOICE_ZERO_GROUP, 0);
        bool part = node > 0 && pins_allow(pins, CHOICE_ZERO_GROUP, node);
        if (whole) groups.values[groups.count++] = 0;
        if (part) groups.values[groups.count++] = node;
    }
    for (int i = 0; i < groups.count; i++) {
        mesh->zero_group = groups.values[i];
        add_zero_parts(build, mesh, shards);
    }
}

// Expert degrees take their ranks from the others: ep divides the experts, etp is the tensor ranks
// or none of them.
static void add_experts(struct build *build, struct space_mesh *mesh)
{
    int64_t experts = build->graph->expert_count;
    int64_t ranks = (int64_t)mesh->degree[AXIS_TP] * mesh->degree[AXIS_CP] * mesh->degree[AXIS_DP];
    struct int_range ep = pins_get(pins_of(build), CHOICE_EP);
    struct int_range etp = pins_get(pins_of(build), CHOICE_ETP);
    int64_t tensor = experts > 0 ? mesh->degree[AXIS_TP] : 1;
    if (experts == 0) experts = 1;
    struct degrees eps = degrees_of(build, CHOICE_EP, experts, widest(build, AXIS_EP, experts));
    struct degrees etps = degrees_of(build, CHOICE_ETP, tensor, widest(build, AXIS_ETP, tensor));
    // What divides nothing is left to the check, whose answer names what would.
    if (eps.count == 0 && ep.set) eps = (struct degrees){{(int)ep.low}, 1};
    if (etps.count == 0 && etp.set) etps = (struct degrees){{(int)etp.low}, 1};
    for (int i = 0; i < eps.count; i++) {
        for (int k = 0; k < etps.count; k++) {
            int one = eps.values[i], other = etps.values[k];
            bool part = other != 1 && other != mesh->degree[AXIS_TP];
            if (is_cut(build, CHOICE_ETP, CUT_ETP, part)) continue;
            if (!space_takes_experts(build->space, build->graph, mesh->degree[AXIS_TP], other))
                continue;
            // Other meshes may have the ranks that a good degree lacks here.
            if (ranks % ((int64_t)one * other) != 0 && experts % one == 0) continue;
            mesh->degree[AXIS_EP] = one;
            mesh->degree[AXIS_ETP] = other;
            add_zero_groups(build, mesh);
        }
    }
}

static void add_kinds(struct build *build, struct space_mesh *mesh)
{
    const struct space_values *kinds = &build->space->cp_kinds;
    int count = mesh->degree[AXIS_CP] > 1 ? kinds->count : 1;
    find_micro_batches(build, mesh);
    for (int i = 0; i < count; i++) {
        mesh->cp_kind = (enum cp_kind)kinds->values[i];
        add_experts(build, mesh);
    }
}

// What does not divide is left to the check only where it is pinned: its answer names what would.
static bool may_cut(const struct build *build, int cp)
{
    const struct search_request *request = build->space->request;
    return pins_get(&request->pins, CHOICE_CP).set || request->workload.seq_len % cp == 0;
}

static bool may_split(const struct build *build, const struct graph *graph, int tp)
{
    return pins_get(pins_of(build), CHOICE_TP).set || graph->head_count % tp == 0;
}

// Axes that no search tries by itself have the degrees that are pinned; those of images come later.
static struct space_mesh pinned_mesh(const struct pins *pins)
{
    struct space_mesh mesh = {0};
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        const struct int_range *pin = &pins->degree[axis];
        bool has_range = axis == AXIS_SP_H || axis == AXIS_SP_W;
        bool is_pinned = pin->set && axis_takes_ranks(axis) && !is_searched(axis) && !has_range;
        mesh.degree[axis] = is_pinned ? (int)pin->low : 1;
    }
    return mesh;
}

// The ranks that the others leave; 0 where they do not divide.
static int64_t searched_ranks(const struct search_request *request)
{
    const struct space_mesh mesh = pinned_mesh(&request->pins);
    int64_t ranks = request->cluster->rank_count;
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        ranks = ranks % mesh.degree[axis] == 0 ? ranks / mesh.degree[axis] : 0;
    return ranks;
}

static void add_pipelines(struct build *build, int tp, int cp, int64_t rest)
{
    const struct pins *pins = pins_of(build);
    struct degrees pps = degrees_of(build, CHOICE_PP, rest, widest(build, AXIS_PP, STAGE_MAX));
    for (int p = 0; p < pps.count; p++) {
        int64_t dp = rest / pps.values[p];
        bool staged = pins->stage_layers_count > 0;
        if (staged && pps.values[p] != pins->stage_layers_count) continue;
        if (!pins_allow(pins, CHOICE_DP, dp) || pps.values[p] > STAGE_MAX) continue;
        if (is_too_wide(build->space)) return;
        if (!space_find_stages(build->space, build->graph, pps.values[p])) continue;
        struct space_mesh mesh = build->base;
        mesh.degree[AXIS_TP] = tp;
        mesh.degree[AXIS_CP] = cp;
        mesh.degree[AXIS_PP] = pps.values[p];
        mesh.degree[AXIS_DP] = (int)dp;
        // Every plan uses all ranks.
        assert(dp * tp * cp * pps.values[p] == build->ranks);
        add_kinds(build, &mesh);
    }
}

// Whether images could be split that are not.
static bool leaves_images(const struct search_request *request, const struct graph *graph)
{
    static const struct {
        enum axis axis;
        enum choice choice;
        enum dim dim;
    } WAYS[] = {{AXIS_SP_H, CHOICE_SP_H, DIM_HEIGHT}, {AXIS_SP_W, CHOICE_SP_W, DIM_WIDTH}};
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        bool is_open = request->stack->axes >> WAYS[i].axis & 1 &&
                       !pins_get(&request->pins, WAYS[i].choice).set;
        if (is_open && spatial_has_images(graph, WAYS[i].dim)) return true;
    }
    return false;
}

static void add_tensor_degrees(struct build *build)
{
    struct space *space = build->space;
    const struct space_graphs *graphs = build->graphs;
    int64_t ranks = build->ranks;
    enum attention attention = (enum attention)space->attentions.values[0];
    const struct graph *whole = graphs->of(graphs->context, attention, 1);
    if (ranks > 1 && leaves_images(space->request, whole)) space->cuts |= 1u << CUT_IMAGES;
    struct degrees tps = degrees_of(build, CHOICE_TP, ranks, widest(build, AXIS_TP, ranks));
    int64_t most = TP_NODES_MOST * space->request->cluster->nodes[0].gpus;
    if (most < TP_RANKS_LEAST) most = TP_RANKS_LEAST;
    for (int t = 0; t < tps.count; t++) {
        bool beyond = tps.values[t] > most;
        if (!may_split(build, whole, tps.values[t])) continue;
        if (is_cut(build, CHOICE_TP, CUT_TP, beyond)) continue;
        int64_t rest = ranks / tps.values[t];
        struct degrees cps = degrees_of(build, CHOICE_CP, rest, widest(build, AXIS_CP, rest));
        build->graph = graphs->of(graphs->context, attention, tps.values[t]);
        for (int c = 0; c < cps.count; c++) {
            int cp = cps.values[c];
            bool is_short = cp > 1 && space->request->workload.seq_len / cp < CP_TOKENS_LEAST;
            if (!may_cut(build, cp) || is_cut(build, CHOICE_CP, CUT_CP, is_short)) continue;
            add_pipelines(build, tps.values[t], cps.values[c], rest / cps.values[c]);
        }
    }
}

// Parts of images are those that are pinned, of a range all that divide; else one.
static void add_meshes(struct space *space, const struct space_graphs *graphs)
{
    struct build build = {
        .space = space, .graphs = graphs, .base = pinned_mesh(&space->request->pins)};
    int64_t ranks = searched_ranks(space->request);
    struct degrees rows = degrees_of(&build, CHOICE_SP_H, ranks, 1);
    for (int r = 0; r < rows.count; r++) {
        int64_t rest = ranks / rows.values[r];
        struct degrees columns = degrees_of(&build, CHOICE_SP_W, rest, 1);
        for (int c = 0; c < columns.count; c++) {
            build.base.degree[AXIS_SP_H] = rows.values[r];
            build.base.degree[AXIS_SP_W] = columns.values[c];
            build.ranks = rest / columns.values[c];
            add_tensor_degrees(&build);
        }
    }
}

void space_add_meshes(struct space *space, const struct space_graphs *graphs)
{
    const struct space empty = *space;
    add_meshes(space, graphs);
    if (space->mesh_count < SPACE_MESHES_MOST) return;
    *space = empty;
    space->narrow = true;
    add_meshes(space, graphs);
}
