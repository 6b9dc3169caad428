#include "executor/engine/engine.h"

#include "executor/engine/expert_rows.h"

#include <assert.h>

// Changes of layout of ragged tensors: as those of dense ones (engine_exchange.c), but of the boxes
// only the rows that exist are moved.

struct row_exchange {
    struct engine *engine;
    int task;
    const struct script_task *of;
    const struct block_program *block;
    const struct instr *instr;
    const struct expert_rows *rows;
    struct member_group *group;
    struct held before, after;
    char *from, *to;
};

static struct held held(const struct row_exchange *x, int buffer, int member)
{
    return held_of_buffer(x->engine->program, x->block, buffer, x->group->ranks[member]);
}

static int64_t reals_in(const struct row_exchange *x, const struct held *box)
{
    return box->elements ? expert_rows_count(x->rows, box) * box->count[ROWS_COLUMN] : 0;
}

// What both boxes have, from the rows of one to those of the other.
static bool copy_rows(struct row_exchange *x, const struct held *source, const char *from,
                      const struct held *target, void *to)
{
    struct engine *engine = x->engine;
    struct held part = held_overlap(source, target);
    if (part.elements == 0) return true;
    struct expert_walk walk = {.rows = x->rows, .source_box = source, .target_box = target};
    struct expert_run run;
    while (expert_rows_next(&walk, &run)) {
        int64_t width = part.count[ROWS_COLUMN], column = part.first[ROWS_COLUMN];
        int64_t source_width = source->count[ROWS_COLUMN],
                target_width = target->count[ROWS_COLUMN];
        int64_t source_at = run.source * source_width + column - source->first[ROWS_COLUMN];
        int64_t target_at = run.target * target_width + column - target->first[ROWS_COLUMN];
        const struct box_copy copy = {.element = ELEMENT_COMPUTE,
                                      .combine = BOX_SET,
                                      .rank = 2,
                                      .sizes = {run.count, width},
                                      .to = (char *)to + target_at * engine->compute_bytes,
                                      .from = from + source_at * engine->compute_bytes,
                                      .to_strides = {target_width, 1},
                                      .from_strides = {source_width, 1}};
        const char *fault = engine->backend->box(engine->device, x->of->stream, &copy);
        if (!engine_ok(engine, x->task, fault)) return false;
    }
    return true;
}

static bool gather(struct row_exchange *x)
{
    struct engine *engine = x->engine;
    int64_t *counts = ARENA_NEW(engine->scratch, int64_t, x->group->count);
    const char *at = engine_staging(engine, x->of->stream, 0);
    for (int m = 0; m < x->group->count; m++) {
        struct held part = held(x, x->instr->inputs[0], m);
        counts[m] = reals_in(x, &part);
    }
    const char *fault =
        engine->transport->all_gather(x->group->group, x->of->stream, ELEMENT_COMPUTE, x->from,
                                      engine_staging(engine, x->of->stream, 0), counts);
    if (!engine_ok(engine, x->task, fault)) return false;
    for (int m = 0; m < x->group->count; m++) {
        struct held part = held(x, x->instr->inputs[0], m);
        if (!copy_rows(x, &part, at, &x->after, x->to)) return false;
        at += counts[m] * engine->compute_bytes;
    }
    return true;
}

static bool scatter(struct row_exchange *x)
{
    struct engine *engine = x->engine;
    int64_t *counts = ARENA_NEW(engine->scratch, int64_t, x->group->count);
    char *at = engine_staging(engine, x->of->stream, 0);
    for (int m = 0; m < x->group->count; m++) {
        struct held part = held(x, x->instr->outputs[0], m);
        counts[m] = reals_in(x, &part);
        if (!copy_rows(x, &x->before, x->from, &part, at)) return false;
        at += counts[m] * engine->compute_bytes;
    }
    return engine_ok(
        engine, x->task,
        engine->transport->reduce_scatter(x->group->group, x->of->stream, ELEMENT_COMPUTE,
                                          engine_staging(engine, x->of->stream, 0), x->to, counts));
}

static bool exchange_all(struct row_exchange *x)
{
    struct engine *engine = x->engine;
    int64_t *sent = ARENA_NEW(engine->scratch, int64_t, x->group->count);
    int64_t *received = ARENA_NEW(engine->scratch, int64_t, x->group->count);
    struct held *sources = ARENA_NEW(engine->scratch, struct held, x->group->count);
    char *at = engine_staging(engine, x->of->stream, 0);
    for (int m = 0; m < x->group->count; m++) {
        struct held theirs = held(x, x->instr->outputs[0], m);
        struct held source = held(x, x->instr->inputs[0], m);
        struct held part = held_overlap(&x->before, &theirs);
        sources[m] = held_overlap(&source, &x->after);
        sent[m] = reals_in(x, &part);
        received[m] = reals_in(x, &sources[m]);
        if (!copy_rows(x, &x->before, x->from, &part, at)) return false;
        at += sent[m] * engine->compute_bytes;
    }
    const char *fault = engine->transport->all_to_all(
        x->group->group, x->of->stream, ELEMENT_COMPUTE, engine_staging(engine, x->of->stream, 0),
        sent, engine_staging(engine, x->of->stream, 1), received);
    if (!engine_ok(engine, x->task, fault)) return false;
    at = engine_staging(engine, x->of->stream, 1);
    for (int m = 0; m < x->group->count; m++) {
        if (!copy_rows(x, &sources[m], at, &x->after, x->to)) return false;
        at += received[m] * engine->compute_bytes;
    }
    return true;
}

static bool reduce(struct row_exchange *x)
{
    struct engine *engine = x->engine;
    int64_t count = reals_in(x, &x->after);
    const char *fault = NULL;
    if (x->to != x->from) {
        fault = engine->backend->copy(engine->device, x->of->stream, COPY_DEVICE, x->to, x->from,
                                      count * engine->compute_bytes);
    }
    if (!engine_ok(engine, x->task, fault)) return false;
    enum combine combine = x->instr->combine == LAYOUT_MAX ? COMBINE_MAX : COMBINE_SUM;
    return engine_ok(engine, x->task,
                     engine->transport->all_reduce(x->group->group, x->of->stream, ELEMENT_COMPUTE,
                                                   x->to, count, combine));
}

static void count_payload(struct row_exchange *x)
{
    int64_t before = reals_in(x, &x->before), after = reals_in(x, &x->after);
    bool is_larger = x->instr->collective == COLLECTIVE_REDUCE_SCATTER ||
                     (x->instr->collective == COLLECTIVE_ALL_TO_ALL && before > after);
    if (x->instr->collective != COLLECTIVE_SLICE)
        measure_bytes(x->engine, x->task, (is_larger ? before : after) * x->engine->compute_bytes);
}

bool rows_exchange(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    struct row_exchange x = {.engine = engine, .task = task, .of = of};
    x.block = engine_block(engine, of);
    x.instr = &x.block->instrs[of->instr];
    x.rows = experts_rows(engine, task);
    x.group = engine_group(engine, x.instr->axes, "");
    if (!x.group) return false;
    x.before = held_of_buffer(engine->program, x.block, x.instr->inputs[0], engine->rank);
    x.after = held_of_buffer(engine->program, x.block, x.instr->outputs[0], engine->rank);
    x.from = engine_address(engine, of, &of->inputs[0]);
    x.to = engine_address(engine, of, &of->outputs[0]);
    if (!experts_fit(engine, task, &of->outputs[0])) return false;
    count_payload(&x);
    switch (x.instr->collective) {
    case COLLECTIVE_ALL_GATHER:
        return gather(&x);
    case COLLECTIVE_REDUCE_SCATTER:
        return scatter(&x);
    case COLLECTIVE_ALL_TO_ALL:
        return exchange_all(&x);
    case COLLECTIVE_ALL_REDUCE:
        return reduce(&x);
    case COLLECTIVE_SLICE:
        return copy_rows(&x, &x.before, x.from, &x.after, x.to);
    default:
        break;
    }
    return err_set(engine->err, ERR_SYSTEM, "no exchange is called %s",
                   collective_name(x.instr->collective));
}

int64_t rows_staging(const struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    int64_t before = of->inputs[0].bytes, after = of->outputs[0].bytes;
    return (before > after ? before : after) * engine->widen;
}
