#include "models/families/llama_like.h"

// One layer norm for attention and mlp, whose results are added together; biases everywhere, the
// head among them.
static const void *read_phi(struct family_reader *reader)
{
    struct llama_like record = {
        LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 2048,
        .dimensions_or_null = "num_key_value_heads",
        .optional = "hidden_act layer_norm_eps partial_rotary_factor resid_pdrop embd_pdrop"};
    record.hidden_act = "gelu_new";
    record.partial_rotary_factor = 0.5;
    llama_like_read(reader, &record);
    record.head_dim = 0;  // not among its keys
    struct decoder decoder = llama_like_decoder(reader, "phi", &record);
    decoder.norm_place = NORM_SHARED;
    decoder.norm = FUNCTION_LAYER_NORM;
    decoder.norm_epsilon = record.layer_norm_eps;
    decoder.gated = false;
    decoder.qkv_bias = decoder.out_bias = decoder.mlp_bias = decoder.head_bias = true;
    decoder.hidden_dropout = record.resid_pdrop;
    decoder.embedding_dropout = record.embd_pdrop;
    return family_decoder(reader, &decoder);
}

struct persimmon {
    bool qk_layernorm;
    double hidden_dropout;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_BOOL(struct persimmon, qk_layernorm)},
    {JSON_OPT_F64(struct persimmon, hidden_dropout, 0, DROPOUT_MAX)},
    {0},
};

// Layer norms of heads as well; nothing drops out behind attention.
static const void *read_persimmon(struct family_reader *reader)
{
    struct persimmon own = {.qk_layernorm = true};
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 16384,
                                .optional = "hidden_act layer_norm_eps partial_rotary_factor"};
    record.hidden_act = "relu2";
    record.partial_rotary_factor = 0.5;
    llama_like_read(reader, &record);
    family_read(reader, FIELDS, &own);
    family_absent(reader, FIELDS, &own,
                  &(struct family_keys){.optional = "qk_layernorm hidden_dropout"});
    record.head_dim = 0;  // nor are these among its keys
    record.num_key_value_heads = record.num_attention_heads;
    struct decoder decoder = llama_like_decoder(reader, "persimmon", &record);
    decoder.norm = FUNCTION_LAYER_NORM;
    decoder.norm_epsilon = record.layer_norm_eps;
    decoder.gated = false;
    decoder.qkv_bias = decoder.out_bias = decoder.mlp_bias = true;
    decoder.head_norms = decoder.head_norms_layer = own.qk_layernorm;
    decoder.hidden_dropout = own.hidden_dropout;
    decoder.attention_adds_all = true;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_PERSIMMON = {"persimmon", read_persimmon, decoder_graph,
                                              "PersimmonConfig"};
const struct model_family FAMILY_PHI = {"phi", read_phi, decoder_graph, "PhiConfig"};
