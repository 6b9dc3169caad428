#include "executor/checkpoint/foreign.h"

#include <stdlib.h>
#include <string.h>

// Names of arrays in checkpoints of others, a row each.

#define LLAMA_LIKE \
    " llama mistral mixtral qwen2 qwen2_moe qwen3 qwen3_moe deepseek_v2 deepseek_v3 kimi_k2 "
#define LAYER "model.layers.{layer}."
#define EXPERTS_LISTED " qwen2_moe qwen3_moe deepseek_v2 deepseek_v3 kimi_k2 "
#define MIXTRAL LAYER "block_sparse_moe."
#define GPT2 "transformer.h.{layer}."
#define DEEPSEEK " deepseek_v2 deepseek_v3 kimi_k2 "
#define DEEPSEEK_SHARED LAYER "mlp.shared_experts."

// A row whose parameter is all of theirs, row by row.
#define WHOLE(families, ours, theirs, row_dims, is_turned)            \
    {                                                                 \
        families, ours, theirs, row_dims, is_turned, 0, 1, SLOTS_ROWS \
    }

// Hugging Face: the shapes are those of `transformers`, whose Linear has (out, in) and GPT-2's
// Conv1D (in, out). The first that fits is meant.
static const struct foreign_row HUGGINGFACE[] = {
    WHOLE(DEEPSEEK, "attention.q.weight", LAYER "self_attn.q_proj.weight", 1, true),
    WHOLE(LLAMA_LIKE, "embedding.token.weight", "model.embed_tokens.weight", 1, false),
    WHOLE(LLAMA_LIKE, "head.lm.weight", "lm_head.weight", 1, false),
    WHOLE(LLAMA_LIKE, "head.norm.weight", "model.norm.weight", -1, false),
    WHOLE(LLAMA_LIKE, "attention.norm.weight", LAYER "input_layernorm.weight", -1, false),
    WHOLE(LLAMA_LIKE, "mlp.norm.weight", LAYER "post_attention_layernorm.weight", -1, false),
    WHOLE(LLAMA_LIKE, "attention.q.weight", LAYER "self_attn.q_proj.weight", 2, false),
    WHOLE(LLAMA_LIKE, "attention.k.weight", LAYER "self_attn.k_proj.weight", 2, false),
    WHOLE(LLAMA_LIKE, "attention.v.weight", LAYER "self_attn.v_proj.weight", 2, false),
    WHOLE(LLAMA_LIKE, "attention.q.bias", LAYER "self_attn.q_proj.bias", -1, false),
    WHOLE(LLAMA_LIKE, "attention.k.bias", LAYER "self_attn.k_proj.bias", -1, false),
    WHOLE(LLAMA_LIKE, "attention.v.bias", LAYER "self_attn.v_proj.bias", -1, false),
    WHOLE(LLAMA_LIKE, "attention.q_norm.weight", LAYER "self_attn.q_norm.weight", -1, false),
    WHOLE(LLAMA_LIKE, "attention.k_norm.weight", LAYER "self_attn.k_norm.weight", -1, false),
    WHOLE(LLAMA_LIKE, "attention.out.weight", LAYER "self_attn.o_proj.weight", 2, true),
    WHOLE(LLAMA_LIKE, "attention.out.bias", LAYER "self_attn.o_proj.bias", -1, false),
    WHOLE(LLAMA_LIKE, "mlp.gate.weight", LAYER "mlp.gate_proj.weight", 1, false),
    WHOLE(LLAMA_LIKE, "mlp.up.weight", LAYER "mlp.up_proj.weight", 1, false),
    WHOLE(LLAMA_LIKE, "mlp.down.weight", LAYER "mlp.down_proj.weight", 1, true),
    WHOLE(" mixtral ", "router.weight", MIXTRAL "gate.weight", 1, true),
    WHOLE(" mixtral ", "experts.gate.weight", MIXTRAL "experts.{expert}.w1.weight", 1, true),
    WHOLE(" mixtral ", "experts.down.weight", MIXTRAL "experts.{expert}.w2.weight", 1, true),
    WHOLE(" mixtral ", "experts.up.weight", MIXTRAL "experts.{expert}.w3.weight", 1, true),
    WHOLE(EXPERTS_LISTED, "router.weight", LAYER "mlp.gate.weight", 1, true),
    WHOLE(EXPERTS_LISTED, "experts.gate.weight", LAYER "mlp.experts.{expert}.gate_proj.weight", 1,
          true),
    WHOLE(EXPERTS_LISTED, "experts.up.weight", LAYER "mlp.experts.{expert}.up_proj.weight", 1,
          true),
    WHOLE(EXPERTS_LISTED, "experts.down.weight", LAYER "mlp.experts.{expert}.down_proj.weight", 1,
          true),
    WHOLE(" qwen2_moe ", "shared.gate.weight", LAYER "mlp.shared_expert.gate_proj.weight", 1,
          false),
    WHOLE(" qwen2_moe ", "shared.up.weight", LAYER "mlp.shared_expert.up_proj.weight", 1, false),
    WHOLE(" qwen2_moe ", "shared.down.weight", LAYER "mlp.shared_expert.down_proj.weight", 1, true),
    WHOLE(" qwen2_moe ", "shared.weight.weight", LAYER "mlp.shared_expert_gate.weight", 0, false),
    WHOLE(DEEPSEEK, "attention.q_a.weight", LAYER "self_attn.q_a_proj.weight", 1, false),
    WHOLE(DEEPSEEK, "attention.q_a.bias", LAYER "self_attn.q_a_proj.bias", -1, false),
    WHOLE(DEEPSEEK, "attention.q_a_norm.weight", LAYER "self_attn.q_a_layernorm.weight", -1, false),
    WHOLE(DEEPSEEK, "attention.q_b.weight", LAYER "self_attn.q_b_proj.weight", 1, true),
    WHOLE(DEEPSEEK, "attention.kv_a.weight", LAYER "self_attn.kv_a_proj_with_mqa.weight", 1, false),
    WHOLE(DEEPSEEK, "attention.k_shared.weight", LAYER "self_attn.kv_a_proj_with_mqa.weight", 1,
          false),
    WHOLE(DEEPSEEK, "attention.kv_a.bias", LAYER "self_attn.kv_a_proj_with_mqa.bias", -1, false),
    WHOLE(DEEPSEEK, "attention.k_shared.bias", LAYER "self_attn.kv_a_proj_with_mqa.bias", -1,
          false),
    WHOLE(DEEPSEEK, "attention.kv_a_norm.weight", LAYER "self_attn.kv_a_layernorm.weight", -1,
          false),
    WHOLE(DEEPSEEK, "attention.k_b.weight", LAYER "self_attn.kv_b_proj.weight", 2, false),
    WHOLE(DEEPSEEK, "attention.v_b.weight", LAYER "self_attn.kv_b_proj.weight", 2, false),
    WHOLE(DEEPSEEK, "router.choice.bias", LAYER "mlp.gate.e_score_correction_bias", -1, false),
    WHOLE(DEEPSEEK, "shared.gate.weight", DEEPSEEK_SHARED "gate_proj.weight", 1, false),
    WHOLE(DEEPSEEK, "shared.up.weight", DEEPSEEK_SHARED "up_proj.weight", 1, false),
    WHOLE(DEEPSEEK, "shared.down.weight", DEEPSEEK_SHARED "down_proj.weight", 1, true),
    WHOLE(DEEPSEEK, "mtp.embedding_norm.weight", LAYER "enorm.weight", -1, false),
    WHOLE(DEEPSEEK, "mtp.hidden_norm.weight", LAYER "hnorm.weight", -1, false),
    WHOLE(DEEPSEEK, "mtp.project.weight", LAYER "eh_proj.weight", 1, true),
    WHOLE(DEEPSEEK, "mtp.norm.weight", LAYER "shared_head.norm.weight", -1, false),
    WHOLE(" gpt2 ", "embedding.token.weight", "transformer.wte.weight", 1, false),
    WHOLE(" gpt2 ", "embedding.position.weight", "transformer.wpe.weight", 1, false),
    WHOLE(" gpt2 ", "attention.norm.weight", GPT2 "ln_1.weight", -1, false),
    WHOLE(" gpt2 ", "attention.norm.bias", GPT2 "ln_1.bias", -1, false),
    {" gpt2 ", "attention.q.weight", GPT2 "attn.c_attn.weight", 2, true, 0, 3, SLOTS_ROWS},
    {" gpt2 ", "attention.k.weight", GPT2 "attn.c_attn.weight", 2, true, 1, 3, SLOTS_ROWS},
    {" gpt2 ", "attention.v.weight", GPT2 "attn.c_attn.weight", 2, true, 2, 3, SLOTS_ROWS},
    {" gpt2 ", "attention.q.bias", GPT2 "attn.c_attn.bias", -1, false, 0, 3, SLOTS_ROWS},
    {" gpt2 ", "attention.k.bias", GPT2 "attn.c_attn.bias", -1, false, 1, 3, SLOTS_ROWS},
    {" gpt2 ", "attention.v.bias", GPT2 "attn.c_attn.bias", -1, false, 2, 3, SLOTS_ROWS},
    WHOLE(" gpt2 ", "attention.out.weight", GPT2 "attn.c_proj.weight", 2, false),
    WHOLE(" gpt2 ", "attention.out.bias", GPT2 "attn.c_proj.bias", -1, false),
    WHOLE(" gpt2 ", "mlp.norm.weight", GPT2 "ln_2.weight", -1, false),
    WHOLE(" gpt2 ", "mlp.norm.bias", GPT2 "ln_2.bias", -1, false),
    WHOLE(" gpt2 ", "mlp.up.weight", GPT2 "mlp.c_fc.weight", 1, false),
    WHOLE(" gpt2 ", "mlp.up.bias", GPT2 "mlp.c_fc.bias", -1, false),
    WHOLE(" gpt2 ", "mlp.down.weight", GPT2 "mlp.c_proj.weight", 1, false),
    WHOLE(" gpt2 ", "mlp.down.bias", GPT2 "mlp.c_proj.bias", -1, false),
    WHOLE(" gpt2 ", "head.norm.weight", "transformer.ln_f.weight", -1, false),
    WHOLE(" gpt2 ", "head.norm.bias", "transformer.ln_f.bias", -1, false),
};

#define MEGATRON_GATED " llama mistral mixtral qwen2 qwen3 qwen3_moe "
#define MEGATRON " gpt2" MEGATRON_GATED
#define MEGATRON_EXPERTS " mixtral qwen3_moe "
#define DECODER "decoder.layers.{layer}."
#define ATTENTION DECODER "self_attention."
#define QKV ATTENTION "linear_qkv."
#define MLP DECODER "mlp."
#define EXPERT MLP "experts.experts.{expert}."

// Megatron-Core's GPTModel, by the keys of its sharded_state_dict (layers that are one tensor there
// are numbered by dcp.c): its linear layers have (out, in), gate and up one behind the other. Where
// the norm before experts is hangs on what implements the layer.
static const struct foreign_row MEGATRON_CORE[] = {
    WHOLE(MEGATRON, "embedding.token.weight", "embedding.word_embeddings.weight", 1, false),
    WHOLE(MEGATRON, "embedding.position.weight", "embedding.position_embeddings.weight", 1, false),
    WHOLE(MEGATRON, "head.lm.weight", "output_layer.weight", 1, false),
    WHOLE(MEGATRON, "head.norm.weight", "decoder.final_layernorm.weight", -1, false),
    WHOLE(MEGATRON, "head.norm.bias", "decoder.final_layernorm.bias", -1, false),
    WHOLE(MEGATRON, "attention.norm.weight", QKV "layer_norm_weight", -1, false),
    WHOLE(MEGATRON, "attention.norm.bias", QKV "layer_norm_bias", -1, false),
    {MEGATRON, "attention.q.weight", QKV "weight", 2, false, 0, 3, SLOTS_GROUPS},
    {MEGATRON, "attention.k.weight", QKV "weight", 2, false, 1, 3, SLOTS_GROUPS},
    {MEGATRON, "attention.v.weight", QKV "weight", 2, false, 2, 3, SLOTS_GROUPS},
    {MEGATRON, "attention.q.bias", QKV "bias", -1, false, 0, 3, SLOTS_GROUPS},
    {MEGATRON, "attention.k.bias", QKV "bias", -1, false, 1, 3, SLOTS_GROUPS},
    {MEGATRON, "attention.v.bias", QKV "bias", -1, false, 2, 3, SLOTS_GROUPS},
    WHOLE(MEGATRON, "attention.q_norm.weight", ATTENTION "q_layernorm.weight", -1, false),
    WHOLE(MEGATRON, "attention.k_norm.weight", ATTENTION "k_layernorm.weight", -1, false),
    WHOLE(MEGATRON, "attention.out.weight", ATTENTION "linear_proj.weight", 2, true),
    WHOLE(MEGATRON, "attention.out.bias", ATTENTION "linear_proj.bias", -1, false),
    WHOLE(MEGATRON_EXPERTS, "mlp.norm.weight", DECODER "pre_mlp_layernorm.weight", -1, false),
    WHOLE(MEGATRON, "mlp.norm.weight", MLP "linear_fc1.layer_norm_weight", -1, false),
    WHOLE(MEGATRON, "mlp.norm.bias", MLP "linear_fc1.layer_norm_bias", -1, false),
    {MEGATRON_GATED, "mlp.gate.weight", MLP "linear_fc1.weight", 1, false, 0, 2, SLOTS_ROWS},
    {MEGATRON_GATED, "mlp.up.weight", MLP "linear_fc1.weight", 1, false, 1, 2, SLOTS_ROWS},
    WHOLE(" gpt2 ", "mlp.up.weight", MLP "linear_fc1.weight", 1, true),
    WHOLE(" gpt2 ", "mlp.up.bias", MLP "linear_fc1.bias", -1, false),
    WHOLE(MEGATRON, "mlp.down.weight", MLP "linear_fc2.weight", 1, true),
    WHOLE(MEGATRON, "mlp.down.bias", MLP "linear_fc2.bias", -1, false),
    WHOLE(MEGATRON_EXPERTS, "router.weight", MLP "router.weight", 1, true),
    {MEGATRON_EXPERTS, "experts.gate.weight", EXPERT "linear_fc1.weight", 1, true, 0, 2,
     SLOTS_COLUMNS},
    {MEGATRON_EXPERTS, "experts.up.weight", EXPERT "linear_fc1.weight", 1, true, 1, 2,
     SLOTS_COLUMNS},
    WHOLE(MEGATRON_EXPERTS, "experts.down.weight", EXPERT "linear_fc2.weight", 1, true),
};

static const struct {
    const struct foreign_row *rows;
    int count;
} TABLES[] = {
    [NAMES_HUGGINGFACE] = {HUGGINGFACE, sizeof HUGGINGFACE / sizeof *HUGGINGFACE},
    [NAMES_MEGATRON] = {MEGATRON_CORE, sizeof MEGATRON_CORE / sizeof *MEGATRON_CORE},
};

static bool is_of(const struct foreign_row *row, const char *family)
{
    size_t length = strlen(family);
    for (const char *at = row->families; (at = strstr(at, family)); at += length)
        if (at[-1] == ' ' && at[length] == ' ') return true;
    return false;
}

bool foreign_knows(const char *family)
{
    for (int i = 0; i < TABLES[NAMES_HUGGINGFACE].count && *family; i++)
        if (is_of(&HUGGINGFACE[i], family)) return true;
    return false;
}

const struct foreign_row *foreign_find(enum foreign_names names, const char *family,
                                       const char *name, const struct foreign_row *after,
                                       int *layer)
{
    const struct foreign_row *rows = TABLES[names].rows;
    for (int i = after ? (int)(after - rows) + 1 : 0; i < TABLES[names].count; i++) {
        size_t length = strlen(rows[i].ours);
        if (!is_of(&rows[i], family) || strncmp(name, rows[i].ours, length) != 0) continue;
        if (name[length] && name[length] != '.') continue;
        // The embedding stands at place 0 of the model, the first layer at 1.
        *layer = name[length] ? atoi(name + length + 1) - 1 : 0;
        return &rows[i];
    }
    return NULL;
}

char *foreign_name(struct arena *arena, const struct foreign_row *row, int layer, int expert)
{
    static const char LAYER_MARK[] = "{layer}", EXPERT_MARK[] = "{expert}";
    char *name = arena_copy(arena, row->theirs), *at;
    if ((at = strstr(name, LAYER_MARK)))
        name =
            arena_print(arena, "%.*s%d%s", (int)(at - name), name, layer, at + strlen(LAYER_MARK));
    if ((at = strstr(name, EXPERT_MARK)))
        name = arena_print(arena, "%.*s%d%s", (int)(at - name), name, expert,
                           at + strlen(EXPERT_MARK));
    return name;
}

bool foreign_has_experts(const struct foreign_row *row)
{
    return strstr(row->theirs, "{expert}") != NULL;
}
