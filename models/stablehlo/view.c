#include "models/stablehlo/view.h"

#include <assert.h>
#include <string.h>

struct hlo_value *hlo_value_of(struct onnx_draft *draft, struct hlo_tensor *tensor,
                               const struct draft_value *stated, const int *map)
{
    assert(stated->rank >= 0 && stated->rank <= RANK_MOST);
    struct hlo_value *value = ARENA_NEW(draft->arena, struct hlo_value, 1);
    *value = (struct hlo_value){.tensor = tensor, .as = *stated};
    value->as.name = NULL;
    for (int i = 0; i < stated->rank; i++)
        value->map[i] = map ? map[i] : i;
    return value;
}

struct hlo_value *hlo_value_new(struct onnx_draft *draft, const struct draft_value *as)
{
    struct hlo_tensor *tensor = ARENA_NEW(draft->arena, struct hlo_tensor, 1);
    tensor->as = *as;
    return hlo_value_of(draft, tensor, as, NULL);
}

struct hlo_value *hlo_value_weight(struct onnx_draft *draft, const struct draft_value *as)
{
    struct hlo_value *value = hlo_value_new(draft, as);
    value->tensor->weight = as->name;
    value->tensor->as.name = NULL;
    return value;
}

struct hlo_value *hlo_value_number(struct onnx_draft *draft, enum onnx_element element,
                                   double number)
{
    const struct draft_value as = {.element = element, .is_fixed = true};
    struct hlo_value *value = hlo_value_new(draft, &as);
    value->tensor->has_number = true;
    value->tensor->number = number;
    return value;
}

bool hlo_is_fixed(const struct hlo_value *value)
{
    return value->tensor->as.is_fixed;
}

bool hlo_is_number(const struct hlo_value *value, double number)
{
    return value->tensor->has_number && value->tensor->number == number;
}

bool hlo_is_single(const struct hlo_value *value)
{
    return value->tensor->as.rank == 0;
}

bool hlo_is_same(const struct hlo_value *a, const struct hlo_value *b)
{
    if (a->tensor != b->tensor || a->as.rank != b->as.rank) return false;
    for (int i = 0; i < a->as.rank; i++)
        if (a->map[i] != b->map[i] || a->as.dims[i] != b->as.dims[i]) return false;
    return true;
}

static void write_reduction(struct onnx_draft *draft, const struct hlo_tensor *tensor)
{
    Onnx__NodeProto *proto =
        draft_put(draft, tensor->reduction, tensor->as.name, 1, (const char *const[]){tensor->of});
    draft_put_ints(draft, proto, "axes", tensor->axes, tensor->axis_count);
    draft_put_int(draft, proto, "keepdims", 1);
}

const struct hlo_made *hlo_made_by(const struct hlo_value *value, const char *operator)
{
    const struct hlo_made *made = value->tensor->made;
    bool is_it = made && strcmp(made->operator, operator) == 0 && hlo_is_same(value, made->result);
    return is_it ? made : NULL;
}

// A weight that is not written yet, with its dimensions in this order.
static void write_weight(struct onnx_draft *draft, struct hlo_tensor *tensor, const int64_t *order)
{
    struct draft_value as = tensor->as;
    int64_t *dims = ARENA_NEW(draft->arena, int64_t, as.rank);
    for (int i = 0; i < as.rank; i++)
        dims[i] = as.dims[order ? order[i] : i];
    as.dims = dims;
    as.name = tensor->weight;
    draft_weight(draft, &as);
}

// The weight as the program has it, of one that was written in another order.
static const char *turn_back(struct onnx_draft *draft, const struct hlo_tensor *tensor)
{
    int64_t order[RANK_MOST];
    const char *name = draft_between(draft);
    for (int i = 0; i < tensor->as.rank; i++)
        order[tensor->turned[i]] = i;
    draft_put_ints(draft, draft_put(draft, "Transpose", name, 1, &tensor->weight), "perm", order,
                   tensor->as.rank);
    return name;
}

// A part of those dimensions that is a weight of its own, or a constant.
static const struct hlo_value *new_part(struct onnx_draft *draft, const struct hlo_tensor *tensor,
                                        int axis, int64_t place)
{
    struct draft_value as = tensor->as, seen = tensor->as;
    int64_t *dims = ARENA_NEW(draft->arena, int64_t, as.rank);
    int64_t *seen_dims = ARENA_COPY(draft->arena, int64_t, as.dims, as.rank);
    int map[RANK_MOST];
    as.rank = 0;
    for (int i = 0; i < tensor->as.rank; i++) {
        map[i] = i == axis ? -1 : as.rank;
        if (i != axis) dims[as.rank++] = tensor->as.dims[i];
    }
    seen_dims[axis] = 1;
    seen.dims = seen_dims;
    as.dims = dims;
    as.is_fixed = !tensor->weight;
    if (tensor->weight)
        as.name = arena_print(draft->arena, "%s[%lld]", tensor->weight, (long long)place);
    const struct hlo_value *own =
        tensor->weight ? hlo_value_weight(draft, &as) : hlo_value_new(draft, &as);
    return hlo_value_of(draft, own->tensor, &seen, map);
}

const struct hlo_value *hlo_part(struct onnx_draft *draft, struct hlo_tensor *tensor, int axis,
                                 int64_t place)
{
    assert(axis >= 0 && axis < tensor->as.rank && place >= 0);
    bool is_stack = tensor->weight && !tensor->is_turned && tensor->as.rank > 1;
    bool has_parts = tensor->parts ? tensor->part_axis == axis : is_stack;
    if (tensor->as.name || !has_parts || tensor->as.dims[axis] < 2) return NULL;
    if (!tensor->parts)
        tensor->parts = ARENA_NEW(draft->arena, const struct hlo_value *, tensor->as.dims[axis]);
    tensor->part_axis = axis;
    const struct hlo_value *part = tensor->parts[place];
    return part ? part : (tensor->parts[place] = new_part(draft, tensor, axis, place));
}

struct hlo_tensor *hlo_with_part(struct onnx_draft *draft, const struct hlo_value *of, int axis,
                                 int64_t place, const struct hlo_value *part)
{
    assert(axis >= 0 && axis < of->as.rank && place < of->as.dims[axis]);
    const struct hlo_tensor *from = of->tensor;
    bool is_join = from->parts && !from->weight && !from->as.name && from->part_axis == axis;
    for (int i = 0; i < of->as.rank && is_join; i++)
        is_join = of->map[i] == i;
    if (!is_join && !from->as.is_fixed) return NULL;
    struct hlo_tensor *made = ARENA_NEW(draft->arena, struct hlo_tensor, 1);
    int64_t count = of->as.dims[axis];
    made->as = of->as;
    made->as.is_fixed = false;
    made->part_axis = axis;
    made->parts = is_join ? ARENA_COPY(draft->arena, const struct hlo_value *, from->parts, count)
                          : ARENA_NEW(draft->arena, const struct hlo_value *, count);
    made->parts[place] = part;
    return made;
}

static const char *join_parts(struct onnx_draft *draft, struct hlo_tensor *tensor)
{
    int axis = tensor->part_axis, count = (int)tensor->as.dims[axis];
    const char **names = ARENA_NEW(draft->arena, const char *, count);
    for (int i = 0; i < count; i++) {
        const struct hlo_value *part = tensor->parts[i];
        names[i] = hlo_whole(draft, part ? part : new_part(draft, tensor, axis, i));
    }
    const char *whole = draft_between(draft);
    draft_put_int(draft, draft_put(draft, "Concat", whole, count, names), "axis", axis);
    return whole;
}

const char *hlo_name(struct onnx_draft *draft, struct hlo_tensor *tensor)
{
    if (tensor->as.name) return tensor->as.name;
    if (tensor->parts) return tensor->as.name = join_parts(draft, tensor);
    if (tensor->weight && tensor->is_turned) return tensor->as.name = turn_back(draft, tensor);
    if (tensor->weight) {
        write_weight(draft, tensor, NULL);
        return tensor->as.name = tensor->weight;
    }
    if (tensor->has_number)
        return tensor->as.name = draft_number(draft, tensor->as.element, tensor->number);
    tensor->as.name = draft_between(draft);
    if (tensor->reduction) {
        write_reduction(draft, tensor);
    } else {
        draft_unknown(draft, &tensor->as);
    }
    return tensor->as.name;
}

// Whether the tensor as it lies repeats to the dimensions asked for. `at`: of each its own, or -1.
static bool lies_so(const struct hlo_tensor *tensor, const int *at, int count)
{
    assert(count >= 0 && count <= RANK_MOST);
    int ahead = count - tensor->as.rank;
    if (ahead < 0) return false;
    for (int i = 0; i < count; i++) {
        bool is_one = at[i] < 0 || tensor->as.dims[at[i]] == 1;
        bool is_own_one = i < ahead || tensor->as.dims[i - ahead] == 1;
        if (at[i] != i - ahead && !(is_one && is_own_one)) return false;
    }
    return true;
}

// A transposition where the dimensions that are kept stand in another order. A weight that nothing
// has read before is written in that order.
static const char *turn(struct onnx_draft *draft, struct hlo_tensor *tensor, const int *at,
                        int count, bool *is_turned)
{
    int64_t order[RANK_MOST];
    bool is_used[RANK_MOST] = {0};
    int used = 0, last = -1;
    *is_turned = false;
    for (int i = 0; i < count; i++)
        if (at[i] >= 0) is_used[at[i]] = true;
    for (int i = 0; i < tensor->as.rank; i++)
        if (!is_used[i]) order[used++] = i;
    for (int i = 0; i < count; i++) {
        if (at[i] < 0) continue;
        *is_turned = *is_turned || at[i] < last;
        last = at[i];
        order[used++] = at[i];
    }
    if (!*is_turned) return hlo_name(draft, tensor);
    if (tensor->weight && !tensor->as.name && !tensor->is_turned && !tensor->parts) {
        write_weight(draft, tensor, order);
        tensor->is_turned = true;
        memcpy(tensor->turned, order, (size_t)used * sizeof *order);
    }
    bool is_so =
        tensor->is_turned && memcmp(tensor->turned, order, (size_t)used * sizeof *order) == 0;
    if (is_so) return tensor->weight;
    for (const struct hlo_turn *turn = tensor->turns; turn; turn = turn->next)
        if (memcmp(turn->order, order, (size_t)used * sizeof *order) == 0) return turn->name;
    struct hlo_turn *turn = ARENA_NEW(draft->arena, struct hlo_turn, 1);
    const char *name = hlo_name(draft, tensor);
    *turn = (struct hlo_turn){.next = tensor->turns, .name = draft_between(draft)};
    memcpy(turn->order, order, (size_t)used * sizeof *order);
    tensor->turns = turn;
    draft_put_ints(draft, draft_put(draft, "Transpose", turn->name, 1, &name), "perm", order, used);
    return turn->name;
}

// Of each dimension that is asked for, that of the tensor.
static void places_of(const struct hlo_value *value, const int *order, int count, int *at)
{
    for (int i = 0; i < count; i++)
        at[i] = order[i] < 0 ? -1 : value->map[order[i]];
}

static const char *fixed_of(struct onnx_draft *draft, const struct hlo_tensor *tensor,
                            const int64_t *dims, int rank)
{
    const struct draft_value as = {
        .name = draft_between(draft), .element = tensor->as.element, .rank = rank, .dims = dims};
    draft_unknown(draft, &as);
    return as.name;
}

static const char *lay_loosely(struct onnx_draft *draft, const struct hlo_value *value,
                               const int *at, int count, int64_t *dims, int *rank)
{
    struct hlo_tensor *tensor = value->tensor;
    if (lies_so(tensor, at, count)) {
        *rank = tensor->as.rank;
        if (*rank) memcpy(dims, tensor->as.dims, (size_t)*rank * sizeof *dims);
        return hlo_name(draft, tensor);
    }
    *rank = count;
    for (int i = 0; i < count; i++)
        dims[i] = at[i] < 0 ? 1 : tensor->as.dims[at[i]];
    if (tensor->as.is_fixed && !tensor->as.name) return fixed_of(draft, tensor, dims, count);
    bool is_turned = false;
    const char *turned = turn(draft, tensor, at, count, &is_turned);
    bool is_all = is_turned && tensor->as.rank == count;
    for (int i = 0; i < count; i++)
        is_all = is_all && at[i] >= 0;
    if (is_all) return turned;
    const char *name = draft_between(draft);
    const char *const inputs[] = {turned, draft_list(draft, dims, count)};
    draft_put(draft, "Reshape", name, 2, inputs);
    return name;
}

const char *hlo_lay(struct onnx_draft *draft, const struct hlo_value *value, const int *order,
                    int count, enum hlo_fit fit, int64_t *dims, int *rank)
{
    assert(count >= 0 && count <= RANK_MOST);
    int at[RANK_MOST], own_rank = 0;
    int64_t own[RANK_MOST] = {0}, wanted[RANK_MOST] = {0};
    places_of(value, order, count, at);
    bool is_whole = true;
    for (int i = 0; i < count; i++) {
        wanted[i] = order[i] < 0 ? 1 : value->as.dims[order[i]];
        is_whole = is_whole && wanted[i] == (at[i] < 0 ? 1 : value->tensor->as.dims[at[i]]);
    }
    const struct hlo_tensor *tensor = value->tensor;
    const char *name = NULL;
    bool is_made = fit == HLO_WHOLE && tensor->as.is_fixed && !tensor->as.name;
    if (is_made && !(is_whole && tensor->as.rank == count)) {
        name = fixed_of(draft, tensor, wanted, count);
        own_rank = count;
        if (count) memcpy(own, wanted, (size_t)count * sizeof *own);
    } else {
        name = lay_loosely(draft, value, at, count, own, &own_rank);
    }
    bool expands = fit == HLO_WHOLE && own_rank != count;
    for (int i = 0; i < count && fit == HLO_WHOLE && !expands; i++)
        expands = own[i] != wanted[i];
    if (expands) {
        const char *all = draft_between(draft);
        const char *const inputs[] = {name, draft_list(draft, wanted, count)};
        // More dimensions of 1 in front are none that repeat.
        draft_put(draft, is_whole ? "Reshape" : "Expand", all, 2, inputs);
        name = all;
        own_rank = count;
        if (count) memcpy(own, wanted, (size_t)count * sizeof *own);
    }
    if (rank) *rank = own_rank;
    if (dims && own_rank) memcpy(dims, own, (size_t)own_rank * sizeof *dims);
    return name;
}

const char *hlo_whole(struct onnx_draft *draft, const struct hlo_value *value)
{
    int order[RANK_MOST];
    for (int i = 0; i < value->as.rank; i++)
        order[i] = i;
    return hlo_lay(draft, value, order, value->as.rank, HLO_WHOLE, NULL, NULL);
}
