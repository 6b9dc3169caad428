#include "executor/merged.h"

#include "plan/lower/groups.h"

const char MERGED_APART[] = "operands of one GEMM for several lie apart";

struct group {
    const struct kernel_call *gemms[GROUP_MEMBERS_MAX], *others[GROUP_MEMBERS_MAX];
    int count, other_count;
    int64_t compute_bytes, real_bytes;
};

enum side { INPUT_0, INPUT_1, OUTPUT };

static const struct kernel_array *side_of(const struct kernel_call *call, enum side side)
{
    return side == OUTPUT ? &call->outputs[0] : &call->inputs[side];
}

static int64_t bytes_of(const struct group *group, const struct kernel_array *array)
{
    int64_t each = array->element == ELEMENT_COMPUTE ? group->compute_bytes : group->real_bytes;
    if (array->element == ELEMENT_BYTE) return array_elements(array);  // turned
    int64_t row = array->row_stride ? array_row(array) : array_elements(array);
    return row * each;
}

// Elements that a step along DIM_FLAT goes through: of a row, or of all but the last dim of a
// weight; a bias has no other.
static int64_t flat_size(const struct kernel_array *array, bool is_weight)
{
    if (array->row_stride) return array_row(array);
    return array_elements(array) / (is_weight ? array_last(array) : 1);
}

// One array of those on one side of all calls, each behind the one before it; false: they lie
// otherwise.
static bool join_side(const struct group *group, const struct kernel_call *const *calls, int count,
                      enum side side, bool is_weight, struct kernel_array *joined)
{
    const struct kernel_array *first = side_of(calls[0], side);
    struct kernel_array whole = {.data = first->data, .element = first->element};
    int64_t size = 0;
    const char *end = first->data;
    for (int i = 0; i < count; i++) {
        const struct kernel_array *array = side_of(calls[i], side);
        bool fits = array->data == end && array->row_stride == first->row_stride &&
                    array->element == first->element;
        if (!fits) return false;
        size += flat_size(array, is_weight);
        end += bytes_of(group, array);
    }
    if (first->row_stride) {
        if (first->row_stride != size) return false;
        for (; whole.rank < 2; whole.rank++) {
            whole.dims[whole.rank] = first->dims[whole.rank];
            whole.sizes[whole.rank] = first->sizes[whole.rank];
            whole.first[whole.rank] = first->first[whole.rank];
            whole.whole[whole.rank] = first->whole[whole.rank];
        }
    }
    whole.dims[whole.rank] = DIM_FLAT;
    whole.sizes[whole.rank] = whole.whole[whole.rank] = size;
    whole.rank++;
    if (is_weight) {
        int last = first->rank - 1;
        whole.dims[whole.rank] = first->dims[last];
        whole.sizes[whole.rank] = first->sizes[last];
        whole.first[whole.rank] = first->first[last];
        whole.whole[whole.rank] = first->whole[last];
        whole.rank++;
    }
    *joined = whole;
    return true;
}

static void sort(const struct kernel_call **calls, int count, enum side side)
{
    for (int i = 1; i < count; i++) {
        for (int k = i; k > 0; k--) {
            const struct kernel_call *held = calls[k];
            if (side_of(calls[k - 1], side)->data <= side_of(held, side)->data) break;
            calls[k] = calls[k - 1];
            calls[k - 1] = held;
        }
    }
}

static bool add_alike(const struct kernel_call *const *calls, int count)
{
    for (int i = 1; i < count; i++) {
        if (calls[i]->adds != calls[0]->adds) return false;
    }
    return true;
}

static int fold_forward(struct group *group, struct kernel_call *folded)
{
    sort(group->gemms, group->count, INPUT_1);
    folded[0] = *group->gemms[0];
    bool fits = join_side(group, group->gemms, group->count, INPUT_1, true, &folded[0].inputs[1]) &&
                join_side(group, group->gemms, group->count, OUTPUT, false, &folded[0].outputs[0]);
    if (!fits || group->other_count == 0) return fits;
    sort(group->others, group->other_count, INPUT_1);
    folded[1] = *group->others[0];
    fits = group->other_count == group->count &&
           join_side(group, group->others, group->count, INPUT_0, false, &folded[1].inputs[0]) &&
           join_side(group, group->others, group->count, INPUT_1, false, &folded[1].inputs[1]) &&
           join_side(group, group->others, group->count, OUTPUT, false, &folded[1].outputs[0]) &&
           folded[1].inputs[0].data == folded[0].outputs[0].data;
    return fits ? 2 : 0;
}

static bool is_made(const struct group *group, const void *data)
{
    for (int i = 0; i < group->count; i++) {
        if (group->gemms[i]->outputs[0].data == data) return true;
    }
    return false;
}

static int fold_backward(struct group *group, struct kernel_call *folded)
{
    sort(group->gemms, group->count, INPUT_1);
    folded[0] = *group->gemms[0];
    bool fits =
        join_side(group, group->gemms, group->count, INPUT_0, false, &folded[0].inputs[0]) &&
        join_side(group, group->gemms, group->count, INPUT_1, true, &folded[0].inputs[1]);
    if (!fits || group->other_count != 1) return 0;
    const struct kernel_call *sum = group->others[0];
    folded[1] = *sum;
    folded[1].input_count = 0;
    for (int i = 0; i < sum->input_count; i++) {
        const struct kernel_array *term = &sum->inputs[i];
        bool is_kept = !is_made(group, term->data) || term->data == folded[0].outputs[0].data;
        if (is_kept) folded[1].inputs[folded[1].input_count++] = *term;
    }
    return 2;
}

static int fold_weights(struct group *group, struct kernel_call *folded)
{
    enum side gradient = group->gemms[0]->inputs[0].row_stride ? INPUT_0 : INPUT_1;
    sort(group->gemms, group->count, OUTPUT);
    folded[0] = *group->gemms[0];
    bool fits = add_alike(group->gemms, group->count) &&
                join_side(group, group->gemms, group->count, gradient, false,
                          &folded[0].inputs[gradient]) &&
                join_side(group, group->gemms, group->count, OUTPUT, true, &folded[0].outputs[0]);
    if (!fits || group->other_count == 0) return fits;
    sort(group->others, group->other_count, OUTPUT);
    folded[1] = *group->others[0];
    fits = group->other_count == group->count && add_alike(group->others, group->count) &&
           join_side(group, group->others, group->count, INPUT_0, false, &folded[1].inputs[0]) &&
           join_side(group, group->others, group->count, OUTPUT, false, &folded[1].outputs[0]);
    return fits ? 2 : 0;
}

int merged_fold(const struct kernel_call *calls, int count, int64_t compute_bytes,
                int64_t real_bytes, struct kernel_call folded[MERGED_CALLS])
{
    struct group group = {.compute_bytes = compute_bytes, .real_bytes = real_bytes};
    for (int i = 0; i < count; i++) {
        if (calls[i].op->kind == OP_CONTRACT)
            group.gemms[group.count++] = &calls[i];
        else
            group.others[group.other_count++] = &calls[i];
    }
    if (group.count < 2) return 0;
    int left = 0;
    switch (group.gemms[0]->op->phase) {
    case PHASE_FORWARD:
        left = fold_forward(&group, folded);
        break;
    case PHASE_BACKWARD:
        left = fold_backward(&group, folded);
        break;
    default:
        left = fold_weights(&group, folded);
        break;
    }
    // One of them casts for all.
    for (int i = 0; i < group.count; i++) {
        if (!group.gemms[i]->cast_to) continue;
        folded[0].cast_to = group.gemms[i]->cast_to;
        folded[0].cast_from = group.gemms[i]->cast_from;
        folded[0].cast_input = group.gemms[i]->cast_input;
    }
    return left;
}
