#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

struct minimax_m2 {
    int64_t rotary_dim;  // 0 = the whole head
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct minimax_m2, rotary_dim, 2, HEADS_MAX)},
    {0},
};

// Queries and keys of all heads are normed as one row; experts are chosen by sigmoid scores and a
// bias that balances their loads.
static const void *read_minimax_m2(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 196608,
                                .dimensions_or_null = "num_key_value_heads head_dim",
                                .optional = "hidden_act rms_norm_eps"};
    struct expert_keys keys = {.has_local_name = true,
                               .dimensions = "num_local_experts num_experts_per_tok"};
    struct minimax_m2 own = {0};
    record.rope_theta = 5e6;
    llama_like_read(reader, &record);
    expert_keys_read(reader, &keys, record.num_hidden_layers);
    if (!reader->err->kind) family_read(reader, FIELDS, &own);
    struct decoder decoder = llama_like_decoder(reader, "minimax_m2", &record);
    decoder.head_norms = decoder.head_norms_whole = true;
    expert_keys_everywhere(reader, &keys, record.intermediate_size);
    expert_keys_apply(reader, &keys, &decoder);
    decoder.experts.route = FUNCTION_ROUTE_SIGMOID_TOP_K;
    decoder.experts.choice_bias = true;
    if (reader->err->kind) return NULL;
    if (own.rotary_dim == 0) {
        family_taken(reader, "rotary_dim", "%lld", (long long)decoder.rotary_dims);
    } else if (own.rotary_dim > decoder.head_dim || own.rotary_dim % 2) {
        family_fail(reader, "rotary_dim", "%lld dims of %lld cannot be rotated in pairs",
                    (long long)own.rotary_dim, (long long)decoder.head_dim);
    } else {
        decoder.rotary_dims = own.rotary_dim;
    }
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_MINIMAX_M2 = {"minimax_m2", read_minimax_m2, decoder_graph,
                                               "MiniMaxM2Config"};
