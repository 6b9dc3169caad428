#include "tests/support/tiny_models.h"

#include "tests/support/test.h"

#define TINY_LLAMA_LIKE                                                                            \
    "\"vocab_size\": 11, \"hidden_size\": 8, \"intermediate_size\": 6, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 4, "                    \
    "\"attention_bias\": true, \"mlp_bias\": true"

const char TINY_LLAMA[] = "{\"model_type\": \"llama\", " TINY_LLAMA_LIKE "}";

const char TINY_GPT2[] = "{\"model_type\": \"gpt2\", \"vocab_size\": 11, \"n_embd\": 8, "
                         "\"n_layer\": 2, \"n_head\": 2, \"n_positions\": 6, \"attn_pdrop\": 0.3}";

static const char TINY_GEMMA2[] =
    "{\"model_type\": \"gemma2\", " TINY_LLAMA_LIKE ", \"sliding_window\": 2, "
    "\"query_pre_attn_scalar\": 3, \"attn_logit_softcapping\": 1.5, "
    "\"final_logit_softcapping\": 2}";

static const char TINY_OPT[] =
    "{\"model_type\": \"opt\", \"vocab_size\": 11, \"hidden_size\": 8, \"num_hidden_layers\": 1, "
    "\"num_attention_heads\": 2, \"ffn_dim\": 6, \"max_position_embeddings\": 6, "
    "\"word_embed_proj_dim\": 4, \"do_layer_norm_before\": false, "
    "\"layer_norm_elementwise_affine\": false}";

static const char TINY_FALCON[] =
    "{\"model_type\": \"falcon\", \"vocab_size\": 11, \"hidden_size\": 8, \"bias\": true, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 4}";

static const char TINY_FALCON_NEW[] =
    "{\"model_type\": \"falcon\", \"vocab_size\": 11, \"hidden_size\": 8, \"num_hidden_layers\": "
    "1, "
    "\"num_attention_heads\": 4, \"num_kv_heads\": 2, \"new_decoder_architecture\": true}";

static const char TINY_NEOX[] =
    "{\"model_type\": \"gpt_neox\", \"vocab_size\": 11, \"hidden_size\": 16, \"rotary_pct\": 0.5, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"intermediate_size\": 6, "
    "\"hidden_dropout\": 0.2}";

static const char TINY_BLOOM[] = "{\"model_type\": \"bloom\", \"vocab_size\": 11, "
                                 "\"hidden_size\": 8, \"n_layer\": 1, \"n_head\": 2, "
                                 "\"apply_residual_connection_post_layernorm\": true}";

static const char TINY_BERT[] =
    "{\"model_type\": \"bert\", \"vocab_size\": 11, \"hidden_size\": 8, \"num_hidden_layers\": 1, "
    "\"num_attention_heads\": 2, \"intermediate_size\": 6, \"max_position_embeddings\": 6}";

#define TINY_SCAN "\"vocab_size\": 11, \"hidden_size\": 8, \"chunk_size\": 2"

#define TINY_LATENT                                                                                \
    "\"vocab_size\": 11, \"hidden_size\": 8, \"intermediate_size\": 8, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 4, \"kv_lora_rank\": 6, \"qk_nope_head_dim\": 3, "                   \
    "\"qk_rope_head_dim\": 4, \"v_head_dim\": 5"

const char TINY_DEEPSEEK_DENSE[] =
    "{\"model_type\": \"deepseek_v2\", " TINY_LATENT ", \"q_lora_rank\": 5, "
    "\"attention_bias\": true, \"mlp_bias\": true, \"n_routed_experts\": null}";
// Experts are as wide as the mlp is not, so that mistaking one for the other shows.
#define TINY_EXPERTS                                                                 \
    "\"num_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 5, " \
    "\"shared_expert_intermediate_size\": 3"

const char TINY_MIXTRAL[] = "{\"model_type\": \"mixtral\", " TINY_LLAMA_LIKE
                            ", \"num_local_experts\": 4, \"num_experts_per_tok\": 2}";

const char TINY_QWEN2_MOE[] =
    "{\"model_type\": \"qwen2_moe\", " TINY_LLAMA_LIKE ", " TINY_EXPERTS "}";

const char TINY_DEEPSEEK[] =
    "{\"model_type\": \"deepseek_v3\", " TINY_LATENT ", \"q_lora_rank\": 5, "
    "\"first_k_dense_replace\": 1, \"n_routed_experts\": 4, \"n_shared_experts\": 1, "
    "\"num_experts_per_tok\": 2, "
    "\"moe_intermediate_size\": 6, \"n_group\": null, \"num_nextn_predict_layers\": 0}";

const char TINY_DEEPSEEK_MTP[] =
    "{\"model_type\": \"deepseek_v3\", " TINY_LATENT ", \"q_lora_rank\": null, "
    "\"n_routed_experts\": null, \"num_nextn_predict_layers\": 1}";

const char *const TINY_MODELS[] = {
    TINY_LLAMA,
    TINY_GPT2,
    TINY_GEMMA2,
    TINY_OPT,
    TINY_FALCON,
    TINY_FALCON_NEW,
    TINY_NEOX,
    TINY_BLOOM,
    TINY_BERT,
    TINY_DEEPSEEK_DENSE,
    TINY_DEEPSEEK,
    TINY_DEEPSEEK_MTP,
    "{\"model_type\": \"deepseek_v2\", " TINY_LATENT ", \"q_lora_rank\": null, "
    "\"n_routed_experts\": null, \"tie_word_embeddings\": true}",
    "{\"model_type\": \"mistral\", " TINY_LLAMA_LIKE ", \"sliding_window\": 3}",
    "{\"model_type\": \"qwen2\", " TINY_LLAMA_LIKE ", \"use_sliding_window\": true, "
    "\"sliding_window\": 3, \"max_window_layers\": 1}",
    "{\"model_type\": \"qwen3\", " TINY_LLAMA_LIKE "}",
    "{\"model_type\": \"gemma3_text\", " TINY_LLAMA_LIKE ", \"sliding_window\": 2, "
    "\"sliding_window_pattern\": 2}",
    "{\"model_type\": \"gemma\", " TINY_LLAMA_LIKE "}",
    "{\"model_type\": \"phi3\", " TINY_LLAMA_LIKE ", \"partial_rotary_factor\": 0.5}",
    "{\"model_type\": \"nemotron\", " TINY_LLAMA_LIKE "}",
    "{\"model_type\": \"starcoder2\", " TINY_LLAMA_LIKE ", \"residual_dropout\": 0.1}",
    TINY_MIXTRAL,
    TINY_QWEN2_MOE,
    "{\"model_type\": \"qwen3_moe\", " TINY_LLAMA_LIKE ", " TINY_EXPERTS ", "
    "\"norm_topk_prob\": true, \"decoder_sparse_step\": 2}",
    "{\"model_type\": \"gpt_oss\", " TINY_LLAMA_LIKE ", " TINY_EXPERTS ", \"sliding_window\": 2}",
    "{\"model_type\": \"grok-1\", " TINY_LLAMA_LIKE ", " TINY_EXPERTS ", \"max_attn_value\": 2, "
    "\"embedding_multiplier_scale\": 3, \"output_multiplier_scale\": 0.5}",
    "{\"model_type\": \"dbrx\", \"vocab_size\": 11, \"d_model\": 8, \"n_heads\": 4, \"n_layers\": "
    "1, "
    "\"attn_config\": {\"kv_n_heads\": 2}, \"ffn_config\": {\"ffn_hidden_size\": 5, "
    "\"moe_num_experts\": 4, \"moe_top_k\": 2, \"ffn_act_fn\": {\"name\": \"gelu\"}}}",
    "{\"model_type\": \"glm4_moe\", " TINY_LLAMA_LIKE ", " TINY_EXPERTS ", "
    "\"n_routed_experts\": 4, \"n_shared_experts\": 1, \"first_k_dense_replace\": 1, "
    "\"use_qk_norm\": true, \"routed_scaling_factor\": 1.5}",
    "{\"model_type\": \"llama4_text\", " TINY_LLAMA_LIKE
    ", \"num_local_experts\": 4, \"num_experts_per_tok\": 2, \"intermediate_size_mlp\": 5, "
    "\"interleave_moe_layer_step\": 2, \"attention_chunk_size\": 2, \"no_rope_layer_interval\": 2}",
    "{\"model_type\": \"mamba2\", " TINY_SCAN ", \"num_heads\": 4, \"head_dim\": 4, "
    "\"state_size\": 3, \"n_groups\": 1, \"num_hidden_layers\": 1, \"use_bias\": true}",
    "{\"model_type\": \"falcon_mamba\", " TINY_SCAN ", \"state_size\": 3, "
    "\"num_hidden_layers\": 1, \"time_step_rank\": 2, \"tie_word_embeddings\": false}",
    "{\"model_type\": \"nemotron_h\", " TINY_SCAN ", \"mamba_num_heads\": 4, "
    "\"mamba_head_dim\": 2, \"ssm_state_size\": 5, \"n_groups\": 2, \"conv_kernel\": 3, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 4, "
    "\"intermediate_size\": 6, \"hybrid_override_pattern\": \"M*-\"}",
    NULL,
};

struct graph *tiny_graph(struct arena *arena, const char *text,
                         const struct import_options *options)
{
    struct json_document document;
    struct err err = {0};
    struct model_config *config = NULL;
    if (json_parse(arena, "tiny.json", text, strlen(text), &document, &err)) {
        struct json root = json_root(&document);
        config = model_read(arena, "tiny", &root, NULL, NULL, &err);
    }
    assert_string_equal(err.text, "");
    return model_graph(arena, config, options);
}
