#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

#include <assert.h>

// MiniMax-Text-01 (configuration_minimax.py of transformers 5.24): layers of lightning attention,
// and some that attend; the residual is what the norms in front make of it, and it and what is
// added to it have factors; every layer has experts.

struct minimax {
    double full_attn_alpha_factor, full_attn_beta_factor;
    double linear_attn_alpha_factor, linear_attn_beta_factor;
    double mlp_alpha_factor, mlp_beta_factor;
    int64_t block_size;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_F64(struct minimax, full_attn_alpha_factor, 1e-6, 1e6)},
    {JSON_OPT_F64(struct minimax, full_attn_beta_factor, 1e-6, 1e6)},
    {JSON_OPT_F64(struct minimax, linear_attn_alpha_factor, 1e-6, 1e6)},
    {JSON_OPT_F64(struct minimax, linear_attn_beta_factor, 1e-6, 1e6)},
    {JSON_OPT_F64(struct minimax, mlp_alpha_factor, 1e-6, 1e6)},
    {JSON_OPT_F64(struct minimax, mlp_beta_factor, 1e-6, 1e6)},
    {JSON_OPT_I64(struct minimax, block_size, 1, POSITIONS_MAX)},
    {0},
};

static const struct family_layer_type TYPES[] = {
    {"linear_attention", LAYER_SCAN | LAYER_MLP},
    {"full_attention", LAYER_ATTENTION | LAYER_MLP},
    {0},
};

// Each other layer attends, the first among them, where the list is absent.
static const uint8_t *read_layers(struct family_reader *reader, int64_t layer_count)
{
    if (reader->err->kind) return NULL;
    if (json_has(reader->object, "layer_types") && !family_is_null(reader, "layer_types"))
        return family_layer_parts(reader, "layer_types", layer_count, TYPES);
    uint8_t *parts = ARENA_NEW(reader->arena, uint8_t, layer_count);
    for (int64_t i = 0; i < layer_count; i++)
        parts[i] = (uint8_t)TYPES[i % 2 == 0].parts;
    family_taken(reader, "layer_types", "full_attention in each other layer");
    return parts;
}

// One is as good as none.
static struct skip_factors by(double residual, double branch)
{
    return (struct skip_factors){residual == 1 ? 0 : residual, branch == 1 ? 0 : branch};
}

static void set_scan(struct family_reader *reader, const struct minimax *own,
                     struct decoder *decoder)
{
    assert(decoder->head_dim > 0 && own->block_size > 0);
    decoder->parts = read_layers(reader, decoder->layer_count);
    decoder->scan = (struct scan_sizes){.rule = SCAN_STEADY,
                                        .head_count = decoder->head_count,
                                        .head_dim = decoder->head_dim,
                                        .group_count = decoder->head_count,
                                        .state = decoder->head_dim,
                                        .chunk = own->block_size,
                                        .activation = decoder->activation,
                                        .out_epsilon = 1e-6};  // MiniMaxRMSNorm by default
    decoder->on_attention = by(own->full_attn_alpha_factor, own->full_attn_beta_factor);
    decoder->on_scan = by(own->linear_attn_alpha_factor, own->linear_attn_beta_factor);
    decoder->on_mlp = by(own->mlp_alpha_factor, own->mlp_beta_factor);
}

static const void *read_minimax(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS,
                                .max_position_embeddings = 131072,
                                .has_own_types = true,
                                .dimensions = "num_key_value_heads",
                                .optional = "hidden_act rms_norm_eps",
                                .optional_or_null = "sliding_window head_dim"};
    struct expert_keys keys = {.has_local_name = true,
                               .norm_topk_prob = true,
                               .dimensions = "num_local_experts num_experts_per_tok"};
    struct minimax own = {1, 1, 1, 1, 1, 1, .block_size = 256};
    record.rms_norm_eps = 1e-5;
    record.rope_theta = 1e6;
    llama_like_read(reader, &record);
    expert_keys_read(reader, &keys, record.num_hidden_layers);
    keys.norm_topk_prob = true;
    family_read(reader, FIELDS, &own);
    family_absent(reader, FIELDS, &own,
                  &(struct family_keys){.optional = "full_attn_alpha_factor full_attn_beta_factor "
                                                    "linear_attn_alpha_factor mlp_alpha_factor "
                                                    "linear_attn_beta_factor mlp_beta_factor "
                                                    "block_size"});
    struct decoder decoder = llama_like_decoder(reader, "minimax", &record);
    if (reader->err->kind) return NULL;
    decoder.window = record.sliding_window;
    decoder.residual_after_norm = true;
    expert_keys_everywhere(reader, &keys, record.intermediate_size);
    expert_keys_apply(reader, &keys, &decoder);
    set_scan(reader, &own, &decoder);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_MINIMAX = {"minimax", read_minimax, decoder_graph,
                                            "MiniMaxConfig"};
