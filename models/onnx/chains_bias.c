#include "models/onnx/chains_find.h"

#include <string.h>

// A product of rows with a weight, or a convolution, plus one weight for each column or channel:
// its bias. What exporters write apart is one kernel.

// The vector that is added, as it lies: itself, or in dimensions of 1; -1: it is none.
static int find_bias(const struct chain_model *c, int value, int64_t size, int behind)
{
    const struct onnx_value *seen = &c->model->values[value];
    const struct onnx_call *shaped = chain_maker(c, value, "Reshape", 2);
    int at = seen->rank - 1 - behind;
    if (at < 0 || seen->dims[at] != size) return -1;
    int source = chain_origin(c, shaped ? shaped->inputs[0] : value);
    const struct onnx_value *own = &c->model->values[source];
    bool is_it = own->is_constant && own->is_learned && own->rank == 1 && own->dims[0] == size;
    return is_it && seen->elements == size ? source : -1;
}

bool chain_join_bias(const struct chain_model *c, struct onnx_call *call)
{
    if (strcmp(call->type, "Add") != 0 || call->input_count != 2) return false;
    for (int i = 0; i < 2; i++) {
        int made = call->inputs[i];
        const struct onnx_call *rows = chain_maker(c, made, "MatMul", 2);
        const struct onnx_call *conv = chain_maker(c, made, "Conv", 2);
        if (!conv) conv = chain_maker(c, made, "ConvTranspose", 2);
        const struct onnx_call *product = rows ? rows : conv;
        const struct onnx_value *sum = &c->model->values[made];
        if (!product || c->reader_count[made] != 1 || sum->rank < 2) continue;
        const struct onnx_value *weight = &c->model->values[product->inputs[1]];
        if (rows && (sum->rank != 2 || weight->rank != 2)) continue;
        int behind = rows ? 0 : sum->rank - 2;
        int bias = find_bias(c, call->inputs[1 - i], sum->dims[sum->rank - 1 - behind], behind);
        if (bias < 0) continue;
        const struct onnx_call kept = *product;
        const int inputs[] = {kept.inputs[0], kept.inputs[1], bias};
        chain_become(c, call, rows ? "Gemm" : kept.type, inputs, 3);
        call->proto = kept.proto;
        call->flop = kept.flop;
        memcpy(call->windows, kept.windows, sizeof kept.windows);
        return true;
    }
    return false;
}
