#include "tests/support/test.h"

#include "models/op.h"
#include "models/op_scan.h"
#include "tests/support/cuda_pair.h"
#include "tests/support/tiny_models.h"

#include <math.h>

// Operators of models of videos, pictures, proteins and compared towers, which the interpreter of
// tests does not know, and of layers whose keys are another's: the CUDA back end, its kernels on
// the host, against the CPU's in double precision on random slices of random numbers. Those are
// held to loops of their own in test_stdit_reference, test_evoformer_reference and
// test_run_families.

#define VIDEO                                                                                \
    "\"hidden_size\": 12, \"num_heads\": 2, \"in_channels\": 3, \"caption_channels\": 6, "   \
    "\"model_max_length\": 5, \"mlp_ratio\": 2.0, \"input_size\": [4, 4, 8], \"depth\": 2, " \
    "\"drop_path\": 0"
#define SLOPES                                                                               \
    "{\"model_type\": \"falcon\", \"alibi\": true, \"multi_query\": false, \"vocab_size\": " \
    "40, \"hidden_size\": 16, \"num_hidden_layers\": 1, \"num_attention_heads\": 4}"
#define HANDED                                                                                     \
    "{\"model_type\": \"gemma4_text\", \"vocab_size\": 40, \"vocab_size_per_layer_input\": 40, "   \
    "\"hidden_size\": 8, \"hidden_size_per_layer_input\": 8, \"intermediate_size\": 8, "           \
    "\"num_hidden_layers\": 4, \"num_kv_shared_layers\": 2, \"num_attention_heads\": 4, "          \
    "\"num_key_value_heads\": 2, \"head_dim\": 4, \"global_head_dim\": 8, \"sliding_window\": 3, " \
    "\"attention_k_eq_v\": true, \"layer_types\": [\"sliding_attention\", \"full_attention\", "    \
    "\"sliding_attention\", \"full_attention\"]}"
#define STREAMS                                                                                   \
    "{\"model_type\": \"gemma3n_text\", \"vocab_size\": 40, \"vocab_size_per_layer_input\": 36, " \
    "\"hidden_size\": 8, \"intermediate_size\": 8, \"num_hidden_layers\": 2, "                    \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 4, "                   \
    "\"hidden_size_per_layer_input\": 6, \"laurel_rank\": 3, \"num_kv_shared_layers\": 0, "       \
    "\"sliding_window\": 3, \"activation_sparsity_pattern\": [0.7, 0]}"
#define NARROW                                                            \
    "\"vocab_size\": 40, \"hidden_size\": 16, \"intermediate_size\": 8, " \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2"
#define FACTORED                                                                              \
    "{\"model_type\": \"dinov2\", \"image_size\": 4, \"patch_size\": 2, \"hidden_size\": 8, " \
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"mlp_ratio\": 1, \"num_labels\": 40}"
// The gated delta rule with a decay for each head, keys that are more than a warp has lanes and
// heads that share them; and with one for each channel.
#define DELTA                                                                                   \
    "{\"model_type\": \"qwen3_next\", " NARROW ", \"head_dim\": 4, \"num_experts\": 0, "        \
    "\"linear_num_key_heads\": 1, \"linear_num_value_heads\": 2, \"linear_key_head_dim\": 35, " \
    "\"linear_value_head_dim\": 3, \"layer_types\": [\"linear_attention\", \"full_attention\"]}"
#define DELTA_CHANNELS                                                                          \
    "{\"model_type\": \"kimi_linear\", \"vocab_size\": 40, \"hidden_size\": 8, "                \
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"intermediate_size\": 6, "          \
    "\"q_lora_rank\": null, \"num_key_value_heads\": null, \"kv_lora_rank\": 6, "               \
    "\"qk_nope_head_dim\": 4, \"qk_rope_head_dim\": 2, \"v_head_dim\": 4, \"num_experts\": 2, " \
    "\"num_experts_per_token\": 1, \"num_shared_experts\": 1, \"moe_intermediate_size\": 4, "   \
    "\"first_k_dense_replace\": 2, \"linear_num_heads\": 2, \"linear_head_dim\": 33, "          \
    "\"layer_types\": [\"linear_attention\"]}"
// Scores by distance, both by query and by key, of more rows than are summed at a time.
#define DISTANCES                                                                              \
    "{\"model_type\": \"deberta-v2\", \"vocab_size\": 40, \"hidden_size\": 8, "                \
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"intermediate_size\": 8, "         \
    "\"max_position_embeddings\": 200, \"type_vocab_size\": 0, \"relative_attention\": true, " \
    "\"position_buckets\": 140, \"pos_att_type\": \"p2c|c2p\"}"
static const char *const MODELS[] = {
    DISTANCES,
    CHOSEN("3"),
    DELTA,
    DELTA_CHANNELS,
    "{\"model_type\": \"apertus\", " NARROW "}",
    "{\"model_type\": \"phimoe\", " NARROW
    ", \"num_local_experts\": 6, \"num_experts_per_tok\": 2, \"router_jitter_noise\": 0.4}",
    "{\"model_type\": \"dinov2_with_registers\", \"image_size\": 4, \"patch_size\": 2, "
    "\"hidden_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"mlp_ratio\": 1, "
    "\"num_labels\": 40, \"num_register_tokens\": 2}",
    "{\"model_type\": \"STDiT3\", \"qk_norm\": true, " VIDEO "}",
    "{\"model_type\": \"STDiT\", \"qk_norm\": false, " VIDEO "}",
    "{\"_class_name\": \"PixArtTransformer2DModel\", \"num_attention_heads\": 4, "
    "\"attention_head_dim\": 4, \"num_layers\": 1, \"in_channels\": 2, \"caption_channels\": 6, "
    "\"model_max_length\": 5, \"sample_size\": 8}",
    "{\"_class_name\": \"FluxTransformer2DModel\", \"attention_head_dim\": 12, "
    "\"axes_dims_rope\": [4, 4, 4], \"guidance_embeds\": true, \"in_channels\": 6, "
    "\"joint_attention_dim\": 5, \"max_sequence_length\": 3, \"num_attention_heads\": 2, "
    "\"num_layers\": 1, \"num_single_layers\": 2, \"pooled_projection_dim\": 7, "
    "\"sample_size\": 8}",
    "{\"model_type\": \"evoformer\", \"no_blocks\": 1, \"c_m\": 8, \"c_z\": 6, "
    "\"c_hidden_msa_att\": 4, \"c_hidden_opm\": 3, \"c_hidden_mul\": 6, \"c_hidden_pair_att\": 4, "
    "\"no_heads_msa\": 4, \"no_heads_pair\": 2, \"transition_n\": 2, \"msa_depth\": 4, "
    "\"residues\": 7}",
    "{\"model_type\": \"siglip\", \"text_config\": {\"hidden_size\": 12, \"intermediate_size\": "
    "6, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"vocab_size\": 40, "
    "\"max_position_embeddings\": 8, \"projection_size\": 12}, \"vision_config\": "
    "{\"hidden_size\": 12, \"intermediate_size\": 6, \"num_hidden_layers\": 1, "
    "\"num_attention_heads\": 2, \"image_size\": 8, \"patch_size\": 4}}",
    SLOPES,
    HANDED,
    STREAMS,
    "{\"model_type\": \"bitnet\", " NARROW "}",
    "{\"model_type\": \"squeezebert\", \"vocab_size\": 40, \"hidden_size\": 12, "
    "\"intermediate_size\": 18, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
    "\"max_position_embeddings\": 12, \"q_groups\": 2, \"k_groups\": 3, \"v_groups\": 1, "
    "\"intermediate_groups\": 6, \"output_groups\": 2}",
    "{\"model_type\": \"persimmon\", " NARROW "}",
    "{\"model_type\": \"mimo_v2_flash\", " NARROW ", \"head_dim\": 4, \"v_head_dim\": 8, "
    "\"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 8, "
    "\"sliding_window\": 3, \"partial_rotary_factor\": 0.5, \"layer_types\": "
    "[\"full_attention\", \"sliding_attention\"], \"mlp_layer_types\": [\"dense\", "
    "\"dense\"]}",
    FACTORED,
};

static void operators_of_newer_models_equal_those_of_the_cpu(void **state)
{
    struct draw draw = draw_start("slices", 81);
    for (int t = 0; t < PAIR_TRIED_COUNT; t++) {
        struct backend_pair pair = pair_open(*state, &PAIR_TRIED[t]);
        for (size_t m = 0; m < sizeof MODELS / sizeof *MODELS; m++) {
            struct arena_mark mark = arena_mark(*state);
            const struct import_options options = {.flash = m % 2 == (size_t)t % 2};
            struct graph *graph = tiny_graph(*state, MODELS[m], &options);
            for (int b = 0; b < graph->block_count; b++) {
                struct block_gradients gradients;
                const struct block *block = autodiff_block(*state, &graph->blocks[b], &gradients);
                struct interpreter in = interpreter_new(*state, block, PAIR_BATCH, PAIR_SEQ);
                in.head_count = graph->head_count;
                pair_values(&draw, &in);
                for (int o = 0; o < block->op_count; o++)
                    pair_check(&draw, &pair, &in, o);
            }
            arena_reset(*state, mark);
        }
        pair_close(&pair);
    }
}

// Chunks of 16 and of 32 tokens, the last of them not full; one group, and several, of whose heads
// an emulation works on one, some or all at a time; more channels and numbers of a state than a
// tile or a warp has.
#define STEADY(width)                                                                    \
    "{\"model_type\": \"minimax\", \"vocab_size\": 40, \"hidden_size\": 8, "             \
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"intermediate_size\": 4, \"num_local_experts\": 2, \"num_experts_per_tok\": 1, "   \
    "\"layer_types\": [\"linear_attention\"], \"head_dim\": " width "}"
#define SELECTIVE(channels, numbers)                                                         \
    "{\"model_type\": \"mamba\", \"vocab_size\": 40, \"hidden_size\": 2, "                   \
    "\"num_hidden_layers\": 1, \"time_step_rank\": 1, \"intermediate_size\": " channels ", " \
    "\"state_size\": " numbers "}"
static void scans_of_several_chunks_equal_the_recurrence(void **state)
{
    static const struct {
        int64_t seq;
        const char *model;
    } SCANS[] = {
        {37, "{\"model_type\": \"mamba2\", \"vocab_size\": 40, \"hidden_size\": 8, "
             "\"num_hidden_layers\": 1, \"num_heads\": 4, \"head_dim\": 4, \"state_size\": 5, "
             "\"n_groups\": 2}"},
        {70, "{\"model_type\": \"mamba2\", \"vocab_size\": 40, \"hidden_size\": 54, "
             "\"num_hidden_layers\": 1, \"num_heads\": 3, \"head_dim\": 36, \"state_size\": 34, "
             "\"n_groups\": 1}"},
        {40, "{\"model_type\": \"mamba2\", \"vocab_size\": 40, \"hidden_size\": 16, "
             "\"num_hidden_layers\": 1, \"num_heads\": 8, \"head_dim\": 4, \"state_size\": 8, "
             "\"n_groups\": 4}"},
        {37, STEADY("6")},
        {70, STEADY("34")},
        // By state: three stretches, of channels and numbers that no block or chunk is full of; and
        // so many channels that a part has turns.
        {70, SELECTIVE("70", "11")},
        {3, SELECTIVE("2100", "1")},
    };
    struct draw draw = draw_start("scans", 11);
    for (int t = 0; t < PAIR_TRIED_COUNT; t++) {
        struct backend_pair pair = pair_open(*state, &PAIR_TRIED[t]);
        for (size_t m = 0; m < sizeof SCANS / sizeof *SCANS; m++) {
            const struct import_options options = {0};
            struct graph *graph = tiny_graph(*state, SCANS[m].model, &options);
            pair.cpu.seq = pair.cuda.seq = SCANS[m].seq;
            for (int b = 0; b < graph->block_count; b++) {
                struct block_gradients gradients;
                const struct block *block = autodiff_block(*state, &graph->blocks[b], &gradients);
                struct interpreter in = interpreter_new(*state, block, PAIR_BATCH, SCANS[m].seq);
                in.head_count = graph->head_count;
                pair_values(&draw, &in);
                for (int o = 0; o < block->op_count; o++)
                    if (block->ops[o].kind == OP_SCAN || block->ops[o].kind == OP_SCAN_BACKWARD)
                        pair_check(&draw, &pair, &in, o);
            }
        }
        pair_close(&pair);
    }
}

// x of some dims, and of the others one, that a gate or a result has.
static struct shape draw_part(struct draw *draw, const struct shape *whole, int rank)
{
    struct shape part = {0};
    int kept = 0;
    for (int i = 0; i < rank; i++) {
        if (i < rank - 1 && draw_int(draw, 0, 1)) continue;
        part.extents[kept++] = whole->extents[i];
    }
    return part;
}

static struct shape draw_shape(struct draw *draw, int *rank)
{
    static const enum dim DIMS[] = {DIM_BATCH, DIM_TIME, DIM_SEQ, DIM_HEAD};
    struct shape shape = {0};
    *rank = draw_int(draw, 0, 2) ? draw_int(draw, 1, 5) : 2;
    bool is_wide = draw_int(draw, 0, 3) == 0;  // more columns than a warp takes
    // More rows than one chunk of sums has.
    int most = is_wide ? 3 : *rank < 3 ? 400 : *rank < 5 ? 12 : 4;
    for (int i = 0; i < *rank - 1; i++)
        shape.extents[i] = (struct extent){DIMS[i], draw_int(draw, 1, most)};
    shape.extents[*rank - 1] = (struct extent){DIM_HIDDEN, draw_int(draw, 1, is_wide ? 600 : 40)};
    return shape;
}

static void check_block(struct draw *draw, const struct backend_pair *pair,
                        const struct block *forward)
{
    struct block_gradients gradients;
    struct arena *arena = pair->cpu.arena;
    const struct block *block = autodiff_block(arena, forward, &gradients);
    struct interpreter in = interpreter_new(arena, block, PAIR_BATCH, PAIR_SEQ);
    pair_values(draw, &in);
    for (int o = 0; o < block->op_count; o++)
        pair_check(draw, pair, &in, o);
}

static void check_function(struct draw *draw, const struct backend_pair *pair, enum op_kind kind,
                           enum function function)
{
    struct builder b = builder_new(pair->cpu.arena, "drawn", BLOCK_LAYER);
    int rank;
    bool is_loss = kind == OP_LOSS, is_error = function == FUNCTION_SQUARED_ERROR;
    struct shape shape = draw_shape(draw, &rank), rows = shape, other = shape;
    rows.extents[rank - 1] = (struct extent){DIM_NONE, 0};
    if (is_loss && !is_error) other = rows;
    bool is_gate = !is_loss && function != FUNCTION_MODULATE;
    if (!is_loss && !is_gate) other = draw_part(draw, &shape, rank);
    enum element element = is_loss && !is_error ? ELEMENT_INT64 : ELEMENT_COMPUTE;
    enum tensor_role role = is_loss ? TENSOR_IDS : TENSOR_ACTIVATION;
    int second = builder_tensor(&b, "second", role, element, other);
    int x = builder_tensor(&b, "x", TENSOR_ACTIVATION, ELEMENT_COMPUTE, shape);
    struct op op = {.name = is_loss   ? "loss"
                            : is_gate ? "gate"
                                      : "modulate",
                    .kind = kind,
                    .function = function,
                    .scalar = is_gate ? 0.5 : draw_int(draw, 0, 1),
                    .input_count = 2,
                    .inputs = {is_loss ? x : second, is_loss ? second : x},
                    .output_count = is_loss && !is_error ? 2 : 1};
    op.outputs[0] =
        builder_tensor(&b, "y", TENSOR_ACTIVATION, is_loss ? ELEMENT_FP32 : ELEMENT_COMPUTE,
                       is_loss ? rows : shape);
    if (op.output_count > 1)
        op.outputs[1] = builder_tensor(&b, "lse", TENSOR_ACTIVATION, ELEMENT_FP32, rows);
    builder_op(&b, op);
    b.block->inputs[b.block->input_count++] = x;
    if (!is_loss) b.block->inputs[b.block->input_count++] = second;
    b.block->outputs[b.block->output_count++] = op.outputs[0];
    check_block(draw, pair, b.block);
}

// Sums over any dims but the last, as gradients of biases and of what is added to all places are.
static void check_sums(struct draw *draw, const struct backend_pair *pair)
{
    struct builder b = builder_new(pair->cpu.arena, "drawn", BLOCK_LAYER);
    int rank;
    struct shape shape = draw_shape(draw, &rank), part = draw_part(draw, &shape, rank);
    int x = builder_tensor(&b, "x", TENSOR_ACTIVATION, ELEMENT_COMPUTE, shape);
    int shift = builder_tensor(&b, "shift", TENSOR_ACTIVATION, ELEMENT_COMPUTE, part);
    struct op op = {.name = "shifted",
                    .kind = OP_ADD,
                    .scalar = 1,
                    .input_count = 2,
                    .inputs = {x, shift},
                    .output_count = 1};
    op.outputs[0] = builder_tensor(&b, "y", TENSOR_ACTIVATION, ELEMENT_COMPUTE, shape);
    builder_op(&b, op);
    b.block->inputs[b.block->input_count++] = x;
    b.block->inputs[b.block->input_count++] = shift;
    b.block->outputs[b.block->output_count++] = op.outputs[0];
    check_block(draw, pair, b.block);
}

static void drawn_shapes_equal_those_of_the_cpu(void **state)
{
    struct draw draw = draw_start("shapes", 82);
    for (int t = 0; t < PAIR_TRIED_COUNT; t++) {
        struct backend_pair pair = pair_open(*state, &PAIR_TRIED[t]);
        for (int i = 0; i < 16; i++) {
            struct arena_mark mark = arena_mark(*state);
            check_function(&draw, &pair, OP_ELEMENTWISE, FUNCTION_MODULATE);
            check_function(&draw, &pair, OP_ELEMENTWISE, FUNCTION_SIGMOID_ABOVE);
            check_function(&draw, &pair, OP_ELEMENTWISE, FUNCTION_CLAMPED_SILU);
            check_function(&draw, &pair, OP_LOSS, FUNCTION_SQUARED_ERROR);
            check_function(&draw, &pair, OP_LOSS, FUNCTION_SIGMOID);
            check_sums(&draw, &pair);
            arena_reset(*state, mark);
        }
        pair_close(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_of_newer_models_equal_those_of_the_cpu),
        cmocka_unit_test(scans_of_several_chunks_equal_the_recurrence),
        cmocka_unit_test(drawn_shapes_equal_those_of_the_cpu),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
