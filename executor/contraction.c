#include "executor/contraction.h"

#include <string.h>

// Kept by falling stride in the output, or in the first input where there is none.
static void insert(struct axes *axes, struct axis_of axis)
{
    int at = axes->count++;
    for (; at > 0; at--) {
        const struct axis_of *before = &axes->axis[at - 1];
        bool is_behind = before->c != axis.c ? before->c > axis.c : before->a >= axis.a;
        if (is_behind) break;
        axes->axis[at] = *before;
    }
    axes->axis[at] = axis;
}

static void classify(struct einsum *e, struct axis_of axis)
{
    if (axis.size == 1) return;
    if (axis.c == 0) {
        insert(&e->inner, axis);
    } else if ((axis.a != 0) == (axis.b != 0)) {
        insert(&e->loops, axis);
    } else {
        insert(axis.a != 0 ? &e->rows : &e->columns, axis);
    }
}

static int64_t stride_of(const struct kernel_array *array, enum dim dim)
{
    int at = array_find(array, dim);
    return at < 0 ? 0 : array_stride(array, at);
}

// Every dim of the call once. A dim of size 1 is nobody's.
static void read_axes(const struct kernel_call *call, struct einsum *e)
{
    const struct kernel_array *a = &call->inputs[0], *b = &call->inputs[1], *c = call->outputs;
    const struct kernel_array *arrays[3] = {a, b, c};
    bool seen[DIM_COUNT] = {false};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < arrays[i]->rank; j++) {
            enum dim dim = arrays[i]->dims[j];
            if (seen[dim]) continue;
            seen[dim] = true;
            classify(e, (struct axis_of){arrays[i]->sizes[j], stride_of(a, dim), stride_of(b, dim),
                                         stride_of(c, dim)});
        }
    }
}

static bool lies_inside(const struct axis_of *outer, const struct axis_of *inner)
{
    return outer->a == inner->a * inner->size && outer->b == inner->b * inner->size &&
           outer->c == inner->c * inner->size;
}

static void join_neighbours(struct axes *axes)
{
    int kept = 0;
    for (int i = 1; i < axes->count; i++) {
        struct axis_of *last = &axes->axis[kept], *axis = &axes->axis[i];
        if (lies_inside(last, axis)) {
            int64_t size = last->size * axis->size;
            *last = *axis;
            last->size = size;
        } else {
            axes->axis[++kept] = *axis;
        }
    }
    if (axes->count > 0) axes->count = kept + 1;
}

// The dim of a group that the GEMM takes: one of stride 1 in the output or else in an input, or
// the largest; the others go to `loops`.
static struct axis_of pick(struct axes *axes, struct axes *loops)
{
    if (axes->count == 0) return (struct axis_of){1, 0, 0, 0};
    join_neighbours(axes);
    int best = 0;
    int64_t best_worth = -1;
    for (int i = 0; i < axes->count; i++) {
        const struct axis_of *axis = &axes->axis[i];
        int64_t worth = axis->size;
        if (axis->a == 1 || axis->b == 1) worth += INT64_C(1) << 40;
        if (axis->c == 1) worth += INT64_C(1) << 41;
        if (worth > best_worth) best_worth = worth, best = i;
    }
    for (int i = 0; i < axes->count; i++) {
        if (i != best) loops->axis[loops->count++] = axes->axis[i];
    }
    return axes->axis[best];
}

const char *einsum_check(const struct kernel_call *call)
{
    int64_t size[DIM_COUNT];
    memset(size, -1, sizeof size);
    const struct kernel_array *arrays[3] = {&call->inputs[0], &call->inputs[1], &call->outputs[0]};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < arrays[i]->rank; j++) {
            int64_t *known = &size[arrays[i]->dims[j]];
            if (*known >= 0 && *known != arrays[i]->sizes[j])
                return "a dim of a GEMM has two sizes";
            *known = arrays[i]->sizes[j];
        }
    }
    return NULL;
}

struct einsum einsum_of(const struct kernel_call *call)
{
    struct einsum e = {0};
    read_axes(call, &e);
    e.row = pick(&e.rows, &e.loops);
    e.column = pick(&e.columns, &e.loops);
    e.sum = pick(&e.inner, &e.inner_loops);
    return e;
}

bool einsum_next(const struct axes *loops, int64_t index[], struct contraction_place *place)
{
    for (int i = loops->count - 1; i >= 0; i--) {
        const struct axis_of *axis = &loops->axis[i];
        place->a += axis->a;
        place->b += axis->b;
        place->c += axis->c;
        if (++index[i] < axis->size) return true;
        place->a -= axis->a * axis->size;
        place->b -= axis->b * axis->size;
        place->c -= axis->c * axis->size;
        index[i] = 0;
    }
    return false;
}
