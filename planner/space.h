#pragma once
#include "planner/choice.h"
#include "planner/cut.h"
#include "planner/index.h"

// The space of plans that pins, stack and divisibility leave. It is a tree: a *mesh* (degrees and
// axis order), in it *groups* (attention, sequence parallelism, micro-batch), in them *tails*
// (chunks, schedule, ZeRO), in them ways to recompute. What makes no difference is not counted
// twice: sequence parallelism without tp, a context kind without cp, expert degrees without
// experts, a schedule without pp, ZeRO without dp, axis orders that put every communicator on the
// same links. There only the first allowed value stays.

struct space_mesh {
    int degree[AXIS_COUNT];
    enum cp_kind cp_kind;
    enum axis order[AXIS_COUNT];
    int order_count;
    int zero_group, zero_gradients, zero_parameters;
};

// The first stage of ZeRO that shards all that the mesh has groups for.
static inline int space_least_zero(const struct space_mesh *mesh)
{
    if (mesh->zero_parameters > 0) return 3;
    return mesh->zero_gradients > 0 ? 2 : mesh->zero_group > 0;
}

// Ranks that share the work of a sample.
static inline double space_sample_ranks(const struct space_mesh *mesh)
{
    return (double)mesh->degree[AXIS_TP] * mesh->degree[AXIS_CP] * mesh->degree[AXIS_SP_H] *
           mesh->degree[AXIS_SP_W];
}

struct space_group {
    int mesh;  // index
    enum attention attention;
    bool sp;
    int micro_batch;
};

// `layers_low .. layers_high` are the numbers of recomputed layers a stage that stand for one plan
// each; -1 .. -1 where the choice is all or none.
struct space_recompute {
    enum recompute recompute;
    unsigned classes;
    int layers_low, layers_high;
    unsigned moves;  // 1 << index of the tail's moves that the stack can do beside it
};

// What is moved off the device. `layers_low .. layers_high` are numbers of whole layers a stage,
// the highest of them all layers; 0 .. 0 where `offload` says itself what is moved.
struct space_move {
    struct offload offload;
    int layers_low, layers_high;
};
enum { SPACE_MOVE_MAX = 16 };

struct space_tail {
    int vpp;
    enum schedule_kind schedule;
    int in_flight;
    int zero;
    const struct space_recompute *recomputes;  // what recomputes least stands first
    int recompute_count;
    const struct space_move *moves;  // nothing moved stands first, if it is among them
    int move_count;
};

// Whether the stack has the move beside any way to recompute.
static inline bool space_has_move(const struct space_tail *tail, int move)
{
    unsigned taken = 0;
    for (int r = 0; r < tail->recompute_count; r++)
        taken |= tail->recomputes[r].moves;
    return taken >> move & 1;
}

// How far a schedule can hide that stages wait for each other.
enum pipeline_kind {
    PIPELINE_FUSED = 1,    // one chunk a stage, W right behind B
    PIPELINE_CHUNKED = 2,  // several chunks, W right behind B
    PIPELINE_PARTED = 4    // W is put off
};

struct space_tails {
    const struct space_tail *tails;
    int count;
    double plan_count;
    int zero_least, zero_most;
    unsigned kinds;          // of pipelines, a mask of enum pipeline_kind
    bool recomputes;         // no tail keeps all activations
    bool streams;            // gradients of the single micro-batch pass through rooms of their own
    bool accumulates;        // gradients of the micro-batches are added up whole
    unsigned state_tiers;    // where plans keep the optimizer's states: 1 << enum tier
    bool moves_activations;  // a plan keeps activations off the device
    double hold_ratio;       // the least of the schedules (struct schedule_row)
    int in_flight_least;     // the lowest cap that a plan sets; 0: none does
};

// A space of more meshes than this is cut in its degrees.
enum { SPACE_MESHES_MOST = 1024 };

enum { SPACE_VALUE_MAX = 64 };
struct space_values {
    int count;
    int values[SPACE_VALUE_MAX];
};

struct space {
    struct arena *arena;
    const struct search_request *request;
    int layer_count;  // of the model
    struct space_values zeros, recomputes, schedules, attentions, switches, cp_kinds;
    struct parallel fixed;  // choices that are not searched: what is pinned, else the default
    struct space_mesh *meshes;
    int mesh_count;
    struct space_group *groups;  // mesh by mesh; micro-batches of a family in ascending order
    int group_count;
    struct index tails, ways, splits;  // known so far
    const int **flop_stages;  // [pp] layers of each stage, where the stack decides; NULL: it does
                              // not
    unsigned cuts;            // of the degrees, 1 << enum cut
    bool narrow;              // cut in its degrees
    double dropped[DROP_COUNT];  // meshes and kinds of tails without any legal plan
    struct err refused;          // why the first of them was
};

// Meshes and groups of a request, in `arena`. `graph_of` gives the graph of a tp degree and
// attention, for the checks. An empty space is no error here: group_count is 0.
struct space_graphs {
    const struct graph *(*of)(void *context, enum attention attention, int tp);
    void *context;
};
struct space *space_make(struct arena *arena, const struct search_request *request,
                         const struct space_graphs *graphs);
// Ways to recompute (recompute_value) that are worth trying for this model, what recomputes least
// first, as far as the pins leave them.
struct space_values space_recomputes(const struct search_request *request,
                                     const struct graph *graph);
// Classes of operators that the model has and the stack can recompute: a mask of 1 << enum
// op_class.
unsigned space_classes(const struct search_request *request, const struct graph *graph);
// planner/space_mesh.c: the meshes, with the groups of each.
void space_add_meshes(struct space *space, const struct space_graphs *graphs);
// planner/space_stages.c: finds the layers of the stages where the stack decides; false where it
// refuses so many stages.
bool space_find_stages(struct space *space, const struct graph *graph, int stage_count);
// Whether the stack splits the experts of this graph so.
bool space_takes_experts(struct space *space, const struct graph *graph, int tp, int etp);
// Writes the layers of the stages that are pinned or that the stack decides, if there are any.
void space_take_stages(const struct space *space, struct parallel *parallel);
void space_drop(struct space *space, enum drop why, const struct err *err);

// The legal tails of a group, in a fixed order. Groups with as many stages, micro-batches and kinds
// of axes share theirs; they live as long as the space.
const struct space_tails *space_tails(struct space *space, const struct space_graphs *graphs,
                                      const struct space_group *group);
// The record of a plan of the space; `layers` is in the range of `recompute`.
struct parallel space_parallel(const struct space *space, const struct space_group *group,
                               const struct space_tail *tail,
                               const struct space_recompute *recompute, int layers);
// The same with the first way to recompute.
struct parallel space_first(const struct space *space, const struct space_group *group,
                            const struct space_tail *tail);

// planner/space_moves.c: what may be moved of stages of at most so many layers. Returns how many
// there are; not the stack's abilities, but what the cluster has is asked, and of the stack what
// leaves beside states at this stage of ZeRO.
int space_moves(const struct search_request *request, int zero, int layers_most,
                struct space_move moves[SPACE_MOVE_MAX]);
// The choice of so many layers, in the range of `move`.
struct offload space_moved(const struct space_move *move, int layers);

// planner/space_ways.c: the tail with its ways to recompute and to move, on stages of at most so
// many layers. They depend on its schedule and stage of ZeRO, not on chunks or caps. No ways to
// recompute where the stack cannot run such a tail at all.
struct space_tail space_ways(struct space *space, const struct space_group *group,
                             struct space_tail tail, int layers_most);
// The ways to recompute of a tail (recompute_value), each once; at most 2 * SPACE_VALUE_MAX of
// them.
int space_recompute_values(const struct space_tail *tail, int *values);
