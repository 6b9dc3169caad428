#include "executor/cpu/array.h"
#include "executor/cpu/functions.h"
#include "executor/cpu/sums.h"
#include "executor/scan_call.h"

#include <assert.h>
#include <math.h>

// The recurrence of models/op_delta.h, token after token, one head at a time, as
// executor/cpu/scan.c has that of a scan: a state is a row of `state` numbers for each of the
// head's channels, and backward keeps one for every `stride` tokens.

struct delta {
    int64_t batch, seq, heads, groups, width, state;  // here
    int64_t heads_each, first_head, first_group;      // heads of a group; where both begin
    int64_t decays;                                   // of a token and head: 1, or `state`
    int64_t stride;
    REAL epsilon;  // of lengths
    const REAL *v, *dt, *k, *q, *a_log, *beta;
};

static const char *delta_read(struct delta *d, const struct kernel_call *call, int first_input)
{
    const struct kernel_array *v = &call->inputs[first_input], *dt = v + 1, *k = v + 2;
    const char *fault = call_check_delta(call, first_input);
    if (fault) return fault;
    *d = (struct delta){.batch = v->sizes[0],
                        .seq = v->sizes[1],
                        .heads = v->sizes[2],
                        .groups = k->sizes[2],
                        .width = v->sizes[3],
                        .state = k->sizes[3],
                        .heads_each = v->whole[2] / k->whole[2],
                        .first_head = v->first[2],
                        .first_group = k->first[2],
                        .decays = dt->rank == 4 ? dt->sizes[3] : 1,
                        .stride = scan_stride(v->sizes[1]),
                        .epsilon = (REAL)call->op->scalar,
                        .v = v->data,
                        .dt = dt->data,
                        .k = k->data,
                        .q = call->inputs[first_input + 3].data,
                        .a_log = call->inputs[first_input + 4].data,
                        .beta = call->inputs[first_input + 5].data};
    return NULL;
}

// Room for one head: rows of `state` numbers for a token's key, query, decay and the gradients of
// the three, and states.
struct room {
    REAL *k, *q, *decay, *d_k, *d_q, *d_decay;
    REAL *kept, *stretch, *gradient;
};
enum { ROWS = 6 };

static bool make_room(struct room *room, struct cpu_device *device, const struct delta *d,
                      int64_t kept, int64_t stretch, int64_t gradients)
{
    assert(kept > 0 && stretch >= 0 && gradients >= 0);
    int64_t each = d->width * d->state, states = kept + stretch + gradients;
    int64_t numbers = ROWS * d->state + states * each;
    REAL *memory = cpu_scratch(device, SCRATCH_ROWS, numbers * (int64_t)sizeof(REAL));
    if (!memory) return false;
    REAL *states_at = memory + ROWS * d->state;
    *room = (struct room){.k = memory,
                          .q = memory + d->state,
                          .decay = memory + 2 * d->state,
                          .d_k = memory + 3 * d->state,
                          .d_q = memory + 4 * d->state,
                          .d_decay = memory + 5 * d->state,
                          .kept = states_at,
                          .stretch = states_at + kept * each,
                          .gradient = states_at + (kept + stretch) * each};
    return true;
}

// Of one head in one sequence: where its rows are.
struct head_place {
    int64_t head, token;  // token: batch * seq
    int64_t group;
};

static struct head_place place_of(const struct delta *d, int64_t i)
{
    int64_t head = i % d->heads;
    int64_t group = (d->first_head + head) / d->heads_each - d->first_group;
    assert(group >= 0 && group < d->groups && "a head's keys are here");
    return (struct head_place){head, i / d->heads * d->seq, group};
}
static int64_t of_head(const struct delta *d, const struct head_place *at, int64_t t)
{
    return (at->token + t) * d->heads + at->head;
}
static int64_t of_group(const struct delta *d, const struct head_place *at, int64_t t)
{
    return ((at->token + t) * d->groups + at->group) * d->state;
}

FAST static REAL over_length(const struct delta *d, const REAL *row)
{
    REAL squares = SUM(n, 0, d->state, row[n] * row[n]);
    return 1 / (REAL)sqrt((double)(squares + d->epsilon));
}

static REAL query_length(const struct delta *d)
{
    return 1 / (REAL)sqrt((double)d->state);
}

// The token's key and query, as long as they are meant to be, and its decays.
static void load_token(const struct delta *d, const struct head_place *at, int64_t t,
                       const struct room *room)
{
    const REAL *k = d->k + of_group(d, at, t), *q = d->q + of_group(d, at, t);
    const REAL *dt = d->dt + of_head(d, at, t) * d->decays;
    REAL by_k = over_length(d, k), by_q = over_length(d, q) * query_length(d);
    REAL rate = -real_exp(d->a_log[at->head]);
    for (int64_t n = 0; n < d->state; n++) {
        room->k[n] = k[n] * by_k;
        room->q[n] = q[n] * by_q;
        room->decay[n] = real_exp(rate * dt[d->decays > 1 ? n : 0]);
    }
}

// What the decayed row says of the key; `row` may be the decayed one itself.
FAST static REAL recall(const struct delta *d, const struct room *room, const REAL *row)
{
    return SUM(n, 0, d->state, row[n] * room->decay[n] * room->k[n]);
}

FAST static void step_to(const struct delta *d, const struct head_place *at, int64_t t,
                         const struct room *room, const REAL *before, REAL *after)
{
    int64_t head = of_head(d, at, t);
    const REAL *v = d->v + head * d->width;
    load_token(d, at, t, room);
    for (int64_t p = 0; p < d->width; p++) {
        const REAL *from = before + p * d->state;
        REAL *to = after + p * d->state, added = d->beta[head] * (v[p] - recall(d, room, from));
        VECTOR for (int64_t n = 0; n < d->state; n++) to[n] =
            from[n] * room->decay[n] + added * room->k[n];
    }
}

const char *cpu_delta(struct cpu_device *device, const struct kernel_call *call)
{
    struct delta d;
    struct room room;
    const char *fault = delta_read(&d, call, 0);
    if (fault) return fault;
    if (!make_room(&room, device, &d, 1, 0, 0)) return cpu_no_memory(device);
    REAL *state = room.kept, *y = call->outputs[0].data;
    for (int64_t i = 0; i < d.batch * d.heads; i++) {
        struct head_place at = place_of(&d, i);
        memset(state, 0, (size_t)(d.width * d.state) * sizeof(REAL));
        for (int64_t t = 0; t < d.seq; t++) {
            step_to(&d, &at, t, &room, state, state);
            REAL *out = y + of_head(&d, &at, t) * d.width;
            for (int64_t p = 0; p < d.width; p++) {
                const REAL *row = state + p * d.state;
                out[p] = SUM(n, 0, d.state, row[n] * room.q[n]);
            }
        }
    }
    return NULL;
}

struct delta_gradients {
    REAL *v, *dt, *k, *q, *a_log, *beta;
};

// One channel of a token. The gradient of its row of the state behind the token, but for what the
// token's own result says, becomes that of the row in front of it. Returns what beta gets.
FAST static REAL channel_backward(const struct delta *d, const struct room *room, REAL out,
                                  REAL value, REAL beta, REAL *d_value, const REAL *before,
                                  const REAL *after, REAL *slope)
{
    REAL error = value - recall(d, room, before);
    VECTOR for (int64_t n = 0; n < d->state; n++)
    {
        slope[n] += out * room->q[n];
        room->d_q[n] += out * after[n];
    }
    REAL d_added = SUM(n, 0, d->state, slope[n] * room->k[n]);
    REAL d_recalled = -beta * d_added, added = beta * error;
    *d_value = beta * d_added;
    VECTOR for (int64_t n = 0; n < d->state; n++)
    {
        room->d_k[n] += added * slope[n] + d_recalled * before[n] * room->decay[n];
        slope[n] += d_recalled * room->k[n];
        room->d_decay[n] += slope[n] * before[n];
        slope[n] *= room->decay[n];
    }
    return d_added * error;
}

// The gradient of what a row was before it was brought to `length`; `d_scaled` is that of the
// result.
FAST static void length_backward(const struct delta *d, const REAL *row, REAL length,
                                 const REAL *d_scaled, REAL *d_row)
{
    REAL by = over_length(d, row), along = SUM(n, 0, d->state, row[n] * d_scaled[n]);
    REAL back = along * by * by;
    VECTOR for (int64_t n = 0; n < d->state; n++) d_row[n] +=
        length * by * (d_scaled[n] - back * row[n]);
}

// What the token's rows have gathered goes to the inputs.
static void store_token(const struct delta *d, const struct delta_gradients *to,
                        const struct head_place *at, int64_t t, const struct room *room)
{
    int64_t step = of_head(d, at, t) * d->decays, group = of_group(d, at, t);
    const REAL *dt = d->dt + step;
    REAL rate = -real_exp(d->a_log[at->head]), *d_dt = to->dt + step;
    length_backward(d, d->k + group, 1, room->d_k, to->k + group);
    length_backward(d, d->q + group, query_length(d), room->d_q, to->q + group);
    for (int64_t n = 0; n < d->decays; n++)
        d_dt[n] = 0;
    for (int64_t n = 0; n < d->state; n++) {
        int64_t of = d->decays > 1 ? n : 0;
        REAL d_exponent = room->d_decay[n] * room->decay[n];
        d_dt[of] += d_exponent * rate;
        to->a_log[at->head] += d_exponent * rate * dt[of];
    }
}

static void token_backward(const struct delta *d, const struct delta_gradients *to,
                           const struct head_place *at, int64_t t, const REAL *d_y,
                           const struct room *room, const REAL *before)
{
    int64_t head = of_head(d, at, t), each = d->width * d->state;
    load_token(d, at, t, room);
    memset(room->d_k, 0, (size_t)(3 * d->state) * sizeof(REAL));  // with d_q and d_decay behind it
    REAL d_beta = 0;
    for (int64_t p = 0; p < d->width; p++) {
        int64_t row = p * d->state, at_value = head * d->width + p;
        d_beta += channel_backward(d, room, d_y[at_value], d->v[at_value], d->beta[head],
                                   &to->v[at_value], before + row, before + each + row,
                                   room->gradient + row);
    }
    to->beta[head] = d_beta;
    store_token(d, to, at, t, room);
}

static void head_backward(const struct delta *d, const struct delta_gradients *to,
                          const struct head_place *at, const REAL *d_y, const struct room *room)
{
    int64_t each = d->width * d->state, stretches = (d->seq + d->stride - 1) / d->stride;
    size_t bytes = (size_t)each * sizeof(REAL);
    memset(room->kept, 0, bytes);
    for (int64_t i = 1; i < stretches; i++) {
        REAL *state = room->kept + i * each;
        memcpy(state, state - each, bytes);
        for (int64_t t = (i - 1) * d->stride; t < i * d->stride; t++)
            step_to(d, at, t, room, state, state);
    }
    memset(room->gradient, 0, bytes);
    for (int64_t i = stretches - 1; i >= 0; i--) {
        int64_t first = i * d->stride, left = d->seq - first;
        int64_t count = left < d->stride ? left : d->stride;
        memcpy(room->stretch, room->kept + i * each, bytes);
        for (int64_t t = 0; t < count; t++)
            step_to(d, at, first + t, room, room->stretch + t * each,
                    room->stretch + (t + 1) * each);
        for (int64_t t = count - 1; t >= 0; t--)
            token_backward(d, to, at, first + t, d_y, room, room->stretch + t * each);
    }
}

const char *cpu_delta_backward(struct cpu_device *device, const struct kernel_call *call)
{
    struct delta d;
    struct room room;
    const char *fault = delta_read(&d, call, 1);
    if (fault) return fault;
    const struct delta_gradients to = {call->outputs[0].data, call->outputs[1].data,
                                       call->outputs[2].data, call->outputs[3].data,
                                       call->outputs[4].data, call->outputs[5].data};
    int64_t stretches = (d.seq + d.stride - 1) / d.stride;
    if (!make_room(&room, device, &d, stretches, d.stride + 1, 1)) return cpu_no_memory(device);
    for (int output = 2; output < 5; output++)
        call_begin_sum(call, output);
    for (int64_t i = 0; i < d.batch * d.heads; i++) {
        struct head_place at = place_of(&d, i);
        head_backward(&d, &to, &at, call->inputs[0].data, &room);
    }
    return NULL;
}
