#include "executor/cpu/scan.h"
#include "executor/cpu/array.h"
#include "executor/cpu/functions.h"
#include "executor/cpu/sums.h"
#include "executor/scan_call.h"

#include <math.h>

// The recurrence of models/op_scan.h, token after token, one head at a time; a state is a row of
// `state` numbers for each of the head's channels. Backward walks from the last token to the first
// and needs the state in front of each: it keeps one for every `stride` tokens, about the root of
// their number, and makes those between again, a stretch at a time.

const char *scan_read(struct scan_call *s, const struct kernel_call *call, int first_input)
{
    const struct kernel_array *x = &call->inputs[first_input], *dt = x + 1, *b = x + 2;
    const char *fault = call_check_scan(call, first_input);
    if (fault) return fault;
    *s = (struct scan_call){.batch = x->sizes[0],
                            .seq = x->sizes[1],
                            .heads = x->sizes[2],
                            .groups = b->sizes[2],
                            .width = x->sizes[3],
                            .state = b->sizes[3],
                            .heads_each = x->whole[2] / b->whole[2],
                            .first_head = x->first[2],
                            .first_group = b->first[2],
                            .x = x->data,
                            .dt = dt->data,
                            .b = b->data,
                            .c = call->inputs[first_input + 3].data,
                            .a_log = call->inputs[first_input + 4].data,
                            .d = call->inputs[first_input + 5].data,
                            .stride = scan_stride(x->sizes[1])};
    return NULL;
}

static int64_t group_of(const struct scan_call *s, int64_t head)
{
    return (s->first_head + head) / s->heads_each - s->first_group;
}

// One token: h = decay h + step x b^T.
FAST static void advance(const struct scan_call *s, REAL decay, REAL step, const REAL *x,
                         const REAL *b, const REAL *before, REAL *h)
{
    for (int64_t p = 0; p < s->width; p++) {
        const REAL *from = before + p * s->state;
        REAL *to = h + p * s->state, input = step * x[p];
        VECTOR for (int64_t n = 0; n < s->state; n++) to[n] = decay * from[n] + input * b[n];
    }
}

FAST static void read_state(const struct scan_call *s, REAL d, const REAL *x, const REAL *c,
                            const REAL *h, REAL *y)
{
    for (int64_t p = 0; p < s->width; p++) {
        const REAL *row = h + p * s->state;
        y[p] = sum_of_products(s->state, row, c) + d * x[p];
    }
}

// Of one head in one sequence: where its rows are.
struct head_place {
    int64_t head, token;  // token: batch * seq + first
    int64_t group;
};

static int64_t of_head(const struct scan_call *s, const struct head_place *at, int64_t t)
{
    return (at->token + t) * s->heads + at->head;
}
static int64_t of_group(const struct scan_call *s, const struct head_place *at, int64_t t)
{
    return ((at->token + t) * s->groups + at->group) * s->state;
}

static REAL decay_of(const struct scan_call *s, const struct head_place *at, int64_t t)
{
    return real_exp(-real_exp(s->a_log[at->head]) * s->dt[of_head(s, at, t)]);
}

static void step_to(const struct scan_call *s, const struct head_place *at, int64_t t,
                    const REAL *before, REAL *h)
{
    int64_t head = of_head(s, at, t);
    advance(s, decay_of(s, at, t), s->dt[head], s->x + head * s->width, s->b + of_group(s, at, t),
            before, h);
}

const char *cpu_scan(struct cpu_device *device, const struct kernel_call *call)
{
    struct scan_call s;
    const char *fault = scan_read(&s, call, 0);
    if (fault) return fault;
    int64_t bytes = s.width * s.state * (int64_t)sizeof(REAL);
    REAL *h = cpu_scratch(device, SCRATCH_ROWS, bytes), *y = call->outputs[0].data;
    if (!h) return cpu_no_memory(device);
    for (int64_t i = 0; i < s.batch * s.heads; i++) {
        struct head_place at = {i % s.heads, i / s.heads * s.seq, group_of(&s, i % s.heads)};
        memset(h, 0, (size_t)bytes);
        for (int64_t t = 0; t < s.seq; t++) {
            int64_t head = of_head(&s, &at, t);
            step_to(&s, &at, t, h, h);
            read_state(&s, s.d[at.head], s.x + head * s.width, s.c + of_group(&s, &at, t), h,
                       y + head * s.width);
        }
    }
    return NULL;
}

struct scan_gradients {
    REAL *x, *dt, *b, *c, *a_log, *d;
};

// What one token hands to its inputs, given the gradient of the state behind it but for what the
// token's own result says, which is added here; leaves that of the state in front of it.
FAST static void token_backward(const struct scan_call *s, const struct scan_gradients *to,
                                const struct head_place *at, int64_t t, const REAL *d_y,
                                const REAL *before, const REAL *h, REAL *g)
{
    int64_t head = of_head(s, at, t), group = of_group(s, at, t);
    const REAL *x = s->x + head * s->width, *b = s->b + group, *c = s->c + group;
    REAL step = s->dt[head], d = s->d[at->head], decay = decay_of(s, at, t);
    REAL *d_x = to->x + head * s->width, *d_b = to->b + group, *d_c = to->c + group;
    REAL d_step = 0, d_decay = 0, d_d = 0;
    for (int64_t p = 0; p < s->width; p++) {
        const REAL *row = h + p * s->state, *from = before + p * s->state;
        REAL *slope = g + p * s->state, out = d_y[head * s->width + p], input = step * x[p];
        VECTOR for (int64_t n = 0; n < s->state; n++)
        {
            slope[n] += out * c[n];
            d_c[n] += out * row[n];
            d_b[n] += input * slope[n];
        }
        REAL d_input = sum_of_products(s->state, slope, b);
        d_decay += sum_of_products(s->state, slope, from);
        d_x[p] = step * d_input + d * out;
        d_step += x[p] * d_input;
        d_d += out * x[p];
        VECTOR for (int64_t n = 0; n < s->state; n++) slope[n] *= decay;
    }
    REAL rate = -real_exp(s->a_log[at->head]);
    to->dt[head] = d_step + d_decay * decay * rate;
    to->a_log[at->head] += d_decay * decay * step * rate;
    to->d[at->head] += d_d;
}

// Room for backward of one head: states that are kept, those of a stretch with the one in front of
// it, and the gradient.
struct room {
    REAL *kept, *stretch, *gradient;
};

static void head_backward(const struct scan_call *s, const struct scan_gradients *to,
                          const struct head_place *at, const REAL *d_y, const struct room *room)
{
    int64_t each = s->width * s->state, stretches = (s->seq + s->stride - 1) / s->stride;
    size_t bytes = (size_t)each * sizeof(REAL);
    memset(room->kept, 0, bytes);
    for (int64_t i = 1; i < stretches; i++) {
        REAL *h = room->kept + i * each;
        memcpy(h, h - each, bytes);
        for (int64_t t = (i - 1) * s->stride; t < i * s->stride; t++)
            step_to(s, at, t, h, h);
    }
    memset(room->gradient, 0, bytes);
    for (int64_t i = stretches - 1; i >= 0; i--) {
        int64_t first = i * s->stride, left = s->seq - first;
        int64_t count = left < s->stride ? left : s->stride;
        memcpy(room->stretch, room->kept + i * each, bytes);
        for (int64_t t = 0; t < count; t++)
            step_to(s, at, first + t, room->stretch + t * each, room->stretch + (t + 1) * each);
        for (int64_t t = count - 1; t >= 0; t--)
            token_backward(s, to, at, first + t, d_y, room->stretch + t * each,
                           room->stretch + (t + 1) * each, room->gradient);
    }
}

const char *cpu_scan_backward(struct cpu_device *device, const struct kernel_call *call)
{
    struct scan_call s;
    const char *fault = scan_read(&s, call, 1);
    if (fault) return fault;
    const struct scan_gradients to = {call->outputs[0].data, call->outputs[1].data,
                                      call->outputs[2].data, call->outputs[3].data,
                                      call->outputs[4].data, call->outputs[5].data};
    int64_t each = s.width * s.state, stretches = (s.seq + s.stride - 1) / s.stride;
    int64_t states = stretches + s.stride + 2;
    REAL *memory = cpu_scratch(device, SCRATCH_ROWS, states * each * (int64_t)sizeof(REAL));
    if (!memory) return cpu_no_memory(device);
    const struct room room = {memory, memory + stretches * each, memory + (states - 1) * each};
    for (int output = 2; output < call->output_count; output++)
        call_begin_sum(call, output);
    for (int64_t i = 0; i < s.batch * s.heads; i++) {
        struct head_place at = {i % s.heads, i / s.heads * s.seq, group_of(&s, i % s.heads)};
        head_backward(&s, &to, &at, call->inputs[0].data, &room);
    }
    return NULL;
}
