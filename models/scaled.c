#include "models/scaled.h"

#include "core/divisor.h"
#include "core/json_write.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum role { ROLE_NONE, ROLE_HEADS, ROLE_KV_HEADS, ROLE_WIDTH, ROLE_INNER, ROLE_LAYERS };

// What the families call them.
static const struct {
    const char *key;
    enum role role;
} KEYS[] = {
    {"num_attention_heads", ROLE_HEADS},
    {"n_head", ROLE_HEADS},
    {"n_heads", ROLE_HEADS},
    {"num_key_value_heads", ROLE_KV_HEADS},
    {"num_kv_heads", ROLE_KV_HEADS},
    {"kv_n_heads", ROLE_KV_HEADS},
    {"hidden_size", ROLE_WIDTH},
    {"n_embd", ROLE_WIDTH},
    {"n_embed", ROLE_WIDTH},
    {"d_model", ROLE_WIDTH},
    {"word_embed_proj_dim", ROLE_WIDTH},
    {"intermediate_size", ROLE_INNER},
    {"intermediate_size_mlp", ROLE_INNER},
    {"n_inner", ROLE_INNER},
    {"ffn_dim", ROLE_INNER},
    {"ffn_hidden_size", ROLE_INNER},
    {"moe_intermediate_size", ROLE_INNER},
    {"shared_expert_intermediate_size", ROLE_INNER},
    {"num_hidden_layers", ROLE_LAYERS},
    {"n_layer", ROLE_LAYERS},
    {"n_layers", ROLE_LAYERS},
};

// Feed-forward widths are rounded to it: tiles of matrix units.
static const double INNER_MULTIPLE = 128;

static enum role role_of(const char *key)
{
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        if (strcmp(KEYS[i].key, key) == 0) return KEYS[i].role;
    }
    return ROLE_NONE;
}

// The first whole number above 0 under a key of this role, at any depth; 0: none.
static int64_t find(const struct json *object, enum role role)
{
    assert(role != ROLE_NONE);
    struct err err = {0};
    int count = json_member_count(object, &err);
    for (int i = 0; i < count; i++) {
        struct json member = json_item(object, i);
        if (json_is_object(&member)) {
            int64_t inside = find(&member, role);
            if (inside > 0) return inside;
        } else if (json_is_number(&member) && role_of(json_key(&member)) == role) {
            int64_t value = json_i64(&member, 1, 0x1p40, &err);
            if (!err.kind) return value;
        }
    }
    return 0;
}

int64_t model_scale_step(const struct model_config *config, struct err *err)
{
    enum { SPLIT_MOST = 8 };
    int64_t heads = find(&config->config, ROLE_HEADS);
    int64_t kv_heads = find(&config->config, ROLE_KV_HEADS);
    if (heads == 0 || find(&config->config, ROLE_WIDTH) == 0 ||
        find(&config->config, ROLE_LAYERS) == 0) {
        err_set(err, ERR_USAGE,
                "model %s cannot be scaled: its config does not say heads, width and layers",
                config->name);
        return 0;
    }
    int64_t group = kv_heads > 1 && heads % kv_heads == 0 ? heads / kv_heads : 1;
    // No first size is larger than the model itself.
    int64_t split = SPLIT_MOST;
    while (split > 1 && common_multiple(group, split) > heads)
        split /= 2;
    assert(group >= 1 && common_multiple(group, split) <= heads);
    return common_multiple(group, split);
}

static double scaled(enum role role, double value, double ratio)
{
    double exact = value * ratio;
    if (role == ROLE_INNER) return fmax(1, round(exact / INNER_MULTIPLE)) * INNER_MULTIPLE;
    // One key-value head for all is a choice of the architecture, not a size.
    if (role == ROLE_KV_HEADS && value == 1) return 1;
    return fmax(1, round(exact));
}

// The same object, at any depth, with other sizes: what has no role is copied word for word.
static void write_scaled(struct json_writer *writer, const char *key, const struct json *object,
                         double ratio)
{
    assert(ratio > 0 && isfinite(ratio));
    struct err err = {0};
    int count = json_member_count(object, &err);
    json_open(writer, key, '{');
    for (int i = 0; i < count; i++) {
        struct json member = json_item(object, i);
        const char *name = json_key(&member);
        enum role role = role_of(name);
        if (json_is_object(&member)) {
            write_scaled(writer, name, &member, ratio);
        } else if (role != ROLE_NONE && json_is_number(&member)) {
            double value = json_f64(&member, -0x1p53, 0x1p53, &err);
            json_put_i64(writer, name, (int64_t)scaled(role, value, ratio));
        } else {
            json_put_copy(writer, name, &member);
        }
    }
    json_close(writer, '}');
}

struct model_config *model_scaled(struct arena *arena, const struct model_config *config,
                                  int64_t steps, struct err *err)
{
    assert(steps > 0);
    int64_t step = model_scale_step(config, err);
    if (step == 0) return NULL;
    double heads = (double)find(&config->config, ROLE_HEADS);
    struct json_writer writer = {.arena = arena};
    write_scaled(&writer, NULL, &config->config, (double)(steps * step) / heads);
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    struct err fault = {0};
    struct model_config *model = NULL;
    if (json_parse(arena, config->name, writer.text, writer.length, document, &fault)) {
        struct json *root = ARENA_NEW(arena, struct json, 1);
        *root = json_root(document);
        model = model_read(arena, config->name, root, NULL, NULL, &fault);
    }
    if (!model) {
        err_set(err, ERR_USAGE, "model %s of %lld heads: %.800s", config->name,
                (long long)steps * step, fault.text);
    }
    return model;
}
