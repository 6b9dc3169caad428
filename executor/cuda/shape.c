#include "executor/cuda/cuda.h"

#include <assert.h>
#include <string.h>

// Sums, changes of shape, joins: which element goes where, for the kernels of shape.cu.

// Stride of each dim of `over` in an array, 0 where it lacks the dim.
static void strides_of(const struct kernel_array *over, const struct kernel_array *array,
                       int64_t *strides)
{
    for (int i = 0; i < over->rank; i++) {
        int at = array_find(array, over->dims[i]);
        strides[i] = at < 0 ? 0 : array_stride(array, at);
    }
}

// Elements of an array before the first of `over`.
static int64_t skipped(const struct kernel_array *over, const struct kernel_array *array)
{
    int64_t elements = 0;
    for (int i = 0; i < over->rank; i++) {
        int at = array_find(array, over->dims[i]);
        if (at >= 0) elements += (over->first[i] - array->first[at]) * array_stride(array, at);
    }
    assert(elements >= 0 && "the array begins no later");
    return elements;
}

// Whether two neighbouring dims are one in every array.
static bool joins(const struct terms_args *args, int outer, int inner)
{
    bool result = args->out_strides[outer] == args->out_strides[inner] * args->sizes[inner];
    for (int t = 0; t < args->term_count; t++)
        result &= args->strides[t][outer] == args->strides[t][inner] * args->sizes[inner];
    return result;
}

// Joins dims that lie one after another in every array, so that runs are long.
static void join_dims(struct terms_args *args)
{
    int kept = 0;
    for (int i = 1; i < args->rank; i++) {
        bool is_joined = joins(args, kept, i);
        kept += !is_joined;
        args->sizes[kept] = is_joined ? args->sizes[kept] * args->sizes[i] : args->sizes[i];
        args->out_strides[kept] = args->out_strides[i];
        for (int t = 0; t < args->term_count; t++)
            args->strides[t][kept] = args->strides[t][i];
    }
    if (args->rank == 0) {  // a scalar
        args->sizes[0] = args->out_strides[0] = 1;
        for (int t = 0; t < args->term_count; t++)
            args->strides[t][0] = 1;
    }
    args->rank = kept + 1;
    assert(args->rank <= WALK_DIMS);
}

// Terms may lack dims of the sum, over which they are repeated, or hold more of it than is here.
const char *cuda_add(const struct run *run)
{
    const struct kernel_call *call = run->call;
    const struct kernel_array *out = &call->outputs[0];
    if (array_elements(out) == 0) return NULL;
    assert(call->input_count <= TERM_MAX);
    struct terms_args args = {.rank = out->rank,
                              .term_count = call->input_count,
                              .adds = call_adds(call, 0),
                              .out = run_output(run, 0)};
    memcpy(args.sizes, out->sizes, sizeof args.sizes);
    strides_of(out, out, args.out_strides);
    for (int t = 0; t < call->input_count; t++) {
        args.term[t] = reals_at(run_input(run, t), skipped(out, &call->inputs[t]));
        strides_of(out, &call->inputs[t], args.strides[t]);
    }
    join_dims(&args);
    kernel_terms(run->on, &args);
    return NULL;
}

// Which dims of wide narrow has: by position where ranks are equal, else by name.
static struct repeat_args repeat_of(const struct kernel_array *wide,
                                    const struct kernel_array *narrow)
{
    struct repeat_args args = {.rank = wide->rank};
    memcpy(args.sizes, wide->sizes, sizeof args.sizes);
    memcpy(args.first, wide->first, sizeof args.first);
    for (int i = 0; i < wide->rank; i++) {
        int at = wide->rank == narrow->rank ? i : array_find(narrow, wide->dims[i]);
        args.strides[i] = array_stride(wide, i);
        args.narrow_sizes[i] = 1;
        if (at < 0) continue;
        args.repeats[i] = narrow->whole[at] > 0 ? wide->whole[i] / narrow->whole[at] : 0;
        args.narrow_sizes[i] = narrow->sizes[at];
        args.narrow_strides[i] = array_stride(narrow, at);
        args.narrow_first[i] = narrow->first[at];
    }
    if (args.rank == 0) args = (struct repeat_args){.rank = 1, .sizes = {1}, .narrow_sizes = {1}};
    return args;
}

// Slices may begin within a repeated element: the first and the last have to be here.
static const char *check_repeat(const struct kernel_array *wide, const struct kernel_array *narrow)
{
    for (int i = 0; i < wide->rank && array_elements(wide) > 0; i++) {
        if (narrow->whole[i] <= 0 || wide->whole[i] % narrow->whole[i] != 0)
            return "a dim is repeated by no whole number";
        int64_t repeats = wide->whole[i] / narrow->whole[i];
        int64_t first = wide->first[i] / repeats - narrow->first[i];
        int64_t last = (wide->first[i] + wide->sizes[i] - 1) / repeats - narrow->first[i];
        if (first < 0 || last >= narrow->sizes[i]) return "what is repeated is not all here";
    }
    return NULL;
}

const char *cuda_expand(const struct run *run)
{
    const struct kernel_array *wide = &run->call->outputs[0], *narrow = &run->call->inputs[0];
    const char *fault = check_repeat(wide, narrow);
    if (fault || array_elements(wide) == 0) return fault;
    struct repeat_args args = repeat_of(wide, narrow);
    args.wide = run_output(run, 0);
    args.narrow = run_input(run, 0);
    kernel_expand(run->on, &args);
    return NULL;
}

// Whether the sum is over rows of neighbours that all stay; then how many rows.
static int64_t rows_over(const struct kernel_array *in, const struct kernel_array *out)
{
    int64_t rows = 1;
    int behind = in->rank - out->rank;
    assert(behind > 0);
    for (int i = 0; i < in->rank; i++) {
        if (i < behind) rows *= in->sizes[i];
        bool stays = i >= behind && in->dims[i] == out->dims[i - behind];
        if (i < behind ? array_find(out, in->dims[i]) >= 0 : !stays) return 0;
    }
    return rows;
}

const char *cuda_reduce(const struct run *run)
{
    const struct kernel_array *in = &run->call->inputs[0], *out = &run->call->outputs[0];
    int64_t rows = in->rank > out->rank ? rows_over(in, out) : 0, columns = array_elements(out);
    if (columns == 0) return NULL;
    if (array_elements(in) == 0) return cuda_begin_sum(run->device, run->stream, run->call, 0);
    const char *fault = in->rank == out->rank ? check_repeat(in, out) : NULL;
    if (fault) return fault;
    if (rows > 0) {
        struct columns_args args = {.rows = rows,
                                    .columns = columns,
                                    .stride = in->row_stride ? in->row_stride : columns,
                                    .adds = call_adds(run->call, 0),
                                    .in = run_input(run, 0),
                                    .out = run_output(run, 0)};
        args.partial = run_scratch(run, SCRATCH_PARTIAL, column_chunks(rows) * columns * 4);
        if (!args.partial) return CUDA_NO_MEMORY;
        kernel_columns(run->on, &args);
        return NULL;
    }
    if (cuda_sum_rows(run, &fault)) return fault;
    struct repeat_args args = repeat_of(in, out);
    args.adds = call_adds(run->call, 0);
    args.wide = run_input(run, 0);
    args.narrow = run_output(run, 0);
    kernel_fold(run->on, &args);
    return NULL;
}

// The part of the joined array that one of the two is: an array over the joined one's dims.
struct shape_piece {
    struct kernel_array array;
    struct kernel_array named;  // the part, its last dim by the joined one's name
};

static struct shape_piece piece_of(const struct kernel_array *joined,
                                   const struct kernel_array *part)
{
    struct shape_piece piece = {*joined, *part};
    int last = joined->rank - 1, own = part->rank - 1;
    piece.array.sizes[last] = array_last(part);
    piece.named.dims[own] = joined->dims[last];
    piece.named.first[own] = joined->first[last];
    piece.named.whole[own] = piece.array.whole[last];
    return piece;
}

// `before`: elements of a joined row in front of the part.
static void join(const struct run *run, const struct kernel_array *joined,
                 const struct kernel_array *part, struct reals from, int64_t before)
{
    struct shape_piece piece = piece_of(joined, part);
    struct terms_args args = {.rank = joined->rank, .term_count = 1};
    if (array_elements(&piece.array) == 0) return;
    memcpy(args.sizes, piece.array.sizes, sizeof args.sizes);
    args.out = reals_at(run_output(run, 0), before);
    for (int i = 0; i < joined->rank; i++)
        args.out_strides[i] = array_stride(joined, i);
    args.term[0] = reals_at(from, skipped(&piece.array, &piece.named));
    strides_of(&piece.array, &piece.named, args.strides[0]);
    join_dims(&args);
    kernel_terms(run->on, &args);
}

const char *cuda_concat(const struct run *run)
{
    struct kernel_call folded = *run->call;
    int64_t before = call_fold_joint(&folded);
    if (before > 0) {
        const char *fault = cuda_begin_sum(run->device, run->stream, run->call, 0);
        if (fault) return fault;
    }
    for (int i = 0; i < folded.input_count; i++) {
        join(run, &folded.outputs[0], &folded.inputs[i], run_input(run, i), before);
        before += array_last(&folded.inputs[i]);
    }
    return NULL;
}

// Each part sums what it was repeated over.
const char *cuda_concat_backward(const struct run *run)
{
    struct kernel_call folded = *run->call;
    int64_t before = call_fold_joint(&folded);
    const struct kernel_array *joined = &folded.inputs[0];
    for (int i = 0; i < folded.output_count; before += array_last(&folded.outputs[i++])) {
        struct shape_piece piece = piece_of(joined, &folded.outputs[i]);
        const char *fault = cuda_begin_sum(run->device, run->stream, run->call, i);
        if (fault) return fault;
        if (array_elements(&piece.array) == 0 || array_elements(&folded.outputs[i]) == 0) continue;
        struct repeat_args args = {.rank = joined->rank, .adds = true};
        memcpy(args.sizes, piece.array.sizes, sizeof args.sizes);
        for (int d = 0; d < joined->rank; d++) {
            int at = array_find(&piece.named, joined->dims[d]);
            args.strides[d] = array_stride(joined, d);
            args.first[d] = piece.array.first[d];
            args.narrow_sizes[d] = at < 0 ? 1 : piece.named.sizes[at];
            args.repeats[d] = at < 0 ? 0 : 1;
            if (at < 0) continue;
            args.narrow_strides[d] = array_stride(&piece.named, at);
            args.narrow_first[d] = piece.named.first[at];
        }
        args.wide = reals_at(run_input(run, 0), before);
        args.narrow = run_output(run, i);
        kernel_fold(run->on, &args);
    }
    return NULL;
}

// The same numbers under other dims.
const char *cuda_flatten(const struct run *run)
{
    const struct kernel_array *in = &run->call->inputs[0], *out = &run->call->outputs[0];
    struct reals from = run_input(run, 0), to = run_output(run, 0);
    int64_t elements = array_elements(in);
    if (elements != array_elements(out) || from.number != to.number)
        return "what is flattened has another size";
    if (elements == 0) return NULL;
    return cuda_fault(cudaMemcpyAsync(to.data, from.data,
                                      (size_t)(elements * number_bytes(to.number)),
                                      cudaMemcpyDeviceToDevice, run->on));
}
