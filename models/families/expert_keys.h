#pragma once
#include "models/families/family.h"

// The keys of a mixture of experts under the names that most families give them. A family starts
// from its defaults, reads over them and puts what it heeds into its decoder.

struct expert_keys {
    int64_t num_experts;  // 0 = every mlp is dense
    bool has_local_name;  // num_local_experts is another name for it in this family
    int64_t num_experts_per_tok;
    int64_t moe_intermediate_size;
    int64_t shared_expert_intermediate_size;  // 0 = none
    int64_t decoder_sparse_step;              // every so many layers has experts
    bool norm_topk_prob;                      // weights of the chosen add up to one
    const bool *is_mlp_only;                  // by layer, from mlp_only_layers; NULL without
    // What the family heeds of them (struct family_keys); without experts nothing must be given.
    const char *dimensions, *optional;
};

// By layer, from mlp_layer_types: an ordinary mlp. NULL where the config has no such list.
const bool *expert_keys_dense(struct family_reader *reader, int64_t layer_count);
void expert_keys_read(struct family_reader *reader, struct expert_keys *keys, int64_t layer_count);
// For families whose layers all have experts of one width: what other keys say is ignored. Without
// experts there is no such model.
void expert_keys_everywhere(struct family_reader *reader, struct expert_keys *keys, int64_t ffn);
// Sets count, top_k, ffn and which layers are dense, and checks them.
void expert_keys_apply(struct family_reader *reader, const struct expert_keys *keys,
                       struct decoder *decoder);
