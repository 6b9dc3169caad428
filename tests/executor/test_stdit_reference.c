#include "tests/support/test.h"

#include "executor/engine/reals.h"
#include "tests/support/run_case.h"

#include <math.h>

// What the executor computes of a video model against plain loops over one sample, written after
// Open-Sora's stdit.py and stdit3.py and sharing nothing with graph and kernels but the names of
// weights and the data. Weights are those that training has moved, so that biases and tables are no
// zeros; gradients are compared with differences of the loss.

enum {
    FRAMES = 3,
    PLACES = 4,
    TOKENS = FRAMES * PLACES,
    HEADS = 2,
    WIDTH = 4,
    HIDDEN = HEADS * WIDTH,
    FFN = 12,
    CHANNELS = 8,  // 2 of a latent in patches of 2 x 2
    OUT = 2 * CHANNELS,
    CAPTION = 3,
    TEXT = 5,
    WAVES = 256,
    SEED = 7,
    BATCH = 2,
    STEPS = 3
};

#define SIZES                                                                                \
    "\"hidden_size\": 8, \"num_heads\": 2, \"in_channels\": 2, \"caption_channels\": 3, "    \
    "\"model_max_length\": 5, \"mlp_ratio\": 1.5, \"input_size\": [3, 4, 4], \"depth\": 2, " \
    "\"drop_path\": 0"
static const char THREE[] = "{\"model_type\": \"STDiT3\", \"qk_norm\": true, " SIZES "}";
static const char ONE[] = "{\"model_type\": \"STDiT\", \"qk_norm\": false, " SIZES "}";

struct reference {
    struct arena *arena;
    const struct run_outcome *outcome;
    bool is_three;
    int layer_count, position;
    double *latents, *target, *step, *rate, *text, *places, *frames;  // of one sample
    double t[HIDDEN], caption[TEXT][HIDDEN], m[6][HIDDEN], x[TOKENS][HIDDEN];
};

static double *weight(const struct reference *r, const char *name, const char *suffix)
{
    const char *key = arena_print(r->arena, "weight %s.%s %d", name, suffix, r->position);
    for (int i = 0; i < r->outcome->tensor_count; i++) {
        if (strcmp(r->outcome->tensors[i].key, key) == 0) return r->outcome->tensors[i].values;
    }
    fail_msg("%s is not there", key);
    return NULL;
}

static void linear(const struct reference *r, const char *name, int in, int out, const double *x,
                   double *y)
{
    const double *w = weight(r, name, "weight"), *bias = weight(r, name, "bias");
    for (int o = 0; o < out; o++) {
        y[o] = bias[o];
        for (int i = 0; i < in; i++)
            y[o] += x[i] * w[i * out + o];
    }
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static void embed(const struct reference *r, const char *name, int in, const double *x,
                  double (*function)(double x), double *y)
{
    double inner[HIDDEN];
    linear(r, arena_print(r->arena, "%s.in", name), in, HIDDEN, x, inner);
    for (int i = 0; i < HIDDEN; i++)
        inner[i] = function(inner[i]);
    linear(r, arena_print(r->arena, "%s.out", name), HIDDEN, HIDDEN, inner, y);
}

// layer norm without weights, times 1 + scale, plus shift
static void adapt(const double *x, const double *shift, const double *scale, double *y)
{
    double mean = 0, variance = 0;
    for (int i = 0; i < HIDDEN; i++)
        mean += x[i] / HIDDEN;
    for (int i = 0; i < HIDDEN; i++)
        variance += (x[i] - mean) * (x[i] - mean) / HIDDEN;
    for (int i = 0; i < HIDDEN; i++)
        y[i] = (x[i] - mean) / sqrt(variance + 1e-6) * (1 + scale[i]) + shift[i];
}

static void head_norm(const double *by, double *x)
{
    for (int h = 0; h < HEADS; h++) {
        double squares = 0;
        for (int i = 0; i < WIDTH; i++)
            squares += x[h * WIDTH + i] * x[h * WIDTH + i] / WIDTH;
        for (int i = 0; i < WIDTH; i++)
            x[h * WIDTH + i] *= by[i] / sqrt(squares + 1e-6);
    }
}

static void rotate(int place, double *x)
{
    for (int h = 0; h < HEADS; h++) {
        for (int i = 0; i < WIDTH / 2; i++) {
            double angle = place * pow(10000, -2.0 * i / WIDTH);
            double *a = &x[h * WIDTH + i], *b = a + WIDTH / 2, was = *a;
            *a = was * cos(angle) - *b * sin(angle);
            *b = *b * cos(angle) + was * sin(angle);
        }
    }
}

// One query against `count` keys.
static void attend(int count, const double *query, double (*keys)[HIDDEN], double (*values)[HIDDEN],
                   double *y)
{
    for (int h = 0; h < HEADS; h++) {
        double scores[TOKENS + TEXT], sum = 0;
        for (int k = 0; k < count; k++) {
            scores[k] = 0;
            for (int i = 0; i < WIDTH; i++)
                scores[k] += query[h * WIDTH + i] * keys[k][h * WIDTH + i] / sqrt(WIDTH);
            sum += scores[k] = exp(scores[k]);
        }
        for (int i = 0; i < WIDTH; i++) {
            y[h * WIDTH + i] = 0;
            for (int k = 0; k < count; k++)
                y[h * WIDTH + i] += scores[k] / sum * values[k][h * WIDTH + i];
        }
    }
}

static int token(int frame, int place)
{
    return frame * PLACES + place;
}

// Each token attends to those of its frame, or to those of its place in all frames.
static void attend_axis(const struct reference *r, const char *name, bool over_frames,
                        double (*x)[HIDDEN], double (*y)[HIDDEN])
{
    static const char *const PARTS[] = {"q", "k", "v"};
    static double all[3][TOKENS][HIDDEN];
    for (int part = 0; part < 3; part++) {
        const char *of = arena_print(r->arena, "%s.%s", name, PARTS[part]);
        for (int f = 0; f < FRAMES; f++) {
            for (int p = 0; p < PLACES; p++) {
                double *to = all[part][token(f, p)];
                linear(r, of, HIDDEN, HIDDEN, x[token(f, p)], to);
                if (r->is_three && part < 2)
                    head_norm(weight(r, arena_print(r->arena, "%s.norm", of), "weight"), to);
                if (r->is_three && part < 2 && over_frames) rotate(f, to);
            }
        }
    }
    for (int t = 0; t < TOKENS; t++) {
        double keys[TOKENS][HIDDEN], values[TOKENS][HIDDEN], context[HIDDEN];
        int count = over_frames ? FRAMES : PLACES;
        for (int k = 0; k < count; k++) {
            int other = over_frames ? token(k, t % PLACES) : token(t / PLACES, k);
            memcpy(keys[k], all[1][other], sizeof keys[k]);
            memcpy(values[k], all[2][other], sizeof values[k]);
        }
        attend(count, all[0][t], keys, values, context);
        linear(r, arena_print(r->arena, "%s.out", name), HIDDEN, HIDDEN, context, y[t]);
    }
}

static void attend_text(struct reference *r)
{
    double keys[TEXT][HIDDEN], values[TEXT][HIDDEN];
    for (int k = 0; k < TEXT; k++) {
        linear(r, "cross.k", HIDDEN, HIDDEN, r->caption[k], keys[k]);
        linear(r, "cross.v", HIDDEN, HIDDEN, r->caption[k], values[k]);
    }
    for (int t = 0; t < TOKENS; t++) {
        double query[HIDDEN], context[HIDDEN], y[HIDDEN];
        linear(r, "cross.q", HIDDEN, HIDDEN, r->x[t], query);
        attend(TEXT, query, keys, values, context);
        linear(r, "cross.out", HIDDEN, HIDDEN, context, y);
        for (int i = 0; i < HIDDEN; i++)
            r->x[t][i] += y[i];
    }
}

static void add_gated(double (*x)[HIDDEN], const double *gate, double (*y)[HIDDEN])
{
    for (int t = 0; t < TOKENS; t++) {
        for (int i = 0; i < HIDDEN; i++)
            x[t][i] += gate[i] * y[t][i];
    }
}

static void layer(struct reference *r, int index)
{
    static const char *const NAMES[] = {"attention.shift", "attention.scale", "attention.gate",
                                        "mlp.shift",       "mlp.scale",       "mlp.gate"};
    double m[6][HIDDEN];
    static double in[TOKENS][HIDDEN], out[TOKENS][HIDDEN];
    r->position = 1 + index;
    for (int k = 0; k < 6; k++) {
        const double *table = weight(r, NAMES[k], "table");
        for (int i = 0; i < HIDDEN; i++)
            m[k][i] = r->m[k][i] + table[i];
    }
    for (int t = 0; t < TOKENS; t++)
        adapt(r->x[t], m[0], m[1], in[t]);
    attend_axis(r, "attention", r->is_three && index % 2 == 1, in, out);
    add_gated(r->x, m[2], out);
    if (!r->is_three) {
        memcpy(in, r->x, sizeof in);
        for (int t = 0; t < TOKENS && index == 0; t++) {
            for (int i = 0; i < HIDDEN; i++)
                in[t][i] += r->frames[t / PLACES * HIDDEN + i];
        }
        attend_axis(r, "temporal", true, in, out);
        add_gated(r->x, m[2], out);
    }
    attend_text(r);
    for (int t = 0; t < TOKENS; t++) {
        double normed[HIDDEN], inner[FFN];
        adapt(r->x[t], m[3], m[4], normed);
        linear(r, "mlp.up", HIDDEN, FFN, normed, inner);
        for (int i = 0; i < FFN; i++)
            inner[i] = gelu(inner[i]);
        linear(r, "mlp.down", FFN, HIDDEN, inner, out[t]);
    }
    add_gated(r->x, m[5], out);
}

static void embed_all(struct reference *r)
{
    static const char *const NAMES[] = {"attention.shift", "attention.scale", "attention.gate",
                                        "mlp.shift",       "mlp.scale",       "mlp.gate"};
    double rate[HIDDEN], active[HIDDEN];
    r->position = 0;
    embed(r, "embedding.step", WAVES, r->step, silu, r->t);
    if (r->is_three) embed(r, "embedding.rate", WAVES, r->rate, silu, rate);
    for (int i = 0; i < HIDDEN; i++) {
        if (r->is_three) r->t[i] += rate[i];
        active[i] = silu(r->t[i]);
    }
    for (int k = 0; k < 6; k++)
        linear(r, arena_print(r->arena, "embedding.%s", NAMES[k]), HIDDEN, HIDDEN, active, r->m[k]);
    for (int k = 0; k < TEXT; k++)
        embed(r, "embedding.text", CAPTION, r->text + k * CAPTION, gelu, r->caption[k]);
    for (int t = 0; t < TOKENS; t++) {
        linear(r, "embedding.patch", CHANNELS, HIDDEN, r->latents + t * CHANNELS, r->x[t]);
        for (int i = 0; i < HIDDEN; i++)
            r->x[t][i] += r->places[t % PLACES * HIDDEN + i];
    }
}

static double loss_of(struct reference *r)
{
    double sum = 0, shift[HIDDEN], scale[HIDDEN];
    embed_all(r);
    for (int i = 0; i < r->layer_count; i++)
        layer(r, i);
    r->position = 1 + r->layer_count;
    for (int i = 0; i < HIDDEN; i++) {
        shift[i] = r->t[i] + weight(r, "head.shift", "table")[i];
        scale[i] = r->t[i] + weight(r, "head.scale", "table")[i];
    }
    for (int t = 0; t < TOKENS; t++) {
        double normed[HIDDEN], out[OUT];
        adapt(r->x[t], shift, scale, normed);
        linear(r, "head.patch", HIDDEN, OUT, normed, out);
        for (int i = 0; i < OUT; i++)
            sum += pow(out[i] - r->target[t * OUT + i], 2) / (OUT * TOKENS);
    }
    return sum;
}

// All of one kind of data of a sample, as the run draws it.
static double *data(struct arena *arena, uint64_t sample, const char *name, struct tensor tensor)
{
    const struct graph graph = {.frames = FRAMES, .places = PLACES, .channels = CHANNELS};
    int64_t count = tensor_elements(&tensor, 1, 1);
    double *values = ARENA_NEW(arena, double, count);
    tensor.name = name;
    for (int64_t e = 0; e < count; e++) {
        int64_t index[TENSOR_RANK_MAX] = {0}, rest = e;
        for (int i = tensor.rank - 1; i >= 0; i--) {
            index[i] = rest % tensor.extents[i].size;
            rest /= tensor.extents[i].size;
        }
        values[e] = reals_at(&graph, SEED, sample, &tensor, index);
    }
    return values;
}

static void load(struct reference *r, uint64_t sample)
{
    struct tensor latents = {
        .rank = 3, .extents = {{DIM_TIME, FRAMES}, {DIM_SEQ, PLACES}, {DIM_CHANNEL, CHANNELS}}};
    struct tensor target = {
        .rank = 3, .extents = {{DIM_TIME, FRAMES}, {DIM_SEQ, PLACES}, {DIM_OUT_CHANNEL, OUT}}};
    struct tensor waves = {.rank = 1, .extents = {{DIM_CHANNEL, WAVES}}};
    struct tensor text = {.rank = 2, .extents = {{DIM_TEXT, TEXT}, {DIM_CHANNEL, CAPTION}}};
    struct tensor places = {.rank = 2, .extents = {{DIM_SEQ, PLACES}, {DIM_HIDDEN, HIDDEN}}};
    struct tensor frames = {.rank = 2, .extents = {{DIM_TIME, FRAMES}, {DIM_HIDDEN, HIDDEN}}};
    r->latents = data(r->arena, sample, "noised_latents", latents);
    r->target = data(r->arena, sample, "target", target);
    r->step = data(r->arena, sample, "timestep_waves", waves);
    r->rate = data(r->arena, sample, "frame_rate_waves", waves);
    r->text = data(r->arena, sample, "text_states", text);
    r->places = data(r->arena, sample, "place_embedding", places);
    r->frames = data(r->arena, sample, "frame_embedding", frames);
}

// The mean over the batch of the step with this number.
static double batch_loss(struct reference *r, int step)
{
    double sum = 0;
    for (int s = 0; s < BATCH; s++) {
        load(r, (uint64_t)(step * BATCH + s));
        sum += loss_of(r) / BATCH;
    }
    return sum;
}

static struct run_outcome *trained(struct arena *arena, const char *config, int steps)
{
    struct run_case of = run_case_new(config, TOKENS, BATCH);
    of.steps = steps;
    of.learning_rate = 0.02;
    of.clip_norm = 1e9;
    return run_case_done(arena, &of);
}

// Of each weight the first element or the last.
static void check_gradients(struct reference *r, const struct run_outcome *last)
{
    static const double STEP = 1e-5;
    int checked = 0;
    for (int i = 0; i < last->tensor_count; i++) {
        const struct run_tensor *gradient = &last->tensors[i];
        if (strncmp(gradient->key, "gradient ", 9) != 0) continue;
        const char *key = arena_print(r->arena, "weight %s", gradient->key + 9);
        double *values = NULL;
        int64_t count = 1;
        for (int d = 0; d < gradient->rank; d++)
            count *= gradient->sizes[d];
        for (int k = 0; k < r->outcome->tensor_count && !values; k++) {
            if (strcmp(r->outcome->tensors[k].key, key) == 0)
                values = r->outcome->tensors[k].values;
        }
        assert_non_null(values);
        int64_t e = checked % 2 ? 0 : count - 1;
        double was = values[e];
        values[e] = was + STEP;
        double above = batch_loss(r, STEPS);
        values[e] = was - STEP;
        double below = batch_loss(r, STEPS);
        values[e] = was;
        double slope = (above - below) / (2 * STEP), found = gradient->values[e];
        if (fabs(slope - found) > 1e-8 + 1e-5 * fabs(slope))
            fail_msg("%s, element %lld: %.12g, the loss changes by %.12g", gradient->key,
                     (long long)e, found, slope);
        checked++;
    }
    assert_true(checked > 80);
}

static void check(struct arena *arena, const char *config, bool is_three)
{
    struct reference *r = ARENA_NEW(arena, struct reference, 1);
    const struct run_outcome *last = trained(arena, config, STEPS + 1);
    *r = (struct reference){.arena = arena,
                            .outcome = trained(arena, config, STEPS),
                            .is_three = is_three,
                            .layer_count = is_three ? 4 : 2};
    double expected = batch_loss(r, STEPS), found = last->loss[STEPS];
    if (fabs(found - expected) > 1e-12 * expected)
        fail_msg("a loss of %.17g, by plain loops %.17g", found, expected);
    assert_true(found < last->loss[0]);
    check_gradients(r, last);
}

static void stdit3_computes_what_plain_loops_do(void **state)
{
    check(*state, THREE, true);
}

static void stdit_computes_what_plain_loops_do(void **state)
{
    check(*state, ONE, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stdit3_computes_what_plain_loops_do),
        cmocka_unit_test(stdit_computes_what_plain_loops_do),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
