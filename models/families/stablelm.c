#include "models/families/llama_like.h"

// Layer norms, of which attention and mlp share one where they are side by side; a quarter of each
// head rotates.
struct stablelm {
    bool use_qkv_bias, use_parallel_residual;
    double hidden_dropout;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_BOOL(struct stablelm, use_qkv_bias)},
    {JSON_OPT_BOOL(struct stablelm, use_parallel_residual)},
    {JSON_OPT_F64(struct stablelm, hidden_dropout, 0, DROPOUT_MAX)},
    {0},
};

static const void *read_stablelm(struct family_reader *reader)
{
    struct stablelm own = {0};
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 4096,
                                .dimensions_or_null = "num_key_value_heads",
                                .optional = "hidden_act layer_norm_eps partial_rotary_factor"};
    record.partial_rotary_factor = 0.25;
    llama_like_read(reader, &record);
    family_read(reader, FIELDS, &own);
    family_absent(
        reader, FIELDS, &own,
        &(struct family_keys){.optional = "use_qkv_bias use_parallel_residual hidden_dropout"});
    record.head_dim = 0;  // not among its keys
    struct decoder decoder = llama_like_decoder(reader, "stablelm", &record);
    decoder.norm = FUNCTION_LAYER_NORM;
    decoder.norm_epsilon = record.layer_norm_eps;
    decoder.norm_place = own.use_parallel_residual ? NORM_SHARED : NORM_BEFORE;
    decoder.qkv_bias = own.use_qkv_bias;
    decoder.hidden_dropout = own.hidden_dropout;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_STABLELM = {"stablelm", read_stablelm, decoder_graph,
                                             "StableLmConfig"};
