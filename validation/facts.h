#pragma once
#include "core/json.h"
#include "models/adapters.h"

// What a published row states, under the row's own keys; 0 and NULL where it says nothing. The keys
// are described in tests/validation/README.md.

enum row_answer { ROW_UNSTATED, ROW_NO, ROW_YES };

struct row_latent {
    int q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
};

struct row_model {
    const char *name;
    int layers, hidden, heads, kv_heads, head_dim, vocab;
    int ffn_hidden, moe_ffn_hidden;
    bool ffn_gated;
    bool parallel_blocks;   // attention and MLP read one norm, side by side
    enum row_answer tied;   // the head is the embedding
    const char *attention;  // "mha", "gqa", "mla"
    int experts, experts_per_token, shared_experts, dense_layers, mtp_layers, sliding_window;
    struct row_latent mla;
};

// Adapters that were trained in place of the weights; rank 0: there are none.
struct row_lora {
    int rank, base_bits;  // of the frozen weights; 0: as the run computes
    unsigned targets;     // 1 << enum adapter_target (models/adapters.h)
};

struct row_facts {
    struct row_model model;
    struct row_lora lora;
    int gpus, gpus_per_node, nvlink_domain;
    double intra_bytes_per_s;
    const char *intra_kind;  // of fabric (cost_models/fabrics.json); NULL: behind a switch
    double nics_per_host, nic_bytes_per_s;  // 0 = the row does not say
    const char *inter_node;                 // the network in the source's words, or NULL
    int64_t seq_len, global_batch;
    int micro_batch, tp, cp, pp, ep, dp, vpp;
    int zero_stage;  // -1 = the row does not say
    int zero_group;  // ranks that a shard group spans, 0 = all; -1 = the row does not say
    enum row_answer sp, flash_attention;
    unsigned overlap_on, overlap_off;  // masks of enum overlap (plan/parallel.h)
    const char *precision, *schedule, *recompute, *cp_kind;
    const char *software;  // which release of the stack: others may be faster or slower
    const char *build;     // and which of its builds, of those that the stack's file lists
};

// Keys that no field names are left alone; a wrong type or range is an error at its place.
void facts_read(const struct json *object, struct row_facts *facts, struct err *err);
