#pragma once

// A tiny model of each family that reads one text and has a part of its own.

#define LLAMA_LIKE                                                       \
    "\"vocab_size\": 40, \"hidden_size\": 8, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, "           \
    "\"intermediate_size\": 6, \"tie_word_embeddings\": false"
#define GPT_LIKE                                                                 \
    "\"vocab_size\": 40, \"n_embd\": 8, \"n_layer\": 2, \"n_head\": 2, "         \
    "\"n_positions\": 8, \"n_inner\": 6, \"attn_pdrop\": 0, \"embd_pdrop\": 0, " \
    "\"resid_pdrop\": 0"
#define BERT_LIKE                                                        \
    "\"vocab_size\": 40, \"hidden_size\": 8, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 2, \"intermediate_size\": 6, "             \
    "\"max_position_embeddings\": 10, \"type_vocab_size\": 1"
#define LATENT                                                           \
    "\"vocab_size\": 40, \"hidden_size\": 8, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 2, \"intermediate_size\": 6, "             \
    "\"q_lora_rank\": 6, \"kv_lora_rank\": 4, \"qk_nope_head_dim\": 4, " \
    "\"qk_rope_head_dim\": 2, \"v_head_dim\": 3"
#define EXPERTS "\"num_experts\": 4, \"num_experts_per_tok\": 2"
#define SIGMOID_EXPERTS                                                              \
    "\"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"n_shared_experts\": 1, " \
    "\"moe_intermediate_size\": 4"
#define FACTORS                                                    \
    "\"embedding_multiplier\": 3, \"attention_multiplier\": 0.4, " \
    "\"residual_multiplier\": 0.5, \"logits_scaling\": 2"

static const char *const FAMILY_MODELS[] = {
    "{\"model_type\": \"olmo\", " LLAMA_LIKE "}",
    "{\"model_type\": \"olmo2\", " LLAMA_LIKE ", \"attention_bias\": true}",
    "{\"model_type\": \"olmo3\", " LLAMA_LIKE ", \"sliding_window\": 3, \"layer_types\": "
    "[\"sliding_attention\", \"full_attention\"]}",
    "{\"model_type\": \"olmoe\", " LLAMA_LIKE ", " EXPERTS "}",
    "{\"model_type\": \"baichuan\", " LLAMA_LIKE ", \"max_position_embeddings\": 8}",
    "{\"model_type\": \"baichuan\", " LLAMA_LIKE ", \"model_max_length\": 8}",
    "{\"model_type\": \"cohere\", " LLAMA_LIKE "}",
    "{\"model_type\": \"cohere2\", " LLAMA_LIKE
    ", \"sliding_window\": 3, \"sliding_window_pattern\": 2}",
    "{\"model_type\": \"granite\", " LLAMA_LIKE ", " FACTORS "}",
    "{\"model_type\": \"granitemoe\", " LLAMA_LIKE ", " EXPERTS ", " FACTORS "}",
    "{\"model_type\": \"granitemoeshared\", " LLAMA_LIKE ", " EXPERTS
    ", \"shared_intermediate_size\": 4}",
    "{\"model_type\": \"phi\", " LLAMA_LIKE ", \"partial_rotary_factor\": 1}",
    "{\"model_type\": \"modernbert\", " BERT_LIKE
    ", \"local_attention\": 4, \"global_attn_every_n_layers\": 2, \"local_rope_theta\": 100}",
    "{\"model_type\": \"smollm3\", " LLAMA_LIKE ", \"no_rope_layer_interval\": 2}",
    "{\"model_type\": \"glm\", " LLAMA_LIKE ", \"head_dim\": 4}",
    "{\"model_type\": \"glm4\", " LLAMA_LIKE ", \"head_dim\": 4}",
    "{\"model_type\": \"gptj\", " GPT_LIKE ", \"rotary_dim\": 2}",
    "{\"model_type\": \"gpt_bigcode\", " GPT_LIKE "}",
    "{\"model_type\": \"mpt\", \"vocab_size\": 40, \"d_model\": 8, \"n_heads\": 2, \"n_layers\": "
    "2, \"attn_config\": {\"softmax_scale\": 0.4}}",
    "{\"model_type\": \"falcon\", \"alibi\": true, \"multi_query\": false, \"vocab_size\": 40, "
    "\"hidden_size\": 8, \"num_hidden_layers\": 2, \"num_attention_heads\": 2}",
    "{\"model_type\": \"ernie4_5\", " LLAMA_LIKE ", \"head_dim\": 4, \"use_bias\": true}",
    "{\"model_type\": \"ernie4_5_moe\", " LLAMA_LIKE ", \"moe_num_experts\": 4, \"moe_k\": 2, "
    "\"moe_num_shared_experts\": 1, \"moe_intermediate_size\": 4, \"use_bias\": true}",
    "{\"model_type\": \"exaone4\", " LLAMA_LIKE
    ", \"sliding_window\": 3, \"sliding_window_pattern\": \"LG\"}",
    "{\"model_type\": \"hunyuan_v1_dense\", " LLAMA_LIKE "}",
    "{\"model_type\": \"hunyuan_v1_moe\", " LLAMA_LIKE ", \"num_experts\": 4, \"moe_topk\": 2}",
    "{\"model_type\": \"minimax_m2\", " LLAMA_LIKE ", " EXPERTS
    ", \"head_dim\": 4, \"rotary_dim\": 2}",
    "{\"model_type\": \"arcee\", " LLAMA_LIKE "}",
    "{\"model_type\": \"seed_oss\", " LLAMA_LIKE ", \"head_dim\": 4, \"attention_dropout\": 0, "
    "\"residual_dropout\": 0}",
    "{\"model_type\": \"internlm2\", " LLAMA_LIKE "}",
    "{\"model_type\": \"ministral3\", " LLAMA_LIKE ", \"head_dim\": 4}",
    "{\"model_type\": \"dots1\", " LLAMA_LIKE ", " SIGMOID_EXPERTS ", \"head_dim\": 4, "
    "\"first_k_dense_replace\": 1, \"sliding_window\": 3, \"max_window_layers\": 1}",
    "{\"model_type\": \"hy_v3\", " LLAMA_LIKE ", \"head_dim\": 4, \"num_experts\": 4, "
    "\"num_experts_per_tok\": 2, \"num_shared_experts\": 1, \"moe_intermediate_size\": 4}",
    "{\"model_type\": \"sarvam_moe\", " LLAMA_LIKE ", " SIGMOID_EXPERTS
    ", \"head_dim\": 4, \"first_k_dense_replace\": 1}",
    "{\"model_type\": \"mellum\", " LLAMA_LIKE ", " EXPERTS
    ", \"moe_intermediate_size\": 4, \"head_dim\": 4, \"sliding_window\": 3, \"layer_types\": "
    "[\"sliding_attention\", \"full_attention\"], \"mlp_layer_types\": [\"dense\", \"sparse\"]}",
    "{\"model_type\": \"internlm3\", " LLAMA_LIKE ", \"head_dim\": 4}",
    "{\"model_type\": \"solar_open\", " LLAMA_LIKE ", " SIGMOID_EXPERTS ", \"head_dim\": 4}",
    "{\"model_type\": \"cwm\", " LLAMA_LIKE ", \"head_dim\": 4, \"sliding_window\": 3}",
    "{\"model_type\": \"roberta\", " BERT_LIKE "}",
    "{\"model_type\": \"distilbert\", " BERT_LIKE ", \"hidden_dim\": 6}",
    "{\"model_type\": \"megatron-bert\", " BERT_LIKE "}",
    "{\"model_type\": \"xlm-roberta-xl\", " BERT_LIKE "}",
    "{\"model_type\": \"roberta-prelayernorm\", " BERT_LIKE "}",
    "{\"model_type\": \"mpnet\", " BERT_LIKE "}",
    "{\"model_type\": \"squeezebert\", " BERT_LIKE
    ", \"q_groups\": 2, \"v_groups\": 1, \"intermediate_groups\": 2, \"output_groups\": 2}",
    "{\"model_type\": \"electra\", " BERT_LIKE ", \"embedding_size\": 6}",
    "{\"model_type\": \"nomic_bert\", " BERT_LIKE "}",
    "{\"model_type\": \"jina_embeddings_v3\", " BERT_LIKE "}",
    "{\"model_type\": \"gte\", " BERT_LIKE "}",
    "{\"model_type\": \"esm\", " BERT_LIKE ", \"position_embedding_type\": \"rotary\", "
    "\"token_dropout\": true}",
    "{\"model_type\": \"esm\", " BERT_LIKE ", \"emb_layer_norm_before\": true}",
    "{\"model_type\": \"xglm\", \"vocab_size\": 40, \"d_model\": 8, \"ffn_dim\": 6, "
    "\"num_layers\": 2, \"attention_heads\": 2, \"max_position_embeddings\": 8}",
    "{\"model_type\": \"biogpt\", " BERT_LIKE "}",
    "{\"model_type\": \"openai-gpt\", " GPT_LIKE "}",
    "{\"model_type\": \"gpt_neo\", \"vocab_size\": 40, \"hidden_size\": 8, \"num_layers\": 2, "
    "\"num_heads\": 2, \"max_position_embeddings\": 8, \"window_size\": 3}",
    "{\"model_type\": \"stablelm\", " LLAMA_LIKE ", \"partial_rotary_factor\": 1, "
    "\"use_qkv_bias\": true, \"use_parallel_residual\": true}",
    "{\"model_type\": \"vaultgemma\", " LLAMA_LIKE ", \"head_dim\": 4, \"sliding_window\": 3}",
    "{\"model_type\": \"flex_olmo\", " LLAMA_LIKE ", " EXPERTS "}",
    "{\"model_type\": \"granite_swa\", " LLAMA_LIKE ", \"sliding_window\": 3, "
    "\"layer_rope_theta\": [0, 100], " FACTORS "}",
    "{\"model_type\": \"minicpm3\", " LATENT "}",
    "{\"model_type\": \"eurobert\", " LLAMA_LIKE "}",
    "{\"model_type\": \"jais2\", " LLAMA_LIKE ", \"head_dim\": 4}",
    "{\"model_type\": \"nanochat\", " LLAMA_LIKE "}",
    "{\"model_type\": \"exaone_moe\", " LLAMA_LIKE ", " EXPERTS
    ", \"sliding_window\": 3, \"num_shared_experts\": 1, \"moe_intermediate_size\": 4, "
    "\"first_k_dense_replace\": 1, \"sliding_window_pattern\": 2}",
    "{\"model_type\": \"afmoe\", " LLAMA_LIKE ", " EXPERTS
    ", \"head_dim\": 4, \"num_shared_experts\": 1, \"moe_intermediate_size\": 4, "
    "\"num_dense_layers\": 1, \"sliding_window\": 3, \"global_attn_every_n_layers\": 2, "
    "\"mup_enabled\": true}",
    "{\"model_type\": \"bitnet\", " LLAMA_LIKE "}",
    "{\"model_type\": \"mimo_v2_flash\", " LLAMA_LIKE ", \"n_routed_experts\": 4, "
    "\"num_experts_per_tok\": 2, \"moe_intermediate_size\": 4, \"head_dim\": 4, \"v_head_dim\": 3, "
    "\"sliding_window\": 3, \"partial_rotary_factor\": 0.5, \"layer_types\": "
    "[\"full_attention\", \"sliding_attention\"]}",
    "{\"model_type\": \"cohere2_moe\", " LLAMA_LIKE ", " EXPERTS
    ", \"head_dim\": 4, \"num_shared_experts\": 1, \"prefix_dense_intermediate_size\": 10, "
    "\"first_k_dense_replace\": 1, \"sliding_window\": 3, \"sliding_window_pattern\": 2}",
    "{\"model_type\": \"persimmon\", " LLAMA_LIKE ", \"partial_rotary_factor\": 1}",
    "{\"model_type\": \"gpt_neox_japanese\", " LLAMA_LIKE ", \"intermediate_multiple_size\": 1, "
    "\"attention_dropout\": 0}",
    "{\"model_type\": \"axk1\", " LATENT ", " SIGMOID_EXPERTS
    ", \"mlp_layer_types\": [\"dense\", \"sparse\"], \"n_group\": 2, \"topk_group\": 1}",
    "{\"model_type\": \"mistral4\", " LATENT ", " SIGMOID_EXPERTS ", \"first_k_dense_replace\": 1}",
    "{\"model_type\": \"apertus\", " LLAMA_LIKE "}",
    "{\"model_type\": \"phimoe\", " LLAMA_LIKE
    ", \"num_local_experts\": 5, \"num_experts_per_tok\": 2, \"router_jitter_noise\": 0.4, "
    "\"lm_head_bias\": true}",
    "{\"model_type\": \"hyperclovax\", " LLAMA_LIKE ", " FACTORS ", \"head_dim\": 4}",
    "{\"model_type\": \"modernbert-decoder\", " BERT_LIKE
    ", \"local_attention\": 4, \"global_attn_every_n_layers\": 2, \"local_rope_theta\": 100}",
    "{\"model_type\": \"roformer\", " BERT_LIKE ", \"embedding_size\": 6}",
    "{\"model_type\": \"rembert\", " BERT_LIKE
    ", \"input_embedding_size\": 4, \"output_embedding_size\": 10}",
    "{\"model_type\": \"glm4v_text\", " LLAMA_LIKE "}",
    "{\"model_type\": \"glm4_moe_lite\", " LATENT ", " SIGMOID_EXPERTS
    ", \"mlp_layer_types\": [\"dense\", \"sparse\"]}",
    "{\"model_type\": \"ctrl\", \"vocab_size\": 40, \"n_embd\": 8, \"dff\": 6, \"n_layer\": 2, "
    "\"n_head\": 2, \"n_positions\": 8}",
    "{\"model_type\": \"flaubert\", \"vocab_size\": 40, \"emb_dim\": 8, \"n_layers\": 2, "
    "\"n_heads\": 2, \"max_position_embeddings\": 8, \"n_langs\": 3, \"pre_norm\": true}",
    "{\"model_type\": \"qwen3_omni_moe_text\", " LLAMA_LIKE ", " EXPERTS
    ", \"moe_intermediate_size\": 4, \"decoder_sparse_step\": 2}",
    "{\"model_type\": \"aria_text\", " LLAMA_LIKE
    ", \"moe_num_experts\": 4, \"moe_topk\": 2, \"moe_num_shared_experts\": 2}",
};
