#include "planner/scan_walk.h"

#include <assert.h>
#include <math.h>

static const struct known *known_of(struct scan_walk *walk, const struct space_group *group)
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

double scan_graph_bound(struct scan_walk *walk, int index)
{
    const struct scan_group *group = &walk->groups[index];
    const struct space *space = walk->scan.space;
    return bound_step_s(space->request, scan_facts(walk, group->group),
                        &space->meshes[group->group->mesh], group->group->micro_batch,
                        group->tails);
}

struct probe scan_probe(struct scan_walk *walk, const struct scan_group *group, int micro_batch,
                        double ratio)
{
    const struct space *space = walk->scan.space;
    const struct bound_facts *facts = scan_facts(walk, group->group);
    struct parallel parallel = space_first(space, group->group, &group->tails->tails[0]);
    parallel.micro_batch = micro_batch;
    composer_group(walk->scan.composer, &parallel);
    struct bound_work layer = composer_probe(walk->scan.composer, &parallel, facts->probe_kind);
    struct bound_work rest =
        bound_rest(space->request, facts, &space->meshes[group->group->mesh], micro_batch);
    double count = ratio * facts->probe_count;
    return (struct probe){
        {count * layer.all_s + rest.all_s, count * layer.chain_s + rest.chain_s},
        ratio * layer.all_s,
    };
}

double scan_work_bound(struct scan_walk *walk, struct scan_group *group, struct bound_work work,
                       double layer_s)
{
    const struct space *space = walk->scan.space;
    const struct space_mesh *mesh = &space->meshes[group->group->mesh];
    const struct known *known = known_of(walk, group->group);
    int64_t batch = space->request->workload.global_batch;
    int64_t micro_batches = batch / mesh->degree[AXIS_DP] / group->group->micro_batch;
    const struct saturated_question question = {
        space->request, &known->facts, &known->saturated,     mesh,
        group->group,   group->tails,  walk->scan.limit_bytes};
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
    struct bound_work rest = bound_rest(walk->scan.space->request, &known->facts, mesh, size);
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
