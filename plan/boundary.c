#include "plan/boundary.h"

#include <assert.h>

static const struct block_use *use_at(const struct program *program, int stage, int chunk,
                                      bool is_last)
{
    int class = program->class_of[stage * program->shape.chunk_count + chunk];
    const struct program_chunk *of = &program->chunks[class];
    return &of->uses[is_last ? of->use_count - 1 : 0];
}

static int virtual_at(const struct program *program, int stage, int chunk)
{
    const struct schedule_row *row = schedule_row(program->parallel.schedule);
    int v = 0;
    while (row->stage_of(&program->shape, v) != stage || row->chunk_of(&program->shape, v) != chunk)
        v++;
    return v;
}

bool boundary_message(const struct program *program, int stage, int chunk, bool sends,
                      bool is_backward, int n, struct boundary_message *message)
{
    const struct schedule_shape *shape = &program->shape;
    const struct schedule_row *row = schedule_row(program->parallel.schedule);
    int own = virtual_at(program, stage, chunk), other = -1;
    if (sends == is_backward)
        other = schedule_before(shape, own, n);
    else if (n == 0)
        other = schedule_next(shape, own);
    if (other < 0 || row->stage_of(shape, other) == stage) return false;
    int from = sends ? own : other, to = sends ? other : own;
    *message =
        (struct boundary_message){row->stage_of(shape, from), row->chunk_of(shape, from),
                                  row->stage_of(shape, to), row->chunk_of(shape, to), is_backward};
    return true;
}

// Which input of the stage behind it the first output of the one in front is.
static int first_edge(const struct program *program, const struct boundary_message *message)
{
    const struct stage_tree *tree = program->shape.tree;
    int front = message->is_backward ? message->to_stage : message->from_stage;
    return tree ? tree->first_edge[front] : 0;
}

bool boundary_of(const struct program *program, const struct boundary_message *message, int edge,
                 struct boundary *boundary)
{
    assert(edge >= 0 && edge < BLOCK_EDGES);
    bool is_backward = message->is_backward;
    int input = edge + first_edge(program, message);
    if (input >= BLOCK_EDGES) return false;
    int from_block =
        use_at(program, message->from_stage, message->from_chunk, !is_backward)->block_program;
    int to_block =
        use_at(program, message->to_stage, message->to_chunk, is_backward)->block_program;
    const struct block_program *from = program->blocks[from_block], *to = program->blocks[to_block];
    *boundary = (struct boundary){
        .program = program,
        .from = {message->from_stage, from_block,
                 is_backward ? from->input_gradients[input] : from->outputs[edge]},
        .to = {message->to_stage, to_block,
               is_backward ? to->output_gradients[edge] : to->inputs[input]},
    };
    return boundary->from.buffer >= 0 && boundary->to.buffer >= 0;
}

int boundary_tensor_count(const struct program *program, const struct boundary_message *message)
{
    struct boundary boundary;
    int count = 0;
    for (int edge = 0; edge < BLOCK_EDGES; edge++)
        count += boundary_of(program, message, edge, &boundary);
    return count;
}

// The message in which a virtual stage hands on tensor `edge` of what it makes, or the gradient of
// input `edge`, and which of the message's it is there. False: nobody gets it.
static bool message_with(const struct program *program, int v, bool is_backward, int edge,
                         struct boundary_message *message, int *place)
{
    const struct schedule_row *row = schedule_row(program->parallel.schedule);
    const struct schedule_shape *shape = &program->shape;
    int to = is_backward ? -1 : schedule_next(shape, v);
    *place = edge;
    for (int n = 0; is_backward; n++) {
        int before = schedule_before(shape, v, n);
        if (before < 0 || (shape->tree && shape->tree->first_edge[before] > edge)) break;
        to = before;
        *place = edge - (shape->tree ? shape->tree->first_edge[before] : 0);
    }
    if (to < 0) return false;
    *message =
        (struct boundary_message){row->stage_of(shape, v), row->chunk_of(shape, v),
                                  row->stage_of(shape, to), row->chunk_of(shape, to), is_backward};
    return true;
}

bool boundary_of_class(const struct program *program, const struct program_chunk *chunk,
                       bool is_backward, int edge, struct boundary *boundary)
{
    const struct schedule_shape *shape = &program->shape;
    const struct schedule_row *row = schedule_row(program->parallel.schedule);
    int count = shape->stage_count * shape->chunk_count;
    for (int v = 0; v < count; v++) {
        int stage = row->stage_of(shape, v), c = row->chunk_of(shape, v), place;
        struct boundary_message message;
        if (&program->chunks[program->class_of[stage * shape->chunk_count + c]] != chunk) continue;
        if (message_with(program, v, is_backward, edge, &message, &place))
            return boundary_of(program, &message, place, boundary);
    }
    return false;
}

bool boundary_is_plain(const struct boundary *boundary)
{
    const struct program *program = boundary->program;
    if (!parallel_has_meshes(&program->parallel)) return true;
    return program->origins[boundary->from.block].mesh == program->origins[boundary->to.block].mesh;
}

// One end of a boundary, as its ranks see it.
struct end_seen {
    const struct program *program;
    const struct block_program *block;
    int buffer, stage, rank_count;
};

static struct end_seen see(const struct boundary *boundary, bool sends, struct program *room)
{
    const struct boundary_end *end = sends ? &boundary->from : &boundary->to;
    const struct program *seen = program_of_block(boundary->program, end->block, room);
    return (struct end_seen){seen, seen->blocks[end->block], end->buffer, end->stage,
                             mesh_stage_ranks(&seen->mesh, end->stage)};
}

static struct held held_at(const struct end_seen *end, int rank)
{
    return held_of_buffer(end->program, end->block, end->buffer, rank);
}

// The axes over which the sender's ranks hold unlike parts.
static unsigned split_axes(const struct end_seen *from)
{
    const struct mesh *mesh = &from->program->mesh;
    const struct layout *layout = &from->block->buffers[from->buffer].layout;
    unsigned axes = 0;
    for (int a = 0; a < mesh->axis_count; a++) {
        assert(layout->of[a] >= 0 && "what is handed on is no partial sum");
        if (layout->of[a] > 0) axes |= 1u << a;
    }
    return axes;
}

// The n-th rank that differs from `rank` on these axes alone, ascending.
static int rank_over(const struct mesh *mesh, unsigned axes, int rank, int n)
{
    assert(n >= 0 && rank >= 0);
    for (int a = 0; a < mesh->axis_count; a++) {
        const struct mesh_axis *axis = &mesh->axes[a];
        if (!(axes >> a & 1)) continue;
        rank += (n % axis->size - mesh_coordinate(mesh, a, rank)) * axis->stride;
        n /= axis->size;
    }
    return rank;
}

// The k-th rank of the receivers that stands where the sender's rank does: of more ranks than the
// sender has several do, of fewer some places have none. -1: there is none.
static int receiver_at(const struct end_seen *from, const struct end_seen *to, int rank, int k)
{
    const struct mesh *mesh = &to->program->mesh;
    if (!mesh->stage_ranks) return mesh_at_stage(mesh, rank, to->stage);
    int place = rank - from->program->mesh.first_rank + k * from->rank_count;
    return place < to->rank_count ? mesh->first_rank + place : -1;
}

int boundary_pieces(struct arena *arena, const struct boundary *boundary, int rank, bool sends,
                    struct boundary_piece **pieces)
{
    struct program rooms[2];
    struct end_seen from = see(boundary, true, &rooms[0]), to = see(boundary, false, &rooms[1]);
    const struct mesh *mesh = &from.program->mesh;
    unsigned axes = split_axes(&from);
    int places = mesh_size(mesh, axes), count = 0, capacity = 0;
    assert(places >= 1 && from.rank_count >= 1 && to.rank_count >= 1);
    int rounds = sends ? (to.rank_count + from.rank_count - 1) / from.rank_count : 1;
    int place = sends ? rank : mesh_at_stage(mesh, rank, from.stage);
    struct held own = held_at(sends ? &from : &to, rank);
    *pieces = NULL;
    for (int n = 0; n < rounds * places; n++) {
        int peer = rank_over(mesh, axes, place, n % places);
        if (sends) peer = receiver_at(&from, &to, peer, n / places);
        if (peer < 0) continue;
        struct held other = held_at(sends ? &to : &from, peer);
        struct held part = held_overlap(&own, &other);
        if (part.elements == 0) continue;
        ARENA_GROW(arena, *pieces, count, capacity);
        (*pieces)[count++] = (struct boundary_piece){peer, part};
    }
    return count;
}

int64_t boundary_element_bytes(const struct boundary *boundary)
{
    const struct block_program *block = boundary->program->blocks[boundary->from.block];
    const struct tensor *tensor =
        &block->block->tensors[block->buffers[boundary->from.buffer].tensor];
    return lower_element_bytes(tensor->element, boundary->program->workload.precision);
}

// The first rank of an end: that in the first place on all axes.
static int first_rank(const struct end_seen *end)
{
    return mesh_at_stage(&end->program->mesh, 0, end->stage);
}

static int64_t elements_of(const struct boundary_piece *pieces, int count)
{
    int64_t elements = 0;
    for (int i = 0; i < count; i++)
        elements += pieces[i].part.elements;
    return elements;
}

double boundary_sent_ratio(const struct boundary *boundary)
{
    struct program rooms[2];
    double elements[2];
    for (int sends = 0; sends < 2; sends++) {
        struct end_seen end = see(boundary, sends, &rooms[sends]);
        struct held held = held_at(&end, first_rank(&end));
        elements[sends] = (double)held.elements * end.rank_count;
    }
    assert(elements[1] > 0 && "who gets a message holds something of it");
    return elements[0] / elements[1];
}

static struct boundary_sum boundary_sum_of(const struct program *program,
                                           const struct boundary_message *message)
{
    struct arena scratch = {0};
    struct boundary_sum ends[2] = {{0, 0}, {0, 0}};
    for (int edge = 0; edge < BLOCK_EDGES; edge++) {
        struct boundary boundary;
        if (!boundary_of(program, message, edge, &boundary)) continue;
        for (int sends = 0; sends < 2; sends++) {
            struct boundary_piece *pieces;
            struct program room;
            struct end_seen end = see(&boundary, sends, &room);
            int rank = first_rank(&end);
            int count = boundary_pieces(&scratch, &boundary, rank, sends, &pieces);
            ends[sends].count += count;
            ends[sends].bytes += elements_of(pieces, count) * boundary_element_bytes(&boundary);
        }
    }
    arena_free(&scratch);
    return (struct boundary_sum){
        .bytes = ends[0].bytes > ends[1].bytes ? ends[0].bytes : ends[1].bytes,
        .count = ends[0].count > ends[1].count ? ends[0].count : ends[1].count,
    };
}

struct boundary_sum boundary_sum_behind(const struct program *program, int v, bool is_backward)
{
    const struct schedule_shape *shape = &program->shape;
    const struct schedule_row *row = schedule_row(program->parallel.schedule);
    int next = schedule_next(shape, v), from = is_backward ? next : v, to = is_backward ? v : next;
    if (next < 0) return (struct boundary_sum){0, 0};
    const struct boundary_message message = {row->stage_of(shape, from), row->chunk_of(shape, from),
                                             row->stage_of(shape, to), row->chunk_of(shape, to),
                                             is_backward};
    bool is_alike = parallel_mesh_of(&program->parallel, message.from_stage) ==
                    parallel_mesh_of(&program->parallel, message.to_stage);
    return is_alike ? (struct boundary_sum){0, 0} : boundary_sum_of(program, &message);
}
