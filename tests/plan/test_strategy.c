#include "tests/support/test.h"

#include "plan/layout/strategy.h"
#include "tests/support/tiny_models.h"

#include <stdio.h>

// A llama of 4 heads and 2 kv heads; see tests/support/tiny_models.c.

static struct parallel degrees(int tp, bool sp, int cp, int dp)
{
    struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1}, .vpp = 1, .micro_batch = 1};
    parallel.degree[AXIS_TP] = tp;
    parallel.degree[AXIS_CP] = cp;
    parallel.degree[AXIS_DP] = dp;
    parallel.sp = sp;
    return parallel;
}

static const struct op *find_op(const struct block *block, const char *name)
{
    for (int o = 0; o < block->op_count; o++) {
        if (strcmp(block->ops[o].name, name) == 0) return &block->ops[o];
    }
    fail_msg("no op is called %s", name);
    return NULL;
}

static const struct block *tiny_block(struct arena *arena, int index)
{
    struct import_options options = {.flash = true};
    return &tiny_graph(arena, TINY_LLAMA, &options)->blocks[index];
}

static struct strategy strategy(const struct parallel *parallel, struct mesh *mesh,
                                const struct block *block, const char *name)
{
    *mesh = mesh_make(parallel, 2);
    return strategy_of(mesh, parallel, block, find_op(block, name));
}

static void a_technique_is_a_row_and_sp_picks_one_of_two(void **state)
{
    (void)state;
    struct parallel parallel = degrees(2, false, 1, 1);
    assert_string_equal(technique_of(&parallel, AXIS_TP)->name, "tensor (1D)");
    parallel.sp = true;
    assert_string_equal(technique_of(&parallel, AXIS_TP)->name, "tensor + sequence");
    assert_string_equal(technique_of(&parallel, AXIS_DP)->name, "data");
    assert_null(technique_of(&parallel, AXIS_PP));
}

static void tp_splits_heads_and_ffn_and_with_sp_the_sequence_of_the_rest(void **state)
{
    const struct block *layer = tiny_block(*state, 1);
    struct mesh mesh;
    struct parallel parallel = degrees(2, false, 1, 1);
    assert_int_equal(strategy(&parallel, &mesh, layer, "attention.q").of[0], DIM_HEAD);
    assert_int_equal(strategy(&parallel, &mesh, layer, "attention.k").of[0], DIM_KV_HEAD);
    assert_int_equal(strategy(&parallel, &mesh, layer, "attention.core").of[0], DIM_HEAD);
    assert_int_equal(strategy(&parallel, &mesh, layer, "mlp.down").of[0], DIM_FFN);
    assert_int_equal(strategy(&parallel, &mesh, layer, "mlp.norm").of[0], DIM_NONE);
    parallel.sp = true;
    assert_int_equal(strategy(&parallel, &mesh, layer, "mlp.norm").of[0], DIM_SEQ);
    assert_int_equal(strategy(&parallel, &mesh, layer, "mlp.down").of[0], DIM_FFN);
}

static void a_row_parallel_product_is_partial_and_a_column_parallel_one_is_split(void **state)
{
    const struct block *layer = tiny_block(*state, 1);
    struct mesh mesh;
    struct parallel parallel = degrees(2, true, 1, 1);
    struct strategy down = strategy(&parallel, &mesh, layer, "mlp.down");
    const struct op *op = find_op(layer, "mlp.down");
    assert_int_equal(strategy_input(&mesh, &down, layer, op, 0).of[0], DIM_FFN);
    assert_int_equal(strategy_input(&mesh, &down, layer, op, 1).of[0], DIM_FFN);
    assert_int_equal(strategy_output(&mesh, &down, layer, op, 0).of[0], LAYOUT_SUM);
    struct strategy up = strategy(&parallel, &mesh, layer, "mlp.up");
    op = find_op(layer, "mlp.up");
    assert_int_equal(strategy_input(&mesh, &up, layer, op, 0).of[0], LAYOUT_WHOLE);
    assert_int_equal(strategy_output(&mesh, &up, layer, op, 0).of[0], DIM_FFN);
}

static void kv_heads_are_used_up_before_the_query_heads(void **state)
{
    const struct block *layer = tiny_block(*state, 1);
    struct mesh mesh;
    struct parallel parallel = degrees(4, true, 1, 1);
    struct strategy k = strategy(&parallel, &mesh, layer, "attention.k");
    assert_string_equal(mesh.axes[0].name, "tp.1");
    assert_int_equal(k.of[0], DIM_NONE);
    assert_int_equal(k.of[1], DIM_KV_HEAD);
    assert_int_equal(k.used_up, 1);
    struct strategy core = strategy(&parallel, &mesh, layer, "attention.core");
    const struct op *op = find_op(layer, "attention.core");
    assert_int_equal(core.of[0], DIM_HEAD);
    assert_int_equal(core.of[1], DIM_HEAD);
    struct layout keys = strategy_input(&mesh, &core, layer, op, 1);
    assert_int_equal(keys.of[0], LAYOUT_WHOLE);
    assert_int_equal(keys.of[1], DIM_KV_HEAD);
}

static void context_parallel_attention_reads_all_keys_for_its_own_queries(void **state)
{
    const struct block *layer = tiny_block(*state, 1);
    struct mesh mesh;
    struct parallel parallel = degrees(1, false, 2, 1);
    struct strategy core = strategy(&parallel, &mesh, layer, "attention.core");
    const struct op *op = find_op(layer, "attention.core");
    assert_int_equal(strategy_input(&mesh, &core, layer, op, 0).of[0], DIM_SEQ);
    assert_int_equal(strategy_input(&mesh, &core, layer, op, 1).of[0], LAYOUT_WHOLE);
    assert_int_equal(strategy_input(&mesh, &core, layer, op, 2).of[0], LAYOUT_WHOLE);
    assert_int_equal(strategy_output(&mesh, &core, layer, op, 0).of[0], DIM_SEQ);
}

static void the_kind_of_context_parallelism_picks_its_row(void **state)
{
    static const char *const NAMES[CP_KIND_COUNT] = {"context (ring)", "context (all-gather)",
                                                     "context (Ulysses)",
                                                     "axial (two sequence dims in turn)"};
    const struct block *layer = tiny_block(*state, 1);
    struct parallel parallel = degrees(2, false, 2, 1);
    struct mesh mesh;
    for (int kind = 0; kind < CP_KIND_COUNT; kind++) {
        parallel.cp_kind = (enum cp_kind)kind;
        const struct technique *technique = technique_of(&parallel, AXIS_CP);
        assert_string_equal(technique->name, NAMES[kind]);
        assert_int_equal(technique->streams, kind == CP_RING);
        assert_int_equal(technique->alternates, kind == CP_AXIAL);
        if (kind == CP_AXIAL) continue;  // of a video: tests/plan/test_video.c
        bool moves = kind == CP_ULYSSES;
        struct strategy core = strategy(&parallel, &mesh, layer, "attention.core");
        assert_int_equal(core.of[1], moves ? DIM_HEAD : DIM_SEQ);
        // Outside attention all kinds split the sequence.
        assert_int_equal(strategy(&parallel, &mesh, layer, "attention.q").of[1], DIM_SEQ);
        assert_int_equal(strategy(&parallel, &mesh, layer, "mlp.norm").of[1], DIM_SEQ);
    }
}

static void keys_are_those_of_attention_and_of_its_backward(void **state)
{
    const struct block *layer = tiny_block(*state, 1);
    const struct op *core = find_op(layer, "attention.core");
    assert_false(strategy_is_keys(core, false, 0));
    assert_true(strategy_is_keys(core, false, 1) && strategy_is_keys(core, false, 2));
    assert_false(strategy_is_keys(core, true, 0));
    assert_false(strategy_is_keys(find_op(layer, "attention.q"), false, 1));
    struct op backward = *core;
    backward.kind = OP_ATTENTION_BACKWARD;
    assert_false(strategy_is_keys(&backward, false, 1));
    assert_true(strategy_is_keys(&backward, false, 2) && strategy_is_keys(&backward, false, 3));
    assert_true(strategy_is_keys(&backward, true, 1) && strategy_is_keys(&backward, true, 2));
}

static const char MIXTURE[] =
    "{\"model_type\": \"mixtral\", \"vocab_size\": 11, \"hidden_size\": 8, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, "
    "\"intermediate_size\": 8, \"num_local_experts\": 8, \"num_experts_per_tok\": 2}";

// tp 4 is cut into tp.1 (etp) and tp.0 (ep), dp 4 into dp.0 (ep) and dp.1, the experts' own data
// parallelism.
static void inside_experts_axes_follow_their_roles(void **state)
{
    struct import_options options = {.flash = true};
    const struct block *layer = &tiny_graph(*state, MIXTURE, &options)->blocks[1];
    struct parallel parallel = degrees(4, true, 1, 4);
    parallel.degree[AXIS_EP] = 4;
    parallel.degree[AXIS_ETP] = 2;
    static const struct {
        const char *op;
        enum dim with_sp[4], without[4];
    } WANTED[] = {
        {"mlp.norm", {DIM_SEQ, DIM_SEQ, DIM_BATCH, DIM_BATCH}, {0, 0, DIM_BATCH, DIM_BATCH}},
        {"router", {DIM_SEQ, DIM_SEQ, DIM_BATCH, DIM_BATCH}, {0, 0, DIM_BATCH, DIM_BATCH}},
        {"experts.dispatch",
         {DIM_SEQ, DIM_SEQ, DIM_BATCH, DIM_BATCH},
         {0, DIM_EXPERT, DIM_BATCH, DIM_BATCH}},
        {"experts.up",
         {DIM_FFN, DIM_EXPERT, DIM_EXPERT, DIM_BATCH},
         {DIM_FFN, DIM_EXPERT, DIM_EXPERT, DIM_BATCH}},
        {"experts.down",
         {DIM_FFN, DIM_EXPERT, DIM_EXPERT, DIM_BATCH},
         {DIM_FFN, DIM_EXPERT, DIM_EXPERT, DIM_BATCH}},
        {"experts.combine",
         {DIM_SEQ, DIM_SEQ, DIM_BATCH, DIM_BATCH},
         {0, DIM_EXPERT, DIM_BATCH, DIM_BATCH}},
    };
    for (size_t i = 0; i < 2 * sizeof WANTED / sizeof *WANTED; i++) {
        parallel.sp = i % 2;
        struct mesh mesh = mesh_make(&parallel, 4);
        assert_int_equal(mesh.axis_count, 4);
        struct strategy found =
            strategy_of(&mesh, &parallel, layer, find_op(layer, WANTED[i / 2].op));
        const enum dim *wanted = parallel.sp ? WANTED[i / 2].with_sp : WANTED[i / 2].without;
        for (int a = 0; a < 4; a++)
            assert_int_equal(found.of[a], wanted[a]);
    }
}

// Where tp is the data parallelism of experts it shares the tokens out, sp or not.
static void tp_shares_out_the_tokens_of_whole_experts(void **state)
{
    struct import_options options = {.flash = true};
    const struct block *layer = &tiny_graph(*state, MIXTURE, &options)->blocks[1];
    struct parallel parallel = degrees(2, false, 1, 1);
    struct mesh mesh = mesh_make(&parallel, 4);
    static const char *const NAMES[] = {"experts.dispatch", "experts.up", "experts.combine"};
    for (int i = 0; i < 3; i++) {
        const struct op *op = find_op(layer, NAMES[i]);
        assert_int_equal(strategy_of(&mesh, &parallel, layer, op).of[0], DIM_SEQ);
        assert_int_equal(strategy_in_experts(layer, op), i == 1);
    }
    assert_int_equal(strategy_of(&mesh, &parallel, layer, find_op(layer, "router")).of[0], 0);
}

static void a_vocabulary_split_makes_the_lookup_partial_and_the_loss_whole(void **state)
{
    struct mesh mesh;
    struct parallel parallel = degrees(2, false, 1, 1);
    const struct block *embedding = tiny_block(*state, 0), *head = tiny_block(*state, 2);
    struct strategy lookup = strategy(&parallel, &mesh, embedding, "embedding.token");
    const struct op *op = find_op(embedding, "embedding.token");
    assert_int_equal(lookup.of[0], DIM_VOCAB);
    assert_int_equal(strategy_output(&mesh, &lookup, embedding, op, 0).of[0], LAYOUT_SUM);
    struct strategy loss = strategy(&parallel, &mesh, head, "loss");
    op = find_op(head, "loss");
    assert_int_equal(loss.of[0], DIM_VOCAB);
    assert_int_equal(strategy_output(&mesh, &loss, head, op, 0).of[0], LAYOUT_WHOLE);
}

static void blocks_pass_on_batch_over_dp_and_seq_over_tp_with_sp(void **state)
{
    const struct block *layer = tiny_block(*state, 1);
    struct parallel parallel = degrees(2, true, 1, 2);
    struct mesh mesh = mesh_make(&parallel, 2);
    const struct tensor *input = &layer->tensors[layer->inputs[0]];
    struct layout layout = strategy_boundary(&mesh, &parallel, input);
    assert_int_equal(layout.of[0], DIM_SEQ);
    assert_int_equal(layout.of[1], DIM_BATCH);
    parallel.sp = false;
    layout = strategy_boundary(&mesh, &parallel, input);
    assert_int_equal(layout.of[0], LAYOUT_WHOLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_technique_is_a_row_and_sp_picks_one_of_two),
        cmocka_unit_test(tp_splits_heads_and_ffn_and_with_sp_the_sequence_of_the_rest),
        cmocka_unit_test(a_row_parallel_product_is_partial_and_a_column_parallel_one_is_split),
        cmocka_unit_test(kv_heads_are_used_up_before_the_query_heads),
        cmocka_unit_test(context_parallel_attention_reads_all_keys_for_its_own_queries),
        cmocka_unit_test(the_kind_of_context_parallelism_picks_its_row),
        cmocka_unit_test(keys_are_those_of_attention_and_of_its_backward),
        cmocka_unit_test(inside_experts_axes_follow_their_roles),
        cmocka_unit_test(tp_shares_out_the_tokens_of_whole_experts),
        cmocka_unit_test(a_vocabulary_split_makes_the_lookup_partial_and_the_loss_whole),
        cmocka_unit_test(blocks_pass_on_batch_over_dp_and_seq_over_tp_with_sp),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
