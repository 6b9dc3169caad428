#include "executor/cuda/cuda.h"

#include <assert.h>

// Copies between boxes of arrays: what messages and changes of layout are packed and unpacked with.

// Joins dims that lie one after another on both sides, so that runs are long.
static struct move_args joined(const struct box_copy *copy, int64_t item_bytes)
{
    struct move_args args = {
        .rank = 1, .item_bytes = (int)item_bytes, .to = copy->to, .from = copy->from};
    int kept = 0;
    args.sizes[0] = args.to_strides[0] = args.from_strides[0] = 1;
    for (int i = 0; i < copy->rank; i++) {
        bool joins = i > 0 && args.to_strides[kept] == copy->to_strides[i] * copy->sizes[i] &&
                     args.from_strides[kept] == copy->from_strides[i] * copy->sizes[i];
        kept += i > 0 && !joins;
        args.sizes[kept] = joins ? args.sizes[kept] * copy->sizes[i] : copy->sizes[i];
        args.to_strides[kept] = copy->to_strides[i];
        args.from_strides[kept] = copy->from_strides[i];
    }
    args.rank = kept + 1;
    assert(args.rank <= WALK_DIMS);
    return args;
}

// The driver's own copies where rows lie evenly: they need no multiprocessor.
static const char *set(cudaStream_t stream, const struct move_args *args)
{
    int last = args->rank - 1;
    size_t item = (size_t)args->item_bytes, width = (size_t)args->sizes[last] * item;
    bool is_run = args->to_strides[last] == 1 && args->from_strides[last] == 1;
    if (is_run && args->rank == 1) {
        return cuda_fault(
            cudaMemcpyAsync(args->to, args->from, width, cudaMemcpyDeviceToDevice, stream));
    }
    bool is_table = args->rank == 2 && args->to_strides[0] >= args->sizes[1] &&
                    args->from_strides[0] >= args->sizes[1];
    if (is_run && is_table) {
        return cuda_fault(cudaMemcpy2DAsync(args->to, (size_t)args->to_strides[0] * item,
                                            args->from, (size_t)args->from_strides[0] * item, width,
                                            (size_t)args->sizes[0], cudaMemcpyDeviceToDevice,
                                            stream));
    }
    kernel_move(stream, args);
    return NULL;
}

static void add(cudaStream_t stream, const struct move_args *move, int number)
{
    struct terms_args args = {.rank = move->rank,
                              .term_count = 1,
                              .adds = true,
                              .out = {move->to, number},
                              .term = {{(void *)move->from, number}}};
    for (int i = 0; i < move->rank; i++) {
        args.sizes[i] = move->sizes[i];
        args.out_strides[i] = move->to_strides[i];
        args.strides[0][i] = move->from_strides[i];
    }
    kernel_terms(stream, &args);
}

const char *cuda_box(struct device *device, enum stream stream, const struct box_copy *copy)
{
    struct cuda_device *own = (struct cuda_device *)(void *)device;
    bool is_real = copy->element == ELEMENT_COMPUTE || copy->element == ELEMENT_FP32;
    int number = copy->element == ELEMENT_FP32 ? NUMBER_FP32 : (int)own->compute;
    int64_t item = copy->element == ELEMENT_BYTE    ? 1
                   : copy->element == ELEMENT_INT64 ? 8
                                                    : number_bytes(number);
    if (copy->combine != BOX_SET && !is_real) return "only reals are combined";
    for (int i = 0; i < copy->rank; i++) {
        if (copy->sizes[i] <= 0) return NULL;
    }
    struct move_args args = joined(copy, item);
    const char *fault = NULL;
    if (copy->combine == BOX_SET) {
        fault = set(own->streams[stream], &args);
    } else if (copy->combine == BOX_ADD) {
        add(own->streams[stream], &args, number);
    } else {
        kernel_maximum(own->streams[stream], &args, number);
    }
    return fault ? fault : cuda_fault(cudaGetLastError());
}
