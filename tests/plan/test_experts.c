#include "tests/support/graph_counts.h"
#include "tests/support/test.h"

#include "models/autodiff.h"
#include "models/families/decoder.h"
#include "models/op.h"
#include "tests/support/interpreter.h"
#include "tests/support/tiny_models.h"

#include <math.h>

// Mixtures of experts as operators: what may be split, how much work the rows that exist are, and
// that a layer computes what its formula says.

static const struct import_options FLASH = {.flash = true};

static struct graph *load(struct arena *arena, const char *name)
{
    struct err err = {0};
    struct model_config *config = model_load(arena, name, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    return model_graph(arena, config, &FLASH);
}

// The last of that name: a sum of gradients before it is called the same.
static const struct op *find_op(const struct block *block, const char *name)
{
    for (int o = block->op_count - 1; o >= 0; o--) {
        if (strcmp(block->ops[o].name, name) == 0) return &block->ops[o];
    }
    fail_msg("no op is called %s", name);
    return NULL;
}

static int find_tensor(const struct block *block, const char *name)
{
    for (int t = 0; t < block->tensor_count; t++) {
        if (strcmp(block->tensors[t].name, name) == 0) return t;
    }
    fail_msg("no tensor is called %s", name);
    return -1;
}

static enum split split(const struct block *block, const char *name, enum dim dim)
{
    const struct op *op = find_op(block, name);
    return op_rule(op->kind)->split(block, op, dim);
}

static const struct block *mixtral_layer(struct arena *arena)
{
    return &tiny_graph(arena, TINY_MIXTRAL, &FLASH)->blocks[1];
}

static void routing_is_decided_over_all_experts_and_moving_is_not(void **state)
{
    static const struct {
        const char *op;
        enum split batch, gate, expert, hidden;
    } EXPECTED[] = {
        {"router", SPLIT_FREE, SPLIT_FREE, SPLIT_NO, SPLIT_PARTIAL},
        {"router.choice", SPLIT_FREE, SPLIT_NO, SPLIT_NO, SPLIT_NO},
        {"experts.dispatch", SPLIT_FREE, SPLIT_NO, SPLIT_FREE, SPLIT_FREE},
        {"experts.up", SPLIT_FREE, SPLIT_NO, SPLIT_FREE, SPLIT_PARTIAL},
        {"experts.activation", SPLIT_FREE, SPLIT_NO, SPLIT_FREE, SPLIT_NO},
        {"experts.combine", SPLIT_FREE, SPLIT_NO, SPLIT_PARTIAL, SPLIT_FREE},
        {"d_router.choice", SPLIT_FREE, SPLIT_NO, SPLIT_NO, SPLIT_NO},
        {"d_experts.dispatch", SPLIT_FREE, SPLIT_NO, SPLIT_PARTIAL, SPLIT_FREE},
        // The rows' gradients are split, the weights' are sums over hidden and over the experts.
        {"d_experts.combine", SPLIT_FREE, SPLIT_NO, SPLIT_PARTIAL, SPLIT_PARTIAL},
        {"d_experts.up.b", SPLIT_PARTIAL, SPLIT_NO, SPLIT_FREE, SPLIT_FREE},
    };
    struct block_gradients gradients;
    struct block *block = autodiff_block(*state, mixtral_layer(*state), &gradients);
    for (size_t i = 0; i < sizeof EXPECTED / sizeof *EXPECTED; i++) {
        const char *op = EXPECTED[i].op;
        assert_int_equal(split(block, op, DIM_BATCH), EXPECTED[i].batch);
        assert_int_equal(split(block, op, DIM_SEQ), EXPECTED[i].batch);
        assert_int_equal(split(block, op, DIM_GATE), EXPECTED[i].gate);
        assert_int_equal(split(block, op, DIM_EXPERT), EXPECTED[i].expert);
        assert_int_equal(split(block, op, DIM_HIDDEN), EXPECTED[i].hidden);
    }
    assert_int_equal(split(block, "experts.down", DIM_FFN), SPLIT_PARTIAL);
}

static void a_share_is_rounded_up_and_is_never_nothing(void **state)
{
    (void)state;
    assert_int_equal(density_share(0, 1000), 1000);
    assert_int_equal(density_share(0.25, 1000), 250);
    assert_int_equal(density_share(0.25, 1001), 251);
    assert_int_equal(density_share(8.0 / 256, 3), 1);
    // Densities that binary fractions do not have.
    for (int64_t experts = 1; experts <= 400; experts++) {
        for (int64_t top_k = 1; top_k <= experts && top_k <= 9; top_k++) {
            double density = (double)top_k / (double)experts;
            assert_int_equal(density_share(density, experts * 8192), top_k * 8192);
        }
    }
    struct tensor rows = {.rank = 4,
                          .density = 0.25,
                          .extents = {{DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_EXPERT, 8}, {DIM_FFN, 3}}};
    assert_int_equal(tensor_elements(&rows, 2, 5), 2 * 5 * 2 * 3);
}

// Experts of one rank: three of the four, the tokens of all ranks.
static void products_inside_experts_are_batched_over_the_rows_that_exist(void **state)
{
    struct block_gradients gradients;
    struct block *block = autodiff_block(*state, mixtral_layer(*state), &gradients);
    int64_t size[DIM_COUNT] = {[DIM_BATCH] = 4, [DIM_SEQ] = 16,   [DIM_EXPERT] = 3,
                               [DIM_GATE] = 4,  [DIM_HIDDEN] = 8, [DIM_FFN] = 6};
    struct gemm forward = op_gemm(block, find_op(block, "experts.up"), size);
    assert_int_equal(forward.batch, 3);
    assert_int_equal(forward.m, 4 * 16 / 2);  // 2 of 4 experts a token
    assert_int_equal(forward.n, 6);
    assert_int_equal(forward.k, 8);
    struct gemm weight = op_gemm(block, find_op(block, "d_experts.up.b"), size);
    assert_int_equal(weight.batch, 3);
    assert_int_equal(weight.m, 8);
    assert_int_equal(weight.n, 6);
    assert_int_equal(weight.k, 4 * 16 / 2);
    const struct op *router = find_op(block, "router");
    assert_int_equal(op_gemm(block, router, size).m, 4 * 16);

    // Of streaming work, too, only what exists counts.
    const struct op *combine = find_op(block, "experts.combine");
    assert_true(op_rule(OP_COMBINE)->flop(block, combine, size) == 2.0 * 4 * 16 * 3 * 8 / 2);
    const struct op *backward = find_op(block, "d_experts.combine");
    assert_true(op_rule(backward->kind)->flop(block, backward, size) == 4.0 * 4 * 16 * 3 * 8 / 2);
    size[DIM_BATCH] = size[DIM_SEQ] = 1;
    assert_int_equal(op_gemm(block, find_op(block, "experts.up"), size).m, 1);
}

// A number a token times a row of hidden: both directions touch all of hidden.
static void a_gate_repeated_over_hidden_is_work_on_hidden(void **state)
{
    struct block_gradients gradients;
    const struct block *layer = &tiny_graph(*state, TINY_QWEN2_MOE, &FLASH)->blocks[1];
    struct block *block = autodiff_block(*state, layer, &gradients);
    int64_t size[DIM_COUNT] = {[DIM_BATCH] = 2, [DIM_SEQ] = 3, [DIM_HIDDEN] = 8};
    const struct op *forward = find_op(block, "shared.weighted");
    const struct op *backward = find_op(block, "d_shared.weighted");
    double each = forward->flop_per_element;
    assert_true(op_rule(OP_ELEMENTWISE)->flop(block, forward, size) == each * 2 * 3 * 8);
    assert_true(op_rule(OP_ELEMENTWISE)->flop(block, backward, size) == each * 2 * 2 * 3 * 8);
    assert_int_equal(split(block, "shared.weighted", DIM_HIDDEN), SPLIT_FREE);
    assert_int_equal(split(block, "d_shared.weighted", DIM_HIDDEN), SPLIT_PARTIAL);
    assert_int_equal(split(block, "d_shared.weighted", DIM_SEQ), SPLIT_FREE);
}

static void rows_are_ragged_in_both_directions_and_parameters_are_not(void **state)
{
    struct block_gradients gradients;
    struct block *block = autodiff_block(*state, mixtral_layer(*state), &gradients);
    int ragged = 0;
    for (int t = 0; t < block->tensor_count; t++) {
        const struct tensor *tensor = &block->tensors[t];
        bool is_rows = tensor_find_dim(tensor, DIM_EXPERT) > 0;
        assert_true(tensor->density == (is_rows ? 0.5 : 0));
        ragged += is_rows;
    }
    // Input, gate, up, activation and output; the input's gradient is two and their sum.
    assert_int_equal(ragged, 5 + 5 + 2);
    // Backward of the dispatch reads where the rows went and nothing else.
    const struct op *dispatch = find_op(block, "d_experts.dispatch");
    assert_int_equal(dispatch->input_count, 2);
    assert_string_equal(block->tensors[dispatch->inputs[1]].name, "router.weights");
    assert_int_equal(dispatch->output_count, 1);
    int merge = find_op(block, "experts.gate")->merge;
    assert_true(merge > 0 && merge == find_op(block, "experts.up")->merge);
    assert_int_not_equal(merge, find_op(block, "attention.q")->merge);
}

// What backward reads of a layer of experts with a dense attention: inputs of the two norms, their
// results, attention, the scores and their weights, and five rows a chosen expert.
static void a_mixture_keeps_the_rows_of_the_chosen(void **state)
{
    const struct block *block = mixtral_layer(*state);
    bool *saved = ARENA_NEW(*state, bool, block->tensor_count);
    block_saved_tensors(block, saved);
    int64_t batch = 3, seq = 10, tokens = batch * seq, rows = 2 * tokens, elements = 0;
    for (int t = 0; t < block->tensor_count; t++) {
        bool is_expert = tensor_find_dim(&block->tensors[t], DIM_EXPERT) >= 0;
        bool is_score = tensor_find_dim(&block->tensors[t], DIM_GATE) >= 0;
        if (!saved[t] || !(is_expert || is_score)) continue;
        elements += tensor_elements(&block->tensors[t], batch, seq);
    }
    assert_int_equal(elements, rows * (8 + 8) + rows * 3 * 6 + tokens * 2 * 4);
    assert_true(saved[find_tensor(block, "router.weights")]);
    assert_int_equal(block->tensors[find_tensor(block, "router.weights")].element, ELEMENT_FP32);
}

static const struct {
    const char *name;
    int64_t parameters, active;
} PUBLISHED[] = {
    // Jiang et al. 2024, "Mixtral of Experts": 47B, 13B active; 8x22b: 141B, 39B (Mistral).
    {"mixtral-8x7b", 46702792704, 12879925248},
    {"mixtral-8x22b", 140620634112, 39152031744},
    // Parameters by transformers; active are those outside experts and the chosen of the others.
    // OpenAI's 3.6B and 5.1B leave the embedding out, Databricks says 36B, Qwen A2.7B to A22B.
    {"qwen1.5-moe-a2.7b", 14315784192, 2689173504},
    {"qwen2-57b-a14b", 57408658944, 14249270784},
    {"qwen3-30b-a3b", 30532122624, 3353032704},
    {"qwen3-235b-a22b", 235093634560, 22190763520},
    {"gpt-oss-20b", 20914757184, 4187440704},
    {"gpt-oss-120b", 116829156672, 5711982912},
    // Zhipu: 106B with 12B active, 355B with 32B, without embedding or prediction module.
    {"glm-4.5-air", 106852251264, 13424129664},
    {"glm-4.5", 352797829024, 33632266144},
    {"dbrx", 131596523520, 36469708800},
    // No transformers has it; from the shapes of xai-org/grok-1, whose table is tied.
    {"grok-1",
     64 * (2 * 6144ll * 6144 + 2 * 6144ll * 1024 + 6144 * 8 + 4 * 6144 + 8 * 3 * 6144ll * 32768) +
         6144 + 131072 * 6144ll,
     64 * (2 * 6144ll * 6144 + 2 * 6144ll * 1024 + 6144 * 8 + 4 * 6144 + 2 * 3 * 6144ll * 32768) +
         6144 + 131072 * 6144ll},
};

static void shipped_mixtures_have_their_published_sizes(void **state)
{
    for (size_t i = 0; i < sizeof PUBLISHED / sizeof *PUBLISHED; i++) {
        struct graph *graph = load(*state, PUBLISHED[i].name);
        if (graph->parameter_count != PUBLISHED[i].parameters ||
            graph->active_parameter_count != PUBLISHED[i].active) {
            fail_msg("%s: %lld parameters, %lld active", PUBLISHED[i].name,
                     (long long)graph->parameter_count, (long long)graph->active_parameter_count);
        }
    }
}

static void model_flops_count_the_chosen_experts(void **state)
{
    struct graph *graph = load(*state, "mixtral-8x7b");
    int64_t attention = 2 * 4096 * 4096 + 2 * 4096 * 1024, experts = 2ll * 3 * 4096 * 14336;
    int64_t expected = 32 * (attention + 4096 * 8 + experts) + 4096ll * 32000;
    assert_int_equal(graph_matmul_parameter_count(graph), expected);
    double pairs = 4096.0 * 4096 / 2;
    double flop = 6.0 * (double)expected * 4096 + 3 * 32 * 4.0 * 32 * 128 * pairs;
    assert_true(fabs(graph_model_flop(graph, 4096) / flop - 1) < 1e-12);
    assert_int_equal(graph->expert_count, 8);
    assert_int_equal(graph->top_k, 2);
    assert_int_equal(graph->expert_ffn, 14336);
}

static void layers_without_experts_are_a_kind_of_their_own(void **state)
{
    static const char QWEN[] =
        "{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 6, \"decoder_sparse_step\": 2, "
        "\"mlp_only_layers\": [3], \"num_experts\": 4, \"num_experts_per_tok\": 1, \"vocab_size\": "
        "32, \"hidden_size\": 64, \"intermediate_size\": 48, \"num_attention_heads\": 4, "
        "\"num_key_value_heads\": 2, \"moe_intermediate_size\": 16}";
    struct graph *graph = tiny_graph(*state, QWEN, &FLASH);
    static const char *const EXPECTED[] = {"layer.dense", "layer",       "layer.dense",
                                           "layer.dense", "layer.dense", "layer"};
    assert_int_equal(graph->block_count, 4);
    for (int i = 0; i < 6; i++) {
        const struct block *block = &graph->blocks[graph->sequence[i + 1]];
        assert_string_equal(block->name, EXPECTED[i]);
        assert_int_equal(block->role, BLOCK_LAYER);
    }
    graph = load(*state, "gpt-oss-20b");
    assert_int_equal(graph->block_count, 4);
    assert_string_equal(graph->blocks[graph->sequence[1]].name, "layer.local");
    assert_string_equal(graph->blocks[graph->sequence[2]].name, "layer");
    const struct block *local = &graph->blocks[graph->sequence[1]];
    assert_int_equal(find_op(local, "attention.core")->window, 128);
    assert_int_equal(find_op(local, "attention.core")->input_count, 4);
}

static void classes_of_recompute_find_their_ops(void **state)
{
    static const struct {
        const char *op;
        enum op_class class;
    } EXPECTED[] = {
        {"attention.norm", OP_CLASS_NORM},
        {"mlp.norm", OP_CLASS_NORM},
        {"attention.q", OP_CLASS_NONE},
        {"attention.core", OP_CLASS_ATTENTION},
        {"router", OP_CLASS_NONE},
        {"router.choice", OP_CLASS_NONE},
        {"experts.dispatch", OP_CLASS_NONE},
        {"experts.gate", OP_CLASS_EXPERTS},
        {"experts.up", OP_CLASS_EXPERTS},
        {"experts.activation", OP_CLASS_ACTIVATION},
        {"experts.down", OP_CLASS_NONE},
        {"shared.up", OP_CLASS_MLP},
        {"shared.activation", OP_CLASS_ACTIVATION},
        {"experts.sum", OP_CLASS_NONE},
    };
    const struct block *block = &tiny_graph(*state, TINY_QWEN2_MOE, &FLASH)->blocks[1];
    for (size_t i = 0; i < sizeof EXPECTED / sizeof *EXPECTED; i++) {
        assert_int_equal(find_op(block, EXPECTED[i].op)->class, EXPECTED[i].class);
    }
    const struct block *normed = &load(*state, "qwen3-30b-a3b")->blocks[1];
    assert_int_equal(find_op(normed, "attention.q_norm")->class, OP_CLASS_NONE);
    assert_int_equal(find_op(normed, "attention.k_norm")->class, OP_CLASS_NONE);
    const struct block *dense = &tiny_graph(*state, TINY_LLAMA, &FLASH)->blocks[1];
    assert_int_equal(find_op(dense, "mlp.gate")->class, OP_CLASS_MLP);
    assert_int_equal(find_op(dense, "mlp.gate.biased")->class, OP_CLASS_MLP);
    assert_int_equal(find_op(dense, "mlp.activation")->class, OP_CLASS_ACTIVATION);
    assert_int_equal(find_op(dense, "mlp.down")->class, OP_CLASS_NONE);
}

// The published factors of xai-org/grok-1, run.py.
static void grok_scales_what_its_release_scales(void **state)
{
    struct graph *graph = load(*state, "grok-1");
    const struct block *layer = &graph->blocks[1];
    assert_true(find_op(&graph->blocks[0], "embedding.scale")->scalar == 78.38367176906169);
    assert_true(find_op(layer, "attention.core")->scalar == 0.08838834764831845);
    assert_true(find_op(layer, "attention.core")->softcap == 30);
    assert_true(find_op(&graph->blocks[2], "head.lm")->scalar == 0.5773502691896257);
    assert_int_equal(find_op(layer, "router.choice")->function, FUNCTION_ROUTE_SOFTMAX);
    assert_int_equal(find_op(layer, "router.choice")->top_k, 2);
    assert_int_equal(find_op(layer, "experts.activation")->function, FUNCTION_GELU);
}

static double next_number(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 33) / (double)(1u << 31) - 0.5;
}

// One layer run on numbers of a fixed seed.
static struct interpreter run_layer(struct arena *arena, const struct block *block)
{
    uint64_t seed = 20260917;
    struct interpreter in = interpreter_new(arena, block, 2, 7);
    for (int t = 0; t < block->tensor_count; t++) {
        if (block->tensors[t].producer >= 0) continue;
        double *values = interpreter_array(&in, t);
        for (int64_t i = 0; i < interpreter_elements(&in, t); i++)
            values[i] = 2 * next_number(&seed);
    }
    interpreter_run(&in, 0, block->op_count);
    return in;
}

static void as_many_rows_exist_as_the_density_says(void **state)
{
    const struct block *block = mixtral_layer(*state);
    struct interpreter in = run_layer(*state, block);
    static const char *const ROWS[] = {"experts.dispatch", "experts.up", "experts.activation",
                                       "experts.down"};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        int t = find_tensor(block, ROWS[i]);
        int64_t count = 0;
        for (int64_t e = 0; e < interpreter_elements(&in, t); e++)
            count += in.values[t][e] != 0;
        assert_int_equal(count, tensor_elements(&block->tensors[t], 2, 7));
    }
    int weights = find_tensor(block, "router.weights");
    for (int64_t token = 0; token < 2 * 7; token++) {
        double sum = 0;
        for (int64_t e = 0; e < 4; e++)
            sum += in.values[weights][token * 4 + e];
        assert_true(fabs(sum - 1) < 1e-12);
    }
}

static struct decoder small_mixture(enum function route)
{
    return (struct decoder){
        .vocab = 11,
        .hidden = 8,
        .layer_count = 1,
        .head_count = 2,
        .kv_head_count = 2,
        .head_dim = 4,
        .norm = FUNCTION_RMS_NORM,
        .norm_epsilon = 1e-6,
        .activation = FUNCTION_SILU,
        .experts = {.count = 5, .top_k = 2, .ffn = 3, .route = route, .route_scale = 1.5}};
}

static void weights_of_the_chosen_follow_the_function(void **state)
{
    for (enum function route = FUNCTION_ROUTE_SOFTMAX; route <= FUNCTION_ROUTE_SIGMOID; route++) {
        struct decoder decoder = small_mixture(route);
        const struct block *block = &decoder_graph(*state, &decoder, &FLASH)->blocks[1];
        struct interpreter in = run_layer(*state, block);
        const double *weights = in.values[find_tensor(block, "router.weights")];
        for (int64_t token = 0; token < 2 * 7; token++) {
            double sum = 0;
            int chosen = 0;
            for (int64_t e = 0; e < 5; e++) {
                sum += weights[token * 5 + e];
                chosen += weights[token * 5 + e] > 0;
            }
            assert_int_equal(chosen, 2);
            // The rest of a softmax over all stays with the experts that were not chosen; sigmoids
            // that nothing renormalises add up to anything below their number.
            bool is_whole = route != FUNCTION_ROUTE_SOFTMAX && route != FUNCTION_ROUTE_SIGMOID;
            double most = route == FUNCTION_ROUTE_SIGMOID ? 3 : 1.5;
            assert_true(is_whole ? fabs(sum - 1.5) < 1e-12 : sum > 0.6 && sum < most);
        }
    }
}

// y = sum over the two largest of softmax(x R), renormalised, of D_e (silu(x G_e) * x U_e).
static double expected_output(const struct interpreter *in, int64_t token, int64_t column)
{
    const struct block *block = in->block;
    const double *x = in->values[find_tensor(block, "mlp.norm")] + token * 8;
    const double *logits = in->values[find_tensor(block, "router")] + token * 4;
    const double *up = in->values[find_tensor(block, "experts.up.weight")];
    const double *gate = in->values[find_tensor(block, "experts.gate.weight")];
    const double *down = in->values[find_tensor(block, "experts.down.weight")];
    int64_t first = 0, second = -1;
    for (int64_t e = 1; e < 4; e++)
        if (logits[e] > logits[first]) first = e;
    for (int64_t e = 0; e < 4; e++)
        if (e != first && (second < 0 || logits[e] > logits[second])) second = e;
    double share = 1 / (1 + exp(logits[second] - logits[first])), sum = 0;
    for (int64_t f = 0; f < 6; f++) {
        for (int chosen = 0; chosen < 2; chosen++) {
            int64_t e = chosen ? second : first;
            double g = 0, u = 0;
            for (int64_t h = 0; h < 8; h++) {
                g += x[h] * gate[(e * 8 + h) * 6 + f];
                u += x[h] * up[(e * 8 + h) * 6 + f];
            }
            double weight = chosen ? 1 - share : share;
            sum += weight * g / (1 + exp(-g)) * u * down[(e * 6 + f) * 8 + column];
        }
    }
    return sum;
}

static void a_mixture_computes_its_formula(void **state)
{
    const struct block *block = mixtral_layer(*state);
    struct interpreter in = run_layer(*state, block);
    const double *found = in.values[find_tensor(block, "experts.combine")];
    for (int64_t i = 0; i < 2 * 7 * 8; i++) {
        assert_true(fabs(found[i] - expected_output(&in, i / 8, i % 8)) < 1e-10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routing_is_decided_over_all_experts_and_moving_is_not),
        cmocka_unit_test(a_share_is_rounded_up_and_is_never_nothing),
        cmocka_unit_test(products_inside_experts_are_batched_over_the_rows_that_exist),
        cmocka_unit_test(a_gate_repeated_over_hidden_is_work_on_hidden),
        cmocka_unit_test(rows_are_ragged_in_both_directions_and_parameters_are_not),
        cmocka_unit_test(grok_scales_what_its_release_scales),
        cmocka_unit_test(weights_of_the_chosen_follow_the_function),
        cmocka_unit_test(a_mixture_keeps_the_rows_of_the_chosen),
        cmocka_unit_test(shipped_mixtures_have_their_published_sizes),
        cmocka_unit_test(model_flops_count_the_chosen_experts),
        cmocka_unit_test(layers_without_experts_are_a_kind_of_their_own),
        cmocka_unit_test(classes_of_recompute_find_their_ops),
        cmocka_unit_test(as_many_rows_exist_as_the_density_says),
        cmocka_unit_test(a_mixture_computes_its_formula),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
