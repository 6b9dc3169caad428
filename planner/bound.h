#pragma once
#include "planner/space.h"

// Lower bounds on the time and memory of every plan of a group, from the graph alone: nothing is
// lowered or priced for them. A search asks them first, of all groups, and looks closer where they
// say that it pays.

// Of one graph.
struct bound_facts {
    double layer_flop;       // forward and backward of one sequence, head included
    double rest_flop;        // of those, in all blocks but the probe's
    double dense_elements;   // of parameters outside experts, tied ones once
    double expert_elements;  // inside experts
    int probe_kind;          // the layer that there are most of,
    int probe_count;         // and how many
};
struct bound_facts bound_facts(const struct graph *graph, int64_t seq_len);

// Seconds of m micro-batches through p stages that share `work_s` a micro-batch in any way.
// Without a schedule that hides it, stage i waits until the first micro-batch has passed those in
// front of it and its last gradient passes them again behind: the step is no shorter than
// m t_i + (t_0 + .. + t_i-1) for every i, which is smallest where all are equal, at
// work / (1 - (1 - 1/m)^p). Else it is no shorter than the mean stage.
double bound_pipeline_s(double work_s, int stage_count, int micro_batch_count, bool one_chunk);

// All flops at the highest rate that a kernel has on this device and stack.
double bound_step_s(const struct search_request *request, const struct bound_facts *facts,
                    const struct space_mesh *mesh, int micro_batch,
                    const struct space_tails *tails);
// Seconds of one micro-batch in the blocks that no probe has priced, at the same rate.
double bound_rest_s(const struct search_request *request, const struct bound_facts *facts,
                    const struct space_mesh *mesh, int micro_batch);
// The mean over stages of what their ranks keep of parameters, gradients and states at the ZeRO
// stage of the group that keeps least, and the stack's reserve.
double bound_bytes(const struct search_request *request, const struct bound_facts *facts,
                   const struct space_mesh *mesh, const struct space_tails *tails);
