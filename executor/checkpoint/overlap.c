#include "executor/checkpoint/piece.h"

// What two pieces of one array have in common. Boxes overlap in a box, whose rows are contiguous in
// both; of a row that is common which lies in the flat range of either piece, and neighbours make
// one run.

struct overlapping {
    const struct checkpoint_piece *source, *target;
    int64_t first[TENSOR_RANK_MAX], count[TENSOR_RANK_MAX];  // of the common box
    struct checkpoint_run run;                               // not visited yet
    int64_t total;
    void (*visit)(void *context, const struct checkpoint_run *run);
    void *context;
};

// The outermost dim of a piece, as far as its flat range goes.
static void narrow(const struct checkpoint_piece *piece, int64_t *first, int64_t *end)
{
    int64_t row = 1;
    for (int i = 1; i < piece->rank; i++)
        row *= piece->count[i];
    int64_t begins = piece->first[0] + piece->from / row;
    int64_t ends = piece->first[0] + (piece->from + piece->elements - 1) / row + 1;
    if (begins > *first) *first = begins;
    if (ends < *end) *end = ends;
}

static bool find_box(struct overlapping *walk)
{
    const struct checkpoint_piece *a = walk->source, *b = walk->target;
    if (a->rank != b->rank || a->elements == 0 || b->elements == 0) return false;
    for (int i = 0; i < a->rank; i++) {
        int64_t first = a->first[i] > b->first[i] ? a->first[i] : b->first[i];
        int64_t a_end = a->first[i] + a->count[i], b_end = b->first[i] + b->count[i];
        int64_t end = a_end < b_end ? a_end : b_end;
        if (i == 0) {
            narrow(a, &first, &end);
            narrow(b, &first, &end);
        }
        if (end <= first) return false;
        walk->first[i] = first;
        walk->count[i] = end - first;
    }
    return true;
}

static int64_t flat_at(const struct checkpoint_piece *piece, const int64_t *index)
{
    int64_t flat = 0;
    for (int i = 0; i < piece->rank; i++)
        flat = flat * piece->count[i] + index[i] - piece->first[i];
    return flat - piece->from;
}

static void flush(struct overlapping *walk)
{
    if (walk->run.count == 0) return;
    walk->total += walk->run.count;
    if (walk->visit) walk->visit(walk->context, &walk->run);
    walk->run.count = 0;
}

static void add_row(struct overlapping *walk, const int64_t *index, int64_t length)
{
    struct checkpoint_run row = {flat_at(walk->source, index), flat_at(walk->target, index),
                                 length};
    int64_t before = 0;
    if (row.from < 0) before = -row.from;
    if (row.to < 0 && -row.to > before) before = -row.to;
    row.from += before;
    row.to += before;
    row.count -= before;
    int64_t most = walk->source->elements - row.from;
    if (walk->target->elements - row.to < most) most = walk->target->elements - row.to;
    if (row.count > most) row.count = most;
    if (row.count <= 0) return;
    bool goes_on = walk->run.count > 0 && row.from == walk->run.from + walk->run.count &&
                   row.to == walk->run.to + walk->run.count;
    if (goes_on) {
        walk->run.count += row.count;
        return;
    }
    flush(walk);
    walk->run = row;
}

int64_t checkpoint_overlap(const struct checkpoint_piece *source,
                           const struct checkpoint_piece *target,
                           void (*visit)(void *context, const struct checkpoint_run *run),
                           void *context)
{
    struct overlapping walk = {
        .source = source, .target = target, .visit = visit, .context = context};
    if (!find_box(&walk)) return 0;
    int last = source->rank - 1;
    int64_t index[TENSOR_RANK_MAX];
    for (int i = 0; i <= last; i++)
        index[i] = walk.first[i];
    for (bool more = true; more;) {
        add_row(&walk, index, walk.count[last]);
        more = false;
        for (int i = last - 1; i >= 0 && !more; i--) {
            more = ++index[i] < walk.first[i] + walk.count[i];
            if (!more) index[i] = walk.first[i];
        }
    }
    flush(&walk);
    return walk.total;
}

int64_t checkpoint_elements_wanted(const struct checkpoint_piece *piece, int64_t vocab)
{
    int dim = piece->vocab_dim;
    if (dim < 0 || piece->first[dim] + piece->count[dim] <= vocab) return piece->elements;
    struct checkpoint_piece model = *piece;
    model.first[dim] = 0;
    model.count[dim] = vocab;
    model.from = 0;
    model.elements = checkpoint_box_elements(&model);
    return checkpoint_overlap(&model, piece, NULL, NULL);
}
