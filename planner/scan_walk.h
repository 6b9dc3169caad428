#pragma once
#include "planner/bound.h"
#include "planner/saturated.h"
#include "planner/scan_group.h"
#include "planner/scan_queue.h"

// The walk over the groups of a space, and the lower bounds on their steps that it goes by.
// Included by planner/scan.c and planner/scan_bound.c alone.

enum { GRAPHS_MAX = 256 };

struct scan_walk {
    struct scan scan;
    struct scan_queue queue;
    struct scan_group *groups;
    struct known {
        const struct graph *graph;
        struct bound_facts facts;
        struct saturated saturated;
    } known[GRAPHS_MAX];
    int known_count;
    int looks;  // groups that were priced since there is a plan
    double progress_s, start_s;
};

// Of the model that the group trains.
const struct bound_facts *scan_facts(struct scan_walk *walk, const struct space_group *group);
// One micro-batch of a group, `ratio` of it; of the rest of the model only the flops are known.
struct probe scan_probe(struct scan_walk *walk, const struct scan_group *group, int micro_batch,
                        double ratio);

// No plan of a group is faster than any of these: seconds of a step, INFINITY where none has room.
// The flops alone, at the device's highest rate.
double scan_graph_bound(struct scan_walk *walk, int index);
// Micro-batches that are no less work than this, `layer_s` of it in each of the commonest layers,
// and more where there is not room to keep what they save.
double scan_work_bound(struct scan_walk *walk, struct scan_group *group, struct bound_work work,
                       double layer_s);
// The same before anything of the group's mesh is lowered.
double scan_saturated_bound(struct scan_walk *walk, int index);
// Were there room to keep everything. What its own blocks say is in kept_s; of groups that were not
// looked at what one sequence of the family says.
double scan_kept_bound(struct scan_walk *walk, int index);
