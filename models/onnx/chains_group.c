#include "models/onnx/chains_find.h"

#include <string.h>

// Group norm as JAX writes it out, over images whose channels stand behind: x seen in groups of
// channels, g = x (batch, places, groups, channels of one); its mean m over all but batch and
// groups, and mean(g^2) - m^2, each repeated for the channels of a group; (x - m) times a weight
// over the deviation, plus a bias. The last sum becomes the norm.

struct group_norm {
    int x, weight, epsilon;
    int64_t groups;
};

// In front of what only repeats a value or gives it other dimensions.
static int unspread(const struct chain_model *c, int value)
{
    for (;;) {
        const struct onnx_call *shaped = chain_maker(c, value, "Reshape", 2);
        if (!shaped) shaped = chain_maker(c, value, "Expand", 2);
        if (!shaped) return chain_origin(c, value);
        value = shaped->inputs[0];
    }
}

// In front of what turns it, too.
static int unturned(const struct chain_model *c, int value)
{
    for (;;) {
        value = unspread(c, value);
        const struct onnx_call *turned = chain_maker(c, value, "Transpose", 1);
        if (!turned) return value;
        value = turned->inputs[0];
    }
}

// Whether a value is x in groups behind its places.
static bool is_grouped(const struct chain_model *c, int value, const struct group_norm *n)
{
    const struct onnx_value *seen = &c->model->values[value], *x = &c->model->values[n->x];
    return unturned(c, value) == n->x && seen->rank >= 4 && seen->elements == x->elements &&
           seen->dims[0] == x->dims[0] && seen->dims[seen->rank - 2] == n->groups &&
           seen->dims[seen->rank - 1] * n->groups == x->dims[1];
}

// What is averaged over all but samples and groups; -1: it is no such mean.
static int averaged(const struct chain_model *c, int value, const struct group_norm *n)
{
    value = unspread(c, value);
    const struct onnx_call *made =
        value < 0 || c->maker[value] < 0 ? NULL : &c->model->calls[c->maker[value]];
    if (!made || made->is_folded || strcmp(made->type, "ReduceMean") != 0) return -1;
    const struct onnx_value *from = &c->model->values[made->inputs[0]];
    const struct onnx_value *to = &c->model->values[value];
    bool is_it = to->rank == from->rank && from->rank >= 4;
    for (int i = 0; i < to->rank && is_it; i++)
        is_it = to->dims[i] == (i == 0 || i == to->rank - 2 ? from->dims[i] : 1);
    return is_it && to->dims[to->rank - 2] == n->groups ? made->inputs[0] : -1;
}

static bool is_mean(const struct chain_model *c, int value, const struct group_norm *n)
{
    int of = averaged(c, value, n);
    return of >= 0 && is_grouped(c, of, n);
}

static bool is_variance(const struct chain_model *c, int value, const struct group_norm *n)
{
    value = unspread(c, value);
    const struct onnx_call *above = chain_maker(c, value, "Relu", 1);
    const struct onnx_call *apart = chain_maker(c, above ? above->inputs[0] : value, "Sub", 2);
    int squares = apart ? averaged(c, apart->inputs[0], n) : -1;
    int root = squares < 0 ? -1 : chain_rooted(c, squares);
    int mean = root < 0 ? -1 : chain_rooted(c, unspread(c, apart->inputs[1]));
    return mean >= 0 && is_grouped(c, root, n) && is_mean(c, mean, n);
}

// A weight over the deviation.
static bool is_factor(const struct chain_model *c, int value, struct group_norm *n)
{
    const struct onnx_call *product = chain_maker(c, unspread(c, value), "Mul", 2);
    int64_t channels = c->model->values[n->x].dims[1];
    for (int i = 0; i < 2 && product; i++) {
        int inverse = unspread(c, product->inputs[i]);
        const struct onnx_call *turned = chain_maker(c, inverse, "Reciprocal", 1);
        const struct onnx_call *root = turned ? chain_maker(c, turned->inputs[0], "Sqrt", 1) : NULL;
        const struct onnx_call *sum = root ? chain_maker(c, root->inputs[0], "Add", 2) : NULL;
        n->weight = chain_vector(c, product->inputs[1 - i], channels);
        for (int k = 0; k < 2 && sum && n->weight >= 0; k++) {
            n->epsilon = sum->inputs[1 - k];
            if (chain_is_factor(c, n->epsilon) && is_variance(c, sum->inputs[k], n)) return true;
        }
    }
    return false;
}

// The x of x - m; how many groups m has follows from the mean that it is.
static bool find_centered(const struct chain_model *c, int value, struct group_norm *n)
{
    const struct onnx_call *shifted = chain_maker(c, value, "Sub", 2);
    if (!shifted) return false;
    n->x = chain_origin(c, shifted->inputs[0]);
    const struct onnx_value *mean = &c->model->values[unspread(c, shifted->inputs[1])];
    if (c->model->values[n->x].rank < 3 || mean->rank < 4) return false;
    n->groups = mean->dims[mean->rank - 2];
    return is_mean(c, shifted->inputs[1], n);
}

// Whether all of a value is this number.
static bool is_repeated(const struct chain_model *c, int value, double number)
{
    const struct onnx_value *of = &c->model->values[value];
    while (!of->numbers && c->maker[value] >= 0) {
        const struct onnx_call *call = &c->model->calls[c->maker[value]];
        if (strcmp(call->type, "Expand") != 0) return false;
        value = call->inputs[0];
        of = &c->model->values[value];
    }
    for (int64_t i = 0; of->numbers && i < of->elements; i++)
        if (of->numbers[i] != number) return false;
    return of->numbers;
}

// As PyTorch's exporter writes it where the operators of ONNX have none: an instance norm without
// factors of x seen as groups, times a weight. -1: it is none, else the x.
static int find_instance(const struct chain_model *c, int value, int64_t *groups, double *epsilon)
{
    const struct onnx_call *out = chain_maker(c, value, "Reshape", 2);
    const struct onnx_call *norm =
        out ? chain_maker(c, out->inputs[0], "InstanceNormalization", 3) : NULL;
    const struct onnx_call *in = norm ? chain_maker(c, norm->inputs[0], "Reshape", 2) : NULL;
    if (!in || !is_repeated(c, norm->inputs[1], 1) || !is_repeated(c, norm->inputs[2], 0))
        return -1;
    const struct onnx_value *x = &c->model->values[in->inputs[0]];
    const struct onnx_value *seen = &c->model->values[norm->inputs[0]];
    const struct onnx_value *made = &c->model->values[out->outputs[0]];
    bool is_it = seen->rank == 3 && x->rank >= 3 && made->rank == x->rank;
    for (int i = 0; i < x->rank && is_it; i++)
        is_it = made->dims[i] == x->dims[i];
    *groups = is_it ? seen->dims[1] : 0;
    *epsilon = attribute_float(norm, "epsilon", 1e-5);
    return is_it && seen->dims[0] == x->dims[0] && x->dims[1] % *groups == 0 ? in->inputs[0] : -1;
}

bool chain_join_groups(const struct chain_model *c, struct onnx_call *call)
{
    if (strcmp(call->type, "Add") != 0 || call->input_count != 2) return false;
    for (int i = 0; i < 4; i++) {
        const struct onnx_call *scaled = chain_maker(c, call->inputs[i & 1], "Mul", 2);
        int64_t groups = 0;
        double epsilon = 0;
        if (!scaled || c->reader_count[call->inputs[i & 1]] != 1) continue;
        int x = find_instance(c, scaled->inputs[i >> 1], &groups, &epsilon);
        if (x < 0) continue;
        int64_t channels = c->model->values[x].dims[1];
        const int inputs[] = {x, chain_vector(c, scaled->inputs[1 - (i >> 1)], channels),
                              chain_vector(c, call->inputs[1 - (i & 1)], channels)};
        if (inputs[1] < 0 || inputs[2] < 0) continue;
        chain_become(c, call, "GroupNormalization", inputs, 3);
        chain_say(c, call, "epsilon", epsilon);
        chain_say_int(c, call, "num_groups", groups);
        return true;
    }
    return false;
}

bool chain_join_group_norm(const struct chain_model *c, struct onnx_call *call)
{
    if (strcmp(call->type, "Add") != 0 || call->input_count != 2) return false;
    for (int i = 0; i < 4; i++) {
        const struct onnx_call *scaled = chain_maker(c, call->inputs[i & 1], "Mul", 2);
        struct group_norm n = {0};
        bool is_it = scaled && c->reader_count[call->inputs[i & 1]] == 1 &&
                     find_centered(c, scaled->inputs[i >> 1], &n) &&
                     is_factor(c, scaled->inputs[1 - (i >> 1)], &n);
        int bias =
            is_it ? chain_vector(c, call->inputs[1 - (i & 1)], c->model->values[n.x].dims[1]) : -1;
        if (bias < 0 || !c->model->values[n.epsilon].numbers) continue;
        const int inputs[] = {n.x, n.weight, bias};
        chain_become(c, call, "GroupNormalization", inputs, 3);
        chain_say(c, call, "epsilon", c->model->values[n.epsilon].numbers[0]);
        chain_say_int(c, call, "num_groups", n.groups);
        return true;
    }
    return false;
}
