#pragma once
#include "simulator/evaluate.h"

// Plans whose ranks do not all do the same: stages and replicas on nodes of several kinds, and
// replicas with numbers of micro-batches of their own. Each group of ranks that communicate within
// micro-batches computes at the pace of its slowest device; collectives are those of the slowest
// of the groups that run at once, whichever devices are on them.

// Whether the ranks of the program are unlike.
bool unlike_is(const struct evaluation_request *request, const struct program *program);

// Plays the step, by lanes where ranks are unlike and else as simulate_step does: the one way in
// which the step of an evaluated plan is played. Without all_ranks the trace shows the pipeline
// that is busiest, a rank a stage.
struct simulation *unlike_play(struct arena *arena, struct arena *scratch,
                               const struct evaluation_request *request,
                               const struct program *program, const struct step_price *price,
                               const struct engine_options *options);

// The pipeline that is busiest, one stage of it: what its ranks compute on, whose links they have,
// how many micro-batches. Of ranks that are alike the slowest device and all of the micro-batches.
struct unlike_place {
    const struct device *device;
    int at_stage;  // of struct price_context
    int micro_batch_count;
};
struct unlike_place unlike_busiest(struct arena *scratch, const struct evaluation_request *request,
                                   const struct program *program, const struct step_price *price,
                                   int stage);

// Seconds of one micro-batch on each stage of each replica, [replica * stage_count + stage], of
// those that run it side by side the slowest.
double *unlike_replica_s(struct arena *arena, struct arena *scratch,
                         const struct evaluation_request *request, const struct program *program,
                         const struct step_price *price);

// Memory of the smallest device that holds ranks of the stage.
int64_t unlike_stage_bytes(const struct cluster *cluster, const struct mesh *mesh, int stage);
