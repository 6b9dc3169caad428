#include "tests/checker.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const AXES[] = {"tp", "cp", "dp", "pp"};
enum { AXIS_KINDS = 4 };

static void violate(struct checker_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void violate(struct checker_result *result, const char *format, ...)
{
    if (result->violation_count++ > 0) return;
    va_list args;
    va_start(args, format);
    vsnprintf(result->text, sizeof result->text, format, args);
    va_end(args);
}

static const cJSON *get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static double number(const cJSON *object, const char *key, double otherwise)
{
    const cJSON *value = get(object, key);
    return cJSON_IsNumber(value) ? value->valuedouble : otherwise;
}

static const char *word(const cJSON *object, const char *key)
{
    const cJSON *value = get(object, key);
    return cJSON_IsString(value) ? value->valuestring : "";
}

static bool divides(double part, double whole)
{
    return part >= 1 && fmod(whole, part) == 0;
}

// The first of several names under which the families of models keep the same fact.
static double config_number(const cJSON *config, const char *const *names, double otherwise)
{
    for (; *names; names++) {
        double found = number(config, *names, NAN);
        if (!isnan(found)) return found;
    }
    return otherwise;
}

struct shape {
    double layers, hidden, heads, kv_heads, ffn, vocab, head_dim;
    bool gated;
};

static struct shape shape_of(const cJSON *config)
{
    static const char *const LAYERS[] = {"num_hidden_layers", "n_layer", "num_layers", NULL};
    static const char *const HIDDEN[] = {"hidden_size", "n_embd", "n_embed", "d_model", NULL};
    static const char *const HEADS[] = {"num_attention_heads", "n_head", "num_heads", NULL};
    static const char *const KV_HEADS[] = {"num_key_value_heads", "num_kv_heads", NULL};
    static const char *const FFN[] = {"intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size",
                                      NULL};
    static const char *const VOCAB[] = {"vocab_size", "padded_vocab_size", NULL};
    static const char *const HEAD_DIM[] = {"head_dim", NULL};
    static const char *const GATED[] = {"llama", "mistral", "qwen2", "qwen3",
                                        "gemma", "gemma2",  "phi3",  NULL};
    struct shape shape = {.layers = config_number(config, LAYERS, 0),
                          .hidden = config_number(config, HIDDEN, 0),
                          .heads = config_number(config, HEADS, 0),
                          .vocab = config_number(config, VOCAB, 0)};
    shape.kv_heads = config_number(config, KV_HEADS, shape.heads);
    // One pair of k and v for all heads, in Falcon's older configs.
    if (cJSON_IsTrue(get(config, "multi_query"))) shape.kv_heads = 1;
    shape.ffn = config_number(config, FFN, 4 * shape.hidden);
    shape.head_dim = config_number(config, HEAD_DIM, shape.hidden / fmax(shape.heads, 1));
    for (const char *const *name = GATED; *name; name++) {
        if (strcmp(word(config, "model_type"), *name) == 0) shape.gated = true;
    }
    return shape;
}

static double layer_parameters(const struct shape *shape)
{
    double attention = 2 * shape->hidden * shape->head_dim * (shape->heads + shape->kv_heads);
    return attention + (shape->gated ? 3 : 2) * shape->hidden * shape->ffn;
}

static double state_bytes(const cJSON *workload)
{
    const char *optimizer = word(workload, "optimizer");
    double moments = strcmp(optimizer, "sgd") == 0 || strcmp(optimizer, "lars") == 0 ? 1 : 2;
    double master_bytes = strcmp(word(workload, "precision"), "fp32") == 0 ? 0 : 4;
    return master_bytes + 4 * moments;
}

static double least_bytes(const cJSON *plan)
{
    const cJSON *parallel = get(plan, "parallel"), *workload = get(plan, "workload");
    struct shape shape = shape_of(get(get(plan, "model"), "config"));
    double tp = number(parallel, "tp", 1), pp = number(parallel, "pp", 1);
    double shards = number(parallel, "dp", 1) * number(parallel, "cp", 1);
    double zero_group = number(parallel, "zero_group", 0), zero = number(parallel, "zero", 0);
    if (zero_group > 0) shards = zero_group;
    // The fullest stage holds at least the mean. Where ranks share a k and v head this counts too
    // little, never too much.
    double parameters = shape.layers * layer_parameters(&shape) / tp / pp;
    double weight_bytes = strcmp(word(workload, "precision"), "fp32") == 0 ? 4 : 2;
    if (strcmp(word(workload, "precision"), "fp8") == 0) weight_bytes = 1;
    if (strcmp(word(workload, "precision"), "fp4") == 0) weight_bytes = 0.5;
    return parameters * (weight_bytes / (zero >= 3 ? shards : 1) +
                         state_bytes(workload) / (zero >= 1 ? shards : 1));
}

static double cluster_ranks(const cJSON *cluster)
{
    double whole = number(cluster, "rank_count", NAN), sum = 0;
    const cJSON *node = NULL;
    cJSON_ArrayForEach(node, get(cluster, "nodes"))
    {
        sum += number(node, "count", 1) * number(node, "gpus", 0);
    }
    return isnan(whole) ? sum : whole;
}

static double device_memory_bytes(const cJSON *cluster)
{
    double least = INFINITY;
    const cJSON *node = NULL;
    cJSON_ArrayForEach(node, get(cluster, "nodes"))
    {
        least = fmin(least, number(get(node, "device"), "memory_bytes", INFINITY));
    }
    return least;
}

static void check_order(const cJSON *parallel, struct checker_result *result)
{
    int seen[AXIS_KINDS] = {0}, count = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, get(parallel, "order"))
    {
        count++;
        for (int i = 0; i < AXIS_KINDS; i++) {
            if (cJSON_IsString(item) && strcmp(item->valuestring, AXES[i]) == 0) seen[i]++;
        }
    }
    for (int i = 0; i < AXIS_KINDS; i++) {
        if (seen[i] != 1) violate(result, "order names %s %d times", AXES[i], seen[i]);
    }
    if (count != AXIS_KINDS) violate(result, "order has %d axes", count);
}

static void check_split(const cJSON *plan, struct checker_result *result)
{
    const cJSON *parallel = get(plan, "parallel"), *workload = get(plan, "workload");
    struct shape shape = shape_of(get(get(plan, "model"), "config"));
    double product = 1, batch = number(workload, "global_batch", 0);
    for (int i = 0; i < AXIS_KINDS; i++) {
        double degree = number(parallel, AXES[i], 0);
        if (degree < 1 || degree != floor(degree)) violate(result, "%s is %g", AXES[i], degree);
        product *= degree;
    }
    double ranks = cluster_ranks(get(plan, "cluster"));
    if (product != ranks) violate(result, "dp*tp*cp*pp = %g on %g GPUs", product, ranks);
    double tp = number(parallel, "tp", 0), pp = number(parallel, "pp", 0);
    if (!divides(tp, shape.heads)) violate(result, "tp %g and %g heads", tp, shape.heads);
    double samples = number(parallel, "dp", 0) * number(parallel, "micro_batch", 0);
    if (!divides(samples, batch)) {
        violate(result, "dp * micro_batch = %g does not divide batch %g", samples, batch);
    }
    double vpp = number(parallel, "vpp", 0);
    if (vpp < 1 || pp * vpp > shape.layers + 2) {
        violate(result, "pp %g * vpp %g for %g layers", pp, vpp, shape.layers);
    }
    if (cJSON_IsTrue(get(parallel, "sp")) && !divides(tp, number(workload, "seq_len", 0))) {
        violate(result, "sp over tp %g does not divide the sequence", tp);
    }
    double zero = number(parallel, "zero", -1);
    if (zero < 0 || zero > 3) violate(result, "zero is %g", zero);
    if (strcmp(word(parallel, "schedule"), "interleaved") != 0 && vpp != 1) {
        violate(result, "%s with %g chunks", word(parallel, "schedule"), vpp);
    }
}

// As many stages as pp, each with a layer at least (the ends have the embedding and the head),
// together all layers.
static void check_stages(const cJSON *plan, struct checker_result *result)
{
    const cJSON *parallel = get(plan, "parallel"), *stages = get(plan, "stages");
    const cJSON *pinned = get(parallel, "stages");
    double worst = number(get(plan, "memory"), "reserved_bytes", 0), sum = 0;
    int index = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, stages)
    {
        double layers = number(item, "layers", 0);
        const cJSON *wanted = cJSON_GetArrayItem(pinned, index);
        bool is_end = index == 0 || !item->next;
        if (layers < (is_end ? 0 : 1)) violate(result, "stage %d holds %g layers", index, layers);
        if (pinned && (!cJSON_IsNumber(wanted) || wanted->valuedouble != layers)) {
            violate(result, "stage %d holds %g layers, not the number chosen", index, layers);
        }
        if (number(get(item, "memory"), "reserved_bytes", 0) > worst) {
            violate(result, "stage %d needs more memory than the worst stage", index);
        }
        sum += layers;
        index++;
    }
    double layers = shape_of(get(get(plan, "model"), "config")).layers;
    if (sum != layers) violate(result, "stages hold %g of %g layers", sum, layers);
    double pp = number(parallel, "pp", 0);
    if (index != pp) violate(result, "%d stages for pp %g", index, pp);
}

static void check_memory(const cJSON *plan, struct checker_result *result)
{
    const cJSON *memory = get(plan, "memory");
    double reserved = number(memory, "reserved_bytes", NAN);
    double device = device_memory_bytes(get(plan, "cluster"));
    if (isnan(reserved)) reserved = number(get(plan, "prediction"), "reserved_bytes", NAN);
    if (isnan(reserved)) {
        violate(result, "no reserved_bytes");
        return;
    }
    bool fits = cJSON_IsTrue(get(memory, "fits"));
    if (fits != (reserved <= device)) {
        violate(result, "fits is %s with %.0f of %.0f bytes", fits ? "true" : "false", reserved,
                device);
    }
    double least = least_bytes(plan);
    if (reserved < least) {
        violate(result, "reserved %.0f bytes, weights and optimizer alone need %.0f", reserved,
                least);
    }
}

static void check_parts(const cJSON *parts, const char *name, double whole,
                        struct checker_result *result)
{
    double sum = 0;
    const cJSON *part = NULL;
    cJSON_ArrayForEach(part, parts)
    {
        if (!cJSON_IsNumber(part)) continue;
        if (part->valuedouble < 0) violate(result, "%s is negative", part->string);
        sum += part->valuedouble;
    }
    if (!(fabs(sum - whole) <= 1e-6 * whole)) {
        violate(result, "the parts of %s sum to %.9g, not to %.9g", name, sum, whole);
    }
}

static void check_prediction(const cJSON *plan, struct checker_result *result)
{
    const cJSON *prediction = get(plan, "prediction"), *breakdown = get(prediction, "breakdown");
    double step_s = number(prediction, "step_s", 0);
    if (!(step_s > 0)) violate(result, "step_s is %g", step_s);
    check_parts(breakdown, "the step", step_s, result);
    check_parts(get(prediction, "exposed_comm"), "exposed_comm_s",
                number(breakdown, "exposed_comm_s", NAN), result);
    double mfu = number(prediction, "mfu_ratio", NAN);
    if (!(mfu > 0 && mfu < 1)) violate(result, "mfu_ratio is %g", mfu);
    double low = number(prediction, "step_s_low", step_s);
    double high = number(prediction, "step_s_high", step_s);
    if (low > high) violate(result, "step_s_low %g is above step_s_high %g", low, high);
}

struct checker_result checker_check(const char *json)
{
    struct checker_result result = {0};
    cJSON *plan = cJSON_Parse(json);
    if (!plan) {
        violate(&result, "no JSON");
        return result;
    }
    check_order(get(plan, "parallel"), &result);
    check_split(plan, &result);
    check_stages(plan, &result);
    check_memory(plan, &result);
    check_prediction(plan, &result);
    cJSON_Delete(plan);
    return result;
}

double checker_least_bytes(const char *json)
{
    cJSON *plan = cJSON_Parse(json);
    double bytes = plan ? least_bytes(plan) : 0;
    cJSON_Delete(plan);
    return bytes;
}
