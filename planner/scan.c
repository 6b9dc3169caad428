#include "planner/scan.h"

#include "core/progress.h"
#include "plan/step_end.h"
#include "planner/scan_walk.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A single micro-batch needs no sums of gradients, nor do they wait for others: where that spares
// memory the largest micro-batch may have room though smaller ones have none.
static bool is_lean(const struct scan_walk *walk, const struct space_group *group)
{
    const struct search_request *request = walk->scan.space->request;
    const struct space_mesh *mesh = &walk->scan.space->meshes[group->mesh];
    bool spares = request->stack->accumulates_whole || step_streams(&request->workload);
    int64_t sequences = (int64_t)mesh->degree[AXIS_DP] * group->micro_batch;
    return spares && request->workload.global_batch == sequences;
}

// Groups in which a larger micro-batch never needs less memory.
static bool same_family(const struct scan_walk *walk, const struct space_group *a,
                        const struct space_group *b)
{
    return a->mesh == b->mesh && a->attention == b->attention && a->sp == b->sp &&
           is_lean(walk, a) == is_lean(walk, b);
}

// The next larger micro-batch of a family, or -1.
static int next_of(const struct scan_walk *walk, int index)
{
    if (index + 1 == walk->scan.space->group_count) return -1;
    const struct space_group *groups = walk->scan.space->groups;
    return same_family(walk, &groups[index], &groups[index + 1]) ? index + 1 : -1;
}

// The first from `index` on in its family that has plans, or -1.
static int filled_from(const struct scan_walk *walk, int index)
{
    while (index >= 0 && walk->groups[index].tails->count == 0) {
        index = next_of(walk, index);
    }
    return index;
}

// A larger micro-batch has no shorter step than a smaller one, with which it is asked about in
// turn, unless its number of micro-batches lets it take a kind of schedule that the smaller one
// cannot: the next such one of the family behind `index`, or -1.
static int widened_from(const struct scan_walk *walk, int index)
{
    unsigned kinds = walk->groups[index].tails->kinds;
    do {
        index = filled_from(walk, next_of(walk, index));
    } while (index >= 0 && (walk->groups[index].tails->kinds & ~kinds) == 0);
    return index;
}

static bool has_room(struct scan_walk *walk, const struct scan_group *group)
{
    const struct space *space = walk->scan.space;
    return bound_has_room(space->request, scan_facts(walk, group->group),
                          &space->meshes[group->group->mesh], group->group, group->tails,
                          walk->scan.limit_bytes);
}

static void note(double *least_s, double bound_s)
{
    *least_s = fmin(*least_s, bound_s);
}

static bool is_pipelined(const struct scan_walk *walk, const struct scan_group *group)
{
    return walk->scan.space->meshes[group->group->mesh].degree[AXIS_PP] > 1;
}

// A larger micro-batch never needs less memory, so with one that has no room the rest of its family
// goes. What the space does not hold may have room all the same, in each of them.
static void drop_family(struct scan_walk *walk, int index)
{
    struct probe sequence = {{0, 0}, 0};
    for (index = filled_from(walk, index); index >= 0;
         index = filled_from(walk, next_of(walk, index))) {
        struct scan_group *group = &walk->groups[index];
        if (group->sequence.layer_s > 0) sequence = group->sequence;
        if (group->done) continue;
        group->sequence = sequence;
        double kept_s = scan_kept_bound(walk, index);
        bool may_split = is_pipelined(walk, group) && has_room(walk, group);
        if (may_split && !isinf(scan_saturated_bound(walk, index)))
            note(&walk->scan.result.piped_s, kept_s);
        group->pressed = group->done = true;
        walk->scan.result.unfit_count += group->tails->plan_count;
    }
}

// `sequence` is a lower bound on the work of one sequence in its family. False where the rest of
// the family has no room.
static bool push_graph(struct scan_walk *walk, int index, struct probe sequence)
{
    struct scan_group *group = &walk->groups[index];
    if (group->pushed) return true;
    group->pushed = true;
    if (!has_room(walk, group)) {
        drop_family(walk, index);
        return false;
    }
    group->sequence = sequence;
    double size = group->group->micro_batch;
    struct bound_work work = {sequence.work.all_s * size, sequence.work.chain_s * size};
    double bound_s = fmax(scan_saturated_bound(walk, index),
                          scan_work_bound(walk, group, work, sequence.layer_s * size));
    if (isinf(bound_s)) {
        drop_family(walk, index);
        return false;
    }
    scan_queue_push(&walk->queue, (struct scan_entry){bound_s, index, LEVEL_GRAPH});
    return true;
}

// The first from `index` on, and all that it does not bound.
static void push_graphs(struct scan_walk *walk, int index, struct probe sequence)
{
    index = filled_from(walk, index);
    while (index >= 0 && push_graph(walk, index, sequence))
        index = widened_from(walk, index);
}

// No plan of the family, which begins at `index`, is faster; INFINITY: none of it has room.
static double family_bound(struct scan_walk *walk, int index)
{
    double least_s = scan_saturated_bound(walk, index);
    if (isinf(least_s)) return least_s;
    while ((index = widened_from(walk, index)) >= 0)
        least_s = fmin(least_s, scan_saturated_bound(walk, index));
    return least_s;
}

// No micro-batch of the family, which begins at `index`, takes less a sequence than this. Asked of
// the largest that has room, rounded up to a size that many families share.
static struct probe family_sequence(struct scan_walk *walk, int index)
{
    int largest = index;
    for (int at = index; at >= 0; at = filled_from(walk, next_of(walk, at))) {
        if (!has_room(walk, &walk->groups[at])) {
            drop_family(walk, at);
            break;
        }
        largest = at;
    }
    const struct scan_group *group = &walk->groups[largest];
    const struct space *space = walk->scan.space;
    double tokens = (double)space->request->workload.seq_len /
                    space->meshes[group->group->mesh].degree[AXIS_CP];
    int size = 1;
    while (size < group->group->micro_batch && size * tokens < SCAN_TOKENS_MOST)
        size *= 2;
    struct probe found = scan_probe(walk, group, size, SCAN_LAST_WAVE_RATIO);
    return (struct probe){{found.work.all_s / size, found.work.chain_s / size},
                          found.layer_s / size};
}

static double least_bytes(struct scan_walk *walk, const struct scan_group *group)
{
    const struct space *space = walk->scan.space;
    return bound_bytes(space->request, scan_facts(walk, group->group),
                       &space->meshes[group->group->mesh], group->tails);
}

// Makes the group the one that is asked about; false when no plan of it has room.
static bool enter(struct scan_walk *walk, struct scan_group *group)
{
    if (!has_room(walk, group)) return false;
    group_enter(&walk->scan, group);
    return group_has_room(&walk->scan, group);
}

// Whether the update alone makes every plan of a group too slow, none of whose work takes less than
// this. The bounds of what the space does not hold know nothing of updates.
static bool updates_too_long(struct scan_walk *walk, const struct scan_group *group, double work_s)
{
    const struct space *space = walk->scan.space;
    double update_s = bound_update_s(
        memo_context(walk->scan.request->memo), space->request, scan_facts(walk, group->group),
        &space->meshes[group->group->mesh], group->group, group->tails, walk->scan.limit_bytes);
    return update_s > 0 && !scan_may_take(&walk->scan, (work_s + update_s) * (1 - 1e-9), 0);
}

static void find_host_updates(struct scan_walk *walk, const struct scan_group *group)
{
    const struct space *space = walk->scan.space;
    for (int shards = 0; shards < 2; shards++)
        walk->scan.host_update_s[shards] = bound_host_update_s(
            memo_context(walk->scan.request->memo), space->request, scan_facts(walk, group->group),
            &space->meshes[group->group->mesh], shards);
}

// Looks one step closer at a group.
static void look(struct scan_walk *walk, struct scan_entry entry)
{
    struct scan_group *group = &walk->groups[entry.group];
    double bound_s = entry.bound_s;
    struct probe found;
    if (group->done) return;
    switch (entry.level) {
    case LEVEL_FAMILY:
        push_graphs(walk, entry.group, family_sequence(walk, entry.group));
        return;
    case LEVEL_GRAPH:
        found = scan_probe(walk, group, group->group->micro_batch, 1);
        bound_s = fmax(bound_s, scan_work_bound(walk, group, found.work, found.layer_s));
        if (is_pipelined(walk, group)) note(&walk->scan.result.piped_s, bound_s);
        push_graphs(walk, next_of(walk, entry.group), group->sequence);
        if (walk->scan.request->looks_most == 0 && updates_too_long(walk, group, bound_s)) {
            group->done = true;
            group->late_s = bound_s;
            return;
        }
        scan_queue_push(&walk->queue, (struct scan_entry){bound_s, entry.group, LEVEL_PROBE});
        return;
    case LEVEL_PROBE:
        group_enter(&walk->scan, group);
        group->kept_s = fmax(group->kept_s, group_bound(&walk->scan, group));
        note(&walk->scan.result.steady_s, group->kept_s);
        bound_s = fmax(bound_s, group->kept_s);
        scan_queue_push(&walk->queue, (struct scan_entry){bound_s, entry.group, LEVEL_BLOCKS});
        return;
    case LEVEL_BLOCKS:
        if (!enter(walk, group)) {
            drop_family(walk, entry.group);
            return;
        }
        group->done = true;
        if (updates_too_long(walk, group, bound_s)) {
            group->pressed = true;
            walk->looks += walk->scan.result.ranking.count > 0;
            return;
        }
        walk->scan.any = false;
        find_host_updates(walk, group);
        group_scan(&walk->scan, group);
        walk->looks += walk->scan.result.ranking.count > 0;
        if (!walk->scan.any) drop_family(walk, next_of(walk, entry.group));
        return;
    }
}

// At most five times a second.
static void report_progress(struct scan_walk *walk, double done_ratio)
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

// Of a group that was left out for its update before its blocks were priced what its work says, as
// if it had been looked at.
static void note_late(struct scan_walk *walk, struct scan_entry entry)
{
    struct scan_group *group = &walk->groups[entry.group];
    group_enter(&walk->scan, group);
    group->kept_s = fmax(group->kept_s, group_bound(&walk->scan, group));
    note(&walk->scan.result.steady_s, group->kept_s);
    if (group->pressed || scan_may_take(&walk->scan, fmax(group->late_s, group->kept_s), 0))
        note(&walk->scan.result.pressed_s, group->kept_s);
}

// What was looked at of a family bounds its larger micro-batches, too. Groups that were left out
// early are asked while one may say less than the others.
static void note_pressed(struct scan_walk *walk)
{
    struct scan_result *result = &walk->scan.result;
    walk->queue.count = 0;
    for (int i = 0; i < walk->scan.space->group_count; i++) {
        const struct scan_group *group = &walk->groups[i];
        struct scan_entry entry = {group->kept_s, i, LEVEL_PROBE};
        if (group->late_s > 0 && scan_may_take(&walk->scan, group->late_s, 0))
            scan_queue_push(&walk->queue, entry);
        else if (group->pressed)
            note(&result->pressed_s, group->kept_s);
    }
    while (walk->queue.count > 0) {
        struct scan_entry entry = scan_queue_pop(&walk->queue);
        if (entry.bound_s >= fmax(result->steady_s, result->pressed_s)) return;
        note_late(walk, entry);
    }
}

static void note_silent(struct scan_walk *walk)
{
    const struct space *space = walk->scan.space;
    struct scan_result *result = &walk->scan.result;
    for (int i = 0; i < ATTENTION_COUNT && space->group_count > 0; i++) {
        bool is_own = i == space->attentions.values[0];
        double least_s = saturated_step_s(walk->scan.request->memo, space, (enum attention)i);
        note(is_own ? &result->silent_s : &result->other_attention_s, least_s);
    }
}

// Chunks and layers to recompute that are pinned may be more than an even split has: another split
// has plans where the group has none.
static void note_uneven(struct scan_walk *walk)
{
    static const unsigned ALL = PIPELINE_FUSED | PIPELINE_CHUNKED | PIPELINE_PARTED;
    const struct space *space = walk->scan.space;
    const struct pins *pins = &space->request->pins;
    bool pinned = pins_get(pins, CHOICE_VPP).low > 1 ||
                  pins_get(pins, CHOICE_RECOMPUTE_LAYERS).low > 0 ||
                  pins_get(pins, CHOICE_OFFLOAD).low != 0;
    for (int i = 0; i < space->group_count && pinned; i++) {
        const struct scan_group *group = &walk->groups[i];
        if (group->tails->count > 0 || !is_pipelined(walk, group)) continue;
        struct space_tails tails = {.kinds = ALL};
        note(&walk->scan.result.piped_s,
             bound_step_s(space->request, scan_facts(walk, group->group),
                          &space->meshes[group->group->mesh], group->group->micro_batch, &tails));
    }
}

// Whether to leave out what has not been looked at yet.
static bool stops(struct scan_walk *walk)
{
    struct scan_result *result = &walk->scan.result;
    result->stopped = result->stopped || search_should_stop(walk->scan.request->search);
    return result->stopped;
}

// Best first, until the bound passes the worst plan kept.
static bool has_looked(const struct scan_walk *walk)
{
    int most = walk->scan.request->looks_most;
    return most > 0 && walk->looks > most;
}

static void walk_by_time(struct scan_walk *walk)
{
    int group_count = walk->scan.space->group_count;
    walk->queue.entries = ARENA_NEW(walk->scan.arena, struct scan_entry, group_count + 1);
    for (int i = 0; i < group_count; i++) {
        const struct space_group *groups = walk->scan.space->groups;
        if (i > 0 && same_family(walk, &groups[i], &groups[i - 1])) continue;
        int first = filled_from(walk, i);
        if (first < 0) continue;
        double bound_s = family_bound(walk, first);
        if (isinf(bound_s)) {
            drop_family(walk, first);
        } else {
            scan_queue_push(&walk->queue, (struct scan_entry){bound_s, first, LEVEL_FAMILY});
        }
    }
    double first_s = walk->queue.count > 0 ? walk->queue.entries[0].bound_s : 0;
    while (walk->queue.count > 0) {
        struct scan_entry entry = scan_queue_pop(&walk->queue);
        const struct ranking *ranking = &walk->scan.result.ranking;
        if (!scan_may_take(&walk->scan, entry.bound_s, 0) || has_looked(walk) || stops(walk)) break;
        look(walk, entry);
        double goal_s = ranking->count > 0 ? ranking->items[ranking->count - 1].cost.step_s : 0;
        report_progress(walk,
                        goal_s > first_s ? (entry.bound_s - first_s) / (goal_s - first_s) : 0);
    }
}

// One family after the other, that with the least to store first; when that is more than the
// largest plan kept, all is done. A larger micro-batch never needs less memory, so a family ends
// with the first that has nothing to offer.
static void walk_by_memory(struct scan_walk *walk)
{
    struct scan *scan = &walk->scan;
    int group_count = scan->space->group_count;
    double bound_s = INFINITY;
    walk->queue.entries = ARENA_NEW(scan->arena, struct scan_entry, group_count + 1);
    for (int i = 0; i < group_count; i++) {
        const struct space_group *groups = scan->space->groups;
        if (walk->groups[i].tails->count > 0) bound_s = fmin(bound_s, scan_graph_bound(walk, i));
        if (i > 0 && same_family(walk, &groups[i], &groups[i - 1])) continue;
        int first = filled_from(walk, i);
        if (first < 0) continue;
        scan_queue_push(&walk->queue, (struct scan_entry){least_bytes(walk, &walk->groups[first]),
                                                          first, LEVEL_FAMILY});
    }
    for (int count = walk->queue.count; walk->queue.count > 0;) {
        struct scan_entry entry = scan_queue_pop(&walk->queue);
        if (!scan_may_take(scan, 0, (int64_t)entry.bound_s) || stops(walk)) break;
        scan->any = true;
        for (int at = entry.group; at >= 0 && scan->any;
             at = filled_from(walk, next_of(walk, at))) {
            scan->any = false;
            if (!has_room(walk, &walk->groups[at])) {
                scan->result.unfit_count += walk->groups[at].tails->plan_count;
                continue;
            }
            group_enter(scan, &walk->groups[at]);
            group_scan(scan, &walk->groups[at]);
        }
        report_progress(walk, 1 - (double)walk->queue.count / count);
    }
    scan->result.bound_s = bound_s;
}

static void walk_all(struct scan_walk *walk)
{
    int group_count = walk->scan.space->group_count;
    for (int i = 0; i < group_count; i++) {
        struct scan_group *group = &walk->groups[i];
        if (group->tails->count == 0) continue;
        if (stops(walk)) break;
        group_enter(&walk->scan, group);
        group_scan(&walk->scan, group);
        report_progress(walk, (double)i / group_count);
    }
}

// States go nowhere that hosts have no room for them.
static const struct space_tails *tails_of(struct scan_walk *walk, const struct space_group *group)
{
    const struct scan_request *request = walk->scan.request;
    struct space *space = request->space;
    const struct space_tails *tails = space_tails(space, &request->graphs, group);
    if (request->ignore_limit || tails->state_tiers <= 1u << TIER_DEVICE) return tails;
    unsigned tiers = bound_state_tiers(space->request, scan_facts(walk, group),
                                       &space->meshes[group->mesh], tails);
    if (tiers == tails->state_tiers) return tails;
    struct space_tails *fewer = ARENA_NEW(walk->scan.arena, struct space_tails, 1);
    *fewer = *tails;
    fewer->state_tiers = tiers;
    return fewer;
}

struct scan_result scan_space(struct arena *arena, struct arena *scratch,
                              const struct scan_request *request)
{
    struct scan_walk walk = {
        .scan = {.arena = arena, .scratch = scratch, .request = request, .space = request->space}};
    struct scan *scan = &walk.scan;
    walk.start_s = walk.progress_s = clock_s();
    scan->limit_bytes =
        request->ignore_limit ? INT64_MAX : cluster_device_bytes(request->search->cluster);
    scan->composer = composer_new(arena, scratch, request->memo);
    scan->result.ranking = ranking_new(arena, request->objective, request->keep);
    double unasked_s = request->search->exhaustive ? 0 : INFINITY;
    scan->result.bound_s = INFINITY;
    scan->result.piped_s = scan->result.pressed_s = scan->result.steady_s = unasked_s;
    scan->result.silent_s = scan->result.other_attention_s = INFINITY;
    walk.groups = ARENA_NEW(arena, struct scan_group, request->space->group_count);
    for (int i = 0; i < request->space->group_count; i++) {
        struct scan_group *group = &walk.groups[i];
        group->group = &request->space->groups[i];
        group->tails = tails_of(&walk, group->group);
        scan->result.considered_count += group->tails->plan_count;
    }
    if (request->search->exhaustive) {
        walk_all(&walk);
    } else if (request->objective == OBJECTIVE_MEMORY) {
        walk_by_memory(&walk);
    } else {
        walk_by_time(&walk);
        note_pressed(&walk);
        note_uneven(&walk);
    }
    if (request->objective != OBJECTIVE_MEMORY) note_silent(&walk);
    return scan->result;
}
