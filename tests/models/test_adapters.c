#include "core/file.h"
#include "models/adapters.h"
#include "models/autodiff.h"
#include "models/import.h"
#include "tests/support/test.h"
#include "tests/support/tiny_models.h"

#include <string.h>

// Low-rank adapters beside frozen weights, counted by hand.

static const char LLAMA[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 11, \"hidden_size\": 8, \"intermediate_size\": "
    "12, "
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 4}";

static struct adapters words(const char *text)
{
    struct adapters adapters;
    if (!adapters_parse(text, &adapters)) fail_msg("%s is not read", text);
    return adapters;
}

static void words_are_read_and_written(void **state)
{
    static const char *const SAME[] = {"none", "16", "1:q", "4096:q,v,down", "8:q,k,v,o"};
    for (size_t i = 0; i < sizeof SAME / sizeof *SAME; i++) {
        struct adapters adapters = words(SAME[i]);
        assert_string_equal(adapters_words(*state, adapters), SAME[i]);
        struct adapters again = adapters_of_value(adapters_value(adapters));
        assert_int_equal(again.rank, adapters.rank);
        assert_int_equal(again.targets, adapters.targets);
    }
    assert_int_equal(adapters_value(words("none")), 0);
    assert_string_equal(adapters_words(*state, words("2:mlp,attention")), "2");
    assert_string_equal(adapters_words(*state, words("2:down_proj,q_proj,q")), "2:q,down");
    assert_string_equal(adapters_words(*state, words("2:mlp")), "2:gate,up,down");
    static const char *const WRONG[] = {
        "",     "0",  "-1",        "4097",   "8:", "8:q,", "8:z",    "q",
        "8 :q", "8q", "8:q_projs", "none:q", "08", "8:,q", "8:_proj"};
    struct adapters adapters;
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
        if (adapters_parse(WRONG[i], &adapters)) fail_msg("\"%s\" is read", WRONG[i]);
}

static const struct tensor *tensor_named(const struct block *block, const char *name)
{
    for (int t = 0; t < block->tensor_count; t++)
        if (strcmp(block->tensors[t].name, name) == 0) return &block->tensors[t];
    fail_msg("no %s", name);
    return NULL;
}

static struct graph *adapted(struct arena *arena, const char *text, const char *said)
{
    struct graph *graph = tiny_graph(arena, text, &(struct import_options){.flash = true});
    adapters_add(arena, graph, words(said));
    return graph;
}

// Of hidden 8, 4 heads of 4, 2 of keys, mlp of 12, with rank 2: q 2 (8 + 16), k and v 2 (8 + 8), o
// 2 (16 + 8), gate, up and down 2 (8 + 12): 48 + 32 + 32 + 48 + 3 x 40 = 280 a layer.
static void parameters_are_those_of_both_factors(void **state)
{
    static const struct {
        const char *said;
        int64_t each;
    } CASES[] = {{"2", 280}, {"2:q", 48}, {"2:v,o", 80}, {"3:mlp", 180}, {"1:down", 20}};
    int64_t base = tiny_graph(*state, LLAMA, &(struct import_options){0})->parameter_count;
    // Embedding and head, three layers of 128 + 64 + 64 + 128 + 3 x 96 and two norms, a last norm.
    assert_int_equal(base, 2 * 88 + 3 * (672 + 16) + 8);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct graph *graph = adapted(*state, LLAMA, CASES[i].said);
        assert_int_equal(graph->frozen_parameter_count, base);
        assert_int_equal(graph->parameter_count, base + 3 * CASES[i].each);
    }
    struct graph *graph = adapted(*state, LLAMA, "none");
    assert_int_equal(graph->frozen_parameter_count, 0);
    assert_int_equal(graph->parameter_count, base);
}

static void factors_have_the_dims_of_their_projection(void **state)
{
    const struct block *layer = &adapted(*state, LLAMA, "2")->blocks[1];
    const struct tensor *a = tensor_named(layer, "attention.out.adapter_a.weight");
    const struct tensor *b = tensor_named(layer, "attention.q.adapter_b.weight");
    const enum dim in[] = {DIM_HEAD, DIM_HEAD_DIM, DIM_ADAPTER};
    const enum dim out[] = {DIM_ADAPTER, DIM_HEAD, DIM_HEAD_DIM};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(a->extents[i].dim, in[i]);
        assert_int_equal(b->extents[i].dim, out[i]);
    }
    assert_int_equal(a->extents[2].size, 2);
    assert_false(a->frozen || b->frozen);
    assert_true(tensor_named(layer, "attention.q.weight")->frozen);
    assert_true(tensor_named(layer, "attention.norm.weight")->frozen);
    assert_false(tensor_named(layer, "attention.q")->frozen);
}

// Each routed expert has its own, all of the dims of experts in front.
static void experts_have_adapters_each(void **state)
{
    struct graph *plain = tiny_graph(*state, TINY_MIXTRAL, &(struct import_options){0});
    struct graph *graph = adapted(*state, TINY_MIXTRAL, "2:up");
    const struct block *layer = &graph->blocks[1];
    const struct tensor *a = tensor_named(layer, "experts.up.adapter_a.weight");
    const struct tensor *low = tensor_named(layer, "experts.up.adapter_a");
    assert_int_equal(a->extents[0].dim, DIM_EXPERT);
    assert_true(low->density > 0);
    assert_true(low->density == tensor_named(layer, "experts.up")->density);
    int64_t each = 2 * (plain->hidden + plain->expert_ffn) * plain->expert_count;
    assert_int_equal(graph->parameter_count - plain->parameter_count, each * plain->layer_count);
}

// Six flops of a trained parameter, four of a frozen one: of the layers 4 x 672 + 6 x 280, of the
// head 4 x 88; attention as before.
static void model_flops_leave_out_frozen_gradients(void **state)
{
    struct graph *plain = tiny_graph(*state, LLAMA, &(struct import_options){.flash = true});
    double all = graph_model_flop(plain, 5), attention = all - 5 * 6.0 * (3 * 672 + 88);
    double with = graph_model_flop(adapted(*state, LLAMA, "2"), 5);
    assert_true(with - attention == 5 * (3 * (4.0 * 672 + 6 * 280) + 4.0 * 88));
}

static void imported_operators_have_no_projections(void **state)
{
    (void)state;
    struct op op = {.name = "mlp.up", .kind = OP_PRODUCT, .input_count = 2, .output_count = 1};
    struct block block = {.ops = &op, .op_count = 1};
    struct graph graph = {.blocks = &block, .block_count = 1};
    assert_false(adapters_reach(&graph, words("4")));
    assert_true(adapters_reach(adapted(*state, LLAMA, "none"), words("4:k")));
    assert_false(adapters_reach(tiny_graph(*state, TINY_GPT2, &(struct import_options){0}),
                                words("4:gate")));
}

// Every shipped model, beside one of its projections and beside all: what is not refused is
// differentiated as it stands.
static void shipped_models_have_adapters_or_are_refused(void **state)
{
    int count = 0, refused = 0;
    const char **names = file_list_data(*state, "models/zoo", &count);
    assert_true(count > 50);
    for (int i = 0; i < count; i++) {
        struct arena arena = {0};
        struct err err = {0};
        struct import_options options = {.flash = true};
        struct model_config *config = model_load(&arena, names[i], NULL, NULL, &err);
        assert_string_equal(err.text, "");
        for (int all = 0; all < 2; all++) {
            struct graph *graph = model_graph(&arena, config, &options);
            int64_t before = graph->parameter_count;
            refused += adapters_misfit(graph) != NULL;
            if (adapters_misfit(graph) || !adapters_reach(graph, words(all ? "8" : "8:q")))
                continue;
            adapters_add(&arena, graph, words(all ? "8" : "8:q"));
            assert_true(graph->parameter_count > before);
            for (int b = 0; b < graph->block_count; b++) {
                struct block_gradients gradients;
                assert_non_null(autodiff_block(&arena, &graph->blocks[b], &gradients));
            }
        }
        arena_free(&arena);
    }
    assert_true(refused > 0 && refused < count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_read_and_written),
        cmocka_unit_test(parameters_are_those_of_both_factors),
        cmocka_unit_test(factors_have_the_dims_of_their_projection),
        cmocka_unit_test(experts_have_adapters_each),
        cmocka_unit_test(model_flops_leave_out_frozen_gradients),
        cmocka_unit_test(imported_operators_have_no_projections),
        cmocka_unit_test(shipped_models_have_adapters_or_are_refused),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
