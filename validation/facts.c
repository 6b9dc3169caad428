#include "validation/facts.h"
#include "plan/parallel.h"

#include <assert.h>
#include <string.h>

static const struct json_field LATENT_FIELDS[] = {
    {JSON_OPT_INT(struct row_latent, q_lora_rank, 0, 1e6)},
    {JSON_OPT_INT(struct row_latent, kv_lora_rank, 0, 1e6)},
    {JSON_OPT_INT(struct row_latent, qk_nope_head_dim, 0, 1e5)},
    {JSON_OPT_INT(struct row_latent, qk_rope_head_dim, 0, 1e5)},
    {JSON_OPT_INT(struct row_latent, v_head_dim, 0, 1e5)},
    {0},
};

static const struct json_field MODEL_FIELDS[] = {
    {JSON_OPT_TEXT(struct row_model, name)},
    {JSON_INT(struct row_model, layers, 1, 1e5)},
    {JSON_INT(struct row_model, hidden, 1, 1e7)},
    {JSON_INT(struct row_model, heads, 1, 1e5)},
    {JSON_OPT_INT(struct row_model, kv_heads, 0, 1e5)},
    {JSON_OPT_INT(struct row_model, head_dim, 0, 1e5)},
    {JSON_INT(struct row_model, vocab, 1, 1e8)},
    {JSON_OPT_INT(struct row_model, ffn_hidden, 0, 1e8)},
    {JSON_OPT_INT(struct row_model, moe_ffn_hidden, 0, 1e8)},
    {JSON_OPT_BOOL(struct row_model, ffn_gated)},
    {JSON_OPT_BOOL(struct row_model, parallel_blocks)},
    {JSON_OPT_TEXT(struct row_model, attention)},
    {JSON_OPT_INT(struct row_model, experts, 0, 1e5)},
    {JSON_OPT_INT(struct row_model, experts_per_token, 0, 1e5)},
    {JSON_OPT_INT(struct row_model, shared_experts, 0, 1e5)},
    {JSON_OPT_INT(struct row_model, dense_layers, 0, 1e5)},
    {JSON_OPT_INT(struct row_model, mtp_layers, 0, 1e5)},
    {JSON_OPT_INT(struct row_model, sliding_window, 0, 1e9)},
    {0},
};

static const struct json_field NETWORK_FIELDS[] = {
    {JSON_F64(struct row_facts, nics_per_host, 0, 1e4)},
    {JSON_F64(struct row_facts, nic_bytes_per_s, 0, 1e15)},
    {0},
};

static const struct json_field FACT_FIELDS[] = {
    {JSON_INT(struct row_facts, gpus, 1, 1e7)},
    {JSON_INT(struct row_facts, gpus_per_node, 1, 1e5)},
    {JSON_INT(struct row_facts, nvlink_domain, 1, 1e5)},
    {JSON_F64(struct row_facts, intra_bytes_per_s, 0, 1e15)},
    {JSON_OPT_TEXT(struct row_facts, intra_kind)},
    {JSON_OPT_TEXT(struct row_facts, inter_node)},
    {JSON_I64(struct row_facts, seq_len, 1, 1e9)},
    {JSON_I64(struct row_facts, global_batch, 1, 1e9)},
    {JSON_OPT_INT(struct row_facts, micro_batch, 0, 1e6)},
    {JSON_OPT_INT(struct row_facts, tp, 0, 1e6)},
    {JSON_OPT_INT(struct row_facts, cp, 0, 1e6)},
    {JSON_OPT_INT(struct row_facts, pp, 0, 1e6)},
    {JSON_OPT_INT(struct row_facts, ep, 0, 1e6)},
    {JSON_OPT_INT(struct row_facts, dp, 0, 1e7)},
    {JSON_OPT_INT(struct row_facts, vpp, 0, 1e5)},
    {JSON_OPT_INT(struct row_facts, zero_stage, 0, 3)},
    {JSON_OPT_INT(struct row_facts, zero_group, 0, 1e7)},
    {JSON_OPT_TEXT(struct row_facts, precision)},
    {JSON_OPT_TEXT(struct row_facts, schedule)},
    {JSON_OPT_TEXT(struct row_facts, cp_kind)},
    {JSON_OPT_TEXT(struct row_facts, recompute)},
    {JSON_OPT_TEXT(struct row_facts, software)},
    {JSON_OPT_TEXT(struct row_facts, build)},
    {0},
};

// The members of a row's "overlap" that speak of what a plan can say; others ("fsdp_prefetch")
// have no counterpart.
static const struct {
    const char *key;
    unsigned mask;
} OVERLAPS[] = {
    {"grad_reduce", OVERLAP_GRAD_REDUCE},
    {"grad_allreduce", OVERLAP_GRAD_REDUCE},
    {"param_gather", OVERLAP_PARAM_GATHER},
    {"dp", OVERLAP_GRAD_REDUCE | OVERLAP_PARAM_GATHER},
    {"tp_comm_overlap", OVERLAP_TP},
    {"tp", OVERLAP_TP},
    {"pp_p2p", OVERLAP_PP},
    {"pp", OVERLAP_PP},
    {"cp_comm", OVERLAP_CP},
    {"ep_all_to_all", OVERLAP_EP},
    {"ep", OVERLAP_EP},
};

// Silence is not "no": what a row does not say is left to the search.
static enum row_answer read_answer(const struct json *object, const char *key, struct err *err)
{
    if (!json_has(object, key)) return ROW_UNSTATED;
    struct json value = json_get(object, key, err);
    return json_bool(&value, err) ? ROW_YES : ROW_NO;
}

static void read_overlap(const struct json *object, struct row_facts *facts, struct err *err)
{
    if (!json_has(object, "overlap")) return;
    struct json overlap = json_get(object, "overlap", err);
    static const struct json_field NO_FIELDS[] = {{0}};
    json_read_lenient(&overlap, NO_FIELDS, NULL, NULL, NULL, err);
    for (size_t i = 0; i < sizeof OVERLAPS / sizeof *OVERLAPS && !err->kind; i++) {
        enum row_answer answer = read_answer(&overlap, OVERLAPS[i].key, err);
        if (answer == ROW_YES) facts->overlap_on |= OVERLAPS[i].mask;
        if (answer == ROW_NO) facts->overlap_off |= OVERLAPS[i].mask;
    }
}

// Sources say more than is asked here, so that other keys are no fault.
static void read_model(const struct json *object, struct row_model *model, struct err *err)
{
    json_read_lenient(object, MODEL_FIELDS, model, NULL, NULL, err);
    if (err->kind) return;
    model->tied = read_answer(object, "tied", err);
    if (!json_has(object, "mla")) return;
    struct json mla = json_get(object, "mla", err);
    json_read_lenient(&mla, LATENT_FIELDS, &model->mla, NULL, NULL, err);
}

struct lora_words {
    int rank, base_bits;
    const char *targets;
};

static const struct json_field LORA_FIELDS[] = {
    {JSON_INT(struct lora_words, rank, 1, ADAPTER_RANK_MAX)},
    {JSON_OPT_INT(struct lora_words, base_bits, 0, 32)},
    {JSON_TEXT(struct lora_words, targets)},
    {0},
};

// What sources call projections, beside the names that --lora takes.
static const struct {
    const char *word;
    unsigned targets;
} TARGET_WORDS[] = {
    {"*_proj", (1u << ADAPTER_TARGET_COUNT) - 1},
    {"output", 1u << ADAPTER_O},                                      // torchtune's output_proj
    {"c_attn", 1u << ADAPTER_Q | 1u << ADAPTER_K | 1u << ADAPTER_V},  // one product of GPTBigCode
};

static unsigned targets_named(const char *word)
{
    for (size_t i = 0; i < sizeof TARGET_WORDS / sizeof *TARGET_WORDS; i++) {
        if (strcmp(word, TARGET_WORDS[i].word) == 0) return TARGET_WORDS[i].targets;
    }
    return adapters_target(word);
}

// "q_proj k_proj", "q, v, output (recipe)": words up to a bracket.
static void read_lora(const struct json *object, struct row_lora *lora, struct err *err)
{
    enum { WORD_MAX = 32 };
    if (!json_has(object, "lora")) return;
    struct json at = json_get(object, "lora", err);
    struct lora_words words = {0};
    json_read_lenient(&at, LORA_FIELDS, &words, NULL, NULL, err);
    if (err->kind) return;
    *lora = (struct row_lora){.rank = words.rank, .base_bits = words.base_bits};
    struct json place = json_get(&at, "targets", err);
    for (const char *word = words.targets; *word && *word != '(';) {
        char name[WORD_MAX];
        size_t length = strcspn(word, " ,(");
        bool is_short = length < sizeof name;
        memcpy(name, word, is_short ? length : 0);
        name[is_short ? length : 0] = 0;
        unsigned targets = targets_named(name);
        if (!targets) {
            json_fail(&place, err, "expected projections (q_proj, *_proj), found \"%s\"", word);
            return;
        }
        assert(targets < 1u << ADAPTER_TARGET_COUNT);
        lora->targets |= targets;
        word += length;
        word += strspn(word, " ,");
    }
}

// 0 is a stage and a group; -1 stands for what is not said.
void facts_read(const struct json *object, struct row_facts *facts, struct err *err)
{
    *facts = (struct row_facts){.zero_stage = -1, .zero_group = -1};
    struct json model = json_get(object, "model", err);
    read_model(&model, &facts->model, err);
    read_lora(object, &facts->lora, err);
    json_read_lenient(object, FACT_FIELDS, facts, NULL, NULL, err);
    if (err->kind) return;
    if (json_has(object, "network")) {
        struct json network = json_get(object, "network", err);
        json_read_lenient(&network, NETWORK_FIELDS, facts, NULL, NULL, err);
    }
    facts->sp = read_answer(object, "sp", err);
    facts->flash_attention = read_answer(object, "flash_attention", err);
    read_overlap(object, facts, err);
}
