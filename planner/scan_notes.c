#include "planner/scan_walk.h"

#include <math.h>

// Of a group that was left out for its update before its blocks were priced what its work says, as
// if it had been looked at.
static void note_late(struct scan_walk *walk, struct scan_entry entry)
{
    struct scan_group *group = &walk->groups[entry.group];
    group_enter(&walk->scan, group);
    group->kept_s = fmax(group->kept_s, group_bound(&walk->scan, group));
    scan_note(&walk->scan.result.steady_s, group->kept_s);
    if (group->pressed || scan_may_take(&walk->scan, fmax(group->late_s, group->kept_s), 0))
        scan_note(&walk->scan.result.pressed_s, group->kept_s);
}

void scan_note_done(struct scan_walk *walk)
{
    for (int i = 0; i < walk->scan.space->group_count; i++) {
        const struct scan_group *group = &walk->groups[i];
        if (group->done && group->pressed && group->late_s <= 0)
            scan_note(&walk->scan.result.pressed_s, group->kept_s);
    }
}

// What was looked at of a family bounds its larger micro-batches, too. Groups that were left out
// early are asked while one may say less than the others.
void scan_note_pressed(struct scan_walk *walk)
{
    struct scan_result *result = &walk->scan.result;
    walk->queue.count = 0;
    for (int i = 0; i < walk->scan.space->group_count; i++) {
        const struct scan_group *group = &walk->groups[i];
        struct scan_entry entry = {group->kept_s, i, LEVEL_PROBE};
        if (group->late_s > 0 && scan_may_take(&walk->scan, group->late_s, 0))
            scan_queue_push(&walk->queue, entry);
        else if (group->pressed)
            scan_note(&result->pressed_s, group->kept_s);
    }
    while (walk->queue.count > 0) {
        struct scan_entry entry = scan_queue_pop(&walk->queue);
        if (entry.bound_s >= fmax(result->steady_s, result->pressed_s)) return;
        note_late(walk, entry);
    }
}

void scan_note_silent(struct scan_walk *walk)
{
    const struct space *space = walk->scan.space;
    struct scan_result *result = &walk->scan.result;
    for (int i = 0; i < ATTENTION_COUNT && space->group_count > 0; i++) {
        bool is_own = i == space->attentions.values[0];
        double least_s = saturated_step_s(walk->scan.request->memo, space, (enum attention)i);
        scan_note(is_own ? &result->silent_s : &result->other_attention_s, least_s);
    }
}

// Chunks and layers to recompute that are pinned may be more than an even split has: another split
// has plans where the group has none.
void scan_note_uneven(struct scan_walk *walk)
{
    static const unsigned ALL = PIPELINE_FUSED | PIPELINE_CHUNKED | PIPELINE_PARTED;
    const struct space *space = walk->scan.space;
    const struct pins *pins = &space->request->pins;
    bool pinned = pins_get(pins, CHOICE_VPP).low > 1 ||
                  pins_get(pins, CHOICE_RECOMPUTE_LAYERS).low > 0 ||
                  pins_get(pins, CHOICE_OFFLOAD).low != 0;
    for (int i = 0; i < space->group_count && pinned; i++) {
        const struct scan_group *group = &walk->groups[i];
        if (group->tails->count > 0 || !scan_is_pipelined(walk, group)) continue;
        struct space_tails tails = {.kinds = ALL};
        scan_note(&walk->scan.result.piped_s,
                  bound_step_s(space->request, scan_facts(walk, group->group),
                               &space->meshes[group->group->mesh], group->group->micro_batch,
                               &tails));
    }
}
