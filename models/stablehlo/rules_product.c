#include "models/stablehlo/rules.h"

#include <math.h>
#include <string.h>

// Products and reductions.

struct factor {
    const struct hlo_value *of;
    int64_t batch[RANK_MOST], contracted[RANK_MOST];
    int batch_count, contracted_count;
    int free[RANK_MOST], free_count;  // the others, in their order
    bool is_shared;                   // by the groups of the other one: keys of grouped queries
};

static bool read_factors(const struct hlo_op *op, const char *key, int64_t *left, int64_t *right,
                         int *count)
{
    const struct hlo_text *text = &op->reader->text;
    int64_t lists[2][2 * RANK_MOST + 1];
    int token = hlo_attribute(op, key);
    *count = 0;
    if (token < 0) return true;
    *count = hlo_list(op, token, lists[0]);
    int next = text->tokens[token].partner + 1;
    bool fits = next > token && hlo_text_is(text, next, "x") &&
                hlo_list(op, next + 1, lists[1]) == *count && *count <= RANK_MOST;
    if (!fits) return hlo_fail(op, "%s are no two lists of as many dimensions", key);
    memcpy(left, lists[0], (size_t)*count * sizeof *left);
    memcpy(right, lists[1], (size_t)*count * sizeof *right);
    return true;
}

static bool find_free(const struct hlo_op *op, struct factor *factor)
{
    int64_t all[2 * RANK_MOST];
    int count = factor->batch_count + factor->contracted_count, rank = factor->of->as.rank;
    memcpy(all, factor->batch, (size_t)factor->batch_count * sizeof *all);
    memcpy(all + factor->batch_count, factor->contracted,
           (size_t)factor->contracted_count * sizeof *all);
    if (!hlo_axes(op, all, count, rank)) return false;
    for (int i = 0; i < rank; i++) {
        bool is_taken = false;
        for (int k = 0; k < count; k++)
            is_taken = is_taken || all[k] == i;
        if (!is_taken) factor->free[factor->free_count++] = i;
    }
    return true;
}

// Whether the dimensions that are summed over are the last ones.
static bool ends_contracted(const struct factor *factor)
{
    int first = factor->of->as.rank - factor->contracted_count;
    bool is_it = true;
    for (int i = 0; i < factor->contracted_count; i++)
        is_it = is_it && factor->contracted[i] == first + i;
    return is_it;
}

static int64_t product_of(const int64_t *dims, int count)
{
    int64_t product = 1;
    for (int i = 0; i < count; i++)
        product *= dims[i];
    return product;
}

static const char *put_reshape(struct hlo_op *op, const char *name, const char *output,
                               const int64_t *dims, int rank)
{
    const char *own = output ? output : draft_between(op->draft);
    const char *const inputs[] = {name, draft_list(op->draft, dims, rank)};
    draft_put(op->draft, "Reshape", own, 2, inputs);
    return own;
}

// A factor as MatMul wants it: batch, then rows and columns. Dimensions that are several become one
// where the product has no place for them.
static const char *put_factor(struct hlo_op *op, const struct factor *f, bool is_left,
                              bool keeps_rows)
{
    int order[RANK_MOST], count = 0;
    int64_t dims[RANK_MOST], merged[RANK_MOST];
    for (int i = 0; i < f->batch_count; i++)
        order[count++] = (int)f->batch[i];
    if (f->is_shared) order[count++] = -1;
    int at = count, rank = count;
    for (int part = 0; part < 2; part++) {
        bool is_free = (part == 0) == is_left;
        for (int i = 0; i < (is_free ? f->free_count : f->contracted_count); i++)
            order[count++] = is_free ? f->free[i] : (int)f->contracted[i];
    }
    const char *name = hlo_lay(op->draft, f->of, order, count, HLO_WHOLE, dims, NULL);
    memcpy(merged, dims, (size_t)rank * sizeof *merged);
    for (int part = 0; part < 2; part++) {
        bool is_free = (part == 0) == is_left;
        int own = is_free ? f->free_count : f->contracted_count;
        bool keeps = is_free && keeps_rows;
        if (keeps) memcpy(merged + rank, dims + at, (size_t)own * sizeof *merged);
        if (!keeps) merged[rank] = product_of(dims + at, own);
        rank += keeps ? own : 1;
        at += own;
    }
    bool is_same = rank == count && memcmp(merged, dims, (size_t)rank * sizeof *dims) == 0;
    return is_same ? name : put_reshape(op, name, NULL, merged, rank);
}

// Whether a dimension of queries or of what they share out is that of the queries: of attention to
// itself there are as many as keys, which the other factor has or which are summed over.
static bool is_rows(const struct factor *left, const struct factor *right, int axis)
{
    int64_t size = left->of->as.dims[axis];
    bool is_key = size == right->of->as.dims[right->free[0]];
    for (int i = 0; i < left->contracted_count; i++)
        is_key = is_key || size == left->of->as.dims[left->contracted[i]];
    return is_key && size > 1;
}

// Heads in groups that share their keys: one of two dimensions is one more of heads, and the other
// one are the rows. Where sizes do not tell, heads stand behind those of the batch.
static bool find_groups(struct factor *left, struct factor *right)
{
    if (left->batch_count == 0 || left->free_count != 2 || right->free_count != 1) return false;
    bool is_first = is_rows(left, right, left->free[0]);
    bool is_second = is_rows(left, right, left->free[1]);
    bool is_told = is_first != is_second;
    bool swaps = is_told ? is_first : left->free[0] < left->batch[left->batch_count - 1];
    if (swaps) {
        int rows = left->free[0];
        left->free[0] = left->free[1];
        left->free[1] = rows;
    }
    right->is_shared = true;
    return true;
}

// Where the dimensions of a factor that are not summed over stand in the product.
static int place_free(const struct factor *factor, int offset, int *map)
{
    int stated = 0;
    for (int axis = 0; axis < factor->of->as.rank; axis++)
        for (int i = 0; i < factor->free_count; i++)
            if (factor->free[i] == axis) map[stated++] = offset + i;
    return stated;
}

static bool put_product(struct hlo_op *op, struct factor *left, struct factor *right,
                        bool is_swapped)
{
    // Without a batch the rows of the left may be of several dimensions.
    bool keeps_rows = find_groups(left, right) || (left->batch_count == 0 && left->free_count > 0);
    int64_t *dims = ARENA_NEW(op->draft->arena, int64_t, RANK_MOST);
    int map[RANK_MOST], rank = 0;
    int stated_rank = left->batch_count + left->free_count + right->free_count;
    if (stated_rank != op->types[0].rank) return hlo_fail(op, "its result is of another type");
    const char *names[2] = {put_factor(op, left, true, keeps_rows),
                            put_factor(op, right, false, false)};
    for (int i = 0; i < left->batch_count; i++)
        dims[rank++] = left->of->as.dims[left->batch[i]];
    for (int i = 0; i < left->free_count; i++)
        dims[rank++] = left->of->as.dims[left->free[i]];
    for (int i = 0; i < right->free_count; i++)
        dims[rank++] = right->of->as.dims[right->free[i]];
    bool is_plain = (keeps_rows || left->free_count == 1) && right->free_count == 1;
    struct draft_value as = {.element = op->types[0].element, .rank = rank, .dims = dims};
    as.name = draft_between(op->draft);
    const char *product = is_plain ? as.name : draft_between(op->draft);
    draft_put(op->draft, "MatMul", product, 2, names);
    if (!is_plain) put_reshape(op, product, as.name, dims, rank);
    int batch = left->batch_count, count = batch;
    for (int i = 0; i < batch; i++)
        map[i] = i;
    const struct factor *first = is_swapped ? right : left, *second = is_swapped ? left : right;
    count += place_free(first, is_swapped ? batch + left->free_count : batch, map + count);
    place_free(second, is_swapped ? batch : batch + left->free_count, map + count);
    return hlo_view(op, hlo_value_new(op->draft, &as), map);
}

// What is summed over in the order of the left: heads are before what they consist of.
static void sort_contracted(struct factor *left, struct factor *right)
{
    for (int i = 1; i < left->contracted_count; i++) {
        for (int k = i; k > 0 && left->contracted[k] < left->contracted[k - 1]; k--) {
            int64_t own = left->contracted[k], other = right->contracted[k];
            left->contracted[k] = left->contracted[k - 1];
            right->contracted[k] = right->contracted[k - 1];
            left->contracted[k - 1] = own;
            right->contracted[k - 1] = other;
        }
    }
}

// Which factor stands on the left: of a weight and something else the latter, of queries in groups
// and keys the former, else where the dimensions lie so that fewer have to be turned.
static bool swaps(const struct factor *left, const struct factor *right)
{
    bool is_left = left->of->tensor->weight, is_right = right->of->tensor->weight;
    if (is_left != is_right) return is_left;
    bool is_apart = left->batch_count > 0 && left->free_count != right->free_count;
    if (is_apart) return right->free_count > left->free_count;
    return ends_contracted(right) && !ends_contracted(left);
}

bool hlo_dot(struct hlo_op *op, const char *type)
{
    (void)type;
    struct factor left = {.of = hlo_operand(op, 0)}, right = {.of = hlo_operand(op, 1)};
    if (!left.of || !right.of) return false;
    if (!read_factors(op, "batching_dims", left.batch, right.batch, &left.batch_count) ||
        !read_factors(op, "contracting_dims", left.contracted, right.contracted,
                      &left.contracted_count))
        return false;
    right.batch_count = left.batch_count;
    right.contracted_count = left.contracted_count;
    sort_contracted(&left, &right);
    if (!find_free(op, &left) || !find_free(op, &right)) return false;
    bool is_swapped = swaps(&left, &right);
    return is_swapped ? put_product(op, &right, &left, true)
                      : put_product(op, &left, &right, false);
}

struct reduction {
    const char *name, *type;
    double neutral;
};

static const struct reduction *find_reduction(const struct hlo_op *op)
{
    static const struct reduction REDUCTIONS[] = {{"stablehlo.add", "ReduceSum", 0},
                                                  {"stablehlo.maximum", "ReduceMax", -HUGE_VAL},
                                                  {"stablehlo.minimum", "ReduceMin", HUGE_VAL},
                                                  {"stablehlo.multiply", "ReduceProd", 1},
                                                  {"stablehlo.or", "ReduceMax", 0},
                                                  {"stablehlo.and", "ReduceMin", 1}};
    for (size_t i = 0; i < sizeof REDUCTIONS / sizeof *REDUCTIONS; i++)
        if (hlo_says(op, "applies") && hlo_says(op, REDUCTIONS[i].name)) return &REDUCTIONS[i];
    hlo_fail(op, "reductions by sum, product, maximum and minimum alone are read");
    return NULL;
}

// The dimensions that are summed stay as 1 where they lie: what reads the result may want them so.
bool hlo_reduce(struct hlo_op *op, const char *type)
{
    (void)type;
    if (op->result_count > 1) return hlo_reduce_arg(op);
    const struct hlo_value *x = hlo_operand(op, 0), *start = hlo_operand(op, 1);
    const struct reduction *reduction = x && start ? find_reduction(op) : NULL;
    int64_t axes[2 * RANK_MOST + 1];
    int token = hlo_attribute(op, "dimensions"), map[RANK_MOST], kept = 0;
    if (!reduction) return false;
    int count = token < 0 ? 0 : hlo_list(op, token, axes);
    if (!hlo_axes(op, axes, count, x->as.rank)) return false;
    bool is_neutral = hlo_is_number(start, reduction->neutral) ||
                      (!element_is_float(start->as.element) && start->tensor->has_number &&
                       isinf(reduction->neutral));
    if (!is_neutral) return hlo_fail(op, "it starts from another number than the neutral one");
    if (op->types[0].rank != x->as.rank - count || op->result_count != 1)
        return hlo_fail(op, "its result is of another type");
    bool is_there = true, is_axis[RANK_MOST] = {0};
    for (int i = 0; i < count; i++) {
        int own = x->map[axes[i]];
        is_there = is_there && own >= 0 && x->tensor->as.dims[own] == x->as.dims[axes[i]];
        is_axis[axes[i]] = true;
    }
    struct hlo_tensor *made = ARENA_NEW(op->draft->arena, struct hlo_tensor, 1);
    const struct draft_value *from = is_there ? &x->tensor->as : &x->as;
    int64_t *dims = ARENA_NEW(op->draft->arena, int64_t, from->rank);
    if (from->rank) memcpy(dims, from->dims, (size_t)from->rank * sizeof *dims);
    made->as = (struct draft_value){.element = x->as.element, .rank = from->rank, .dims = dims};
    made->reduction = reduction->type;
    made->of = is_there ? hlo_name(op->draft, x->tensor) : hlo_whole(op->draft, x);
    made->axis_count = count;
    made->reduced_count = 1;
    for (int i = 0; i < count; i++) {
        made->axes[i] = is_there ? x->map[axes[i]] : axes[i];
        made->reduced_count *= x->as.dims[axes[i]];
        dims[made->axes[i]] = 1;
    }
    for (int i = 0; i < x->as.rank; i++)
        if (!is_axis[i]) map[kept++] = is_there ? x->map[i] : i;
    // Over no dimension it is what it reduces.
    return hlo_view(op, count ? hlo_value_of(op->draft, made, &made->as, NULL) : x,
                    count ? map : x->map);
}
