#include "tests/support/run_draw.h"

#include "models/op_linear_loss.h"
#include "tests/support/tiny_models.h"

#define LLAMA_LIKE                                                                       \
    "\"vocab_size\": 37, \"hidden_size\": 16, \"intermediate_size\": 24, "               \
    "\"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"head_dim\": 4"

static const char *const MODELS[] = {
    "{\"model_type\": \"gpt2\", \"vocab_size\": 37, \"n_embd\": 16, \"n_layer\": 4, \"n_head\": 4, "
    "\"n_positions\": 16, \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1}",
    "{\"model_type\": \"llama\", " LLAMA_LIKE ", \"tie_word_embeddings\": false}",
    "{\"model_type\": \"llama\", " LLAMA_LIKE ", \"attention_bias\": true, \"mlp_bias\": true, "
    "\"tie_word_embeddings\": true}",
    "{\"model_type\": \"gemma2\", " LLAMA_LIKE ", \"sliding_window\": 5, "
    "\"query_pre_attn_scalar\": 3, \"attn_logit_softcapping\": 1.5, "
    "\"final_logit_softcapping\": 2}",
    "{\"model_type\": \"qwen3\", " LLAMA_LIKE "}",
    "{\"model_type\": \"gpt_neox\", \"vocab_size\": 37, \"hidden_size\": 16, \"rotary_pct\": 0.5, "
    "\"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"intermediate_size\": 24, "
    "\"hidden_dropout\": 0.2}",
    "{\"model_type\": \"falcon\", \"vocab_size\": 37, \"hidden_size\": 16, \"num_hidden_layers\": "
    "4, \"num_attention_heads\": 4, \"num_kv_heads\": 2, \"new_decoder_architecture\": true}",
    "{\"model_type\": \"bloom\", \"vocab_size\": 37, \"hidden_size\": 16, \"n_layer\": 4, "
    "\"n_head\": 4, \"apply_residual_connection_post_layernorm\": true}",
    "{\"model_type\": \"bert\", \"vocab_size\": 37, \"hidden_size\": 16, \"num_hidden_layers\": 4, "
    "\"num_attention_heads\": 4, \"intermediate_size\": 24, \"max_position_embeddings\": 16}",
    "{\"model_type\": \"deepseek_v2\", \"vocab_size\": 37, \"hidden_size\": 16, "
    "\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, "
    "\"kv_lora_rank\": 6, \"qk_nope_head_dim\": 3, \"qk_rope_head_dim\": 4, \"v_head_dim\": 5, "
    "\"q_lora_rank\": 5, \"attention_bias\": true, \"n_routed_experts\": null}",
};
_Static_assert(sizeof MODELS / sizeof *MODELS == DRAWN_MODEL_COUNT, "models and their number");
enum { LAYERS = 4 };

const char *run_draw_config(int model)
{
    return MODELS[model];
}

static void draw_degrees(struct draw *draw, struct parallel *parallel)
{
    static const int TP[] = {1, 1, 2, 2, 4}, CP[] = {1, 1, 1, 2, 4}, DP[] = {1, 2, 2, 4};
    static const int PP[] = {1, 1, 2, 3, 4};
    int64_t ranks;
    do {
        parallel->degree[AXIS_TP] = DRAW_ONE(draw, TP);
        parallel->degree[AXIS_CP] = DRAW_ONE(draw, CP);
        parallel->degree[AXIS_DP] = DRAW_ONE(draw, DP);
        parallel->degree[AXIS_PP] = DRAW_ONE(draw, PP);
        ranks = parallel_rank_count(parallel);
    } while (ranks < 2 || ranks > RUN_RANK_MAX);
    parallel->sp = draw_int(draw, 0, 1);
    parallel->cp_kind = (enum cp_kind)draw_int(draw, 0, CP_ULYSSES);
    for (int i = parallel->order_count - 1; i > 0; i--) {
        int other = draw_int(draw, 0, i);
        enum axis kept = parallel->order[i];
        parallel->order[i] = parallel->order[other];
        parallel->order[other] = kept;
    }
}

// Layers of the stages as they fall: some have none of their own but embedding or head.
static void draw_stages(struct draw *draw, struct arena *arena, struct parallel *parallel)
{
    int stages = parallel->degree[AXIS_PP];
    if (stages == 1 || parallel->vpp > 1 || draw_int(draw, 0, 1)) return;
    int *layers = ARENA_NEW(arena, int, stages);
    for (int s = 0; s < stages; s++)
        layers[s] = 1;
    for (int l = stages; l < LAYERS; l++)
        layers[draw_int(draw, 0, stages - 1)]++;
    parallel->stage_layers = layers;
    parallel->stage_layers_count = stages;
}

static void draw_pipeline(struct draw *draw, struct arena *arena, struct parallel *parallel)
{
    if (parallel->degree[AXIS_PP] == 1) return;
    parallel->schedule = (enum schedule_kind)draw_int(draw, 0, SCHEDULE_KIND_COUNT - 1);
    bool has_chunks =
        parallel->schedule == SCHEDULE_INTERLEAVED || parallel->schedule == SCHEDULE_ZB_V;
    if (has_chunks) parallel->vpp = 2;
    if (has_chunks) parallel->degree[AXIS_PP] = 2;
    if (parallel->schedule == SCHEDULE_ZB_AUTO) parallel->in_flight = draw_int(draw, 0, 6);
    if (parallel->schedule == SCHEDULE_ZB_H2) parallel->in_flight = draw_int(draw, 0, 1) * 4;
    draw_stages(draw, arena, parallel);
}

// Where they may be, of every other way to recompute: whole with parameters beside them, in shards
// with states alone; all of them, or of some layers, without another draw.
static void draw_gradients(struct parallel *parallel)
{
    struct offload *offload = &parallel->offload;
    if (parallel->degree[AXIS_PP] > 1 || parallel->recompute_layers % 2 != 0) return;
    if (parallel->zero == 1) offload->optimizer = TIER_HOST;
    offload->gradients = offload->optimizer == TIER_HOST;
    if (!offload->gradients || !parallel->sp) return;
    offload->gradient_layers = OFFLOAD_GRADIENTS_LEAST;
    if (parallel->cp_kind == CP_RING) offload->optimizer_layers = OFFLOAD_GRADIENTS_LEAST;
}

static void draw_memory(struct draw *draw, struct parallel *parallel)
{
    parallel->recompute = (enum recompute)draw_int(draw, 0, RECOMPUTE_COUNT - 1);
    if (parallel->recompute == RECOMPUTE_SELECTIVE)
        parallel->recompute_classes = (unsigned)draw_int(draw, 0, (1 << OP_CLASS_COUNT) - 1) & ~1u;
    if (parallel->recompute != RECOMPUTE_NONE) parallel->recompute_layers = draw_int(draw, -1, 2);
    parallel->zero = draw_int(draw, 0, 3);
    parallel->accumulates = parallel->zero >= 2 && draw_int(draw, 0, 1);
    int shards = parallel->degree[AXIS_DP] * parallel->degree[AXIS_CP];
    if (shards % 2 == 0 && shards > 2 && draw_int(draw, 0, 2) == 0)
        parallel->zero_group = shards / 2;
    if (parallel->zero == 0 && draw_int(draw, 0, 1))
        parallel->offload.optimizer = parallel->offload.parameters = TIER_HOST;
    draw_gradients(parallel);
    if (draw_int(draw, 0, 2)) {
        // Of some layers, without another draw.
        bool fetches = parallel->offload.parameters != TIER_DEVICE;
        int16_t layers = (int16_t)(parallel->recompute_layers > 0 ? parallel->recompute_layers : 0);
        if (fetches) parallel->offload.parameter_layers = layers;
        if (fetches && layers % 2) parallel->offload.optimizer_layers = layers;
        // Some stay for a while, where there is no pipeline.
        if (fetches && parallel->degree[AXIS_PP] == 1 && parallel->vpp <= 1) {
            parallel->offload.turn_blocks = (int16_t)((int)parallel->recompute % 3 - 1);
            parallel->offload.between_layers = (int16_t)(1 + parallel->recompute_layers);
        }
        return;
    }
    parallel->offload.activations = TIER_HOST;
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        parallel->offload.layers[class] = (int16_t)draw_int(draw, -1, 2);
    // Beside a count of another kind all classes have one.
    for (int class = 1; class < OP_CLASS_COUNT && parallel->offload.gradient_layers > 0; class ++)
        parallel->offload.layers[class] = parallel->offload.layers[0];
}

static bool has_plain_loss(struct arena *arena, const char *text)
{
    struct arena_mark mark = arena_mark(arena);
    struct graph *graph = tiny_graph(arena, text, &(struct import_options){.flash = true});
    bool has = match_loss_graph(arena, graph, 3);
    arena_reset(arena, mark);
    return has;
}

struct run_case run_draw(struct draw *draw, struct arena *arena, int *model)
{
    static const int MICRO_BATCH[] = {1, 2, 2, 4};
    *model = draw_int(draw, 0, DRAWN_MODEL_COUNT - 1);
    struct run_case of = run_case_new(MODELS[*model], DRAWN_SEQ, DRAWN_BATCH);
    struct parallel *parallel = &of.parallel;
    draw_degrees(draw, parallel);
    draw_pipeline(draw, arena, parallel);
    draw_memory(draw, parallel);
    parallel->micro_batch = DRAW_ONE(draw, MICRO_BATCH);
    parallel->overlap =
        (unsigned)draw_int(draw, 0, OVERLAP_END - 1) & ~(unsigned)(OVERLAP_TP | OVERLAP_EP);
    // Of half of what is split along the sequence, without another draw.
    bool relays = parallel->sp && parallel->overlap & OVERLAP_CP;
    parallel->tp_relay = relays ? parallel->overlap & OVERLAP_GRAD_REDUCE ? 2 : 4 : 0;
    if (relays && parallel->overlap & OVERLAP_PP) parallel->overlap |= OVERLAP_TP;
    bool asks = parallel->overlap & OVERLAP_PARAM_GATHER;
    parallel->loss_chunks = asks && has_plain_loss(arena, MODELS[*model]) ? 3 : 0;
    if (draw_int(draw, 0, 1)) parallel->passes = (unsigned)draw_int(draw, 0, (1 << PASS_COUNT) - 1);
    parallel->attention = (enum attention)draw_int(draw, 0, ATTENTION_COUNT - 1);
    of.poison = draw_int(draw, 0, 3) > 0;
    of.roam = draw_int(draw, 0, 3) == 0;
    // Kernels of the chain and the fused one draw from the same counters.
    of.dropout = draw_int(draw, 0, 3) == 0;
    return of;
}
