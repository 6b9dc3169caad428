#include "models/families/layers.h"
#include "models/families/llama_like.h"

#include <assert.h>
#include <string.h>

// Apertus: llama with norms of heads, and an mlp without a gate whose activation is trained: xIELU
// (Huang and Schlag 2024, arXiv 2411.13010), in which a layer has two numbers of its own.

static const double BETA = 0.5;

// softplus of a number of the layer, for each channel of the mlp.
static int factor(struct layers *layers, const char *name, int64_t ffn)
{
    assert(ffn > 0);
    struct arena *arena = layers->builder.arena;
    struct extent one = {DIM_TABLE, 1}, inner = {DIM_FFN, ffn};
    int raw = layers_parameter(layers, name, "weight", SHAPE(one), NULL);
    int alpha =
        layers_function(layers, arena_print(arena, "%s.positive", name), raw, FUNCTION_SOFTPLUS, 0);
    int ones = layers_data(layers, "each_channel", ELEMENT_COMPUTE, SHAPE(one, inner));
    struct projection each = {.name = arena_print(arena, "%s.each", name), .output = SHAPE(inner)};
    return layers_product(layers, alpha, ones, each);
}

// x^2 times the one above zero, exp(x) - 1 - x times beta and the other below, and beta x
// everywhere. Its class takes exp of no x between -1e-6 and 0, which changes a millionth.
int layers_xielu(struct layers *layers, const char *name, int x)
{
    struct arena *arena = layers->builder.arena;
    const struct tensor *tensor = &layers->builder.block->tensors[x];
    int64_t ffn = tensor->extents[tensor->rank - 1].size;
    int first_op = layers->builder.block->op_count;
    const char *const up = arena_print(arena, "%s.above", name);
    const char *const down = arena_print(arena, "%s.below", name);
    int above = layers_function(layers, up, x, FUNCTION_RELU_SQUARED, 1);
    int below = layers_function(layers, down, x, FUNCTION_EXP_BELOW, 1);
    above = layers_gate(layers, arena_print(arena, "%s.scaled", up),
                        factor(layers, "mlp.alpha_p", ffn), above, FUNCTION_MODULATE, 0);
    below = layers_gate(layers, arena_print(arena, "%s.scaled", down),
                        factor(layers, "mlp.alpha_n", ffn), below, FUNCTION_MODULATE, BETA);
    int line =
        layers_function(layers, arena_print(arena, "%s.line", name), x, FUNCTION_SCALE, BETA);
    int bent = layers_add(layers, arena_print(arena, "%s.bent", name), above, below);
    int sum = layers_add(layers, name, bent, line);
    for (int o = first_op; o < layers->builder.block->op_count; o++)
        layers->builder.block->ops[o].class = OP_CLASS_ACTIVATION;
    return sum;
}

static const void *read_apertus(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 65536,
                                .dimensions_or_null = "num_key_value_heads",
                                .optional = "hidden_act rms_norm_eps attention_bias"};
    record.hidden_act = "xielu";
    record.rms_norm_eps = 1e-5;
    record.rope_theta = 12e6;
    llama_like_read(reader, &record);
    bool is_xielu = !reader->err->kind && strcmp(record.hidden_act, "xielu") == 0;
    if (is_xielu) record.hidden_act = "relu2";  // of which it is made
    struct decoder decoder = llama_like_decoder(reader, "apertus", &record);
    decoder.activation_is_xielu = is_xielu;
    decoder.gated = false;
    decoder.head_norms = true;
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_APERTUS = {"apertus", read_apertus, decoder_graph,
                                            "ApertusConfig"};
