#include "models/onnx/chains_find.h"
#include "models/onnx/scalar.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Attention as exporters write it out: scores = q k^T, scaled before or behind, masks added or
// chosen by Where, softmax over the keys, dropout, and the product with the values, which becomes
// the whole of it. Fused kernels keep neither scores nor probabilities, and read k as it lies (Dao
// et al. 2022). A bias that is trained has a gradient of the size of the scores, and what another
// call or the model's caller reads of them has to be there: such chains stay as they are.

enum { LINKS_MOST = 8, MASKS_MOST = 2 };

struct found {
    const struct onnx_call *product;  // q k^T
    int masks[MASKS_MOST], mask_count;
    double scale;  // of the scores; NaN: not known, or more is done to them than kernels do
};

static const struct onnx_value *value_at(const struct chain_model *c, int value)
{
    return &c->model->values[value];
}

// The call behind a value that no more than its chain reads, whatever its type.
static const struct onnx_call *only_maker(const struct chain_model *c, int value, int readers)
{
    int maker = value < 0 ? -1 : c->maker[value];
    if (maker < 0 || c->reader_count[value] != readers || c->model->calls[maker].is_folded)
        return NULL;
    return &c->model->calls[maker];
}

static bool is(const struct onnx_call *call, const char *type)
{
    return call && strcmp(call->type, type) == 0;
}

// Batch and heads may be one dimension or two; rows and columns stay what they are.
static bool keeps_rows(const struct chain_model *c, const struct onnx_call *call)
{
    const struct onnx_value *from = value_at(c, call->inputs[0]);
    const struct onnx_value *to = value_at(c, call->outputs[0]);
    return from->rank >= 2 && to->rank >= 2 && from->elements == to->elements &&
           from->dims[from->rank - 1] == to->dims[to->rank - 1] &&
           from->dims[from->rank - 2] == to->dims[to->rank - 2];
}

// What scales a value by a number, or gives it another type or shape, and nothing more: the place
// of what it does so to among its inputs; -1: it does more.
static int passed(const struct chain_model *c, const struct onnx_call *call)
{
    if (is(call, "Cast") || is(call, "Identity")) return 0;
    bool is_view =
        is(call, "Reshape") || is(call, "Expand") || is(call, "Squeeze") || is(call, "Unsqueeze");
    if (is_view) return keeps_rows(c, call) ? 0 : -1;
    if (is(call, "Div")) return chain_is_factor(c, call->inputs[1]) ? 0 : -1;
    if (!is(call, "Mul")) return -1;
    return chain_is_factor(c, call->inputs[1]) ? 0 : chain_is_factor(c, call->inputs[0]) ? 1 : -1;
}

// The number that such a call multiplies by.
static double factor_of(const struct chain_model *c, const struct onnx_call *call)
{
    assert(passed(c, call) >= 0);
    bool divides = is(call, "Div");
    if (!divides && !is(call, "Mul")) return 1;
    const struct onnx_value *of = value_at(c, call->inputs[1 - passed(c, call)]);
    if (!of->numbers) return (double)NAN;
    return divides ? 1 / of->numbers[0] : of->numbers[0];
}

// From the softmax back to q k^T; false where anything else lies between.
static bool find_scores(const struct chain_model *c, int value, int readers, int links,
                        struct found *found)
{
    const struct onnx_call *call = only_maker(c, value, readers);
    if (!call || links == LINKS_MOST) return false;
    if (is(call, "MatMul")) {
        found->product = call;
        return true;
    }
    int through = passed(c, call);
    if (through >= 0) {
        found->scale *= factor_of(c, call);
        return find_scores(c, call->inputs[through], 1, links + 1, found);
    }
    bool chooses = is(call, "Where");
    if ((!chooses && !is(call, "Add")) || found->mask_count == MASKS_MOST) return false;
    for (int i = chooses; i < 2 + chooses; i++) {
        // Of a Where the other one is a number far below all scores.
        int other = chooses ? call->inputs[3 - i] : call->inputs[1 - i];
        struct found tried = *found;
        if (chooses && !chain_is_factor(c, other)) continue;
        tried.masks[tried.mask_count++] = chooses ? call->inputs[0] : other;
        if (!find_scores(c, call->inputs[i], 1, links + 1, &tried)) continue;
        *found = tried;
        return true;
    }
    return false;
}

// A table of biases has rows for each head, a mask has one for all of them.
static bool is_mask(const struct chain_model *c, int value)
{
    const struct onnx_value *of = value_at(c, value);
    if (c->is_trained[value]) return false;
    bool is_float = of->is_constant && element_is_float(of->element);
    return !is_float || of->rank < 3 || of->dims[of->rank - 3] == 1;
}

// What a condition asks whether it is no number, or below all numbers, in any place of a row; -1:
// it asks something else.
static int asked(const struct chain_model *c, int condition)
{
    for (int links = 0; links < LINKS_MOST; links++) {
        int maker = condition < 0 ? -1 : c->maker[condition];
        const struct onnx_call *call = maker < 0 ? NULL : &c->model->calls[maker];
        if (!call || call->is_folded) return -1;
        if (is(call, "IsNaN") || is(call, "IsInf")) return call->inputs[0];
        if (is(call, "Equal")) return chain_is_factor(c, call->inputs[1]) ? call->inputs[0] : -1;
        bool is_passed = is(call, "Not") || is(call, "Cast") || is(call, "ReduceMax");
        if (!is_passed) return -1;
        condition = call->inputs[0];
    }
    return -1;
}

// The softmax over the last dimension behind the probabilities: past dropout, other types, and
// what makes rows of nothing but masks 0, which may ask the probabilities or the scores. -1: there
// is none. `readers`: of the scores.
static int find_softmax(const struct chain_model *c, int value, int *readers, double *scale)
{
    int scores = -1;
    *readers = 1;
    for (int links = 0; links < LINKS_MOST; links++) {
        int maker = value < 0 ? -1 : c->maker[value];
        const struct onnx_call *call = maker < 0 ? NULL : &c->model->calls[maker];
        if (!call || call->is_folded) return -1;
        if (is(call, "Softmax")) {
            bool is_it =
                softmax_is_of_last(c->model, call) && (scores < 0 || scores == call->inputs[0]);
            return is_it ? maker : -1;
        }
        int source = is(call, "Where") ? asked(c, call->inputs[0]) : -1;
        int through = source >= 0 ? 2 : is(call, "Dropout") ? 0 : passed(c, call);
        if (through < 0 || c->reader_count[value] != 1) return -1;
        if (is(call, "Dropout") || source >= 0 || factor_of(c, call) != 1) *scale = (double)NAN;
        value = call->inputs[through];
        bool asks_itself = source == value;
        if (source >= 0 && !asks_itself) {
            scores = source;
            *readers = 2;
        }
        if (c->reader_count[value] != (asks_itself ? 2 : 1)) return -1;
    }
    return -1;
}

static void turn(const struct chain_model *c, int value)
{
    assert(value_at(c, value)->rank >= 2);
    struct onnx_value *of = &c->model->values[value];
    int64_t *dims = ARENA_COPY(c->model->arena, int64_t, of->dims, of->rank);
    dims[of->rank - 1] = of->dims[of->rank - 2];
    dims[of->rank - 2] = of->dims[of->rank - 1];
    of->dims = dims;
    of->name = arena_print(c->model->arena, "%s.rows", of->name);
}

// The same transposition with its last two places exchanged.
static void turn_back(const struct chain_model *c, struct onnx_call *call, const int64_t *order,
                      int rank)
{
    assert(rank >= 2);
    struct arena *arena = c->model->arena;
    Onnx__NodeProto *proto = ARENA_NEW(arena, Onnx__NodeProto, 1);
    Onnx__AttributeProto *perm = ARENA_NEW(arena, Onnx__AttributeProto, 1);
    *proto = *call->proto;
    onnx__attribute_proto__init(perm);
    perm->name = arena_copy(arena, "perm");
    perm->ints = ARENA_COPY(arena, int64_t, order, rank);
    perm->ints[rank - 1] = order[rank - 2];
    perm->ints[rank - 2] = order[rank - 1];
    perm->n_ints = (size_t)rank;
    proto->attribute = ARENA_NEW(arena, Onnx__AttributeProto *, 1);
    proto->attribute[0] = perm;
    proto->n_attribute = 1;
    call->proto = proto;
}

static int unscaled(const struct chain_model *c, int value, double *scale)
{
    for (int links = 0; links < LINKS_MOST; links++) {
        int maker = value < 0 ? -1 : c->maker[value];
        const struct onnx_call *call = maker < 0 ? NULL : &c->model->calls[maker];
        bool scales = call && !call->is_folded && (is(call, "Mul") || is(call, "Div"));
        int through = scales ? passed(c, call) : -1;
        if (through < 0) return value;
        *scale *= factor_of(c, call);
        value = call->inputs[through];
    }
    return value;
}

// The keys as they lay before they were turned for the product: in front of the transposition where
// that does nothing else, else behind one that leaves the last two places be. -1: they were not
// turned.
static int find_keys(const struct chain_model *c, int value, double *scale)
{
    int path[LINKS_MOST], count = 0;
    value = unscaled(c, value, scale);
    while (count < LINKS_MOST) {
        const struct onnx_call *found = only_maker(c, value, 1);
        path[count++] = value;
        if (!found) return -1;
        if (is(found, "Transpose")) break;
        if (passed(c, found) != 0) return -1;
        value = found->inputs[0];
    }
    struct onnx_call *call = &c->model->calls[c->maker[value]];
    int rank = value_at(c, value)->rank, order_count = 0;
    const int64_t *order = attribute_ints(call, "perm", &order_count);
    if (!is(call, "Transpose") || order_count != rank || rank < 2) return -1;
    bool is_plain = order[rank - 1] == rank - 2 && order[rank - 2] == rank - 1;
    for (int i = 0; i + 2 < rank; i++)
        is_plain = is_plain && order[i] == i;
    if (is_plain && count == 1) return call->inputs[0];
    // What follows it reads what it read.
    if (is_plain) {
        struct onnx_call *next = &c->model->calls[c->maker[path[--count - 1]]];
        int *inputs = ARENA_COPY(c->model->arena, int, next->inputs, next->input_count);
        inputs[0] = call->inputs[0];
        next->inputs = inputs;
    } else {
        turn_back(c, call, order, rank);
    }
    for (int i = 0; i < count; i++)
        turn(c, path[i]);
    return path[0];
}

bool chain_join_attention(const struct chain_model *c, struct onnx_call *call)
{
    if (!is(call, "MatMul") || call->input_count != 2) return false;
    struct found found = {.scale = 1};
    int readers = 1, softmax = find_softmax(c, call->inputs[0], &readers, &found.scale);
    if (softmax < 0 || c->reader_count[call->inputs[0]] != 1) return false;
    const struct onnx_call *of = &c->model->calls[softmax];
    if (!find_scores(c, of->inputs[0], readers, 0, &found)) return false;
    for (int i = 0; i < found.mask_count; i++)
        if (!is_mask(c, found.masks[i])) return false;
    int left = found.product->inputs[0], right = found.product->inputs[1];
    const struct onnx_value *scores = value_at(c, found.product->outputs[0]);
    const struct onnx_value *values = value_at(c, call->inputs[1]);
    const struct onnx_value *queries = value_at(c, left);
    bool has_rows = scores->rank >= 3 && values->rank >= 2 && queries->rank == scores->rank;
    if (!has_rows || value_at(c, right)->is_constant || values->is_constant) return false;
    double depth = (double)(queries->dims[queries->rank - 1] + values->dims[values->rank - 1]);
    int keys = find_keys(c, right, &found.scale);
    if (keys < 0) return false;
    int inputs[3 + MASKS_MOST] = {unscaled(c, left, &found.scale), keys, call->inputs[1]};
    for (int i = 0; i < found.mask_count; i++)
        inputs[3 + i] = found.masks[i];
    chain_become(c, call, "Attention", inputs, 3 + found.mask_count);
    chain_say(c, call, "scale", found.scale);
    call->flop = 2 * (double)scores->elements * depth;
    return true;
}
