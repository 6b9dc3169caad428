#include "tests/support/random_search.h"

#include "planner/choice.h"
#include "tests/support/random_network.h"
#include "tests/support/test.h"

// A dense model, or a mixture whose first layers may be dense.
static const char *draw_config(struct arena *arena, struct draw *draw, int layers, int heads,
                               int hidden)
{
    int kv_heads = draw_int(draw, 0, 1) ? heads : heads / 2;
    const char *common =
        arena_print(arena,
                    "\"num_hidden_layers\": %d, \"hidden_size\": %d, \"num_attention_heads\": %d, "
                    "\"num_key_value_heads\": %d, \"vocab_size\": %d, "
                    "\"tie_word_embeddings\": %s",
                    layers, hidden, heads, kv_heads, draw_int(draw, 1000, 60000),
                    draw_int(draw, 0, 1) ? "true" : "false");
    switch (draw_int(draw, 0, 5)) {
    case 0:
        return arena_print(arena,
                           "{\"model_type\": \"gpt2\", \"n_layer\": %d, \"n_embd\": %d, "
                           "\"n_head\": %d, \"vocab_size\": 50257, \"n_positions\": 4096}",
                           layers, hidden, heads);
    case 1:
    case 2:
        return arena_print(arena,
                           "{\"model_type\": \"mixtral\", %s, \"intermediate_size\": %d, "
                           "\"num_local_experts\": %d, \"num_experts_per_tok\": 2}",
                           common, 2 * hidden, draw_int(draw, 0, 1) ? 8 : 6);
    case 3:
        return arena_print(arena,
                           "{\"model_type\": \"qwen2_moe\", %s, \"intermediate_size\": %d, "
                           "\"moe_intermediate_size\": %d, \"num_experts\": 16, "
                           "\"num_experts_per_tok\": 4, \"mlp_only_layers\": [0], "
                           "\"shared_expert_intermediate_size\": %d}",
                           common, 2 * hidden, hidden / 2, hidden);
    default:
        return arena_print(arena, "{\"model_type\": \"llama\", %s, \"intermediate_size\": %d}",
                           common, 3 * hidden);
    }
}

static const struct model_config *draw_model(struct arena *arena, struct draw *draw)
{
    static const int HEADS[] = {4, 6, 8, 12, 16}, HEAD_DIMS[] = {32, 64, 128};
    int heads = DRAW_ONE(draw, HEADS), hidden = heads * DRAW_ONE(draw, HEAD_DIMS);
    const char *text = draw_config(arena, draw, draw_int(draw, 2, 10), heads, hidden);
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    struct json *root = ARENA_NEW(arena, struct json, 1);
    struct err err = {0};
    bool ok = json_parse(arena, "drawn.json", text, strlen(text), document, &err);
    assert_true(ok);
    *root = json_root(document);
    const struct model_config *model = model_read(arena, "drawn", root, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    return model;
}

// A few GPUs of a shipped cluster, each with so little memory that it often decides.
static const struct cluster *draw_cluster(struct arena *arena, struct draw *draw)
{
    static const char *const NAMES[] = {"dgx-v100", "dgx-a100-40g", "dgx-h100", "a100-pcie8",
                                        "rtx4090-pcie8"};
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, DRAW_ONE(draw, NAMES), &err);
    assert_string_equal(err.text, "");
    assert_true(cluster_set_nodes(cluster, draw_int(draw, 1, 3), &err));
    assert_true(cluster_take_gpus(cluster, draw_int(draw, 1, cluster->rank_count), &err));
    random_tiers(draw, &cluster->network);
    struct device *device = ARENA_NEW(arena, struct device, 1);
    *device = *cluster->nodes[0].device;
    if (draw_int(draw, 0, 3)) device->memory_bytes = (int64_t)draw_int(draw, 1500, 6000) << 20;
    cluster->nodes[0].device = device;
    return cluster;
}

// One that the devices and the stack have.
static enum precision draw_precision(struct draw *draw, const struct cluster *cluster,
                                     const struct stack *stack)
{
    for (;;) {
        enum precision precision = (enum precision)draw_int(draw, 0, PRECISION_COUNT - 1);
        struct err err = {0};
        if (cluster_check_precision(cluster, precision, &err) &&
            stack_check_precision(stack, precision, &err))
            return precision;
    }
}

struct search_request random_search(struct arena *arena, struct draw *draw)
{
    static const char *const STACKS[] = {"meshwright", "megatron-core", "megatron-deepspeed",
                                         "megatron-2021", "fsdp2"};
    static const int SEQ_LENS[] = {256, 512, 1024, 2048, 4096, 8192},
                     BATCHES[] = {8, 12, 24, 30, 32, 60, 64};
    struct err err = {0};
    struct search_request request = {.pins = pins_none(), .top = 3};
    request.model = draw_model(arena, draw);
    request.cluster = draw_cluster(arena, draw);
    request.stack = stack_load(arena, DRAW_ONE(draw, STACKS), &err);
    request.fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    request.workload = (struct workload){
        .seq_len = DRAW_ONE(draw, SEQ_LENS),
        .global_batch = DRAW_ONE(draw, BATCHES),
        .precision = draw_precision(draw, request.cluster, request.stack),
        .optimizer = (enum optimizer)draw_int(draw, 0, OPTIMIZER_COUNT - 1),
    };
    return request;
}
