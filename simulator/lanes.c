#include "simulator/lanes.h"
#include "core/sort.h"

#include <assert.h>
#include <math.h>

enum { SHOWN_LANES_MOST = 8 };

static unsigned step_axes(const struct program *program)
{
    unsigned axes = 0;
    for (int i = 0; i < program->block_count; i++) {
        const struct block_program *block = program->blocks[i];
        for (int k = 0; k < block->instr_count; k++) {
            const struct instr *instr = &block->instrs[k];
            bool is_free =
                instr->collective == COLLECTIVE_NONE || instr->collective == COLLECTIVE_SLICE;
            if (!is_free) axes |= instr->axes;
        }
    }
    return axes & ~mesh_axes_of(&program->mesh, AXIS_PP);
}

int lanes_group_size(const struct lanes *lanes, int stage)
{
    if (lanes->mesh->stage_ranks) return mesh_stage_ranks(lanes->mesh, stage);
    assert(stage >= 0 && stage < lanes->stage_count);
    return mesh_size(lanes->mesh, lanes->step_axes);
}

void lanes_place(const struct lanes *lanes, int rank, int *pipeline, int *stage)
{
    int below = 1;
    *pipeline = 0;
    *stage = mesh_stage_of(lanes->mesh, rank);
    assert(rank >= 0 && rank < lanes->mesh->rank_count);
    for (int i = 0; i < lanes->mesh->axis_count && !lanes->mesh->stage_ranks; i++) {
        const struct mesh_axis *axis = &lanes->mesh->axes[i];
        int at = mesh_coordinate(lanes->mesh, i, rank);
        if (axis->parent != AXIS_PP && !(lanes->step_axes >> i & 1)) {
            *pipeline += at * below;
            below *= axis->size;
        }
    }
}

void lanes_group_ranks(const struct lanes *lanes, int pipeline, int stage, int *ranks)
{
    int size = 1;
    if (lanes->mesh->stage_ranks) {
        int count = mesh_stage_ranks(lanes->mesh, stage);
        for (int i = 0; i < count; i++)
            ranks[i] = mesh_at_stage(lanes->mesh, 0, stage) + i;
        return;
    }
    ranks[0] = 0;
    for (int i = 0; i < lanes->mesh->axis_count; i++) {
        const struct mesh_axis *axis = &lanes->mesh->axes[i];
        bool in_step = lanes->step_axes >> i & 1;
        int at = stage;
        if (axis->parent != AXIS_PP && !in_step) {
            at = pipeline % axis->size;
            pipeline /= axis->size;
        }
        for (int k = 0; k < size && !in_step; k++)
            ranks[k] += at * axis->stride;
        for (int k = size; in_step && k < size * axis->size; k++)
            ranks[k] = ranks[k - size] + axis->stride;
        if (in_step) size *= axis->size;
    }
    assert(size == lanes_group_size(lanes, stage) && "every rank of a group, each once");
    sort_ints(ranks, (size_t)size);
}

static struct rank_group *group_of(const struct lanes *lanes, int rank)
{
    int pipeline, stage;
    lanes_place(lanes, rank, &pipeline, &stage);
    assert(pipeline < lanes->pipeline_count && stage < lanes->stage_count);
    return &lanes->groups[(ptrdiff_t)pipeline * lanes->stage_count + stage];
}

double lanes_rank_slowdown(const struct injection_cause *causes, int cause_count, int rank)
{
    double slowdown = 1;
    for (int i = 0; i < cause_count; i++) {
        bool is_slow =
            causes[i].kind == INJECT_RANK && causes[i].first <= rank && rank <= causes[i].last;
        if (is_slow) slowdown = fmax(slowdown, causes[i].factor);
    }
    assert(slowdown >= 1 && "no cause makes a rank faster");
    return slowdown;
}

// The first rank of a node, and of the one behind it.
static void node_ranks(const struct cluster *cluster, int node, int *first, int *end)
{
    const struct node_group *group = cluster->nodes;
    *first = 0;
    for (; node >= group->count; node -= group->count, group++)
        *first += group->count * group->gpus;
    *first += node * group->gpus;
    assert(*first < cluster->rank_count);
    *end = *first + group->gpus < cluster->rank_count ? *first + group->gpus : cluster->rank_count;
}

static bool is_degraded(const struct rank_group *group)
{
    return group->nic_ratio > 0 || group->link_ratio > 0;
}

static void lower(double *ratio, double to)
{
    assert(to > 0);
    if (*ratio <= 0 || to < *ratio) *ratio = to;
}

static void degrade_node(struct lanes *lanes, const struct injection_cause *cause, int node)
{
    int rank, end;
    node_ranks(lanes->cluster, node, &rank, &end);
    for (; rank < end && rank < lanes->mesh->rank_count; rank++) {
        struct rank_group *group = group_of(lanes, rank);
        lower(cause->kind == INJECT_NIC ? &group->nic_ratio : &group->link_ratio, cause->factor);
        group->node = node;
        group->kind = cluster_group_of(lanes->cluster, rank);
    }
}

// Whether the ranks of two stages lie alike on nodes that are alike.
static bool are_linked_alike(const struct lanes *lanes, int a, int b)
{
    const struct cluster *cluster = lanes->cluster;
    const struct node_group *last[2] = {NULL, NULL};
    int last_node[2] = {-1, -1};
    bool are_alike = true;
    for (int rank = 0; rank < lanes->mesh->rank_count && are_alike; rank++) {
        if (mesh_stage_of(lanes->mesh, rank) != a) continue;
        bool is_new_node[2], is_new_group[2];
        for (int i = 0; i < 2; i++) {
            int own = mesh_at_stage(lanes->mesh, rank, i == 0 ? a : b);
            const struct node_group *group = cluster_group_of(cluster, own);
            int node = cluster_node_of(cluster, own);
            is_new_node[i] = node != last_node[i];
            is_new_group[i] = group != last[i];
            last_node[i] = node;
            last[i] = group;
        }
        are_alike = is_new_node[0] == is_new_node[1] && is_new_group[0] == is_new_group[1] &&
                    (last[0] == last[1] || node_group_equals(last[0], last[1]));
    }
    return are_alike;
}

// Where nodes are unlike each stage has the links that its own ranks lie on, as its compute is at
// their pace.
static void link_groups(struct lanes *lanes)
{
    int stages = lanes->stage_count;
    bool has_own = lanes->mesh->stage_ranks || stages == 1;
    if (cluster_is_uniform(lanes->cluster) || has_own) return;
    bool are_alike = true;
    for (int stage = 0; stage < stages; stage++) {
        int first = 0;
        while (first < stage && !are_linked_alike(lanes, first, stage))
            first++;
        are_alike &= first == 0;
        for (int i = 0; i < lanes->pipeline_count; i++)
            lanes->groups[i * stages + stage].at_stage = first + 1;
    }
    for (int i = 0; i < lanes->pipeline_count * stages && are_alike; i++)
        lanes->groups[i].at_stage = 0;
}

// The device of a group is that of its slowest rank.
static void place_groups(const struct evaluation_request *request, const struct program *program,
                         struct lanes *lanes)
{
    const struct cluster *cluster = request->cluster;
    int64_t batch = request->workload.global_batch;
    int end = 0, rank = 0;
    for (int g = 0; g < cluster->node_group_count; g++) {
        const struct node_group *nodes = &cluster->nodes[g];
        const struct device *device = cluster->nodes[cluster_device_kind(cluster, g)].device;
        end += nodes->count * nodes->gpus;
        for (; rank < end && rank < lanes->mesh->rank_count; rank++) {
            struct rank_group *group = group_of(lanes, rank);
            bool is_slower = !group->device ||
                             device_is_slower(device, group->device, request->workload.precision);
            if (is_slower) group->device = device;
            if (group->micro_batch_count > 0) continue;
            int replica = program->parallel.replica_count > 0 ? program_replica(program, rank) : 0;
            group->micro_batch_count =
                (int)parallel_replica_count(&program->parallel, batch, replica);
        }
    }
}

static void mark_groups(struct lanes *lanes, const struct injection_cause *causes, int cause_count)
{
    int group_count = lanes->pipeline_count * lanes->stage_count;
    for (int i = 0; i < group_count; i++)
        lanes->groups[i].slowdown = 1;
    for (int i = 0; i < cause_count; i++) {
        for (int at = causes[i].first; at <= causes[i].last; at++) {
            if (causes[i].kind != INJECT_RANK) {
                degrade_node(lanes, &causes[i], at);
                continue;
            }
            struct rank_group *group = group_of(lanes, at);
            group->slowdown = fmax(group->slowdown, causes[i].factor);
        }
    }
}

// One node of the cluster with slower links.
static struct cluster *degraded_cluster(struct arena *arena, const struct cluster *cluster,
                                        const struct rank_group *like)
{
    struct cluster *copy = ARENA_NEW(arena, struct cluster, 1);
    *copy = *cluster;
    copy->nodes = ARENA_NEW(arena, struct node_group, cluster->node_group_count + 2);
    copy->node_group_count = 0;
    int before = like->node;
    for (int i = 0; i < cluster->node_group_count; i++) {
        struct node_group group = cluster->nodes[i];
        int count = group.count;
        if (before < 0 || before >= count) {
            copy->nodes[copy->node_group_count++] = group;
            before -= count;
            continue;
        }
        group.count = before;
        if (before > 0) copy->nodes[copy->node_group_count++] = group;
        struct node_group slow = group;
        slow.count = 1;
        if (like->nic_ratio > 0) slow.nics.bandwidth_bytes_per_s *= like->nic_ratio;
        if (like->link_ratio > 0) slow.intra.bandwidth_bytes_per_s *= like->link_ratio;
        copy->nodes[copy->node_group_count++] = slow;
        group.count = count - before - 1;
        if (group.count > 0) copy->nodes[copy->node_group_count++] = group;
        before = -1;
    }
    assert(before < 0 && copy->node_group_count <= cluster->node_group_count + 2);
    return copy;
}

// A link that lost bandwidth is still of its kind: its row, made for fast links, reaches down to
// it.
static void lower_row(struct fabrics *fabrics, const char *kind, double was_bytes_per_s,
                      double ratio)
{
    const struct fabric *row = fabrics_find(fabrics, kind, was_bytes_per_s);
    if (!row || ratio <= 0) return;
    struct fabric *changed = &fabrics->rows[row - fabrics->rows];
    changed->link_bytes_per_s_least =
        fmin(changed->link_bytes_per_s_least, was_bytes_per_s * ratio);
}

static const struct step_price *group_price(struct arena *arena,
                                            const struct evaluation_request *request,
                                            const struct evaluation *evaluation,
                                            const struct rank_group *like)
{
    struct price_context context = evaluation_context(request);
    context.compute.device = like->device;
    context.at_stage = like->at_stage;
    context.micro_batch_count = like->micro_batch_count;
    if (!is_degraded(like)) return step_price(arena, &context, evaluation->program);
    int first, end;
    node_ranks(request->cluster, like->node, &first, &end);
    const struct node_group *group = cluster_group_of(request->cluster, first);
    struct fabrics *fabrics = fabrics_copy(arena, request->fabrics);
    lower_row(fabrics, group->intra.kind, group->intra.bandwidth_bytes_per_s, like->link_ratio);
    lower_row(fabrics, request->cluster->network.kind, group->nics.bandwidth_bytes_per_s,
              like->nic_ratio);
    context.fabrics = fabrics;
    context.cluster = degraded_cluster(arena, request->cluster, like);
    return step_price(arena, &context, evaluation->program);
}

static int price_of(struct arena *arena, const struct evaluation_request *request,
                    const struct evaluation *evaluation, struct lanes *lanes,
                    const struct rank_group *group)
{
    for (int at = 0; at < lanes->price_count; at++) {
        const struct rank_group *other = &lanes->priced[at];
        bool is_like = other->device == group->device && other->nic_ratio == group->nic_ratio &&
                       other->link_ratio == group->link_ratio &&
                       other->at_stage == group->at_stage &&
                       other->micro_batch_count == group->micro_batch_count;
        if (is_like && (!is_degraded(group) || other->kind == group->kind)) return at;
    }
    lanes->priced[lanes->price_count] = *group;
    lanes->prices[lanes->price_count] = group_price(arena, request, evaluation, group);
    return lanes->price_count++;
}

// As the groups know it: of node groups with equal devices that of the first.
static const struct device *slowest_device(const struct evaluation_request *request)
{
    const struct cluster *cluster = request->cluster;
    const struct device *slowest = cluster_slowest_device(cluster, request->workload.precision);
    int group = 0;
    while (cluster->nodes[group].device != slowest)
        group++;
    return cluster->nodes[cluster_device_kind(cluster, group)].device;
}

// Into how many different numbers of micro-batches replicas part the batch.
static int kinds_of_counts(const struct lanes *lanes)
{
    int kinds = 0;
    for (int i = 0; i < lanes->pipeline_count; i++) {
        int before = 0, stages = lanes->stage_count;
        while (lanes->groups[before * stages].micro_batch_count !=
               lanes->groups[i * stages].micro_batch_count)
            before++;
        kinds += before == i;
    }
    assert(kinds >= 1 && "a pipeline has micro-batches");
    return kinds;
}

// Groups of one device whose links lost as much, on nodes of one kind, with as many micro-batches,
// share a price. A node that lost some is of the stage that it is of, whichever others are like
// that.
static void price_groups(struct arena *arena, const struct evaluation_request *request,
                         const struct evaluation *evaluation, int cause_count, struct lanes *lanes)
{
    int kinds = lanes->cluster->node_group_count;
    int most = 1 + (1 + (cause_count + 1) * (cause_count + 1) * kinds) * (kinds + 1) *
                       (lanes->stage_count + 1) * kinds_of_counts(lanes);
    lanes->priced = ARENA_NEW(arena, struct rank_group, most);
    lanes->prices = ARENA_NEW(arena, const struct step_price *, most);
    lanes->prices[0] = evaluation->price;
    lanes->priced[0].device = slowest_device(request);
    lanes->priced[0].micro_batch_count = evaluation->program->shape.micro_batch_count;
    lanes->price_count = 1;
    for (int i = 0; i < lanes->pipeline_count * lanes->stage_count; i++) {
        struct rank_group *group = &lanes->groups[i], calm = *group;
        calm.nic_ratio = calm.link_ratio = 0;
        group->price = group->base = price_of(arena, request, evaluation, lanes, &calm);
        if (is_degraded(group) && group->at_stage > 0) group->at_stage = 1 + i % lanes->stage_count;
        if (is_degraded(group)) group->price = price_of(arena, request, evaluation, lanes, group);
        assert(lanes->price_count <= most && "more kinds of degraded nodes than causes");
    }
}

// What a stage's ranks do together is as slow as for any of them: the price by which a whole step
// of the stage's reductions takes longest.
static void price_stages(struct arena *arena, struct lanes *lanes)
{
    const struct schedule_shape *shape = &lanes->prices[0]->shape;
    lanes->stage_price = ARENA_NEW(arena, int, lanes->stage_count);
    for (int stage = 0; stage < lanes->stage_count; stage++)
        lanes->stage_price[stage] = lanes->groups[stage].base;
    for (int i = 0; i < lanes->pipeline_count * lanes->stage_count; i++) {
        int stage = i % lanes->stage_count,
            prices[2] = {lanes->stage_price[stage], lanes->groups[i].price};
        double together_s[2] = {0};
        if (prices[0] == prices[1]) continue;
        for (int k = 0; k < 2; k++) {
            const struct step_price *price = lanes->prices[prices[k]];
            together_s[k] = price->norm_s;
            for (int t = 0; t < price->tie_count; t++)
                together_s[k] += price->ties[t].s;
            for (int chunk = 0; chunk < shape->chunk_count; chunk++) {
                int class = price->class_of[stage * shape->chunk_count + chunk];
                const struct chunk_price *own = &price->classes[class];
                together_s[k] += own->gradient_reduce_s + own->parameter_gather_s +
                                 own->small_reduce_s + own->update_s;
            }
        }
        if (together_s[1] > together_s[0]) lanes->stage_price[stage] = prices[1];
    }
}

bool lanes_is_concerned(const struct lanes *lanes, int pipeline)
{
    for (int stage = 0; stage < lanes->stage_count; stage++) {
        const struct rank_group *group =
            &lanes->groups[(ptrdiff_t)pipeline * lanes->stage_count + stage];
        if (group->slowdown > 1 || group->price != group->base) return true;
    }
    return false;
}

static bool are_alike(const struct lanes *lanes, int a, int b)
{
    for (int stage = 0; stage < lanes->stage_count; stage++) {
        const struct rank_group *one = &lanes->groups[(ptrdiff_t)a * lanes->stage_count + stage];
        const struct rank_group *other = &lanes->groups[(ptrdiff_t)b * lanes->stage_count + stage];
        if (one->slowdown != other->slowdown || one->price != other->price) return false;
        if (one->micro_batch_count != other->micro_batch_count) return false;
    }
    return true;
}

static void add_lane(struct arena *arena, struct lanes *lanes, int pipeline)
{
    struct lane_stage *stages = ARENA_NEW(arena, struct lane_stage, lanes->stage_count);
    for (int stage = 0; stage < lanes->stage_count; stage++) {
        const struct rank_group *group =
            &lanes->groups[(ptrdiff_t)pipeline * lanes->stage_count + stage];
        stages[stage].slowdown = group->slowdown;
        stages[stage].price = group->price;
    }
    lanes->pipeline_of[lanes->count] = pipeline;
    int micro_batches = lanes->groups[(ptrdiff_t)pipeline * lanes->stage_count].micro_batch_count;
    lanes->list[lanes->count++] = (struct engine_lane){0, stages, micro_batches};
    assert(micro_batches > 0 && lanes->count <= lanes->pipeline_count);
}

static void fold(struct arena *arena, struct lanes *lanes, bool keep_apart)
{
    lanes->lane_of = ARENA_NEW(arena, int, lanes->pipeline_count);
    lanes->pipeline_of = ARENA_NEW(arena, int, lanes->pipeline_count);
    lanes->list = ARENA_NEW(arena, struct engine_lane, lanes->pipeline_count);
    for (int pipeline = 0; pipeline < lanes->pipeline_count; pipeline++) {
        int lane = keep_apart ? lanes->count : 0;
        while (lane < lanes->count && !are_alike(lanes, lanes->pipeline_of[lane], pipeline))
            lane++;
        if (lane == lanes->count) add_lane(arena, lanes, pipeline);
        lanes->lane_of[pipeline] = lane;
        lanes->list[lane].pipeline_count++;
    }
}

struct lanes *lanes_make(struct arena *arena, const struct evaluation_request *request,
                         const struct evaluation *evaluation, const struct injection_cause *causes,
                         int cause_count, bool keep_apart)
{
    struct lanes *lanes = ARENA_NEW(arena, struct lanes, 1);
    const struct program *program = evaluation->program;
    lanes->mesh = &program->mesh;
    lanes->cluster = request->cluster;
    lanes->step_axes = step_axes(program);
    lanes->stage_count = program->shape.stage_count;
    lanes->pipeline_count = mesh_stage_ranks(lanes->mesh, 0) / lanes_group_size(lanes, 0);
    assert(mesh_stage_ranks(lanes->mesh, 0) % lanes_group_size(lanes, 0) == 0);
    lanes->groups = ARENA_NEW(arena, struct rank_group,
                              (size_t)lanes->pipeline_count * (size_t)lanes->stage_count);
    place_groups(request, program, lanes);
    link_groups(lanes);
    mark_groups(lanes, causes, cause_count);
    price_groups(arena, request, evaluation, cause_count, lanes);
    price_stages(arena, lanes);
    fold(arena, lanes, keep_apart);
    return lanes;
}

// Of the ranks of a group the first of each slowdown: the others do the same at the same time.
// Returns how many those are.
static int keep_different(const struct injection_cause *causes, int cause_count, int size,
                          int *ranks, double *slowdown)
{
    int kept = 0;
    for (int i = 0; i < size; i++) {
        double own = lanes_rank_slowdown(causes, cause_count, ranks[i]);
        int at = 0;
        while (at < kept && slowdown[at] != own)
            at++;
        if (at < kept) continue;
        ranks[kept] = ranks[i];
        slowdown[kept++] = own;
        assert(kept <= size && own >= 1);
    }
    return kept;
}

void lanes_show(struct arena *arena, struct lanes *lanes, const struct injection_cause *causes,
                int cause_count)
{
    int concerned = 0, others = 0;
    for (int lane = 0; lane < lanes->count; lane++) {
        int pipeline = lanes->pipeline_of[lane];
        bool is_concerned = lanes_is_concerned(lanes, pipeline);
        int *seen = is_concerned ? &concerned : &others;
        if ((*seen)++ >= (is_concerned ? SHOWN_LANES_MOST : 1)) continue;
        struct lane_stage *stages = ARENA_NEW(arena, struct lane_stage, lanes->stage_count);
        for (int stage = 0; stage < lanes->stage_count; stage++) {
            int size = lanes_group_size(lanes, stage);
            int *ranks = ARENA_NEW(arena, int, size);
            double *slowdown = ARENA_NEW(arena, double, size);
            lanes_group_ranks(lanes, pipeline, stage, ranks);
            int shown = keep_different(causes, cause_count, size, ranks, slowdown);
            stages[stage] = lanes->list[lane].stages[stage];
            stages[stage].shown_count = is_concerned ? shown : 1;
            stages[stage].shown = ranks;
            stages[stage].shown_slowdown = slowdown;
        }
        lanes->list[lane].stages = stages;
    }
}
