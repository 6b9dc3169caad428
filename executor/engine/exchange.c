#include "executor/engine/engine.h"

#include "executor/engine/away.h"
#include "executor/engine/expert_rows.h"

#include <stdlib.h>

// Instructions that change a layout. What a rank gives and takes follows from the boxes that the
// members of the group hold before and after; the transport moves flat parts. Of ragged tensors
// only the rows that exist are in a box.

struct box_exchange {
    struct engine *engine;
    int task;
    const struct script_task *of;
    const struct block_program *block;
    const struct instr *instr;
    struct member_group *group;
    int input, output;               // buffers
    const struct expert_rows *rows;  // of a ragged tensor; NULL: dense
    struct held before, after;
    char *from, *to;
    enum element element;
    int64_t element_bytes;
};

static struct held held(const struct box_exchange *x, int buffer, int member)
{
    return held_of_buffer(x->engine->program, x->block, buffer, x->group->ranks[member]);
}

static bool is_flat(const struct block_program *block, const struct instr *instr)
{
    return block->buffers[instr->inputs[0]].tensor < 0;
}

static int64_t elements_in(const struct box_exchange *x, const struct held *box)
{
    if (!x->rows || box->elements == 0) return box->elements;
    return expert_rows_count(x->rows, box) * box->count[ROWS_COLUMN];
}

static bool copy_box(struct box_exchange *x, const struct box_copy *copy)
{
    struct engine *engine = x->engine;
    return engine_ok(engine, x->task, engine->backend->box(engine->device, x->of->stream, copy));
}

static bool copy_rows(struct box_exchange *x, const struct held *part, const struct held *source,
                      const char *from, const struct held *target, void *to)
{
    struct expert_walk walk = {.rows = x->rows, .source_box = source, .target_box = target};
    struct expert_run run;
    while (expert_rows_next(&walk, &run)) {
        int64_t width = part->count[ROWS_COLUMN], column = part->first[ROWS_COLUMN];
        int64_t source_width = source->count[ROWS_COLUMN],
                target_width = target->count[ROWS_COLUMN];
        int64_t source_at = run.source * source_width + column - source->first[ROWS_COLUMN];
        int64_t target_at = run.target * target_width + column - target->first[ROWS_COLUMN];
        const struct box_copy copy = {.element = x->element,
                                      .combine = BOX_SET,
                                      .rank = 2,
                                      .sizes = {run.count, width},
                                      .to = (char *)to + target_at * x->element_bytes,
                                      .from = from + source_at * x->element_bytes,
                                      .to_strides = {target_width, 1},
                                      .from_strides = {source_width, 1}};
        if (!copy_box(x, &copy)) return false;
    }
    return true;
}

// What both boxes have, from one to the other.
static bool copy_part(struct box_exchange *x, const struct held *source, const char *from,
                      const struct held *target, char *to)
{
    struct held part = held_overlap(source, target);
    if (part.elements == 0) return true;
    if (x->rows) return copy_rows(x, &part, source, from, target, to);
    struct box_copy copy = held_copy(&part, source, from, target, to, x->element, x->element_bytes);
    return copy_box(x, &copy);
}

// Whether the members' boxes stand one after another in the box of all, so that nothing has to be
// packed: they differ in the outermost dim that has more than one index, and are in order there.
static bool is_in_rows(const struct box_exchange *x, const struct held *all, int buffer)
{
    int d = 0;
    if (x->rows) return false;
    while (d + 1 < all->rank && all->count[d] <= 1)
        d++;
    int64_t at = all->first[d];
    for (int j = 0; j < x->group->count; j++) {
        struct held part = held(x, buffer, j);
        if (part.elements == 0) continue;
        for (int i = 0; i < all->rank; i++) {
            bool differs = part.first[i] != all->first[i] || part.count[i] != all->count[i];
            if (i != d && differs) return false;
        }
        if (part.first[d] != at) return false;
        at += part.count[d];
    }
    return at == all->first[d] + all->count[d];
}

static bool gather(struct box_exchange *x)
{
    struct engine *engine = x->engine;
    int64_t *counts = ARENA_NEW(engine->scratch, int64_t, x->group->count);
    for (int j = 0; j < x->group->count; j++) {
        struct held part = held(x, x->input, j);
        counts[j] = elements_in(x, &part);
    }
    bool direct = is_in_rows(x, &x->after, x->input);
    char *all = direct ? x->to : engine_staging(engine, x->of->stream, 0);
    const char *fault = engine->transport->all_gather(x->group->group, x->of->stream, x->element,
                                                      x->from, all, counts);
    if (!engine_ok(engine, x->task, fault)) return false;
    for (int j = 0; j < x->group->count && !direct; j++) {
        struct held part = held(x, x->input, j);
        if (!copy_part(x, &part, all, &x->after, x->to)) return false;
        all += counts[j] * x->element_bytes;
    }
    return true;
}

static bool put_numbers(struct engine *engine, int task, enum element element, bool adds, void *to,
                        const void *from, int64_t count)
{
    const struct box_copy add = {
        .element = element,
        .combine = adds ? BOX_ADD : BOX_SET,
        .rank = 1,
        .sizes = {count},
        .to = to,
        .from = from,
        .to_strides = {1},
        .from_strides = {1},
    };
    enum stream stream = engine->script->tasks[task].stream;
    return engine_ok(engine, task, engine->backend->box(engine->device, stream, &add));
}

// Gradients are reduced as reals: those in a room are widened first, where they are not.
static const char *widened(struct engine *engine, int task, const char *room, int64_t count,
                           const char **fault)
{
    if (engine->compute_bytes == engine->real_bytes) return room;
    enum stream stream = engine->script->tasks[task].stream;
    char *wide = engine_staging(engine, stream, 1);
    *fault = engine->backend->widen(engine->device, stream, wide, room, count);
    return wide;
}

// Into a gradient of the state, which has reals, and may have a part of the sum already.
static bool scatter_gradient(struct box_exchange *x, char *all, const int64_t *counts,
                             int64_t count)
{
    struct engine *engine = x->engine;
    const char *fault = NULL, *whole = widened(engine, x->task, all, count, &fault);
    bool adds = x->of->outputs[0].adds;
    int free = engine->compute_bytes == engine->real_bytes;  // what is reduced may be in the other
    char *to = adds ? engine_staging(engine, x->of->stream, free) : x->to;
    int64_t own = counts[x->group->index];
    if (!fault)
        fault = engine->transport->reduce_scatter(x->group->group, x->of->stream, ELEMENT_FP32,
                                                  whole, to, counts);
    if (!engine_ok(engine, x->task, fault)) return false;
    return !adds || put_numbers(engine, x->task, ELEMENT_FP32, true, x->to, to, own);
}

static bool scatter(struct box_exchange *x)
{
    struct engine *engine = x->engine;
    int64_t *counts = ARENA_NEW(engine->scratch, int64_t, x->group->count);
    bool direct = is_in_rows(x, &x->before, x->output);
    char *all = direct ? x->from : engine_staging(engine, x->of->stream, 0), *at = all;
    for (int j = 0; j < x->group->count; j++) {
        struct held part = held(x, x->output, j);
        counts[j] = elements_in(x, &part);
        if (!direct && !copy_part(x, &x->before, x->from, &part, at)) return false;
        at += counts[j] * x->element_bytes;
    }
    if (x->of->outputs[0].place == PLACE_GRADIENT)
        return scatter_gradient(x, all, counts, x->before.elements);
    return engine_ok(engine, x->task,
                     engine->transport->reduce_scatter(x->group->group, x->of->stream, x->element,
                                                       all, x->to, counts));
}

static bool is_halo(const struct instr *instr)
{
    return instr->collective == COLLECTIVE_SEND_RECV;
}

// Of an image's strips what members have of another: `sums` adds what they made of it.
static bool copy_strip(struct box_exchange *x, const struct held *strip, const char *from,
                       const struct held *target, char *to, bool sums)
{
    if (strip->elements == 0) return true;
    struct box_copy copy = held_copy(strip, strip, from, target, to, x->element, x->element_bytes);
    copy.combine = sums ? BOX_ADD : BOX_SET;
    return copy_box(x, &copy);
}

// Each hands over what the others hold afterwards. Of strips it keeps its own, and the others what
// they do not hold now, or what belongs to them and is added there.
static bool exchange_all(struct box_exchange *x)
{
    struct engine *engine = x->engine;
    int64_t *sent = ARENA_NEW(engine->scratch, int64_t, x->group->count);
    int64_t *received = ARENA_NEW(engine->scratch, int64_t, x->group->count);
    char *leaves = engine_staging(engine, x->of->stream, 0), *at = leaves;
    char *comes = engine_staging(engine, x->of->stream, 1);
    bool are_strips = is_halo(x->instr);
    if (are_strips && !copy_part(x, &x->before, x->from, &x->after, x->to)) return false;
    for (int j = 0; j < x->group->count; j++) {
        if (are_strips && j == x->group->index) continue;
        struct held theirs = held(x, x->output, j), source = held(x, x->input, j);
        struct held part = held_overlap(&x->before, &theirs);
        sent[j] = elements_in(x, &part);
        if (!copy_part(x, &x->before, x->from, &part, at)) return false;
        at += sent[j] * x->element_bytes;
        traffic_to(engine, x->group->ranks[j], sent[j] * x->element_bytes);
        part = held_overlap(&source, &x->after);
        received[j] = elements_in(x, &part);
    }
    const char *fault = engine->transport->all_to_all(x->group->group, x->of->stream, x->element,
                                                      leaves, sent, comes, received);
    if (!engine_ok(engine, x->task, fault)) return false;
    for (int j = 0; j < x->group->count; j++) {
        if (received[j] == 0) continue;
        struct held source = held(x, x->input, j);
        struct held part = held_overlap(&source, &x->after);
        bool is_put = are_strips ? copy_strip(x, &part, comes, &x->after, x->to, x->instr->combine)
                                 : copy_part(x, &part, comes, &x->after, x->to);
        if (!is_put) return false;
        comes += received[j] * x->element_bytes;
    }
    return true;
}

static bool reduce(struct box_exchange *x)
{
    struct engine *engine = x->engine;
    int64_t count = elements_in(x, &x->after);
    if (x->to != x->from) {
        const char *fault = engine->backend->copy(engine->device, x->of->stream, COPY_DEVICE, x->to,
                                                  x->from, count * x->element_bytes);
        if (!engine_ok(engine, x->task, fault)) return false;
    }
    enum combine combine = x->instr->combine == LAYOUT_MAX ? COMBINE_MAX : COMBINE_SUM;
    return engine_ok(engine, x->task,
                     engine->transport->all_reduce(x->group->group, x->of->stream, x->element,
                                                   x->to, count, combine));
}

// Parameters of the units that a task covers, from the host: neighbours there in one copy.
static bool fetch_units(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    char *to = engine_address(engine, of, &of->outputs[0]), *room = NULL;
    const char *fault = NULL;
    moving_begin(engine);
    if (engine->away && !(room = away_fetch(engine, task))) return false;
    for (int u = of->unit, end = of->unit + of->unit_count; u < end;) {
        const char *from = room ? room : state_unit_weights(engine, u);
        int64_t bytes = 0;
        for (; u < end && (room || state_unit_weights(engine, u) == from + bytes); u++)
            bytes += engine->script->units[u].elements * engine->compute_bytes;
        fault = host_copy(engine, of->stream, COPY_FROM_HOST, to, from, bytes);
        if (!engine_ok(engine, task, fault)) return false;
        measure_bytes(engine, task, bytes);
        to += bytes;
    }
    if (room && engine->backend->is_asynchronous)  // it is read into again
        fault = engine->backend->synchronize(engine->device, of->stream);
    moving_end(engine);
    return engine_ok(engine, task, fault);
}

// Gathered parameters: the units that a task covers, one after another.
static bool gather_units(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct state *state = &engine->state;
    char *to = engine_address(engine, of, &of->outputs[0]);
    for (int u = of->unit; u < of->unit + of->unit_count; u++) {
        const struct script_unit *unit = &engine->script->units[u];
        struct member_group *group =
            engine_shard_group(engine, unit->storage.weight_axes, "gather");
        if (!group) return false;
        const char *from = state->weights + state->weight_at[u] * engine->compute_bytes;
        const char *fault =
            engine->transport->all_gather(group->group, of->stream, ELEMENT_COMPUTE, from, to,
                                          state_counts(engine, unit->elements, group));
        if (!engine_ok(engine, task, fault)) return false;
        measure_bytes(engine, task, unit->elements * engine->compute_bytes);
        traffic_ring(engine, group, COLLECTIVE_ALL_GATHER, unit->elements * engine->compute_bytes);
        to += unit->elements * engine->compute_bytes;
    }
    return true;
}

// Gradients that were made before there was room for them join those in the room.
static bool join_waiting(struct engine *engine, int task, char *room)
{
    const struct script_task *of = &engine->script->tasks[task];
    for (int i = 1; i < of->input_count; i++) {
        const struct script_parameter *p = &engine->script->parameters[of->inputs[i].parameter];
        int64_t at = p->first;
        for (int u = of->unit; u < p->unit; u++)
            at += engine->script->units[u].elements;
        char *to = room + at * engine->compute_bytes;
        const struct script_operand *waiting = &of->inputs[i];
        int64_t count =
            held_of_buffer(engine->program, engine_block(engine, of), waiting->buffer, engine->rank)
                .elements;
        if (!put_numbers(engine, task, ELEMENT_COMPUTE, waiting->adds, to,
                         engine_address(engine, of, waiting), count))
            return false;
        if (!waiting->adds && !gradients_zero_rest(engine, task, waiting, to)) return false;
    }
    return true;
}

// Whole gradients in their room into the shards of the state.
static bool scatter_units(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct state *state = &engine->state;
    char *room = engine_address(engine, of, &of->inputs[0]);
    if (!join_waiting(engine, task, room)) return false;
    for (int u = of->unit; u < of->unit + of->unit_count; u++) {
        const struct script_unit *unit = &engine->script->units[u];
        struct member_group *group =
            engine_shard_group(engine, unit->storage.gradient_axes, "scatter");
        if (!group) return false;
        int64_t *counts = state_counts(engine, unit->elements, group);
        bool adds = of->outputs[u - of->unit].adds;
        char *to = state->gradients + state->gradient_at[u] * engine->real_bytes;
        char *sum = adds ? engine_staging(engine, of->stream, 0) : to;
        const char *fault = NULL, *whole = widened(engine, task, room, unit->elements, &fault);
        if (!fault)
            fault = engine->transport->reduce_scatter(group->group, of->stream, ELEMENT_FP32, whole,
                                                      sum, counts);
        if (!engine_ok(engine, task, fault)) return false;
        measure_bytes(engine, task, unit->elements * engine->real_bytes);
        traffic_ring(engine, group, COLLECTIVE_REDUCE_SCATTER, unit->elements * engine->real_bytes);
        if (adds && !put_numbers(engine, task, ELEMENT_FP32, true, to, sum, counts[group->index]))
            return false;
        room += unit->elements * engine->compute_bytes;
    }
    return true;
}

// Payload as the simulator counts it: see struct instr.
static int64_t payload(const struct box_exchange *x)
{
    int64_t before = elements_in(x, &x->before), after = elements_in(x, &x->after);
    if (is_halo(x->instr)) return llabs(before - after) * x->element_bytes;
    bool is_larger = x->instr->collective == COLLECTIVE_REDUCE_SCATTER ||
                     (x->instr->collective == COLLECTIVE_ALL_TO_ALL && before > after);
    return (is_larger ? before : after) * x->element_bytes;
}

// From here on those of the pipeline and of rings end.
enum { RELAY_CHANNEL = 96 };

// A part goes to the rank behind, and another comes from the one before; of a pair to and from
// those that its turn is of, which may be the rank itself.
static bool hand_on(struct box_exchange *x, const struct block_program *block)
{
    struct engine *engine = x->engine;
    const struct transport *transport = engine->transport;
    struct communicator *communicator = engine->request->communicator;
    const struct mesh *mesh = &engine->program->mesh;
    const struct buffer *sent = &block->buffers[x->input], *taken = &block->buffers[x->output];
    int to = held_rank_with(mesh, x->instr->axes, taken, sent, engine->rank);
    int from = held_rank_with(mesh, x->instr->axes, sent, taken, engine->rank);
    if (to == engine->rank) return copy_part(x, &x->before, x->from, &x->after, x->to);
    measure_bytes(engine, x->task, x->before.elements * x->element_bytes);
    traffic_to(engine, to, x->before.elements * x->element_bytes);
    return engine_ok(engine, x->task,
                     transport->send(communicator, x->of->stream, x->element, to, RELAY_CHANNEL,
                                     x->from, x->before.elements)) &&
           engine_ok(engine, x->task,
                     transport->receive(communicator, x->of->stream, x->element, from,
                                        RELAY_CHANNEL, x->to, x->after.elements));
}

// What came is added to the part of a rank, or to a gradient, which may have to be begun: that of
// the state has reals. A piece is put in its place of the part, or taken out of it.
static bool add_part(struct box_exchange *x)
{
    struct engine *engine = x->engine;
    const struct script_operand *to = &x->of->outputs[0];
    bool is_state = to->place == PLACE_GRADIENT, is_piece = x->before.elements < x->after.elements;
    bool adds = x->instr->combine == LAYOUT_SUM && (x->instr->input_count == 2 || to->adds);
    enum element element = is_state ? ELEMENT_FP32 : x->element;
    int64_t width = is_state ? engine->real_bytes : x->element_bytes;
    const char *fault = NULL, *from = x->from;
    if (is_state) from = widened(engine, x->task, from, x->before.elements, &fault);
    if (!engine_ok(engine, x->task, fault)) return false;
    if (is_piece && to->parameter >= 0 && !adds) {
        adds = true;
        fault = engine->backend->fill(engine->device, x->of->stream, x->to, 0,
                                      x->after.elements * width);
        if (!engine_ok(engine, x->task, fault)) return false;
    }
    struct held part = held_overlap(&x->before, &x->after);
    struct box_copy copy = held_copy(&part, &x->before, from, &x->after, x->to, element, width);
    copy.combine = adds ? BOX_ADD : BOX_SET;
    return copy_box(x, &copy);
}

bool exchange_run(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct block_program *block = engine_block(engine, of);
    const struct instr *instr = &block->instrs[of->instr];
    if (instr->collective == COLLECTIVE_FETCH) return fetch_units(engine, task);
    if (is_flat(block, instr) && of->unit >= 0) {
        return instr->collective == COLLECTIVE_ALL_GATHER ? gather_units(engine, task)
                                                          : scatter_units(engine, task);
    }
    struct box_exchange x = {.engine = engine,
                             .task = task,
                             .of = of,
                             .block = block,
                             .instr = instr,
                             .input = instr->inputs[0],
                             .output = instr->outputs[0]};
    if (experts_are_ragged(engine, task)) x.rows = experts_rows(engine, task);
    x.group = engine_group(engine, instr->axes, "");
    if (!x.group) return false;
    x.before = held_of_buffer(engine->program, block, x.input, engine->rank);
    x.after = held_of_buffer(engine->program, block, x.output, engine->rank);
    x.from = engine_address(engine, of, &of->inputs[0]);
    x.to = engine_address(engine, of, &of->outputs[0]);
    x.element = engine_element(engine, of, &of->inputs[0]);
    x.element_bytes = engine_element_bytes(engine, x.element);
    if (instr->relay && instr->collective == COLLECTIVE_SLICE) return add_part(&x);
    if (instr->relay) return hand_on(&x, block);
    if (x.rows && !experts_fit(engine, task, &of->outputs[0])) return false;
    if (instr->collective != COLLECTIVE_SLICE) measure_bytes(engine, task, payload(&x));
    bool is_ring = instr->collective == COLLECTIVE_ALL_GATHER ||
                   instr->collective == COLLECTIVE_REDUCE_SCATTER ||
                   instr->collective == COLLECTIVE_ALL_REDUCE;
    if (is_ring) traffic_ring(engine, x.group, instr->collective, payload(&x));
    switch (instr->collective) {
    case COLLECTIVE_ALL_GATHER:
        return gather(&x);
    case COLLECTIVE_REDUCE_SCATTER:
        return scatter(&x);
    case COLLECTIVE_ALL_TO_ALL:
    case COLLECTIVE_SEND_RECV:
        return exchange_all(&x);
    case COLLECTIVE_ALL_REDUCE:
        return reduce(&x);
    case COLLECTIVE_SLICE:
        return copy_part(&x, &x.before, x.from, &x.after, x.to);
    default:
        break;
    }
    return err_set(engine->err, ERR_SYSTEM, "no exchange is called %s",
                   collective_name(instr->collective));
}

int64_t exchange_staging(const struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct block_program *block = engine_block(engine, of);
    const struct instr *instr = &block->instrs[of->instr];
    bool is_put = of->output_count > 0 && of->outputs[0].place == PLACE_GRADIENT;
    if (instr->collective == COLLECTIVE_NONE || instr->collective == COLLECTIVE_FETCH ||
        (instr->relay && !is_put))
        return 0;
    if (is_flat(block, instr)) {
        int64_t most = 0;
        for (int u = of->unit; of->unit >= 0 && u < of->unit + of->unit_count; u++) {
            int64_t elements = engine->script->units[u].elements;
            if (elements > most) most = elements;
        }
        return most * engine->real_bytes;
    }
    bool is_here =
        instr->collective == COLLECTIVE_SLICE || instr->collective == COLLECTIVE_ALL_REDUCE;
    if (is_here && !(instr->relay && is_put)) return 0;
    if (experts_are_ragged(engine, task)) {
        int64_t before = of->inputs[0].bytes, after = of->outputs[0].bytes;
        return (before > after ? before : after) * engine->widen;
    }
    struct held before = held_of_buffer(engine->program, block, instr->inputs[0], engine->rank);
    struct held after = held_of_buffer(engine->program, block, instr->outputs[0], engine->rank);
    int64_t most = before.elements > after.elements ? before.elements : after.elements;
    if (is_put) return most * engine->real_bytes;
    enum element element = engine_element(engine, of, &of->inputs[0]);
    return most * engine_element_bytes(engine, element);
}
