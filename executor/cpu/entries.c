#include "executor/cpu/array.h"
#include "executor/cpu/functions.h"
#include "executor/cpu/sums.h"

#include <assert.h>

// What tokens are pooled to (models/op_pool.h): an entry at a time, all of its channels together.

struct pooling {
    int64_t batch, tokens, entries, rate, width,
        channels;  // channels of a token, width of an entry
    const REAL *x, *gate, *bias;
    bool overlaps;
    REAL *largest, *sum, *mean;  // [width]
};

// One token of an entry: where its numbers for the entry are, and the bias of its place.
struct own_part {
    int64_t at, bias;
};

// Tokens of an entry, those of the one before in front.
static int64_t part_count(const struct pooling *p, int64_t entry)
{
    return p->overlaps && entry > 0 ? 2 * p->rate : p->rate;
}

static struct own_part part_of(const struct pooling *p, int64_t batch, int64_t entry, int64_t i)
{
    int64_t first = entry * p->rate - (part_count(p, entry) - p->rate), token = first + i;
    bool is_own = token >= entry * p->rate;
    int64_t channel = p->overlaps && is_own ? p->width : 0;
    return (struct own_part){(batch * p->tokens + token) * p->channels + channel,
                             token % p->rate * p->channels + channel};
}

FAST static void raise(int64_t width, const REAL *gate, const REAL *bias, REAL *largest)
{
    VECTOR for (int64_t c = 0; c < width; c++)
    {
        REAL score = gate[c] + bias[c];
        largest[c] = score > largest[c] ? score : largest[c];
    }
}

FAST static void add_part(int64_t width, const REAL *const from[3], const REAL *largest, REAL *sum,
                          REAL *out)
{
    const REAL *x = from[0], *gate = from[1], *bias = from[2];
    VECTOR for (int64_t c = 0; c < width; c++)
    {
        REAL weight = real_exp(gate[c] + bias[c] - largest[c]);
        sum[c] += weight;
        out[c] += weight * x[c];
    }
}

FAST static void divide(int64_t width, const REAL *sum, REAL *out)
{
    VECTOR for (int64_t c = 0; c < width; c++) out[c] /= sum[c];
}

// With p the weight of a token: d_x = p d, d_gate = p d (x - out).
FAST static void part_backward(int64_t width, const REAL *const from[4], const REAL *const of[3],
                               REAL *d_x, REAL *const to[2])
{
    const REAL *x = from[0], *gate = from[1], *bias = from[2], *d = from[3];
    const REAL *largest = of[0], *sum = of[1], *out = of[2];
    REAL *d_gate = to[0], *d_bias = to[1];
    VECTOR for (int64_t c = 0; c < width; c++)
    {
        REAL share = real_exp(gate[c] + bias[c] - largest[c]) / sum[c] * d[c];
        REAL slope = share * (x[c] - out[c]);
        d_x[c] += share;
        d_gate[c] += slope;
        d_bias[c] += slope;
    }
}

static void make_entry(const struct pooling *p, int64_t batch, int64_t entry, REAL *out)
{
    assert(entry >= 0 && entry < p->entries && batch < p->batch);
    int64_t parts = part_count(p, entry);
    for (int64_t c = 0; c < p->width; c++) {
        p->largest[c] = -(REAL)HUGE_VAL;
        p->sum[c] = out[c] = 0;
    }
    for (int64_t i = 0; i < parts; i++) {
        struct own_part part = part_of(p, batch, entry, i);
        raise(p->width, p->gate + part.at, p->bias + part.bias, p->largest);
    }
    for (int64_t i = 0; i < parts; i++) {
        struct own_part part = part_of(p, batch, entry, i);
        const REAL *from[3] = {p->x + part.at, p->gate + part.at, p->bias + part.bias};
        add_part(p->width, from, p->largest, p->sum, out);
    }
    divide(p->width, p->sum, out);
}

static const char *open_call(struct cpu_device *device, const struct kernel_call *call, int first,
                             const struct kernel_array *entries, struct pooling *p)
{
    const struct kernel_array *x = &call->inputs[first], *gate = x + 1, *bias = x + 2;
    int64_t rate = call->op->rate;
    if (x->rank != 3 || entries->rank != 3 || bias->rank != 2 || rate < 1 ||
        bias->sizes[0] != rate || bias->sizes[1] != x->sizes[2])
        return "entries are wanted of (batch, seq, rank) and a bias for each of their places";
    if (x->sizes[1] != x->whole[1] || gate->sizes[1] != x->whole[1])
        return "entries are made of whole sequences";
    *p = (struct pooling){.batch = x->sizes[0],
                          .tokens = x->sizes[1],
                          .entries = entries->sizes[1],
                          .rate = rate,
                          .width = entries->sizes[2],
                          .channels = x->sizes[2],
                          .x = x->data,
                          .gate = gate->data,
                          .bias = bias->data};
    p->overlaps = p->channels == 2 * p->width;
    if ((!p->overlaps && p->channels != p->width) || p->entries != p->tokens / rate)
        return "an entry is as wide as what its tokens say, or half of it";
    p->largest = cpu_scratch(device, SCRATCH_ROWS, 3 * p->width * (int64_t)sizeof(REAL));
    if (!p->largest) return cpu_no_memory(device);
    p->sum = p->largest + p->width;
    p->mean = p->sum + p->width;
    return NULL;
}

const char *cpu_pool_entries(struct cpu_device *device, const struct kernel_call *call)
{
    struct pooling p;
    const char *fault = open_call(device, call, 0, &call->outputs[0], &p);
    if (fault) return fault;
    for (int64_t i = 0; i < p.batch * p.entries; i++)
        make_entry(&p, i / p.entries, i % p.entries, (REAL *)call->outputs[0].data + i * p.width);
    return NULL;
}

const char *cpu_pool_entries_backward(struct cpu_device *device, const struct kernel_call *call)
{
    struct pooling p;
    const char *fault = open_call(device, call, 1, &call->inputs[0], &p);
    if (fault) return fault;
    for (int i = 0; i < 3; i++)
        call_begin_sum(call, i);
    REAL *d_x = call->outputs[0].data, *d_gate = call->outputs[1].data;
    REAL *d_bias = call->outputs[2].data;
    for (int64_t i = 0; i < p.batch * p.entries; i++) {
        const REAL *d = (const REAL *)call->inputs[0].data + i * p.width;
        int64_t batch = i / p.entries, entry = i % p.entries;
        make_entry(&p, batch, entry, p.mean);
        for (int64_t n = 0; n < part_count(&p, entry); n++) {
            struct own_part part = part_of(&p, batch, entry, n);
            const REAL *from[4] = {p.x + part.at, p.gate + part.at, p.bias + part.bias, d};
            const REAL *of[3] = {p.largest, p.sum, p.mean};
            REAL *const to[2] = {d_gate + part.at, d_bias + part.bias};
            part_backward(p.width, from, of, d_x + part.at, to);
        }
    }
    return NULL;
}
