#include "executor/engine/engine.h"

#include "plan/boundary.h"

#include <assert.h>

// Messages from stage to stage. Where the meshes of the two are unlike each tensor goes in pieces
// (plan/boundary.h): what this rank's box has in common with that of each of its peers is packed,
// sent, and unpacked there.

struct crossing {
    struct engine *engine;
    int task;
    const struct script_task *of;
    const struct script_operand *operand;
    struct boundary boundary;
    struct held held;
    enum element element;
    int64_t element_bytes;
    char *data;
};

static bool pass_on(const struct crossing *x, int peer, char *data, int64_t count)
{
    assert(peer >= 0 && peer != x->engine->rank && count >= 0 && "the other stage has other ranks");
    struct engine *engine = x->engine;
    const struct transport *transport = engine->transport;
    struct communicator *with = engine->request->communicator;
    bool sends = x->of->kind == TASK_SEND;
    int64_t bytes = count * x->element_bytes;
    measure_bytes(engine, x->task, bytes);
    if (sends) traffic_to(engine, peer, bytes);
    const char *fault =
        sends ? transport->send(with, x->of->stream, x->element, peer, x->of->channel, data, count)
              : transport->receive(with, x->of->stream, x->element, peer, x->of->channel, data,
                                   count);
    return engine_ok(engine, x->task, fault);
}

static bool copy_piece(const struct crossing *x, const struct boundary_piece *piece, char *room)
{
    struct engine *engine = x->engine;
    bool sends = x->of->kind == TASK_SEND;
    const struct held *source = sends ? &x->held : &piece->part;
    const struct held *target = sends ? &piece->part : &x->held;
    struct box_copy copy = held_copy(&piece->part, source, sends ? x->data : room, target,
                                     sends ? room : x->data, x->element, x->element_bytes);
    return engine_ok(engine, x->task, engine->backend->box(engine->device, x->of->stream, &copy));
}

// Sending copies, so that one room does for all pieces.
static bool pass_pieces(const struct crossing *x)
{
    struct engine *engine = x->engine;
    struct boundary_piece *pieces;
    bool sends = x->of->kind == TASK_SEND;
    char *room = engine_staging(engine, x->of->stream, sends ? 0 : 1);
    int count = boundary_pieces(engine->scratch, &x->boundary, engine->rank, sends, &pieces);
    int64_t passed = 0;
    for (int i = 0; i < count; i++) {
        const struct boundary_piece *piece = &pieces[i];
        passed += piece->part.elements;
        if (sends && !copy_piece(x, piece, room)) return false;
        if (!pass_on(x, piece->peer, room, piece->part.elements)) return false;
        if (!sends && !copy_piece(x, piece, room)) return false;
    }
    assert((sends || passed == x->held.elements) && "pieces make the whole of what is awaited");
    return true;
}

bool message_run(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    bool sends = of->kind == TASK_SEND;
    int count = sends ? of->input_count : of->output_count;
    for (int i = 0; i < count; i++) {
        const struct script_operand *operand = sends ? &of->inputs[i] : &of->outputs[i];
        struct crossing x = {.engine = engine,
                             .task = task,
                             .of = of,
                             .operand = operand,
                             .boundary = script_boundary(engine->script, of, i)};
        x.held = held_of_buffer(engine->program, engine_block(engine, of), operand->buffer,
                                engine->rank);
        x.data = engine_address(engine, of, operand);
        x.element = engine_element(engine, of, operand);
        x.element_bytes = engine_element_bytes(engine, x.element);
        assert(x.data && "what is sent has a place in the arena");
        int other = sends ? x.boundary.to.stage : x.boundary.from.stage;
        bool done = boundary_is_plain(&x.boundary)
                        ? pass_on(&x, engine_rank_at_stage(engine, other), x.data, x.held.elements)
                        : pass_pieces(&x);
        if (!done) return false;
    }
    return true;
}

// The largest piece: pieces take turns in one room.
int64_t message_staging(const struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    bool sends = of->kind == TASK_SEND;
    int64_t most = 0;
    if (!sends && of->kind != TASK_RECEIVE) return 0;
    int count = sends ? of->input_count : of->output_count;
    for (int i = 0; i < count; i++) {
        const struct script_operand *operand = sends ? &of->inputs[i] : &of->outputs[i];
        struct boundary boundary = script_boundary(engine->script, of, i);
        if (boundary_is_plain(&boundary)) continue;
        struct arena_mark mark = arena_mark(engine->scratch);
        struct boundary_piece *pieces;
        int pieces_count =
            boundary_pieces(engine->scratch, &boundary, engine->rank, sends, &pieces);
        int64_t each = engine_element_bytes(engine, engine_element(engine, of, operand));
        for (int p = 0; p < pieces_count; p++) {
            int64_t bytes = pieces[p].part.elements * each;
            if (bytes > most) most = bytes;
        }
        arena_reset(engine->scratch, mark);
    }
    return most;
}
