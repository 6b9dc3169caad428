#include "executor/calibrate.h"

#include "models/import.h"
#include "models/op.h"
#include "plan/mesh.h"

#include <stdlib.h>
#include <string.h>

// Every operator of some models' blocks, forward and backward, one after the other as in a step:
// between two calls of one kernel the caches have seen the others.

// Two families, so that both kinds of norm and activation, biases, rotation and shared keys occur;
// widths from such whose kernels are short to such that the memory bounds.
struct subject {
    const char *family;
    int64_t hidden, heads, kv_heads, ffn, vocab;
    int64_t batch, seq;
    bool is_small;  // measured where time is short, too
};
static const struct subject SUBJECTS[] = {
    {"gpt2", 128, 4, 4, 512, 1024, 2, 32, true},
    {"llama", 256, 4, 2, 704, 2048, 1, 256, true},
    {"gpt2", 640, 10, 10, 2560, 8192, 4, 64, false},
    {"llama", 1024, 16, 8, 2752, 8192, 1, 256, false},
    {"gpt2", 512, 8, 8, 2048, 4096, 1, 1024, false},
};
enum {
    SUBJECT_COUNT = sizeof SUBJECTS / sizeof *SUBJECTS,
    SUBJECTS_LEAST = 2,  // measured in any case
    POSITIONS = 1024
};

struct measured_block {
    const struct block_program *program;
    int64_t batch, seq, vocab, head_count;
    struct kernel_array *arrays;  // by tensor
    int first_row;                // of its instructions
    bool begins_subject;
    double flop;  // of them
};

struct calibrate_kernels {
    struct arena *arena;
    const struct calibrate_request *request;
    struct measured_block blocks[SUBJECT_COUNT * 3];
    int block_count, used_count;  // used: those that there is time for
    struct calibrate_kernel *rows;
    struct calibrate_samples *samples;  // by row
    int row_count;
    float *update;  // of `update_elements`, five arrays
    int64_t update_elements;
    struct calibrate_samples update_samples, copy_samples, call_samples;
};

static const char *config_text(struct arena *arena, const struct subject *of)
{
    if (strcmp(of->family, "gpt2") == 0) {
        return arena_print(arena,
                           "{\"model_type\": \"gpt2\", \"n_embd\": %lld, \"n_head\": %lld, "
                           "\"n_inner\": %lld, \"n_layer\": 1, \"n_positions\": %d, "
                           "\"vocab_size\": %lld, \"activation_function\": \"gelu_new\"}",
                           (long long)of->hidden, (long long)of->heads, (long long)of->ffn,
                           POSITIONS, (long long)of->vocab);
    }
    return arena_print(arena,
                       "{\"model_type\": \"llama\", \"hidden_size\": %lld, "
                       "\"num_attention_heads\": %lld, \"num_key_value_heads\": %lld, "
                       "\"intermediate_size\": %lld, \"num_hidden_layers\": 1, "
                       "\"max_position_embeddings\": %d, \"vocab_size\": %lld, "
                       "\"hidden_act\": \"silu\"}",
                       (long long)of->hidden, (long long)of->heads, (long long)of->kv_heads,
                       (long long)of->ffn, POSITIONS, (long long)of->vocab);
}

static struct graph *graph_of(struct arena *arena, const struct subject *subject, struct err *err)
{
    const char *text = config_text(arena, subject);
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!json_parse(arena, subject->family, text, strlen(text), document, err)) return NULL;
    struct json root = json_root(document);
    struct model_config *config = model_read(arena, subject->family, &root, NULL, NULL, err);
    if (!config) return NULL;
    return model_graph(arena, config, &(struct import_options){.flash = true});
}

static struct block_program *lower_alone(struct arena *arena, const struct block *block,
                                         const struct subject *subject)
{
    struct parallel *parallel = ARENA_NEW(arena, struct parallel, 1);
    for (int i = 0; i < AXIS_COUNT; i++)
        parallel->degree[i] = 1;
    parallel->vpp = 1;
    parallel->micro_batch = (int)subject->batch;
    parallel_default_order(parallel);
    struct mesh *mesh = ARENA_NEW(arena, struct mesh, 1);
    *mesh = mesh_make(parallel, subject->kv_heads);
    const struct lower_request request = {.block = block,
                                          .mesh = mesh,
                                          .parallel = parallel,
                                          .seq_len = subject->seq,
                                          .precision = PRECISION_FP32};
    return lower_block(arena, &request);
}

// Numbers that are neither zero nor alike: the speed of arithmetic depends on values where they are
// denormal. Ids stay below every table's length here.
static void fill(struct kernel_array *array, int64_t elements)
{
    int64_t *ids = array->data;
    float *reals = array->data;
    uint64_t state = 1;
    if (array->element == ELEMENT_BYTE) return;
    for (int64_t i = 0; i < elements; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        if (array->element == ELEMENT_INT64) {
            ids[i] = (int64_t)(state >> 33) % POSITIONS;
        } else {
            reals[i] = (float)(state >> 40) * 0x1p-24f - 0.5f;
        }
    }
}

static bool add_array(const struct calibrate_kernels *kernels, const struct measured_block *block,
                      int at, struct err *err)
{
    const struct tensor *tensor = &block->program->block->tensors[at];
    struct kernel_array *array = &block->arrays[at];
    array->rank = tensor->rank;
    array->element = tensor->role == TENSOR_IDS ? ELEMENT_INT64 : tensor->element;
    int64_t elements = 1;
    for (int i = 0; i < tensor->rank; i++) {
        array->dims[i] = tensor->extents[i].dim;
        array->sizes[i] = array->whole[i] =
            extent_size(&tensor->extents[i], block->batch, block->seq);
        elements *= array->sizes[i];
    }
    const struct calibrate_request *request = kernels->request;
    int64_t bytes = elements * (array->element == ELEMENT_INT64 ? 8 : request->backend->real_bytes);
    const char *fault = request->backend->allocate(request->device, bytes, &array->data);
    if (!calibrate_ok(err, "memory to measure in", fault)) return false;
    if (request->backend->is_host) fill(array, elements);
    return true;
}

static bool is_measured(const struct instr *instr)
{
    return instr->collective == COLLECTIVE_NONE;
}

static void add_block(struct calibrate_kernels *kernels, const struct graph *graph, int block,
                      const struct subject *subject)
{
    struct arena *arena = kernels->arena;
    struct measured_block *made = &kernels->blocks[kernels->block_count++];
    *made = (struct measured_block){
        .program = lower_alone(arena, &graph->blocks[block], subject),
        .batch = subject->batch,
        .seq = subject->seq,
        .vocab = graph->vocab,
        .head_count = graph->head_count,
        .first_row = kernels->row_count,
        .begins_subject = block == 0,
    };
    made->arrays = ARENA_NEW(arena, struct kernel_array, made->program->block->tensor_count);
    for (int i = 0; i < made->program->instr_count; i++) {
        if (!is_measured(&made->program->instrs[i])) continue;
        kernels->row_count++;
        made->flop += made->program->instrs[i].flop;
    }
}

static void add_rows(struct calibrate_kernels *kernels)
{
    kernels->rows = ARENA_NEW(kernels->arena, struct calibrate_kernel, kernels->row_count);
    kernels->samples = ARENA_NEW(kernels->arena, struct calibrate_samples, kernels->row_count);
    for (int b = 0; b < kernels->block_count; b++) {
        const struct block_program *program = kernels->blocks[b].program;
        struct calibrate_kernel *row = &kernels->rows[kernels->blocks[b].first_row];
        for (int i = 0; i < program->instr_count; i++) {
            if (!is_measured(&program->instrs[i])) continue;
            *row++ = (struct calibrate_kernel){.program = program, .instr = &program->instrs[i]};
        }
    }
}

// Larger than any cache: what an update reads has not been read since the last step.
enum { UPDATE_ELEMENTS = 8 << 20, UPDATE_ELEMENTS_SHORT = 1 << 16, UPDATE_ARRAYS = 5 };

static bool add_update(struct calibrate_kernels *kernels, struct err *err)
{
    const struct calibrate_request *request = kernels->request;
    kernels->update_elements = request->is_short ? UPDATE_ELEMENTS_SHORT : UPDATE_ELEMENTS;
    struct kernel_array array = {.element = ELEMENT_COMPUTE};
    int64_t reals = UPDATE_ARRAYS * kernels->update_elements;
    const char *fault = request->backend->allocate(
        request->device, reals * request->backend->real_bytes, &array.data);
    if (!calibrate_ok(err, "memory to measure in", fault)) return false;
    kernels->update = array.data;
    // Second moments are squares.
    if (request->backend->is_host && request->backend->real_bytes == sizeof(float)) {
        fill(&array, reals);
        for (int64_t i = 3 * kernels->update_elements; i < 4 * kernels->update_elements; i++)
            kernels->update[i] *= kernels->update[i];
    }
    return true;
}

struct calibrate_kernels *
calibrate_kernels_new(struct arena *arena, const struct calibrate_request *request, struct err *err)
{
    struct calibrate_kernels *kernels = ARENA_NEW(arena, struct calibrate_kernels, 1);
    kernels->arena = arena;
    kernels->request = request;
    for (int s = 0; s < SUBJECT_COUNT; s++) {
        const struct subject *subject = &SUBJECTS[s];
        if (request->is_short && !subject->is_small) continue;
        const struct graph *graph = graph_of(arena, subject, err);
        if (!graph) return kernels;
        for (int b = 0; b < graph->block_count; b++)
            add_block(kernels, graph, b, subject);
    }
    add_rows(kernels);
    (void)(add_update(kernels, err));
    return kernels;
}

void calibrate_kernels_free(struct calibrate_kernels *kernels)
{
    const struct calibrate_request *request = kernels->request;
    for (int b = 0; b < kernels->block_count; b++) {
        const struct measured_block *block = &kernels->blocks[b];
        for (int t = 0; t < block->program->block->tensor_count; t++)
            request->backend->release(request->device, block->arrays[t].data);
    }
    request->backend->release(request->device, kernels->update);
}

static struct kernel_call call_of(const struct measured_block *block, const struct op *op)
{
    struct kernel_call call = {.op = op,
                               .input_count = op->input_count,
                               .output_count = op->output_count,
                               .key = 1,
                               .vocab = block->vocab,
                               .head_count = block->head_count};
    for (int i = 0; i < op->input_count; i++)
        call.inputs[i] = block->arrays[op->inputs[i]];
    for (int i = 0; i < op->output_count; i++)
        call.outputs[i] = block->arrays[op->outputs[i]];
    return call;
}

static double busy_s(const struct calibrate_request *request)
{
    return request->clock.busy_s(request->clock.context);
}

static bool settle(const struct calibrate_request *request, const char *what, const char *fault,
                   struct err *err)
{
    return calibrate_ok(err, what, fault) &&
           calibrate_ok(err, what, request->backend->synchronize(request->device, STREAM_COMPUTE));
}

static bool measure_row(struct calibrate_kernels *kernels, const struct measured_block *block,
                        int row, bool is_kept, struct err *err)
{
    const struct calibrate_request *request = kernels->request;
    const struct op *op = &block->program->block->ops[kernels->rows[row].instr->op];
    struct kernel_call call = call_of(block, op);
    double start_s = busy_s(request);
    const char *fault = request->backend->run(request->device, STREAM_COMPUTE, &call);
    if (!settle(request, op->name, fault, err)) return false;
    double taken_s = busy_s(request) - start_s;
    if (is_kept) calibrate_sample(kernels->arena, &kernels->samples[row], taken_s);
    return true;
}

static bool measure_update(struct calibrate_kernels *kernels, bool is_kept, struct err *err)
{
    const struct calibrate_request *request = kernels->request;
    const struct backend *backend = request->backend;
    int64_t count = kernels->update_elements, bytes = count * backend->real_bytes;
    char *at = (char *)kernels->update;
    const struct update_call call = {.optimizer = OPTIMIZER_ADAMW,
                                     .part = UPDATE_ALL,
                                     .count = count,
                                     .weights = at,
                                     .gradients = at + bytes,
                                     .first_moments = at + 2 * bytes,
                                     .second_moments = at + 3 * bytes,
                                     .gradient_scale = 1,
                                     .learning_rate = 1e-9,
                                     .beta1 = 0.9,
                                     .beta2 = 0.95,
                                     .epsilon = 1e-8,
                                     .step = 1};
    double sum = 0, start_s = busy_s(request);
    const char *fault =
        backend->sum_squares(request->device, STREAM_COMPUTE, at + bytes, count, &sum);
    if (!fault) fault = backend->update(request->device, STREAM_COMPUTE, &call);
    if (!settle(request, "the update", fault, err)) return false;
    double update_s = busy_s(request) - start_s;
    start_s = busy_s(request);
    fault = backend->copy(request->device, STREAM_COMPUTE, COPY_DEVICE, at + 4 * bytes, at + bytes,
                          bytes);
    if (!settle(request, "a copy", fault, err)) return false;
    double copy_s = busy_s(request) - start_s;
    if (is_kept) calibrate_sample(kernels->arena, &kernels->update_samples, update_s);
    if (is_kept) calibrate_sample(kernels->arena, &kernels->copy_samples, copy_s);
    return true;
}

// A sum of next to nothing, many times: what is left is the call.
static bool measure_call(struct calibrate_kernels *kernels, bool is_kept, struct err *err)
{
    enum { CALLS = 200, ELEMENTS = 8 };
    const struct calibrate_request *request = kernels->request;
    const struct op op = {
        .kind = OP_ADD, .name = "a small sum", .input_count = 2, .output_count = 1};
    struct kernel_array array = {.data = kernels->update,
                                 .rank = 1,
                                 .dims = {DIM_HIDDEN},
                                 .sizes = {ELEMENTS},
                                 .whole = {ELEMENTS}};
    const struct kernel_call call = {.op = &op,
                                     .inputs = {array, array},
                                     .outputs = {array},
                                     .input_count = 2,
                                     .output_count = 1};
    const char *fault = NULL;
    double start_s = busy_s(request);
    for (int i = 0; i < CALLS && !fault; i++)
        fault = request->backend->run(request->device, STREAM_COMPUTE, &call);
    if (!settle(request, op.name, fault, err)) return false;
    double call_s = (busy_s(request) - start_s) / CALLS;
    // It has doubled what it was given so often that nothing but infinity is left.
    (void)calibrate_ok(err, op.name,
                       request->backend->fill(request->device, STREAM_COMPUTE, kernels->update, 0,
                                              ELEMENTS * request->backend->real_bytes));
    if (is_kept) calibrate_sample(kernels->arena, &kernels->call_samples, call_s);
    return !err->kind;
}

static int end_row(const struct calibrate_kernels *kernels, int block)
{
    return block + 1 < kernels->used_count ? kernels->blocks[block + 1].first_row
                                           : kernels->row_count;
}

// What there is no time for takes no memory.
static bool add_arrays(struct calibrate_kernels *kernels, int block, struct err *err)
{
    const struct measured_block *of = &kernels->blocks[block];
    for (int t = 0; t < of->program->block->tensor_count; t++) {
        if (!add_array(kernels, of, t, err)) return false;
    }
    return true;
}

static bool measure_block(struct calibrate_kernels *kernels, int block, bool is_kept,
                          struct err *err)
{
    const struct measured_block *of = &kernels->blocks[block];
    for (int row = of->first_row; row < end_row(kernels, block); row++) {
        if (!measure_row(kernels, of, row, is_kept, err)) return false;
    }
    return true;
}

bool calibrate_kernels_round(struct calibrate_kernels *kernels, struct err *err)
{
    for (int b = 0; b < kernels->used_count; b++) {
        if (!measure_block(kernels, b, true, err)) return false;
    }
    return measure_update(kernels, true, err) && measure_call(kernels, true, err);
}

// Work of the subject that begins here.
static double subject_flop(const struct calibrate_kernels *kernels, int block)
{
    double flop = kernels->blocks[block].flop;
    for (int b = block + 1; b < kernels->block_count && !kernels->blocks[b].begins_subject; b++)
        flop += kernels->blocks[b].flop;
    return flop;
}

// Whether on all ranks this subject, twice, and what has run, once more, end in time at the speed
// of what has run.
static bool has_time(const struct calibrate_kernels *kernels, int block, double flop,
                     double begun_s, double until_s, struct group *world, struct err *err)
{
    const struct calibrate_request *request = kernels->request;
    double now_s = request->clock.wall_s(request->clock.context);
    double more_s = (now_s - begun_s) * (1 + 2 * subject_flop(kernels, block) / flop);
    double late = now_s + more_s > until_s;
    return calibrate_mean(request, world, &late, 1, err) && late == 0;
}

bool calibrate_kernels_warm(struct calibrate_kernels *kernels, struct group *world, double until_s,
                            struct err *err)
{
    const struct calibrate_request *request = kernels->request;
    double begun_s = request->clock.wall_s(request->clock.context), flop = 0;
    kernels->used_count = kernels->block_count;
    for (int b = 0, subjects = 0; b < kernels->used_count; b++) {
        const struct measured_block *block = &kernels->blocks[b];
        bool is_due = subjects < SUBJECTS_LEAST;
        subjects += block->begins_subject;
        if (block->begins_subject && !is_due &&
            !has_time(kernels, b, flop, begun_s, until_s, world, err)) {
            kernels->used_count = b;
            kernels->row_count = block->first_row;
            break;
        }
        if (!add_arrays(kernels, b, err) || !measure_block(kernels, b, false, err)) return false;
        flop += block->flop;
    }
    return !err->kind && measure_update(kernels, false, err) && measure_call(kernels, false, err);
}

bool calibrate_kernels_finish(struct calibrate_kernels *kernels, struct group *world,
                              struct calibration *calibration, struct err *err)
{
    int count = kernels->row_count;
    double *values = ARENA_NEW(kernels->arena, double, count + 3);
    for (int row = 0; row < count; row++)
        values[row] = calibrate_median(&kernels->samples[row]);
    values[count] = calibrate_median(&kernels->update_samples);
    values[count + 1] = calibrate_median(&kernels->copy_samples);
    values[count + 2] = calibrate_median(&kernels->call_samples);
    if (!calibrate_mean(kernels->request, world, values, count + 3, err)) return false;
    for (int row = 0; row < count; row++)
        kernels->rows[row].s = values[row];
    calibration->kernels = kernels->rows;
    calibration->kernel_count = count;
    calibration->update_elements = kernels->update_elements;
    calibration->update_s = values[count];
    double bytes = (double)kernels->update_elements * kernels->request->backend->real_bytes;
    calibration->copy_bytes_per_s = values[count + 1] > 0 ? 2 * bytes / values[count + 1] : 0;
    calibration->call_s = values[count + 2];
    return true;
}
