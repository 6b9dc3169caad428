#include "plan/offload.h"
#include "models/graph.h"

#include <assert.h>
#include <string.h>

static const char *const TIERS[TIER_COUNT] = {"device", "host", "nvme"};
static const char OTHER[] = "other", TURN[] = "turn", BETWEEN[] = "between";

enum { TIER_BITS = 2, LAYER_BITS = 8, LAYERS_ALL = (1 << LAYER_BITS) - 1 };
// Behind all the rest.
enum { PARAMETERS_AT = 2 * TIER_BITS + OP_CLASS_COUNT * LAYER_BITS };
enum { GRADIENTS_AT = PARAMETERS_AT + TIER_BITS };
// Where states or parameters have a count, or some stay, one for all classes stands in the place of
// the first, and theirs in those of the next; the sign says so.
enum {
    STATES_CLASS = 1,
    PARAMETERS_CLASS,
    TURN_CLASS,
    BETWEEN_CLASS,
    GRADIENTS_CLASS,
    COUNTED_CLASSES
};
static const uint64_t COUNTS_STATES = (uint64_t)1 << 63;

// All of it fits into 63 bits and a sign, and every class has a place.
static_assert((int)OP_CLASS_COUNT <= (int)OFFLOAD_CLASS_MAX, "each class has a count");
static_assert((int)COUNTED_CLASSES <= (int)OP_CLASS_COUNT, "each count has a place");
static_assert((int)GRADIENTS_AT + 1 < 64, "a choice is one number");
static_assert((int)OFFLOAD_LAYERS_MAX < (int)LAYERS_ALL, "all layers are no count");

const char *tier_name(enum tier tier)
{
    assert(tier >= 0 && tier < TIER_COUNT);
    return TIERS[tier];
}

bool offload_moves_activations(const struct offload *offload)
{
    return offload->activations != TIER_DEVICE;
}

bool offload_moves_parameters(const struct offload *offload)
{
    return offload->parameters != TIER_DEVICE;
}

bool offload_moves_gradients(const struct offload *offload)
{
    return offload->gradients;
}

bool offload_reaches_nvme(const struct offload *offload)
{
    return offload->optimizer == TIER_NVME || offload->parameters == TIER_NVME ||
           offload->activations == TIER_NVME;
}

bool offload_is_none(const struct offload *offload)
{
    return offload->optimizer == TIER_DEVICE && !offload_moves_parameters(offload) &&
           !offload_moves_gradients(offload) && !offload_moves_activations(offload);
}

unsigned offload_away(const struct offload *offload, int layer)
{
    bool states = offload->optimizer != TIER_DEVICE && layer < offload->optimizer_layers;
    bool gradients = offload->gradients && layer < offload->gradient_layers;
    return (states ? AWAY_STATES : 0U) | (gradients ? AWAY_GRADIENTS : 0U);
}

bool offload_takes_parameters(const struct offload *offload, int layer)
{
    if (!offload_moves_parameters(offload)) return false;
    return offload->parameter_layers == 0 || (layer >= 0 && layer < offload->parameter_layers);
}

unsigned offload_classes(const struct offload *offload, int layer)
{
    assert(layer >= 0);
    unsigned classes = 0;
    if (!offload_moves_activations(offload)) return 0;
    for (int class = 0; class < OFFLOAD_CLASS_MAX; class ++) {
        int count = offload->layers[class];
        if (count < 0 || layer < count) classes |= 1u << class;
    }
    return classes;
}

static const char *class_word(int class)
{
    return class == OP_CLASS_NONE ? OTHER : op_class_name((enum op_class) class);
}

static const char *join(struct arena *arena, const char *text, const char *word, int layers,
                        enum tier tier)
{
    const char *count = layers < 0 ? "" : arena_print(arena, ":%d", layers);
    const char *place = tier == TIER_HOST ? "" : arena_print(arena, "@%s", tier_name(tier));
    return arena_print(arena, "%s%s%s%s%s", text, *text ? "," : "", word, count, place);
}

bool offload_keeps_some(const struct offload *offload)
{
    return offload->turn_blocks != 0 || offload->between_layers != 0;
}

static bool counts_states(const struct offload *offload)
{
    return offload->optimizer_layers > 0 || offload->parameter_layers > 0 ||
           offload->gradient_layers > 0 || offload_keeps_some(offload);
}

bool offload_moves_alike(const struct offload *offload)
{
    for (int class = 1; class < OP_CLASS_COUNT; class ++) {
        if (offload->layers[class] != offload->layers[0]) return false;
    }
    return true;
}

static int count_or_all(int layers)
{
    return layers > 0 ? layers : -1;
}

const char *offload_words(struct arena *arena, const struct offload *offload)
{
    const char *text = "";
    if (offload_is_none(offload)) return "none";
    if (offload->optimizer != TIER_DEVICE)
        text = join(arena, text, "optimizer", count_or_all(offload->optimizer_layers),
                    offload->optimizer);
    if (offload_moves_parameters(offload))
        text = join(arena, text, "parameters", count_or_all(offload->parameter_layers),
                    offload->parameters);
    if (offload->turn_blocks != 0) text = join(arena, text, TURN, offload->turn_blocks, TIER_HOST);
    if (offload->between_layers != 0)
        text = join(arena, text, BETWEEN, offload->between_layers, TIER_HOST);
    if (offload_moves_gradients(offload))
        text = join(arena, text, "gradients", count_or_all(offload->gradient_layers), TIER_HOST);
    if (!offload_moves_activations(offload)) return text;
    if (offload_moves_alike(offload))
        return join(arena, text, "activations", offload->layers[0], offload->activations);
    for (int class = 0; class < OP_CLASS_COUNT; class ++) {
        if (offload->layers[class] == 0) continue;
        text = join(arena, text, class_word(class), offload->layers[class], offload->activations);
    }
    return text;
}

// One of the words: a name, a count behind ':' or none, a tier behind '@' or none.
struct word {
    const char *name;
    size_t length;
    int layers;
    enum tier tier;
    bool has_tier;
};

static bool read_count(const char *text, size_t length, int *layers)
{
    int count = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        count = 10 * count + (text[i] - '0');
        if (count > OFFLOAD_LAYERS_MAX) return false;
    }
    *layers = count;
    return count > 0;
}

static bool read_tier(const char *text, size_t length, enum tier *tier)
{
    for (enum tier at = TIER_HOST; at < TIER_COUNT; at++) {
        if (strlen(TIERS[at]) != length || strncmp(TIERS[at], text, length) != 0) continue;
        *tier = at;
        return true;
    }
    return false;
}

static bool read_word(const char *text, size_t length, struct word *word)
{
    *word = (struct word){.name = text, .length = length, .layers = -1, .tier = TIER_HOST};
    const char *at = memchr(text, '@', length);
    word->has_tier = at != NULL;
    if (at) {
        word->length = (size_t)(at - text);
        if (!read_tier(at + 1, length - word->length - 1, &word->tier)) return false;
    }
    const char *colon = memchr(text, ':', word->length);
    if (!colon) return true;
    size_t rest = word->length - (size_t)(colon - text) - 1;
    word->length = (size_t)(colon - text);
    return read_count(colon + 1, rest, &word->layers);
}

static bool is_word(const struct word *word, const char *name)
{
    return strlen(name) == word->length && strncmp(name, word->name, word->length) == 0;
}

static bool add_classes(const struct word *word, int first, int last, struct offload *offload)
{
    bool other_tier = offload_moves_activations(offload) && offload->activations != word->tier;
    if (other_tier) return false;
    offload->activations = word->tier;
    for (int class = first; class <= last; class ++) {
        if (offload->layers[class] != 0) return false;
        offload->layers[class] = (int16_t)word->layers;
    }
    return true;
}

// What has one tier and perhaps a count, and is said once.
static bool add_tier(const struct word *word, enum tier *tier, int16_t *layers)
{
    if (*tier != TIER_DEVICE) return false;
    *tier = word->tier;
    *layers = (int16_t)(word->layers < 0 ? 0 : word->layers);
    return true;
}

// On the host alone: what is added to in every micro-batch is read and written there.
static bool add_gradients(const struct word *word, struct offload *offload)
{
    if (word->tier != TIER_HOST || offload->gradients) return false;
    offload->gradient_layers = (int16_t)(word->layers < 0 ? 0 : word->layers);
    return offload->gradients = true;
}

// What stays on the device is on no tier.
static bool add_kept(const struct word *word, int16_t *count)
{
    if (word->has_tier || *count != 0) return false;
    *count = (int16_t)word->layers;
    return true;
}

static bool add_word(const struct word *word, struct offload *offload)
{
    if (is_word(word, "optimizer"))
        return add_tier(word, &offload->optimizer, &offload->optimizer_layers);
    if (is_word(word, "parameters"))
        return add_tier(word, &offload->parameters, &offload->parameter_layers);
    if (is_word(word, "gradients")) return add_gradients(word, offload);
    if (is_word(word, TURN)) return add_kept(word, &offload->turn_blocks);
    if (is_word(word, BETWEEN)) return add_kept(word, &offload->between_layers);
    if (is_word(word, "activations")) return add_classes(word, 0, OP_CLASS_COUNT - 1, offload);
    for (int class = 0; class < OP_CLASS_COUNT; class ++) {
        if (is_word(word, class_word(class))) return add_classes(word, class, class, offload);
    }
    return false;
}

bool offload_parse(const char *text, struct offload *offload)
{
    struct offload found = {0};
    if (strcmp(text, "none") == 0) return *offload = found, true;
    for (const char *at = text;; at++) {
        struct word word;
        size_t length = strcspn(at, ",");
        if (!read_word(at, length, &word) || !add_word(&word, &found)) return false;
        at += length;
        if (!*at) break;
    }
    if (counts_states(&found) && !offload_moves_alike(&found)) return false;
    *offload = found;
    return true;
}

// Of a class, in its place of a value.
static uint64_t count_bits(int class, int layers)
{
    assert(layers <= OFFLOAD_LAYERS_MAX);
    return (layers < 0 ? LAYERS_ALL : (uint64_t)layers) << (2 * TIER_BITS + class * LAYER_BITS);
}

static int16_t count_of(uint64_t bits, int class)
{
    int layers = (int)(bits >> (2 * TIER_BITS + class * LAYER_BITS) & LAYERS_ALL);
    return (int16_t)(layers == LAYERS_ALL ? -1 : layers);
}

int64_t offload_value(const struct offload *offload)
{
    uint64_t value = (uint64_t)offload->optimizer | (uint64_t)offload->activations << TIER_BITS;
    bool parts_states = counts_states(offload);
    assert(!parts_states || offload_moves_alike(offload));
    for (int class = 0; class < OP_CLASS_COUNT && !parts_states; class ++)
        value |= count_bits(class, offload->layers[class]);
    if (parts_states)
        value |= COUNTS_STATES | count_bits(0, offload->layers[0]) |
                 count_bits(STATES_CLASS, offload->optimizer_layers) |
                 count_bits(PARAMETERS_CLASS, offload->parameter_layers) |
                 count_bits(GRADIENTS_CLASS, offload->gradient_layers) |
                 count_bits(TURN_CLASS, offload->turn_blocks) |
                 count_bits(BETWEEN_CLASS, offload->between_layers);
    return (int64_t)(value | (uint64_t)offload->parameters << PARAMETERS_AT |
                     (uint64_t)offload->gradients << GRADIENTS_AT);
}

struct offload offload_of_value(int64_t value)
{
    const uint64_t tiers = (1u << TIER_BITS) - 1;
    uint64_t bits = (uint64_t)value;
    struct offload offload = {.optimizer = (enum tier)(bits & tiers),
                              .activations = (enum tier)(bits >> TIER_BITS & tiers),
                              .parameters = (enum tier)(bits >> PARAMETERS_AT & tiers),
                              .gradients = bits >> GRADIENTS_AT & 1};
    bool parts_states = bits & COUNTS_STATES;
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        offload.layers[class] = count_of(bits, parts_states ? 0 : class);
    if (parts_states) {
        offload.optimizer_layers = count_of(bits, STATES_CLASS);
        offload.parameter_layers = count_of(bits, PARAMETERS_CLASS);
        offload.gradient_layers = count_of(bits, GRADIENTS_CLASS);
        offload.turn_blocks = count_of(bits, TURN_CLASS);
        offload.between_layers = count_of(bits, BETWEEN_CLASS);
    }
    return offload;
}
