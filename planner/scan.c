#include "planner/scan.h"

#include "core/progress.h"
#include "planner/bound.h"
#include "planner/scan_group.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// How closely a group has been looked at. Each step costs more and gives a higher bound.
enum level {
    LEVEL_FAMILY,  // bound from the graph alone
    LEVEL_GRAPH,   // the commonest layer of the largest micro-batch of the family is priced
    LEVEL_PROBE,   // that of its own is
    LEVEL_BLOCKS,  // all blocks are, with nothing redone or sharded
};

struct entry {
    double bound_s;
    int group;  // index, which breaks ties
    enum level level;
};

// Groups by their bounds, the lowest on top.
struct queue {
    struct entry *entries;
    int count;
};

enum { FACTS_MAX = 64 };

struct walk {
    struct scan scan;
    struct queue queue;
    struct scan_group *groups;
    struct {
        const struct graph *graph;
        struct bound_facts facts;
    } facts[FACTS_MAX];
    int facts_count;
    double progress_s, start_s;
};

static bool before(const struct entry *a, const struct entry *b)
{
    if (a->bound_s != b->bound_s) return a->bound_s < b->bound_s;
    return a->group < b->group;
}

static void queue_push(struct queue *queue, struct entry entry)
{
    int at = queue->count++;
    while (at > 0 && before(&entry, &queue->entries[(at - 1) / 2])) {
        queue->entries[at] = queue->entries[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    queue->entries[at] = entry;
}

static struct entry queue_pop(struct queue *queue)
{
    struct entry top = queue->entries[0], last = queue->entries[--queue->count];
    int at = 0;
    for (int child = 1; child < queue->count; child = 2 * at + 1) {
        if (child + 1 < queue->count &&
            before(&queue->entries[child + 1], &queue->entries[child])) {
            child++;
        }
        if (!before(&queue->entries[child], &last)) break;
        queue->entries[at] = queue->entries[child];
        at = child;
    }
    queue->entries[at] = last;
    return top;
}

static const struct bound_facts *facts_of(struct walk *walk, const struct space_group *group)
{
    const struct space *space = walk->scan.space;
    const struct space_graphs *graphs = &walk->scan.request->graphs;
    const struct graph *graph =
        graphs->of(graphs->context, group->attention, space->meshes[group->mesh].degree[AXIS_TP]);
    for (int i = 0; i < walk->facts_count; i++) {
        if (walk->facts[i].graph == graph) return &walk->facts[i].facts;
    }
    assert(walk->facts_count < FACTS_MAX);
    int at = walk->facts_count++;
    walk->facts[at].graph = graph;
    walk->facts[at].facts = bound_facts(graph, space->request->workload.seq_len);
    return &walk->facts[at].facts;
}

static double graph_bound(struct walk *walk, int index)
{
    const struct scan_group *group = &walk->groups[index];
    const struct space *space = walk->scan.space;
    return bound_step_s(space->request, facts_of(walk, group->group),
                        &space->meshes[group->group->mesh], group->group->micro_batch,
                        group->tails);
}

// One micro-batch through the commonest layers alone.
static double probe_s(struct walk *walk, const struct scan_group *group)
{
    const struct bound_facts *facts = facts_of(walk, group->group);
    struct parallel parallel = space_first(walk->scan.space, group->group, &group->tails->tails[0]);
    composer_group(walk->scan.composer, &parallel);
    return facts->probe_count * composer_probe(walk->scan.composer, &parallel, facts->probe_kind);
}

// And through the rest of the model, of which only the flops are known.
static double rest_s(struct walk *walk, const struct scan_group *group)
{
    const struct space *space = walk->scan.space;
    return bound_rest_s(space->request, facts_of(walk, group->group),
                        &space->meshes[group->group->mesh], group->group->micro_batch);
}

static double work_bound(const struct walk *walk, const struct scan_group *group, double work_s)
{
    const struct space *space = walk->scan.space;
    const struct space_mesh *mesh = &space->meshes[group->group->mesh];
    int64_t batch = space->request->workload.global_batch;
    int64_t micro_batches = batch / mesh->degree[AXIS_DP] / group->group->micro_batch;
    return bound_pipeline_s(work_s, mesh->degree[AXIS_PP], (int)micro_batches,
                            group->tails->one_chunk);
}

static bool same_family(const struct space_group *a, const struct space_group *b)
{
    return a->mesh == b->mesh && a->attention == b->attention && a->sp == b->sp;
}

// The next larger micro-batch of a family, or -1.
static int next_of(const struct walk *walk, int index)
{
    if (index + 1 == walk->scan.space->group_count) return -1;
    const struct space_group *groups = walk->scan.space->groups;
    return same_family(&groups[index], &groups[index + 1]) ? index + 1 : -1;
}

// The first from `index` on in its family that has plans, or -1.
static int filled_from(const struct walk *walk, int index)
{
    while (index >= 0 && walk->groups[index].tails->count == 0) {
        index = next_of(walk, index);
    }
    return index;
}

static void push_graph(struct walk *walk, int index, double sequence_s)
{
    index = filled_from(walk, index);
    if (index < 0) return;
    struct scan_group *group = &walk->groups[index];
    group->sequence_s = sequence_s;
    double bound_s = fmax(graph_bound(walk, index),
                          work_bound(walk, group, sequence_s * group->group->micro_batch));
    queue_push(&walk->queue, (struct entry){bound_s, index, LEVEL_GRAPH});
}

// No micro-batch of the family, which begins at `index`, takes less a sequence.
static double family_sequence_s(struct walk *walk, int index)
{
    int largest = index;
    for (int at = index; at >= 0; at = filled_from(walk, next_of(walk, at))) {
        largest = at;
    }
    const struct scan_group *group = &walk->groups[largest];
    double least_s = SCAN_LAST_WAVE_RATIO * probe_s(walk, group) + rest_s(walk, group);
    return least_s / group->group->micro_batch;
}

// A larger micro-batch never needs less memory, so with one that has no room the rest of its family
// goes.
static void drop_family(struct walk *walk, int index)
{
    for (; index >= 0; index = next_of(walk, index)) {
        if (walk->groups[index].done) continue;
        walk->groups[index].done = true;
        walk->scan.result.unfit_count += walk->groups[index].tails->plan_count;
    }
}

static double least_bytes(struct walk *walk, const struct scan_group *group)
{
    const struct space *space = walk->scan.space;
    return bound_bytes(space->request, facts_of(walk, group->group),
                       &space->meshes[group->group->mesh], group->tails);
}

// Looks one step closer at a group.
static void look(struct walk *walk, struct entry entry)
{
    struct scan_group *group = &walk->groups[entry.group];
    double bound_s = entry.bound_s;
    if (group->done) return;
    switch (entry.level) {
    case LEVEL_FAMILY:
        if (least_bytes(walk, group) <= (double)walk->scan.limit_bytes) {
            push_graph(walk, entry.group, family_sequence_s(walk, entry.group));
        } else {
            drop_family(walk, entry.group);
        }
        return;
    case LEVEL_GRAPH:
        bound_s =
            fmax(bound_s, work_bound(walk, group, probe_s(walk, group) + rest_s(walk, group)));
        queue_push(&walk->queue, (struct entry){bound_s, entry.group, LEVEL_PROBE});
        push_graph(walk, next_of(walk, entry.group), group->sequence_s);
        return;
    case LEVEL_PROBE:
        group_enter(&walk->scan, group);
        bound_s = fmax(bound_s, group_bound(&walk->scan, group));
        queue_push(&walk->queue, (struct entry){bound_s, entry.group, LEVEL_BLOCKS});
        return;
    case LEVEL_BLOCKS:
        group_enter(&walk->scan, group);
        walk->scan.any = false;
        group->done = true;
        group_scan(&walk->scan, group);
        if (!walk->scan.any) drop_family(walk, next_of(walk, entry.group));
        return;
    }
}

// At most five times a second.
static void report_progress(struct walk *walk, double done_ratio)
{
    const struct search_request *search = walk->scan.request->search;
    if (!search->progress) return;
    double now_s = clock_s();
    if (now_s - walk->progress_s < 0.2) return;
    const struct ranking *ranking = &walk->scan.result.ranking;
    double best_s = ranking->count > 0 ? ranking->items[0].cost.step_s : 0;
    double elapsed_s = now_s - walk->start_s;
    search->progress(search->progress_context, done_ratio, best_s,
                     elapsed_s > 0 ? walk->scan.result.priced_count / elapsed_s : 0);
    walk->progress_s = now_s;
}

// Best first, until the bound passes the worst plan kept.
static void walk_by_time(struct walk *walk)
{
    int group_count = walk->scan.space->group_count;
    walk->queue.entries = ARENA_NEW(walk->scan.arena, struct entry, group_count + 1);
    for (int i = 0; i < group_count; i++) {
        const struct space_group *groups = walk->scan.space->groups;
        if (i > 0 && same_family(&groups[i], &groups[i - 1])) continue;
        int first = filled_from(walk, i);
        if (first < 0) continue;
        queue_push(&walk->queue, (struct entry){graph_bound(walk, first), first, LEVEL_FAMILY});
    }
    double first_s = walk->queue.count > 0 ? walk->queue.entries[0].bound_s : 0;
    while (walk->queue.count > 0) {
        struct entry entry = queue_pop(&walk->queue);
        const struct ranking *ranking = &walk->scan.result.ranking;
        if (!scan_may_take(&walk->scan, entry.bound_s, 0)) break;
        look(walk, entry);
        double goal_s = ranking->count > 0 ? ranking->items[ranking->count - 1].cost.step_s : 0;
        report_progress(walk,
                        goal_s > first_s ? (entry.bound_s - first_s) / (goal_s - first_s) : 0);
    }
}

// One family after the other, that with the least to store first; when that is more than the
// largest plan kept, all is done. A larger micro-batch never needs less memory, so a family ends
// with the first that has nothing to offer.
static void walk_by_memory(struct walk *walk)
{
    struct scan *scan = &walk->scan;
    int group_count = scan->space->group_count;
    double bound_s = INFINITY;
    walk->queue.entries = ARENA_NEW(scan->arena, struct entry, group_count + 1);
    for (int i = 0; i < group_count; i++) {
        const struct space_group *groups = scan->space->groups;
        if (walk->groups[i].tails->count > 0) bound_s = fmin(bound_s, graph_bound(walk, i));
        if (i > 0 && same_family(&groups[i], &groups[i - 1])) continue;
        int first = filled_from(walk, i);
        if (first < 0) continue;
        queue_push(&walk->queue,
                   (struct entry){least_bytes(walk, &walk->groups[first]), first, LEVEL_FAMILY});
    }
    for (int count = walk->queue.count; walk->queue.count > 0;) {
        struct entry entry = queue_pop(&walk->queue);
        if (!scan_may_take(scan, 0, (int64_t)entry.bound_s)) break;
        scan->any = true;
        for (int at = entry.group; at >= 0 && scan->any;
             at = filled_from(walk, next_of(walk, at))) {
            scan->any = false;
            group_enter(scan, &walk->groups[at]);
            group_scan(scan, &walk->groups[at]);
        }
        report_progress(walk, 1 - (double)walk->queue.count / count);
    }
    scan->result.bound_s = bound_s;
}

static void walk_all(struct walk *walk)
{
    int group_count = walk->scan.space->group_count;
    for (int i = 0; i < group_count; i++) {
        struct scan_group *group = &walk->groups[i];
        if (group->tails->count == 0) continue;
        group_enter(&walk->scan, group);
        group_scan(&walk->scan, group);
        report_progress(walk, (double)i / group_count);
    }
}

struct scan_result scan_space(struct arena *arena, struct arena *scratch,
                              const struct scan_request *request)
{
    struct walk walk = {
        .scan = {.arena = arena, .scratch = scratch, .request = request, .space = request->space}};
    struct scan *scan = &walk.scan;
    walk.start_s = walk.progress_s = clock_s();
    scan->limit_bytes =
        request->ignore_limit ? INT64_MAX : cluster_device_bytes(request->search->cluster);
    scan->composer = composer_new(arena, scratch, request->memo);
    scan->result.ranking = ranking_new(arena, request->objective, request->keep);
    scan->result.bound_s = INFINITY;
    walk.groups = ARENA_NEW(arena, struct scan_group, request->space->group_count);
    for (int i = 0; i < request->space->group_count; i++) {
        struct scan_group *group = &walk.groups[i];
        group->group = &request->space->groups[i];
        group->tails = space_tails(request->space, &request->graphs, group->group);
        scan->result.considered_count += group->tails->plan_count;
    }
    if (request->search->exhaustive) {
        walk_all(&walk);
    } else if (request->objective == OBJECTIVE_MEMORY) {
        walk_by_memory(&walk);
    } else {
        walk_by_time(&walk);
    }
    return scan->result;
}

struct candidate candidate_copy(struct arena *arena, const struct candidate *plan)
{
    struct candidate copy = *plan;
    int count = plan->parallel.stage_layers_count;
    if (count == 0) return copy;
    int *layers = ARENA_NEW(arena, int, count);
    memcpy(layers, plan->parallel.stage_layers, (size_t)count * sizeof *layers);
    copy.parallel.stage_layers = layers;
    return copy;
}

bool scan_best(struct arena *arena, const struct search_request *request, struct candidate *best)
{
    struct arena work = {0}, scratch = {0};
    struct search_request quiet = *request;
    quiet.progress = NULL;
    struct scan_request scan = {.search = &quiet, .keep = 1, .objective = request->objective};
    scan.memo = memo_new(&work, &scratch, &quiet);
    scan.graphs = (struct space_graphs){memo_graph_of, scan.memo};
    scan.space = space_make(&work, &quiet, &scan.graphs);
    struct scan_result result = scan_space(&work, &scratch, &scan);
    bool found = result.ranking.count > 0;
    if (found) *best = candidate_copy(arena, &result.ranking.items[0]);
    arena_free(&scratch);
    arena_free(&work);
    return found;
}
