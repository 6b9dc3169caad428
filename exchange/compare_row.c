#include "core/json_write.h"
#include "exchange/compare_plan.h"

#include <assert.h>
#include <string.h>

// Families whose shape a line of published runs can say (validation/question.c asks it back), and
// whether their feed-forward is gated.
static const struct {
    const char *model_type;
    bool is_gated, has_experts;
} FAMILIES[] = {
    {"gpt2", false, false},    {"llama", true, false},     {"mistral", true, false},
    {"qwen3", true, false},    {"nemotron", false, false}, {"mixtral", true, true},
    {"qwen3_moe", true, true},
};

// The row's keys and those of the configs that may say them; the first that is there.
static const struct {
    const char *key, *names[3];
    bool is_needed;
} SHAPE[] = {
    {"layers", {"num_hidden_layers", "n_layer", NULL}, true},
    {"hidden", {"hidden_size", "n_embd", NULL}, true},
    {"heads", {"num_attention_heads", "n_head", NULL}, true},
    {"kv_heads", {"num_key_value_heads", NULL, NULL}, false},
    {"head_dim", {"head_dim", NULL, NULL}, false},
    {"vocab", {"vocab_size", NULL, NULL}, true},
    {"ffn_hidden", {"intermediate_size", "n_inner", NULL}, false},
    {"moe_ffn_hidden", {"moe_intermediate_size", NULL, NULL}, false},
    {"experts", {"num_local_experts", "num_experts", NULL}, false},
    {"experts_per_token", {"num_experts_per_tok", NULL, NULL}, false},
};

static int family_of(const struct model_config *model)
{
    for (int i = 0; i < (int)(sizeof FAMILIES / sizeof *FAMILIES); i++)
        if (strcmp(FAMILIES[i].model_type, model->model_type) == 0) return i;
    return -1;
}

static void put_model(struct json_writer *writer, const struct model_config *model, int family,
                      struct err *err)
{
    assert(family >= 0);
    json_open(writer, "model", '{');
    json_put_text(writer, "name", model->name);
    for (size_t i = 0; i < sizeof SHAPE / sizeof *SHAPE; i++) {
        bool is_there = false;
        for (int name = 0; name < 3 && SHAPE[i].names[name] && !is_there; name++) {
            struct json value = json_find(&model->config, SHAPE[i].names[name]);
            is_there = json_is_number(&value);
            if (is_there) json_put_i64(writer, SHAPE[i].key, json_i64(&value, 0, 1e9, err));
        }
        if (!is_there && SHAPE[i].is_needed)
            json_fail(&model->config, err, "the row needs \"%s\"", SHAPE[i].names[0]);
    }
    json_put_bool(writer, "ffn_gated", FAMILIES[family].is_gated);
    bool is_plain = strcmp(model->model_type, "gpt2") == 0;
    json_put_text(writer, "attention", is_plain ? "mha" : "gqa");
    json_close(writer, '}');
}

static void put_cluster(struct json_writer *writer, const struct cluster *cluster)
{
    const struct node_group *group = &cluster->nodes[0];
    assert(group->gpus_per_host > 0 && cluster->rank_count > 0);
    int hosts = group->gpus / group->gpus_per_host;
    json_put_i64(writer, "gpus", cluster->rank_count);
    json_put_i64(writer, "gpus_per_node", group->gpus_per_host);
    json_put_i64(writer, "nvlink_domain", group->gpus);
    json_put_f64(writer, "intra_bytes_per_s", group->intra.bandwidth_bytes_per_s);
    json_open(writer, "network", '{');
    json_put_f64(writer, "nics_per_host", (double)group->nics.count / (hosts > 0 ? hosts : 1));
    json_put_f64(writer, "nic_bytes_per_s", group->nics.bandwidth_bytes_per_s);
    json_close(writer, '}');
}

// What the row's reader calls the schedules that it knows.
static const char *schedule_words(enum schedule_kind kind)
{
    switch (kind) {
    case SCHEDULE_1F1B:
        return "1f1b";
    case SCHEDULE_INTERLEAVED:
        return "interleaved";
    case SCHEDULE_ZB_H1:
        return "zb-1p";
    case SCHEDULE_ZB_H2:
        return "zb-2p";
    default:
        return NULL;
    }
}

static const char *recompute_text(enum recompute recompute)
{
    assert(recompute <= RECOMPUTE_FULL && "others are unsaid");
    static const char *const WORDS[] = {"none", "selective", "full"};
    return WORDS[recompute];
}

// The keys are those that validation/question.c reads.
static void put_overlap(struct json_writer *writer, unsigned overlap)
{
    static const struct {
        const char *key;
        unsigned mask;
    } KEYS[] = {
        {"grad_reduce", OVERLAP_GRAD_REDUCE},
        {"param_gather", OVERLAP_PARAM_GATHER},
        {"tp_comm_overlap", OVERLAP_TP},
        {"pp_p2p", OVERLAP_PP},
        {"cp_comm", OVERLAP_CP},
        {"ep_all_to_all", OVERLAP_EP},
    };
    json_open(writer, "overlap", '{');
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        json_put_bool(writer, KEYS[i].key, (overlap & KEYS[i].mask) != 0);
    json_close(writer, '}');
}

static void put_choices(struct json_writer *writer, const struct evaluation_request *request)
{
    const struct parallel *parallel = &request->parallel;
    static const enum axis AXES[] = {AXIS_TP, AXIS_CP, AXIS_PP, AXIS_EP, AXIS_DP};
    json_put_i64(writer, "seq_len", request->workload.seq_len);
    json_put_i64(writer, "global_batch", request->workload.global_batch);
    json_put_i64(writer, "micro_batch", parallel->micro_batch);
    for (size_t i = 0; i < sizeof AXES / sizeof *AXES; i++)
        json_put_i64(writer, axis_name(AXES[i]), parallel->degree[AXES[i]]);
    json_put_i64(writer, "vpp", parallel->vpp);
    json_put_bool(writer, "sp", parallel->sp);
    json_put_i64(writer, "zero_stage", parallel->zero);
    json_put_i64(writer, "zero_group", parallel->zero_group);
    json_put_text(writer, "recompute", recompute_text(parallel->recompute));
    json_put_text(writer, "precision", precision_name(request->workload.precision));
    json_put_bool(writer, "flash_attention", parallel->attention == ATTENTION_FLASH);
    json_put_text(writer, "schedule", schedule_words(parallel->schedule));
    put_overlap(writer, parallel->overlap);
}

static void put_measured(struct json_writer *writer, const struct measurement *measured)
{
    if (measured->peak_bytes > 0)
        json_put_text(writer, "peak_mem_kind", measured->is_reserved ? "reserved" : "allocated");
    json_open(writer, "measured", '{');
    json_put_f64(writer, "iter_s", measured->median_s);
    if (measured->peak_bytes > 0) json_put_f64(writer, "peak_mem_gb", measured->peak_bytes / 1e9);
    if (measured->flop_per_s_per_gpu > 0)
        json_put_f64(writer, "tflops_per_gpu", measured->flop_per_s_per_gpu / 1e12);
    json_close(writer, '}');
}

// What a row cannot say; NULL: nothing of this plan.
static const char *unsaid(const struct evaluation_request *request, int family)
{
    const struct cluster *cluster = request->cluster;
    if (family < 0) return "a model of this family";
    if (cluster->node_group_count > 1) return "a cluster of several kinds of nodes";
    if (!schedule_words(request->parallel.schedule)) return "this schedule";
    if (request->parallel.recompute > RECOMPUTE_FULL) return "recompute by operators";
    if (request->parallel.recompute_classes) return "classes of recompute";
    if (request->parallel.recompute_layers > 0) return "recompute of some layers";
    if (request->workload.precision == PRECISION_FP32) return "fp32";
    return NULL;
}

char *plan_compare_row(struct arena *arena, const struct plan_compare *compare, const char *id,
                       const char *source, struct err *err)
{
    const struct evaluation_request *request = compare->request;
    int family = family_of(request->model);
    const char *lacks = unsaid(request, family);
    if (lacks) {
        err_set(err, ERR_INPUT, "--row: a line of published runs cannot say %s", lacks);
        return NULL;
    }
    struct json_writer writer = {.arena = arena};
    json_open_flat(&writer, NULL, '{');
    json_put_text(&writer, "id", id);
    json_put_text(&writer, "family", id);
    json_put_text(&writer, "source", source);
    json_put_text(&writer, "tier", "A");
    json_put_text(&writer, "device", request->cluster->nodes[0].device->name);
    json_put_text(&writer, "stack", request->stack->name);
    put_cluster(&writer, request->cluster);
    put_model(&writer, request->model, family, err);
    put_choices(&writer, request);
    put_measured(&writer, compare->measured);
    json_close(&writer, '}');
    return err->kind ? NULL : writer.text;
}
