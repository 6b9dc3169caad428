#include "models/stablehlo/rules.h"

#include <assert.h>
#include <string.h>

// Picking and placing by indices, and the largest first.

struct pick_list {
    int64_t ints[2 * RANK_MOST + 1];
    int count;
};

static struct pick_list list_of(const struct hlo_op *op, const char *key)
{
    struct pick_list list = {.count = 0};
    int token = hlo_attribute(op, key);
    if (token >= 0) list.count = hlo_list(op, token, list.ints);
    return list;
}

static bool has(const struct pick_list *list, int64_t item)
{
    assert(list->count >= 0 && list->count <= 2 * RANK_MOST + 1);
    for (int i = 0; i < list->count; i++)
        if (list->ints[i] == item) return true;
    return false;
}

static bool is_same_list(const struct pick_list *a, const struct pick_list *b)
{
    bool is_it = a->count == b->count;
    for (int i = 0; i < a->count && is_it; i++)
        is_it = has(b, a->ints[i]);
    return is_it;
}

// How a table is read or written by indices: whole but along the dimensions of `picked`.
struct picking {
    struct pick_list picked;   // dimensions of the table, in the order of the indices' numbers
    struct pick_list windows;  // dimensions of what is read or written that are the table's
    int order[RANK_MOST];      // of the table: those picked, then the others
    int lists[RANK_MOST];      // of the indices: the dimensions of them, then that of numbers
    int list_count;            // without the last one
    int64_t vector;            // the dimension of the numbers of an index; the rank: there is none
};

static bool read_picking(const struct hlo_op *op, struct picking *p, const char *const *keys)
{
    const struct hlo_value *x = op->operands[0], *indices = op->operands[1];
    struct pick_list gone = list_of(op, keys[1]);
    int count = 0;
    p->picked = list_of(op, keys[0]);
    p->windows = list_of(op, keys[2]);
    if (!hlo_ints(op, "index_vector_dim", 1, 0, &p->vector) ||
        !hlo_axes(op, p->picked.ints, p->picked.count, x->as.rank))
        return false;
    bool fits = p->vector >= 0 && p->vector <= indices->as.rank && p->picked.count > 0 &&
                p->windows.count == x->as.rank - p->picked.count && is_same_list(&gone, &p->picked);
    int64_t numbers = !fits ? 0 : p->vector == indices->as.rank ? 1 : indices->as.dims[p->vector];
    if (!fits || numbers != p->picked.count)
        return hlo_fail(op, "%ss of whole rows alone are read", op->name);
    for (int i = 0; i < p->picked.count; i++)
        p->order[count++] = (int)p->picked.ints[i];
    for (int i = 0; i < x->as.rank; i++)
        if (!has(&p->picked, i)) p->order[count++] = i;
    for (int i = 0; i < indices->as.rank; i++)
        if (i != p->vector) p->lists[p->list_count++] = i;
    p->lists[p->list_count] = p->vector == indices->as.rank ? -1 : (int)p->vector;
    return true;
}

// The dimensions of what is read or written: those of the lists of indices, then the windows.
static bool find_lies(const struct hlo_op *op, const struct picking *p, int rank, int *lies)
{
    int count = 0;
    if (rank != p->list_count + p->windows.count || rank > RANK_MOST ||
        !hlo_axes(op, p->windows.ints, p->windows.count, rank))
        return hlo_fail(op, "its dimensions are not those of lists and rows");
    for (int i = 0; i < rank; i++)
        if (!has(&p->windows, i)) lies[count++] = i;
    for (int i = 0; i < p->windows.count; i++)
        lies[count++] = (int)p->windows.ints[i];
    return true;
}

// One number of each row by lists as long as there are rows, as jnp.take_along_axis does.
static bool pick_along(struct hlo_op *op, const struct pick_list *batch)
{
    const struct hlo_value *x = op->operands[0], *indices = op->operands[1];
    struct pick_list other = list_of(op, "start_indices_batching_dims");
    struct pick_list picked = list_of(op, "start_index_map");
    int order[RANK_MOST], lists[RANK_MOST], map[RANK_MOST], count = 0, stated = 0;
    int64_t vector = 0, *dims = ARENA_NEW(op->draft->arena, int64_t, RANK_MOST);
    if (!hlo_ints(op, "index_vector_dim", 1, 0, &vector) ||
        !hlo_axes(op, batch->ints, batch->count, x->as.rank) ||
        !hlo_axes(op, other.ints, other.count, indices->as.rank))
        return false;
    bool fits = picked.count == 1 && !has(batch, picked.ints[0]) && other.count == batch->count &&
                x->as.rank == batch->count + 1 && list_of(op, "offset_dims").count == 0 &&
                picked.ints[0] >= 0 && picked.ints[0] < x->as.rank && !has(&other, vector);
    if (!fits) return hlo_fail(op, "gathers of one number of each row alone are read so");
    for (; count < batch->count; count++) {
        order[count] = (int)batch->ints[count];
        lists[count] = (int)other.ints[count];
        dims[count] = x->as.dims[order[count]];
    }
    order[count] = (int)picked.ints[0];
    lists[count] = -1;
    dims[count] = 1;
    for (int i = 0; i < indices->as.rank; i++) {
        if (i == vector) continue;
        map[stated] = has(&other, i) ? -1 : count;
        for (int k = 0; k < count; k++)
            if (lists[k] == i) map[stated] = k;
        stated++;
        if (has(&other, i)) continue;
        if (lists[count] >= 0) return hlo_fail(op, "lists of several dimensions for each row");
        lists[count] = i;
        dims[count] = indices->as.dims[i];
    }
    if (stated != op->types[0].rank) return hlo_fail(op, "its result is of another type");
    const char *const inputs[] = {
        hlo_lay(op->draft, x, order, count + 1, HLO_WHOLE, NULL, NULL),
        hlo_lay(op->draft, indices, lists, count + 1, HLO_WHOLE, NULL, NULL)};
    const struct draft_value as = {.name = draft_between(op->draft),
                                   .element = op->types[0].element,
                                   .rank = count + 1,
                                   .dims = dims};
    draft_put_int(op->draft, draft_put(op->draft, "GatherElements", as.name, 2, inputs), "axis",
                  count);
    return hlo_view(op, hlo_value_new(op->draft, &as), map);
}

// Along one dimension the rows stay where the table has them.
static bool pick_rows(struct hlo_op *op, const struct picking *p)
{
    assert(p->picked.count == 1);
    const struct hlo_value *x = op->operands[0], *indices = op->operands[1];
    int lies[RANK_MOST], whole[RANK_MOST], axis = (int)p->picked.ints[0], rank = op->types[0].rank;
    if (!find_lies(op, p, rank, lies)) return false;
    for (int i = 0; i < rank; i++) {
        bool is_list = i >= axis && i < axis + p->list_count;
        whole[i] = lies[is_list ? i - axis : i < axis ? p->list_count + i : i];
    }
    const char *const inputs[] = {
        hlo_whole(op->draft, x),
        hlo_lay(op->draft, indices, p->lists, p->list_count, HLO_WHOLE, NULL, NULL)};
    draft_put_int(op->draft, draft_put(op->draft, "Gather", hlo_ordered(op, whole), 2, inputs),
                  "axis", axis);
    return true;
}

bool hlo_gather(struct hlo_op *op, const char *type)
{
    (void)type;
    static const char *const KEYS[] = {"start_index_map", "collapsed_slice_dims", "offset_dims"};
    const struct hlo_value *x = hlo_operand(op, 0), *indices = hlo_operand(op, 1);
    struct pick_list batch = list_of(op, "operand_batching_dims");
    struct picking p = {.list_count = 0};
    int64_t sizes[RANK_MOST];
    int lies[RANK_MOST];
    if (!x || !indices || !hlo_ints(op, "slice_sizes", x->as.rank, 0, sizes)) return false;
    if (batch.count > 0) return pick_along(op, &batch);
    if (!read_picking(op, &p, KEYS)) return false;
    for (int i = 0; i < x->as.rank; i++)
        if (sizes[i] != (has(&p.picked, i) ? 1 : x->as.dims[i]))
            return hlo_fail(op, "gathers of whole rows alone are read");
    if (p.picked.count == 1) return pick_rows(op, &p);
    if (!find_lies(op, &p, op->types[0].rank, lies)) return false;
    const char *const inputs[] = {
        hlo_lay(op->draft, x, p.order, x->as.rank, HLO_WHOLE, NULL, NULL),
        hlo_lay(op->draft, indices, p.lists, p.list_count + 1, HLO_WHOLE, NULL, NULL)};
    draft_put(op->draft, "GatherND", hlo_ordered(op, lies), 2, inputs);
    return true;
}

// What becomes of a number that is there and one that is placed: the operator of the region.
static const char *reduction_of(const struct hlo_op *op)
{
    static const char *const WORDS[][2] = {{"stablehlo.add", "add"},
                                           {"stablehlo.multiply", "mul"},
                                           {"stablehlo.maximum", "max"},
                                           {"stablehlo.minimum", "min"}};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (hlo_says(op, WORDS[i][0])) return WORDS[i][1];
    return NULL;
}

bool hlo_scatter(struct hlo_op *op, const char *type)
{
    (void)type;
    static const char *const KEYS[] = {"scatter_dims_to_operand_dims", "inserted_window_dims",
                                       "update_window_dims"};
    const struct hlo_value *x = hlo_operand(op, 0), *indices = hlo_operand(op, 1);
    const struct hlo_value *updates = hlo_operand(op, 2);
    struct picking p = {.list_count = 0};
    int lies[RANK_MOST];
    if (!x || !indices || !updates) return false;
    if (op->operand_count != 3 || op->types[0].rank != x->as.rank)
        return hlo_fail(op, "a scatter of several tensors");
    if (list_of(op, "input_batching_dims").count > 0)
        return hlo_fail(op, "a scatter with dimensions of a batch");
    if (!read_picking(op, &p, KEYS) || !find_lies(op, &p, updates->as.rank, lies)) return false;
    for (int i = 0; i < p.windows.count; i++)
        if (updates->as.dims[p.windows.ints[i]] != x->as.dims[p.order[p.picked.count + i]])
            return hlo_fail(op, "scatters of whole rows alone are read");
    const char *const inputs[] = {
        hlo_lay(op->draft, x, p.order, x->as.rank, HLO_WHOLE, NULL, NULL),
        hlo_lay(op->draft, indices, p.lists, p.list_count + 1, HLO_WHOLE, NULL, NULL),
        hlo_lay(op->draft, updates, lies, updates->as.rank, HLO_WHOLE, NULL, NULL)};
    const char *reduction = reduction_of(op);
    Onnx__NodeProto *proto = draft_put(op->draft, "ScatterND", hlo_ordered(op, p.order), 3, inputs);
    if (reduction) draft_put_text(op->draft, proto, "reduction", reduction);
    return true;
}

static const char *result_at(struct hlo_op *op, int i)
{
    struct draft_value as = op->types[i];
    as.name = draft_between(op->draft);
    op->results[i] = hlo_value_new(op->draft, &as);
    return as.name;
}

// Indices have 64 bits in ONNX.
static void put_indices(struct hlo_op *op, int i, const char *indices)
{
    Onnx__NodeProto *proto = draft_put(op->draft, "Cast", result_at(op, i), 1, &indices);
    draft_put_int(op->draft, proto, "to", op->types[i].element);
}

// The first of a dimension in order, and where they stood.
static const char *put_first(struct hlo_op *op, int64_t axis, int64_t count, bool is_largest)
{
    assert(axis >= 0 && axis < op->operands[0]->as.rank);
    const char *indices = draft_between(op->draft);
    const char *const inputs[] = {hlo_whole(op->draft, op->operands[0]),
                                  draft_list(op->draft, &count, 1)};
    Onnx__NodeProto *proto = draft_put(op->draft, "TopK", result_at(op, 0), 2, inputs);
    draft_put_output(op->draft, proto, indices);
    draft_put_int(op->draft, proto, "axis", axis);
    draft_put_int(op->draft, proto, "largest", is_largest);
    return indices;
}

// All of a dimension in the order of the first operand; the others go with it.
bool hlo_sort(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_value *x = hlo_operand(op, 0);
    int64_t axis = 0;
    if (!x || !hlo_ints(op, "dimension", 1, -1, &axis)) return false;
    if (axis < 0) axis += x->as.rank;
    if (!hlo_axes(op, &axis, 1, x->as.rank)) return false;
    bool falls = hlo_says(op, "GT") || hlo_says(op, "GE");
    if (falls == (hlo_says(op, "LT") || hlo_says(op, "LE")))
        return hlo_fail(op, "an order that neither rises nor falls");
    bool fits = op->operand_count == op->result_count;
    for (int i = 0; i < op->operand_count && fits; i++)
        fits = op->operands[i]->as.rank == x->as.rank && op->types[i].rank == x->as.rank;
    if (!fits) return hlo_fail(op, "its results are not those of its operands");
    const char *indices = put_first(op, axis, x->as.dims[axis], falls);
    for (int i = 1; i < op->operand_count; i++) {
        const char *const inputs[] = {hlo_whole(op->draft, op->operands[i]), indices};
        draft_put_int(op->draft,
                      draft_put(op->draft, "GatherElements", result_at(op, i), 2, inputs), "axis",
                      axis);
    }
    return true;
}

bool hlo_top_k(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_value *x = hlo_operand(op, 0);
    int64_t count = 0;
    if (!x || !hlo_ints(op, "k", 1, 0, &count)) return false;
    if (op->result_count != 2 || x->as.rank < 1)
        return hlo_fail(op, "two results are wanted, of rows");
    put_indices(op, 1, put_first(op, x->as.rank - 1, count, true));
    return true;
}

// A reduction to the largest and where it stands: of two operands the second counts the places.
bool hlo_reduce_arg(struct hlo_op *op)
{
    const struct hlo_value *x = hlo_operand(op, 0), *places = hlo_operand(op, 2);
    struct pick_list axes = list_of(op, "dimensions");
    if (!x || !places || !hlo_axes(op, axes.ints, axes.count, x->as.rank)) return false;
    bool rises = hlo_region_says(op, "GT") || hlo_region_says(op, "GE");
    bool falls = hlo_region_says(op, "LT") || hlo_region_says(op, "LE");
    bool fits = op->operand_count == 4 && axes.count == 1 && hlo_is_fixed(places) &&
                !element_is_float(places->as.element) && (rises || falls) &&
                op->types[0].rank == x->as.rank - 1;
    if (!fits) return hlo_fail(op, "of reductions of several tensors, places of maxima are read");
    const char *name = hlo_whole(op->draft, x), *indices = draft_between(op->draft);
    Onnx__NodeProto *value =
        draft_put(op->draft, rises ? "ReduceMax" : "ReduceMin", result_at(op, 0), 1, &name);
    draft_put_ints(op->draft, value, "axes", axes.ints, 1);
    draft_put_int(op->draft, value, "keepdims", 0);
    Onnx__NodeProto *place = draft_put(op->draft, rises ? "ArgMax" : "ArgMin", indices, 1, &name);
    draft_put_int(op->draft, place, "axis", axes.ints[0]);
    draft_put_int(op->draft, place, "keepdims", 0);
    put_indices(op, 1, indices);
    return true;
}
