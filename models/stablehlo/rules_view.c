#include "models/stablehlo/rules.h"

#include <string.h>

// What only looks at a tensor in another way, and constants.

bool hlo_same(struct hlo_op *op, const char *type)
{
    (void)type;
    if (op->result_count != op->operand_count)
        return hlo_fail(op, "%d operands and %d results", op->operand_count, op->result_count);
    for (int i = 0; i < op->result_count; i++)
        op->results[i] = op->operands[i];
    return true;
}

// Where tensors lie is said by a call that hands them on; functions of others that we know come as
// calls, too.
bool hlo_custom(struct hlo_op *op, const char *type)
{
    static const char *const SAME[] = {"@Sharding", "@SPMDFullToShardShape",
                                       "@SPMDShardToFullShape"};
    (void)type;
    const struct hlo_text *text = &op->reader->text;
    for (size_t i = 0; i < sizeof SAME / sizeof *SAME; i++)
        if (hlo_text_is(text, op->at + 1, SAME[i])) return hlo_same(op, NULL);
    const char *called = hlo_text_copy(text, op->at + 1);
    if (strcmp(called, "chlo.erf") == 0 || strcmp(called, "@mhlo.erf") == 0)
        return hlo_unary(op, "Erf");
    return hlo_fail(op, "a call of %s, which we do not know", printable(op->draft->arena, called));
}

// One number for all elements; numbers of floats that differ are weights.
bool hlo_constant(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_text *text = &op->reader->text;
    struct draft_value as = op->types[0];
    int64_t elements = 1;
    double number = 0;
    for (int i = 0; i < as.rank; i++)
        elements *= as.dims[i] < 2 ? as.dims[i] : 2;
    int token = op->at + 1;
    while (token < op->end && !hlo_text_is(text, token, "<"))
        token++;
    int at = token + 1;
    while (at < op->end && hlo_text_is(text, at, "["))
        at++;
    bool is_one = at < op->end && (at == token + 1 || elements == 1) &&
                  hlo_text_number(text, at, as.element, &number);
    if (is_one) {
        struct hlo_value *value = hlo_value_number(op->draft, as.element, number);
        int map[RANK_MOST];
        for (int i = 0; i < as.rank; i++)
            map[i] = -1;
        return hlo_view(op, value, map);
    }
    if (!element_is_float(as.element) || elements < 2) return hlo_fixed(op);
    as.name = draft_between(op->draft);
    op->results[0] = hlo_value_weight(op->draft, &as);
    return true;
}

bool hlo_iota(struct hlo_op *op, const char *type)
{
    (void)type;
    return hlo_fixed(op);
}

bool hlo_broadcast(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_value *x = hlo_operand(op, 0);
    const struct draft_value *out = &op->types[0];
    int64_t dims[RANK_MOST] = {0};
    int map[RANK_MOST];
    if (!x || !hlo_ints(op, "dims", x->as.rank, -1, dims)) return false;
    if (!hlo_axes(op, dims, x->as.rank, out->rank)) return false;
    for (int i = 0; i < out->rank; i++)
        map[i] = -1;
    for (int i = 0; i < x->as.rank; i++) {
        if (x->as.dims[i] != 1 && x->as.dims[i] != out->dims[dims[i]])
            return hlo_fail(op, "dimension %d of %lld is not repeated to %lld", i,
                            (long long)x->as.dims[i], (long long)out->dims[dims[i]]);
        map[dims[i]] = x->map[i];
    }
    return hlo_view(op, x, map);
}

// Whether two shapes are the same but for dimensions of 1, and which of the first each dimension of
// the second is.
static bool match_ones(const struct draft_value *from, const struct draft_value *to, int *places)
{
    int at = 0;
    for (int i = 0; i < to->rank; i++) {
        while (at < from->rank && from->dims[at] == 1 && to->dims[i] != 1)
            at++;
        bool is_it = at < from->rank && from->dims[at] == to->dims[i];
        if (!is_it && to->dims[i] != 1) return false;
        places[i] = is_it ? at++ : -1;
    }
    while (at < from->rank && from->dims[at] == 1)
        at++;
    return at == from->rank;
}

bool hlo_reshape(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_value *x = hlo_operand(op, 0);
    const struct draft_value *out = &op->types[0];
    int places[RANK_MOST], map[RANK_MOST];
    if (!x) return false;
    if (match_ones(&x->as, out, places)) {
        for (int i = 0; i < out->rank; i++)
            map[i] = places[i] < 0 ? -1 : x->map[places[i]];
        return hlo_view(op, x, map);
    }
    if (hlo_is_single(x)) {
        for (int i = 0; i < out->rank; i++)
            map[i] = -1;
        return hlo_view(op, x, map);
    }
    if (hlo_is_fixed(x)) return hlo_fixed(op);
    const char *const inputs[] = {hlo_whole(op->draft, x),
                                  draft_list(op->draft, out->dims, out->rank)};
    draft_put(op->draft, "Reshape", hlo_result(op), 2, inputs);
    return true;
}

bool hlo_transpose(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_value *x = hlo_operand(op, 0);
    int64_t order[RANK_MOST] = {0};
    int map[RANK_MOST];
    if (!x || !hlo_ints(op, "dims", x->as.rank, -1, order)) return false;
    bool fits = hlo_axes(op, order, x->as.rank, x->as.rank) && op->types[0].rank == x->as.rank;
    for (int i = 0; i < x->as.rank && fits; i++) {
        fits = op->types[0].dims[i] == x->as.dims[order[i]];
        map[i] = x->map[order[i]];
    }
    return fits ? hlo_view(op, x, map) : hlo_fail(op, "its result is not of the type stated");
}
