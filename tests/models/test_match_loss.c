#include "tests/support/test.h"

#include "models/import.h"
#include "models/op_linear_loss.h"
#include "tests/support/tiny_models.h"

#define SIZES                                                             \
    "\"vocab_size\": 40, \"hidden_size\": 8, \"intermediate_size\": 12, " \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2"

static struct graph *graph_of(struct arena *arena, const char *text)
{
    return tiny_graph(arena, text, &(struct import_options){.flash = true});
}

static const struct block *head_of(const struct graph *graph)
{
    return &graph->blocks[graph->sequence[graph->sequence_count - 1]];
}

static const struct op *find(const struct block *block, enum op_kind kind)
{
    for (int o = 0; o < block->op_count; o++)
        if (block->ops[o].kind == kind) return &block->ops[o];
    return NULL;
}

static void a_head_reads_no_scores_any_more(void **state)
{
    static const char *const MODELS[] = {"{\"model_type\": \"llama\", " SIZES "}",
                                         "{\"model_type\": \"gpt2\", \"vocab_size\": 40, "
                                         "\"n_embd\": 8, \"n_layer\": 2, \"n_head\": 4, "
                                         "\"n_positions\": 16}"};
    for (int m = 0; m < 2; m++) {
        struct graph *whole = graph_of(*state, MODELS[m]), *graph = graph_of(*state, MODELS[m]);
        assert_true(match_loss_graph(*state, graph, 5));
        const struct block *before = head_of(whole), *after = head_of(graph);
        assert_int_equal(after->op_count, before->op_count - 1);
        assert_int_equal(after->tensor_count, before->tensor_count - 1);
        assert_null(find(after, OP_LOSS));
        const struct op *loss = find(after, OP_LINEAR_LOSS);
        assert_non_null(loss);
        assert_int_equal(loss->chunk, 5);
        assert_int_equal(loss->outputs[0], after->outputs[0]);
        assert_int_equal(after->tensors[loss->inputs[1]].role, TENSOR_PARAMETER);
        assert_int_equal(after->tensors[loss->inputs[2]].role, TENSOR_IDS);
        for (int o = 0; o < after->op_count; o++) {
            assert_int_equal(after->ops[o].forward_op, o);
            for (int i = 0; i < after->ops[o].output_count; i++)
                assert_int_equal(after->tensors[after->ops[o].outputs[i]].producer, o);
        }
        // What a model is made of and does for a token stays.
        assert_int_equal(graph_block_matmul_count(graph, after),
                         graph_block_matmul_count(whole, before));
    }
}

static void other_losses_stay_and_say_so(void **state)
{
    static const char *const MODELS[] = {
        "{\"model_type\": \"gemma2\", " SIZES
        ", \"head_dim\": 2, \"sliding_window\": 4, \"final_logit_softcapping\": 30.0}",
        "{\"model_type\": \"bert\", \"vocab_size\": 40, \"hidden_size\": 8, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"intermediate_size\": 12, "
        "\"max_position_embeddings\": 16}",
    };
    for (int m = 0; m < 2; m++) {
        struct graph *graph = graph_of(*state, MODELS[m]);
        int ops = head_of(graph)->op_count;
        assert_false(match_loss_graph(*state, graph, 2));
        assert_int_equal(head_of(graph)->op_count, ops);
        assert_non_null(find(head_of(graph), OP_LOSS));
    }
}

// Both losses of a head with a prediction module, each with the matrix of the head.
static void a_prediction_module_has_a_loss_of_its_own(void **state)
{
    struct graph *graph = graph_of(*state, TINY_DEEPSEEK_MTP);
    assert_true(match_loss_graph(*state, graph, 2));
    int losses = 0;
    const struct block *head = head_of(graph);
    for (int o = 0; o < head->op_count; o++) {
        losses += head->ops[o].kind == OP_LINEAR_LOSS;
        assert_true(head->ops[o].kind != OP_LOSS);
    }
    assert_int_equal(losses, 2);
}

static void rows_and_columns_may_be_split_and_depth_not(void **state)
{
    struct graph *graph = graph_of(*state, "{\"model_type\": \"llama\", " SIZES "}");
    assert_true(match_loss_graph(*state, graph, 4));
    const struct block *head = head_of(graph);
    const struct op *loss = find(head, OP_LINEAR_LOSS);
    assert_int_equal(op_linear_loss_split(head, loss, DIM_BATCH), SPLIT_FREE);
    assert_int_equal(op_linear_loss_split(head, loss, DIM_SEQ), SPLIT_FREE);
    assert_int_equal(op_linear_loss_split(head, loss, DIM_VOCAB), SPLIT_REDUCED);
    assert_int_equal(op_linear_loss_split(head, loss, DIM_HIDDEN), SPLIT_NO);
    assert_int_equal(op_linear_loss_split(head, loss, DIM_FFN), SPLIT_NO);
    assert_int_equal(op_inner_reductions(loss), 3);
    // 6 rows of 8 numbers by 40 columns: 2 * 6 * 8 * 40 flop, and 5 of each score.
    int64_t size[DIM_COUNT] = {[DIM_BATCH] = 2, [DIM_SEQ] = 3, [DIM_HIDDEN] = 8, [DIM_VOCAB] = 40};
    assert_true(op_rule(OP_LINEAR_LOSS)->flop(head, loss, size) == 3840 + 5 * 240);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_reads_no_scores_any_more),
        cmocka_unit_test(other_losses_stay_and_say_so),
        cmocka_unit_test(a_prediction_module_has_a_loss_of_its_own),
        cmocka_unit_test(rows_and_columns_may_be_split_and_depth_not),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
