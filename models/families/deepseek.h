#pragma once
#include "models/families/family.h"

// What configs with latent attention have in common.

struct deepseek {
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
    int64_t num_key_value_heads;  // 0 = as many as heads
    int64_t q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
    int64_t n_routed_experts, num_experts_per_tok, n_shared_experts, moe_intermediate_size;
    int64_t n_group, topk_group;  // 0 = chosen among all experts
    int64_t first_k_dense_replace, moe_layer_freq, num_nextn_predict_layers;
    int64_t max_position_embeddings;
    const char *hidden_act;
    bool norm_topk_prob, tie_word_embeddings, attention_bias, mlp_bias;
    bool is_dense;   // no key of experts is heeded
    bool has_types;  // mlp_layer_types alone says which mlps are dense: the first without it
    double routed_scaling_factor, rms_norm_eps, rope_theta, attention_dropout;
};

// Reads them; `own` is what one generation heeds and the others do not. Zeros after an error.
struct decoder deepseek_decoder(struct family_reader *reader, const char *model_type,
                                struct deepseek *record, const char *own);
