#pragma once
#include "models/graph.h"

// Low-rank adapters (LoRA; Hu et al. 2021, section 4.1): beside a projection y = x W with a weight
// that is not trained stand two small ones that are, y = x W + s ((x A) B), where A has `rank`
// columns and B as many rows. s is alpha / rank; alpha is the rank, as both Hugging Face PEFT
// (LoraConfig: r and lora_alpha are 8) and Megatron-Bridge (LoRA: dim and alpha are 32) have it. No
// dropout. Each projection has its own A, as in PEFT and in Megatron-Bridge's CanonicalLoRA, also
// where q, k and v are one product; each routed expert as well.
//
// Nothing else is trained: neither norms nor biases, embedding or head. What is behind no adapter
// has no gradient, so that nothing goes back into the embedding. The first layer still makes the
// gradient of its input, as those of all layers do (PEFT with gradient checkpointing:
// enable_input_require_grads).

enum adapter_target {
    ADAPTER_Q,  // of latent attention all that makes queries
    ADAPTER_K,  // of latent attention keys and values, which come from one latent: k and v alike
    ADAPTER_V,
    ADAPTER_O,
    ADAPTER_GATE,  // of the mlp, of shared and of routed experts
    ADAPTER_UP,
    ADAPTER_DOWN,
    ADAPTER_TARGET_COUNT
};

enum { ADAPTER_RANK_MAX = 4096 };

struct adapters {
    int rank;          // 0: none, and every parameter is trained
    unsigned targets;  // 1 << enum adapter_target
};

// All of them: what Megatron-Bridge and NeMo adapt unless told otherwise (linear_qkv, linear_proj,
// linear_fc1, linear_fc2). PEFT's default follows from the family, of llama q and v.
extern const unsigned ADAPTERS_ALL;

// As people write it: "none", "16" (all projections), "16:q,v"; "attention" is q,k,v,o and "mlp"
// gate,up,down. Names of Hugging Face modules are taken as well (q_proj).
const char *adapters_words(struct arena *arena, struct adapters adapters);
MUST_CHECK bool adapters_parse(const char *text, struct adapters *adapters);

// The targets of one such word ("q", "q_proj", "mlp"); 0: it is none.
unsigned adapters_target(const char *word);

// The whole choice as one number, 0 = none, and back.
int64_t adapters_value(struct adapters adapters);
struct adapters adapters_of_value(int64_t value);

// Puts them beside the projections of the graph, all of whose own parameters become frozen, and
// counts its parameters again. Without a rank nothing is done.
void adapters_add(struct arena *arena, struct graph *graph, struct adapters adapters);
// Whether the graph has any projection that is meant. A graph of imported operators has none.
bool adapters_reach(const struct graph *graph, struct adapters adapters);
// What of the graph adapters cannot stand beside, in words; NULL: nothing. Layers that scan do not
// compute yet with frozen weights what they do without, an operator whose first operand is frozen
// and whose second is not has no backward, and the head that compares two towers would have
// gradients behind frozen operands alone.
const char *adapters_misfit(const struct graph *graph);
