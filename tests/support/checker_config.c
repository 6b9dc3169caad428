#include "tests/support/checker_config.h"

#include <math.h>
#include <string.h>

const cJSON *checker_get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

double checker_number(const cJSON *object, const char *key, double otherwise)
{
    const cJSON *value = checker_get(object, key);
    return cJSON_IsNumber(value) ? value->valuedouble : otherwise;
}

const char *checker_word(const cJSON *object, const char *key)
{
    const cJSON *value = checker_get(object, key);
    return cJSON_IsString(value) ? value->valuestring : "";
}

bool checker_divides(double part, double whole)
{
    return part >= 1 && fmod(whole, part) == 0;
}

// The first of several names under which the families of models keep the same fact.
static double find(const cJSON *config, const char *const *names, double otherwise)
{
    for (; *names; names++) {
        double found = checker_number(config, *names, NAN);
        if (!isnan(found)) return found;
    }
    return otherwise;
}

// Dense layers come first, or every so many, or are listed.
static double sparse_layers(const cJSON *config, double layers)
{
    static const char *const STEP[] = {"decoder_sparse_step", "moe_layer_freq", NULL};
    double step = fmax(find(config, STEP, 1), 1);
    double dense = checker_number(config, "first_k_dense_replace", 0);
    dense += cJSON_GetArraySize(checker_get(config, "mlp_only_layers"));
    return fmax(floor((layers - dense) / step), 0);
}

static void read_experts(const cJSON *config, struct checker_shape *shape)
{
    static const char *const COUNT[] = {"num_local_experts", "num_experts", "n_routed_experts",
                                        "moe_num_experts", NULL};
    static const char *const FFN[] = {"moe_intermediate_size", "ffn_hidden_size", NULL};
    const cJSON *nested = checker_get(config, "ffn_config");
    const cJSON *from = nested ? nested : config;
    shape->experts = find(from, COUNT, 0);
    if (shape->experts < 2) {
        shape->experts = 0;
        return;
    }
    shape->expert_ffn = find(from, FFN, shape->ffn);
    shape->sparse_layers = sparse_layers(config, shape->layers);
}

static bool is_gated(const char *model_type)
{
    static const char *const GATED[] = {
        "llama",  "mistral", "qwen2",     "qwen3",       "gemma",       "gemma2",
        "phi3",   "mixtral", "qwen2_moe", "qwen3_moe",   "gpt_oss",     "dbrx",
        "grok-1", "grok1",   "kimi_k2",   "deepseek_v2", "deepseek_v3", NULL};
    for (const char *const *name = GATED; *name; name++) {
        if (strcmp(model_type, *name) == 0) return true;
    }
    return false;
}

struct checker_shape checker_shape_of(const cJSON *config)
{
    static const char *const LAYERS[] = {"num_hidden_layers", "n_layer", "n_layers", "num_layers",
                                         NULL};
    static const char *const HIDDEN[] = {"hidden_size", "n_embd", "n_embed", "d_model", NULL};
    static const char *const HEADS[] = {"num_attention_heads", "n_head", "n_heads", "num_heads",
                                        NULL};
    static const char *const KV_HEADS[] = {"num_key_value_heads", "num_kv_heads", "kv_n_heads",
                                           NULL};
    static const char *const FFN[] = {"intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size",
                                      NULL};
    static const char *const VOCAB[] = {"vocab_size", "padded_vocab_size", NULL};
    static const char *const HEAD_DIM[] = {"head_dim", NULL};
    const cJSON *attention = checker_get(config, "attn_config");
    struct checker_shape shape = {.layers = find(config, LAYERS, 0),
                                  .modules = checker_number(config, "num_nextn_predict_layers", 0),
                                  .hidden = find(config, HIDDEN, 0),
                                  .heads = find(config, HEADS, 0),
                                  .vocab = find(config, VOCAB, 0)};
    shape.kv_heads = find(attention ? attention : config, KV_HEADS, shape.heads);
    // One pair of k and v for all heads, in Falcon's older configs.
    if (cJSON_IsTrue(checker_get(config, "multi_query"))) shape.kv_heads = 1;
    shape.ffn = find(config, FFN, 4 * shape.hidden);
    shape.head_dim = find(config, HEAD_DIM, shape.hidden / fmax(shape.heads, 1));
    shape.gated = is_gated(checker_word(config, "model_type"));
    shape.latent = checker_number(config, "kv_lora_rank", 0) > 0;
    read_experts(config, &shape);
    return shape;
}

// Of the layers, what tp splits. What latent attention has is left out: too little, never too much.
static double dense_parameters(const struct checker_shape *shape)
{
    double attention = 2 * shape->hidden * shape->head_dim * (shape->heads + shape->kv_heads);
    double mlp = (shape->gated ? 3 : 2) * shape->hidden * shape->ffn;
    return shape->layers * (shape->latent ? 0 : attention) +
           (shape->layers - shape->sparse_layers) * mlp;
}

static double expert_parameters(const struct checker_shape *shape)
{
    return shape->sparse_layers * shape->experts * (shape->gated ? 3 : 2) * shape->hidden *
           shape->expert_ffn;
}

static double state_bytes(const cJSON *workload)
{
    const char *optimizer = checker_word(workload, "optimizer");
    double moments = strcmp(optimizer, "sgd") == 0 || strcmp(optimizer, "lars") == 0 ? 1 : 2;
    double master_bytes = strcmp(checker_word(workload, "precision"), "fp32") == 0 ? 0 : 4;
    return master_bytes + 4 * moments;
}

static double weight_bytes(const cJSON *workload)
{
    const char *precision = checker_word(workload, "precision");
    if (strcmp(precision, "fp32") == 0) return 4;
    if (strcmp(precision, "fp8") == 0) return 1;
    return strcmp(precision, "fp4") == 0 ? 0.5 : 2;
}

// The fullest stage holds at least the mean. Where ranks share a k and v head this counts too
// little, never too much.
double checker_plan_least_bytes(const cJSON *plan)
{
    const cJSON *parallel = checker_get(plan, "parallel"),
                *workload = checker_get(plan, "workload");
    struct checker_shape shape =
        checker_shape_of(checker_get(checker_get(plan, "model"), "config"));
    double tp = checker_number(parallel, "tp", 1), pp = checker_number(parallel, "pp", 1);
    double shards = checker_number(parallel, "dp", 1) * checker_number(parallel, "cp", 1);
    double split = checker_number(parallel, "ep", 1) * checker_number(parallel, "etp", 1);
    double expert_shards = fmax(shards * tp / split, 1);
    double zero_group = checker_number(parallel, "zero_group", 0);
    double zero = checker_number(parallel, "zero", 0);
    if (zero_group > 0) shards = zero_group;
    double gradients = checker_number(parallel, "zero_gradients", 0);
    double parameters = checker_number(parallel, "zero_parameters", 0);
    if (gradients == 0) gradients = shards;
    if (parameters == 0) parameters = gradients;
    double weight = weight_bytes(workload), state = state_bytes(workload);
    double dense = weight / (zero >= 3 ? parameters : 1) + state / (zero >= 1 ? shards : 1);
    double expert =
        weight / (zero >= 3 ? expert_shards : 1) + state / (zero >= 1 ? expert_shards : 1);
    return dense_parameters(&shape) / tp / pp * dense +
           expert_parameters(&shape) / split / pp * expert;
}

double checker_least_bytes(const char *json)
{
    cJSON *plan = cJSON_Parse(json);
    double bytes = plan ? checker_plan_least_bytes(plan) : 0;
    cJSON_Delete(plan);
    return bytes;
}
