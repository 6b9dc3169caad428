#include "executor/cpu/array.h"
#include "executor/cpu/sums.h"

#include <assert.h>

// What moves, repeats or adds without computing: sums, changes of shape, joins.
//
// A walk goes through the index of one array, its last dim in one run, and says for each other
// array where the same element stands. A dim that an array lacks does not move it; a dim of equal
// position under expansion moves it by its share (repeats). All of it by index in the whole, so
// that arrays may hold different slices.

enum { WALK_ARRAYS = OP_INPUT_MAX + 1 };

struct shape_walk {
    int rank, array_count;
    int64_t sizes[TENSOR_RANK_MAX];
    int64_t strides[WALK_ARRAYS][TENSOR_RANK_MAX];
    int64_t at[WALK_ARRAYS];  // offset of the run
    int64_t index[TENSOR_RANK_MAX];
};

static struct shape_walk walk_of(const struct kernel_array *over)
{
    assert(over->rank >= 0 && over->rank <= TENSOR_RANK_MAX);
    struct shape_walk walk = {.rank = over->rank};
    memcpy(walk.sizes, over->sizes, sizeof walk.sizes);
    return walk;
}

// An array whose dims are matched by name. What it holds before the walk begins is skipped.
static void walk_add(struct shape_walk *walk, const struct kernel_array *over,
                     const struct kernel_array *array)
{
    assert(walk->array_count < WALK_ARRAYS);
    int64_t *strides = walk->strides[walk->array_count];
    for (int i = 0; i < over->rank; i++) {
        int at = array_find(array, over->dims[i]);
        strides[i] = at < 0 ? 0 : array_stride(array, at);
        if (at >= 0) {
            walk->at[walk->array_count] += (over->first[i] - array->first[at]) * strides[i];
        }
    }
    walk->array_count++;
}

// Joins dims that lie one after another in every array, so that runs are long.
static void walk_join(struct shape_walk *walk)
{
    int kept = 0;
    for (int i = 1; i < walk->rank; i++) {
        bool joins = true;
        for (int a = 0; a < walk->array_count; a++) {
            joins &= walk->strides[a][kept] == walk->strides[a][i] * walk->sizes[i];
        }
        kept += !joins;
        walk->sizes[kept] = joins ? walk->sizes[kept] * walk->sizes[i] : walk->sizes[i];
        for (int a = 0; a < walk->array_count; a++)
            walk->strides[a][kept] = walk->strides[a][i];
    }
    if (walk->rank > 0) walk->rank = kept + 1;
    if (walk->rank > 0) return;
    walk->rank = 1;  // a scalar
    walk->sizes[0] = 1;
}

static int64_t walk_run(const struct shape_walk *walk)
{
    return walk->sizes[walk->rank - 1];
}
static int64_t walk_step(const struct shape_walk *walk, int array)
{
    return walk->strides[array][walk->rank - 1];
}

static bool walk_next(struct shape_walk *walk)
{
    for (int i = walk->rank - 2; i >= 0; i--) {
        for (int a = 0; a < walk->array_count; a++)
            walk->at[a] += walk->strides[a][i];
        if (++walk->index[i] < walk->sizes[i]) return true;
        for (int a = 0; a < walk->array_count; a++)
            walk->at[a] -= walk->strides[a][i] * walk->sizes[i];
        walk->index[i] = 0;
    }
    return false;
}

FAST static void run_pair(int64_t count, const REAL *a, const REAL *b, REAL *y)
{
    VECTOR for (int64_t i = 0; i < count; i++) y[i] = a[i] + b[i];
}

FAST static void run_term(int64_t count, int64_t step, const REAL *x, bool begins, REAL *y)
{
    if (begins && step == 1) {
        if (x != y) memmove(y, x, (size_t)count * sizeof(REAL));
    } else if (begins) {
        for (int64_t i = 0; i < count; i++)
            y[i] = x[i * step];
    } else if (step == 1) {
        VECTOR for (int64_t i = 0; i < count; i++) y[i] += x[i];
    } else {
        VECTOR for (int64_t i = 0; i < count; i++) y[i] += x[i * step];
    }
}

// Terms may lack dims of the result. The result may stand in the place of the first term.
const char *cpu_add(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    const struct kernel_array *out = &call->outputs[0];
    if (array_elements(out) == 0) return NULL;
    struct shape_walk walk = walk_of(out);
    walk_add(&walk, out, out);
    for (int i = 0; i < call->input_count; i++)
        walk_add(&walk, out, &call->inputs[i]);
    walk_join(&walk);
    int64_t count = walk_run(&walk);
    const REAL *in[OP_INPUT_MAX];
    for (int i = 0; i < call->input_count; i++)
        in[i] = call->inputs[i].data;
    bool adds = call_adds(call, 0), is_direct = call->input_count > 1 && !adds;
    is_direct = is_direct && walk_step(&walk, 1) == 1 && walk_step(&walk, 2) == 1;
    do {
        REAL *y = (REAL *)out->data + walk.at[0];
        if (is_direct) run_pair(count, in[0] + walk.at[1], in[1] + walk.at[2], y);
        for (int i = is_direct ? 2 : 0; i < call->input_count; i++) {
            run_term(count, walk_step(&walk, i + 1), in[i] + walk.at[i + 1], i == 0 && !adds, y);
        }
    } while (walk_next(&walk));
    return NULL;
}

// Where element `index` of a dim of the wide array stands in the narrow one; negative or beyond its
// size: not here.
static int64_t narrow_index(const struct kernel_array *wide, const struct kernel_array *narrow,
                            int dim, int64_t index)
{
    int64_t repeats = wide->whole[dim] / narrow->whole[dim];
    return (wide->first[dim] + index) / repeats - narrow->first[dim];
}

// Calls `run` for each run of the last dim of `wide`, and for which narrow element.
struct shape_repeat {
    const struct kernel_array *wide, *narrow;
    bool sums;  // narrow += wide instead of wide = narrow
};

FAST static void repeat_run(const struct shape_repeat *repeat, int64_t wide_at, int64_t narrow_at)
{
    const struct kernel_array *wide = repeat->wide;
    int last = wide->rank - 1;
    int64_t count = wide->sizes[last];
    bool is_same = wide->whole[last] == repeat->narrow->whole[last];
    REAL *w = (REAL *)wide->data + wide_at, *n = (REAL *)repeat->narrow->data + narrow_at;
    if (is_same) {
        n += narrow_index(wide, repeat->narrow, last, 0);
        if (!repeat->sums && w != n) memcpy(w, n, (size_t)count * sizeof(REAL));
        if (repeat->sums) {
            VECTOR for (int64_t i = 0; i < count; i++) n[i] += w[i];
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        REAL *at = &n[narrow_index(wide, repeat->narrow, last, i)];
        if (repeat->sums) {
            *at += w[i];
        } else {
            w[i] = *at;
        }
    }
}

static void repeat_all(const struct shape_repeat *repeat, int dim, int64_t wide_at,
                       int64_t narrow_at)
{
    const struct kernel_array *wide = repeat->wide, *narrow = repeat->narrow;
    if (dim + 1 >= wide->rank || dim + 1 >= TENSOR_RANK_MAX) {
        repeat_run(repeat, wide_at, narrow_at);
        return;
    }
    for (int64_t i = 0; i < wide->sizes[dim]; i++) {
        int64_t at = narrow_index(wide, narrow, dim, i);
        repeat_all(repeat, dim + 1, wide_at + i * array_stride(wide, dim),
                   narrow_at + at * array_stride(narrow, dim));
    }
}

static const char *repeat_checked(struct shape_repeat repeat)
{
    const struct kernel_array *wide = repeat.wide, *narrow = repeat.narrow;
    if (array_elements(wide) == 0) return NULL;
    for (int i = 0; i < wide->rank; i++) {
        if (narrow->whole[i] <= 0 || wide->whole[i] % narrow->whole[i] != 0)
            return "a dim is repeated by no whole number";
        int64_t first = narrow_index(wide, narrow, i, 0);
        int64_t last = narrow_index(wide, narrow, i, wide->sizes[i] - 1);
        if (first < 0 || last >= narrow->sizes[i]) return "what is repeated is not all here";
    }
    repeat_all(&repeat, 0, 0, 0);
    return NULL;
}

const char *cpu_expand(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    return repeat_checked((struct shape_repeat){&call->outputs[0], &call->inputs[0], false});
}

FAST static void sum_run(int64_t count, int64_t step, const REAL *x, REAL *y)
{
    if (step == 1) {
        VECTOR for (int64_t i = 0; i < count; i++) y[i] += x[i];
        return;
    }
    if (step == 0) {
        *y += SUM(i, 0, count, x[i]);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        y[i * step] += x[i];
}

const char *cpu_reduce(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    const struct kernel_array *in = &call->inputs[0], *out = &call->outputs[0];
    call_begin_sum(call, 0);
    if (array_elements(in) == 0 || array_elements(out) == 0) return NULL;
    if (in->rank == out->rank) return repeat_checked((struct shape_repeat){in, out, true});
    struct shape_walk walk = walk_of(in);
    walk_add(&walk, in, in);
    walk_add(&walk, in, out);
    walk_join(&walk);
    do {
        sum_run(walk_run(&walk), walk_step(&walk, 1), (const REAL *)in->data + walk.at[0],
                (REAL *)out->data + walk.at[1]);
    } while (walk_next(&walk));
    return NULL;
}

// The part of the joined array that one of the two is, as an array over the joined one's dims.
static struct kernel_array piece_of(const struct kernel_array *joined,
                                    const struct kernel_array *part, int64_t before)
{
    assert(joined->rank > 0 && before >= 0 && before + array_last(part) <= array_last(joined));
    struct kernel_array piece = *joined;
    int last = joined->rank - 1;
    piece.sizes[last] = array_last(part);
    piece.data = (REAL *)joined->data + before;
    return piece;
}

// Goes through one part and its place in the joined array.
static void join(const struct kernel_array *joined, const struct kernel_array *part, int64_t before,
                 bool is_forward)
{
    struct kernel_array piece = piece_of(joined, part, before), named = *part;
    if (array_elements(&piece) == 0) return;
    // The last dim goes by the name the joined one has.
    named.dims[named.rank - 1] = joined->dims[joined->rank - 1];
    named.first[named.rank - 1] = piece.first[joined->rank - 1];
    struct shape_walk walk = walk_of(&piece);
    walk_add(&walk, &piece, &piece);
    for (int i = 0; i < joined->rank; i++)
        walk.strides[0][i] = array_stride(joined, i);
    walk_add(&walk, &piece, &named);
    do {
        REAL *whole = (REAL *)piece.data + walk.at[0], *at = (REAL *)part->data + walk.at[1];
        if (is_forward) {
            memcpy(whole, at, (size_t)walk_run(&walk) * sizeof(REAL));
        } else {
            sum_run(walk_run(&walk), 1, whole, at);
        }
    } while (walk_next(&walk));
}

const char *cpu_flatten(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    const struct kernel_array *in = &call->inputs[0], *out = &call->outputs[0];
    int64_t elements = array_elements(in);
    if (elements != array_elements(out)) return "what is flattened has another size";
    if (elements > 0) memcpy(out->data, in->data, (size_t)elements * sizeof(REAL));
    return NULL;
}

const char *cpu_concat(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    struct kernel_call folded = *call;
    int64_t before = call_fold_joint(&folded);
    if (before > 0) array_zero(&folded.outputs[0]);
    for (int i = 0; i < folded.input_count; i++) {
        join(&folded.outputs[0], &folded.inputs[i], before, true);
        before += array_last(&folded.inputs[i]);
    }
    return NULL;
}

const char *cpu_concat_backward(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    struct kernel_call folded = *call;
    int64_t before = call_fold_joint(&folded);
    for (int i = 0; i < folded.output_count; i++) {
        call_begin_sum(call, i);
        join(&folded.inputs[0], &folded.outputs[i], before, false);
        before += array_last(&folded.outputs[i]);
    }
    return NULL;
}
