#include "models/pt2/rules.h"

// Mixtures of experts as transformers writes them: rows sorted by expert, each multiplied with the
// matrix of its own.

// (self, bins, min, max): how many numbers there are of each whole one.
bool pt2_histogram(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *out = node->outputs[0];
    int64_t bins = pt2_int(node, "bins", 100), dims[] = {-1, 1}, axis = 0;
    double low = pt2_number(node, "min", 0), high = pt2_number(node, "max", 0);
    if (!x || !out) return x ? pt2_fail(node, "its result is no tensor") : false;
    // Else a bin holds what lies between two numbers.
    bool is_whole = low == (double)(int64_t)low && high - low + 1 == (double)bins && bins > 1 &&
                    bins <= NUMBERS_MOST;
    if (!is_whole) return pt2_fail(node, "bins that are not each of a whole number");
    struct onnx_draft *draft = node->draft;
    int64_t *numbers = ARENA_NEW(draft->arena, int64_t, bins);
    for (int64_t i = 0; i < bins; i++)
        numbers[i] = (int64_t)low + i;
    const char *column = draft_between(draft), *equal = draft_between(draft);
    const char *ones = draft_between(draft);
    const char *const shaped[] = {pt2_as_element(node, x, ELEMENT_INT64),
                                  draft_list(draft, dims, 2)};
    draft_put(draft, "Reshape", column, 2, shaped);
    draft_put(draft, "Equal", equal, 2,
              (const char *const[]){column, draft_list(draft, numbers, (int)bins)});
    draft_put_int(draft, draft_put(draft, "Cast", ones, 1, &equal), "to", out->element);
    Onnx__NodeProto *sum = draft_put(draft, "ReduceSum", out->name, 1, &ones);
    draft_put_ints(draft, sum, "axes", &axis, 1);
    draft_put_int(draft, sum, "keepdims", 0);
    return true;
}

// (rows, matrices, where the rows of each matrix end): where they end decides no size, and is left
// out.
bool pt2_grouped_product(struct pt2_node *node, const char *type)
{
    const struct draft_value *rows = pt2_first(node), *out = node->outputs[0];
    const struct draft_value *matrices =
        pt2_tensor(node, pt2_has(node, "mat2") ? "mat2" : "weight");
    if (!rows || !out || !matrices || rows->rank != 2 || matrices->rank != 3)
        return pt2_fail(node, "rows and a matrix of each group are wanted");
    draft_put(node->draft, type, out->name, 2, (const char *const[]){rows->name, matrices->name});
    return true;
}
