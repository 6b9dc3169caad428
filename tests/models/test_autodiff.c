#include "tests/support/test.h"

#include "models/autodiff.h"
#include "models/families/decoder.h"
#include "models/import.h"
#include "models/op_linear_loss.h"
#include "tests/support/interpreter.h"
#include "tests/support/tiny_models.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The derived backward of every family is compared with finite differences of its forward, block
// by block: a random weighting of the block's output is the function that is differentiated.

enum { BATCH = 2, SEQ = 5, PROBES = 6 };

// Numbers of a fixed seed, roughly normal.
static double next_number(uint64_t *seed)
{
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(*seed >> 33) / (double)(1u << 31) - 0.5;
    }
    return sum;
}

static int64_t id_limit(const struct block *block, int ids)
{
    for (int o = 0; o < block->op_count; o++) {
        const struct op *op = &block->ops[o];
        if (op->kind == OP_GATHER && op->inputs[0] == ids) {
            return block->tensors[op->inputs[1]].extents[0].size;
        }
        if (op->kind == OP_ROUTE && op->input_count > 1 && op->inputs[1] == ids)
            return block->tensors[op->inputs[0]].extents[2].size;
        if (op->kind == OP_LOSS && op->inputs[1] == ids) {
            return block->tensors[op->inputs[0]].extents[2].size;
        }
        if (op->kind == OP_LINEAR_LOSS && op->inputs[2] == ids) {
            const struct tensor *matrix = &block->tensors[op->inputs[1]];
            return matrix->extents[tensor_find_dim(matrix, DIM_VOCAB)].size;
        }
    }
    fail();
    return 1;
}

// Ones for each of its states, and experts of a token that are not the same.
static bool fill_told(struct interpreter *in, int tensor)
{
    bool is_one = strcmp(in->block->tensors[tensor].name, "each_stream") == 0;
    bool is_expert = strcmp(in->block->tensors[tensor].name, "token_experts") == 0;
    int64_t each = is_expert ? in->sizes[tensor][2] : 1;
    for (int64_t i = 0; i < interpreter_elements(in, tensor) && (is_one || is_expert); i++) {
        int64_t of = is_expert ? (i / each + i % each) % id_limit(in->block, tensor) : 1;
        interpreter_array(in, tensor)[i] = (double)of;
    }
    return is_one || is_expert;
}

static void fill(struct interpreter *in, uint64_t *seed)
{
    for (int t = 0; t < in->block->tensor_count; t++) {
        const struct tensor *tensor = &in->block->tensors[t];
        if (tensor->producer >= 0 || fill_told(in, t)) continue;
        double *values = interpreter_array(in, t);
        for (int64_t i = 0; i < interpreter_elements(in, t); i++) {
            bool is_ids = tensor->role == TENSOR_IDS;
            *seed = *seed * 6364136223846793005u + 1442695040888963407u;
            values[i] = is_ids ? (double)((*seed >> 40) % (uint64_t)id_limit(in->block, t))
                               : 0.7 * next_number(seed);
        }
    }
}

static double weighted_output(struct interpreter *in, const struct block_gradients *gradients,
                              int forward_ops)
{
    interpreter_run(in, 0, forward_ops);
    double sum = 0;
    for (int i = 0; i < in->block->output_count; i++) {
        int output = in->block->outputs[i];
        for (int64_t j = 0; j < interpreter_elements(in, output); j++) {
            sum += in->values[output][j] * in->values[gradients->of_output[i]][j];
        }
    }
    return sum;
}

static void check_tensor(struct interpreter *in, const struct block_gradients *gradients,
                         int forward_ops, int tensor, int gradient, uint64_t *seed)
{
    int64_t elements = interpreter_elements(in, tensor);
    assert_true(gradient >= 0);
    assert_int_equal(elements, interpreter_elements(in, gradient));
    for (int probe = 0; probe < PROBES; probe++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        int64_t at = (int64_t)((*seed >> 33) % (uint64_t)elements);
        double *x = &in->values[tensor][at], kept = *x, step = 1e-5;
        *x = kept + step;
        double above = weighted_output(in, gradients, forward_ops);
        *x = kept - step;
        double below = weighted_output(in, gradients, forward_ops);
        *x = kept;
        double expected = (above - below) / (2 * step), found = in->values[gradient][at];
        if (fabs(expected - found) > 1e-6 * (1 + fabs(expected))) {
            fail_msg("%s[%lld]: derived %.9g, differences %.9g", in->block->tensors[tensor].name,
                     (long long)at, found, expected);
        }
    }
}

static void check_block(struct arena *arena, const struct block *forward, uint64_t seed)
{
    struct block_gradients gradients;
    struct block *block = autodiff_block(arena, forward, &gradients);
    struct interpreter in = interpreter_new(arena, block, BATCH, SEQ);
    fill(&in, &seed);
    interpreter_run(&in, 0, block->op_count);
    for (int t = 0; t < forward->tensor_count; t++) {
        if (block->tensors[t].role != TENSOR_PARAMETER) continue;
        check_tensor(&in, &gradients, forward->op_count, t, gradients.of_parameter[t], &seed);
    }
    for (int i = 0; i < block->input_count; i++) {
        check_tensor(&in, &gradients, forward->op_count, block->inputs[i], gradients.of_input[i],
                     &seed);
    }
}

static void check_model(struct arena *arena, const char *text, bool is_flash)
{
    struct import_options options = {.flash = is_flash, .dropout = !is_flash};
    struct graph *graph = tiny_graph(arena, text, &options);
    if (!is_flash) match_loss_graph(arena, graph, 2);  // of some models
    for (int b = 0; b < graph->block_count; b++) {
        check_block(arena, &graph->blocks[b], 1234 + (uint64_t)b);
    }
}

static void derived_gradients_equal_finite_differences_with_fused_attention(void **state)
{
    for (int i = 0; TINY_MODELS[i]; i++) {
        check_model(*state, TINY_MODELS[i], true);
    }
}

static void derived_gradients_equal_finite_differences_with_the_unfused_chain(void **state)
{
    for (int i = 0; TINY_MODELS[i]; i++) {
        check_model(*state, TINY_MODELS[i], false);
    }
}

// Entries, attention to them, mixed states and told experts. Of what chooses entries there is no
// slope but at a jump.
static void entries_and_mixed_states_have_their_gradients(void **state)
{
    static const char MODEL[] =
        "{\"model_type\": \"deepseek_v4\", \"vocab_size\": 11, \"hidden_size\": 6, "
        "\"moe_intermediate_size\": 3, \"num_hidden_layers\": 3, \"num_attention_heads\": 2, "
        "\"head_dim\": 4, \"qk_rope_head_dim\": 2, \"q_lora_rank\": 3, \"o_groups\": 2, "
        "\"o_lora_rank\": 2, \"num_experts_per_tok\": 2, \"n_routed_experts\": 3, "
        "\"index_n_heads\": 2, \"index_head_dim\": 2, \"index_topk\": 1, "
        "\"sliding_window\": 2, \"hc_mult\": 2, \"hc_sinkhorn_iters\": 2, "
        "\"hc_eps\": 0.01, \"rms_norm_eps\": 0.05, "
        "\"layer_types\": [\"sliding_attention\", \"compressed_sparse_attention\", "
        "\"heavily_compressed_attention\"], \"compress_rate_csa\": 2, "
        "\"compress_rate_hca\": 2, \"num_hash_layers\": 1}";
    check_model(*state, MODEL, true);
}

// Families route in few ways; all of them, with every bias that experts can have.
static void every_way_to_route_has_its_gradient(void **state)
{
    static const enum function ROUTES[] = {
        FUNCTION_ROUTE_SOFTMAX,       FUNCTION_ROUTE_SOFTMAX_TOP_K, FUNCTION_ROUTE_TOP_K_SOFTMAX,
        FUNCTION_ROUTE_SIGMOID_TOP_K, FUNCTION_ROUTE_SIGMOID,       FUNCTION_ROUTE_NEAR_BEST,
        FUNCTION_ROUTE_ROOT};
    for (size_t i = 0; i < sizeof ROUTES / sizeof *ROUTES; i++) {
        enum function route = ROUTES[i];
        struct decoder decoder = {
            .vocab = 11,
            .hidden = 8,
            .layer_count = 1,
            .head_count = 2,
            .kv_head_count = 2,
            .head_dim = 4,
            .norm = FUNCTION_RMS_NORM,
            .norm_epsilon = 1e-6,
            .gated = route != FUNCTION_ROUTE_TOP_K_SOFTMAX,
            .activation = FUNCTION_SILU,
            .experts = {.count = 5,
                        .top_k = 2,
                        .ffn = 3,
                        .shared_ffn = 6,
                        .route = route,
                        .route_scale = 1.5,
                        .route_bias = true,
                        .choice_bias = route == FUNCTION_ROUTE_SIGMOID_TOP_K ||
                                       route == FUNCTION_ROUTE_SIGMOID ||
                                       route == FUNCTION_ROUTE_ROOT,
                        .expert_bias = true}};
        struct import_options options = {.flash = true};
        struct graph *graph = decoder_graph(*state, &decoder, &options);
        assert_int_equal(graph->blocks[1].role, BLOCK_LAYER);
        check_block(*state, &graph->blocks[1], 99 + (uint64_t)route);
    }
}

static const struct block *find_layer(const struct graph *graph)
{
    return &graph->blocks[1];
}

static const struct op *find_op(const struct block *block, const char *name)
{
    for (int o = 0; o < block->op_count; o++) {
        if (strcmp(block->ops[o].name, name) == 0) return &block->ops[o];
    }
    fail_msg("no op is called %s", name);
    return NULL;
}

static struct block *tiny_layer(struct arena *arena, bool is_flash,
                                struct block_gradients *gradients)
{
    struct import_options options = {.flash = is_flash};
    struct graph *graph = tiny_graph(arena, TINY_LLAMA, &options);
    return autodiff_block(arena, find_layer(graph), gradients);
}

static void forward_indices_stay_and_backward_follows_in_order(void **state)
{
    struct import_options options = {.flash = true};
    struct graph *graph = tiny_graph(*state, TINY_LLAMA, &options);
    const struct block *forward = find_layer(graph);
    struct block_gradients gradients;
    struct block *block = autodiff_block(*state, forward, &gradients);
    for (int o = 0; o < block->op_count; o++) {
        const struct op *op = &block->ops[o];
        if (o < forward->op_count) assert_string_equal(op->name, forward->ops[o].name);
        assert_int_equal(op->phase == PHASE_FORWARD, o < forward->op_count);
        assert_true(op->forward_op < forward->op_count);
        for (int i = 0; i < op->input_count; i++) {
            assert_true(block->tensors[op->inputs[i]].producer < o);
        }
    }
}

static void a_weight_gradient_is_its_own_phase(void **state)
{
    struct block_gradients gradients;
    struct block *block = tiny_layer(*state, true, &gradients);
    const struct op *input = find_op(block, "d_mlp.down.a"),
                    *weight = find_op(block, "d_mlp.down.b");
    assert_int_equal(input->phase, PHASE_BACKWARD);
    assert_int_equal(weight->phase, PHASE_WEIGHT);
    const struct tensor *gradient = &block->tensors[weight->outputs[0]];
    assert_string_equal(gradient->name, "d_mlp.down.weight");
    assert_int_equal(gradient->role, TENSOR_PARAMETER_GRADIENT);
    assert_string_equal(block->tensors[gradient->gradient_of].name, "mlp.down.weight");
    // The tokens are summed over, so a split of them makes the gradient partial.
    assert_int_equal(op_rule(OP_CONTRACT)->split(block, weight, DIM_BATCH), SPLIT_PARTIAL);
    assert_int_equal(op_rule(OP_CONTRACT)->split(block, weight, DIM_SEQ), SPLIT_PARTIAL);
    assert_int_equal(op_rule(OP_CONTRACT)->split(block, weight, DIM_FFN), SPLIT_FREE);
    assert_int_equal(op_rule(OP_CONTRACT)->split(block, input, DIM_FFN), SPLIT_FREE);
}

static void gradients_of_a_shared_input_are_summed_by_one_add(void **state)
{
    struct block_gradients gradients;
    struct block *block = tiny_layer(*state, true, &gradients);
    const struct op *sum = find_op(block, "d_attention.norm");
    assert_int_equal(sum->kind, OP_ADD);
    assert_int_equal(sum->input_count, 3);
    assert_string_equal(block->tensors[sum->inputs[0]].name, "d_attention.norm.0");
    // Column-parallel backward leaves each term partial over heads, and with it the sum.
    const struct op *d_q = find_op(block, "d_attention.q.a");
    assert_int_equal(op_rule(OP_CONTRACT)->split(block, d_q, DIM_HEAD), SPLIT_PARTIAL);
}

static void a_norm_gives_all_its_gradients_in_one_op(void **state)
{
    struct block_gradients gradients;
    struct block *block = tiny_layer(*state, true, &gradients);
    for (int o = 0; o < block->op_count; o++) {
        const struct op *op = &block->ops[o];
        if (op->kind != OP_NORM_BACKWARD) continue;
        assert_int_equal(op->phase, PHASE_BACKWARD);
        assert_int_equal(op->output_count, 2);
        assert_int_equal(op_rule(op->kind)->split(block, op, DIM_SEQ), SPLIT_PARTIAL);
        // Over parts of hidden its sums are exchanged, one number a token each.
        assert_int_equal(op_rule(op->kind)->split(block, op, DIM_HIDDEN), SPLIT_REDUCED);
    }
}

static void ids_have_no_gradient_and_residuals_alias_theirs(void **state)
{
    struct import_options options = {.flash = true, .dropout = true};
    struct graph *graph = tiny_graph(*state, TINY_GPT2, &options);
    struct block_gradients gradients;
    struct block *block = autodiff_block(*state, &graph->blocks[0], &gradients);
    assert_int_equal(find_op(block, "d_embedding.token")->phase, PHASE_WEIGHT);
    assert_int_equal(find_op(block, "d_embedding.token")->kind, OP_GATHER_BACKWARD);
    for (int t = 0; t < block->tensor_count; t++) {
        int of = block->tensors[t].gradient_of;
        if (of >= 0) assert_int_not_equal(block->tensors[of].role, TENSOR_IDS);
    }
    // The token rows get the gradient of the sum as it is; position rows the sum over the batch.
    const struct op *positions = find_op(block, "d_embedding.positioned");
    assert_int_equal(positions->kind, OP_REDUCE);
    assert_int_equal(find_op(block, "d_embedding.token")->inputs[0], positions->inputs[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derived_gradients_equal_finite_differences_with_fused_attention),
        cmocka_unit_test(derived_gradients_equal_finite_differences_with_the_unfused_chain),
        cmocka_unit_test(every_way_to_route_has_its_gradient),
        cmocka_unit_test(entries_and_mixed_states_have_their_gradients),
        cmocka_unit_test(forward_indices_stay_and_backward_follows_in_order),
        cmocka_unit_test(a_weight_gradient_is_its_own_phase),
        cmocka_unit_test(gradients_of_a_shared_input_are_summed_by_one_add),
        cmocka_unit_test(a_norm_gives_all_its_gradients_in_one_op),
        cmocka_unit_test(ids_have_no_gradient_and_residuals_alias_theirs),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
