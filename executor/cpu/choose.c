#include "executor/cpu/array.h"
#include "executor/cpu/sums.h"
#include "executor/cpu/visible.h"

// The choice of keys (models/op_choose.h). Each product is summed by itself, so that a score, and
// with it the choice, does not depend on how many queries a rank has.

struct choosing {
    const struct kernel_call *call;
    int64_t queries, keys, heads, width, most;
    const struct kernel_array *q, *k, *w;
    REAL *scores, *heap;  // [keys], [most]
};

FAST static REAL score(int64_t heads, int64_t width, const REAL *q, const REAL *w, const REAL *k)
{
    REAL sum = 0;
    for (int64_t h = 0; h < heads; h++) {
        REAL product = sum_of_products(width, q + h * width, k);
        sum += product > 0 ? w[h] * product : 0;
    }
    return sum;
}

// The smallest is in front. What is no number is never larger.
static void heap_sink(REAL *heap, int64_t count, int64_t at)
{
    for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && heap[child + 1] < heap[child]) child++;
        if (!(heap[child] < heap[at])) return;
        REAL larger = heap[at];
        heap[at] = heap[child];
        heap[child] = larger;
        at = child;
    }
}

// The least of the `most` largest of more scores than that.
static REAL threshold_of(const struct choosing *c, int64_t count)
{
    memcpy(c->heap, c->scores, (size_t)c->most * sizeof(REAL));
    for (int64_t i = c->most / 2; i >= 0; i--)
        heap_sink(c->heap, c->most, i);
    for (int64_t i = c->most; i < count; i++) {
        if (!(c->scores[i] > c->heap[0])) continue;
        c->heap[0] = c->scores[i];
        heap_sink(c->heap, c->most, 0);
    }
    return c->heap[0];
}

// The keys of `range`, whose scores are there, that are chosen, by their number in the whole.
static void write_chosen(const struct choosing *c, struct range range, REAL *chosen)
{
    int64_t count = range.end - range.first, written = 0, larger = 0;
    bool takes_all = count <= c->most;
    REAL threshold = takes_all ? 0 : threshold_of(c, count);
    for (int64_t i = 0; i < count && !takes_all; i++)
        larger += c->scores[i] > threshold;
    int64_t equal = c->most - larger;  // so many of those that are no larger are chosen
    for (int64_t i = 0; i < count && written < c->most; i++) {
        bool is_larger = takes_all || c->scores[i] > threshold;
        bool is_equal = !is_larger && c->scores[i] >= threshold && equal > 0;
        if (!is_larger && !is_equal) continue;
        equal -= is_equal;
        chosen[written++] = (REAL)(c->k->first[1] + range.first + i);
    }
    while (written < c->most)
        chosen[written++] = -1;
}

// Entries whose last token is no further than the query are all seen.
static struct range seen_by(const struct choosing *c, int64_t at, int64_t document)
{
    const struct op *op = c->call->op;
    if (op->rate == 0) return visible(op, at, c->k->first[1], c->keys, document);
    int64_t end = (at + 1) / op->rate;
    return (struct range){0, end < c->keys ? end : c->keys};
}

static void choose_row(const struct choosing *c, int64_t batch, int64_t query)
{
    const struct kernel_array *q = c->q, *k = c->k, *w = c->w;
    int64_t row = batch * c->queries + query, at = q->first[1] + query;
    int64_t document = call_document(c->call, q->first[0] + batch, at);
    struct range range = seen_by(c, at, document);
    const REAL *heads = (const REAL *)q->data + row * array_stride(q, 1);
    const REAL *weights = (const REAL *)w->data + row * array_stride(w, 1);
    const REAL *keys = (const REAL *)k->data + batch * c->keys * array_stride(k, 1);
    for (int64_t i = range.first; i < range.end; i++)
        c->scores[i - range.first] =
            score(c->heads, c->width, heads, weights, keys + i * array_stride(k, 1));
    write_chosen(c, range, (REAL *)c->call->outputs[0].data + row * c->most);
}

const char *cpu_choose(struct cpu_device *device, const struct kernel_call *call)
{
    const struct kernel_array *inputs = call->inputs;
    struct choosing c = {.call = call, .q = inputs, .k = inputs + 1, .w = inputs + 2};
    if (c.q->rank != 4 || c.k->rank != 3 || c.w->rank != 3 || c.k->sizes[2] != c.q->sizes[3])
        return "a choice wants queries (batch, seq, heads, width) and keys (batch, seq, width)";
    if (c.k->sizes[1] != c.k->whole[1]) return "a choice wants all keys";
    c.queries = c.q->sizes[1];
    c.keys = c.k->sizes[1];
    c.heads = c.q->sizes[2];
    c.width = c.q->sizes[3];
    c.most = array_last(&call->outputs[0]);
    int64_t bytes = (c.keys + c.most) * (int64_t)sizeof(REAL);
    c.scores = cpu_scratch(device, SCRATCH_SCORES, bytes);
    if (!c.scores) return cpu_no_memory(device);
    c.heap = c.scores + c.keys;
    for (int64_t i = 0; i < c.q->sizes[0] * c.queries; i++)
        choose_row(&c, i / c.queries, i % c.queries);
    return NULL;
}

// A choice has no derivative.
const char *cpu_choose_backward(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    for (int i = 0; i < call->output_count; i++)
        call_begin_sum(call, i);
    return NULL;
}
