#include "validation/question.h"

#include "core/json_write.h"

#include <assert.h>
#include <string.h>

// What a row without a network is taken to have, and what every row's cluster is taken to have
// because no source states it.
static const double UNSTATED_NIC_BYTES_PER_S = 25e9;
static const double INTRA_LATENCY_S = 2e-6, NETWORK_LATENCY_S = 5e-6;

static int64_t first_of(int64_t value, int64_t otherwise)
{
    return value ? value : otherwise;
}

static void put_count(struct json_writer *writer, const char *key, int64_t count)
{
    if (count) json_put_i64(writer, key, count);
}

static void put_type(struct json_writer *writer, const char *model_type)
{
    json_put_text(writer, "model_type", model_type);
}

// No gate, all heads alike.
static void put_gpt2(struct json_writer *writer, const struct row *row)
{
    const struct row_model *model = &row->facts.model;
    put_type(writer, "gpt2");
    json_put_i64(writer, "n_layer", model->layers);
    json_put_i64(writer, "n_embd", model->hidden);
    json_put_i64(writer, "n_head", model->heads);
    put_count(writer, "n_inner", model->ffn_hidden);
    json_put_i64(writer, "vocab_size", model->vocab);
    json_put_i64(writer, "n_positions", row->facts.seq_len);
    json_put_text(writer, "activation_function", "gelu_new");
    json_put_bool(writer, "tie_word_embeddings", model->tied != ROW_NO);
}

// Blocks side by side that read one norm, and with grouped heads one each, as Falcon's larger ones.
static void put_falcon(struct json_writer *writer, const struct row *row)
{
    const struct row_model *model = &row->facts.model;
    put_type(writer, "falcon");
    json_put_i64(writer, "hidden_size", model->hidden);
    json_put_i64(writer, "num_hidden_layers", model->layers);
    json_put_i64(writer, "num_attention_heads", model->heads);
    put_count(writer, "ffn_hidden_size", model->ffn_hidden);
    json_put_i64(writer, "vocab_size", model->vocab);
    json_put_bool(writer, "parallel_attn", true);
    json_put_bool(writer, "multi_query", false);
    bool is_grouped = model->kv_heads && model->kv_heads != model->heads;
    json_put_bool(writer, "new_decoder_architecture", is_grouped);
    if (is_grouped) json_put_i64(writer, "num_kv_heads", model->kv_heads);
    json_put_bool(writer, "bias", true);
    json_put_bool(writer, "alibi", false);
    json_put_bool(writer, "tie_word_embeddings", model->tied != ROW_NO);
}

// DeepSeek's config is the one that sizes latent attention.
static void put_latent(struct json_writer *writer, const struct row_model *model)
{
    const struct row_latent *mla = &model->mla;
    put_type(writer, "deepseek_v3");
    put_count(writer, "intermediate_size", first_of(model->ffn_hidden, model->moe_ffn_hidden));
    json_put_i64(writer, "n_routed_experts", model->experts);
    put_count(writer, "moe_intermediate_size", model->moe_ffn_hidden);
    json_put_i64(writer, "n_shared_experts", model->shared_experts);
    json_put_i64(writer, "first_k_dense_replace", model->dense_layers);
    json_put_i64(writer, "num_nextn_predict_layers", model->mtp_layers);
    put_count(writer, "q_lora_rank", mla->q_lora_rank);
    put_count(writer, "kv_lora_rank", mla->kv_lora_rank);
    put_count(writer, "qk_nope_head_dim", mla->qk_nope_head_dim);
    put_count(writer, "qk_rope_head_dim", mla->qk_rope_head_dim);
    put_count(writer, "v_head_dim", mla->v_head_dim);
}

// The shipped family whose config can say what the row does.
static void put_experts(struct json_writer *writer, const struct row_model *model)
{
    put_count(writer, "num_experts_per_tok", model->experts_per_token);
    if (model->attention && strcmp(model->attention, "mla") == 0) {
        put_latent(writer, model);
        return;
    }
    int64_t expert_hidden = first_of(model->moe_ffn_hidden, model->ffn_hidden);
    // Many experts, or ones smaller than a dense layer, need a config that sizes them apart.
    bool is_fine_grained = model->ffn_hidden != model->moe_ffn_hidden || model->experts > 16;
    if (model->sliding_window) {
        put_type(writer, "gpt_oss");
        json_put_i64(writer, "num_local_experts", model->experts);
        json_put_i64(writer, "sliding_window", model->sliding_window);
        put_count(writer, "intermediate_size", model->moe_ffn_hidden);
    } else if (model->moe_ffn_hidden && is_fine_grained) {
        put_type(writer, "qwen3_moe");
        json_put_i64(writer, "num_experts", model->experts);
        json_put_i64(writer, "decoder_sparse_step", 1);
        json_put_i64(writer, "moe_intermediate_size", model->moe_ffn_hidden);
        put_count(writer, "intermediate_size", first_of(model->ffn_hidden, expert_hidden));
    } else {
        put_type(writer, "mixtral");
        json_put_i64(writer, "num_local_experts", model->experts);
        put_count(writer, "intermediate_size", expert_hidden);
    }
}

static void put_decoder(struct json_writer *writer, const struct row *row)
{
    const struct row_model *model = &row->facts.model;
    json_put_i64(writer, "hidden_size", model->hidden);
    json_put_i64(writer, "num_hidden_layers", model->layers);
    json_put_i64(writer, "num_attention_heads", model->heads);
    json_put_i64(writer, "num_key_value_heads", first_of(model->kv_heads, model->heads));
    put_count(writer, "head_dim", model->head_dim);
    json_put_i64(writer, "vocab_size", model->vocab);
    json_put_i64(writer, "max_position_embeddings", row->facts.seq_len);
    json_put_bool(writer, "tie_word_embeddings", model->tied == ROW_YES);
    if (model->experts) {
        json_put_text(writer, "hidden_act", model->ffn_gated ? "silu" : "gelu");
        put_experts(writer, model);
        return;
    }
    // Grouped heads without a gate: Nemotron. A window in all layers: Mistral.
    const char *gated = model->sliding_window ? "mistral" : "llama";
    put_type(writer, model->ffn_gated ? gated : "nemotron");
    put_count(writer, "sliding_window", model->sliding_window);
    json_put_text(writer, "hidden_act", model->ffn_gated ? "silu" : "relu2");
    put_count(writer, "intermediate_size", first_of(model->ffn_hidden, model->moe_ffn_hidden));
}

// By what the row says of its blocks, not by its model's name.
const char *question_config(struct arena *arena, const struct row *row)
{
    const struct row_model *model = &row->facts.model;
    bool plain = !model->experts && !model->ffn_gated;
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    bool has_all_heads = model->attention && strcmp(model->attention, "mha") == 0;
    if (plain && model->parallel_blocks) {
        put_falcon(&writer, row);
    } else if (plain && has_all_heads) {
        put_gpt2(&writer, row);
    } else {
        put_decoder(&writer, row);
    }
    json_close(&writer, '}');
    return writer.text;
}

// GPUs joined by the intra fabric: the largest number of whole hosts, no more than the fabric
// spans, that divides the GPUs in use.
static int domain_of(const struct row_facts *facts)
{
    int gpus = facts->gpus;
    int domain = facts->nvlink_domain < gpus ? facts->nvlink_domain : gpus;
    int host = facts->gpus_per_node < gpus ? facts->gpus_per_node : gpus;
    while (domain > host && (gpus % domain || domain % host)) {
        domain--;
    }
    assert(domain >= 1 && domain <= gpus);
    return domain;
}

// No source says what its hosts have: enough that nothing waits for them.
static void put_host(struct json_writer *writer)
{
    json_open(writer, "host", '{');
    json_put_f64(writer, "memory_bytes", 1e12);
    json_put_f64(writer, "memory_bandwidth_bytes_per_s", 3e11);
    json_put_i64(writer, "cores", 96);
    json_put_f64(writer, "pcie_bytes_per_s", 25e9);
    json_put_i64(writer, "nvme_bytes_per_s", 0);
    json_put_i64(writer, "nvme_bytes", 0);
    json_close(writer, '}');
}

static void put_node(struct json_writer *writer, const struct row *row)
{
    assert(row->facts.gpus > 0 && row->facts.gpus_per_node > 0);
    const struct row_facts *facts = &row->facts;
    int domain = domain_of(facts);
    int hosts = domain / facts->gpus_per_node;
    double nics = row->network_stated ? facts->nics_per_host : facts->gpus_per_node;
    json_open(writer, NULL, '{');
    json_put_i64(writer, "count", first_of(facts->gpus / domain, 1));
    json_put_i64(writer, "gpus", domain);
    json_put_text(writer, "device", row->device);
    json_put_i64(writer, "gpus_per_host",
                 domain < facts->gpus_per_node ? domain : facts->gpus_per_node);
    json_open(writer, "intra", '{');
    json_put_text(writer, "kind", facts->intra_kind ? facts->intra_kind : "nvswitch");
    json_put_f64(writer, "bandwidth_bytes_per_s", facts->intra_bytes_per_s);
    json_put_f64(writer, "latency_s", INTRA_LATENCY_S);
    json_put_bool(writer, "in_network_reduction", false);
    json_close(writer, '}');
    put_host(writer);
    json_open(writer, "nics", '{');
    json_put_i64(writer, "count", (int64_t)(nics * (double)first_of(hosts, 1)));
    json_put_f64(writer, "bandwidth_bytes_per_s",
                 row->network_stated ? facts->nic_bytes_per_s : UNSTATED_NIC_BYTES_PER_S);
    json_close(writer, '}');
    json_close(writer, '}');
}

// Words of sources for networks that are not InfiniBand. RoCE is asked as if it were: what the row
// of that kind says is of clouds, and the published runs over it had networks of their own.
static const struct {
    const char *word, *kind;
} NETWORKS[] = {{"EFA", "efa"}, {"Omni-Path", "omni-path"}, {"Slingshot", "slingshot"}};

// NULL for InfiniBand and for what is not said.
static const char *network_kind_of(const char *said)
{
    for (size_t i = 0; said && i < sizeof NETWORKS / sizeof *NETWORKS; i++) {
        if (strstr(said, NETWORKS[i].word)) return NETWORKS[i].kind;
    }
    return NULL;
}

const char *question_cluster(struct arena *arena, const struct row *row)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_text(&writer, "name", row->id);
    json_open(&writer, "nodes", '[');
    put_node(&writer, row);
    json_close(&writer, ']');
    json_open(&writer, "network", '{');
    const char *kind = network_kind_of(row->facts.inter_node);
    json_put_text(&writer, "kind", kind ? kind : "infiniband");
    if (!kind) json_put_f64(&writer, "latency_s", NETWORK_LATENCY_S);
    json_put_i64(&writer, "oversubscription_ratio", 1);
    json_put_bool(&writer, "rail_optimized", true);
    json_put_bool(&writer, "in_network_reduction", false);
    json_close(&writer, '}');
    json_close(&writer, '}');
    return writer.text;
}
