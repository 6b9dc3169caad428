#include "cost_models/own_kernels.h"
#include "cost_models/parameters.h"
#include "cost_models/strided.h"
#include "models/op_image.h"
#include "plan/conv_parts.h"
#include "plan/pair_sums.h"
#include "plan/strided_sums.h"

#include <assert.h>
#include <math.h>

// What is launched in place of one kernel, and moved beside one reading and writing.
struct beside {
    double launches, bytes;
};

static double bytes_of(const struct block_program *program, const int *buffers, int count)
{
    double bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += (double)program->buffers[buffers[i]].bytes;
    return bytes;
}

struct channels {
    int64_t tokens, count, taps;
};
// Of backward of a convolution, whose outputs are the gradients of its input, weight and bias.
static struct channels channels_of(const struct block_program *program, const struct instr *instr,
                                   enum precision precision)
{
    double input_bytes = (double)program->buffers[instr->outputs[0]].bytes;
    int64_t tokens = instr->batch * instr->seq;
    assert(tokens > 0 && instr->output_count > 1);
    const struct op *op = &program->block->ops[instr->op];
    const struct tensor *weight = &program->block->tensors[op->outputs[1]];
    int64_t taps = weight->extents[weight->rank - 1].size;
    int64_t count = (int64_t)(input_bytes / parameter_weight_bytes(precision)) / tokens;
    return (struct channels){tokens, count, taps};
}

// What the function was given is made again of x, and its gradient, in fp32, written, and read for
// the input and once more with x for the weight; sums of chunks are written and read.
static struct beside of_convolution(const struct compute_context *context,
                                    const struct block_program *program, const struct instr *instr)
{
    struct channels of = channels_of(program, instr, context->precision);
    double numbers = (double)(of.tokens * of.count);
    double sums = (double)conv_sums(of.tokens, of.count, of.taps);
    double x_bytes = numbers * parameter_weight_bytes(context->precision);
    return (struct beside){CONV_BACKWARD_KERNELS,
                           sizeof(float) * (3 * numbers + 2 * sums) + x_bytes};
}

// A launch for each part. Gradients of parts are added to zeros.
static struct beside of_parts(const struct block_program *program, const struct instr *instr)
{
    if (instr->kind == OP_CONCAT) return (struct beside){instr->input_count, 0};
    double bytes = 2 * bytes_of(program, instr->outputs, instr->output_count);
    return (struct beside){instr->output_count, bytes};
}

// Channels side by side are a launch a part; gradients of both factors one each, which read the
// result's.
static struct beside of_operator(const struct block_program *program, const struct instr *instr)
{
    const struct op *op = &program->block->ops[instr->op];
    bool is_forward = op->phase == PHASE_FORWARD;
    if (op->work.type == IMPORTED_CONCAT)
        return (struct beside){is_forward ? instr->input_count : instr->output_count, 0};
    if (op->work.type != IMPORTED_MULTIPLY || is_forward) return (struct beside){1, 0};
    double again = (instr->output_count - 1) * bytes_of(program, instr->inputs, 1);
    return (struct beside){instr->output_count, again};
}

// Whether it is a sum over rows of neighbours that all stay.
static bool is_over_rows(const struct block *block, const struct op *op)
{
    const struct tensor *in = &block->tensors[op->inputs[0]],
                        *out = &block->tensors[op->outputs[0]];
    int behind = in->rank - out->rank;
    for (int i = 0; i < in->rank; i++) {
        enum dim dim = in->extents[i].dim;
        bool stays = i >= behind && dim == out->extents[i - behind].dim;
        if (i < behind ? tensor_find_dim(out, dim) >= 0 : !stays) return false;
    }
    return behind > 0;
}

// Over tokens: of each column sums of so many rows are written and read.
static struct beside of_sum(const struct compute_context *context,
                            const struct block_program *program, const struct instr *instr)
{
    if (!is_over_rows(program->block, &program->block->ops[instr->op]))
        return (struct beside){1, 0};
    int64_t rows = instr->batch * (instr->seq > 0 ? instr->seq : 1);
    double numbers =
        bytes_of(program, instr->inputs, 1) / parameter_weight_bytes(context->precision);
    double columns = rows > 0 ? numbers / (double)rows : 0;
    return (struct beside){2, 2 * sizeof(float) * (double)column_chunks(rows) * columns};
}

// Backward of a lookup of pairs reads what was looked up once for so many rows of the table. Of
// other lookups, once a stage, the kernels are not counted.
static struct beside of_lookup(const struct block_program *program, const struct instr *instr,
                               double otherwise)
{
    const struct op *op = &program->block->ops[instr->op];
    const struct tensor *ids = &program->block->tensors[op->inputs[1]],
                        *table = &program->block->tensors[op->outputs[0]];
    bool is_of_pairs = false;
    for (int i = 0; i < ids->rank; i++)
        is_of_pairs |= tensor_find_dim(table, ids->extents[i].dim) >= 0;
    if (!is_of_pairs) return (struct beside){otherwise, 0};
    double again = (double)(pair_passes(table->extents[0].size) - 1);
    return (struct beside){1, again * bytes_of(program, instr->inputs, instr->input_count)};
}

static struct beside beside_of(const struct compute_context *context,
                               const struct block_program *program, const struct instr *instr,
                               double otherwise)
{
    switch (instr->kind) {
    case OP_CONV_BACKWARD:
        return of_convolution(context, program, instr);
    case OP_REDUCE:
        return of_sum(context, program, instr);
    case OP_CONCAT:
    case OP_CONCAT_BACKWARD:
    case OP_PART:
        return of_parts(program, instr);
    case OP_OPERATOR:
    case OP_OPERATOR_BACKWARD:
        return of_operator(program, instr);
    case OP_GATHER_BACKWARD:
        return of_lookup(program, instr, otherwise);
    case OP_CHOOSE_BACKWARD:
        return (struct beside){0, 0};  // zeros, which no kernel writes
    default:
        return (struct beside){otherwise, 0};
    }
}

struct compute_cost own_kernels_price(const struct compute_context *context,
                                      const struct block_program *program,
                                      const struct instr *instr, struct compute_cost stream)
{
    if (!stack_is_own_gpu(context->stack) || stream.s <= 0) return stream;
    const struct op *op = &program->block->ops[instr->op];
    if (op->work.strided) return strided_price(context, program, instr, stream);
    if (stream.kernel_count <= 0) return stream;
    struct beside beside = beside_of(context, program, instr, stream.kernel_count);
    assert(beside.launches >= 0 && beside.bytes >= 0);
    double more = beside.launches - stream.kernel_count;
    if (more == 0 && beside.bytes == 0) return stream;
    stream.s += stream_s(context, beside.bytes) + fmax(more, 0) * context->device->launch_latency_s;
    stream.kernel_count = beside.launches;
    return stream;
}

// Rooms are used one after another: the largest decides.
double own_kernels_bytes(const struct stack *stack, enum precision precision,
                         const struct block_program *block)
{
    double bytes = 0;
    for (int i = 0; i < block->instr_count && stack_is_own_gpu(stack); i++) {
        const struct instr *instr = &block->instrs[i];
        if (instr->collective != COLLECTIVE_NONE) continue;
        bytes = fmax(bytes, strided_bytes(block, instr, parameter_weight_bytes(precision)));
        if (instr->kind != OP_CONV_BACKWARD) continue;
        struct channels of = channels_of(block, instr, precision);
        double room = (double)conv_room(of.tokens, of.count, of.taps);
        bytes = fmax(bytes, sizeof(float) * room);
    }
    return bytes;
}
