#include "tests/support/interpreter_math.h"

#include <math.h>

// The gated delta rule without a state: what a token adds is what its value lacks of what the
// tokens before it added, which is a triangular system over the sequence (Yang, Kautz and
// Hatamizadeh 2024, arXiv 2412.06464, section 3.2), solved one token after the other. Backward is
// its adjoint. Every pair of tokens is looked at, so that nothing is shared with a kernel that
// walks along the sequence with a state.

enum { V, DT, K, Q, A_LOG, BETA };

// One head of one sequence.
struct system {
    struct interpreter *in;
    const struct op *op;
    const int *of;             // inputs
    int64_t index[DIM_COUNT];  // of the head
    int64_t seq, width, state;
    double *added, *error;  // by token and channel: what it adds; v less what is known
    double *d_added;        // the gradient of it
    double *units[Q + 1], *d_units[Q + 1], *lengths[Q + 1];  // of K and Q
    double *by_key, *by_query;  // by late and early token: how far what the early adds is read
};

static double *at(struct system *s, int tensor, int64_t token, int64_t n)
{
    int64_t index[DIM_COUNT];
    for (int d = 0; d < DIM_COUNT; d++)
        index[d] = s->index[d];
    index[DIM_SEQ] = token;
    index[DIM_STATE] = index[DIM_HEAD_DIM] = n;
    return interpreter_at(s->in, tensor, index);
}

static double rate(struct system *s)
{
    return -exp(*at(s, s->of[A_LOG], 0, 0));
}

static double decay(struct system *s, int64_t late, int64_t early, int64_t n)
{
    double sum = 0;
    for (int64_t t = early + 1; t <= late; t++)
        sum += *at(s, s->of[DT], t, n);
    return exp(rate(s) * sum);
}

// A key or query over its own length; queries are shorter.
static void make_units(struct system *s)
{
    for (int input = K; input <= Q; input++) {
        for (int64_t t = 0; t < s->seq; t++) {
            double squares = s->op->scalar;
            for (int64_t n = 0; n < s->state; n++)
                squares += pow(*at(s, s->of[input], t, n), 2);
            s->lengths[input][t] = sqrt(squares);
            for (int64_t n = 0; n < s->state; n++)
                s->units[input][t * s->state + n] = *at(s, s->of[input], t, n) / sqrt(squares) /
                                                    (input == Q ? sqrt((double)s->state) : 1);
        }
    }
}

// From the gradients of units to those of inputs: each unit reads all numbers of its row.
static void spread_units(struct system *s)
{
    for (int input = K; input <= Q; input++) {
        double share = input == Q ? 1 / sqrt((double)s->state) : 1;
        for (int64_t t = 0; t < s->seq; t++) {
            double length = s->lengths[input][t];
            for (int64_t i = 0; i < s->state * s->state; i++) {
                int64_t of = i / s->state, from = i % s->state;
                double slope = (of == from) / length - *at(s, s->of[input], t, of) *
                                                           *at(s, s->of[input], t, from) /
                                                           pow(length, 3);
                *at(s, s->op->outputs[input], t, from) +=
                    share * slope * s->d_units[input][t * s->state + of];
            }
        }
    }
}

static double read_pair(struct system *s, int input, int64_t late, int64_t early)
{
    double sum = 0;
    for (int64_t n = 0; n < s->state; n++)
        sum += s->units[input][late * s->state + n] * s->units[K][early * s->state + n] *
               decay(s, late, early, n);
    return sum;
}

static void solve(struct system *s)
{
    for (int64_t t = 0; t < s->seq; t++) {
        for (int64_t e = 0; e <= t; e++) {
            s->by_key[t * s->seq + e] = e < t ? read_pair(s, K, t, e) : 0;
            s->by_query[t * s->seq + e] = read_pair(s, Q, t, e);
        }
        for (int64_t p = 0; p < s->width; p++) {
            double known = 0;
            for (int64_t e = 0; e < t; e++)
                known += s->by_key[t * s->seq + e] * s->added[e * s->width + p];
            s->error[t * s->width + p] = *at(s, s->of[V], t, p) - known;
            s->added[t * s->width + p] = *at(s, s->of[BETA], t, 0) * s->error[t * s->width + p];
        }
    }
}

static void read_results(struct system *s)
{
    for (int64_t t = 0; t < s->seq; t++) {
        for (int64_t p = 0; p < s->width; p++) {
            double *y = at(s, s->op->outputs[0], t, p);
            *y = 0;
            for (int64_t e = 0; e <= t; e++)
                *y += s->by_query[t * s->seq + e] * s->added[e * s->width + p];
        }
    }
}

// From the last token to the first: who reads what a token adds is behind it.
static void solve_adjoint(struct system *s)
{
    const int *to = s->op->outputs;
    for (int64_t e = s->seq - 1; e >= 0; e--) {
        double beta = *at(s, s->of[BETA], e, 0);
        for (int64_t p = 0; p < s->width; p++) {
            double d = 0;
            for (int64_t t = e; t < s->seq; t++) {
                d += s->by_query[t * s->seq + e] * *at(s, s->op->inputs[0], t, p);
                if (t > e)
                    d -= *at(s, s->of[BETA], t, 0) * s->by_key[t * s->seq + e] *
                         s->d_added[t * s->width + p];
            }
            s->d_added[e * s->width + p] = d;
            *at(s, to[V], e, p) += beta * d;
            *at(s, to[BETA], e, 0) += d * s->error[e * s->width + p];
        }
    }
}

// Of a pair's product with the gradient d, what its factors get.
static void pair_adjoint(struct system *s, int input, int64_t late, int64_t early, double d)
{
    const int *to = s->op->outputs;
    for (int64_t n = 0; n < s->state; n++) {
        double far = decay(s, late, early, n) * d;
        double x = s->units[input][late * s->state + n], k = s->units[K][early * s->state + n];
        s->d_units[input][late * s->state + n] += far * k;
        s->d_units[K][early * s->state + n] += far * x;
        for (int64_t t = early + 1; t <= late; t++) {
            *at(s, to[DT], t, n) += far * x * k * rate(s);
            *at(s, to[A_LOG], 0, 0) += far * x * k * rate(s) * *at(s, s->of[DT], t, n);
        }
    }
}

static void spread(struct system *s)
{
    for (int64_t t = 0; t < s->seq; t++) {
        for (int64_t e = 0; e <= t; e++) {
            double d_key = 0, d_query = 0;
            for (int64_t p = 0; p < s->width; p++) {
                double added = s->added[e * s->width + p];
                d_query += *at(s, s->op->inputs[0], t, p) * added;
                d_key -= *at(s, s->of[BETA], t, 0) * s->d_added[t * s->width + p] * added;
            }
            pair_adjoint(s, Q, t, e, d_query);
            if (e < t) pair_adjoint(s, K, t, e, d_key);
        }
    }
}

void interpreter_delta(struct interpreter *in, const struct op *op)
{
    bool is_forward = op->kind == OP_DELTA;
    struct system s = {.in = in, .op = op, .of = op->inputs + (is_forward ? 0 : 1)};
    int64_t heads = interpreter_size(in, s.of[V], DIM_HEAD);
    int64_t groups = interpreter_size(in, s.of[K], DIM_KV_HEAD);
    int64_t batch = interpreter_size(in, s.of[V], DIM_BATCH);
    s.seq = interpreter_size(in, s.of[V], DIM_SEQ);
    s.width = interpreter_size(in, s.of[V], DIM_HEAD_DIM);
    s.state = interpreter_size(in, s.of[K], DIM_STATE);
    s.added = ARENA_NEW(in->arena, double, s.seq *s.width);
    s.error = ARENA_NEW(in->arena, double, s.seq *s.width);
    s.d_added = ARENA_NEW(in->arena, double, s.seq *s.width);
    s.by_key = ARENA_NEW(in->arena, double, s.seq *s.seq);
    s.by_query = ARENA_NEW(in->arena, double, s.seq *s.seq);
    for (int64_t i = 0; i < batch * heads; i++) {
        for (int input = K; input <= Q; input++) {
            s.units[input] = ARENA_NEW(in->arena, double, s.seq *s.state);
            s.d_units[input] = ARENA_NEW(in->arena, double, s.seq *s.state);
            s.lengths[input] = ARENA_NEW(in->arena, double, s.seq);
        }
        s.index[DIM_BATCH] = i / heads;
        s.index[DIM_HEAD] = i % heads;
        s.index[DIM_KV_HEAD] = i % heads * groups / heads;
        make_units(&s);
        solve(&s);
        if (is_forward) read_results(&s);
        if (!is_forward) solve_adjoint(&s);
        if (!is_forward) spread(&s);
        if (!is_forward) spread_units(&s);
    }
}
