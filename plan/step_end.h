#pragma once
#include "plan/program.h"

// The end of a step, said once: what a stage does with its gradients and parameters once a step.
// Scripts are written from it (plan/script/step.c), cost_models/step.c prices it, the simulator
// plays what it counts, and memory_of_stage keeps room for it.
//
// The gradients of a chunk fall into groups that are alike: of one kind, partial over the same axes
// of data parallelism, stored alike; what is tied is a group of its own, so that both ends are cut
// alike. A group is cut into buckets of whole tensors, or of whole blocks, in the order in which
// backward makes gradients, so many of them as `bucket_bytes` fill and as even as that allows. A
// bucket is one flat buffer: it is reduced, updated and, where it was updated in shards, gathered
// in one go; ZeRO 1 splits it over its axes as a whole (ZeRO 2 and 3 split blocks, whose
// collectives stand in the micro-batches, and gather them one by one; where ZeRO 3 adds gradients
// up whole, or states are sharded further than gradients, each block is a bucket). In order:
//
//     what      stream   of what                              waits for
//     reduce    dp       a bucket, over its reduce axes       its last gradient
//     small     tp, ep   what is partial over other axes      its reductions
//     tied      dp       a tied bucket, over two stages       its reduction
//     norm      dp       all, over all ranks                  all of the above, on every stage
//     trust     compute  all, over the ranks of the stage     the norm
//     update    compute  a bucket                             the norm and trust, or its reduction
//     gather    dp       a bucket, over its optimizer axes    its update
//                        that do not split its weights
//
// The norm is there where gradients are clipped, or scaled (fp16); trust ratios are LAMB's and
// LARS'. Where there is neither, each bucket is updated as soon as it is reduced and no task reads
// its old weights any more, beside the rest of backward. Buckets are whole blocks then, and small
// gradients go bucket by bucket; with a single micro-batch the gradients of a group pass through
// two rooms as large as its largest bucket, one being filled while the other is reduced. Where a
// schedule parts W from B gradients of all blocks are under way at a time, and have no rooms.
//
// Gradients that are kept on the host (plan/offload.h) pass through such rooms in every
// micro-batch, whatever follows them: a bucket is copied out behind the last task of a micro-batch
// that adds to it (in the last one behind its reductions), and in before the first one of the next.
// The norm and the update have them from the host. That is of one stage: a pipeline's micro-batches
// are under way beside each other.
//
// Where states of some layers are on the host (struct offload, optimizer_layers) their gradients
// are groups of their own, which the host updates; only those leave where gradients do, and where
// those of some layers do (gradient_layers) they are groups of their own again: all others stay and
// go down for their update.

struct step_rules {
    double bucket_elements;           // of gradients that fill a bucket
    double bucket_elements_per_rank;  // and no less than this for every rank that reduces
};

struct step_group {
    enum parameter_kind kind;
    unsigned reduce_axes;  // data parallelism, over which its gradients are partial
    unsigned own_axes;     // of those that storage would be split over: they split the tensor
    struct storage storage;
    const char *tie;               // NULL: of untied parameters
    unsigned small_axes;           // others over which some of it is partial
    double elements;               // local under the compute layout
    int tensor_count, unit_count;  // unit: its tensors in one block
    int bucket_count;
    int gather_count;      // of weights, 0 where they are not gathered once a step
    bool has_rooms;        // its gradients pass through two rooms
    bool is_away;          // and are kept on the host
    double room_elements;  // of gradients that a rank keeps at a time
};

// One exchange a step, or `count` of them together.
struct step_small {
    enum parameter_kind kind;
    unsigned axes, gradient_axes;  // gradient_axes: kept in shards over these
    double elements;
    int tensor_count, count;
};

enum { STEP_GROUP_MAX = TIE_MAX + 16 };
struct step_end {  // of one class of chunks
    struct step_group groups[STEP_GROUP_MAX];
    int group_count;
    struct step_small smalls[STEP_GROUP_MAX];
    int small_kind_count;
    // Tasks a step.
    int reduce_count, small_count, update_count, gather_count;
};

// Which of the tasks there are.
bool step_takes_norm(const struct workload *workload);
bool step_takes_trust(const struct workload *workload);
// Whether buckets are updated as they come; whether each is done with before the next comes;
// whether gradients of some groups pass through two rooms.
bool step_streams(const struct workload *workload);
bool step_goes_by_bucket(const struct program *program);
bool step_has_rooms(const struct program *program);

struct step_end step_end_of(const struct program *whole, const struct program_chunk *chunk,
                            const struct step_rules *rules);

// Axes of data parallelism that may reduce a gradient of this kind, and those of them that split
// the parameter itself: ranks along these have no copies to share. What is left stores it.
unsigned step_data_axes(const struct program *program, enum parameter_kind kind);
struct storage step_storage(const struct program *program, const struct parameter *parameter);
// What of a parameter of a use of its block leaves: AWAY_STATES and AWAY_GRADIENTS. What is tied is
// of no layer.
unsigned step_away(const struct program *program, const struct block_use *use,
                   const struct parameter *parameter);
// Whether a parameter of a chunk is that of the embedding, which another chunk of the same stage
// holds (schedules that place chunks in a V): it is kept, reduced and updated there, once.
bool step_is_elsewhere(const struct program *program, const struct program_chunk *chunk,
                       const struct parameter *parameter);
// The group of a parameter of a chunk that is not elsewhere; `away`: see step_away.
int step_group_of(const struct program *program, const struct step_end *end,
                  const struct parameter *parameter, unsigned away);
// Whether buckets of a group are cut between blocks alone.
bool step_cuts_blocks(const struct program *program, const struct storage *storage);

// Cuts a row of pieces: into which bucket the next one goes. `count` pieces of `total` elements in
// all go into `bucket_count` buckets, at most as many as pieces; each gets one.
struct step_cut {
    double total, done;
    int count, seen, bucket_count, bucket;
};
int step_cut_next(struct step_cut *cut, double elements);
