#pragma once
#include "planner/space.h"

// Lower bounds on the time and memory of every plan of a group, from the graph alone: nothing is
// lowered or priced for them. A search asks them first, of all groups, and looks closer where they
// say that it pays.

enum { BOUND_OTHERS_MAX = 8, BOUND_SIZES_MAX = 64 };

// Of one graph.
struct bound_facts {
    double layer_flop;  // forward and backward of one sequence, head included
    double rest_flop;   // of those, in all blocks but the probe's
    struct bound_layers {
        int kind, count;
        double flop;             // of all of them
    } others[BOUND_OTHERS_MAX];  // other kinds of layers with much of the work, most first
    int other_count;
    double dense_elements;      // of trained parameters outside experts, tied ones once
    double expert_elements;     // inside experts
    double frozen_elements[2];  // of those that are not trained, outside and inside experts
    int layer_count;
    double layer_dense_elements;   // of the layer that has fewest,
    double layer_expert_elements;  // and fewest inside experts
    double layer_frozen_elements[2];
    double layer_input_elements;  // what a layer reads of one sequence, which any way to recompute
                                  // keeps
    // Trained parameters of the kinds of layers, fewest first: [outside and inside experts].
    struct bound_size {
        double elements;
        int count;
    } sizes[2][BOUND_SIZES_MAX];
    int size_count;
    int probe_kind;            // the layer that there are most of,
    int probe_count;           // and how many
    double probe_elements[2];  // of its parameters, outside and inside experts
    double probe_frozen_elements[2];
};
struct bound_facts bound_facts(const struct graph *graph, int64_t seq_len);
// Of the model of a request, in whatever plan.
struct bound_facts bound_facts_of(const struct search_request *request);
// The sum of so many layers that have fewest parameters, or most, outside or inside experts.
double bound_layers(const struct bound_facts *facts, int in_expert, double layers, bool largest);

// One micro-batch through all stages: all its work, and of that what lies on the one path from its
// first forward to its last input gradient, where weight gradients (W) may be put off.
struct bound_work {
    double all_s, chain_s;
};

// Seconds of m micro-batches through p stages that share the work in any way, under the fastest of
// the kinds of schedules that the mask names. No stage is faster than the mean, m work / p, and the
// first micro-batch passes all stages and comes back, which takes its chain. Where W runs right
// behind B and stages have one chunk, stage i waits until the first micro-batch has passed those in
// front of it and its last gradient passes them again behind: the step is no shorter than
// m t_i + (t_0 + .. + t_i-1) for every i, which is smallest where all are equal, at
// work / (1 - (1 - 1/m)^p).
double bound_pipeline_s(struct bound_work work, int stage_count, int micro_batch_count,
                        unsigned kinds);

// No plan on these devices, alike or not, takes less for a step: all its flops at the sum of the
// highest rates that a kernel has on each, whoever does what; memory and links are left out.
double bound_work_s(const struct search_request *request, const struct bound_facts *facts);
// All flops at the highest rate that a kernel has on this device and stack.
double bound_step_s(const struct search_request *request, const struct bound_facts *facts,
                    const struct space_mesh *mesh, int micro_batch,
                    const struct space_tails *tails);
// One micro-batch in the blocks that no probe has priced, at the same rate: all but those of the
// commonest kind and of so many others.
struct bound_work bound_rest(const struct search_request *request, const struct bound_facts *facts,
                             const struct space_mesh *mesh, int micro_batch, int others);
// What a rank keeps of so many elements outside and inside experts: weights, gradients and states;
// of frozen ones the weights.
double bound_kept_bytes(const struct search_request *request, const struct space_mesh *mesh,
                        const struct space_tails *tails, double dense, double experts);
double bound_frozen_bytes(const struct search_request *request, const struct space_mesh *mesh,
                          const struct space_tails *tails, const double frozen[2]);
// Of the places where plans of the group keep the optimizer's states those that may have room for
// them: the hosts together must take what all ranks send, and the gradients that they update with.
unsigned bound_state_tiers(const struct search_request *request, const struct bound_facts *facts,
                           const struct space_mesh *mesh, const struct space_tails *tails);
// Micro-batches whose activations a stage holds at once, at least, with so many stages from it to
// the end.
double bound_held(const struct space_tails *tails, int stages_left, int micro_batch_count);
// Whether layers can be shared out so that each stage has room for what its ranks keep of them at
// that ZeRO stage and for one input of each in every micro-batch in flight, in any split of the
// layers over stages. False only where no plan of the group fits.
bool bound_has_room(const struct search_request *request, const struct bound_facts *facts,
                    const struct space_mesh *mesh, const struct space_group *group,
                    const struct space_tails *tails, int64_t limit_bytes);
// The mean over stages of what their ranks keep of parameters, gradients and states at the ZeRO
// stage of the group that keeps least, states of layers that a pinned offload leaves among them,
// and the stack's reserve.
double bound_bytes(const struct search_request *request, const struct bound_facts *facts,
                   const struct space_mesh *mesh, const struct space_tails *tails);
// What the slowest stage's update takes at least, behind all work of the step, where states are on
// hosts: no mean over stages is more than the most of them, and one has no fewer layers than the
// mean. `shards`: ranks share the states out.
// 0 where updates are no part of their own of the step.
double bound_host_update_s(const struct price_context *context,
                           const struct search_request *request, const struct bound_facts *facts,
                           const struct space_mesh *mesh, bool shards);
// Where no device has room for the optimizer's states, what the slowest stage's update on its host
// takes at least; else 0.
double bound_update_s(const struct price_context *context, const struct search_request *request,
                      const struct bound_facts *facts, const struct space_mesh *mesh,
                      const struct space_group *group, const struct space_tails *tails,
                      int64_t limit_bytes);
