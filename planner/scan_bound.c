#include "planner/scan_walk.h"

#include "planner/refine.h"

#include <assert.h>
#include <math.h>

static struct known *known_of(struct scan_walk *walk, const struct space_group *group)
{
    const struct space *space = walk->scan.space;
    const struct space_graphs *graphs = &walk->scan.request->graphs;
    const struct graph *graph =
        graphs->of(graphs->context, group->attention, space->meshes[group->mesh].degree[AXIS_TP]);
    for (int i = 0; i < walk->known_count; i++) {
        if (walk->known[i].graph == graph) return &walk->known[i];
    }
    assert(walk->known_count < GRAPHS_MAX);
    struct known *known = &walk->known[walk->known_count++];
    known->graph = graph;
    known->facts = bound_facts(graph, space->request->workload.seq_len);
    known->saturated =
        saturated_make(walk->scan.request->memo, space, &known->facts, group->attention);
    return known;
}

const struct bound_facts *scan_facts(struct scan_walk *walk, const struct space_group *group)
{
    return &known_of(walk, group)->facts;
}

const struct saturated **scan_saturated(struct scan_walk *walk, const struct space_group *group)
{
    struct known *known = known_of(walk, group);
    const struct graph *graph = known->graph;
    if (known->layers) return known->layers;
    known->layers = ARENA_NEW(walk->scan.arena, const struct saturated *, graph->block_count);
    for (int kind = 0; kind < graph->block_count; kind++) {
        if (graph->blocks[kind].role != BLOCK_LAYER) continue;
        struct saturated *layer = ARENA_NEW(walk->scan.arena, struct saturated, 1);
        *layer =
            saturated_of_kind(walk->scan.request->memo, walk->scan.space, kind, group->attention);
        known->layers[kind] = layer;
    }
    return known->layers;
}

void scan_find_facts(struct scan_walk *walk, const struct scan_group *group)
{
    const struct space *space = walk->scan.space;
    walk->scan.saturated = scan_saturated(walk, group->group);
    walk->scan.probe_kind = scan_facts(walk, group->group)->probe_kind;
    for (int shards = 0; shards < 2; shards++)
        walk->scan.host_update_s[shards] = bound_host_update_s(
            memo_context(walk->scan.request->memo), space->request, scan_facts(walk, group->group),
            &space->meshes[group->group->mesh], shards);
}

double scan_graph_bound(struct scan_walk *walk, int index)
{
    const struct scan_group *group = &walk->groups[index];
    const struct space *space = walk->scan.space;
    return bound_step_s(space->request, scan_facts(walk, group->group),
                        &space->meshes[group->group->mesh], group->group->micro_batch,
                        group->tails);
}

// So many layers of a kind, added to what the rest takes.
static struct composer_probe add_layers(const struct scan_walk *walk,
                                        const struct parallel *parallel, int kind, double count,
                                        struct bound_work *work)
{
    struct composer_probe probe = composer_probe(walk->scan.composer, parallel, kind);
    work->all_s += count * probe.work.all_s;
    work->chain_s += count * probe.work.chain_s;
    return probe;
}

struct probe scan_probe(struct scan_walk *walk, const struct scan_group *group, int micro_batch,
                        int others, double ratio)
{
    assert(micro_batch >= 1 && ratio > 0 && ratio <= 1);
    const struct space *space = walk->scan.space;
    const struct bound_facts *facts = scan_facts(walk, group->group);
    const struct space_mesh *mesh = &space->meshes[group->group->mesh];
    struct parallel parallel = space_first(space, group->group, &group->tails->tails[0]);
    parallel.micro_batch = micro_batch;
    composer_group(walk->scan.composer, &parallel);
    struct bound_work work = bound_rest(space->request, facts, mesh, micro_batch, others);
    for (int i = 0; i < others; i++) {
        const struct bound_layers *layers = &facts->others[i];
        (void)add_layers(walk, &parallel, layers->kind, ratio * layers->count, &work);
    }
    struct composer_probe probe =
        add_layers(walk, &parallel, facts->probe_kind, ratio * facts->probe_count, &work);
    return (struct probe){
        work,
        ratio * probe.work.all_s,
        {ratio * probe.window.forward_s, ratio * probe.window.backward_s},
        ratio * probe.hideable_s,
    };
}

bool scan_price_others(struct scan_walk *walk, struct scan_group *group)
{
    int count = scan_facts(walk, group->group)->other_count;
    assert(group->others_priced < count);
    struct probe found =
        scan_probe(walk, group, group->group->micro_batch, ++group->others_priced, 1);
    double bound_s = scan_work_bound(walk, group, found.work, found.layer_s);
    group->bound_s = fmax(group->bound_s, bound_s);
    if (walk->order == ORDER_WHOLE) scan_raise_whole(walk, group, &found);
    return group->others_priced < count;
}

double scan_work_bound(struct scan_walk *walk, struct scan_group *group, struct bound_work work,
                       double layer_s)
{
    const struct space *space = walk->scan.space;
    const struct space_mesh *mesh = &space->meshes[group->group->mesh];
    const struct known *known = known_of(walk, group->group);
    int64_t batch = space->request->workload.global_batch;
    int64_t micro_batches = batch / mesh->degree[AXIS_DP] / group->group->micro_batch;
    assert(micro_batches >= 1 && work.all_s >= 0 && layer_s >= 0);
    const struct saturated_question question = {
        space->request, &known->facts, &known->saturated,      mesh,
        group->group,   group->tails,  walk->scan.limit_bytes, NULL};
    struct saturated_room room = saturated_room(&question, layer_s);
    double kept_s =
        bound_pipeline_s(work, mesh->degree[AXIS_PP], (int)micro_batches, group->tails->kinds);
    group->kept_s = fmax(group->kept_s, kept_s);
    group->pressed |= room.recompute_s > 0;
    work.all_s += room.recompute_s, work.chain_s += room.recompute_s;
    double step_s =
        bound_pipeline_s(work, mesh->degree[AXIS_PP], (int)micro_batches, group->tails->kinds);
    return fmax(step_s, (double)micro_batches * room.stage_s);
}

double scan_saturated_bound(struct scan_walk *walk, int index)
{
    struct scan_group *group = &walk->groups[index];
    const struct space_mesh *mesh = &walk->scan.space->meshes[group->group->mesh];
    const struct known *known = known_of(walk, group->group);
    int size = group->group->micro_batch;
    struct bound_work work = saturated_work(&known->facts, &known->saturated, mesh, size);
    struct bound_work rest = bound_rest(walk->scan.space->request, &known->facts, mesh, size, 0);
    double layer_s = work.all_s / known->facts.probe_count;
    work.all_s += rest.all_s, work.chain_s += rest.chain_s;
    return fmax(scan_graph_bound(walk, index), scan_work_bound(walk, group, work, layer_s));
}

double scan_kept_bound(struct scan_walk *walk, int index)
{
    struct scan_group *group = &walk->groups[index];
    if (group->kept_s <= 0) {
        double size = group->group->micro_batch;
        const struct probe *sequence = &group->sequence;
        struct bound_work work = {sequence->work.all_s * size, sequence->work.chain_s * size};
        (void)scan_saturated_bound(walk, index);
        (void)scan_work_bound(walk, group, work, sequence->layer_s * size);
    }
    return group->kept_s;
}

// Seconds of a step whose micro-batches are no less work than this; INFINITY: none has room.
static double room_step_s(struct scan_walk *walk, const struct scan_group *group,
                          const struct probe *found, const struct space_tails *tails)
{
    const struct space *space = walk->scan.space;
    const struct known *known = known_of(walk, group->group);
    const struct space_mesh *mesh = &space->meshes[group->group->mesh];
    int stages = mesh->degree[AXIS_PP];
    int micro_batches = (int)(space->request->workload.global_batch / mesh->degree[AXIS_DP] /
                              group->group->micro_batch);
    struct saturated_copies copies = {0, found->window, found->hideable_s};
    const struct saturated_question question = {
        space->request,         &known->facts,
        &known->saturated,      mesh,
        group->group,           tails,
        walk->scan.limit_bytes, tails->moves_activations ? &copies : NULL};
    if (tails->moves_activations)
        copies.bytes_per_s = offload_bytes_per_s(memo_context(walk->scan.request->memo), TIER_HOST);
    struct saturated_room room = saturated_room(&question, found->layer_s);
    struct bound_work work = found->work;
    work.all_s += room.recompute_s, work.chain_s += room.recompute_s;
    return fmax(bound_pipeline_s(work, stages, micro_batches, tails->kinds),
                micro_batches * room.stage_s);
}

// The same with states on the device or away from it, whose update hosts do then.
static double placed_step_s(struct scan_walk *walk, const struct scan_group *group,
                            const struct probe *found, bool is_away)
{
    const struct space *space = walk->scan.space;
    const struct bound_facts *facts = scan_facts(walk, group->group);
    const struct space_mesh *mesh = &space->meshes[group->group->mesh];
    struct space_tails tails = *group->tails;
    tails.state_tiers &= is_away ? ~(1u << TIER_DEVICE) : 1u << TIER_DEVICE;
    if (!bound_has_room(space->request, facts, mesh, group->group, &tails, walk->scan.limit_bytes))
        return INFINITY;
    double update_s = 0;
    if (is_away)
        update_s = bound_host_update_s(memo_context(walk->scan.request->memo), space->request,
                                       facts, mesh, tails.zero_most >= 1);
    return (room_step_s(walk, group, found, &tails) + update_s) * (1 - 1e-9);
}

void scan_raise_whole(struct scan_walk *walk, struct scan_group *group, const struct probe *found)
{
    double least_s = placed_step_s(walk, group, found, false);
    least_s = fmin(least_s, placed_step_s(walk, group, found, true));
    group->whole_s = fmax(group->whole_s, least_s);
}

void scan_raise_saturated(struct scan_walk *walk, int index)
{
    struct scan_group *group = &walk->groups[index];
    const struct space_mesh *mesh = &walk->scan.space->meshes[group->group->mesh];
    const struct known *known = known_of(walk, group->group);
    int size = group->group->micro_batch;
    double share = size / space_sample_ranks(mesh);
    const struct copy_window *window = &known->saturated.window;
    struct bound_work work = saturated_work(&known->facts, &known->saturated, mesh, size);
    struct bound_work rest = bound_rest(walk->scan.space->request, &known->facts, mesh, size, 0);
    struct probe found = {{work.all_s + rest.all_s, work.chain_s + rest.chain_s},
                          work.all_s / known->facts.probe_count,
                          {share * window->forward_s, share * window->backward_s},
                          0};
    scan_raise_whole(walk, group, &found);
}

double scan_update_s(struct scan_walk *walk, const struct scan_group *group)
{
    const struct space *space = walk->scan.space;
    return bound_update_s(memo_context(walk->scan.request->memo), space->request,
                          scan_facts(walk, group->group), &space->meshes[group->group->mesh],
                          group->group, group->tails, walk->scan.limit_bytes);
}

bool scan_is_behind(struct scan_walk *walk, const struct scan_group *group)
{
    double kept_s = group->kept_s + scan_update_s(walk, group);
    return refine_is_behind(&walk->scan, kept_s * (1 - 1e-9));
}

bool scan_is_settled(struct scan_walk *walk, const struct scan_group *group)
{
    const struct scan_result *result = &walk->scan.result;
    double kept_s = group->kept_s;
    if (scan_may_take(&walk->scan, group->whole_s, 0)) return false;
    if (kept_s < result->steady_s || kept_s < result->pressed_s) return false;
    if (scan_is_pipelined(walk, group) && kept_s < result->piped_s) return false;
    return scan_is_behind(walk, group);
}
