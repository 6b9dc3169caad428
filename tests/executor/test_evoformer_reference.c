#include "tests/support/test.h"

#include "executor/engine/reals.h"
#include "tests/support/run_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// What the executor computes of Evoformer blocks against plain loops over one sample, written after
// the algorithms of Jumper et al. 2021, supplement, and sharing nothing with graph and kernels but
// the names of weights and the data. Weights are those that training has moved, so that biases are
// no zeros; gradients are compared with differences of the loss.

enum {
    S = 3,
    R = 5,
    CM = 6,
    CZ = 4,
    HM = 2,
    HZ = 2,
    WM = 3,
    WZ = 2,
    OPM = 3,
    MUL = 5,
    N = 2,
    BLOCKS = 2,
    FEATURES = 22,
    MSA = 49,
    OFFSETS = 65,
    CLASSES = 23,
    BINS = 64,
    SEED = 7,
    BATCH = 2,
    STEPS = 3,
    WIDEST = 64
};

static const char CONFIG[] =
    "{\"model_type\": \"evoformer\", \"no_blocks\": 2, \"c_m\": 6, \"c_z\": 4, "
    "\"c_hidden_msa_att\": 3, \"c_hidden_opm\": 3, \"c_hidden_mul\": 5, \"c_hidden_pair_att\": 2, "
    "\"no_heads_msa\": 2, \"no_heads_pair\": 2, \"transition_n\": 2, \"msa_depth\": 3, "
    "\"residues\": 5}";

struct reference {
    struct arena *arena;
    const struct run_outcome *outcome;
    const struct run_tensor *by_key;  // those of the outcome, sorted: they are asked for row by row
    int position;
    uint64_t sample;
    double m[S][R][CM], z[R][R][CZ];
};

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const struct run_tensor *)a)->key, ((const struct run_tensor *)b)->key);
}

static const struct run_tensor *sorted(struct arena *arena, const struct run_outcome *outcome)
{
    size_t count = (size_t)outcome->tensor_count;
    struct run_tensor *tensors = ARENA_NEW(arena, struct run_tensor, count);
    memcpy(tensors, outcome->tensors, count * sizeof *tensors);
    qsort(tensors, count, sizeof *tensors, compare_keys);
    return tensors;
}

static double *weight(const struct reference *r, const char *name, const char *suffix)
{
    char key[128];
    snprintf(key, sizeof key, "weight %s.%s %d", name, suffix, r->position);
    const struct run_tensor wanted = {.key = key};
    const struct run_tensor *found =
        bsearch(&wanted, r->by_key, (size_t)r->outcome->tensor_count, sizeof wanted, compare_keys);
    if (!found) fail_msg("%s is not there", key);
    return found->values;
}

// y = x W, plus the bias if there is one. `name` is "prefix.part".
static void linear(const struct reference *r, const char *prefix, const char *part, bool has_bias,
                   int in, int out, const double *x, double *y)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", prefix, part);
    const double *w = weight(r, name, "weight");
    const double *bias = has_bias ? weight(r, name, "bias") : NULL;
    for (int o = 0; o < out; o++) {
        y[o] = bias ? bias[o] : 0;
        for (int i = 0; i < in; i++)
            y[o] += x[i] * w[i * out + o];
    }
}

static void norm(const struct reference *r, const char *prefix, const char *part, int width,
                 const double *x, double *y)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", prefix, part);
    const double *w = weight(r, name, "weight"), *bias = weight(r, name, "bias");
    double mean = 0, variance = 0;
    for (int i = 0; i < width; i++)
        mean += x[i] / width;
    for (int i = 0; i < width; i++)
        variance += (x[i] - mean) * (x[i] - mean) / width;
    for (int i = 0; i < width; i++)
        y[i] = (x[i] - mean) / sqrt(variance + 1e-5) * w[i] + bias[i];
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

// Rows of a problem of their own: `count` normed vectors x attend to each other, with `bias`
// (query, key, head) on the scores. Adds to y.
static void attend(const struct reference *r, const char *prefix, int count, int heads, int width,
                   int channels, double (*x)[WIDEST], const double *bias, double *const *y)
{
    static double q[R][WIDEST], k[R][WIDEST], v[R][WIDEST], g[R][WIDEST];
    for (int a = 0; a < count; a++) {
        linear(r, prefix, "q", false, channels, heads * width, x[a], q[a]);
        linear(r, prefix, "k", false, channels, heads * width, x[a], k[a]);
        linear(r, prefix, "v", false, channels, heads * width, x[a], v[a]);
        linear(r, prefix, "gate", true, channels, heads * width, x[a], g[a]);
    }
    for (int a = 0; a < count; a++) {
        double context[WIDEST] = {0}, out[WIDEST];
        for (int h = 0; h < heads; h++) {
            double scores[R], sum = 0;
            for (int b = 0; b < count; b++) {
                scores[b] = bias ? bias[(a * count + b) * heads + h] : 0;
                for (int i = h * width; i < (h + 1) * width; i++)
                    scores[b] += q[a][i] * k[b][i] / sqrt(width);
                sum += scores[b] = exp(scores[b]);
            }
            for (int b = 0; b < count; b++) {
                for (int i = h * width; i < (h + 1) * width; i++)
                    context[i] += scores[b] / sum * v[b][i];
            }
        }
        for (int i = 0; i < heads * width; i++)
            context[i] *= sigmoid(g[a][i]);
        linear(r, prefix, "out", true, heads * width, channels, context, out);
        for (int i = 0; i < channels; i++)
            y[a][i] += out[i];
    }
}

static void rows(struct reference *r)
{
    double bias[R * R * HM], x[R][WIDEST];
    for (int i = 0; i < R * R; i++) {
        double normed[CZ];
        norm(r, "row", "pair_norm", CZ, r->z[i / R][i % R], normed);
        linear(r, "row", "bias", false, CZ, HM, normed, &bias[i * HM]);
    }
    for (int s = 0; s < S; s++) {
        double *y[R];
        for (int i = 0; i < R; i++) {
            norm(r, "row", "norm", CM, r->m[s][i], x[i]);
            y[i] = r->m[s][i];
        }
        attend(r, "row", R, HM, WM, CM, x, bias, y);
    }
}

static void columns(struct reference *r)
{
    double x[R][WIDEST];
    for (int i = 0; i < R; i++) {
        double *y[R];
        for (int s = 0; s < S; s++) {
            norm(r, "column", "norm", CM, r->m[s][i], x[s]);
            y[s] = r->m[s][i];
        }
        attend(r, "column", S, HM, WM, CM, x, NULL, y);
    }
}

static void transition(const struct reference *r, const char *prefix, int width, double *x)
{
    double normed[WIDEST], inner[WIDEST], y[WIDEST];
    norm(r, prefix, "norm", width, x, normed);
    linear(r, prefix, "up", true, width, N * width, normed, inner);
    for (int i = 0; i < N * width; i++)
        inner[i] = inner[i] > 0 ? inner[i] : 0;
    linear(r, prefix, "down", true, N * width, width, inner, y);
    for (int i = 0; i < width; i++)
        x[i] += y[i];
}

static void outer(struct reference *r)
{
    static double a[S][R][OPM], b[S][R][OPM];
    for (int t = 0; t < S * R; t++) {
        double normed[CM];
        norm(r, "outer", "norm", CM, r->m[t / R][t % R], normed);
        linear(r, "outer", "left", true, CM, OPM, normed, a[t / R][t % R]);
        linear(r, "outer", "right", true, CM, OPM, normed, b[t / R][t % R]);
    }
    for (int i = 0; i < R; i++) {
        for (int j = 0; j < R; j++) {
            double mean[OPM * OPM] = {0}, y[CZ];
            for (int e = 0; e < OPM * OPM * S; e++)
                mean[e / S] += a[e % S][i][e / S / OPM] * b[e % S][j][e / S % OPM] / S;
            linear(r, "outer", "out", true, OPM * OPM, CZ, mean, y);
            for (int c = 0; c < CZ; c++)
                r->z[i][j][c] += y[c];
        }
    }
}

static void triangle(struct reference *r, const char *prefix, bool is_outgoing)
{
    static double normed[R][R][CZ], a[R][R][MUL], b[R][R][MUL];
    for (int e = 0; e < R * R; e++) {
        double ga[MUL], gb[MUL], *x = normed[e / R][e % R];
        norm(r, prefix, "norm", CZ, r->z[e / R][e % R], x);
        linear(r, prefix, "left", true, CZ, MUL, x, a[e / R][e % R]);
        linear(r, prefix, "right", true, CZ, MUL, x, b[e / R][e % R]);
        linear(r, prefix, "left.gate", true, CZ, MUL, x, ga);
        linear(r, prefix, "right.gate", true, CZ, MUL, x, gb);
        for (int c = 0; c < MUL; c++) {
            a[e / R][e % R][c] *= sigmoid(ga[c]);
            b[e / R][e % R][c] *= sigmoid(gb[c]);
        }
    }
    for (int i = 0; i < R; i++) {
        for (int j = 0; j < R; j++) {
            double sum[MUL] = {0}, x[MUL], y[CZ], g[CZ];
            for (int k = 0; k < R; k++) {
                for (int c = 0; c < MUL; c++)
                    sum[c] += is_outgoing ? a[i][k][c] * b[j][k][c] : a[k][i][c] * b[k][j][c];
            }
            norm(r, prefix, "out.norm", MUL, sum, x);
            linear(r, prefix, "out", true, MUL, CZ, x, y);
            linear(r, prefix, "out.gate", true, CZ, CZ, normed[i][j], g);
            for (int c = 0; c < CZ; c++)
                r->z[i][j][c] += sigmoid(g[c]) * y[c];
        }
    }
}

// Around the ending node is around the starting node of the transposed pairs (algorithm 14).
static void around(struct reference *r, const char *prefix, bool is_start)
{
    static double normed[R][R][CZ], bias[R * R * HZ], x[R][WIDEST];
    for (int e = 0; e < R * R; e++) {
        int i = is_start ? e / R : e % R, j = is_start ? e % R : e / R;
        norm(r, prefix, "norm", CZ, r->z[i][j], normed[e / R][e % R]);
        linear(r, prefix, "bias", false, CZ, HZ, normed[e / R][e % R], &bias[e * HZ]);
    }
    for (int i = 0; i < R; i++) {
        double *y[R];
        for (int j = 0; j < R; j++) {
            memcpy(x[j], normed[i][j], sizeof normed[i][j]);
            y[j] = is_start ? r->z[i][j] : r->z[j][i];
        }
        attend(r, prefix, R, HZ, WZ, CZ, x, bias, y);
    }
}

static double value(const struct reference *r, const char *name, int width, int last, int s, int i,
                    int j)
{
    const struct graph graph = {.frames = S, .places = R, .is_protein = true};
    struct tensor tensor = {
        .name = name,
        .rank = 4,
        .extents = {{DIM_MSA, S}, {DIM_RES_I, R}, {DIM_RES_J, R}, {DIM_TABLE, 0}}};
    tensor.extents[3].size = width;
    const int64_t index[TENSOR_RANK_MAX] = {s, i, j, last};
    return reals_at(&graph, SEED, r->sample, &tensor, index);
}

static void embed(struct reference *r)
{
    double x[OFFSETS], left[R][CZ], right[R][CZ], target[R][CM], y[WIDEST];
    r->position = 0;
    for (int i = 0; i < R; i++) {
        for (int f = 0; f < FEATURES; f++)
            x[f] = value(r, "target_features", FEATURES, f, 0, i, 0);
        linear(r, "embedding", "left", true, FEATURES, CZ, x, left[i]);
        linear(r, "embedding", "right", true, FEATURES, CZ, x, right[i]);
        linear(r, "embedding", "target", true, FEATURES, CM, x, target[i]);
    }
    for (int i = 0; i < R; i++) {
        for (int j = 0; j < R; j++) {
            for (int f = 0; f < OFFSETS; f++)
                x[f] = i - j + OFFSETS / 2 == f;
            linear(r, "embedding", "offset", true, OFFSETS, CZ, x, y);
            for (int c = 0; c < CZ; c++)
                r->z[i][j][c] = left[i][c] + right[j][c] + y[c];
        }
    }
    for (int t = 0; t < S * R; t++) {
        for (int f = 0; f < MSA; f++)
            x[f] = value(r, "msa_features", MSA, f, t / R, t % R, 0);
        linear(r, "embedding", "msa", true, MSA, CM, x, y);
        for (int c = 0; c < CM; c++)
            r->m[t / R][t % R][c] = y[c] + target[t % R][c];
    }
}

static double cross_entropy(int classes, const double *logits, double label)
{
    double sum = 0;
    for (int c = 0; c < classes; c++)
        sum += exp(logits[c]);
    return label < 0 ? 0 : log(sum) - logits[(int)label];
}

// The loss that is told, and what gradients are of: distances beside it at 0.3.
static void losses_of(struct reference *r, double losses[2])
{
    embed(r);
    for (r->position = 1; r->position <= BLOCKS; r->position++) {
        rows(r);
        columns(r);
        for (int t = 0; t < S * R; t++)
            transition(r, "msa_transition", CM, r->m[t / R][t % R]);
        outer(r);
        triangle(r, "outgoing", true);
        triangle(r, "incoming", false);
        around(r, "start", true);
        around(r, "end", false);
        for (int e = 0; e < R * R; e++)
            transition(r, "pair_transition", CZ, r->z[e / R][e % R]);
    }
    for (int t = 0; t < S * R; t++) {
        double logits[CLASSES];
        linear(r, "head", "masked", true, CM, CLASSES, r->m[t / R][t % R], logits);
        double label = value(r, "msa_labels", 0, 0, t / R, t % R, 0);
        losses[0] += cross_entropy(CLASSES, logits, label) / (S * R * BATCH);
    }
    for (int e = 0; e < R * R; e++) {
        int i = e / R, j = e % R;
        double here[BINS], there[BINS];
        linear(r, "head", "distance", true, CZ, BINS, r->z[i][j], here);
        linear(r, "head", "distance", true, CZ, BINS, r->z[j][i], there);
        for (int c = 0; c < BINS; c++)
            here[c] += there[c];
        losses[1] += 0.3 * cross_entropy(BINS, here, abs(i - j)) / (S * R * BATCH);
    }
}

static void batch_losses(struct reference *r, int step, double losses[2])
{
    losses[0] = losses[1] = 0;
    for (int s = 0; s < BATCH; s++) {
        r->sample = (uint64_t)(step * BATCH + s);
        losses_of(r, losses);
    }
}

static double all_losses(struct reference *r)
{
    double losses[2];
    batch_losses(r, STEPS, losses);
    return losses[0] + losses[1];
}

static struct run_outcome *trained(struct arena *arena, int steps)
{
    struct run_case of = run_case_new(CONFIG, (int64_t)S * R, BATCH);
    of.steps = steps;
    of.learning_rate = 0.02;
    of.clip_norm = 1e9;
    return run_case_done(arena, &of);
}

// Of each weight the first element or the last; of what both blocks have in one of them.
static void check_gradients(struct reference *r, const struct run_outcome *last)
{
    static const double STEP = 1e-5;
    int checked = 0;
    for (int i = 0; i < last->tensor_count; i++) {
        const struct run_tensor *gradient = &last->tensors[i];
        if (strncmp(gradient->key, "gradient ", 9) != 0) continue;
        int position = atoi(strrchr(gradient->key, ' ') + 1);
        bool is_in_both = position > 0 && position <= BLOCKS;
        if (is_in_both && (strlen(gradient->key) + (size_t)position) % 2) continue;
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
        double above = all_losses(r);
        values[e] = was - STEP;
        double below = all_losses(r);
        values[e] = was;
        double slope = (above - below) / (2 * STEP), found = gradient->values[e];
        if (fabs(slope - found) > 1e-8 + 1e-5 * fabs(slope))
            fail_msg("%s, element %lld: %.12g, the loss changes by %.12g", gradient->key,
                     (long long)e, found, slope);
        checked++;
    }
    assert_true(checked > 80);
}

static void the_evoformer_computes_what_plain_loops_do(void **state)
{
    struct reference *r = ARENA_NEW(*state, struct reference, 1);
    const struct run_outcome *last = trained(*state, STEPS + 1);
    *r = (struct reference){.arena = *state, .outcome = trained(*state, STEPS)};
    r->by_key = sorted(*state, r->outcome);
    double expected[2];
    batch_losses(r, STEPS, expected);
    assert_true(expected[0] > 0);
    if (fabs(last->loss[STEPS] - expected[0]) > 1e-12 * expected[0])
        fail_msg("a loss of %.17g, by plain loops %.17g", last->loss[STEPS], expected[0]);
    check_gradients(r, last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_evoformer_computes_what_plain_loops_do),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
