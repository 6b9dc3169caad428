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
    bool sums = stack_keeps_sums(request->stack, mesh->degree[AXIS_PP] > 1);
    bool spares = sums || step_streams(&request->workload);
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

// A larger micro-batch never needs less memory, so with one that has no room the rest of its family
// goes. What the space does not hold may have room all the same, in each of them.
static void drop_family(struct scan_walk *walk, int index)
{
    struct probe sequence = {0};
    for (index = filled_from(walk, index); index >= 0;
         index = filled_from(walk, next_of(walk, index))) {
        struct scan_group *group = &walk->groups[index];
        if (group->sequence.layer_s > 0) sequence = group->sequence;
        if (group->done) continue;
        group->sequence = sequence;
        double kept_s = scan_kept_bound(walk, index);
        bool may_split = scan_is_pipelined(walk, group) && has_room(walk, group);
        if (may_split && !isinf(scan_saturated_bound(walk, index)))
            scan_note(&walk->scan.result.piped_s, kept_s);
        group->pressed = group->done = true;
        walk->scan.result.unfit_count += group->tails->plan_count;
    }
}

static void push(struct scan_walk *walk, int index, enum scan_level level)
{
    const struct scan_group *group = &walk->groups[index];
    double bound_s = group->bound_s;
    if (walk->order == ORDER_WHOLE) bound_s = fmax(bound_s, group->whole_s);
    assert(group->tails->count > 0 && bound_s >= 0);
    scan_queue_push(&walk->queue, (struct scan_entry){bound_s, index, level});
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
    struct probe found = {{sequence.work.all_s * size, sequence.work.chain_s * size},
                          sequence.layer_s * size,
                          {sequence.window.forward_s * size, sequence.window.backward_s * size},
                          sequence.hideable_s * size};
    double bound_s = fmax(scan_saturated_bound(walk, index),
                          scan_work_bound(walk, group, found.work, found.layer_s));
    if (isinf(bound_s)) {
        drop_family(walk, index);
        return false;
    }
    group->bound_s = fmax(group->bound_s, bound_s);
    if (walk->order == ORDER_WHOLE) scan_raise_whole(walk, group, &found);
    push(walk, index, LEVEL_GRAPH);
    return true;
}

// The first from `index` on, and all that it does not bound.
static void push_graphs(struct scan_walk *walk, int index, struct probe sequence)
{
    index = filled_from(walk, index);
    while (index >= 0 && push_graph(walk, index, sequence))
        index = widened_from(walk, index);
}

// No plan of the group is faster, before anything of its mesh is lowered.
static double first_bound(struct scan_walk *walk, int index)
{
    struct scan_group *group = &walk->groups[index];
    group->bound_s = fmax(group->bound_s, scan_saturated_bound(walk, index));
    if (walk->order != ORDER_WHOLE || isinf(group->bound_s)) return group->bound_s;
    scan_raise_saturated(walk, index);
    return fmax(group->bound_s, group->whole_s);
}

// No plan of the family, which begins at `index`, is faster; INFINITY: none of it has room.
static double family_bound(struct scan_walk *walk, int index)
{
    double least_s = first_bound(walk, index);
    if (isinf(walk->groups[index].bound_s)) return INFINITY;
    while ((index = widened_from(walk, index)) >= 0)
        least_s = fmin(least_s, first_bound(walk, index));
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
    struct probe found = scan_probe(walk, group, size, scan_facts(walk, group->group)->other_count,
                                    SCAN_LAST_WAVE_RATIO);
    return (struct probe){{found.work.all_s / size, found.work.chain_s / size},
                          found.layer_s / size,
                          {found.window.forward_s / size, found.window.backward_s / size},
                          found.hideable_s / size};
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
    double update_s = scan_update_s(walk, group);
    return update_s > 0 && !scan_may_take(&walk->scan, (work_s + update_s) * (1 - 1e-9), 0);
}

// Whether making room as well makes every plan of the group too slow, and what it would take with
// everything kept is nothing to ask of.
static bool is_left(struct scan_walk *walk, const struct scan_group *group)
{
    if (walk->order == ORDER_KEPT || scan_may_take(&walk->scan, group->whole_s, 0)) return false;
    return scan_is_behind(walk, group);
}

// Prices the commonest layer of the group. What is left out for its update, or to make room, is
// asked once more where somebody asks what it would take without.
static void look_at_graph(struct scan_walk *walk, int index)
{
    struct scan_group *group = &walk->groups[index];
    struct probe found = scan_probe(walk, group, group->group->micro_batch, 0, 1);
    double bound_s = scan_work_bound(walk, group, found.work, found.layer_s);
    group->bound_s = fmax(group->bound_s, bound_s);
    if (walk->order == ORDER_WHOLE) scan_raise_whole(walk, group, &found);
    if (scan_is_pipelined(walk, group)) scan_note(&walk->scan.result.piped_s, group->bound_s);
    push_graphs(walk, next_of(walk, index), group->sequence);
    bool is_late = walk->scan.request->looks_most == 0 &&
                   (updates_too_long(walk, group, group->bound_s) || is_left(walk, group));
    if (is_late) {
        group->done = true;
        group->late_s = group->bound_s;
        return;
    }
    bool has_others = scan_facts(walk, group->group)->other_count > 0;
    push(walk, index, has_others ? LEVEL_LAYERS : LEVEL_PROBE);
}

// Of what is done already, or has nothing more to say, larger micro-batches are asked all the same.
// What a family says together is known of none whose own micro-batches were looked at.
static bool passes_over(struct scan_walk *walk, struct scan_entry entry)
{
    struct scan_group *group = &walk->groups[entry.group];
    bool is_settled = walk->order == ORDER_LEFT && scan_is_settled(walk, group);
    if (entry.level == LEVEL_FAMILY) {
        is_settled = is_settled && group->sequence.layer_s <= 0;
        for (int i = entry.group; is_settled && i >= 0; i = widened_from(walk, i))
            is_settled = scan_is_settled(walk, &walk->groups[i]);
        return walk->order == ORDER_LEFT ? is_settled : group->done;
    }
    if (!group->done && !is_settled) return false;
    if (entry.level == LEVEL_GRAPH && walk->order == ORDER_LEFT)
        push_graphs(walk, next_of(walk, entry.group), group->sequence);
    return true;
}

// What has no room costs time: no plan that fits is faster than the bound that this gives.
static void look_at_room(struct scan_walk *walk, struct scan_entry entry)
{
    struct scan_group *group = &walk->groups[entry.group];
    bool lowers = entry.level == LEVEL_ROOM;
    // Where a number of looks ends the walk any order of them is as good.
    if (walk->scan.request->looks_most > 0) {
        push(walk, entry.group, LEVEL_FITTED);
        return;
    }
    group_enter(&walk->scan, group);
    scan_find_facts(walk, group);
    group->bound_s = fmax(group->bound_s, group_room_bound(&walk->scan, group, lowers));
    if (isinf(group->bound_s)) {
        drop_family(walk, entry.group);
        return;
    }
    push(walk, entry.group, lowers ? LEVEL_FITTED : LEVEL_ROOM);
}

// Looks one step closer at a group.
static void look(struct scan_walk *walk, struct scan_entry entry)
{
    struct scan_group *group = &walk->groups[entry.group];
    if (passes_over(walk, entry)) return;
    switch (entry.level) {
    case LEVEL_FAMILY:
        push_graphs(walk, entry.group, family_sequence(walk, entry.group));
        return;
    case LEVEL_GRAPH:
        look_at_graph(walk, entry.group);
        return;
    case LEVEL_LAYERS:
        push(walk, entry.group, scan_price_others(walk, group) ? LEVEL_LAYERS : LEVEL_PROBE);
        return;
    case LEVEL_PROBE:
        group_enter(&walk->scan, group);
        group->kept_s = fmax(group->kept_s, group_bound(&walk->scan, group));
        scan_note(&walk->scan.result.steady_s, group->kept_s);
        group->bound_s = fmax(group->bound_s, group->kept_s);
        group->whole_s =
            fmax(group->whole_s, (group->kept_s + scan_update_s(walk, group)) * (1 - 1e-9));
        push(walk, entry.group, LEVEL_BLOCKS);
        return;
    case LEVEL_BLOCKS:
    case LEVEL_ROOM:
        look_at_room(walk, entry);
        return;
    case LEVEL_FITTED:
        if (!enter(walk, group)) {
            drop_family(walk, entry.group);
            return;
        }
        group->done = true;
        if (updates_too_long(walk, group, group->bound_s) || is_left(walk, group)) {
            group->pressed = true;
            walk->looks += walk->scan.result.ranking.count > 0;
            return;
        }
        walk->scan.any = false;
        scan_find_facts(walk, group);
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
    double best_s = ranking->count > 0 ? ranking->items[0].cost.step_s : INFINITY;
    double elapsed_s = now_s - walk->start_s;
    search->progress(search->progress_context, done_ratio, best_s,
                     elapsed_s > 0 ? walk->scan.result.priced_count / elapsed_s : 0);
    walk->progress_s = now_s;
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

static void walk_in_order(struct scan_walk *walk)
{
    int group_count = walk->scan.space->group_count;
    walk->queue.count = 0;
    for (int i = 0; i < group_count; i++) {
        const struct space_group *groups = walk->scan.space->groups;
        walk->groups[i].pushed = false;
        if (i > 0 && same_family(walk, &groups[i], &groups[i - 1])) continue;
        int first = filled_from(walk, i);
        if (first < 0) continue;
        double bound_s = family_bound(walk, first);
        if (isinf(walk->groups[first].bound_s)) {
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
        // Of a family others may be bounded below its first.
        double done_s = fmax(0, entry.bound_s - first_s);
        report_progress(walk, goal_s > first_s ? done_s / (goal_s - first_s) : 0);
    }
}

// Where things may be moved the order of groups with everything kept is far from that of what they
// take: those that are fast with room made come first.
static void walk_by_time(struct scan_walk *walk)
{
    const struct scan_request *request = walk->scan.request;
    const struct pins *pins = &request->search->pins;
    walk->queue.entries =
        ARENA_NEW(walk->scan.arena, struct scan_entry, walk->scan.space->group_count + 1);
    bool is_pinned = pins_get(pins, CHOICE_OFFLOAD).set;
    if (pins->search_offload && is_pinned) walk->order = ORDER_WHOLE;
    if (pins->search_offload && !is_pinned && request->looks_most == 0) {
        walk->order = ORDER_WHOLE;
        walk_in_order(walk);
        scan_note_done(walk);
        walk->order = ORDER_LEFT;
    }
    walk_in_order(walk);
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
    assert(request->keep >= 1 && request->looks_most >= 0);
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
        scan_note_pressed(&walk);
        scan_note_uneven(&walk);
    }
    if (request->objective != OBJECTIVE_MEMORY) scan_note_silent(&walk);
    return scan->result;
}
