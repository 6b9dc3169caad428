#include "cost_models/chunked.h"
#include "models/op_scan.h"
#include "plan/scan_chunks.h"

#include <assert.h>
#include <math.h>

bool scan_is_chunked(const struct stack *stack, const struct block *block,
                     const struct instr *instr)
{
    bool is_scan = instr->kind == OP_SCAN || instr->kind == OP_SCAN_BACKWARD;
    if (instr->collective != COLLECTIVE_NONE || !is_scan || !stack_is_own_gpu(stack)) return false;
    const struct op *op = &block->ops[instr->op];
    return !op_scan_is_by_state(block, op);
}

// Arrays of 8 bits there are none of: it is operands of products that are cast.
static struct chunk_scan scan_of(const struct block *block, const struct instr *instr,
                                 enum precision precision)
{
    const struct op *op = &block->ops[instr->op];
    bool is_backward = instr->kind == OP_SCAN_BACKWARD;
    const struct tensor *b = &block->tensors[op->inputs[op_scan_b(op)]];
    // Where tp splits heads and leaves groups whole, a rank's heads may be fewer than groups.
    int64_t groups = instr->kv_heads < instr->heads ? instr->kv_heads : instr->heads;
    struct chunk_scan scan = {.batch = instr->batch,
                              .seq = instr->seq,
                              .heads = instr->heads,
                              .groups = groups,
                              .width = instr->head_dim,
                              .state = b->extents[tensor_find_dim(b, DIM_STATE)].size,
                              .heads_each = instr->heads / groups,
                              .bytes = (int64_t)fmax(2, precision_bytes(precision)),
                              .is_backward = is_backward,
                              .is_steady = op_scan_is_steady(op)};
    assert(scan.heads_each > 0 && scan.state > 0);
    scan.length = chunk_length(&scan);
    assert(scan.length > 0);
    return scan;
}

// What is in fp32 of a result of narrower operands is beside what the GEMM's price has.
static double wide_s(const struct compute_context *context, const struct chunk_scan *scan,
                     const struct chunk_gemm *gemm, int product)
{
    if (!chunk_row(chunk_product(product).c).is_wide) return 0;
    double numbers = (double)gemm->batch * (double)gemm->rows * (double)gemm->columns;
    return stream_s(context, numbers * (double)(sizeof(float) - (size_t)scan->bytes));
}

static double part_s(const struct compute_context *context, const struct chunk_scan *scan,
                     const struct chunk_part *part, double *launches)
{
    double s = 0;
    for (int i = 0; i < CHUNK_PRODUCTS; i++) {
        if (!chunk_has_product(scan, i)) continue;
        enum bound bound;
        struct chunk_gemm sizes = chunk_gemm_of(scan, part, i);
        const struct gemm gemm = {sizes.batch, sizes.rows, sizes.columns, sizes.inner};
        s += gemm_s(context, &gemm, 0, &bound) + wide_s(context, scan, &sizes, i);
        *launches += 1;
    }
    return s;
}

// Products in 16 bits at the rate of GEMMs, and what other kernels move at that of memory; both
// have launches.
struct compute_cost chunked_price(const struct compute_context *context,
                                  const struct block_program *program, const struct instr *instr)
{
    struct compute_context wide = *context;
    wide.precision = wide_precision(context->device, context->precision);
    struct chunk_scan scan = scan_of(program->block, instr, wide.precision);
    double launch_s = context->device->launch_latency_s, launches = 0, products_s = 0;
    int64_t parts = 0;
    for (int64_t head = 0; head < scan.heads; parts++) {
        struct chunk_part part = chunk_part_at(&scan, head);
        assert(part.heads > 0 && head + part.heads <= scan.heads);
        products_s += part_s(&wide, &scan, &part, &launches);
        head += part.heads;
    }
    double kernels = (double)chunk_kernels(&scan, parts);
    double memory_s = stream_s(context, chunk_own_bytes(&scan) + (double)instr->read_bytes +
                                            (double)instr->write_bytes);
    return (struct compute_cost){
        .s = products_s + memory_s + kernels * launch_s,
        .bound = products_s - launches * launch_s > memory_s ? BOUND_COMPUTE : BOUND_MEMORY,
        .kernel_count = launches + kernels};
}

double chunked_bytes(const struct stack *stack, enum precision precision,
                     const struct block_program *block)
{
    double bytes = 0;
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        if (!scan_is_chunked(stack, block->block, instr)) continue;
        struct chunk_scan scan = scan_of(block->block, instr, precision);
        bytes = fmax(bytes, (double)chunk_bytes(&scan));
    }
    return bytes;
}
