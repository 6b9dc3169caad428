#pragma once
#include "tests/support/draw.h"
#include "tests/support/kernel_case.h"

// The CUDA back end, its kernels on the host, against the CPU's in double precision: operators on
// random slices of random numbers.

enum { PAIR_BATCH = 2, PAIR_SEQ = 8, PAIR_TRIED_COUNT = 3 };

struct pair_tried {
    enum precision precision;
    double tolerance;
};
extern const struct pair_tried PAIR_TRIED[PAIR_TRIED_COUNT];

struct backend_pair {
    struct kernel_case cpu, cuda;
};
struct backend_pair pair_open(struct arena *arena, const struct pair_tried *tried);
void pair_close(struct backend_pair *pair);
// Multiples of 1/64 below 1, which all back ends have exactly. Labels are of any column.
void pair_values(struct draw *draw, struct interpreter *in);
// An operator whole, and of drawn slices, where sums go on.
void pair_check(struct draw *draw, const struct backend_pair *opened, const struct interpreter *in,
                int op);

// A model whose keys are chosen, by three heads.
#define CHOSEN(most)                                                                              \
    "{\"model_type\": \"deepseek_v32\", \"vocab_size\": 40, \"hidden_size\": 8, "                 \
    "\"intermediate_size\": 8, \"num_attention_heads\": 4, \"num_key_value_heads\": null, "       \
    "\"q_lora_rank\": 6, \"kv_lora_rank\": 6, \"qk_nope_head_dim\": 3, \"qk_rope_head_dim\": 2, " \
    "\"v_head_dim\": 5, \"n_group\": null, \"n_routed_experts\": 4, \"first_k_dense_replace\": "  \
    "2, "                                                                                         \
    "\"num_experts_per_tok\": 2, \"n_shared_experts\": 1, \"moe_intermediate_size\": 4, "         \
    "\"index_n_heads\": 3, \"index_head_dim\": 6, \"num_hidden_layers\": 1, "                     \
    "\"index_topk\": " most "}"
