#include "executor/array.h"
#include "executor/engine/engine.h"

#include <string.h>

#include "executor/random.h"

#include <assert.h>

// Kernel calls from tasks: arrays with their places in the whole.

static const struct tensor *tensor_of(const struct block_program *block, int tensor)
{
    return &block->block->tensors[tensor];
}

// What a product casts for others: all of what it reads, of which it may see a part of each row.
static struct kernel_array cast_from(const struct engine *engine, const struct block_program *block,
                                     const struct kernel_array *input, int view)
{
    struct kernel_array from = *input;
    if (!view) return from;
    const struct packed_view *of = &block->views[view - 1];
    if (from.data)
        from.data = (char *)from.data - of->first * engine_element_bytes(engine, from.element);
    from.rank = 3;
    from.dims[2] = DIM_FLAT;
    from.sizes[2] = from.whole[2] = of->row;
    from.first[2] = 0;
    return from;
}

// Of a cast the numbers, of a view those of its lines; its factor is in front of all.
static void show_cast(struct engine *engine, const struct script_task *task, int input,
                      struct kernel_call *call)
{
    const struct block_program *block = engine_block(engine, task);
    const struct instr *instr = &block->instrs[task->instr];
    struct kernel_array *array = &call->inputs[input];
    const char *base = array->data;
    int view = (uint8_t)instr->input_views[input];
    assert(array->rank > 2);
    array->row_stride = view ? block->views[view - 1].row : 0;
    if (!base) return;
    int64_t first = view ? block->views[view - 1].first * array->sizes[0] * array->sizes[1] : 0;
    call->factors[input] = (const float *)(const void *)base;
    array->data = (char *)array->data + CAST_HEAD_BYTES + first;
}

// Elements of one row of (batch, seq), and of what stands in front of a part, of its first sequence
// and row.
static int64_t row_of(const struct held *held)
{
    int64_t elements = 1;
    for (int i = 2; i < held->rank; i++)
        elements *= held->count[i];
    return elements;
}
static int64_t before(const struct held *held, const struct held *part)
{
    int64_t rows = part->first[0] - held->first[0], columns = 0, row = row_of(held);
    if (held->rank > 1) rows = rows * held->count[1] + part->first[1] - held->first[1];
    if (held->rank > 2 && row > 0)
        columns = (part->first[2] - held->first[2]) * (row / held->count[2]);
    return rows * row + columns;
}

// The array of an operand, of what `buffer` has, or the view of a packed one (0: none), seen as
// tensor `as`, whose dims may have other names.
static struct kernel_array array_of(struct engine *engine, const struct script_task *task,
                                    const struct script_operand *operand, int view, int as)
{
    const struct block_program *block = engine_block(engine, task);
    int buffer = view ? block->views[view - 1].buffer : operand->buffer;
    struct held held = held_of_buffer(engine->program, block, buffer, engine->rank);
    const struct tensor *tensor = tensor_of(block, as);
    const struct parallel *parallel = &engine->program->parallel;
    int64_t batch = (int64_t)parallel->micro_batch * parallel->degree[AXIS_DP];
    struct kernel_array array = {.rank = tensor->rank,
                                 .element = engine_element(engine, task, operand)};
    if (engine->memory) array.data = engine_address(engine, task, operand);
    if (view && array.element != ELEMENT_BYTE) {
        array.row_stride = block->views[view - 1].row;
        if (engine->memory)
            array.data = (char *)array.data +
                         block->views[view - 1].first * engine_element_bytes(engine, array.element);
    }
    const struct instr *instr = &block->instrs[task->instr];
    struct held part = held_of_operand(engine->program, block, instr, buffer, engine->rank);
    if (array.data)
        array.data =
            (char *)array.data + before(&held, &part) * engine_element_bytes(engine, array.element);
    bool has_columns = held.rank > 2 && part.count[2] != held.count[2];
    if (has_columns) array.row_stride = row_of(&held);
    for (int i = 0; i < tensor->rank; i++) {
        array.dims[i] = tensor->extents[i].dim;
        array.sizes[i] = part.count[i];
        array.first[i] = part.first[i];
        array.whole[i] = extent_size(&tensor->extents[i], batch, engine->program->workload.seq_len);
        if (array.dims[i] == DIM_BATCH && task->micro_batch >= 0)
            array.first[i] +=
                program_first_sequence(engine->program, engine->rank, task->micro_batch);
    }
    return array;
}

// Random numbers are drawn by name, which the choice of kernels does not change: the fused one,
// "attention.core", drops what in the chain an operator of its own drops.
static uint64_t key_of_name(uint64_t key, const struct block *block, const struct op *op)
{
    const struct op *forward = &block->ops[op->forward_op];
    if (forward->kind != OP_ATTENTION) return random_key_text(key, forward->name);
    const char *dot = strrchr(forward->name, '.'), *end = dot ? dot : strchr(forward->name, 0);
    for (const char *at = forward->name; at < end; at++)
        key = random_key(key, (unsigned char)*at);
    return random_key_text(key, ".softmax_dropout");
}

uint64_t call_key(const struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct block_program *block = engine_block(engine, of);
    const struct op *op = &block->block->ops[block->instrs[of->instr].op];
    uint64_t key = random_key(engine->request->options->seed, 2);
    key = random_key(key, (uint64_t)engine->step);
    key = random_key(key, (uint64_t)engine_sequence(engine, of));
    return key_of_name(key, block->block, op);
}

// Routers choose by the last bits of their scores, and one number is no matrix to cast.
static bool is_linear_weight(const struct tensor *tensor, enum tensor_role role)
{
    return tensor->role == role && tensor->rank > 1 && tensor_find_dim(tensor, DIM_GATE) < 0;
}

// Heads and tables are not of layers: their GEMMs stay as wide as their values.
void kernel_call_know_gemm(const struct block *block, struct kernel_call *call)
{
    const struct op *op = call->op;
    if (op->kind != OP_CONTRACT || block->role != BLOCK_LAYER) return;
    const struct tensor *result = &block->tensors[op->outputs[0]];
    call->is_linear = is_linear_weight(result, TENSOR_PARAMETER_GRADIENT);
    for (int i = 0; i < op->input_count; i++) {
        const struct tensor *input = &block->tensors[op->inputs[i]];
        call->is_linear = call->is_linear || is_linear_weight(input, TENSOR_PARAMETER);
        if (input->role == TENSOR_GRADIENT) call->gradients |= 1u << i;
    }
}

// Dropout is for training.
static const struct op *without_dropout(const struct engine *engine, const struct op *op)
{
    if (op->dropout_ratio <= 0) return op;
    struct op *same = ARENA_NEW(engine->scratch, struct op, 1);
    *same = *op;
    same->dropout_ratio = 0;
    return same;
}

bool call_make(struct engine *engine, int task, struct kernel_call *call)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct block_program *block = engine_block(engine, of);
    const struct instr *instr = &block->instrs[of->instr];
    const struct op *op = &block->block->ops[instr->op];
    *call = (struct kernel_call){
        .op = op,
        .input_count = of->input_count,
        .output_count = of->output_count,
        .passing = instr->passing,
        .vocab = engine->request->graph->vocab,
        .head_count = engine->request->graph->head_count,
        .order = engine->program->order,
    };
    assert(of->input_count <= OP_INPUT_MAX && of->output_count <= OP_OUTPUT_MAX);
    for (int i = 0; i < of->input_count; i++) {
        // A sum may have other terms than its operator: each is seen as what it is.
        int own = block->buffers[instr_input(block, instr, i)].tensor;
        int as = op->kind == OP_ADD ? own : op->inputs[i];
        call->inputs[i] = array_of(engine, of, &of->inputs[i], instr->input_views[i], as);
        if (block->buffers[instr->inputs[i]].cast) show_cast(engine, of, i, call);
    }
    if (instr->cast) {
        int input = instr->cast - 1;
        call->output_count--;
        call->cast_input = input;
        call->cast_from = cast_from(engine, block, &call->inputs[input], instr->input_views[input]);
        if (engine->memory)
            call->cast_to = engine_address(engine, of, &of->outputs[call->output_count]);
    }
    for (int i = 0; i < call->output_count; i++) {
        int own = block->buffers[instr_output(block, instr, i)].tensor;
        int as = op->kind == OP_ADD ? own : op->outputs[i];
        call->outputs[i] = array_of(engine, of, &of->outputs[i], instr->output_views[i], as);
        if (of->outputs[i].adds) call->adds |= 1u << i;
    }
    kernel_call_know_gemm(block->block, call);
    weight_casts_show(engine, task, call);
    call->documents = data_documents(engine, &call->document_stride);
    if (engine->is_validating) call->op = without_dropout(engine, op);
    call->key = call_key(engine, task);
    call->key_at = segments_key_at(engine, task);
    return experts_show(engine, task, call);
}

// Of an array with rows those of one sequence of a part.
static void show_sequence(struct engine *engine, const struct script_task *of,
                          const struct script_operand *operand, int64_t sequence,
                          struct kernel_array *array)
{
    if (!array_has_rows(array)) return;
    struct held held =
        held_of_buffer(engine->program, engine_block(engine, of), operand->buffer, engine->rank);
    int64_t before = sequence * held.count[1] * row_of(&held);
    assert(sequence < held.count[0] && "rows of the batch that is here");
    array->data = (char *)array->data + before * engine_element_bytes(engine, array->element);
    array->sizes[0] = 1;
    array->first[0] += sequence;
}

// Whether a result is summed over parts, of which this is not the first. Gradients that the state
// has, or a room, are told by their operands.
static bool adds_parts(const struct block_program *block, const struct instr *instr)
{
    const struct buffer *result = &block->buffers[instr->outputs[0]];
    const struct tensor *tensor = &block->block->tensors[result->tensor];
    return !result->external && tensor_find_dim(tensor, instr->dim) < 0 &&
           block->buffers[instr_part(instr)].behind > 0;
}

// Work on a part of a relay: rows of one sequence stand behind one another, those of the next
// apart.
static bool run_part(struct engine *engine, int task, const struct kernel_call *call)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct instr *instr = &engine_block(engine, of)->instrs[of->instr];
    const struct kernel_array *part = instr->rows > call->input_count
                                          ? &call->outputs[instr->rows - 1 - call->input_count]
                                          : &call->inputs[instr->rows - 1];
    int64_t sequences = instr->dim == DIM_SEQ ? part->sizes[0] : 1;
    assert(instr->rows <= call->input_count + call->output_count);
    bool is_summed = !array_has_rows(&call->outputs[0]);
    struct kernel_call whole = *call;
    if (adds_parts(engine_block(engine, of), instr)) whole.adds |= 1u;
    for (int64_t s = 0; s < sequences; s++) {
        struct kernel_call one = whole;
        for (int i = 0; i < one.input_count && sequences > 1; i++)
            show_sequence(engine, of, &of->inputs[i], s, &one.inputs[i]);
        for (int i = 0; i < one.output_count && sequences > 1; i++)
            show_sequence(engine, of, &of->outputs[i], s, &one.outputs[i]);
        if (s > 0 && is_summed) one.adds |= 1u;
        const char *fault = engine->backend->run(engine->device, of->stream, &one);
        if (!engine_ok(engine, task, fault)) return false;
    }
    return true;
}

bool call_run(struct engine *engine, int task)
{
    struct kernel_call call;
    const struct script_task *of = &engine->script->tasks[task];
    if (!call_make(engine, task, &call)) return false;
    tasks_measure_call(engine, task, &call);
    if (engine_block(engine, of)->instrs[of->instr].rows) return run_part(engine, task, &call);
    return engine_ok(engine, task, engine->backend->run(engine->device, of->stream, &call));
}

bool call_part(struct engine *engine, int task, enum stream stream, int part,
               struct kernel_array *inner)
{
    struct kernel_call call;
    if (!call_make(engine, task, &call)) return false;
    call.part = part;
    call.inner = *inner;
    return engine_ok(engine, task, engine->backend->run(engine->device, stream, &call));
}
