#pragma once
// A training step of GPT-2 in plain loops, as a baseline of speed: the algorithm that llm.c
// publishes for the CPU (its train_gpt2.c, as of 2024), written here from its description. Products
// forward take eight rows at a time so that a weight is read once for them; everything else is the
// loop that the formula says, one operator after another, all activations kept. One thread, fp32,
// AdamW with weight decay on all parameters, no dropout.

struct plain_shape {
    int layers, heads, width, vocab, positions;
    int batch, seq;  // batch * seq a multiple of 8
};

struct plain_gpt2;

// Weights normal-like with deviation 0.02 (residual products and biases as GPT-2 starts them), from
// a fixed seed. NULL without memory.
struct plain_gpt2 *plain_gpt2_new(const struct plain_shape *shape);
void plain_gpt2_free(struct plain_gpt2 *model);

// One step on batch * seq tokens and what follows each of them; the mean loss before the update.
float plain_gpt2_step(struct plain_gpt2 *model, const int *tokens, const int *labels,
                      float learning_rate);
