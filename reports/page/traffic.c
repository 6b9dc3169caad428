#include "reports/page/traffic.h"
#include "plan/boundary.h"
#include "simulator/breakdown.h"
#include "simulator/unlike.h"

#include <assert.h>

struct counting {
    const struct cluster *cluster;
    const struct program *program;
    struct traffic *traffic;
    const int *cell_of, *node_of;  // [rank]
    int rounds;                    // micro-batches that the breakdown at hand is of
};

static void count(const struct counting *counting, int from, int to, double bytes)
{
    struct traffic *traffic = counting->traffic;
    if (from == to || bytes <= 0) return;
    int row = counting->cell_of[from], column = counting->cell_of[to];
    traffic->bytes[row * traffic->cell_count + column] += bytes;
    traffic->total_bytes += bytes;
    if (counting->node_of[from] == counting->node_of[to]) traffic->inside_bytes += bytes;
}

// The rank `by` places after `rank` in its group over these axes, round the end.
static int peer(const struct mesh *mesh, unsigned axes, int rank, int by)
{
    int size = mesh_size(mesh, axes), index = 0, weight = 1, base = rank;
    for (int i = 0; i < mesh->axis_count; i++) {
        if (!(axes >> i & 1)) continue;
        int own = mesh_coordinate(mesh, i, rank);
        index += own * weight;
        weight *= mesh->axes[i].size;
        base -= own * mesh->axes[i].stride;
    }
    assert(index < size && by > 0 && by < size);
    index = (index + by) % size;
    for (int i = 0; i < mesh->axis_count; i++) {
        if (!(axes >> i & 1)) continue;
        base += index % mesh->axes[i].size * mesh->axes[i].stride;
        index /= mesh->axes[i].size;
    }
    return base;
}

// Micro-batches of the rank's replica.
static double rounds_of(const struct counting *counting, int rank)
{
    const struct program *program = counting->program;
    if (program->parallel.replica_count == 0) return program->shape.micro_batch_count;
    return (double)parallel_replica_count(&program->parallel, program->workload.global_batch,
                                          program_replica(program, rank));
}

// What one rank sends for its part of a collective.
static void count_group(const struct counting *counting, const struct breakdown *breakdown,
                        const struct breakdown_line *line, int rank)
{
    assert(counting->rounds > 0);
    const struct ledger_line *price = line->price;
    const struct mesh *mesh = breakdown->mesh;
    bool is_of_all = price->entry == ENTRY_NORM;
    int size = is_of_all ? mesh->rank_count : mesh_size(mesh, price->axes);
    if (size < 2) return;
    double bytes = line->count * price->bytes;
    bool is_repeated = price->block >= 0 || price->entry == ENTRY_TASK;
    if (is_repeated) bytes *= rounds_of(counting, rank) / counting->rounds;
    if (price->collective == COLLECTIVE_ALL_TO_ALL) {
        for (int by = 1; by < size; by++)
            count(counting, rank, peer(mesh, price->axes, rank, by), bytes / size);
        return;
    }
    // Of a payload that is streamed the messages of one rank are priced, not the whole.
    bool is_streamed = price->collective == COLLECTIVE_SEND_RECV;
    double share = is_streamed ? 1 : (double)(size - 1) / size;
    if (price->collective == COLLECTIVE_ALL_REDUCE) share *= 2;
    // As a ring sends it, to the next rank alone, whatever algorithm was priced.
    int next = is_of_all ? (rank + 1) % size : peer(mesh, price->axes, rank, 1);
    count(counting, rank, next, share * bytes);
}

// A message between stages of unlike meshes goes to each peer in pieces.
static void count_pieces(const struct counting *counting, const struct boundary_message *message,
                         int rank)
{
    struct arena scratch = {0};
    for (int edge = 0; edge < BLOCK_EDGES; edge++) {
        struct boundary boundary;
        struct boundary_piece *pieces;
        if (!boundary_of(counting->program, message, edge, &boundary)) continue;
        double bytes = (double)boundary_element_bytes(&boundary) * rounds_of(counting, rank);
        int piece_count = boundary_pieces(&scratch, &boundary, rank, true, &pieces);
        for (int i = 0; i < piece_count; i++)
            count(counting, rank, pieces[i].peer, bytes * (double)pieces[i].part.elements);
    }
    arena_free(&scratch);
}

// Over each boundary between virtual stages an activation one way and a gradient the other, of
// every micro-batch.
static void count_hops(const struct counting *counting, double bytes, int rank, int stage)
{
    const struct program *program = counting->program;
    const struct schedule_shape *shape = &program->shape;
    const struct schedule_row *row = schedule_row(program->parallel.schedule);
    int virtual_count = shape->stage_count * shape->chunk_count;
    for (int at = 0; at + 1 < virtual_count; at++) {
        int next = schedule_next(shape, at);
        int from = row->stage_of(shape, at), to = row->stage_of(shape, next);
        if (from == to || (from != stage && to != stage)) continue;
        const struct boundary_message there = {from, row->chunk_of(shape, at), to,
                                               row->chunk_of(shape, next), false};
        const struct boundary_message back = {there.to_stage, there.to_chunk, from,
                                              there.from_chunk, true};
        if (parallel_mesh_of(&program->parallel, from) !=
            parallel_mesh_of(&program->parallel, to)) {
            count_pieces(counting, from == stage ? &there : &back, rank);
            continue;
        }
        int other = mesh_at_stage(&program->mesh, rank, from == stage ? to : from);
        count(counting, rank, other, bytes * rounds_of(counting, rank));
    }
}

static void count_stage(const struct counting *counting, const struct breakdown *breakdown)
{
    const struct mesh *mesh = &counting->program->mesh;
    int last = breakdown->stage_count - 1;
    for (int rank = 0; rank < mesh->rank_count; rank++) {
        if (mesh_stage_of(mesh, rank) != breakdown->stage) continue;
        for (int i = 0; i < breakdown->count; i++) {
            const struct breakdown_line *line = &breakdown->lines[i];
            const struct ledger_line *price = line->price;
            if (price->collective == COLLECTIVE_NONE) continue;
            if (price->collective == COLLECTIVE_SEND_RECV && price->entry == ENTRY_HOP) {
                count_hops(counting, price->bytes, rank, breakdown->stage);
            } else if (price->entry == ENTRY_TIED) {
                int other = mesh_at_stage(mesh, rank, breakdown->stage ? 0 : last);
                count(counting, rank, other, line->count * price->bytes);
            } else {
                count_group(counting, breakdown, line, rank);
            }
        }
    }
}

static void fold(struct arena *arena, struct counting *counting)
{
    assert(counting->traffic->rank_count > 0);
    struct traffic *traffic = counting->traffic;
    int rank_count = traffic->rank_count;
    int *cells = ARENA_NEW(arena, int, rank_count), *nodes = ARENA_NEW(arena, int, rank_count);
    for (int rank = 0; rank < rank_count; rank++)
        nodes[rank] = cluster_node_of(counting->cluster, rank);
    int node_count = nodes[rank_count - 1] + 1;
    if (rank_count > TRAFFIC_CELLS_MAX)
        traffic->nodes_per_cell = (node_count + TRAFFIC_CELLS_MAX - 1) / TRAFFIC_CELLS_MAX;
    for (int rank = 0; rank < rank_count; rank++)
        cells[rank] = traffic->nodes_per_cell ? nodes[rank] / traffic->nodes_per_cell : rank;
    traffic->cell_count = cells[rank_count - 1] + 1;
    assert(traffic->cell_count > 0 && traffic->cell_count <= TRAFFIC_CELLS_MAX);
    counting->cell_of = cells;
    counting->node_of = nodes;
}

struct traffic traffic_of_pairs(struct arena *arena, const struct cluster *cluster, int rank_count,
                                const double *bytes)
{
    struct traffic traffic = {.rank_count = rank_count};
    struct counting counting = {.cluster = cluster, .traffic = &traffic};
    fold(arena, &counting);
    traffic.bytes =
        ARENA_NEW(arena, double, (size_t)traffic.cell_count *(size_t)traffic.cell_count);
    for (int from = 0; from < rank_count; from++)
        for (int to = 0; to < rank_count; to++)
            count(&counting, from, to, bytes[from * rank_count + to]);
    return traffic;
}

struct traffic traffic_make(struct arena *arena, struct arena *scratch,
                            const struct evaluation_request *request,
                            const struct evaluation *evaluation)
{
    const struct program *program = evaluation->program;
    struct traffic traffic = {.rank_count = program->mesh.rank_count};
    struct counting counting = {
        .cluster = request->cluster, .program = program, .traffic = &traffic};
    counting.rounds = program->shape.micro_batch_count;
    fold(arena, &counting);
    size_t cells = (size_t)traffic.cell_count * (size_t)traffic.cell_count;
    traffic.bytes = ARENA_NEW(arena, double, cells);

    struct arena_mark mark = arena_mark(scratch);
    struct ledger ledger = ledger_new(scratch);
    struct price_context context = evaluation_context(request);
    context.ledger = &ledger;
    const struct step_price *price = step_price(scratch, &context, program);
    const struct simulation *simulation =
        unlike_play(arena, scratch, request, program, price, &(struct engine_options){0});
    for (int stage = 0; stage < program->shape.stage_count; stage++) {
        struct breakdown breakdown =
            unlike_is(request, program)
                ? breakdown_of_unlike(arena, scratch, request, program, simulation, stage,
                                      &counting.rounds)
                : breakdown_of_stage(scratch, &ledger, program, price, simulation, stage);
        count_stage(&counting, &breakdown);
    }
    assert(traffic.inside_bytes <= traffic.total_bytes * (1 + 1e-9));
    arena_reset(scratch, mark);
    return traffic;
}
