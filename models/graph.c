#include "models/graph.h"

#include "models/attended.h"
#include "models/op.h"
#include "models/op_choose.h"
#include "models/op_delta.h"
#include "models/op_pool.h"
#include "models/op_scan.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const char *const DIM_NAMES[DIM_COUNT] = {
    [DIM_NONE] = "none",
    [DIM_BATCH] = "batch",
    [DIM_SEQ] = "seq",
    [DIM_KV_SEQ] = "kv_seq",
    [DIM_HIDDEN] = "hidden",
    [DIM_HEAD] = "head",
    [DIM_KV_HEAD] = "kv_head",
    [DIM_HEAD_DIM] = "head_dim",
    [DIM_FFN] = "ffn",
    [DIM_VOCAB] = "vocab",
    [DIM_POSITION] = "position",
    [DIM_EXPERT] = "expert",
    [DIM_GATE] = "gate",
    [DIM_VALUE_DIM] = "value_dim",
    [DIM_HEIGHT] = "height",
    [DIM_WIDTH] = "width",
    [DIM_DEPTH] = "depth",
    [DIM_TAP] = "tap",
    [DIM_CHANNEL] = "channel",
    [DIM_OUT_CHANNEL] = "out_channel",
    [DIM_TABLE] = "table",
    [DIM_RANK] = "rank",
    [DIM_ADAPTER] = "adapter",
    [DIM_FLAT] = "flat",
    [DIM_TIME] = "time",
    [DIM_TEXT] = "text",
    [DIM_MSA] = "msa",
    [DIM_RES_I] = "residue_i",
    [DIM_RES_J] = "residue_j",
    [DIM_RES_K] = "residue_k",
    [DIM_STATE] = "state",
    [DIM_OTHER] = "other",
    [DIM_INDEX_HEAD] = "index_head",
    [DIM_CHOSEN] = "chosen",
    [DIM_JOINT] = "joint",
    [DIM_STREAM] = "stream",
    [DIM_TO_STREAM] = "to_stream",
    [DIM_ENTRY] = "entry",
};

const char *dim_name(enum dim dim)
{
    assert(dim >= DIM_NONE && dim < DIM_COUNT && DIM_NAMES[dim]);
    return DIM_NAMES[dim];
}

static const char *const CLASS_NAMES[OP_CLASS_COUNT] = {
    [OP_CLASS_NONE] = "none", [OP_CLASS_ATTENTION] = "attention",
    [OP_CLASS_NORM] = "norm", [OP_CLASS_ACTIVATION] = "activation",
    [OP_CLASS_MLP] = "mlp",   [OP_CLASS_EXPERTS] = "experts",
    [OP_CLASS_UP] = "mla-up",
};

const char *op_class_name(enum op_class class)
{
    assert(class >= 0 && class < OP_CLASS_COUNT);
    return CLASS_NAMES[class];
}

int64_t extent_size(const struct extent *extent, int64_t batch, int64_t seq)
{
    if (extent->size > 0) return extent->size;
    if (extent->size < 0) return seq / -extent->size;
    bool is_sample = extent->dim == DIM_BATCH || extent->dim == DIM_OTHER;
    assert(is_sample || extent->dim == DIM_SEQ || extent->dim == DIM_KV_SEQ);
    return is_sample ? batch : seq;
}

int64_t density_share(double density, int64_t count)
{
    if (density <= 0) return count;
    // 6 / 160 and the like are not exact: what is a whole number but for rounding stays that.
    return (int64_t)ceil((double)count * density * (1 - 1e-12));
}

int64_t density_capacity(double density, double factor, int64_t seq)
{
    assert(density > 0 && factor > 0 && seq >= 0);
    int64_t rows = (int64_t)ceil((double)seq * density * factor * (1 - 1e-12));
    assert(rows >= 0);
    return rows < seq ? rows : seq;
}

int64_t tensor_elements(const struct tensor *tensor, int64_t batch, int64_t seq)
{
    int64_t elements = 1;
    for (int i = 0; i < tensor->rank; i++) {
        elements *= extent_size(&tensor->extents[i], batch, seq);
    }
    return density_share(tensor->density, elements);
}

int tensor_find_dim(const struct tensor *tensor, enum dim dim)
{
    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->extents[i].dim == dim) return i;
    }
    return -1;
}

static int64_t unpadded_elements(const struct graph *graph, const struct block *block,
                                 const struct tensor *tensor)
{
    assert(tensor->role == TENSOR_PARAMETER);
    int64_t elements = 1, vocab = block->vocab > 0 ? block->vocab : graph->vocab;
    for (int i = 0; i < tensor->rank; i++) {
        const struct extent *extent = &tensor->extents[i];
        elements *= extent->dim == DIM_VOCAB ? vocab : extent->size;
    }
    return elements;
}

static int64_t count_repeats(const struct graph *graph, int block)
{
    int64_t repeats = 0;
    for (int i = 0; i < graph->sequence_count; i++) {
        repeats += graph->sequence[i] == block;
    }
    return repeats;
}

// Whether a parameter before this one (by block, then tensor) has the same tie: it counts there.
static bool is_counted_before(const struct graph *graph, int block, int tensor)
{
    const char *tie = graph->blocks[block].tensors[tensor].tie;
    for (int b = 0; b <= block; b++) {
        int count = b == block ? tensor : graph->blocks[b].tensor_count;
        for (int t = 0; t < count; t++) {
            const char *other = graph->blocks[b].tensors[t].tie;
            if (other && strcmp(other, tie) == 0) return true;
        }
    }
    return false;
}

// Of the elements of a parameter those that one token passes through.
static int64_t active_elements(const struct graph *graph, const struct block *block,
                               const struct tensor *tensor)
{
    int64_t elements = unpadded_elements(graph, block, tensor);
    if (tensor_find_dim(tensor, DIM_EXPERT) < 0) return elements;
    assert(graph->expert_count > 0 && graph->top_k > 0 && elements % graph->expert_count == 0);
    assert(graph->top_k <= graph->expert_count);
    return elements / graph->expert_count * graph->top_k;
}

typedef int64_t elements_function(const struct graph *graph, const struct block *block,
                                  const struct tensor *tensor);

static int64_t count_parameters(const struct graph *graph, bool mtp, elements_function *elements)
{
    int64_t count = 0;
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        int64_t repeats = count_repeats(graph, b);
        if (block->mtp != mtp) continue;
        for (int t = 0; t < block->tensor_count; t++) {
            const struct tensor *tensor = &block->tensors[t];
            if (tensor->role != TENSOR_PARAMETER || tensor->is_fixed) continue;
            if (tensor->tie && is_counted_before(graph, b, t)) continue;
            // What is tied is one parameter, in however many blocks it is read.
            count += (tensor->tie ? 1 : repeats) * elements(graph, block, tensor);
        }
    }
    return count;
}

int64_t graph_parameter_count(const struct graph *graph)
{
    assert(graph->sequence_count > 0);
    return count_parameters(graph, false, unpadded_elements);
}

int64_t graph_mtp_parameter_count(const struct graph *graph)
{
    return count_parameters(graph, true, unpadded_elements);
}

int64_t graph_active_parameter_count(const struct graph *graph)
{
    return count_parameters(graph, false, active_elements);
}

// Weights that a token meets in the block's products, and those that the places of a sequence meet
// together where the model says how many these are; each as often as it counts.
struct met {
    int64_t by_token, by_place;
};

static struct met met_weights(const struct graph *graph, const struct block *block,
                              int (*times)(const struct block *block, const struct op *op,
                                           int input))
{
    struct met met = {0};
    for (int o = 0; o < block->op_count; o++) {
        const struct op *op = &block->ops[o];
        if (!op_has_product(op->kind) || op->phase != PHASE_FORWARD) continue;
        int at = tensor_find_dim(&block->tensors[op->inputs[0]], DIM_SEQ);
        int64_t places = at < 0 ? 1 : block->tensors[op->inputs[0]].extents[at].size;
        for (int i = 0; i < op->input_count; i++) {
            const struct tensor *tensor = &block->tensors[op->inputs[i]];
            if (tensor->role != TENSOR_PARAMETER) continue;
            int64_t weights = active_elements(graph, block, tensor) * times(block, op, i);
            if (places == 0) met.by_token += weights;
            met.by_place += weights * places;
        }
    }
    return met;
}

static int once(const struct block *block, const struct op *op, int input)
{
    (void)block, (void)op, (void)input;
    return 1;
}

// Products of a step that it takes part in: forward, and the gradients of both operands.
// Of a frozen operand no gradient is made, and the other's product needs none of it.
static int products(const struct block *block, const struct op *op, int input)
{
    const struct tensor *own = &block->tensors[op->inputs[input]];
    const struct tensor *other = &block->tensors[op->inputs[1 - input]];
    assert(op->input_count >= 2);
    if (op->chooses) return 1;
    return 1 + !own->frozen + !other->frozen;
}

int64_t graph_block_matmul_count(const struct graph *graph, const struct block *block)
{
    struct met met = met_weights(graph, block, once);
    return met.by_token + met.by_place;
}

// Of videos, and of pictures that noise is added to, every dim but the batch has its size.
static bool is_sized(const struct graph *graph)
{
    return graph->frames > 0 || graph->channels > 0;
}

static void video_sizes(const struct block *block, const struct op *op, int64_t size[DIM_COUNT])
{
    memset(size, 0, DIM_COUNT * sizeof *size);
    for (int i = 0; i < op->input_count + op->output_count; i++) {
        int t = i < op->input_count ? op->inputs[i] : op->outputs[i - op->input_count];
        for (int e = 0; e < block->tensors[t].rank; e++)
            size[block->tensors[t].extents[e].dim] = block->tensors[t].extents[e].size;
    }
    size[DIM_BATCH] = 1;
}

static double video_attention_flop(const struct block *block, const struct op *op)
{
    int64_t size[DIM_COUNT];
    video_sizes(block, op, size);
    return op_rule(OP_ATTENTION)->flop(block, op, size);
}

// Rows of text and of conditions are not those of the video: each product counts its own.
static double video_products_flop(const struct graph *graph)
{
    double flop = 0;
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        double repeats = (double)count_repeats(graph, b);
        for (int o = 0; o < block->op_count; o++) {
            const struct op *op = &block->ops[o];
            if (op->kind != OP_CONTRACT || op->phase != PHASE_FORWARD) continue;
            int64_t size[DIM_COUNT];
            video_sizes(block, op, size);
            flop += repeats * 3 * op_rule(OP_CONTRACT)->flop(block, op, size);
        }
    }
    return flop;
}

// Products of two sequence dims are among those of video_products_flop.
static double attention_flop(const struct graph *graph, const struct block *block,
                             const struct op *op, int64_t seq)
{
    if (!is_sized(graph)) return attended_flop(block, op, seq);
    return op->kind == OP_ATTENTION ? video_attention_flop(block, op) : 0;
}

// Forward flops of what a scan writes to its state and reads from it; how a kernel cuts it into
// chunks is no work of the model.
static double scan_flop(const struct block *block, const struct op *op, int64_t seq)
{
    if (op->kind == OP_DELTA) return op_delta_model_flop(block, op) * (double)seq;
    return op->kind == OP_SCAN ? op_scan_model_flop(block, op) * (double)seq : 0;
}

// Forward flops of one sample in the products of an imported graph.
static double product_flop(const struct op *op)
{
    const struct op_work *work = &op->work;
    if (op->kind == OP_OPERATOR) return work->multiplies ? work->flop : 0;
    if (op->kind != OP_PRODUCT) return 0;
    return 2.0 * (double)work->groups * (double)work->rows * (double)work->columns *
           (double)work->depth;
}

double graph_model_flop(const struct graph *graph, int64_t seq)
{
    assert(seq > 0);
    struct met all = {0};
    for (int b = 0; b < graph->block_count; b++) {
        struct met met = met_weights(graph, &graph->blocks[b], products);
        all.by_token += count_repeats(graph, b) * met.by_token;
        all.by_place += count_repeats(graph, b) * met.by_place;
    }
    double flop = is_sized(graph)
                      ? video_products_flop(graph)
                      : 2.0 * ((double)all.by_token * (double)seq + (double)all.by_place);
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        double repeats = (double)count_repeats(graph, b);
        for (int o = 0; o < block->op_count; o++) {
            const struct op *op = &block->ops[o];
            // Each product has two in backward.
            if (op->phase != PHASE_FORWARD) continue;
            double forward = attention_flop(graph, block, op, seq) + product_flop(op) +
                             scan_flop(block, op, seq);
            flop += repeats * 3 * forward;
            if (op->kind == OP_CHOOSE) flop += repeats * op_choose_model_flop(block, op, seq);
            if (op->kind == OP_POOLED) flop += repeats * 3 * op_pooled_model_flop(block, op, seq);
        }
    }
    return flop;
}
