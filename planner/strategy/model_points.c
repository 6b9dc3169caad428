#include "planner/strategy/model.h"

#include <assert.h>
#include <math.h>

// Runs of time between changes, in a list from which those that are covered are taken.
struct time_run {
    int previous, next;
    int births, deaths;  // between this run and the next
    double base;
    bool is_kept;
};

struct profile {
    double *base, *most;   // whatever is chosen; with the largest choices
    int *births, *deaths;  // nodes that use more, and less, from this time on
};

// Where a node uses more from one part to the next, and where less; beside parts it uses nothing.
static void count_change(struct profile *profile, const struct reduced_node *node, int at,
                         const double *before, const double *after)
{
    bool more = false, less = false;
    for (int k = 0; k < node->count; k++) {
        double from = before ? before[k] : 0, to = after ? after[k] : 0;
        more |= to > from;
        less |= to < from;
    }
    profile->births[at] += more;
    profile->deaths[at] += less;
}

static void count_changes(struct profile *profile, const struct reduced_node *node)
{
    for (int p = 0; p < node->part_count && !node->is_gone; p++) {
        const struct reduced_part *part = &node->parts[p];
        bool joins = p > 0 && node->parts[p - 1].death == part->birth;
        bool goes_on = p + 1 < node->part_count && node->parts[p + 1].birth == part->death;
        count_change(profile, node, part->birth, joins ? node->parts[p - 1].usage : NULL,
                     part->usage);
        if (!goes_on) count_change(profile, node, part->death, part->usage, NULL);
    }
}

static struct profile profile_of(struct arena *arena, const struct reduced *reduced)
{
    int time_count = reduced->problem->time_count;
    struct profile profile = {
        .base = ARENA_NEW(arena, double, time_count + 1),
        .most = ARENA_NEW(arena, double, time_count + 1),
        .births = ARENA_NEW(arena, int, time_count + 1),
        .deaths = ARENA_NEW(arena, int, time_count + 1),
    };
    for (int i = 0; i < reduced->problem->node_count; i++) {
        const struct reduced_node *node = &reduced->nodes[i];
        for (int p = 0; p < node->part_count && !node->is_gone; p++) {
            const struct reduced_part *part = &node->parts[p];
            double most = 0;
            for (int k = 0; k < node->count; k++)
                most = fmax(most, part->usage[k]);
            profile.most[part->birth] += most;
            profile.most[part->death] -= most;
        }
        count_changes(&profile, node);
    }
    double base = 0, most = 0;
    for (int t = 0; t <= time_count; t++) {
        profile.base[t] = base += reduced->base[t];
        profile.most[t] = base + (most += profile.most[t]);
    }
    return profile;
}

// A run is covered by its next where no node uses less from there on, by its previous where none
// uses more, if no less is used there whatever is chosen.
static bool is_covered(const struct time_run *runs, int at)
{
    const struct time_run *run = &runs[at];
    if (run->next >= 0 && run->deaths == 0 && run->base <= runs[run->next].base) return true;
    if (run->previous < 0) return false;
    const struct time_run *before = &runs[run->previous];
    return before->births == 0 && run->base <= before->base;
}

static void take_out(struct time_run *runs, int at)
{
    assert(runs[at].is_kept);
    struct time_run *run = &runs[at];
    run->is_kept = false;
    if (run->next >= 0) runs[run->next].previous = run->previous;
    if (run->previous < 0) return;
    runs[run->previous].next = run->next;
    runs[run->previous].births += run->births;
    runs[run->previous].deaths += run->deaths;
}

// Each point a run of its own at first.
static struct time_run *runs_of(struct arena *arena, const struct profile *profile, int time_count)
{
    struct time_run *runs = ARENA_NEW(arena, struct time_run, time_count + 1);
    for (int t = 0; t < time_count; t++) {
        runs[t] = (struct time_run){
            .previous = t - 1,
            .next = t + 1 < time_count ? t + 1 : -1,
            .births = profile->births[t + 1],
            .deaths = profile->deaths[t + 1],
            .base = profile->base[t],
            .is_kept = true,
        };
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (int t = 0; t < time_count; t++) {
            if (!runs[t].is_kept || !is_covered(runs, t)) continue;
            take_out(runs, t);
            changed = true;
        }
    }
    return runs;
}

struct model_points model_points_make(struct arena *arena, const struct reduced *reduced)
{
    const struct strategy_problem *problem = reduced->problem;
    int time_count = problem->time_count;
    struct model_points points = {
        .point_of = ARENA_NEW(arena, int, time_count + 1),
        .room = ARENA_NEW(arena, double, time_count + 1),
    };
    if (!problem->has_limit) return points;
    struct profile profile = profile_of(arena, reduced);
    const struct time_run *runs = runs_of(arena, &profile, time_count);
    double limit = (double)problem->usage_limit;
    for (int t = 0; t < time_count; t++) {
        points.point_of[t] = points.count;
        points.is_impossible |= profile.base[t] > limit;
        if (!runs[t].is_kept || profile.most[t] <= limit) continue;
        points.room[points.count++] = limit - profile.base[t];
    }
    points.point_of[time_count] = points.count;
    assert(points.count <= time_count);
    return points;
}
