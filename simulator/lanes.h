#pragma once
#include "simulator/inject.h"

// The lanes of a plan with something injected, or whose replicas or stages are unlike: on devices
// of several kinds, or with numbers of micro-batches of their own.

// Ranks of one stage that communicate within micro-batches.
struct rank_group {
    double slowdown;               // of the slowest
    double nic_ratio, link_ratio;  // of the bandwidth that its worst nodes have left; 0: all of it
    int node;                      // one of those, and its kind
    const struct node_group *kind;
    const struct device *device;  // that sets the group's pace
    int at_stage;                 // whose links its own are (struct price_context)
    int micro_batch_count;        // of its replica
    int price;                    // index into `prices`
    int base;                     // the same with nothing injected
};

struct lanes {
    const struct mesh *mesh;
    const struct cluster *cluster;
    unsigned step_axes;  // over which ranks move in step
    int stage_count, pipeline_count;
    struct rank_group *groups;  // [pipeline * stage_count + stage]
    int *lane_of;               // [pipeline]
    int *pipeline_of;           // [lane] the first of its pipelines
    struct engine_lane *list;
    int count;
    const struct step_price **prices;  // [0] is that of the plan
    int price_count;
    struct rank_group *priced;  // [price] a group that has it
    int *stage_price;           // [stage]
};

// Of some causes; `keep_apart`: one lane a pipeline. All of it lives in `arena`.
struct lanes *lanes_make(struct arena *arena, const struct evaluation_request *request,
                         const struct evaluation *evaluation, const struct injection_cause *causes,
                         int cause_count, bool keep_apart);
// Fills in what the trace shows: of the groups of the first lanes that are concerned a rank of each
// slowdown, one rank a stage of a lane that is not.
void lanes_show(struct arena *arena, struct lanes *lanes, const struct injection_cause *causes,
                int cause_count);

// Where a rank is, and the ranks of a group, ascending; how many are in one of a stage. Stages with
// unlike numbers of ranks are one pipeline, whose groups are their ranks.
void lanes_place(const struct lanes *lanes, int rank, int *pipeline, int *stage);
int lanes_group_size(const struct lanes *lanes, int stage);
void lanes_group_ranks(const struct lanes *lanes, int pipeline, int stage, int *ranks);
// A rank's own slowdown.
double lanes_rank_slowdown(const struct injection_cause *causes, int cause_count, int rank);
bool lanes_is_concerned(const struct lanes *lanes, int pipeline);
