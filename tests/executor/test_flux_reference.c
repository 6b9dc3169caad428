#include "tests/support/test.h"

#include "tests/support/plain.h"

#include <math.h>

// What the executor computes of FLUX's transformer against plain loops over one sample, written
// after diffusers' transformer_flux.py, and gradients against differences of the loss. What turns
// pairs of neighbours there turns halves here.

enum {
    SIDE = 3,
    PLACES = SIDE * SIDE,
    TEXT = 4,
    JOINT = TEXT + PLACES,
    HEADS = 2,
    WIDTH = 10,
    STILL = 2,  // dims of a head in front of those that are turned
    HIDDEN = HEADS * WIDTH,
    FFN = 4 * HIDDEN,
    CHANNELS = 3,
    CAPTION = 5,
    POOLED = 6,
    WAVES = 256,
    DOUBLE = 2,
    SINGLE = 3,
    BATCH = 2,
    STEPS = 3
};

static const char CONFIG[] =
    "{\"_class_name\": \"FluxTransformer2DModel\", \"attention_head_dim\": 10, "
    "\"axes_dims_rope\": [2, 4, 4], \"guidance_embeds\": true, \"in_channels\": 3, "
    "\"joint_attention_dim\": 5, \"max_sequence_length\": 4, \"num_attention_heads\": 2, "
    "\"num_layers\": 2, \"num_single_layers\": 3, \"pooled_projection_dim\": 6, "
    "\"sample_size\": 6}";

struct reference {
    struct plain of;
    double *latents, *target, *step, *guidance, *pooled, *text;  // of one sample
    double active[HIDDEN], x[JOINT][HIDDEN];  // silu of the vector; text in front of places
};

static const char *named(const struct reference *r, const char *prefix, const char *name)
{
    return arena_print(r->of.arena, "%s%s", prefix, name);
}

// A part of what a block makes of the vector.
static void say(const struct reference *r, const char *prefix, const char *name, double *y)
{
    plain_linear(&r->of, named(r, prefix, name), HIDDEN, HIDDEN, r->active, y);
}

// The row turns the first two pairs of the dims behind STILL, the column the other two.
static void turn(int token, double *x)
{
    if (token < TEXT) return;
    for (int h = 0; h < HEADS; h++) {
        for (int pair = 0; pair < 4; pair++) {
            int at = pair < 2 ? (token - TEXT) / SIDE : (token - TEXT) % SIDE;
            double angle = at * pow(10000, -(pair % 2) / 2.0);
            double *a = &x[h * WIDTH + STILL + pair], *b = a + 4, was = *a;
            *a = was * cos(angle) - *b * sin(angle);
            *b = *b * cos(angle) + was * sin(angle);
        }
    }
}

// Tokens from `first` to `end` with the weights of one stream.
static void make_heads(const struct reference *r, const char *prefix, int first, int end,
                       double (*in)[HIDDEN], double (*all)[JOINT][HIDDEN])
{
    static const char *const PARTS[] = {"attention.q", "attention.k", "attention.v"};
    for (int part = 0; part < 3; part++) {
        const char *of = named(r, prefix, PARTS[part]);
        for (int t = first; t < end; t++) {
            plain_linear(&r->of, of, HIDDEN, HIDDEN, in[t], all[part][t]);
            if (part == 2) continue;
            const double *by = plain_weight(&r->of, named(r, of, ".norm"), "weight");
            plain_head_norm(HEADS, WIDTH, by, all[part][t]);
            turn(t, all[part][t]);
        }
    }
}

static void adapt_rows(const struct reference *r, const char *prefix, const char *shift,
                       const char *scale, int first, int end, double (*y)[HIDDEN])
{
    double by[2][HIDDEN];
    say(r, prefix, shift, by[0]);
    say(r, prefix, scale, by[1]);
    for (int t = first; t < end; t++)
        plain_adapt(HIDDEN, r->x[t], by[0], by[1], y[t]);
}

static void add_gated(struct reference *r, const char *prefix, const char *gate, int first, int end,
                      double (*y)[HIDDEN])
{
    double by[HIDDEN];
    say(r, prefix, gate, by);
    for (int t = first; t < end; t++) {
        for (int i = 0; i < HIDDEN; i++)
            r->x[t][i] += by[i] * y[t][i];
    }
}

static void two_streams(struct reference *r)
{
    static const char *const PREFIX[] = {"text.", ""};
    static const int BOUND[] = {0, TEXT, JOINT};
    static double in[JOINT][HIDDEN], all[3][JOINT][HIDDEN], out[JOINT][HIDDEN];
    for (int s = 0; s < 2; s++) {
        adapt_rows(r, PREFIX[s], "attention.shift", "attention.scale", BOUND[s], BOUND[s + 1], in);
        make_heads(r, PREFIX[s], BOUND[s], BOUND[s + 1], in, all);
    }
    for (int s = 0; s < 2; s++) {
        for (int t = BOUND[s]; t < BOUND[s + 1]; t++) {
            double context[HIDDEN];
            plain_attend(HEADS, WIDTH, JOINT, all[0][t], all[1][0], all[2][0], context);
            plain_linear(&r->of, named(r, PREFIX[s], "attention.out"), HIDDEN, HIDDEN, context,
                         out[t]);
        }
        add_gated(r, PREFIX[s], "attention.gate", BOUND[s], BOUND[s + 1], out);
        adapt_rows(r, PREFIX[s], "mlp.shift", "mlp.scale", BOUND[s], BOUND[s + 1], in);
        for (int t = BOUND[s]; t < BOUND[s + 1]; t++) {
            double inner[FFN];
            plain_linear(&r->of, named(r, PREFIX[s], "mlp.up"), HIDDEN, FFN, in[t], inner);
            for (int i = 0; i < FFN; i++)
                inner[i] = plain_gelu(inner[i]);
            plain_linear(&r->of, named(r, PREFIX[s], "mlp.down"), FFN, HIDDEN, inner, out[t]);
        }
        add_gated(r, PREFIX[s], "mlp.gate", BOUND[s], BOUND[s + 1], out);
    }
}

// What heads and the MLP make of the same rows, side by side, goes through one product.
static void one_stream(struct reference *r)
{
    static double in[JOINT][HIDDEN], all[3][JOINT][HIDDEN], out[JOINT][HIDDEN];
    const double *of_heads = plain_weight(&r->of, "out.attention", "weight");
    const double *of_inner = plain_weight(&r->of, "out.mlp", "weight");
    const double *bias = plain_weight(&r->of, "out", "bias");
    adapt_rows(r, "", "shift", "scale", 0, JOINT, in);
    make_heads(r, "", 0, JOINT, in, all);
    for (int t = 0; t < JOINT; t++) {
        double both[HIDDEN + FFN];
        plain_attend(HEADS, WIDTH, JOINT, all[0][t], all[1][0], all[2][0], both);
        plain_linear(&r->of, "mlp.up", HIDDEN, FFN, in[t], both + HIDDEN);
        for (int i = HIDDEN; i < HIDDEN + FFN; i++)
            both[i] = plain_gelu(both[i]);
        for (int o = 0; o < HIDDEN; o++) {
            out[t][o] = bias[o];
            for (int i = 0; i < HIDDEN + FFN; i++)
                out[t][o] += both[i] * (i < HIDDEN ? of_heads[i * HIDDEN + o]
                                                   : of_inner[(i - HIDDEN) * HIDDEN + o]);
        }
    }
    add_gated(r, "", "gate", 0, JOINT, out);
}

static void embed_all(struct reference *r)
{
    double parts[3][HIDDEN];
    r->of.position = 0;
    plain_embed(&r->of, "embedding.step", WAVES, HIDDEN, r->step, plain_silu, parts[0]);
    plain_embed(&r->of, "embedding.guidance", WAVES, HIDDEN, r->guidance, plain_silu, parts[1]);
    plain_embed(&r->of, "embedding.pooled", POOLED, HIDDEN, r->pooled, plain_silu, parts[2]);
    for (int i = 0; i < HIDDEN; i++)
        r->active[i] = plain_silu(parts[0][i] + parts[1][i] + parts[2][i]);
    for (int t = 0; t < TEXT; t++)
        plain_linear(&r->of, "embedding.text", CAPTION, HIDDEN, r->text + t * CAPTION, r->x[t]);
    for (int p = 0; p < PLACES; p++)
        plain_linear(&r->of, "embedding.patch", CHANNELS, HIDDEN, r->latents + p * CHANNELS,
                     r->x[TEXT + p]);
}

static double loss_of(struct reference *r)
{
    static double in[JOINT][HIDDEN];
    double sum = 0;
    embed_all(r);
    for (int i = 0; i < DOUBLE + SINGLE; i++) {
        r->of.position = 1 + i;
        if (i < DOUBLE)
            two_streams(r);
        else
            one_stream(r);
    }
    r->of.position = 1 + DOUBLE + SINGLE;
    adapt_rows(r, "head.", "shift", "scale", TEXT, JOINT, in);
    for (int p = 0; p < PLACES; p++) {
        double out[CHANNELS];
        plain_linear(&r->of, "head.patch", HIDDEN, CHANNELS, in[TEXT + p], out);
        for (int i = 0; i < CHANNELS; i++)
            sum += pow(out[i] - r->target[p * CHANNELS + i], 2) / (CHANNELS * PLACES);
    }
    return sum;
}

static void load(struct reference *r, uint64_t sample)
{
    const struct graph graph = {.frames = 1, .places = PLACES, .channels = CHANNELS};
    struct tensor latents = {.rank = 2, .extents = {{DIM_SEQ, PLACES}, {DIM_CHANNEL, CHANNELS}}};
    struct tensor target = {.rank = 2, .extents = {{DIM_SEQ, PLACES}, {DIM_OUT_CHANNEL, CHANNELS}}};
    struct tensor waves = {.rank = 1, .extents = {{DIM_CHANNEL, WAVES}}};
    struct tensor pooled = {.rank = 1, .extents = {{DIM_CHANNEL, POOLED}}};
    struct tensor text = {.rank = 2, .extents = {{DIM_TEXT, TEXT}, {DIM_CHANNEL, CAPTION}}};
    r->latents = plain_data(r->of.arena, &graph, sample, "noised_latents", latents);
    r->target = plain_data(r->of.arena, &graph, sample, "target", target);
    r->step = plain_data(r->of.arena, &graph, sample, "timestep_waves", waves);
    r->guidance = plain_data(r->of.arena, &graph, sample, "guidance_waves", waves);
    r->pooled = plain_data(r->of.arena, &graph, sample, "pooled_text", pooled);
    r->text = plain_data(r->of.arena, &graph, sample, "text_states", text);
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

static void flux_computes_what_plain_loops_do(void **state)
{
    struct reference *r = ARENA_NEW(*state, struct reference, 1);
    const struct run_outcome *last = plain_trained(*state, CONFIG, PLACES, BATCH, STEPS + 1);
    *r = (struct reference){
        .of = {.arena = *state, .outcome = plain_trained(*state, CONFIG, PLACES, BATCH, STEPS)}};
    double expected = batch_loss(r), found = last->loss[STEPS];
    if (fabs(found - expected) > 1e-12 * expected)
        fail_msg("a loss of %.17g, by plain loops %.17g", found, expected);
    assert_true(found < last->loss[0]);
    plain_check_gradients(&r->of, last, batch_loss, r, 180);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(flux_computes_what_plain_loops_do)};
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
