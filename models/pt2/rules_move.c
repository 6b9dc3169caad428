#include "models/pt2/rules.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static bool is_clean(const struct pt2_node *node)
{
    return !node->program->err->kind;
}

static Onnx__NodeProto *put1(const struct pt2_node *node, const char *type, const char *output,
                             const char *input)
{
    return draft_put(node->draft, type, output, 1, &input);
}

static Onnx__NodeProto *put2(const struct pt2_node *node, const char *type, const char *output,
                             const char *first, const char *second)
{
    const char *const inputs[] = {first, second};
    return draft_put(node->draft, type, output, 2, inputs);
}

// The stated result, which the rules of this file go by: views have their sizes computed there.
static const struct draft_value *result(const struct pt2_node *node)
{
    const struct draft_value *out = node->output_count ? node->outputs[0] : NULL;
    if (!out) pt2_fail(node, "nothing is said of its result");
    return out;
}

static bool is_alike(const struct draft_value *a, const struct draft_value *b)
{
    assert(a->rank >= 0 && b->rank >= 0);
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

bool pt2_same(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node);
    if (!x) return false;
    put1(node, "Identity", pt2_output(node, 0), x->name);
    return true;
}

bool pt2_cast(struct pt2_node *node, const char *type)
{
    const struct draft_value *x = pt2_first(node), *out = result(node);
    if (!x || !out) return false;
    if (x->element == out->element) return pt2_same(node, type);
    draft_put_int(node->draft, put1(node, "Cast", out->name, x->name), "to", out->element);
    return true;
}

// What depends on the shape of its input alone.
bool pt2_made(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *out = result(node);
    if (out) draft_unknown(node->draft, out);
    return out;
}

// The number that is argument `other`; NaN: it is none.
static double other_number(const struct pt2_node *node)
{
    struct json other = node->input_count > 1 ? json_item(&node->inputs[1], 0) : (struct json){0};
    bool is_number = other.value && strcmp(json_key(&other), "as_float") == 0;
    return is_number ? pt2_number(node, "other", 0) : (double)NAN;
}

// Ones with a probability, else zeros, drawn as such or as the floor of that and what is drawn
// evenly below 1; and these over the probability.
void pt2_know_drawn(const struct pt2_node *node, struct draft_value *made)
{
    bool draws = strstr(node->target, "aten.bernoulli") && pt2_has(node, "p");
    const struct draft_value *from = NULL;
    if (draws) made->drawn = pt2_number(node, "p", 0);
    made->is_even = strstr(node->target, "aten.rand.") != NULL;
    bool goes_on = strstr(node->target, "aten.div") || strstr(node->target, "aten.add") ||
                   strstr(node->target, "aten.floor");
    if (goes_on) from = pt2_first(node);
    if (!from) return;
    if (strstr(node->target, "aten.floor") && from->is_even) made->drawn = from->risen;
    double other = other_number(node);
    if (strstr(node->target, "aten.add") && from->is_even && other > 0 && other < 1) {
        made->is_even = true;
        made->risen = other;
    }
    if (strstr(node->target, "aten.div") && from->drawn > 0 && other == from->drawn) {
        made->drawn = from->drawn;
        made->is_scaled = true;
    }
}

bool pt2_reshape(struct pt2_node *node, const char *type)
{
    const struct draft_value *x = pt2_first(node), *out = result(node);
    if (!x || !out) return false;
    if (is_alike(x, out)) return pt2_same(node, type);
    put2(node, "Reshape", out->name, x->name, draft_list(node->draft, out->dims, out->rank));
    return true;
}

// Which dimension of its input each of the result is.
static bool read_order(struct pt2_node *node, const struct draft_value *x, int64_t order[RANK_MOST])
{
    int count = 0;
    for (int i = 0; i < x->rank; i++)
        order[i] = i;
    if (pt2_has(node, "dims")) {
        const int64_t *dims = pt2_ints(node, "dims", &count);
        if (count != x->rank)
            return is_clean(node) ? pt2_fail(node, "dims are not all of them") : false;
        bool is_there[RANK_MOST] = {false};
        for (int i = 0; i < count; i++) {
            order[i] = dims[i] < 0 ? dims[i] + x->rank : dims[i];
            if (order[i] < 0 || order[i] >= x->rank || is_there[order[i]])
                return pt2_fail(node, "dims name one twice, or none of its tensor");
            is_there[order[i]] = true;
        }
    } else if (x->rank >= 2) {
        bool is_axis = pt2_has(node, "axis0");
        int64_t a = pt2_axis(node, is_axis ? "axis0" : "dim0", 0, x->rank);
        int64_t b = pt2_axis(node, is_axis ? "axis1" : "dim1", 1, x->rank);
        order[a] = b;
        order[b] = a;
    }
    return is_clean(node);
}

bool pt2_transpose(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node);
    int64_t order[RANK_MOST] = {0};
    if (!x || !read_order(node, x, order)) return false;
    draft_put_ints(node->draft, put1(node, "Transpose", pt2_output(node, 0), x->name), "perm",
                   order, x->rank);
    return is_clean(node);
}

void pt2_know_made(struct pt2_node *node, struct draft_value *made)
{
    double other = strstr(node->target, "aten.div.") ? other_number(node) : (double)NAN;
    if (other > 0) {
        made->divided = pt2_first(node);
        made->divisor = other;
    }
    bool turns = strstr(node->target, "aten.permute.") || strstr(node->target, "aten.transpose.");
    const struct draft_value *x = turns ? pt2_first(node) : NULL;
    int64_t *order = ARENA_NEW(node->program->arena, int64_t, RANK_MOST);
    if (!x || x->rank != made->rank || !read_order(node, x, order) || order[0] == 0) return;
    made->turned = x;
    made->order = order;
}

const struct draft_value *pt2_cut(const struct draft_value *x, int64_t *axis)
{
    if (!x->turned || *axis != 0) return x;
    *axis = x->order[*axis];
    return x->turned;
}

void pt2_turn_part(const struct pt2_node *node, const struct draft_value *x,
                   const struct draft_value *part, const char *name, int64_t axis)
{
    int64_t order[RANK_MOST] = {0}, dims[RANK_MOST] = {0};
    int count = 0;
    for (int d = 0; d < x->rank; d++) {
        if (x->order[d] == axis) continue;
        order[count] = x->order[d] - (x->order[d] > axis);
        dims[order[count]] = x->dims[d];
        count++;
    }
    const char *shaped = draft_between(node->draft);
    put2(node, "Reshape", shaped, name, draft_list(node->draft, dims, count));
    draft_put_ints(node->draft, put1(node, "Transpose", part->name, shaped), "perm", order, count);
}

bool pt2_expand(struct pt2_node *node, const char *type)
{
    const struct draft_value *x = pt2_first(node), *out = result(node);
    if (!x || !out) return false;
    if (is_alike(x, out)) return pt2_same(node, type);
    put2(node, "Expand", out->name, x->name, draft_list(node->draft, out->dims, out->rank));
    return true;
}

bool pt2_slice(struct pt2_node *node, const char *type)
{
    const struct draft_value *x = pt2_first(node), *out = result(node);
    if (!x || !out) return false;
    if (is_alike(x, out)) return pt2_same(node, type);
    int64_t axis = pt2_axis(node, "dim", 0, x->rank), start = pt2_int(node, "start", 0);
    int64_t end = pt2_int(node, "end", INT64_C(1) << 62), step = pt2_int(node, "step", 1);
    if (pt2_has(node, "length")) end = start + pt2_int(node, "length", 0);
    const char *inputs[] = {x->name, draft_list(node->draft, &start, 1),
                            draft_list(node->draft, &end, 1), draft_list(node->draft, &axis, 1),
                            draft_list(node->draft, &step, 1)};
    draft_put(node->draft, "Slice", out->name, 5, inputs);
    return is_clean(node);
}

bool pt2_select(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node);
    if (!x) return false;
    int64_t axis = pt2_axis(node, "dim", 0, x->rank), index = pt2_int(node, "index", 0);
    const char *place = draft_number(node->draft, ELEMENT_INT64, (double)index);
    const struct draft_value *of = pt2_cut(x, &axis);
    const char *name = of == x ? pt2_output(node, 0) : draft_between(node->draft);
    draft_put_int(node->draft, put2(node, "Gather", name, of->name, place), "axis", axis);
    if (of != x && node->outputs[0]) pt2_turn_part(node, x, node->outputs[0], name, axis);
    return is_clean(node);
}

bool pt2_split(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node);
    if (!x || !node->output_count) return x ? pt2_fail(node, "it has no result") : false;
    int64_t axis = pt2_axis(node, "dim", 0, x->rank);
    if (!is_clean(node)) return false;
    int64_t *sizes = ARENA_NEW(node->program->arena, int64_t, node->output_count);
    for (int i = 0; i < node->output_count && is_clean(node); i++) {
        if (!node->outputs[i] || node->outputs[i]->rank != x->rank)
            return pt2_fail(node, "its results are not parts of its input");
        sizes[i] = node->outputs[i]->dims[axis];
    }
    if (!is_clean(node)) return false;
    const char *list = draft_list(node->draft, sizes, node->output_count);
    Onnx__NodeProto *proto = put2(node, "Split", pt2_output(node, 0), x->name, list);
    for (int i = 1; i < node->output_count; i++)
        draft_put_output(node->draft, proto, pt2_output(node, i));
    draft_put_int(node->draft, proto, "axis", axis);
    return true;
}

bool pt2_concat(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *out = result(node);
    int count = 0;
    const struct draft_value **parts = out ? pt2_tensors(node, "tensors", &count) : NULL;
    if (!parts) return false;
    const char **inputs = ARENA_NEW(node->program->arena, const char *, count);
    for (int i = 0; i < count; i++)
        inputs[i] = pt2_as_element(node, parts[i], out->element);
    draft_put_int(node->draft, draft_put(node->draft, "Concat", out->name, count, inputs), "axis",
                  pt2_axis(node, "dim", 0, out->rank));
    return is_clean(node);
}

// Parts side by side along a dimension that they do not have.
bool pt2_stack(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *out = result(node);
    int count = 0;
    const struct draft_value **parts = out ? pt2_tensors(node, "tensors", &count) : NULL;
    if (!parts) return false;
    int64_t axis = pt2_axis(node, "dim", 0, out->rank);
    if (!is_clean(node)) return false;
    const char **inputs = ARENA_NEW(node->program->arena, const char *, count);
    for (int i = 0; i < count && is_clean(node); i++) {
        int64_t *dims = ARENA_COPY(node->program->arena, int64_t, out->dims, out->rank);
        dims[axis] = 1;
        inputs[i] = draft_between(node->draft);
        put2(node, "Reshape", inputs[i], parts[i]->name, draft_list(node->draft, dims, out->rank));
    }
    if (!is_clean(node)) return false;
    draft_put_int(node->draft, draft_put(node->draft, "Concat", out->name, count, inputs), "axis",
                  axis);
    return true;
}

bool pt2_embedding(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *table = pt2_first(node), *indices = pt2_tensor(node, "indices");
    if (!table || !indices) return is_clean(node) ? pt2_fail(node, "there are no indices") : false;
    put2(node, "Gather", pt2_output(node, 0), table->name, indices->name);
    return true;
}

bool pt2_gather(struct pt2_node *node, const char *type)
{
    const struct draft_value *x = pt2_first(node), *index = pt2_tensor(node, "index");
    if (!x || !index) return is_clean(node) ? pt2_fail(node, "there is no index") : false;
    draft_put_int(node->draft, put2(node, type, pt2_output(node, 0), x->name, index->name), "axis",
                  pt2_axis(node, "dim", 0, x->rank));
    return is_clean(node);
}

// One index tensor as a column of those that GatherND reads.
static const char *column(const struct pt2_node *node, const struct draft_value *index,
                          const int64_t *dims, int rank)
{
    assert(rank >= 0 && rank < RANK_MOST && "with a place for the columns");
    int64_t wide[RANK_MOST] = {0};
    const char *whole = pt2_as_element(node, index, ELEMENT_INT64);
    const char *spread = draft_between(node->draft), *made = draft_between(node->draft);
    memcpy(wide, dims, (size_t)rank * sizeof *wide);
    wide[rank] = 1;
    put2(node, "Expand", spread, whole, draft_list(node->draft, dims, rank));
    put2(node, "Reshape", made, spread, draft_list(node->draft, wide, rank + 1));
    return made;
}

// x[:, a, b]: what lies behind dimensions that are not asked for is one dimension, of which each
// index is a place.
static bool index_behind(struct pt2_node *node, const struct draft_value *x,
                         const struct draft_value *const *list, int first, int count)
{
    assert(first > 0 && first < count && count <= x->rank);
    int64_t flat[RANK_MOST] = {0};
    const char *place = NULL;
    memcpy(flat, x->dims, (size_t)first * sizeof *flat);
    flat[first] = 1;
    for (int i = first; i < count; i++) {
        if (!list[i] || list[i]->element == ELEMENT_BOOL)
            return pt2_fail(node, "indices of dimensions that are apart, or truths");
        flat[first] *= x->dims[i];
        const char *whole = pt2_as_element(node, list[i], ELEMENT_INT64),
                   *sum = draft_between(node->draft);
        if (place) {
            const char *rows = draft_between(node->draft);
            put2(node, "Mul", rows, place,
                 draft_number(node->draft, ELEMENT_INT64, (double)x->dims[i]));
            put2(node, "Add", sum, rows, whole);
        }
        place = place ? sum : whole;
    }
    int rank = first + 1 + x->rank - count;
    memcpy(flat + first + 1, x->dims + count, (size_t)(x->rank - count) * sizeof *flat);
    const char *rows = draft_between(node->draft);
    put2(node, "Reshape", rows, x->name, draft_list(node->draft, flat, rank));
    draft_put_int(node->draft, put2(node, "Gather", pt2_output(node, 0), rows, place), "axis",
                  first);
    return is_clean(node);
}

// x[a, b, ...]: the index tensors broadcast with each other and stand for the first dimensions.
// Indices of the first dimensions side by side.
static const char *join_columns(struct pt2_node *node, const struct draft_value *const *list,
                                int count, const int64_t *dims, int rank)
{
    const char **columns = ARENA_NEW(node->program->arena, const char *, count);
    for (int i = 0; i < count; i++)
        columns[i] = column(node, list[i], dims, rank);
    const char *joined = draft_between(node->draft);
    draft_put_int(node->draft, draft_put(node->draft, "Concat", joined, count, columns), "axis",
                  rank);
    return joined;
}

bool pt2_index(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *out = result(node);
    int count = 0;
    const struct draft_value **list = x && out ? pt2_tensors(node, "indices", &count) : NULL;
    if (!list) return false;
    int first = 0;
    while (first < count && !list[first])
        first++;
    if (first > 0 && first < count && count <= x->rank)
        return index_behind(node, x, list, first, count);
    for (int i = 0; i < count; i++)
        if (!list[i]) return pt2_fail(node, "indices of dimensions that are apart");
    int rank = out->rank - (x->rank - count);
    if (count < 1 || count > x->rank || rank < 0 || rank >= RANK_MOST ||
        list[0]->element == ELEMENT_BOOL)
        return pt2_fail(node, "indices that are none of the first dimensions");
    put2(node, "GatherND", out->name, x->name, join_columns(node, list, count, out->dims, rank));
    return is_clean(node);
}

// The dimensions that all indices repeat to; -1: one is none of a dimension.
static int spread_of(const struct draft_value *const *list, int count, int64_t *dims)
{
    assert(count > 0);
    int rank = 0;
    for (int i = 0; i < count; i++) {
        if (!list[i] || list[i]->element == ELEMENT_BOOL) return -1;
        rank = list[i]->rank > rank ? list[i]->rank : rank;
    }
    for (int d = 0; d < rank; d++) {
        dims[d] = 1;
        for (int i = 0; i < count; i++) {
            int at = d - (rank - list[i]->rank);
            if (at >= 0 && list[i]->dims[at] != 1) dims[d] = list[i]->dims[at];
        }
    }
    return rank;
}

// (self, indices, values): what the first dimensions are asked for is written.
bool pt2_index_put(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *out = result(node);
    const struct draft_value *values = x && out ? pt2_tensor(node, "values") : NULL;
    int count = 0;
    const struct draft_value **list = values ? pt2_tensors(node, "indices", &count) : NULL;
    if (!list) return is_clean(node) ? pt2_fail(node, "values and indices are wanted") : false;
    int64_t dims[RANK_MOST];
    int rank = count && count <= x->rank ? spread_of(list, count, dims) : -1;
    int behind = x->rank - count;
    if (rank < 0 || rank + behind >= RANK_MOST)
        return pt2_fail(node, "indices that are none of the first dimensions");
    memcpy(dims + rank, x->dims + count, (size_t)behind * sizeof *dims);
    const char *wide = draft_between(node->draft);
    put2(node, "Expand", wide, pt2_as_element(node, values, x->element),
         draft_list(node->draft, dims, rank + behind));
    const char *const inputs[] = {x->name, join_columns(node, list, count, dims, rank), wide};
    Onnx__NodeProto *proto = draft_put(node->draft, "ScatterND", out->name, 3, inputs);
    if (pt2_bool(node, "accumulate", false)) draft_put_text(node->draft, proto, "reduction", "add");
    return is_clean(node);
}

bool pt2_cumsum(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *out = result(node);
    if (!x || !out) return false;
    double axis = (double)pt2_axis(node, "dim", 0, x->rank);
    put2(node, "CumSum", out->name, pt2_as_element(node, x, out->element),
         draft_number(node->draft, ELEMENT_INT64, axis));
    return is_clean(node);
}
