#include "models/import.h"
#include "plan/stages.h"
#include "tests/support/test.h"

// Stages of software that deals out blocks by the FLOP of their products. The layers of the 1B
// model of nanotron's published sweep have 4 * 2048^2 + 3 * 2048 * 8192 = 16 * 2^22 of them each,
// its head 2048 * 131072 = 4 layers; of the 8B model the head is 2.2 layers.

static const struct graph *model(struct arena *arena, bool is_large)
{
    const char *text =
        arena_print(arena,
                    "{\"model_type\": \"llama\", \"hidden_size\": %d, \"num_hidden_layers\": %d, "
                    "\"num_attention_heads\": 32, \"num_key_value_heads\": 32, \"vocab_size\": "
                    "131072, \"intermediate_size\": %d, \"max_position_embeddings\": 4096, "
                    "\"hidden_act\": \"silu\", \"tie_word_embeddings\": false}",
                    is_large ? 4096 : 2048, is_large ? 32 : 16, is_large ? 14336 : 8192);
    struct err err = {0};
    struct json_document document;
    assert_true(json_parse(arena, "config", text, strlen(text), &document, &err));
    struct json root = json_root(&document);
    const struct model_config *config = model_read(arena, "model", &root, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    const struct import_options options = {.flash = true};
    return model_graph(arena, config, &options);
}

static void check(const struct graph *graph, int stage_count, const int *wanted)
{
    int layers[STAGE_MAX], sum = 0;
    struct err err = {0};
    assert_true(stages_by_flop(graph, stage_count, layers, &err));
    for (int stage = 0; stage < stage_count; stage++) {
        assert_int_equal(layers[stage], wanted[stage]);
        sum += layers[stage];
    }
    assert_int_equal(sum, graph->layer_count);
    struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1}, .vpp = 1, .micro_batch = 1};
    parallel.degree[AXIS_PP] = stage_count;
    parallel.schedule = SCHEDULE_1F1B;
    parallel.stage_layers = layers;
    parallel.stage_layers_count = stage_count;
    assert_true(stages_split(graph, &parallel, NULL, &err));
}

// Of 20 layers' worth the first of two stages may have 10: it takes an eleventh before it has more.
static void a_stage_takes_blocks_until_it_has_more_than_its_share(void **state)
{
    const struct graph *small = model(*state, false), *large = model(*state, true);
    check(small, 2, (int[]){11, 5});
    check(small, 4, (int[]){6, 5, 5, 0});
    check(large, 2, (int[]){18, 14});
    check(large, 4, (int[]){9, 9, 8, 6});
    check(large, 8, (int[]){5, 4, 4, 5, 4, 4, 4, 2});
}

// nanotron gives the seventh stage the head alone and the eighth the loss; here they are one.
static void a_stage_between_gets_a_layer_of_the_one_before(void **state)
{
    check(model(*state, false), 8, (int[]){3, 3, 2, 3, 2, 2, 1, 0});
}

static void a_stage_without_a_block_is_refused(void **state)
{
    int layers[STAGE_MAX];
    struct err err = {0};
    assert_false(stages_by_flop(model(*state, false), 16, layers, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, "--pp 16: split by FLOP, the 16 layers and the head leave 1 of "
                                  "the stages without a block");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_takes_blocks_until_it_has_more_than_its_share),
        cmocka_unit_test(a_stage_between_gets_a_layer_of_the_one_before),
        cmocka_unit_test(a_stage_without_a_block_is_refused),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
