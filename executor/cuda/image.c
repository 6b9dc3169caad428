#include "executor/cuda/image.h"

#include <assert.h>

// Operators of imported graphs: what their kernels are given (executor/cuda/image.cu, window.cu,
// statistics.cu). The same as executor/cpu/imported.c, pool.c and statistics.c compute.

_Static_assert((int)IMAGE_MISH == (int)IMPORTED_MISH && IMPORTED_MISH + 1 == IMPORTED_MOVE,
               "kernels know the operators by number");

const char *cuda_image_of(const struct run *run, const struct kernel_array *array,
                          struct image_reals *image)
{
    image->reals = reals_of(run->device, array);
    return image_read(array, &image->at);
}

// The images of a call: its first input, its second or, of a call with one, the first again, and
// its first output.
struct images {
    struct image_reals first, second, made;
    bool is_backward, is_none;
};
static const char *read_images(const struct run *run, struct images *images)
{
    const struct kernel_call *call = run->call;
    images->is_backward = call->op->phase != PHASE_FORWARD;
    const char *fault = cuda_image_of(run, &call->inputs[0], &images->first);
    if (!fault) fault = cuda_image_of(run, &call->outputs[0], &images->made);
    int second = call->input_count > 1 ? 1 : 0;
    if (!fault) fault = cuda_image_of(run, &call->inputs[second], &images->second);
    images->is_none = image_elements(&images->made.at) == 0;
    return fault;
}

// Backward has the result's gradient first, and then what went in, unless that is a number times x
// or beside it.
static const char *run_bend(const struct run *run, const struct images *of)
{
    enum imported_kind type = run->call->op->work.type;
    bool keeps = type != IMPORTED_SCALE && type != IMPORTED_SHIFT;
    if (run->call->input_count != 1 + (of->is_backward && keeps)) return "a function of one tensor";
    struct bend_args args = {.kind = (int)type,
                             .scalar = (float)run->call->op->work.scalar,
                             .is_backward = of->is_backward,
                             .adds = of->is_backward && call_adds(run->call, 0),
                             .x = of->is_backward ? of->second : of->first,
                             .d = of->first,
                             .y = of->made};
    kernel_bend(run->on, &args);
    return NULL;
}

// Channels side by side, and the gradient of each part.
static const char *run_joined(const struct run *run, const struct images *of)
{
    const struct kernel_call *call = run->call;
    const char *fault = NULL;
    int64_t before = 0;
    int parts = of->is_backward ? call->output_count : call->input_count;
    for (int i = 0; i < parts && !fault; i++) {
        struct image_reals part;
        fault = cuda_image_of(run, of->is_backward ? &call->outputs[i] : &call->inputs[i], &part);
        struct channels_args args = {.factor = 1,
                                     .channels = part.at.channels,
                                     .from = of->is_backward ? of->first : part,
                                     .to = of->is_backward ? part : of->made,
                                     .adds = of->is_backward && call_adds(call, i)};
        *(of->is_backward ? &args.from_channel : &args.to_channel) = before;
        if (!fault && image_elements(&part.at) > 0) kernel_channels(run->on, &args);
        before += part.at.channels;
    }
    return fault;
}

// The mean of all places, of which this rank adds up its own.
static const char *run_mean(const struct run *run, const struct images *of)
{
    const struct planes *x = of->is_backward ? &of->made.at : &of->first.at;
    assert(x->whole_height > 0 && x->whole_width > 0);
    float share = (float)(1 / ((double)x->whole_height * (double)x->whole_width));
    if (of->is_backward) {
        struct channels_args spread = {.channels = x->channels,
                                       .factor = share,
                                       .adds = call_adds(run->call, 0),
                                       .from = of->first,
                                       .to = of->made};
        spread.from.at.row_stride = spread.from.at.column_stride = 0;
        kernel_channels(run->on, &spread);
        return NULL;
    }
    struct product_args args = {.channels = 1,
                                .rows = x->height,
                                .columns = x->width,
                                .factor = share,
                                .adds = call_adds(run->call, 0),
                                .a = of->first,
                                .y = of->made};
    kernel_products(run->on, &args);
    return NULL;
}

static const char *run_resize(const struct run *run, const struct images *of)
{
    const struct image_reals *large = of->is_backward ? &of->first : &of->made;
    const struct image_reals *small = of->is_backward ? &of->made : &of->first;
    struct resize_args args = {.way = (int)run->call->op->work.scalar,
                               .adds = of->is_backward && call_adds(run->call, 0),
                               .large = *large,
                               .small = *small};
    (of->is_backward ? kernel_resize_backward : kernel_resize)(run->on, &args);
    return NULL;
}

// How many of each dim are summed over, of which `made` has one.
static void sum_over(struct product_args *args, const struct planes *made, const struct planes *all)
{
    bool is_flat = made->whole_height == 1, is_thin = made->whole_width == 1;
    args->channels = made->channels == 1 ? all->channels : 1;
    args->rows = is_flat ? all->height : 1;
    args->columns = is_thin ? all->width : 1;
}

// Each operand's gradient is the result's by the other, summed over where it was repeated.
static const char *run_multiply(const struct run *run, const struct images *of)
{
    const struct kernel_call *call = run->call;
    if (call->input_count != 2 + of->is_backward) return "a product of two tensors";
    const struct planes *over = of->is_backward ? &of->first.at : &of->made.at;
    struct image_reals operands[2];
    const char *fault = NULL;
    for (int i = 0; i < 2 && !fault; i++) {
        fault = cuda_image_of(run, &call->inputs[of->is_backward + i], &operands[i]);
        image_repeat(&operands[i].at, over);
    }
    for (int i = 0; i < call->output_count && !fault; i++) {
        struct product_args args = {.factor = 1,
                                    .adds = of->is_backward && call_adds(call, i),
                                    .a = of->is_backward ? of->first : operands[0],
                                    .b = operands[of->is_backward && i > 0 ? 0 : 1]};
        fault = cuda_image_of(run, &call->outputs[i], &args.y);
        sum_over(&args, &args.y.at, over);
        if (!fault && image_elements(&args.y.at) > 0) kernel_products(run->on, &args);
    }
    return fault;
}

// Maxima say where they stood, which the gradient goes back to; means need nothing kept.
static const char *run_pool(const struct run *run, const struct images *of)
{
    const struct kernel_call *call = run->call;
    const struct op_work *work = &call->op->work;
    const struct image_reals *wide = of->is_backward ? &of->made : &of->first;
    const struct image_reals *narrow = of->is_backward ? &of->first : &of->made;
    struct pool_args args = {.height = window_or_one(&work->windows[0]),
                             .width = window_or_one(&work->windows[1]),
                             .is_max = work->type == IMPORTED_MAX_POOL,
                             .counts_padding = work->scalar != 0,
                             .adds = of->is_backward && call_adds(call, 0),
                             .wide = *wide,
                             .narrow = *narrow};
    if (wide->at.channels != narrow->at.channels || wide->at.batch != narrow->at.batch)
        return "a pool has as many channels before it as behind it";
    if (of->is_backward && args.is_max && call->input_count < 2)
        return "where maxima stood is not kept";
    bool keeps = args.is_max && (of->is_backward || call->output_count > 1);
    if (keeps) args.kept = of->is_backward ? call->inputs[1].data : call->outputs[1].data;
    (of->is_backward ? kernel_pool_backward : kernel_pool)(run->on, &args);
    return NULL;
}

// As of a language model's, whose ratio stands elsewhere in the operator.
static const char *run_dropout(const struct run *run)
{
    struct op op = *run->call->op;
    struct kernel_call drops = *run->call;
    struct run own = *run;
    op.dropout_ratio = op.work.scalar;
    drops.op = &op;
    own.call = &drops;
    return cuda_dropout(&own);
}

// Whole samples, a byte each.
static const char *run_drop_path(const struct run *run)
{
    const struct kernel_call *call = run->call;
    bool is_backward = call->op->phase != PHASE_FORWARD;
    const struct kernel_array *in = &call->inputs[0];
    const struct kernel_array *masks = is_backward ? &call->inputs[1] : &call->outputs[1];
    int64_t samples = array_size(in, DIM_BATCH);
    if (masks->element != ELEMENT_BYTE || array_elements(masks) != samples)
        return "a byte for each sample says what is dropped";
    assert(samples == 0 || array_elements(in) % samples == 0);
    struct dropout_args args = {.rank = 1,
                                .sizes = {samples},
                                .first = {array_first(in, DIM_BATCH)},
                                .whole = {masks->whole[0]},
                                .each = samples > 0 ? array_elements(in) / samples : 0,
                                .draws = !is_backward,
                                .key = call->key,
                                .key_at = call->key_at,
                                .ratio = call->op->work.scalar,
                                .mask = masks->data,
                                .x = run_input(run, 0),
                                .y = run_output(run, 0),
                                .adds = is_backward && call_adds(call, 0)};
    if (args.each > 0) kernel_dropout(run->on, &args);
    return NULL;
}

static const char *run_of(const struct run *run, const struct images *of)
{
    switch (run->call->op->work.type) {
    case IMPORTED_MAX_POOL:
    case IMPORTED_AVERAGE_POOL:
        return run_pool(run, of);
    case IMPORTED_GLOBAL_AVERAGE_POOL:
        return run_mean(run, of);
    case IMPORTED_CONCAT:
        return run_joined(run, of);
    case IMPORTED_RESIZE:
        return run_resize(run, of);
    case IMPORTED_MULTIPLY:
        return run_multiply(run, of);
    case IMPORTED_NONE:
        return "no kernel for this operator";
    default:
        return run_bend(run, of);
    }
}

// Those that do not go with places of images; NULL: it is another.
typedef const char *operator_run(const struct run *run);
static operator_run *of_no_places(const struct op_work *work)
{
    switch (work->type) {
    case IMPORTED_BATCH_NORM:
    case IMPORTED_INSTANCE_NORM:
    case IMPORTED_GROUP_NORM:
        return cuda_statistics;
    case IMPORTED_DROPOUT:
        return run_dropout;
    case IMPORTED_DROP_PATH:
        return run_drop_path;
    case IMPORTED_LAYER_NORM:
        return cuda_row_norm;
    case IMPORTED_SPLIT:
    case IMPORTED_JOIN:
        return cuda_split;
    case IMPORTED_SOFTMAX:
        return cuda_row_softmax;
    case IMPORTED_ATTENTION:
    case IMPORTED_CAUSAL_ATTENTION:
        return cuda_row_attention;
    case IMPORTED_ROW_SUM:
    case IMPORTED_ROW_MEAN:
    case IMPORTED_PAD:
        return cuda_row_place;
    default:
        return work->strided ? cuda_strided : NULL;
    }
}

// Where the result has no numbers, its gradients have none either, or are sums of nothing.
const char *cuda_operator(const struct run *run)
{
    struct images images;
    operator_run *other = of_no_places(&run->call->op->work);
    if (other) return other(run);
    const char *fault = read_images(run, &images);
    if (fault) return fault;
    if (!images.is_none && image_elements(&images.first.at) > 0) return run_of(run, &images);
    for (int i = 0; i < run->call->output_count && !fault; i++)
        fault = cuda_begin_sum(run->device, run->stream, run->call, i);
    return fault;
}
