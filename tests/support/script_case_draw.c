#include "models/op_linear_loss.h"
#include "tests/support/priced.h"
#include "tests/support/script_case.h"
#include "tests/support/test.h"
#include "tests/support/tiny_models.h"

// Large enough to be cut by everything at once: heads by tp and Ulysses, experts, six layers.
#define LLAMA_LIKE                                                                       \
    "\"vocab_size\": 512, \"hidden_size\": 32, \"intermediate_size\": 48, "              \
    "\"num_hidden_layers\": 6, \"num_attention_heads\": 8, \"num_key_value_heads\": 4, " \
    "\"head_dim\": 4"
#define LATENT                                                                     \
    "\"vocab_size\": 512, \"hidden_size\": 32, \"intermediate_size\": 48, "        \
    "\"num_hidden_layers\": 6, \"num_attention_heads\": 8, \"kv_lora_rank\": 16, " \
    "\"q_lora_rank\": 8, \"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 4, \"v_head_dim\": 8"

static const char *const MODELS[] = {
    "{\"model_type\": \"gpt2\", \"vocab_size\": 512, \"n_embd\": 32, \"n_layer\": 6, \"n_head\": "
    "8, \"n_positions\": 64, \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1}",
    "{\"model_type\": \"llama\", " LLAMA_LIKE "}",
    "{\"model_type\": \"gemma2\", " LLAMA_LIKE ", \"sliding_window\": 4, "
    "\"query_pre_attn_scalar\": 3, \"attn_logit_softcapping\": 1.5, "
    "\"final_logit_softcapping\": 2}",
    "{\"model_type\": \"mixtral\", " LLAMA_LIKE
    ", \"num_local_experts\": 4, \"num_experts_per_tok\": 2}",
    "{\"model_type\": \"gpt_oss\", " LLAMA_LIKE ", \"num_local_experts\": 4, "
    "\"num_experts_per_tok\": 2, \"sliding_window\": 4}",
    "{\"model_type\": \"deepseek_v3\", " LATENT ", \"first_k_dense_replace\": 1, "
    "\"n_routed_experts\": 4, \"n_shared_experts\": 1, \"num_experts_per_tok\": 2, "
    "\"moe_intermediate_size\": 24, "
    "\"n_group\": null, \"num_nextn_predict_layers\": 1}",
    "{\"model_type\": \"bloom\", \"vocab_size\": 512, \"hidden_size\": 32, \"n_layer\": 6, "
    "\"n_head\": 8}",
};
enum { MODEL_COUNT = sizeof MODELS / sizeof *MODELS };

static void draw_pipeline(struct draw *draw, struct parallel *parallel, int *micro_batches)
{
    parallel->schedule = (enum schedule_kind)draw_int(draw, 0, SCHEDULE_KIND_COUNT - 1);
    parallel->degree[AXIS_PP] = draw_int(draw, 1, 4);
    *micro_batches = draw_int(draw, 1, 6);
    if (parallel->schedule == SCHEDULE_ZB_V) parallel->vpp = 2;
    if (parallel->schedule == SCHEDULE_INTERLEAVED) {
        parallel->vpp = 2;
        *micro_batches = draw_int(draw, 1, 2) * parallel->degree[AXIS_PP];
    }
    if (parallel->schedule == SCHEDULE_ZB_AUTO) parallel->in_flight = draw_int(draw, 0, 8);
}

static void draw_memory(struct draw *draw, struct parallel *parallel)
{
    parallel->recompute = (enum recompute)draw_int(draw, 0, RECOMPUTE_COUNT - 1);
    parallel->recompute_classes = (unsigned)draw_int(draw, 0, (1 << OP_CLASS_COUNT) - 1) & ~1u;
    parallel->recompute_layers = draw_int(draw, -1, 2);
    parallel->zero = draw_int(draw, 0, 3);
    parallel->accumulates = parallel->zero >= 2 && draw_int(draw, 0, 3) == 0;
    if (parallel->zero == 0 && draw_int(draw, 0, 1))
        parallel->offload.optimizer = parallel->offload.parameters = TIER_HOST;
    // Where they may be, of every other way to recompute.
    parallel->offload.gradients = parallel->offload.parameters == TIER_HOST &&
                                  parallel->degree[AXIS_PP] == 1 &&
                                  parallel->recompute_layers % 2 == 0;
    if (draw_int(draw, 0, 2)) {
        // Of some layers, without another draw.
        struct offload *offload = &parallel->offload;
        int16_t layers = (int16_t)parallel->recompute_layers;
        if (layers > 0 && offload->parameters != TIER_DEVICE) {
            offload->parameter_layers = layers;
            offload->optimizer_layers = parallel->recompute % 2 ? layers : 0;
        } else if (layers > 0) {
            *offload = (struct offload){.optimizer = TIER_HOST, .optimizer_layers = layers};
        }
        // Of the parameters that leave some stay for a while, where there is no pipeline.
        bool may_stay = parallel->degree[AXIS_PP] == 1 && parallel->vpp <= 1;
        if (may_stay && offload->parameters != TIER_DEVICE) {
            offload->turn_blocks = (int16_t)((int)(parallel->recompute_classes >> 1) % 4 - 1);
            offload->between_layers = (int16_t)((int)(parallel->recompute_classes >> 3) % 4 - 1);
        }
        return;
    }
    parallel->offload.activations = TIER_HOST;
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        parallel->offload.layers[class] = (int16_t)draw_int(draw, -1, 3);
}

bool script_case_draw(struct arena *arena, struct draw *draw, struct script_case *of)
{
    static const int DEGREES[] = {1, 1, 2};
    *of = (struct script_case){.arena = arena, .model = draw_int(draw, 0, MODEL_COUNT - 1)};
    struct priced priced = priced_start(arena, "gpt2", "dgx-a100-80g-x16", "meshwright");
    struct parallel *parallel = &priced.parallel;
    int micro_batches;
    parallel->degree[AXIS_TP] = DRAW_ONE(draw, DEGREES);
    parallel->degree[AXIS_CP] = DRAW_ONE(draw, DEGREES);
    parallel->degree[AXIS_DP] = DRAW_ONE(draw, DEGREES);
    parallel->sp = draw_int(draw, 0, 1);
    parallel->cp_kind = (enum cp_kind)draw_int(draw, 0, CP_ULYSSES);
    parallel->passes = (unsigned)draw_int(draw, 0, (1 << PASS_COUNT) - 1);
    if (draw_int(draw, 0, 1)) parallel->passes = (1 << PASS_COUNT) - 1;
    parallel->overlap = (unsigned)draw_int(draw, 0, 63);
    // Of half of them, as many parts as ranks, without another draw.
    parallel->tp_relay = parallel->overlap & OVERLAP_TP ? 1 << 10 : 0;
    parallel->attention = (enum attention)draw_int(draw, 0, ATTENTION_COUNT - 1);
    draw_pipeline(draw, parallel, &micro_batches);
    draw_memory(draw, parallel);
    struct import_options options = {
        .flash = parallel->attention == ATTENTION_FLASH,
        .dropout = draw_int(draw, 0, 1),
        .vocab_multiple = 128 * parallel->degree[AXIS_TP],
    };
    struct graph *graph = tiny_graph(arena, MODELS[of->model], &options);
    // Of half of them, where the model's loss can be, without another draw.
    bool chunks = parallel->overlap & OVERLAP_CP && match_loss_graph(arena, graph, 3);
    parallel->loss_chunks = chunks ? 3 : 0;
    if (graph->expert_count > 0 && draw_int(draw, 0, 1))
        parallel->degree[AXIS_EP] = parallel->degree[AXIS_DP];
    parallel->micro_batch = draw_int(draw, 1, 2);
    struct workload workload = {
        .seq_len = 16,
        .precision = draw_int(draw, 0, 1) ? PRECISION_BF16 : PRECISION_FP32,
        .global_batch = (int64_t)micro_batches * parallel->micro_batch * parallel->degree[AXIS_DP],
        .expert_imbalance = 1 + draw_int(draw, 0, 1),
    };
    struct cluster *cluster = ARENA_NEW(arena, struct cluster, 1);
    *cluster = *priced.cluster;
    cluster->rank_count = (int)parallel_rank_count(parallel);
    struct err err = {0};
    if (!program_check(graph, cluster, &workload, parallel, &err)) return false;
    // No script can be made of these (plan_scripts_make): Ulysses splits the sinks.
    bool has_sinks = strcmp(graph->model_type, "gpt_oss") == 0;
    bool is_split = parallel->cp_kind == CP_ULYSSES && parallel->degree[AXIS_CP] > 1;
    if (has_sinks && is_split && parallel->zero >= 2) return false;
    // Any rules together, of other software or of ours.
    unsigned joins = (parallel->overlap * 5 ^ parallel->passes * 3) & ((1u << JOIN_COUNT) - 1);
    of->program = program_lower(arena, graph, cluster, &workload, parallel, joins);
    script_case_keep(&priced, of);
    return true;
}

void script_case_print(const struct script_case *of)
{
    const struct parallel *parallel = &of->program->parallel;
    print_error("# %s (%d): tp %d cp %d (%s) dp %d pp %d vpp %d ep %d sp %d zero %d accumulates %d "
                "schedule %s recompute %s classes %x layers %d overlap %x passes %x micro-batches "
                "%d precision %d offload %llx\n",
                of->program->graph->model_type, of->model, parallel->degree[AXIS_TP],
                parallel->degree[AXIS_CP], cp_kind_name(parallel->cp_kind),
                parallel->degree[AXIS_DP], parallel->degree[AXIS_PP], parallel->vpp,
                parallel->degree[AXIS_EP], parallel->sp, parallel->zero, parallel->accumulates,
                schedule_name(parallel->schedule), recompute_name(parallel->recompute),
                parallel->recompute_classes, parallel->recompute_layers, parallel->overlap,
                parallel->passes, of->program->shape.micro_batch_count,
                (int)of->program->workload.precision,
                (unsigned long long)offload_value(&parallel->offload));
}

int script_case_count(int otherwise)
{
    const char *text = getenv("MESHWRIGHT_CASES");
    return text ? atoi(text) : otherwise;
}
