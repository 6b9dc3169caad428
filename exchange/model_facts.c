#include "exchange/model_facts.h"

#include "core/file.h"
#include "core/json_write.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct model_key {
    const char *fact, *key;
    bool is_needed;
};

static const struct model_key COMMON[] = {
    {"model.layers", "num_hidden_layers", true},
    {"model.hidden", "hidden_size", true},
    {"model.ffn", "intermediate_size", true},
    {"model.heads", "num_attention_heads", true},
    {"model.kv_heads", "num_key_value_heads", false},
    {"model.vocab", "vocab_size", true},
    {"model.positions", "max_position_embeddings", false},
    {"model.norm_eps", "rms_norm_eps", false},
    {"model.rope_base", "rope_theta", false},
    {"model.tied", "tie_word_embeddings", false},
    {0},
};
static const struct model_key HEAD_DIM[] = {{"model.head_dim", "head_dim", false}, {0}};
static const struct model_key MIXTRAL[] = {
    {"model.experts", "num_local_experts", true},
    {"model.topk", "num_experts_per_tok", true},
    {0},
};
static const struct model_key QWEN3_MOE[] = {
    {"model.head_dim", "head_dim", false},
    {"model.experts", "num_experts", true},
    {"model.topk", "num_experts_per_tok", true},
    {"model.expert_ffn", "moe_intermediate_size", true},
    {0},
};
static const struct model_key DEEPSEEK[] = {
    {"model.experts", "n_routed_experts", true},
    {"model.topk", "num_experts_per_tok", true},
    {"model.expert_ffn", "moe_intermediate_size", true},
    {"model.shared", "n_shared_experts", true},
    {"model.dense_layers", "first_k_dense_replace", true},
    {"model.groups", "n_group", false},
    {"model.group_topk", "topk_group", false},
    {"model.route_scale", "routed_scaling_factor", false},
    {"model.scoring", "scoring_func", false},
    {"model.q_rank", "q_lora_rank", true},
    {"model.kv_rank", "kv_lora_rank", true},
    {"model.nope_dim", "qk_nope_head_dim", true},
    {"model.rope_dim", "qk_rope_head_dim", true},
    {"model.v_dim", "v_head_dim", true},
    {"model.mtp", "num_nextn_predict_layers", false},
    {0},
};
static const struct model_key GPT2[] = {
    {"model.layers", "n_layer", true},
    {"model.hidden", "n_embd", true},
    {"model.ffn", "n_inner", false},
    {"model.heads", "n_head", true},
    {"model.vocab", "vocab_size", true},
    {"model.positions", "n_positions", true},
    {"model.norm_eps", "layer_norm_epsilon", false},
    {"model.dropout", "attn_pdrop", false},
    {"model.tied", "tie_word_embeddings", false},
    {0},
};

// What tells families apart, one value a feature in the order of FEATURES.
static const char *const FEATURES[] = {"model.norm",        "model.act",      "model.position",
                                       "model.bias",        "model.qkv_bias", "model.qk_norm",
                                       "model.has_experts", "model.latent"};
enum { FEATURE_COUNT = sizeof FEATURES / sizeof *FEATURES };
static const struct model_row {
    const char *type;
    const char *features[FEATURE_COUNT];
    const struct model_key *keys, *more;
} FAMILIES[] = {
    {"llama", {"rms", "swiglu", "rope", "off", "off", "off", "off", "off"}, COMMON, HEAD_DIM},
    {"mistral", {"rms", "swiglu", "rope", "off", "off", "off", "off", "off"}, COMMON, HEAD_DIM},
    {"qwen2", {"rms", "swiglu", "rope", "off", "on", "off", "off", "off"}, COMMON, NULL},
    {"qwen3", {"rms", "swiglu", "rope", "off", "off", "on", "off", "off"}, COMMON, HEAD_DIM},
    {"mixtral", {"rms", "swiglu", "rope", "off", "off", "off", "on", "off"}, COMMON, MIXTRAL},
    {"qwen3_moe", {"rms", "swiglu", "rope", "off", "off", "on", "on", "off"}, COMMON, QWEN3_MOE},
    {"deepseek_v3", {"rms", "swiglu", "rope", "off", "off", "on", "on", "on"}, COMMON, DEEPSEEK},
    {"gpt2", {"layer", "gelu", "learned", "on", "off", "off", "off", "off"}, GPT2, NULL},
};
enum { FAMILY_COUNT = sizeof FAMILIES / sizeof *FAMILIES };

// Keys that change the work of a model, and that no row tells: such a model is no other's.
static const char *const UNTOLD[] = {"sliding_window",  "partial_rotary_factor", "layer_types",
                                     "mlp_only_layers", "attention_bias",        "mlp_bias"};

static const char *value_text(struct arena *arena, const struct json *at)
{
    struct err unread = {0};
    if (json_is_number(at)) {
        double value = json_f64(at, -1e300, 1e300, &unread);
        // Options that are whole numbers are written without a point.
        if (value == floor(value) && fabs(value) < 1e15)
            return arena_print(arena, "%lld", (long long)value);
        struct json_writer writer = {.arena = arena};
        json_put_f64(&writer, NULL, value);
        writer.text[strcspn(writer.text, "\n")] = '\0';
        return writer.text;
    }
    if (json_is_text(at)) return json_text(at, &unread);
    return json_bool(at, &unread) ? "on" : "off";
}

static bool is_said(const struct json *config, const char *key)
{
    if (!json_has(config, key)) return false;
    struct err unread = {0};
    struct json at = json_get(config, key, &unread);
    return !json_is_array(&at) && !json_is_object(&at);
}

// What a config says by an object or a list no option of any program takes.
static void put_keys(struct facts *facts, const struct json *config, const struct model_key *keys)
{
    struct err unread = {0};
    for (; keys && keys->fact; keys++) {
        if (!is_said(config, keys->key)) continue;
        struct json at = json_get(config, keys->key, &unread);
        facts_put(facts, keys->fact, value_text(facts->arena, &at));
    }
}

static bool is_off(const struct json *config, const char *key)
{
    struct err unread = {0};
    if (!json_has(config, key)) return true;
    struct json at = json_get(config, key, &unread);
    if (json_is_array(&at)) return json_count(&at, &unread) == 0;
    if (json_is_text(&at) || json_is_object(&at)) return false;
    return json_is_number(&at) ? false : !json_bool(&at, &unread);
}

static const char *untold(const struct json *config)
{
    bool no_window = json_has(config, "use_sliding_window") && is_off(config, "use_sliding_window");
    for (size_t i = 0; i < sizeof UNTOLD / sizeof *UNTOLD; i++) {
        if (i == 0 && no_window) continue;
        if (!is_off(config, UNTOLD[i])) return UNTOLD[i];
    }
    return NULL;
}

// What a config leaves to defaults.
static void complete(struct facts *facts, const struct graph *graph)
{
    assert(graph->kv_head_count >= 0 && graph->seq_len_max >= 0);
    struct arena *arena = facts->arena;
    const struct model_fill {
        const char *fact;
        int64_t value;
    } fills[] = {{"model.kv_heads", graph->kv_head_count},
                 {"model.ffn", graph->ffn},
                 {"model.positions", graph->seq_len_max}};
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++) {
        if (facts_get(facts, fills[i].fact) || fills[i].value <= 0) continue;
        facts_put(facts, fills[i].fact, arena_print(arena, "%lld", (long long)fills[i].value));
    }
    if (!facts_get(facts, "model.tied")) {
        bool is_tied = facts_is(facts, "model.family", "gpt2");
        facts_put(facts, "model.tied", is_tied ? "on" : "off");
    }
    if (!facts_get(facts, "model.dropout"))
        facts_put(facts, "model.dropout", facts_is(facts, "model.family", "gpt2") ? "0.1" : "0");
    // A head is as wide as it would be anyway.
    int64_t heads = facts_number(facts, "model.heads", 1);
    if (facts_number(facts, "model.head_dim", 0) * heads == facts_number(facts, "model.hidden", 0))
        facts_put(facts, "model.head_dim", "");
}

static const struct model_row *family_of(const char *type)
{
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (strcmp(FAMILIES[i].type, type) == 0) return &FAMILIES[i];
    }
    return NULL;
}

static void drop_empty(struct facts *facts)
{
    int kept = 0;
    for (int i = 0; i < facts->count; i++) {
        if (*facts->items[i].value) facts->items[kept++] = facts->items[i];
    }
    assert(kept <= facts->count);
    facts->count = kept;
}

bool model_facts_put(struct facts *facts, const struct model_config *model,
                     const struct graph *graph, struct err *err)
{
    assert(model->model_type && graph->layer_count >= 0);
    struct arena *arena = facts->arena;
    const struct model_row *row = family_of(model->model_type);
    const char *odd = row ? untold(&model->config) : NULL;
    facts_put(facts, "model.name", model->name);
    facts_put(facts, "model.family", model->model_type);
    if (!row || odd) {
        facts_put(facts, "model.other", odd ? odd : model->model_type);
        facts_put(facts, "model.layers", arena_print(arena, "%d", graph->layer_count));
        if (graph->expert_count > 0)
            facts_put(facts, "model.experts",
                      arena_print(arena, "%lld", (long long)graph->expert_count));
        return !err->kind;
    }
    for (int i = 0; i < FEATURE_COUNT; i++)
        facts_put(facts, FEATURES[i], row->features[i]);
    put_keys(facts, &model->config, row->keys);
    put_keys(facts, &model->config, row->more);
    complete(facts, graph);
    if (facts_is(facts, "model.latent", "on")) facts_put(facts, "model.kv_heads", "");
    if (facts_is(facts, "model.mtp", "0")) facts_put(facts, "model.mtp", "");
    drop_empty(facts);
    return !err->kind;
}

// Every feature has to be said: a family that differs in one is another.
static bool has_features(const struct model_row *row, const struct facts *facts)
{
    for (int i = 0; i < FEATURE_COUNT; i++) {
        if (!facts_is(facts, FEATURES[i], row->features[i])) return false;
    }
    return true;
}

static const char *write_keys(struct json_writer *writer, const struct facts *facts,
                              const struct model_key *keys)
{
    for (; keys && keys->fact; keys++) {
        const char *value = facts_get(facts, keys->fact);
        char *end = NULL;
        if (!value && keys->is_needed) return keys->fact;
        if (!value) continue;
        double number = strtod(value, &end);
        if (strcmp(value, "on") == 0 || strcmp(value, "off") == 0) {
            json_put_bool(writer, keys->key, value[1] == 'n');
        } else if (end == value || *end) {
            json_put_text(writer, keys->key, value);
        } else {
            json_put_f64(writer, keys->key, number);
        }
    }
    return NULL;
}

const char *model_facts_config(struct arena *arena, const struct facts *facts, const char **lacks)
{
    const struct model_row *row = NULL;
    for (int i = 0; i < FAMILY_COUNT && !row; i++)
        row = has_features(&FAMILIES[i], facts) ? &FAMILIES[i] : NULL;
    const char *open = facts_get(facts, "model.open");
    *lacks = open ? open : "model.family";
    if (!row || open) return NULL;
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_text(&writer, "model_type", row->type);
    *lacks = write_keys(&writer, facts, row->keys);
    if (!*lacks) *lacks = write_keys(&writer, facts, row->more);
    json_close(&writer, '}');
    return *lacks ? NULL : writer.text;
}

// Whether it has everything that is said of a model, beside what software settles for itself.
static bool agrees(const struct facts *said, const struct facts *shipped)
{
    static const char *const free[] = {"model.positions", "model.name",     "model.family",
                                       "model.norm_eps",  "model.head_dim", "model.dropout"};
    for (int i = 0; i < said->count; i++) {
        const char *name = said->items[i].name;
        bool is_free = strncmp(name, "model.", 6) != 0;
        for (size_t j = 0; j < sizeof free / sizeof *free; j++)
            is_free = is_free || strcmp(free[j], name) == 0;
        const char *value = facts_get(shipped, name), *asked = said->items[i].value;
        if (strcmp(name, "model.open") == 0) value = facts_get(shipped, asked) ? asked : NULL;
        bool is_none = !value && strcmp(asked, "0") == 0;
        if (!is_free && !is_none && (!value || strcmp(value, asked) != 0)) return false;
    }
    return true;
}

static bool put_all(struct facts *facts, const struct model_config *model, struct err *err)
{
    const struct import_options options = {.flash = true};
    return model_facts_put(facts, model, model_graph(facts->arena, model, &options), err);
}

bool model_facts_agree(struct arena *arena, const struct facts *facts,
                       const struct model_config *model, bool *is_same, struct err *err)
{
    struct facts its = {.arena = arena};
    if (!put_all(&its, model, err)) return false;
    *is_same = agrees(facts, &its);
    return true;
}

const char *model_facts_shipped(struct arena *arena, const struct facts *facts, struct err *err)
{
    int count = 0;
    const char *found = NULL;
    const char **names = file_list_data(arena, "models/zoo", &count);
    if (!facts_get(facts, "model.hidden") || !facts_get(facts, "model.layers")) return NULL;
    for (int i = 0; i < count; i++) {
        const struct model_config *model = model_load(arena, names[i], NULL, NULL, err);
        if (!model) return NULL;
        struct facts shipped = {.arena = arena};
        if (!put_all(&shipped, model, err)) return NULL;
        if (facts_get(&shipped, "model.other") || !agrees(facts, &shipped)) continue;
        // Generations of one shape are told apart by their positions alone.
        const char *positions = facts_get(facts, "model.positions");
        if (positions && facts_is(&shipped, "model.positions", positions)) return names[i];
        found = found ? found : names[i];
    }
    return found;
}
