#include "executor/array.h"
#include "executor/engine/engine.h"
#include "executor/number.h"
#include "models/op_image.h"

#include <assert.h>
#include <math.h>

// One task: what a slot of the schedule is made of. What happens once a step is in engine_update.c.

static const struct instr *instr_of(const struct engine *engine, const struct script_task *task)
{
    return &engine_block(engine, task)->instrs[task->instr];
}

// What an operator over images exchanges: all of its statistics behind one another.
static struct kernel_array statistics_of(const struct block *block, const struct kernel_call *call)
{
    struct kernel_array all = {.rank = 1, .element = ELEMENT_FP32, .dims = {DIM_FLAT}};
    const struct op *op = call->op;
    for (int i = 0; i < call->input_count + call->output_count; i++) {
        bool is_input = i < call->input_count;
        int at = is_input ? i : i - call->input_count;
        if (!op_is_statistic(block, op, is_input ? op->inputs[at] : op->outputs[at])) continue;
        all.sizes[0] += array_elements(is_input ? &call->inputs[at] : &call->outputs[at]);
    }
    all.whole[0] = all.sizes[0];
    return all;
}

// Exchange n of an operator: filled by it, exchanged, taken in.
static bool run_inner(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct instr *instr = instr_of(engine, of);
    int owner = engine->prepared[task].owner;
    assert(owner >= 0 && "an exchange inside an operator has one");
    struct kernel_call call;
    if (!call_make(engine, owner, &call)) return false;
    struct kernel_array inner = call.outputs[0];
    // Of each row that a norm is taken over, or of each loss, one number.
    bool is_loss = op_is_loss(call.op->kind);
    bool is_norm = call.op->kind == OP_NORM || call.op->kind == OP_NORM_BACKWARD;
    if (!is_loss && !is_norm) {
        inner = statistics_of(engine_block(engine, of)->block, &call);
    } else if (is_norm) {
        inner.rank -= op_norm_rank(engine_block(engine, of)->block, call.op);
        inner.row_stride = 0;
        inner.element = ELEMENT_FP32;
    }
    inner.data = engine_address(engine, of, &of->inputs[0]);
    if (!call_part(engine, owner, of->stream, 2 * instr->inner - 1, &inner)) return false;
    struct member_group *group = engine_group(engine, instr->axes, "inner");
    if (!group) return false;
    int64_t rows = 1;
    for (int i = 0; i < inner.rank; i++)
        rows *= inner.sizes[i];
    int64_t bytes = rows * engine_element_bytes(engine, inner.element);
    measure_bytes(engine, task, bytes);
    traffic_ring(engine, group, COLLECTIVE_ALL_REDUCE, bytes);
    enum combine combine = instr->combine == LAYOUT_MAX ? COMBINE_MAX : COMBINE_SUM;
    const char *fault = engine->transport->all_reduce(group->group, of->stream, inner.element,
                                                      inner.data, rows, combine);
    return engine_ok(engine, task, fault) &&
           call_part(engine, owner, of->stream, 2 * instr->inner, &inner);
}

static bool run_instr(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct instr *instr = instr_of(engine, of);
    if (engine->prepared[task].is_joined) return true;
    if (engine->prepared[task].joined > 0) return joins_run(engine, task);
    if (experts_gather(engine, task)) return experts_exchange_choices(engine, task);
    if (instr->inner > 0) return run_inner(engine, task);
    if (ring_is(engine, task)) return ring_run(engine, task);
    if (instr->collective == COLLECTIVE_NONE)
        return experts_choose(engine, task) && call_run(engine, task);
    if (instr->streamed) return ring_settle(engine, task);
    return exchange_run(engine, task);
}

// The loss is the mean over the tokens of the step; a multi-token prediction module's counts 0.3
// of it (DeepSeek-V3, section 4.2, first ten trillion tokens).
static const double PREDICTION_WEIGHT = 0.3;

// Losses of each of its places: those of an image, where scores are of its parts.
static double answers_of(const struct graph *graph)
{
    static const enum dim IMAGE[] = {DIM_DEPTH, DIM_HEIGHT, DIM_WIDTH};
    const struct block *head = &graph->blocks[graph->sequence[graph->sequence_count - 1]];
    const struct tensor *loss = &head->tensors[head->outputs[0]];
    double answers = 1;
    for (size_t i = 0; i < sizeof IMAGE / sizeof *IMAGE; i++) {
        int at = tensor_find_dim(loss, IMAGE[i]);
        if (at >= 0) answers *= (double)loss->extents[at].size;
    }
    return answers;
}

double engine_step_tokens(const struct engine *engine)
{
    const struct workload *workload = &engine->program->workload;
    const struct graph *graph = engine->request->graph;
    double places = answers_of(graph);
    // The last place of a picture is asked for the first token behind it, the others for nothing.
    int64_t asked = workload->seq_len - (graph->prefix > 0 ? graph->prefix - 1 : 0);
    if (!graph->contrasts) places *= (double)asked;
    assert(asked > 0 && places > 0 && "a loss is a mean over them");
    return (double)workload->global_batch * places;
}

// The host's end of what a task copies in every step, for all of its operands. They are of reals.
static char *host_room(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct block_program *block = engine_block(engine, of);
    int64_t elements = 0;
    if (engine->prepared[task].host) return engine->prepared[task].host;
    for (int i = 0; i < of->input_count + of->output_count; i++) {
        const struct script_operand *operand =
            i < of->input_count ? &of->inputs[i] : &of->outputs[i - of->input_count];
        elements += held_of_buffer(engine->program, block, operand->buffer, engine->rank).elements;
    }
    return engine->prepared[task].host = host_memory(engine, elements * engine->real_bytes);
}

static bool seed(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct block_program *block = engine_block(engine, of);
    char *host = host_room(engine, task);
    if (!host) return false;
    for (int i = 0; i < of->output_count; i++) {
        struct held held =
            held_of_buffer(engine->program, block, of->outputs[i].buffer, engine->rank);
        double weight = (i > 0 ? PREDICTION_WEIGHT : 1) * engine->scale.now;
        double value = weight / engine_step_tokens(engine);
        assert(isfinite(value) && value > 0 && "gradients begin with the share of one answer");
        enum element element = engine_element(engine, of, &of->outputs[i]);
        enum number number = number_of(engine->backend, element);
        int64_t bytes = held.elements * number_bytes(number);
        for (int64_t e = 0; e < held.elements; e++)
            number_put(number, host, e, value);
        char *to = engine_address(engine, of, &of->outputs[i]);
        const char *fault = host_copy(engine, of->stream, COPY_FROM_HOST, to, host, bytes);
        if (!engine_ok(engine, task, fault)) return false;
        measure_bytes(engine, task, bytes);
        host += bytes;
    }
    return true;
}

bool task_counts_tokens(const struct engine *engine, const struct layout *layout)
{
    const struct mesh *mesh = &engine->program->mesh;
    for (int a = 0; a < mesh->axis_count; a++) {
        bool is_same = layout->of[a] <= 0 && mesh->axes[a].parent != AXIS_PP;
        if (is_same && mesh_coordinate(mesh, a, engine->rank) != 0) return false;
    }
    return true;
}

// The first of the losses is that of the next token. They are looked at when the step is over, so
// that the host goes on meanwhile.
static bool take_loss(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct block_program *block = engine_block(engine, of);
    const struct buffer *buffer = &block->buffers[of->inputs[0].buffer];
    if (!task_counts_tokens(engine, &buffer->layout)) return true;
    struct held held = held_of_buffer(engine->program, block, of->inputs[0].buffer, engine->rank);
    enum element element = engine_element(engine, of, &of->inputs[0]);
    char *host = host_room(engine, task);
    if (!host) return false;
    int64_t bytes = held.elements * engine_element_bytes(engine, element);
    measure_bytes(engine, task, bytes);
    return engine_ok(engine, task,
                     host_copy(engine, of->stream, COPY_TO_HOST, host,
                               engine_address(engine, of, &of->inputs[0]), bytes));
}

void task_add_losses(struct engine *engine)
{
    for (int t = 0; t < engine->script->task_count; t++) {
        const struct script_task *of = &engine->script->tasks[t];
        const char *host = engine->prepared[t].host;
        if (of->kind != TASK_LOSS || !host) continue;
        struct held held = held_of_buffer(engine->program, engine_block(engine, of),
                                          of->inputs[0].buffer, engine->rank);
        enum number number = number_of(engine->backend, engine_element(engine, of, &of->inputs[0]));
        for (int64_t e = 0; e < held.elements; e++)
            engine->loss_sum += number_get(number, host, e);
    }
}

bool task_run(struct engine *engine, int task)
{
    assert(task >= 0 && task < engine->script->task_count);
    const struct script_task *of = &engine->script->tasks[task];
    if (!gradients_begin(engine, task)) return false;
    switch (of->kind) {
    case TASK_INSTR:
        return run_instr(engine, task);
    case TASK_SEED:
        return seed(engine, task);
    case TASK_COPY_OUT:
    case TASK_COPY_IN:
        return offload_run(engine, task);
    case TASK_SEND:
    case TASK_RECEIVE:
        return message_run(engine, task);
    case TASK_LOSS:
        return take_loss(engine, task);
    default:
        break;
    }
    return update_run(engine, task);
}
