#include "executor/cpu/scan.h"
#include "executor/cpu/array.h"
#include "executor/cpu/functions.h"
#include "executor/cpu/sums.h"
#include "executor/scan_call.h"

#include <assert.h>
#include <math.h>

// The recurrence of models/op_scan.h, token after token, one head at a time; a state is a row of
// `state` numbers for each of the head's channels. Backward walks from the last token to the first
// and needs the state in front of each: it keeps one for every `stride` tokens, about the root of
// their number, and makes those between again, a stretch at a time.

// From the call's inputs, x and on; NULL, or what is wrong with them.
static const char *scan_read(struct scan_call *s, const struct kernel_call *call, int first_input)
{
    const struct kernel_array *x = &call->inputs[first_input];
    const struct kernel_array *b = &call->inputs[op_scan_b(call->op)];
    bool by_state = call_is_by_state(call, first_input), is_steady = op_scan_is_steady(call->op);
    const char *fault = call_check_scan(call, first_input);
    if (fault) return fault;
    *s = (struct scan_call){.batch = x->sizes[0],
                            .seq = x->sizes[1],
                            .heads = x->sizes[2],
                            .groups = by_state ? 1 : b->sizes[2],
                            .width = by_state ? 1 : x->sizes[3],
                            .state = array_last(b),
                            .heads_each = by_state ? x->whole[2] : x->whole[2] / b->whole[2],
                            .first_head = x->first[2],
                            .first_group = by_state ? 0 : b->first[2],
                            .rates_each = by_state ? array_last(b) : 1,
                            .is_steady = is_steady,
                            .x = x->data,
                            .dt = is_steady ? NULL : x[1].data,
                            .b = b->data,
                            .c = b[1].data,
                            .a_log = b[2].data,
                            .d = is_steady ? NULL : b[3].data,
                            .stride = scan_stride(x->sizes[1])};
    return NULL;
}

// Both are counted in the whole, where ranks hold parts of heads and of groups.
static int64_t group_of(const struct scan_call *s, int64_t head)
{
    return (s->first_head + head) / s->heads_each - s->first_group;
}

// One token: h = decay h + step x b^T, where each number of the state has its decay.
FAST static void advance(const struct scan_call *s, const REAL *decays, REAL step, const REAL *x,
                         const REAL *b, const REAL *before, REAL *h)
{
    for (int64_t p = 0; p < s->width; p++) {
        const REAL *from = before + p * s->state;
        REAL *to = h + p * s->state, input = step * x[p];
        VECTOR for (int64_t n = 0; n < s->state; n++) to[n] = decays[n] * from[n] + input * b[n];
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

// One head in one sequence: where its rows are, and room for numbers of its state.
struct head_place {
    int64_t head, token;  // token: batch * seq + first
    int64_t group;
    REAL *rates, *decays, *d_decays;  // decays: at the token that was worked on last
};
enum { ROOMS = 3 };

static struct head_place place_of(const struct scan_call *s, int64_t pair, REAL *room)
{
    struct head_place at = {.head = pair % s->heads,
                            .token = pair / s->heads * s->seq,
                            .group = group_of(s, pair % s->heads)};
    assert(at.group >= 0 && at.group < s->groups && "a head's group is here");
    at.rates = room;
    at.decays = at.rates + s->state;
    at.d_decays = at.decays + s->state;
    for (int64_t n = 0; n < s->state; n++) {
        bool is_new = n < s->rates_each;
        REAL a = s->a_log[is_new ? at.head * s->rates_each + n : 0];
        at.rates[n] = !is_new ? at.rates[0] : s->is_steady ? -a : -real_exp(a);
    }
    return at;
}

static int64_t of_head(const struct scan_call *s, const struct head_place *at, int64_t t)
{
    return (at->token + t) * s->heads + at->head;
}
static int64_t of_group(const struct scan_call *s, const struct head_place *at, int64_t t)
{
    return ((at->token + t) * s->groups + at->group) * s->state;
}

static REAL step_of(const struct scan_call *s, int64_t head)
{
    return s->is_steady ? 1 : s->dt[head];
}

static REAL skip_of(const struct scan_call *s, int64_t head)
{
    return s->is_steady ? 0 : s->d[head];
}

static void set_decays(const struct scan_call *s, const struct head_place *at, int64_t t)
{
    REAL step = step_of(s, of_head(s, at, t));
    for (int64_t n = 0; n < s->state; n++)
        at->decays[n] = n < s->rates_each ? real_exp(at->rates[n] * step) : at->decays[0];
}

static void step_to(const struct scan_call *s, const struct head_place *at, int64_t t,
                    const REAL *before, REAL *h)
{
    int64_t head = of_head(s, at, t);
    set_decays(s, at, t);
    advance(s, at->decays, step_of(s, head), s->x + head * s->width, s->b + of_group(s, at, t),
            before, h);
}

const char *cpu_scan(struct cpu_device *device, const struct kernel_call *call)
{
    struct scan_call s;
    const char *fault = scan_read(&s, call, 0);
    if (fault) return fault;
    int64_t bytes = s.width * s.state * (int64_t)sizeof(REAL);
    int64_t room_bytes = ROOMS * s.state * (int64_t)sizeof(REAL);
    REAL *h = cpu_scratch(device, SCRATCH_ROWS, bytes + room_bytes), *y = call->outputs[0].data;
    if (!h) return cpu_no_memory(device);
    for (int64_t i = 0; i < s.batch * s.heads; i++) {
        struct head_place at = place_of(&s, i, h + s.width * s.state);
        memset(h, 0, (size_t)bytes);
        for (int64_t t = 0; t < s.seq; t++) {
            int64_t head = of_head(&s, &at, t);
            step_to(&s, &at, t, h, h);
            read_state(&s, skip_of(&s, at.head), s.x + head * s.width, s.c + of_group(&s, &at, t),
                       h, y + head * s.width);
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
    REAL step = step_of(s, head), d = skip_of(s, at->head), *decays = at->decays,
         *d_decays = at->d_decays;
    REAL *d_x = to->x + head * s->width, *d_b = to->b + group, *d_c = to->c + group;
    REAL d_step = 0, d_d = 0;
    set_decays(s, at, t);
    memset(d_decays, 0, (size_t)s->state * sizeof(REAL));
    for (int64_t p = 0; p < s->width; p++) {
        const REAL *row = h + p * s->state, *from = before + p * s->state;
        REAL *slope = g + p * s->state, out = d_y[head * s->width + p], input = step * x[p];
        VECTOR for (int64_t n = 0; n < s->state; n++)
        {
            slope[n] += out * c[n];
            d_c[n] += out * row[n];
            d_b[n] += input * slope[n];
            d_decays[n] += slope[n] * from[n];
        }
        REAL d_input = sum_of_products(s->state, slope, b);
        d_x[p] = step * d_input + d * out;
        d_step += x[p] * d_input;
        d_d += out * x[p];
        VECTOR for (int64_t n = 0; n < s->state; n++) slope[n] *= decays[n];
    }
    if (s->is_steady) return;
    REAL *d_a_log = to->a_log + at->head * s->rates_each;
    for (int64_t n = 0; n < s->state; n++) {
        REAL d_exponent = d_decays[n] * decays[n] * at->rates[n];
        d_step += d_exponent;
        d_a_log[n % s->rates_each] += d_exponent * step;
    }
    to->dt[head] = d_step;
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
    const struct kernel_array *out = call->outputs, *of_b = out + (s.is_steady ? 1 : 2);
    const struct scan_gradients to = {
        .x = out->data,
        .dt = s.is_steady ? NULL : out[1].data,
        .b = of_b->data,
        .c = of_b[1].data,
        .a_log = s.is_steady ? NULL : of_b[2].data,
        .d = s.is_steady ? NULL : of_b[3].data,
    };
    int64_t each = s.width * s.state, stretches = (s.seq + s.stride - 1) / s.stride;
    int64_t states = stretches + s.stride + 2, numbers = states * each + ROOMS * s.state;
    REAL *memory = cpu_scratch(device, SCRATCH_ROWS, numbers * (int64_t)sizeof(REAL));
    if (!memory) return cpu_no_memory(device);
    const struct room room = {memory, memory + stretches * each, memory + (states - 1) * each};
    for (int output = s.is_steady ? 1 : 2; output < call->output_count; output++)
        call_begin_sum(call, output);
    for (int64_t i = 0; i < s.batch * s.heads; i++) {
        struct head_place at = place_of(&s, i, memory + states * each);
        head_backward(&s, &to, &at, call->inputs[0].data, &room);
    }
    return NULL;
}
