#pragma once
#include "planner/bound.h"
#include "planner/saturated.h"
#include "planner/scan_group.h"
#include "planner/scan_queue.h"

#include <math.h>

// The walk over the groups of a space, and the lower bounds on their steps that it goes by.
// Included by planner/scan.c, planner/scan_bound.c and planner/scan_notes.c alone.

enum { GRAPHS_MAX = 256 };

struct scan_walk {
    struct scan scan;
    struct scan_queue queue;
    struct scan_group *groups;
    struct known {
        const struct graph *graph;
        struct bound_facts facts;
        struct saturated saturated;
        const struct saturated **layers;  // NULL: nobody has asked yet
    } known[GRAPHS_MAX];
    int known_count;
    // Groups in the order of what they take with room made and states updated, and then those that
    // the others bounded out, as far as somebody asks what they would take without.
    enum scan_order { ORDER_KEPT, ORDER_WHOLE, ORDER_LEFT } order;
    int looks;  // groups that were priced since there is a plan
    double progress_s, start_s;
};

// Of the model that the group trains.
const struct bound_facts *scan_facts(struct scan_walk *walk, const struct space_group *group);
// [kind of block] Of its layers; of what is none NULL.
const struct saturated **scan_saturated(struct scan_walk *walk, const struct space_group *group);
// What the scan asks of the group at hand beside its plans.
void scan_find_facts(struct scan_walk *walk, const struct scan_group *group);
// One micro-batch of a group, `ratio` of it, in the commonest layers and so many of the other kinds
// with much of the work; of the rest of the model only the flops are known.
struct probe scan_probe(struct scan_walk *walk, const struct scan_group *group, int micro_batch,
                        int others, double ratio);
// Prices the next of the other kinds of layers of a group that have much of the work, which raises
// its bound; false: that was the last.
bool scan_price_others(struct scan_walk *walk, struct scan_group *group);

// No plan of a group is faster than any of these: seconds of a step, INFINITY where none has room.
// The flops alone, at the device's highest rate.
double scan_graph_bound(struct scan_walk *walk, int index);
// Micro-batches that are no less work than this, `layer_s` of it in each of the commonest layers,
// and more where there is not room to keep what they save.
double scan_work_bound(struct scan_walk *walk, struct scan_group *group, struct bound_work work,
                       double layer_s);
// The same before anything of the group's mesh is lowered.
double scan_saturated_bound(struct scan_walk *walk, int index);
// With what making room takes, by any mixture of recomputing and moving layers, and the update of
// states where they are: of a micro-batch that is no less work than this, and, without, before
// anything of the mesh is lowered. Both raise whole_s of the group.
void scan_raise_whole(struct scan_walk *walk, struct scan_group *group, const struct probe *found);
void scan_raise_saturated(struct scan_walk *walk, int index);
// Where no device has room for states, what their update takes at least behind all work; else 0.
double scan_update_s(struct scan_walk *walk, const struct scan_group *group);
// Whether what was bounded out by what it takes with room made has nothing to say of plans without,
// neither in notes nor to who asks of classes of operators.
bool scan_is_behind(struct scan_walk *walk, const struct scan_group *group);
bool scan_is_settled(struct scan_walk *walk, const struct scan_group *group);
// Were there room to keep everything. What its own blocks say is in kept_s; of groups that were not
// looked at what one sequence of the family says.
double scan_kept_bound(struct scan_walk *walk, int index);

static inline void scan_note(double *least_s, double bound_s)
{
    *least_s = fmin(*least_s, bound_s);
}
static inline bool scan_is_pipelined(const struct scan_walk *walk, const struct scan_group *group)
{
    return walk->scan.space->meshes[group->group->mesh].degree[AXIS_PP] > 1;
}
// planner/scan_notes.c: notes what bounds plans that the space does not hold, of the groups that a
// walk by time has left behind.
void scan_note_pressed(struct scan_walk *walk);
// Of those that were looked at to the end.
void scan_note_done(struct scan_walk *walk);
void scan_note_uneven(struct scan_walk *walk);
void scan_note_silent(struct scan_walk *walk);
