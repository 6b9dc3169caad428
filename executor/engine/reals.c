#include "executor/engine/reals.h"

#include "executor/random.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Clean latents are waves over frames and places, so that there is something to learn. With noise n
// and step t a model reads (1 - t) x + t n and says x - n (rectified flow: Liu et al. 2022, section
// 2.1); of a second half of its outputs, the variance, it says 0.

// Of proteins sequences and their features are random; labels of aligned sequences are there for
// one place in seven, which a model has to fill in, and those of distances follow from two
// residues.

enum kind {
    LATENTS,
    TARGET,
    STEP_WAVES,
    RATE_WAVES,
    TEXT,
    PLACES,
    FRAMES,
    RESIDUES,
    RESIDUES_J,
    MSA,
    RELATIVE,
    MSA_LABELS,
    DISTANCE_LABELS,
    PATCH_SHARES,
    PICTURE_PLACES,
    GUIDANCE_WAVES,
    POOLED_TEXT,
    KIND_COUNT
};
static const char *const NAMES[KIND_COUNT] = {
    "noised_latents",    "target",          "timestep_waves",     "frame_rate_waves",
    "text_states",       "place_embedding", "frame_embedding",    "target_features",
    "target_features_j", "msa_features",    "relative_positions", "msa_labels",
    "distance_labels",   "patch_shares",    "picture_places",     "guidance_waves",
    "pooled_text"};

static int kind_of(const char *name)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        if (strcmp(name, NAMES[i]) == 0) return i;
    }
    return -1;
}

bool reals_are_known(const char *name)
{
    return kind_of(name) >= 0;
}

// Evenly between 0 and 1.
static double draw(uint64_t key, uint64_t at)
{
    return ((double)random_at(key, at).word[0] + 0.5) / 4294967296.0;
}

// Of variance 1.
static double draw_noise(uint64_t key, uint64_t at)
{
    return sqrt(12.0) * (draw(key, at) - 0.5);
}

// Number `at` of `width` sines and cosines, from the fastest on (Vaswani et al. 2017, section 3.5).
static double wave(double place, int64_t at, int64_t width)
{
    assert(at >= 0 && width > 0);
    int64_t half = width / 2 > 0 ? width / 2 : 1;
    double angle = place * pow(10000, -(double)(at % half) / (double)half);
    return at < half ? cos(angle) : sin(angle);
}

static int64_t index_of(const struct tensor *tensor, enum dim dim, const int64_t *index)
{
    int at = tensor_find_dim(tensor, dim);
    return at < 0 ? 0 : index[at];
}

// What the model reads or says of one latent; `channels` of them have noise.
static double latent(const struct graph *graph, enum kind kind, uint64_t key, double step,
                     const struct tensor *tensor, const int64_t *index)
{
    // Of images channels stand in front of the places.
    bool is_image = tensor_find_dim(tensor, DIM_HEIGHT) >= 0;
    int64_t channel = is_image ? index_of(tensor, DIM_CHANNEL, index) : index[tensor->rank - 1];
    int64_t frame = index_of(tensor, DIM_TIME, index), place = index_of(tensor, DIM_SEQ, index);
    if (is_image) {
        int at = tensor_find_dim(tensor, DIM_WIDTH);
        place = index_of(tensor, DIM_HEIGHT, index) * tensor->extents[at].size + index[at];
    }
    int64_t token = frame * graph->places + place;
    if (kind == TARGET && channel >= graph->channels) return 0;
    double phase = 6.283185307179586 * draw(key, (uint64_t)channel);
    double clean = sin(phase + 0.5 * (double)frame + 0.3 * (double)place);
    uint64_t at = (uint64_t)(token * graph->channels + channel);
    double noise = draw_noise(random_key(key, 1), at);
    return kind == TARGET ? clean - noise : (1 - step) * clean + step * noise;
}

// One number of a protein; of labels which of `classes`, -1: none.
static double protein(enum kind kind, uint64_t key, const struct tensor *tensor,
                      const int64_t *index)
{
    enum { MSA_CLASSES = 23, DISTANCE_CLASSES = 64, RESIDUES_MOST = 1 << 20 };
    int64_t i = index_of(tensor, DIM_RES_I, index), j = index_of(tensor, DIM_RES_J, index);
    int64_t row = index_of(tensor, DIM_MSA, index) * RESIDUES_MOST + i;
    int64_t last = index[tensor->rank - 1], width = tensor->extents[tensor->rank - 1].size;
    switch (kind) {
    case RESIDUES:
    case RESIDUES_J:
        return draw_noise(random_key(key, 5),
                          (uint64_t)((kind == RESIDUES ? i : j) * width + last));
    case MSA:
        return draw_noise(random_key(key, 6), (uint64_t)(row * width + last));
    case RELATIVE: {
        int64_t most = width / 2, apart = i - j;
        apart = apart > most ? most : apart < -most ? -most : apart;
        return apart + most == last ? 1 : 0;
    }
    case MSA_LABELS: {
        struct random_bits bits = random_at(random_key(key, 7), (uint64_t)row);
        return bits.word[0] % 7 == 0 ? (double)(bits.word[1] % MSA_CLASSES) : -1;
    }
    default: {
        int64_t apart = i > j ? i - j : j - i;
        return (double)(apart % DISTANCE_CLASSES);
    }
    }
}

// What a token of a picture has of a patch: tokens are means over squares of as many patches, both
// row by row.
static double share_of(const struct tensor *tensor, const int64_t *index)
{
    int64_t narrow = llround(sqrt((double)tensor->extents[0].size));
    int64_t wide = llround(sqrt((double)tensor->extents[1].size)), side = wide / narrow;
    assert(side > 0 && wide == side * narrow && "tokens are means over whole squares");
    bool is_row = index[1] / wide / side == index[0] / narrow;
    bool is_column = index[1] % wide / side == index[0] % narrow;
    return is_row && is_column ? 1 / (double)(side * side) : 0;
}

double reals_at(const struct graph *graph, uint64_t seed, uint64_t sample,
                const struct tensor *tensor, const int64_t *index)
{
    static const double STEPS = 1000, RATES[] = {8, 12, 24, 30}, GUIDANCE[] = {1, 2, 3.5};
    int kind = kind_of(tensor->name);
    uint64_t key = random_key(random_key(seed, 4), sample);
    double step = draw(random_key(key, 2), 0);
    int64_t last = index[tensor->rank - 1], width = tensor->extents[tensor->rank - 1].size;
    assert(kind >= 0);
    switch ((enum kind)kind) {
    case STEP_WAVES:
        return wave(STEPS * step, last, width);
    case RATE_WAVES:
        return wave(RATES[(int)(4 * draw(random_key(key, 3), 0))], last, width);
    case GUIDANCE_WAVES:
        return wave(STEPS * GUIDANCE[(int)(3 * draw(random_key(key, 8), 0))], last, width);
    case POOLED_TEXT:
        return draw_noise(random_key(key, 9), (uint64_t)last);
    case TEXT:
        return draw_noise(random_key(key, 4),
                          (uint64_t)(index_of(tensor, DIM_TEXT, index) * width + last));
    case PLACES:
        return wave((double)index_of(tensor, DIM_SEQ, index), last, width);
    case FRAMES:
        return wave((double)index_of(tensor, DIM_TIME, index), last, width);
    case LATENTS:
    case TARGET:
        return latent(graph, (enum kind)kind, key, step, tensor, index);
    case PATCH_SHARES:
        return share_of(tensor, index);
    case PICTURE_PLACES:
        return index[0] == index[1];
    default:
        return protein((enum kind)kind, key, tensor, index);
    }
}
