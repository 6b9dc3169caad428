#pragma once
#include "plan/layout/sequence.h"
#include "plan/lower/lower.h"
#include "plan/schedule.h"
#include "plan/stages.h"

// The program of a plan: for each chunk of each pipeline stage the lowered blocks of one
// micro-batch, the schedule that orders them, and what happens once a step (gradient reduction,
// parameter gathering, tied parameters, the global norm, the update). Simulator, memory planner and
// executor read this and nothing else. Chunks of equal content share a class.

struct block_use {
    int block_program;  // index
    int count;          // consecutive repetitions
    unsigned moved;     // of what it saves: 1 << enum op_class that is offloaded
    unsigned away;      // AWAY_STATES, AWAY_GRADIENTS: of layers of which these are offloaded
                        // though those of others are not (step_away)
};

struct block_origin {  // what a block program is lowered from
    int kind;          // of the graph's blocks
    int mesh;          // of the stage with this number (parallel_mesh_of)
    enum recompute recompute;
};

struct program_chunk {       // one class
    struct block_use *uses;  // in order
    int use_count;
    bool first, last;  // holds the embedding / the head
    // The stage whose mesh it has (parallel_mesh_of), and those of the chunks that work in front of
    // it and behind it; -1 = there is none. Where all have one mesh all are 0. Of a tree of stages
    // the latter two are the stage's number.
    int mesh, mesh_before, mesh_behind;
    int64_t parameter_elements;  // local, of all its blocks
};

// A parameter that lives on several stages (tied embeddings, a table that layers share): its
// gradient is partial over these.
struct tied {
    const char *tie;
    const int *stages;  // ascending, two at least
    int stage_count;
    int64_t elements;  // local
};

// Storage layouts (ZeRO): what of each kind of parameter a rank keeps: the mesh axes the storage is
// split over as one flat buffer; 0 = none.
struct storage {
    unsigned weight_axes, gradient_axes, optimizer_axes;
    bool weights_away;  // of what blocks fetch (struct block_program); never in struct program
    unsigned away;      // AWAY_STATES, AWAY_GRADIENTS, of a group of gradients (plan/step_end.h)
};

// Whether a block finds its weights in the arena, gathered there from other ranks or fetched from
// the host; whether it leaves its gradients there to be scattered.
static inline bool storage_gathers(const struct storage *storage)
{
    return storage->weight_axes || storage->weights_away;
}
// What is left to do once a step: over which axes the gradients, whole or in shards, are scattered
// on the way to the states, and over which the weights that were updated come back.
static inline unsigned storage_scatter_axes(const struct storage *storage, unsigned reduce_axes)
{
    return storage->optimizer_axes & reduce_axes & ~storage->gradient_axes;
}
static inline unsigned storage_gather_axes(const struct storage *storage)
{
    return storage->optimizer_axes & ~storage->weight_axes;
}
static inline bool storage_scatters(const struct storage *storage)
{
    return storage->gradient_axes != 0;
}

// The moments of a stage: see struct schedule_row. moments[n * chunk_count + chunk].
struct stage_in_flight {
    const struct schedule_in_flight *moments;
    int count;
};

// Parallel, mesh and storage are those of the ranks of the stages with most ranks of tp. Where
// stages have meshes of their own (struct parallel, stage_tp) what is asked about a stage, a chunk
// or a block is asked of the program as its ranks see it: program_at and the like.
struct program {
    const struct graph *graph;
    const struct cluster *cluster;
    struct workload workload;
    struct parallel parallel;
    struct mesh mesh;
    struct sequence_order order;
    struct storage storage[PARAMETER_KIND_COUNT];
    struct block_program **blocks;
    int block_count;
    struct block_origin *origins;  // [block]
    struct program_chunk *chunks;  // classes
    int chunk_class_count;
    int *class_of;  // [stage * vpp + chunk]
    struct schedule_shape shape;
    const struct tied *ties;  // in the order in which the stages first have them (plan/ties.h)
    int tie_count;
    struct chunk_span *spans;                 // [stage * vpp + chunk]
    const struct stage_in_flight *in_flight;  // [stage], those that are asked about; NULL: the
                                              // memory model asks the schedule (slower)
    const struct graph_gradients *gradients;
};

// The program as the ranks of a stage, a chunk or a block see it: itself where that is how it is,
// else a copy in `room` with mesh, storage and degrees of theirs.
const struct program *program_at(const struct program *program, int stage, struct program *room);
const struct program *program_of_chunk(const struct program *program,
                                       const struct program_chunk *chunk, struct program *room);
const struct program *program_of_block(const struct program *program, int block,
                                       struct program *room);
// Whether two are views of one.
bool program_is_same(const struct program *a, const struct program *b);

// The replica that a rank is of: its place in dp.
int program_replica(const struct program *program, int rank);
// Micro-batches of the mean rank: where replicas take unlike numbers shape has the most.
double program_rounds(const struct program *program);
// The program as the ranks of a replica with so many micro-batches run it.
const struct program *program_of_count(struct arena *arena, const struct program *program,
                                       int micro_batch_count);
// What is added to a place in the batch of a micro-batch for the sequence's number in the step.
int64_t program_first_sequence(const struct program *program, int rank, int micro_batch);

// Whether a block of this kind fetches its parameters from the host or below: the n-th layer of its
// stage, counted from 0. Where only some layers do, none whose parameters are tied.
bool program_fetches(const struct graph *graph, int kind, const struct offload *offload, int layer);
// The storage of a block's parameters of a kind.
struct storage program_stores(const struct program *program, const struct block_program *block,
                              enum parameter_kind kind);
// What ZeRO splits over which axes.
struct storage program_storage(const struct mesh *mesh, const struct parallel *parallel,
                               enum parameter_kind kind);

// The legality of choices beyond what types say: everything that must divide, with the nearest
// values that do. ERR_USAGE. Does not look at memory. Where `err` is set already the answer is yes
// or no alone, which takes less time.
MUST_CHECK bool program_check(const struct graph *graph, const struct cluster *cluster,
                              const struct workload *workload, const struct parallel *parallel,
                              struct err *err);

// A model of samples (one position each) has no sequences to choose the length of. ERR_USAGE.
MUST_CHECK bool program_check_seq_len(const struct graph *graph, const struct workload *workload,
                                      struct err *err);
// Adapters beside nothing that the model has would leave nothing to train. ERR_USAGE.
MUST_CHECK bool program_check_lora(const struct graph *graph, struct adapters lora,
                                   struct err *err);
// Gathers and sums that are handed on in parts, and scores that are made in parts. ERR_USAGE.
MUST_CHECK bool parts_check(const struct graph *graph, const struct workload *workload,
                            const struct parallel *parallel, struct err *err);
// Choices that go with micro-batches of another number for each replica. ERR_USAGE.
MUST_CHECK bool program_check_replicas(const struct parallel *parallel, struct err *err);
// What is moved to NVMe needs some, and parameters and gradients the optimizer states beside them;
// which plans can keep gradients on the host. ERR_USAGE.
MUST_CHECK bool program_check_gradients(const struct parallel *parallel, struct err *err);
MUST_CHECK bool stays_check(const struct parallel *parallel, struct err *err);
MUST_CHECK bool program_check_offload(const struct cluster *cluster, const struct offload *offload,
                                      struct err *err);

// Lowers a checked plan. `joins` (plan/lower/joins.h) comes from the stack.
struct program *program_lower(struct arena *arena, const struct graph *graph,
                              const struct cluster *cluster, const struct workload *workload,
                              const struct parallel *parallel, unsigned joins);
