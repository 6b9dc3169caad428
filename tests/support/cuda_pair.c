#include "tests/support/cuda_pair.h"

#include "models/op.h"
#include "models/op_scan.h"
#include "tests/support/emulated.h"
#include "tests/support/test.h"

#include <math.h>

const struct pair_tried PAIR_TRIED[] = {
    {PRECISION_FP32, 1e-4}, {PRECISION_BF16, 2e-2}, {PRECISION_FP16, 4e-3}};

// Of a query some of the keys up to it, ascending, and -1 behind them.
static void draw_chosen(struct draw *draw, struct interpreter *in, int chosen)
{
    const struct tensor *tensor = &in->block->tensors[chosen];
    int64_t most = tensor->extents[2].size, elements = interpreter_elements(in, chosen);
    double *values = interpreter_array(in, chosen);
    for (int64_t row = 0; row < elements / most; row++) {
        int64_t written = 0, own = row % in->sizes[chosen][1];
        for (int64_t key = 0; key <= own && written < most; key++) {
            bool is_last = key == own && written == 0;
            if (is_last || draw_int(draw, 0, 1)) values[row * most + written++] = (double)key;
        }
        while (written < most)
            values[row * most + written++] = -1;
    }
}

// Whether a lookup is one of each pair, and the dim of its table's rows.
static bool is_of_pairs(const struct block *block, const struct op *op, enum dim *rows)
{
    bool is_forward = op->kind == OP_GATHER;
    if (!is_forward && op->kind != OP_GATHER_BACKWARD) return false;
    const struct tensor *ids = &block->tensors[op->inputs[!is_forward]],
                        *table = &block->tensors[is_forward ? op->inputs[1] : op->outputs[0]];
    *rows = table->extents[0].dim;
    bool shares = false;
    for (int i = 0; i < ids->rank; i++)
        shares |= tensor_find_dim(table, ids->extents[i].dim) >= 0;
    return shares;
}

void pair_values(struct draw *draw, struct interpreter *in)
{
    for (int t = 0; t < in->block->tensor_count; t++) {
        const struct tensor *tensor = &in->block->tensors[t];
        double *values = interpreter_array(in, t);
        bool is_ids = tensor->element == ELEMENT_INT64;
        for (int64_t i = 0; i < interpreter_elements(in, t); i++)
            values[i] = is_ids ? draw_int(draw, 0, 1) : draw_int(draw, -63, 63) / 64.0;
    }
    for (int o = 0; o < in->block->op_count; o++)
        if (in->block->ops[o].kind == OP_CHOOSE)
            draw_chosen(draw, in, in->block->ops[o].outputs[0]);
    // Any rows of tables that pairs look up.
    for (int o = 0; o < in->block->op_count; o++) {
        const struct op *op = &in->block->ops[o];
        const struct tensor *table = &in->block->tensors[op->inputs[1]];
        enum dim rows;
        if (op->kind != OP_GATHER || !is_of_pairs(in->block, op, &rows)) continue;
        double *ids = interpreter_array(in, op->inputs[0]);
        for (int64_t i = 0; i < interpreter_elements(in, op->inputs[0]); i++)
            ids[i] = draw_int(draw, 0, (int)table->extents[0].size - 1);
    }
    // Steps of scans and of a delta rule are not negative: states would grow.
    for (int o = 0; o < in->block->op_count; o++) {
        const struct op *op = &in->block->ops[o];
        if (op->kind != OP_DELTA && op->kind != OP_SCAN) continue;
        double *steps = interpreter_array(in, op->inputs[1]);
        for (int64_t i = 0; i < interpreter_elements(in, op->inputs[1]); i++)
            steps[i] = fabs(steps[i]);
        if (!op_scan_is_steady(op)) continue;
        double *rates = interpreter_array(in, op->inputs[3]);
        for (int64_t i = 0; i < interpreter_elements(in, op->inputs[3]); i++)
            rates[i] = fabs(rates[i]);
    }
}

struct backend_pair pair_open(struct arena *arena, const struct pair_tried *tried)
{
    struct err err = {0};
    struct backend_pair pair = {
        .cpu = {.arena = arena, .weights = -1, .batch = PAIR_BATCH, .seq = PAIR_SEQ}};
    pair.cuda = pair.cpu;
    pair.cpu.backend = backend_open("cpu-fp64", &err);
    pair.cuda.backend = emulated_backend(tried->precision);
    assert_string_equal(err.text, "");
    assert_null(pair.cpu.backend->open(0, &pair.cpu.device));
    assert_null(pair.cuda.backend->open(0, &pair.cuda.device));
    pair.cuda.is_half = tried->precision == PRECISION_FP16;
    pair.cuda.tolerance = tried->tolerance;
    return pair;
}

void pair_close(struct backend_pair *pair)
{
    pair->cpu.backend->close(pair->cpu.device);
    pair->cuda.backend->close(pair->cuda.device);
}

// The columns of a loss are all here, and the rows that pairs look up.
static enum dim whole_dim(const struct block *block, const struct op *op)
{
    enum dim rows;
    if (is_of_pairs(block, op, &rows)) return rows;
    if (op->kind != OP_LOSS && op->kind != OP_LOSS_BACKWARD) return DIM_NONE;
    const struct tensor *x = &block->tensors[op->inputs[op->kind == OP_LOSS_BACKWARD]];
    return x->extents[x->rank - 1].dim;
}

static void draw_slices(struct draw *draw, const struct interpreter *in, int op,
                        struct slices *slices)
{
    const struct op *of = &in->block->ops[op];
    bool attends = of->kind == OP_ATTENTION || of->kind == OP_ATTENTION_BACKWARD;
    if (op_mixes_tokens(of->kind) && of->kind != OP_CONV && of->kind != OP_CONV_BACKWARD) {
        *slices = slices_draw(draw, in, op);  // whole groups of heads
        return;
    }
    for (enum dim dim = 1; dim < DIM_COUNT; dim++) {
        // Every query has chosen a key.
        bool is_whole =
            dim == DIM_KV_SEQ || dim == whole_dim(in->block, of) || (attends && dim == DIM_CHOSEN);
        if (slices->count[dim] == 0 || is_whole) continue;
        enum split split = op_rule(of->kind)->split(in->block, of, dim);
        if (split != SPLIT_FREE && split != SPLIT_PARTIAL) continue;
        int whole = (int)slices->count[dim];
        slices->first[dim] = draw_int(draw, 0, whole - 1);
        slices->count[dim] = draw_int(draw, 1, whole - (int)slices->first[dim]);
    }
    if (!attends) return;
    // Where places are not the keys, but as many times as there are places, they are those of q.
    const struct tensor *k = &in->block->tensors[of->inputs[of->kind == OP_ATTENTION ? 1 : 2]];
    if (k->extents[k->rank - 3].dim == DIM_SEQ) return;
    slices->first[DIM_KV_SEQ] = slices->first[DIM_SEQ];
    slices->count[DIM_KV_SEQ] = slices->count[DIM_SEQ];
}

// Within the tolerance of the largest number, of those that were added to as well.
static void compare(const struct backend_pair *pair, const char *what,
                    const struct kernel_array *found, const struct kernel_array *expected,
                    const double *before)
{
    const double *is = kernel_case_read(&pair->cuda, found);
    const double *should = kernel_case_read(&pair->cpu, expected);
    double largest = 0.1;
    int64_t count = 1;
    for (int i = 0; i < found->rank; i++)
        count *= found->sizes[i];
    for (int64_t i = 0; i < count; i++)
        if (isfinite(should[i]))
            largest = fmax(largest, fmax(fabs(should[i]), before ? fabs(before[i]) : 0));
    for (int64_t i = 0; i < count; i++) {
        // Of a query that no key here is seen by.
        if (is[i] == should[i]) continue;
        if (fabs(is[i] - should[i]) <= pair->cuda.tolerance * largest) continue;
        fail_msg("%s in %s, element %lld of %lld: %.9g, expected %.9g", what,
                 precision_name(pair->cuda.backend->compute), (long long)i, (long long)count, is[i],
                 should[i]);
    }
}

void pair_check(struct draw *draw, const struct backend_pair *opened, const struct interpreter *in,
                int op)
{
    const struct op *of = &in->block->ops[op];
    struct backend_pair pair = *opened;
    pair.cpu.whole = pair.cuda.whole = in;
    pair.cpu.op = pair.cuda.op = op;
    for (int trial = 0; trial < 2; trial++) {
        struct arena_mark mark = arena_mark(pair.cpu.arena);
        double *before[OP_OUTPUT_MAX];
        pair.cpu.slices = slices_whole(in, op);
        if (trial > 0) draw_slices(draw, in, op, &pair.cpu.slices);
        pair.cpu.adds = trial > 0 ? (unsigned)draw_int(draw, 0, (1 << of->output_count) - 1) : 0;
        pair.cuda.slices = pair.cpu.slices;
        pair.cuda.adds = pair.cpu.adds;
        struct kernel_call expected = kernel_case_call(&pair.cpu, before);
        struct kernel_call found = kernel_case_call(&pair.cuda, before);
        kernel_case_run(&pair.cpu, &expected);
        kernel_case_run(&pair.cuda, &found);
        bool is_columns = of->kind == OP_LOSS && of->function != FUNCTION_NONE;
        // There is no sum of exponentials.
        for (int i = 0; i < (is_columns ? 1 : of->output_count); i++)
            compare(&pair, of->name, &found.outputs[i], &expected.outputs[i],
                    pair.cpu.adds >> i & 1 ? before[i] : NULL);
        arena_reset(pair.cpu.arena, mark);
    }
}
