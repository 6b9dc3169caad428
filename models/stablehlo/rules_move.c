#include "models/stablehlo/rules.h"

#include <assert.h>
#include <string.h>

// Moving data. What an operator does along dimensions is done where they lie.

// The dimensions as they lie, where the tensor has all of them; else as the program states them.
static void order_of(const struct hlo_value *value, int *order)
{
    bool is_there = value->tensor->as.rank == value->as.rank;
    for (int i = 0; i < value->as.rank && is_there; i++)
        is_there = value->map[i] >= 0 && value->tensor->as.dims[value->map[i]] == value->as.dims[i];
    for (int i = 0; i < value->as.rank; i++)
        order[is_there ? value->map[i] : i] = i;
}

bool hlo_concatenate(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_value *first = hlo_operand(op, 0);
    int64_t axis = 0;
    int order[RANK_MOST];
    if (!first || !hlo_ints(op, "dim", 1, -1, &axis) || !hlo_axes(op, &axis, 1, first->as.rank))
        return false;
    if (op->types[0].rank != first->as.rank) return hlo_fail(op, "its result is of another type");
    order_of(first, order);
    const char **names = ARENA_NEW(op->draft->arena, const char *, op->operand_count);
    for (int i = 0; i < op->operand_count; i++) {
        if (op->operands[i]->as.rank != first->as.rank)
            return hlo_fail(op, "operand %d has other dimensions", i);
        names[i] =
            hlo_lay(op->draft, op->operands[i], order, first->as.rank, HLO_WHOLE, NULL, NULL);
    }
    int at = 0;
    while (order[at] != axis)
        at++;
    draft_put_int(op->draft,
                  draft_put(op->draft, "Concat", hlo_ordered(op, order), op->operand_count, names),
                  "axis", at);
    return true;
}

// One place along a dimension of what is joined of such places, as a stack of the weights of
// layers: that place. False: this slice is none.
static bool take_part(struct hlo_op *op, const int64_t *starts, const int64_t *ends)
{
    assert(op->types[0].rank == op->operands[0]->as.rank);
    const struct hlo_value *x = op->operands[0];
    int map[RANK_MOST], sliced = -1;
    for (int i = 0; i < x->as.rank; i++) {
        if (starts[i] == 0 && ends[i] == x->as.dims[i]) continue;
        bool is_inside = starts[i] >= 0 && ends[i] <= x->as.dims[i];
        bool is_place = ends[i] == starts[i] + 1 && is_inside && op->types[0].dims[i] == 1;
        if (sliced >= 0 || !is_place || x->map[i] < 0) return false;
        sliced = i;
    }
    if (sliced < 0) return false;
    int axis = x->map[sliced];
    const struct hlo_value *part = hlo_part(op->draft, x->tensor, axis, starts[sliced]);
    for (int i = 0; i < x->as.rank && part; i++)
        map[i] = x->map[i] < 0 || x->map[i] == axis ? -1 : part->map[x->map[i]];
    return part && hlo_view(op, part, map);
}

// Slice of ONNX: starts, ends, axes and steps.
static bool put_slice(struct hlo_op *op, const int64_t *starts, const int64_t *ends,
                      const int64_t *steps)
{
    assert(op->types[0].rank == op->operands[0]->as.rank);
    const struct hlo_value *x = op->operands[0];
    int64_t own[3][RANK_MOST], axes[RANK_MOST];
    int order[RANK_MOST], count = 0;
    order_of(x, order);
    for (int i = 0; i < x->as.rank; i++) {
        int from = order[i];
        bool is_whole = starts[from] == 0 && ends[from] == x->as.dims[from] && steps[from] == 1;
        if (is_whole) continue;
        own[0][count] = starts[from];
        own[1][count] = ends[from];
        own[2][count] = steps[from];
        axes[count++] = i;
    }
    if (count == 0) return hlo_answer(op, x);
    if (take_part(op, starts, ends)) return true;
    const char *name = hlo_lay(op->draft, x, order, x->as.rank, HLO_WHOLE, NULL, NULL);
    const char *const inputs[] = {
        name, draft_list(op->draft, own[0], count), draft_list(op->draft, own[1], count),
        draft_list(op->draft, axes, count), draft_list(op->draft, own[2], count)};
    draft_put(op->draft, "Slice", hlo_ordered(op, order), 5, inputs);
    return true;
}

// [0:2, 1:9:2]
bool hlo_slice(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_value *x = hlo_operand(op, 0);
    const struct hlo_text *text = &op->reader->text;
    int64_t bounds[3][RANK_MOST] = {{0}};
    int at = op->at + 1, rank = 0;
    while (at < op->end && !hlo_text_is(text, at, "["))
        at++;
    if (!x || at == op->end || op->types[0].rank != x->as.rank)
        return x ? hlo_fail(op, "its bounds are wanted") : false;
    int close = text->tokens[at].partner;
    for (at++; at < close && rank < x->as.rank; rank++) {
        bounds[2][rank] = 1;
        for (int part = 0; part < 3; part++) {
            double number = 0;
            if (!hlo_text_number(text, at++, ELEMENT_INT64, &number))
                return hlo_fail(op, "bound %d is no number", rank);
            bounds[part][rank] = (int64_t)number;
            if (!hlo_text_is(text, at, ":")) break;
            at++;
        }
        at += hlo_text_is(text, at, ",");
    }
    if (rank != x->as.rank) return hlo_fail(op, "bounds of %d dimensions are wanted", x->as.rank);
    for (int i = 0; i < rank; i++) {
        bool fits = bounds[0][i] >= 0 && bounds[0][i] <= bounds[1][i] &&
                    bounds[1][i] <= x->as.dims[i] && bounds[2][i] > 0;
        if (!fits) return hlo_fail(op, "its bounds are not in dimension %d", i);
    }
    return put_slice(op, bounds[0], bounds[1], bounds[2]);
}

// Places that are constants, from operand `first` on; those too far at the end are brought back.
static bool read_starts(const struct hlo_op *op, int first, const int64_t *sizes, int64_t *starts,
                        int64_t *ends)
{
    const struct hlo_value *x = op->operands[0];
    if (op->types[0].rank != x->as.rank) return hlo_fail(op, "its result is of another type");
    for (int i = 0; i < x->as.rank; i++) {
        const struct hlo_value *start = hlo_operand(op, first + i);
        if (!start) return false;
        if (!start->tensor->has_number) return hlo_fail(op, "where it begins is computed");
        double last = (double)(x->as.dims[i] - sizes[i]), at = start->tensor->number;
        starts[i] = (int64_t)(at < 0 || last < 0 ? 0 : at > last ? last : at);
        ends[i] = starts[i] + sizes[i];
    }
    return true;
}

bool hlo_dynamic_slice(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_value *x = hlo_operand(op, 0);
    int64_t sizes[RANK_MOST] = {0}, starts[RANK_MOST] = {0}, ends[RANK_MOST] = {0},
            steps[RANK_MOST] = {0};
    if (!x || !hlo_ints(op, "sizes", x->as.rank, 0, sizes)) return false;
    if (!read_starts(op, 1, sizes, starts, ends)) return false;
    for (int i = 0; i < x->as.rank; i++)
        steps[i] = 1;
    return put_slice(op, starts, ends, steps);
}

// The name of x from one place to another along a dimension; NULL: none are between them.
static const char *cut(struct hlo_op *op, const struct hlo_value *x, int64_t axis, int64_t from,
                       int64_t to)
{
    assert(axis >= 0 && axis < x->as.rank && from <= to);
    if (from == to) return NULL;
    const char *name = draft_between(op->draft);
    const char *const inputs[] = {hlo_whole(op->draft, x), draft_list(op->draft, &from, 1),
                                  draft_list(op->draft, &to, 1), draft_list(op->draft, &axis, 1)};
    draft_put(op->draft, "Slice", name, 4, inputs);
    return name;
}

// What was there up to the update along its dimension, the update, and what was there behind it.
bool hlo_dynamic_update(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_value *x = hlo_operand(op, 0), *update = hlo_operand(op, 1);
    int64_t starts[RANK_MOST] = {0}, ends[RANK_MOST] = {0};
    int axis = -1, count = 0;
    if (!x || !update) return false;
    if (update->as.rank != x->as.rank) return hlo_fail(op, "its update is of another rank");
    if (!read_starts(op, 2, update->as.dims, starts, ends)) return false;
    for (int i = 0; i < x->as.rank; i++) {
        if (update->as.dims[i] == x->as.dims[i]) continue;
        if (update->as.dims[i] > x->as.dims[i]) return hlo_fail(op, "its update is larger");
        if (axis >= 0) return hlo_fail(op, "an update that is a part along several dimensions");
        axis = i;
    }
    if (axis < 0) return hlo_answer(op, update);
    bool is_place = ends[axis] == starts[axis] + 1;
    struct hlo_tensor *made =
        is_place ? hlo_with_part(op->draft, x, axis, starts[axis], update) : NULL;
    if (made) return hlo_view(op, hlo_value_of(op->draft, made, &made->as, NULL), NULL);
    const char *const three[] = {cut(op, x, axis, 0, starts[axis]), hlo_whole(op->draft, update),
                                 cut(op, x, axis, ends[axis], x->as.dims[axis])};
    const char *names[3];
    for (int i = 0; i < 3; i++)
        if (three[i]) names[count++] = three[i];
    draft_put_int(op->draft, draft_put(op->draft, "Concat", hlo_result(op), count, names), "axis",
                  axis);
    return true;
}

bool hlo_reverse(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_value *x = hlo_operand(op, 0);
    int64_t axes[2 * RANK_MOST + 1], starts[RANK_MOST] = {0}, ends[RANK_MOST] = {0};
    int64_t steps[RANK_MOST] = {0};
    int token = hlo_attribute(op, "dims");
    if (!x || op->types[0].rank != x->as.rank) return x && hlo_fail(op, "its result is another");
    int count = token < 0 ? 0 : hlo_list(op, token, axes);
    if (!hlo_axes(op, axes, count, x->as.rank)) return false;
    for (int i = 0; i < x->as.rank; i++) {
        starts[i] = 0;
        ends[i] = x->as.dims[i];
        steps[i] = 1;
    }
    for (int i = 0; i < count; i++) {
        starts[axes[i]] = x->as.dims[axes[i]] - 1;
        ends[axes[i]] = -x->as.dims[axes[i]] - 1;
        steps[axes[i]] = -1;
    }
    return put_slice(op, starts, ends, steps);
}

bool hlo_pad(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_value *x = hlo_operand(op, 0), *filling = hlo_operand(op, 1);
    int64_t low[RANK_MOST], high[RANK_MOST], between[RANK_MOST], pads[2 * RANK_MOST];
    int order[RANK_MOST];
    if (!x || !filling || !hlo_ints(op, "low", x->as.rank, 0, low) ||
        !hlo_ints(op, "high", x->as.rank, 0, high) ||
        !hlo_ints(op, "interior", x->as.rank, 0, between))
        return false;
    if (op->types[0].rank != x->as.rank) return hlo_fail(op, "its result is of another type");
    if (!filling->tensor->has_number) return hlo_fail(op, "what it pads with is computed");
    order_of(x, order);
    for (int i = 0; i < x->as.rank; i++) {
        if (between[i]) return hlo_fail(op, "padding between elements");
        pads[i] = low[order[i]];
        pads[x->as.rank + i] = high[order[i]];
    }
    const char *const inputs[] = {hlo_lay(op->draft, x, order, x->as.rank, HLO_WHOLE, NULL, NULL),
                                  draft_list(op->draft, pads, 2 * x->as.rank),
                                  hlo_name(op->draft, filling->tensor)};
    draft_put(op->draft, "Pad", hlo_ordered(op, order), 3, inputs);
    return true;
}
