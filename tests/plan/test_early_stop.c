#include "tests/support/test.h"

#include "tests/support/lowered.h"
#include "tests/support/machine.h"
#include "tests/support/tiny_models.h"

// Checkpoints that end with the last result that backward reads: the block computes the same, and
// the last product of a layer, with its reduction, is not made twice.

static const char LLAMA[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 11, \"hidden_size\": 8, \"intermediate_size\": 8, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 4, \"attention_bias\": true, \"mlp_bias\": true}";
static const char NEOX[] =
    "{\"model_type\": \"gpt_neox\", \"vocab_size\": 11, \"hidden_size\": 16, \"rotary_pct\": 0.5, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"intermediate_size\": 8}";

static void check(struct arena *arena, const char *text, int tp, int ep, int zero)
{
    struct import_options options = {.flash = true, .vocab_multiple = 4};
    struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                .vpp = 1,
                                .micro_batch = 2,
                                .sp = tp > 1,
                                .zero = zero,
                                .passes = 1u << PASS_EARLY_STOP | 1u << PASS_FUSION};
    parallel.degree[AXIS_TP] = tp;
    parallel.degree[AXIS_EP] = ep;
    parallel.degree[AXIS_DP] = 2;
    struct graph *graph = tiny_graph(arena, text, &options);
    struct mesh mesh = mesh_make(&parallel, graph->kv_head_count);
    for (int b = 0; b < graph->block_count; b++)
        machine_check(arena, &graph->blocks[b], &mesh, &parallel, RECOMPUTE_FULL);
}

static void the_block_computes_the_same(void **state)
{
    check(*state, LLAMA, 2, 1, 0);
    check(*state, LLAMA, 1, 1, 3);
    check(*state, NEOX, 2, 1, 0);
    check(*state, TINY_DEEPSEEK_MTP, 2, 2, 0);
}

static struct lowered layer(struct arena *arena, unsigned passes, enum recompute recompute)
{
    struct setup setup = {
        .model = "llama-2-7b", .tp = 2, .sp = true, .recompute = recompute, .passes = passes};
    return lowered_make(arena, setup, 1);
}

struct recomputed {
    int products, attentions, gathers, scatters;
    double flop;
};

static struct recomputed recomputed_of(const struct lowered *l)
{
    struct recomputed recomputed = {0};
    for (int i = 0; i < l->program->instr_count; i++) {
        const struct instr *instr = &l->program->instrs[i];
        if (!instr->recompute) continue;
        bool works = instr->collective == COLLECTIVE_NONE;
        recomputed.products += works && instr->kind == OP_CONTRACT;
        recomputed.attentions += works && instr->kind == OP_ATTENTION;
        recomputed.gathers += instr->collective == COLLECTIVE_ALL_GATHER;
        recomputed.scatters += instr->collective == COLLECTIVE_REDUCE_SCATTER;
        if (works && instr->kind == OP_CONTRACT) recomputed.flop += instr->flop;
    }
    return recomputed;
}

static void the_last_product_and_its_reduction_are_not_recomputed(void **state)
{
    struct lowered whole = layer(*state, 0, RECOMPUTE_FULL);
    struct lowered stopped = layer(*state, 1u << PASS_EARLY_STOP, RECOMPUTE_FULL);
    struct recomputed all = recomputed_of(&whole), some = recomputed_of(&stopped);
    assert_int_equal(all.products, 7);
    assert_int_equal(some.products, 6);
    assert_int_equal(some.attentions, 1);
    assert_int_equal(some.gathers, all.gathers);
    assert_int_equal(all.scatters, 2);
    assert_int_equal(some.scatters, 1);
    double down_flop = 2.0 * LOWERED_SEQ * 4096 * 11008 / 2;
    assert_true(all.flop - some.flop == down_flop);
    assert_int_equal(stopped.program->saved_bytes, whole.program->saved_bytes);
    assert_true(stopped.program->backward_transient_bytes <=
                whole.program->backward_transient_bytes);
}

static void without_recompute_there_is_nothing_to_stop(void **state)
{
    struct lowered plain = layer(*state, 0, RECOMPUTE_NONE);
    struct lowered stopped = layer(*state, 1u << PASS_EARLY_STOP, RECOMPUTE_NONE);
    assert_int_equal(plain.program->instr_count, stopped.program->instr_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_block_computes_the_same),
        cmocka_unit_test(the_last_product_and_its_reduction_are_not_recomputed),
        cmocka_unit_test(without_recompute_there_is_nothing_to_stop),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
