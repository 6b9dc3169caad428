#include "tests/support/test.h"

#include "tests/support/lowered.h"
#include "tests/support/machine.h"
#include "tests/support/tiny_models.h"

// Selective recompute by class of operators: whatever is dropped, the block computes the same; what
// a class drops is no longer kept, and what making it again costs is counted.

enum { CLASS_MASKS = 1 << OP_CLASS_COUNT };

static const char DEEPSEEK[] =
    "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 11, \"hidden_size\": 8, "
    "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": null, \"q_lora_rank\": 5, \"kv_lora_rank\": 6, "
    "\"qk_nope_head_dim\": 3, \"qk_rope_head_dim\": 4, \"v_head_dim\": 5, \"n_group\": null, "
    "\"n_routed_experts\": 8, \"n_shared_experts\": 1, \"num_experts_per_tok\": 3, "
    "\"moe_intermediate_size\": 4, "
    "\"first_k_dense_replace\": 0}";
static const char BERT[] =
    "{\"model_type\": \"bert\", \"vocab_size\": 11, \"hidden_size\": 8, \"num_hidden_layers\": 1, "
    "\"num_attention_heads\": 4, \"intermediate_size\": 8, \"max_position_embeddings\": 9}";
static const char NEOX[] =
    "{\"model_type\": \"gpt_neox\", \"vocab_size\": 11, \"hidden_size\": 16, \"rotary_pct\": 0.5, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"intermediate_size\": 8}";

static void check_masks(struct arena *arena, const char *text, int tp, int cp, int ep,
                        bool is_flash)
{
    struct import_options options = {.flash = is_flash, .vocab_multiple = 4};
    struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                .vpp = 1,
                                .micro_batch = 2,
                                .sp = tp > 1,
                                .cp_kind = CP_ULYSSES};
    parallel.degree[AXIS_TP] = tp;
    parallel.degree[AXIS_CP] = cp;
    parallel.degree[AXIS_EP] = ep;
    for (unsigned classes = 2; classes < CLASS_MASKS; classes += 2) {
        struct arena_mark mark = arena_mark(arena);
        struct graph *graph = tiny_graph(arena, text, &options);
        struct mesh mesh = mesh_make(&parallel, graph->kv_head_count);
        parallel.recompute_classes = classes;
        for (int b = 0; b < graph->block_count; b++) {
            machine_check(arena, &graph->blocks[b], &mesh, &parallel, RECOMPUTE_SELECTIVE);
        }
        arena_reset(arena, mark);
    }
}

static void whatever_is_dropped_the_block_computes_the_same(void **state)
{
    check_masks(*state, DEEPSEEK, 2, 1, 2, true);
    check_masks(*state, DEEPSEEK, 1, 2, 1, false);
    check_masks(*state, BERT, 2, 1, 1, true);
    check_masks(*state, NEOX, 1, 1, 1, false);
    check_masks(*state, TINY_DEEPSEEK_MTP, 2, 1, 1, true);
}

static struct lowered lower_with(struct arena *arena, unsigned classes)
{
    struct setup setup = {.model = "deepseek-v2-lite",
                          .recompute = classes ? RECOMPUTE_SELECTIVE : RECOMPUTE_NONE,
                          .recompute_classes = classes};
    return lowered_make(arena, setup, 2);
}

static double recomputed_flop(const struct lowered *l)
{
    double flop = 0;
    for (int i = 0; i < l->program->instr_count; i++) {
        const struct instr *instr = &l->program->instrs[i];
        if (instr->recompute) flop += instr->flop;
        if (instr->recompute) assert_int_equal(instr->phase, PHASE_BACKWARD);
    }
    return flop;
}

// Each class alone drops something; together they keep no more, and the work of all is recomputed.
static void every_class_keeps_less_and_recomputes_its_own_work(void **state)
{
    struct lowered kept = lower_with(*state, 0);
    assert_true(recomputed_flop(&kept) == 0);
    double sum_flop = 0;
    int64_t dropped_bytes = 0;
    for (int class = OP_CLASS_NONE + 1; class < OP_CLASS_COUNT; class ++) {
        struct lowered l = lower_with(*state, 1u << class);
        assert_true(l.program->saved_bytes < kept.program->saved_bytes);
        assert_true(recomputed_flop(&l) > 0);
        sum_flop += recomputed_flop(&l);
        dropped_bytes += kept.program->saved_bytes - l.program->saved_bytes;
    }
    struct lowered all = lower_with(*state, CLASS_MASKS - 2);
    assert_true(recomputed_flop(&all) == sum_flop);
    assert_true(kept.program->saved_bytes - all.program->saved_bytes >= dropped_bytes);
}

// The normed input of the mlp is read by the products of the shared experts, the router and the
// dispatch; without a class for it it is kept.
static void a_dropped_norm_is_kept_nowhere(void **state)
{
    struct lowered kept = lower_with(*state, 0), l = lower_with(*state, 1u << OP_CLASS_NORM);
    assert_int_equal(lowered_saved_bytes(&kept, "mlp.norm"), lowered_hidden_bytes(&kept));
    assert_int_equal(lowered_saved_bytes(&l, "mlp.norm"), 0);
    assert_int_equal(lowered_saved_bytes(&l, "attention.norm"), 0);
    assert_int_equal(lowered_saved_bytes(&l, "layer.input"), lowered_hidden_bytes(&l));
}

// What DeepSeek-V3 recomputes (section 3.2.3) is made again piece by piece: of what is no longer
// kept only a small part is ever back at once.
static void results_come_back_when_they_are_needed(void **state)
{
    unsigned classes = 1u << OP_CLASS_NORM | 1u << OP_CLASS_ACTIVATION | 1u << OP_CLASS_UP;
    struct setup setup = {.model = "deepseek-v3", .dp = 64, .ep = 64};
    struct lowered kept = lowered_make(*state, setup, 10);
    setup.recompute = RECOMPUTE_SELECTIVE;
    setup.recompute_classes = classes;
    struct lowered l = lowered_make(*state, setup, 10);
    int64_t dropped_bytes = kept.program->saved_bytes - l.program->saved_bytes;
    int64_t more_bytes =
        l.program->backward_transient_bytes - kept.program->backward_transient_bytes;
    assert_true(dropped_bytes * 3 > kept.program->saved_bytes);
    assert_true(more_bytes * 4 < dropped_bytes);
}

// The attention core is recomputed as one function, whose result is kept for the projection behind
// it.
static void the_attention_core_keeps_its_result(void **state)
{
    struct setup setup = {.model = "llama-2-7b", .unfused = true, .recompute = RECOMPUTE_SELECTIVE};
    struct lowered l = lowered_make(*state, setup, 1);
    assert_int_equal(lowered_saved_bytes(&l, "attention.context"), lowered_hidden_bytes(&l));
    assert_int_equal(lowered_saved_bytes(&l, "attention.softmax"), 0);
    // Both products of 32 heads of 128, whose flops the chain does not halve.
    double products = 2 * 2.0 * LOWERED_SEQ * LOWERED_SEQ * 4096;
    double softmax = 5.0 * 32 * LOWERED_SEQ * LOWERED_SEQ;
    assert_true(recomputed_flop(&l) == products + softmax);
}

// Operators one by one: of q, k, v, out, gate, up and down the second, fourth and sixth are made
// again, and all that is no product. Kept are the input of the layer, q, v, the result of attention
// with its sums, and the gate; nobody reads down.
static void every_second_product_is_made_again(void **state)
{
    struct setup setup = {.model = "llama-2-7b", .recompute = RECOMPUTE_PER_OP};
    struct lowered l = lowered_make(*state, setup, 1);
    const int64_t hidden = 4096, ffn = 11008, tokens = LOWERED_SEQ, heads = 32;
    assert_int_equal(l.program->saved_bytes, tokens * (2 * (4 * hidden + ffn) + 4 * heads));
    double flop = 0;
    for (int i = 0; i < l.program->instr_count; i++) {
        const struct instr *instr = &l.program->instrs[i];
        if (instr->recompute && instr->kind == OP_CONTRACT) flop += instr->flop;
        if (instr->recompute) assert_int_not_equal(instr->kind, OP_ATTENTION);
    }
    assert_true(flop == 2.0 * (double)tokens * (double)(hidden * (2 * hidden + ffn)));
    struct lowered head = lowered_make(*state, setup, -1);
    assert_true(recomputed_flop(&head) == 0);
}

// With sequence parallelism the inputs of attention and MLP are gathered in each phase. What is
// gathered in a block that is recomputed whole is not kept for its weight gradients.
static void gathers_of_what_is_recomputed_come_on_top(void **state)
{
    for (int recompute = RECOMPUTE_NONE; recompute <= RECOMPUTE_FULL; recompute++) {
        struct setup setup = {
            .model = "llama-2-7b", .tp = 4, .sp = true, .recompute = (enum recompute)recompute};
        struct lowered l = lowered_make(*state, setup, 1);
        int counts[PHASE_COUNT] = {0}, again[PHASE_COUNT] = {0};
        for (int i = 0; i < l.program->instr_count; i++) {
            const struct instr *instr = &l.program->instrs[i];
            if (instr->collective != COLLECTIVE_ALL_GATHER || instr->parameter) continue;
            counts[instr->phase] += !instr->recompute;
            again[instr->phase] += instr->recompute;
        }
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            bool is_whole = recompute == RECOMPUTE_FULL && phase == PHASE_BACKWARD;
            assert_int_equal(counts[phase], 2);
            assert_int_equal(again[phase], is_whole ? 2 : 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_dropped_the_block_computes_the_same),
        cmocka_unit_test(every_class_keeps_less_and_recomputes_its_own_work),
        cmocka_unit_test(a_dropped_norm_is_kept_nowhere),
        cmocka_unit_test(results_come_back_when_they_are_needed),
        cmocka_unit_test(the_attention_core_keeps_its_result),
        cmocka_unit_test(every_second_product_is_made_again),
        cmocka_unit_test(gathers_of_what_is_recomputed_come_on_top),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
