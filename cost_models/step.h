#pragma once
#include "cost_models/collective.h"
#include "cost_models/compute.h"
#include "cost_models/part.h"
#include "plan/program.h"

// The priced program: what the closed form adds up and the event engine plays. Durations are sums
// of the prices of instructions; nothing is priced twice.

struct block_price {
    double phase_s[PHASE_COUNT][PART_COUNT];  // one micro-batch through one block
    double adding_s;   // of GEMMs that add to gradients, over those that begin them: in no phase
    double fetched_s;  // of parameters that come from the host for backward, hidden in it
    // Of backward and weight gradients what more compute there may hide: of transfers, and of the
    // device's wait for the host.
    double hideable_s;
};

// Tasks of a rank once a step, of one class of chunks (struct step_end).
struct step_counts {
    int reduce, small, update, gather;
};

struct chunk_price {                          // one class of chunks
    double phase_s[PHASE_COUNT][PART_COUNT];  // one micro-batch through the chunk
    double copy_s;              // of activations of one micro-batch, each way, hidden or not
    double gradient_copy_s[2];  // of gradients that are kept on the host: there, and back
    double gradient_reduce_s;   // its gradients, once a step (0 when each micro-batch reduces)
    double parameter_gather_s;  // its updated parameters, once a step (ZeRO 1 and 2)
    double small_reduce_s;      // gradients partial over axes other than dp, cp, and the maxima of
                                // delayed scaling: never overlapped
    // Of gradients (gradient_sums.h): in the first micro-batch alone, and in each of the others; in
    // phase_s as the mean of all.
    double zeroed_s, added_s;
    double update_s;          // and quantising the weights, where that is done once a step
    double update_copy_s[2];  // in it gradients to the host, parameters from there
    struct step_counts counts;
    int bucket_count;  // pieces of the gradient reduction, each ready in turn during the
                       // last backward of the chunk; where there is none, of the gathering
};

// Stages that sum the gradient of a parameter that all of them have (struct tied).
struct tied_price {
    const int *stages;
    int stage_count;
    double s;
};

struct step_price {
    struct schedule_shape shape;
    enum schedule_kind schedule;
    const struct chunk_price *classes;
    int class_count;
    const int *class_of;            // [stage * chunk_count + chunk]
    const struct stage_runs *runs;  // of class_of; NULL: the closed form makes them (slower)
    double hop_s;                   // activation or gradient between neighbouring stages
    bool hop_overlapped;
    bool reduce_overlapped, gather_overlapped;
    double overlap_ratio;     // speed of reduce and gather while compute runs beside them
    struct tied_price *ties;  // behind the gradient reductions, one after the other
    int tie_count;
    double norm_s;  // the global gradient norm, and norms of parameters: every rank waits for
                    // the slowest
    bool streams;   // nobody waits for a norm: buckets are updated as they come, beside what is
                    // still reduced, and each stage ends by itself
    // ... unless the optimizer validates it behind the update. Steps then follow each other like
    // tiles: what a step takes is the most that any stage needs from its first forward to its
    // update, whatever the others do.
    bool post_validated;
    double overhead_s;  // once a step
};

struct price_context {
    struct compute_context compute;  // of the slowest device in use
    const struct fabrics *fabrics;
    const struct cluster *cluster;
    // 1 + the stage by whose links its ranks' messages are priced; 0: by the slowest that any stage
    // has of them. Stages with numbers of ranks of their own have their own in either case.
    int at_stage;
    int micro_batch_count;  // of the replica that is priced; 0: as many as the program's shape says
    struct ledger *ledger;  // step_price writes its prices there; NULL: nowhere
};

// The communicator over these axes in the place that is priced.
struct group_shape price_group(const struct price_context *context, const struct mesh *mesh,
                               unsigned axes);

// One micro-batch through one block (cost_models/block.c). What `overlap` names is hidden as far as
// the stack's ratios and the compute of the phase allow; backward and weight gradients share their
// compute, because ZeRO's gathers and scatters run beside both (but see OVERLAP_APART). A second of
// compute hides one of communication, parameters first. Of a ring (streamed collectives) each step
// is as long as the longer of the work on one piece and of handing on the next; without OVERLAP_CP
// one follows the other.
struct block_price block_price(const struct price_context *context, const struct mesh *mesh,
                               const struct block_program *program, unsigned overlap);

// The same in two steps, for who prices one block on many links. The work is all that the links do
// not change: seconds of compute, kernels, and the list of collectives. It lives in `arena`; of the
// mesh it depends on what lowering does.
struct block_work;
struct block_work *block_work(struct arena *arena, const struct price_context *context,
                              const struct mesh *mesh, const struct block_program *program);
unsigned block_work_axes(const struct block_work *work);  // that its collectives run over
// `storage` is the work of what lower_sharding adds to the block; NULL: nothing.
struct block_price block_work_price(const struct price_context *context, const struct mesh *mesh,
                                    const struct block_work *work, const struct block_work *storage,
                                    unsigned overlap);

// Adds what the host of a stage needs for each forward and backward of a chunk; nothing where there
// is one stage.
void step_add_host(const struct stack *stack, int stage_count, struct chunk_price *chunk);
// Adds zeroed_s and added_s to the phases, where these lack them.
void step_add_begins(int micro_batch_count, struct chunk_price *chunk);
// How many micro-batches share what is done in the first alone.
int step_rounds(const struct price_context *context, const struct program *program);
// What of the plan's overlap takes place on this stack, with these passes and in this pipeline; and
// OVERLAP_APART where B and W are tasks of their own, so that what is moved beside one of them does
// not hide behind the other.
enum { OVERLAP_APART = 1 << 16 };
unsigned step_overlap(const struct stack *stack, const struct parallel *parallel);
// Whether the steps of such a plan run into each other, see post_validated.
bool step_post_validated(const struct stack *stack, const struct parallel *parallel);
struct step_price *step_price(struct arena *arena, const struct price_context *context,
                              const struct program *program);
// The same for who knows the prices of all blocks, of which it reads what memory does, and what
// passes between stages (NULL: it is priced).
struct step_price *step_price_of_blocks(struct arena *arena, const struct price_context *context,
                                        const struct program *program,
                                        const struct block_price *blocks,
                                        const double *known_hop_s);

// What a step costs; the parts sum to step_s (asserted).
struct cost {
    double step_s;
    double compute_s, recompute_s, exposed_comm_s, update_s, overhead_s;
    double imbalance_s;  // waiting because the slowest stage has more to do than the mean stage
    double bubble_s;     // waiting that the schedule leaves: filling, draining, late neighbours
    double exposed_s[PART_COUNT];  // tp, cp, ep, dp and offload parts of exposed_comm_s
    double exposed_pp_s;           // the rest of exposed_comm_s
};
// Where steps run into each other: how much later than the first stage one begins with its step,
// when the first micro-batch takes `rise_s` to come up to it: early enough to gather parameters for
// its first forward. step_rise_s is what a stage adds to that way.
double step_begin_s(const struct step_price *price, int stage, double rise_s);
double step_rise_s(const struct step_price *price, int stage);

double cost_parts_sum(const struct cost *cost);
// Parts all waiting into imbalance and bubble. No schedule can win the former: with the busiest
// stage always busy the others wait max - mean of what the stages have to do, over all
// micro-batches.
void cost_part_waiting(struct cost *cost, const struct step_price *price,
                       const struct stage_runs *runs);
