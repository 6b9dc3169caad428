#include "tests/support/test.h"

#include "tests/support/plain.h"

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
    struct plain of;
    bool is_three;
    int layer_count;
    double *latents, *target, *step, *rate, *text, *places, *frames;  // of one sample
    double t[HIDDEN], caption[TEXT][HIDDEN], m[6][HIDDEN], x[TOKENS][HIDDEN];
};

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
        const char *of = arena_print(r->of.arena, "%s.%s", name, PARTS[part]);
        for (int f = 0; f < FRAMES; f++) {
            for (int p = 0; p < PLACES; p++) {
                double *to = all[part][token(f, p)];
                plain_linear(&r->of, of, HIDDEN, HIDDEN, x[token(f, p)], to);
                if (r->is_three && part < 2)
                    plain_head_norm(
                        HEADS, WIDTH,
                        plain_weight(&r->of, arena_print(r->of.arena, "%s.norm", of), "weight"),
                        to);
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
        plain_attend(HEADS, WIDTH, count, all[0][t], keys[0], values[0], context);
        plain_linear(&r->of, arena_print(r->of.arena, "%s.out", name), HIDDEN, HIDDEN, context,
                     y[t]);
    }
}

static void attend_text(struct reference *r)
{
    double keys[TEXT][HIDDEN], values[TEXT][HIDDEN];
    for (int k = 0; k < TEXT; k++) {
        plain_linear(&r->of, "cross.k", HIDDEN, HIDDEN, r->caption[k], keys[k]);
        plain_linear(&r->of, "cross.v", HIDDEN, HIDDEN, r->caption[k], values[k]);
    }
    for (int t = 0; t < TOKENS; t++) {
        double query[HIDDEN], context[HIDDEN], y[HIDDEN];
        plain_linear(&r->of, "cross.q", HIDDEN, HIDDEN, r->x[t], query);
        plain_attend(HEADS, WIDTH, TEXT, query, keys[0], values[0], context);
        plain_linear(&r->of, "cross.out", HIDDEN, HIDDEN, context, y);
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
    r->of.position = 1 + index;
    for (int k = 0; k < 6; k++) {
        const double *table = plain_weight(&r->of, NAMES[k], "table");
        for (int i = 0; i < HIDDEN; i++)
            m[k][i] = r->m[k][i] + table[i];
    }
    for (int t = 0; t < TOKENS; t++)
        plain_adapt(HIDDEN, r->x[t], m[0], m[1], in[t]);
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
        plain_adapt(HIDDEN, r->x[t], m[3], m[4], normed);
        plain_linear(&r->of, "mlp.up", HIDDEN, FFN, normed, inner);
        for (int i = 0; i < FFN; i++)
            inner[i] = plain_gelu(inner[i]);
        plain_linear(&r->of, "mlp.down", FFN, HIDDEN, inner, out[t]);
    }
    add_gated(r->x, m[5], out);
}

static void embed_all(struct reference *r)
{
    static const char *const NAMES[] = {"attention.shift", "attention.scale", "attention.gate",
                                        "mlp.shift",       "mlp.scale",       "mlp.gate"};
    double rate[HIDDEN], active[HIDDEN];
    r->of.position = 0;
    plain_embed(&r->of, "embedding.step", WAVES, HIDDEN, r->step, plain_silu, r->t);
    if (r->is_three)
        plain_embed(&r->of, "embedding.rate", WAVES, HIDDEN, r->rate, plain_silu, rate);
    for (int i = 0; i < HIDDEN; i++) {
        if (r->is_three) r->t[i] += rate[i];
        active[i] = plain_silu(r->t[i]);
    }
    for (int k = 0; k < 6; k++)
        plain_linear(&r->of, arena_print(r->of.arena, "embedding.%s", NAMES[k]), HIDDEN, HIDDEN,
                     active, r->m[k]);
    for (int k = 0; k < TEXT; k++)
        plain_embed(&r->of, "embedding.text", CAPTION, HIDDEN, r->text + k * CAPTION, plain_gelu,
                    r->caption[k]);
    for (int t = 0; t < TOKENS; t++) {
        plain_linear(&r->of, "embedding.patch", CHANNELS, HIDDEN, r->latents + t * CHANNELS,
                     r->x[t]);
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
    r->of.position = 1 + r->layer_count;
    for (int i = 0; i < HIDDEN; i++) {
        shift[i] = r->t[i] + plain_weight(&r->of, "head.shift", "table")[i];
        scale[i] = r->t[i] + plain_weight(&r->of, "head.scale", "table")[i];
    }
    for (int t = 0; t < TOKENS; t++) {
        double normed[HIDDEN], out[OUT];
        plain_adapt(HIDDEN, r->x[t], shift, scale, normed);
        plain_linear(&r->of, "head.patch", HIDDEN, OUT, normed, out);
        for (int i = 0; i < OUT; i++)
            sum += pow(out[i] - r->target[t * OUT + i], 2) / (OUT * TOKENS);
    }
    return sum;
}

static void load(struct reference *r, uint64_t sample)
{
    const struct graph graph = {.frames = FRAMES, .places = PLACES, .channels = CHANNELS};
    struct tensor latents = {
        .rank = 3, .extents = {{DIM_TIME, FRAMES}, {DIM_SEQ, PLACES}, {DIM_CHANNEL, CHANNELS}}};
    struct tensor target = {
        .rank = 3, .extents = {{DIM_TIME, FRAMES}, {DIM_SEQ, PLACES}, {DIM_OUT_CHANNEL, OUT}}};
    struct tensor waves = {.rank = 1, .extents = {{DIM_CHANNEL, WAVES}}};
    struct tensor text = {.rank = 2, .extents = {{DIM_TEXT, TEXT}, {DIM_CHANNEL, CAPTION}}};
    struct tensor places = {.rank = 2, .extents = {{DIM_SEQ, PLACES}, {DIM_HIDDEN, HIDDEN}}};
    struct tensor frames = {.rank = 2, .extents = {{DIM_TIME, FRAMES}, {DIM_HIDDEN, HIDDEN}}};
    r->latents = plain_data(r->of.arena, &graph, sample, "noised_latents", latents);
    r->target = plain_data(r->of.arena, &graph, sample, "target", target);
    r->step = plain_data(r->of.arena, &graph, sample, "timestep_waves", waves);
    r->rate = plain_data(r->of.arena, &graph, sample, "frame_rate_waves", waves);
    r->text = plain_data(r->of.arena, &graph, sample, "text_states", text);
    r->places = plain_data(r->of.arena, &graph, sample, "place_embedding", places);
    r->frames = plain_data(r->of.arena, &graph, sample, "frame_embedding", frames);
}

// The mean over the batch of the last step.
static double batch_loss(void *context)
{
    struct reference *r = context;
    double sum = 0;
    for (int s = 0; s < BATCH; s++) {
        load(r, (uint64_t)(STEPS * BATCH + s));
        sum += loss_of(r) / BATCH;
    }
    return sum;
}

static void check(struct arena *arena, const char *config, bool is_three)
{
    struct reference *r = ARENA_NEW(arena, struct reference, 1);
    const struct run_outcome *last = plain_trained(arena, config, TOKENS, BATCH, STEPS + 1);
    *r = (struct reference){
        .of = {.arena = arena, .outcome = plain_trained(arena, config, TOKENS, BATCH, STEPS)},
        .is_three = is_three,
        .layer_count = is_three ? 4 : 2};
    double expected = batch_loss(r), found = last->loss[STEPS];
    if (fabs(found - expected) > 1e-12 * expected)
        fail_msg("a loss of %.17g, by plain loops %.17g", found, expected);
    assert_true(found < last->loss[0]);
    plain_check_gradients(&r->of, last, batch_loss, r, 80);
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
