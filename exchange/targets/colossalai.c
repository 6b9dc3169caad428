#include "exchange/syntax.h"
#include "exchange/target.h"
#include "exchange/targets/forms.h"

#include <stdlib.h>
#include <string.h>

// Colossal-AI 0.5.0: the arguments of HybridParallelPlugin, for experts of MoeHybridParallelPlugin,
// and in `training` what the script that boosts a model with it has to know. The rows have the
// names of the first; what the second calls otherwise is renamed behind them. Parameters sharded
// (GeminiPlugin) and V-shaped schedules (a graph of nodes) are other objects: refused.

static bool has_experts(const struct facts *facts)
{
    return facts_get(facts, "model.experts") != NULL;
}

// Beside experts it sets stage 2 back to 1, and overlap of their gradients to none.
static const char *without_experts(struct arena *arena, const struct facts *facts,
                                   const char *value)
{
    (void)arena;
    return has_experts(facts) ? NULL : value;
}
static const struct exchange_form UNROUTED_FORM = {without_experts, form_itself};

// Gradients are sharded without a pipeline only.
static const char *stage(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    if (strcmp(value, "3") == 0) return NULL;
    bool is_refused = has_experts(facts) || !facts_is_neutral(facts, "pp");
    return strcmp(value, "2") == 0 && is_refused ? NULL : value;
}
static const struct exchange_form STAGE_FORM = {stage, form_itself};

// Ranks of tp hold whole experts there and route the same tokens, which no plan does.
static const char *whole_experts(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return has_experts(facts) && strcmp(value, "1") != 0 ? NULL : value;
}
static const struct exchange_form TP_FORM = {whole_experts, form_itself};

// Experts are spread over copies.
static const char *over_copies(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    int64_t ranks = atoi(value);
    return ranks > 0 && facts_number(facts, "dp", 0) % ranks == 0 ? value : NULL;
}
static const struct exchange_form EP_FORM = {over_copies, form_itself};

// One argument holds the ranks of a sequence, be they those of tp.
static const char *without_cp(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_is_neutral(facts, "cp") ? value : NULL;
}
static const struct exchange_form WITHOUT_CP_FORM = {without_cp, form_itself};

static const char *ring(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_is(facts, "cp_kind", "ring") && !has_experts(facts) ? value : NULL;
}

static const char *heads_for_tokens(struct arena *arena, const struct facts *facts,
                                    const char *value)
{
    return has_experts(facts) ? NULL : ULYSSES_FORM.to(arena, facts, value);
}
static const struct exchange_form SEQUENCE_FORM = {heads_for_tokens, form_itself};
static const struct exchange_form RING_FORM = {ring, form_itself};

// With both, the ranks of a sequence stand nearer than those of tp.
static const char *one_of_them(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_is_neutral(facts, "tp") || facts_is_neutral(facts, "cp") ? value : NULL;
}
static const struct exchange_form ONE_FORM = {one_of_them, one_of_them};

// Copies that share experts stand together: with them outside, stages would be between.
static const char *outside(struct arena *arena, const struct facts *facts, const char *value)
{
    bool is_parted = !facts_is_neutral(facts, "ep") && !facts_is_neutral(facts, "pp");
    return is_parted ? NULL : one_of_them(arena, facts, value);
}
static const struct exchange_form OUTSIDE_FORM = {outside, outside};
static const struct exchange_form READ_OUTSIDE_FORM = {form_never, outside};

static const char *stage_layers(struct arena *arena, const struct facts *facts, const char *pieces)
{
    if (facts_number(facts, "vpp", 1) != 1 || facts_number(facts, "model.mtp", 0)) return NULL;
    const char *text = "[";
    for (const char *at = pieces; *at; at++)
        text =
            *at == ',' ? arena_print(arena, "%s, ", text) : arena_print(arena, "%s%c", text, *at);
    return arena_print(arena, "%s]", text);
}

static const char *listed(struct arena *arena, const struct facts *facts, const char *text)
{
    const char *pieces = "";
    (void)facts;
    if (*text != '[') return NULL;
    for (const char *at = text + 1; *at && *at != ']';) {
        char *end = NULL;
        long layers = strtol(at, &end, 10);
        if (end == at) return NULL;
        pieces = arena_print(arena, "%s%s%ld", pieces, *pieces ? "," : "", layers);
        at = end + strspn(end, ", ");
    }
    return *pieces ? pieces : NULL;
}
static const struct exchange_form LIST_FORM = {stage_layers, listed};

static const char *layers(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena, (void)value;
    return facts_get(facts, "model.layers");
}
static const struct exchange_form LAYERS_FORM = {layers, form_never};

#define PLUGIN "HybridParallelPlugin."
#define ROUTED "MoeHybridParallelPlugin."
#define MODE PLUGIN "enable_sequence_parallelism=true;" PLUGIN "sequence_parallelism_mode="

static const struct exchange_row ROWS[] = {
    {"world", NULL, "", NULL, &WRITTEN_FORM},
    {"model.experts", NULL, "", NULL, &WRITTEN_FORM},
    {"tp", NULL, PLUGIN "tp_size={}", "split as planned; dp is what is left", &TP_FORM},
    {"cp", NULL, PLUGIN "sp_size={};" MODE "all_to_all", "heads for tokens, and back",
     &SEQUENCE_FORM},
    {"cp", NULL, PLUGIN "sp_size={};" MODE "ring_attn", "keys and values go round", &RING_FORM},
    {"cp_kind", "ulysses", PLUGIN "sequence_parallelism_mode=all_to_all", NULL, NULL},
    {"cp_kind", "ring", PLUGIN "sequence_parallelism_mode=ring_attn", NULL, NULL},
    {"pp", NULL, PLUGIN "pp_size={}", NULL, NULL},
    {"dp", NULL, "", NULL, &WRITTEN_FORM},
    {"ep", NULL, PLUGIN "ep_size={}", "experts spread over so many copies", &EP_FORM},
    BY_ITSELF("tp=1 cp=1 pp=1 ep=1 etp=1"),
    {"sp", "on", MODE "split_gather", "norms and dropout on a part of the sequence",
     &WITHOUT_CP_FORM},
    {"sp", NULL, PLUGIN "sequence_parallelism_mode=ring", NULL, &UNREAD_FORM},
    {"sp", "off", PLUGIN "enable_sequence_parallelism=false", NULL, &WITHOUT_CP_FORM},
    {"vpp", NULL, PLUGIN "num_model_chunks={}", "model chunks of a stage", NULL},
    {"model.layers", NULL, "training.num_layers={}", NULL, &READ_FORM},
    {"model.layers", NULL, "", NULL, &WRITTEN_FORM},
    {"+pp", NULL, "training.num_layers={}", "the model's, which its chunks share evenly",
     &LAYERS_FORM},
    {"pieces", NULL, PLUGIN "num_layers_per_stage={}", "layers of each stage", &LIST_FORM},
    {"pieces", NULL, "", NULL, &EVEN_FORM},
    {"schedule", "1f1b", PLUGIN "pp_style=1f1b", "as planned", &ONE_CHUNK_FORM},
    {"schedule", "interleaved", PLUGIN "pp_style=interleaved", "as planned", &MORE_CHUNKS_FORM},
    {"schedule", "1f1b", "", NULL, &READ_FORM},
    {"micro_batch", NULL, "training.micro_batch_size={}", "the batch", NULL},
    {"+micro_batch", NULL, PLUGIN "microbatch_size={}", "sequences of a micro-batch", &STAGES_FORM},
    {"micro_batch", NULL, PLUGIN "microbatch_size={}", NULL, &READ_FORM},
    {"global_batch", NULL, "training.global_batch_size={}", NULL, NULL},
    {"seq_len", NULL, "training.seq_length={}", NULL, NULL},
    {"zero", NULL, PLUGIN "zero_stage={}",
     "0: nothing is sharded, 1: optimizer states, 2: gradients as well", &STAGE_FORM},
    {"zero", "1", "plugin.moe;" PLUGIN "zero_stage=2", NULL, &READ_FORM},
    {"zero", "0", "", NULL, &READ_FORM},
    BY_ITSELF("sp=off vpp=1 zero_group=0"),
    {"recompute", "full", "training.gradient_checkpointing=true",
     "model.gradient_checkpointing_enable(): forward runs again in backward", NULL},
    {"recompute", "none", "training.gradient_checkpointing=false", "memory suffices", NULL},
    {"attention", "flash", PLUGIN "enable_flash_attention=true", "as planned", NULL},
    {"attention", "unfused", PLUGIN "enable_flash_attention=false", "as planned", NULL},
    {"offload.optimizer", "host", PLUGIN "cpu_offload=true", "optimizer states on the host",
     &SHARDED_FORM},
    {"offload.optimizer", "none", PLUGIN "cpu_offload=false", NULL, &READ_FORM},
    BY_ITSELF("attention=unfused offload.optimizer=none offload.activations=none "
              "offload.parameters=none offload.gradients=none"),
    {"overlap.grad-reduce", "on", PLUGIN "overlap_communication=true",
     "gradients are reduced beside backward", &UNROUTED_FORM},
    {"overlap.grad-reduce", "off", PLUGIN "overlap_communication=false", NULL, NULL},
    {"overlap.grad-reduce", "off", "plugin.moe", NULL, &READ_FORM},
    {"overlap.grad-reduce", "on", "", NULL, &READ_FORM},
    {"overlap.param-gather", "on", PLUGIN "overlap_allgather=true",
     "parameters are gathered beside forward", NULL},
    {"overlap.param-gather", "off", PLUGIN "overlap_allgather=false", NULL, &READ_FORM},
    {"overlap.pp", "on", PLUGIN "overlap_p2p=true", "sends between stages beside compute", NULL},
    {"overlap.pp", "off", PLUGIN "overlap_p2p=false", NULL, NULL},
    BY_ITSELF("overlap.param-gather=off overlap.tp=off overlap.cp=off overlap.ep=off"),
    {"precision", "bf16", PLUGIN "precision=bf16", "precision", NULL},
    {"precision", "fp16", PLUGIN "precision=fp16", "precision", NULL},
    {"precision", "fp32", PLUGIN "precision=fp32", "precision", NULL},
    {"precision", "fp16", "", NULL, &READ_FORM},
    {"optimizer", "adamw", "training.optimizer=HybridAdam", "with decoupled weight decay", NULL},
    {"optimizer", "lamb", "training.optimizer=Lamb", NULL, NULL},
    {"order", "tp,cp,dp,pp", PLUGIN "dp_outside=false", "copies nearer than stages", &ONE_FORM},
    {"order", "tp,cp,pp,dp", PLUGIN "dp_outside=true", "stages nearer than copies", &OUTSIDE_FORM},
    {"order", "tp,cp,pp,dp", "", NULL, &READ_OUTSIDE_FORM},
    BY_ITSELF("capacity=0"),
    {0},
};

static const struct {
    const char *dense, *routed;
} NAMES[] = {{PLUGIN "dp_outside", ROUTED "moe_dp_outside"}, {PLUGIN, ROUTED}};

// The first of these names that `key` begins with is written as the other plugin has it.
static const char *renamed(struct arena *arena, const char *key, bool is_routed)
{
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        const char *from = is_routed ? NAMES[i].dense : NAMES[i].routed;
        size_t length = strlen(from);
        if (strncmp(key, from, length) != 0) continue;
        return arena_print(arena, "%s%s", is_routed ? NAMES[i].routed : NAMES[i].dense,
                           key + length);
    }
    return key;
}

static void rename_all(struct settings *settings, bool is_routed)
{
    for (int i = 0; i < settings->count; i++)
        settings->items[i].key = renamed(settings->arena, settings->items[i].key, is_routed);
}

static void finish(const struct facts *facts, struct settings *settings)
{
    if (has_experts(facts)) rename_all(settings, true);
}

static void prepare(struct settings *settings)
{
    bool is_routed = false;
    for (int i = 0; i < settings->count; i++)
        is_routed = is_routed || strncmp(settings->items[i].key, ROUTED, strlen(ROUTED)) == 0;
    if (!is_routed) return;
    rename_all(settings, false);
    settings_read(settings, "plugin.moe", "", 0);
    settings_find(settings, "plugin.moe")->is_used = true;
}

const struct exchange_target COLOSSALAI_TARGET = {
    .name = "colossalai",
    .program = "Colossal-AI",
    .version = "0.5.0",
    .stack = "colossalai",
    .file = "plugin.py",
    .syntax = &PYTHON_SYNTAX,
    .opening =
        "# The script takes both from here: Booster(plugin=plugin), training[\"seq_length\"].\n"
        "from colossalai.booster.plugin import HybridParallelPlugin, "
        "MoeHybridParallelPlugin\n",
    .command = "\"${TRAIN_SCRIPT:-train.py}\"",
    .options = "colossalai-0.5.0",
    .rows = ROWS,
    .prepare = prepare,
    .finish = finish,
    .known_by = "HybridParallelPlugin.tp_size HybridParallelPlugin.pp_size "
                "HybridParallelPlugin.zero_stage HybridParallelPlugin.precision "
                "HybridParallelPlugin.microbatch_size HybridParallelPlugin.num_microbatches "
                "HybridParallelPlugin.enable_flash_attention MoeHybridParallelPlugin.tp_size "
                "MoeHybridParallelPlugin.pp_size MoeHybridParallelPlugin.ep_size "
                "MoeHybridParallelPlugin.zero_stage MoeHybridParallelPlugin.precision",
};
