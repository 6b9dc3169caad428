#include "tests/support/test.h"

#include "tests/support/lowered.h"

// The known answers of the design, counted on real models: which collectives a block needs, of how
// many bytes, and what it keeps.

enum { SEQ = LOWERED_SEQ };

static void one_rank_needs_no_collective(void **state)
{
    struct lowered l = lowered_make(*state, (struct setup){.model = "llama-2-7b"}, 1);
    assert_int_equal(lowered_count_all(&l), 0);
}

static void tp_alone_needs_two_all_reduces_forward_and_two_backward(void **state)
{
    static const char *const DENSE[] = {"llama-2-7b", "gpt2-large"};
    for (int i = 0; i < 2; i++) {
        struct setup setup = {.model = DENSE[i], .tp = 4, .dp = 2, .micro_batch = 3};
        struct lowered l = lowered_make(*state, setup, 1);
        int64_t bytes = lowered_hidden_bytes(&l);
        assert_int_equal(lowered_count(&l, PHASE_FORWARD, COLLECTIVE_ALL_REDUCE, bytes), 2);
        assert_int_equal(lowered_count(&l, PHASE_BACKWARD, COLLECTIVE_ALL_REDUCE, bytes), 2);
        assert_int_equal(lowered_count_all(&l), 4);
    }
}

static void sp_needs_two_gathers_and_two_scatters_each_way_and_two_gathers_for_weights(void **state)
{
    static const char *const DENSE[] = {"llama-2-7b", "gpt2-large"};
    for (int i = 0; i < 2; i++) {
        struct lowered l =
            lowered_make(*state, (struct setup){.model = DENSE[i], .tp = 4, .sp = true}, 1);
        int64_t bytes = lowered_hidden_bytes(&l);
        assert_int_equal(lowered_count(&l, PHASE_FORWARD, COLLECTIVE_ALL_GATHER, bytes), 2);
        assert_int_equal(lowered_count(&l, PHASE_FORWARD, COLLECTIVE_REDUCE_SCATTER, bytes), 2);
        assert_int_equal(lowered_count(&l, PHASE_BACKWARD, COLLECTIVE_ALL_GATHER, bytes), 2);
        assert_int_equal(lowered_count(&l, PHASE_BACKWARD, COLLECTIVE_REDUCE_SCATTER, bytes), 2);
        assert_int_equal(lowered_count(&l, PHASE_WEIGHT, COLLECTIVE_ALL_GATHER, bytes), 2);
        assert_int_equal(lowered_count_all(&l), 10);
    }
}

// The profile of KempnerForge's run of 13 B has 12.1 gathers and 8.0 scatters a layer and
// micro-batch, recomputed whole. What q, k, v, gate and up gathered each for itself is kept for the
// gradients of their weights.
static void gemms_that_gather_each_for_itself_scatter_each_for_itself(void **state)
{
    struct setup setup = {.model = "llama-2-7b", .tp = 4, .sp = true, .joins = 1u << JOIN_APART};
    setup.recompute = RECOMPUTE_FULL;
    struct lowered l = lowered_make(*state, setup, 1);
    int64_t bytes = lowered_hidden_bytes(&l);
    assert_int_equal(lowered_count(&l, PHASE_FORWARD, COLLECTIVE_ALL_GATHER, bytes), 5);
    assert_int_equal(lowered_count(&l, PHASE_FORWARD, COLLECTIVE_REDUCE_SCATTER, bytes), 2);
    assert_int_equal(lowered_count(&l, PHASE_BACKWARD, COLLECTIVE_ALL_GATHER, bytes), 2);
    assert_int_equal(lowered_count(&l, PHASE_BACKWARD, COLLECTIVE_REDUCE_SCATTER, bytes), 5);
    assert_int_equal(lowered_count(&l, PHASE_WEIGHT, COLLECTIVE_ALL_GATHER, 0), 0);
    assert_int_equal(lowered_count_all(&l), 14 + 5 + 2);  // early stop takes the last scatter out
    setup.sp = false;
    l = lowered_make(*state, setup, 1);
    assert_int_equal(lowered_count(&l, PHASE_FORWARD, COLLECTIVE_ALL_REDUCE, 0), 2);
    assert_int_equal(lowered_count(&l, PHASE_BACKWARD, COLLECTIVE_ALL_REDUCE, 0), 5);
}

static void a_parallel_block_halves_the_all_reduces(void **state)
{
    struct lowered l = lowered_make(*state, (struct setup){.model = "falcon-40b", .tp = 8}, 1);
    assert_int_equal(
        lowered_count(&l, PHASE_FORWARD, COLLECTIVE_ALL_REDUCE, lowered_hidden_bytes(&l)), 1);
    // One norm for both branches halves backward too; gpt-neox has two.
    l = lowered_make(*state, (struct setup){.model = "falcon-7b", .tp = 71}, 1);
    assert_int_equal(
        lowered_count(&l, PHASE_FORWARD, COLLECTIVE_ALL_REDUCE, lowered_hidden_bytes(&l)), 1);
    assert_int_equal(
        lowered_count(&l, PHASE_BACKWARD, COLLECTIVE_ALL_REDUCE, lowered_hidden_bytes(&l)), 1);
    l = lowered_make(*state, (struct setup){.model = "gpt-neox-20b", .tp = 8}, 1);
    assert_int_equal(
        lowered_count(&l, PHASE_FORWARD, COLLECTIVE_ALL_REDUCE, lowered_hidden_bytes(&l)), 1);
    assert_int_equal(
        lowered_count(&l, PHASE_BACKWARD, COLLECTIVE_ALL_REDUCE, lowered_hidden_bytes(&l)), 2);
}

static void dp_alone_leaves_parameter_gradients_partial_and_sends_nothing(void **state)
{
    struct lowered l = lowered_make(*state, (struct setup){.model = "llama-2-7b", .dp = 8}, 1);
    assert_int_equal(lowered_count_all(&l), 0);
    for (int i = 0; i < l.program->parameter_count; i++) {
        assert_int_equal(l.program->parameters[i].gradient_partial_axes,
                         mesh_axes_of(&l.mesh, AXIS_DP));
    }
}

static void the_size_of_dp_does_not_change_the_program(void **state)
{
    struct setup setup = {.model = "llama-3-8b", .tp = 4, .dp = 2, .zero = 3, .sp = true};
    struct lowered two = lowered_make(*state, setup, 1);
    setup.dp = 64;
    struct lowered many = lowered_make(*state, setup, 1);
    assert_int_equal(two.program->instr_count, many.program->instr_count);
    assert_memory_equal(two.program->instrs, many.program->instrs,
                        (size_t)two.program->instr_count * sizeof *two.program->instrs);
    assert_int_equal(two.program->saved_bytes, many.program->saved_bytes);
}

static void norm_and_shared_kv_gradients_are_partial_over_the_right_axes(void **state)
{
    struct setup setup = {.model = "llama-3-8b", .tp = 16, .sp = true};
    struct lowered l = lowered_make(*state, setup, 1);
    unsigned tp = mesh_axes_of(&l.mesh, AXIS_TP);
    assert_string_equal(l.mesh.axes[0].name, "tp.1");
    assert_int_equal(lowered_parameter(&l, "attention.norm.weight")->gradient_partial_axes, tp);
    assert_int_equal(lowered_parameter(&l, "attention.q.weight")->gradient_partial_axes, 0);
    assert_int_equal(lowered_parameter(&l, "attention.k.weight")->gradient_partial_axes, 1);
    assert_int_equal(lowered_parameter(&l, "attention.v.weight")->gradient_partial_axes, 1);
    // No gradient of k or v is communicated inside the block.
    assert_int_equal(lowered_count_all(&l), 10);

    setup.sp = false;
    l = lowered_make(*state, setup, 1);
    assert_int_equal(lowered_parameter(&l, "attention.norm.weight")->gradient_partial_axes, 0);
    assert_int_equal(lowered_parameter(&l, "attention.k.weight")->gradient_partial_axes, 1);
}

static int count_parameter(const struct lowered *l, enum phase phase, enum collective collective)
{
    int found = 0;
    int64_t bytes = 2 * l->program->parameter_elements;
    for (int i = 0; i < l->program->instr_count; i++) {
        const struct instr *instr = &l->program->instrs[i];
        if (!instr->parameter || instr->phase != phase) continue;
        assert_int_equal(instr->collective, collective);
        assert_int_equal(instr->bytes, bytes);
        assert_int_equal(instr->parent, AXIS_DP);
        found++;
    }
    return found;
}

static void zero_3_gathers_parameters_twice_and_scatters_gradients_each_micro_batch(void **state)
{
    for (int recompute = 0; recompute < RECOMPUTE_COUNT; recompute++) {
        struct setup setup = {.model = "llama-3-8b",
                              .tp = 2,
                              .dp = 4,
                              .zero = 3,
                              .recompute = (enum recompute)recompute};
        struct lowered l = lowered_make(*state, setup, 1);
        assert_int_equal(count_parameter(&l, PHASE_FORWARD, COLLECTIVE_ALL_GATHER), 1);
        assert_int_equal(count_parameter(&l, PHASE_BACKWARD, COLLECTIVE_ALL_GATHER), 1);
        assert_int_equal(count_parameter(&l, PHASE_WEIGHT, COLLECTIVE_REDUCE_SCATTER), 1);
        assert_int_equal(lowered_parameter(&l, "mlp.up.weight")->gradient_partial_axes, 0);
    }
}

static void zero_2_scatters_gradients_each_micro_batch_and_zero_1_does_not(void **state)
{
    struct setup setup = {.model = "llama-3-8b", .dp = 4, .zero = 2};
    struct lowered l = lowered_make(*state, setup, 1);
    assert_int_equal(count_parameter(&l, PHASE_WEIGHT, COLLECTIVE_REDUCE_SCATTER), 1);
    assert_int_equal(lowered_count_all(&l), 1);
    setup.zero = 1;
    l = lowered_make(*state, setup, 1);
    assert_int_equal(lowered_count_all(&l), 0);
    assert_int_equal(lowered_parameter(&l, "mlp.up.weight")->gradient_partial_axes,
                     mesh_axes_of(&l.mesh, AXIS_DP));
}

static void the_vocabulary_parallel_loss_is_three_small_all_reduces(void **state)
{
    struct lowered l = lowered_make(*state, (struct setup){.model = "llama-3-8b", .tp = 4}, -1);
    int inner = 0;
    for (int i = 0; i < l.program->instr_count; i++) {
        const struct instr *instr = &l.program->instrs[i];
        if (!instr->inner) continue;
        assert_int_equal(instr->collective, COLLECTIVE_ALL_REDUCE);
        assert_int_equal(instr->bytes, 4 * SEQ);
        assert_int_equal(instr->inner, ++inner);
        assert_int_equal(instr->combine, inner == 1 ? LAYOUT_MAX : LAYOUT_SUM);
    }
    assert_int_equal(inner, 3);
    // The gradient of the hidden states is the one large one.
    assert_int_equal(lowered_count(&l, ANY_PHASE, COLLECTIVE_ALL_REDUCE, lowered_hidden_bytes(&l)),
                     1);
}

static void a_split_table_gives_partial_rows(void **state)
{
    struct setup setup = {.model = "llama-3-8b", .tp = 4};
    struct lowered l = lowered_make(*state, setup, 0);
    assert_int_equal(
        lowered_count(&l, PHASE_FORWARD, COLLECTIVE_ALL_REDUCE, lowered_hidden_bytes(&l)), 1);
    assert_int_equal(lowered_count_all(&l), 1);
    setup.sp = true;
    l = lowered_make(*state, setup, 0);
    assert_int_equal(
        lowered_count(&l, PHASE_FORWARD, COLLECTIVE_REDUCE_SCATTER, lowered_hidden_bytes(&l)), 1);
    assert_int_equal(
        lowered_count(&l, PHASE_WEIGHT, COLLECTIVE_ALL_GATHER, lowered_hidden_bytes(&l)), 1);
    assert_int_equal(l.program->output_bytes, lowered_hidden_bytes(&l) / 4);
}

// Section 5 of the cost model study: bytes of one layer and micro-batch of T tokens.
static int64_t formula_bytes(const struct lowered *l, int64_t tp, int64_t sp)
{
    const struct graph *g = l->graph;
    int64_t tokens = SEQ * l->parallel.micro_batch, d = g->head_dim;
    int64_t heads = g->head_count, kv = g->kv_head_count;
    return 8 * g->hidden * tokens / sp + 2 * tokens * (heads + 2 * kv) * d / tp +
           2 * tokens * heads * d / tp + 4 * tokens * heads / tp + 2 * tokens * g->ffn * 3 / tp;
}

static void a_llama_layer_keeps_the_bytes_of_the_formula(void **state)
{
    struct setup setup = {.model = "llama-2-70b", .tp = 8, .micro_batch = 2};
    struct lowered l = lowered_make(*state, setup, 1);
    assert_int_equal(l.program->saved_bytes, formula_bytes(&l, 8, 1));
    setup.sp = true;
    l = lowered_make(*state, setup, 1);
    assert_int_equal(l.program->saved_bytes, formula_bytes(&l, 8, 8));
    setup.tp = 1;
    l = lowered_make(*state, setup, 1);
    assert_int_equal(l.program->saved_bytes, formula_bytes(&l, 1, 1));
}

// Unfused: probabilities, the mask and the dropped probabilities, 2 + 1 + 2 bytes a score. Without
// dropout only the probabilities, 2 bytes: softmax backward and the product with v read the same.
// The row statistics of the fused kernel (4 T a / tp) are not there.
static void the_unfused_chain_keeps_five_bytes_a_score_with_dropout_and_two_without(void **state)
{
    struct setup setup = {.model = "llama-2-7b", .tp = 4, .unfused = true};
    struct lowered l = lowered_make(*state, setup, 1);
    int64_t scores = (int64_t)SEQ * SEQ * l.graph->head_count / 4;
    int64_t rest = formula_bytes(&l, 4, 1) - 4 * SEQ * l.graph->head_count / 4;
    assert_int_equal(l.program->saved_bytes, rest + 2 * scores);

    setup = (struct setup){.model = "gpt2", .tp = 4, .unfused = true};
    struct lowered plain = lowered_make(*state, setup, 1);
    setup.dropout = true;
    struct lowered dropped = lowered_make(*state, setup, 1);
    scores = (int64_t)SEQ * SEQ * plain.graph->head_count / 4;
    // Two byte masks of the residual branches beside the scores.
    int64_t masks = 2 * SEQ * plain.graph->hidden;
    assert_int_equal(dropped.program->saved_bytes - plain.program->saved_bytes, 3 * scores + masks);
}

static int64_t recomputed_flop(const struct lowered *l)
{
    double flop = 0;
    for (int i = 0; i < l->program->instr_count; i++) {
        if (l->program->instrs[i].recompute) flop += l->program->instrs[i].flop;
    }
    return (int64_t)flop;
}

static int64_t phase_flop(const struct lowered *l, enum phase phase)
{
    double flop = 0;
    for (int i = l->program->phase_first[phase]; i < l->program->phase_first[phase + 1]; i++) {
        if (!l->program->instrs[i].recompute) flop += l->program->instrs[i].flop;
    }
    return (int64_t)flop;
}

static void full_recompute_keeps_the_input_and_repeats_forward(void **state)
{
    struct setup setup = {.model = "llama-2-7b", .tp = 4, .sp = true, .recompute = RECOMPUTE_FULL};
    struct lowered l = lowered_make(*state, setup, 1);
    assert_int_equal(l.program->saved_bytes, lowered_hidden_bytes(&l) / 4);
    assert_int_equal(recomputed_flop(&l), phase_flop(&l, PHASE_FORWARD));
    // Collectives are repeated with it.
    assert_int_equal(lowered_count_all(&l), 14);
    for (int i = 0; i < l.program->phase_first[PHASE_BACKWARD]; i++) {
        assert_true(l.program->instrs[l.program->phase_first[PHASE_BACKWARD] + i].recompute);
    }
}

static void selective_recompute_drops_the_row_statistics_and_keeps_q_k_v(void **state)
{
    struct setup setup = {.model = "llama-2-7b", .tp = 4};
    struct lowered kept = lowered_make(*state, setup, 1);
    setup.recompute = RECOMPUTE_SELECTIVE;
    struct lowered l = lowered_make(*state, setup, 1);
    int64_t statistics = 4 * SEQ * l.graph->head_count / 4;
    assert_int_equal(kept.program->saved_bytes - l.program->saved_bytes, statistics);
    assert_int_equal(lowered_count_all(&l), 4);

    setup.unfused = true;
    struct lowered chain = lowered_make(*state, setup, 1);
    assert_int_equal(chain.program->saved_bytes, l.program->saved_bytes);
}

static void a_chain_of_blocks_counts_every_boundary_once(void **state)
{
    struct setup setup = {.model = "llama-2-7b", .tp = 2};
    struct lowered embedding = lowered_make(*state, setup, 0);
    // The embedding's output is the first layer's input and counts there.
    assert_int_equal(embedding.program->saved_bytes, 0);
    assert_int_equal(embedding.program->output_bytes, lowered_hidden_bytes(&embedding));
    struct lowered layer = lowered_make(*state, setup, 1);
    int output = layer.program->outputs[0], input = layer.program->inputs[0];
    assert_false(layer.program->buffers[output].saved);
    assert_true(layer.program->buffers[input].saved);
    assert_true(layout_equal(&layer.program->output_layout, &layer.program->buffers[input].layout));
}

static void backward_has_twice_the_products_of_forward(void **state)
{
    struct lowered l = lowered_make(*state, (struct setup){.model = "llama-2-7b", .tp = 4}, 1);
    double flop[PHASE_COUNT] = {0};
    for (int i = 0; i < l.program->instr_count; i++) {
        const struct instr *instr = &l.program->instrs[i];
        if (instr->collective || instr->kind != OP_CONTRACT) continue;
        const struct gemm *gemm = &instr->gemm;
        assert_true(instr->flop ==
                    2.0 * (double)(gemm->batch * gemm->m * gemm->n) * (double)gemm->k);
        flop[instr->phase] += instr->flop;
    }
    assert_true(flop[PHASE_FORWARD] == flop[PHASE_BACKWARD]);
    assert_true(flop[PHASE_FORWARD] == flop[PHASE_WEIGHT]);
    double weights = 4.0 * 4096 * 4096 + 3.0 * 4096 * 11008;
    assert_true(flop[PHASE_FORWARD] == 2 * weights * SEQ / 4);
}

// No working memory is less than the largest instruction needs nor more than all buffers together.
static void transients_lie_between_their_bounds(void **state)
{
    static const char *const NAMES[] = {"llama-3-8b", "gpt2", "gemma-2-9b", "bert-base"};
    for (int i = 0; i < 4 * RECOMPUTE_COUNT; i++) {
        struct setup setup = {.model = NAMES[i / RECOMPUTE_COUNT],
                              .dp = 2,
                              .sp = true,
                              .tp = 2,
                              .recompute = (enum recompute)(i % RECOMPUTE_COUNT)};
        struct lowered l = lowered_make(*state, setup, 1);
        int64_t all_bytes = 0;
        for (int b = 0; b < l.program->buffer_count; b++) {
            const struct buffer *buffer = &l.program->buffers[b];
            assert_true(buffer->birth <= buffer->death);
            if (!buffer->external) all_bytes += buffer->bytes;
        }
        assert_true(l.program->forward_transient_bytes >= l.program->output_bytes);
        assert_true(l.program->backward_transient_bytes > 0);
        assert_true(l.program->saved_bytes + l.program->backward_transient_bytes <= all_bytes);
        assert_true(l.program->held_bytes > 0 && l.program->held_bytes <= all_bytes);
        // When B ends, all that W reads is alive.
        int64_t parted_bytes = l.program->parted_transient_bytes;
        assert_true(l.program->saved_bytes + parted_bytes <= all_bytes);
        assert_true(parted_bytes >= l.program->held_bytes - l.program->saved_bytes);
    }
}

static void weight_decay_spares_norms_and_biases(void **state)
{
    struct lowered l = lowered_make(*state, (struct setup){.model = "gpt2"}, 1);
    assert_true(lowered_parameter(&l, "attention.q.weight")->decayed);
    assert_false(lowered_parameter(&l, "attention.q.bias")->decayed);
    assert_false(lowered_parameter(&l, "mlp.norm.weight")->decayed);
    l = lowered_make(*state, (struct setup){.model = "gpt2"}, 0);
    assert_true(lowered_parameter(&l, "embedding.token.weight")->decayed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_needs_no_collective),
        cmocka_unit_test(tp_alone_needs_two_all_reduces_forward_and_two_backward),
        cmocka_unit_test(
            sp_needs_two_gathers_and_two_scatters_each_way_and_two_gathers_for_weights),
        cmocka_unit_test(gemms_that_gather_each_for_itself_scatter_each_for_itself),
        cmocka_unit_test(a_parallel_block_halves_the_all_reduces),
        cmocka_unit_test(dp_alone_leaves_parameter_gradients_partial_and_sends_nothing),
        cmocka_unit_test(the_size_of_dp_does_not_change_the_program),
        cmocka_unit_test(norm_and_shared_kv_gradients_are_partial_over_the_right_axes),
        cmocka_unit_test(zero_3_gathers_parameters_twice_and_scatters_gradients_each_micro_batch),
        cmocka_unit_test(zero_2_scatters_gradients_each_micro_batch_and_zero_1_does_not),
        cmocka_unit_test(the_vocabulary_parallel_loss_is_three_small_all_reduces),
        cmocka_unit_test(a_split_table_gives_partial_rows),
        cmocka_unit_test(a_llama_layer_keeps_the_bytes_of_the_formula),
        cmocka_unit_test(the_unfused_chain_keeps_five_bytes_a_score_with_dropout_and_two_without),
        cmocka_unit_test(full_recompute_keeps_the_input_and_repeats_forward),
        cmocka_unit_test(selective_recompute_drops_the_row_statistics_and_keeps_q_k_v),
        cmocka_unit_test(a_chain_of_blocks_counts_every_boundary_once),
        cmocka_unit_test(backward_has_twice_the_products_of_forward),
        cmocka_unit_test(transients_lie_between_their_bounds),
        cmocka_unit_test(weight_decay_spares_norms_and_biases),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
