#include "models/recommender.h"
#include "tests/support/test.h"

#include <stdio.h>

static struct recommender *load(void **state, const char *name)
{
    struct err err = {0};
    struct recommender *model = recommender_load(*state, name, &err);
    assert_string_equal(err.text, "");
    return model;
}

// mlcommons/training, recommendation_v2: rows and ids a feature, towers of 16,044,545 parameters.
static void the_benchmarks_model_has_its_published_size(void **state)
{
    const struct recommender *model = load(state, "dlrm-dcnv2-mlperf");
    assert_int_equal(model->table_count, 26);
    assert_int_equal(recommender_row_count(model), 204184588);
    assert_int_equal(recommender_table_parameters(model), 26135627264);
    assert_int_equal(recommender_dense_parameters(model), 16044545);
    assert_int_equal(recommender_id_count(model), 214);
    assert_int_equal(recommender_joined_width(model), 3456);
    struct dense_layer layers[DENSE_LAYERS_MAX] = {{0}};
    int count = recommender_layers(model, layers);
    int64_t weights = 0;
    for (int i = 0; i < count; i++)
        weights += layers[i].inputs * layers[i].outputs;
    assert_int_equal(weights, 170496 + 10616832 + 5243136);
}

// Its predecessor, facebookresearch/dlrm: 27 vectors have 351 products, 479 with the bottom's own.
static void dot_interaction_has_a_product_of_every_pair(void **state)
{
    const struct recommender *model = load(state, "dlrm-mlperf-v1");
    assert_int_equal(recommender_top_inputs(model), 479);
    assert_int_equal(recommender_dense_parameters(model), 171392 + 2197505);
    assert_int_equal(recommender_id_count(model), 26);
}

static void a_list_entry_stands_for_many_tables(void **state)
{
    const struct recommender *model = load(state, "dlrm-10tb");
    assert_int_equal(model->table_count, 200);
    assert_string_equal(model->tables[8].name, "item.0");
    assert_true(recommender_table_parameters(model) * 4 > INT64_C(10000000000000));
}

static const char WIDE[] =
    "{\"model_type\": \"wide_deep\", \"dense_features\": 3, \"embedding_dim\": 4,"
    " \"tables\": [{\"rows\": 10, \"ids\": 1}, {\"name\": \"b\", \"rows\": 7, \"ids\": 2}],"
    " \"bottom_mlp\": [], \"interaction\": {\"kind\": \"cat\"}, \"top_mlp\": [5, 1],"
    " \"wide\": true, \"zipf_exponent\": 1, \"zipf_source\": \"drawn so\"}";

static struct recommender *read(struct arena *arena, const char *text, struct err *err)
{
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!json_parse(arena, "m.json", text, strlen(text), document, err)) return NULL;
    struct json root = json_root(document);
    return recommender_read(arena, "m", &root, err);
}

// Rows of 4 + 1; the deep part reads 3 + 2 x 4 numbers: 12 x 5 + 6 x 1.
static void the_wide_part_is_a_weight_a_row(void **state)
{
    struct err err = {0};
    const struct recommender *model = read(*state, WIDE, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(recommender_row_width(model), 5);
    assert_int_equal(recommender_table_parameters(model), 85);
    assert_int_equal(recommender_dense_parameters(model), 66);
    assert_string_equal(model->tables[0].name, "t0");
}

static const char *changed(struct arena *arena, const char *from, const char *to)
{
    const char *at = strstr(WIDE, from);
    assert_non_null(at);
    return arena_print(arena, "%.*s%s%s", (int)(at - WIDE), WIDE, to, at + strlen(from));
}

static void what_is_wrong_is_said_at_its_place(void **state)
{
    static const struct {
        const char *from, *to, *says;
    } CASES[] = {
        {"wide_deep", "deep_wide", "$.model_type: unknown \"deep_wide\"; known: dlrm, wide_deep"},
        {"[5, 1]", "[5]", "$.top_mlp: expected widths that end with 1, the click's logit"},
        {"{\"kind\": \"cat\"}", "{\"kind\": \"sum\"}",
         "$.interaction.kind: unknown \"sum\"; known: dot, dcn, cat"},
        {"{\"kind\": \"cat\"}", "{\"kind\": \"dcn\", \"layers\": 2}",
         "$.interaction: dcn needs \"layers\" and \"rank\""},
        {"{\"kind\": \"cat\"}", "{\"kind\": \"cat\", \"rank\": 2}",
         "$.interaction: only dcn has layers and rank"},
        {"{\"kind\": \"cat\"}", "{\"kind\": \"dot\"}",
         "$.bottom_mlp: it gives 3 numbers, and dot needs as many as a row has: 4"},
        {"\"rows\": 10", "\"rows\": 0",
         "$.tables[0].rows: must be between 1 and 1000000000000, found 0"},
        {"\"wide\"", "\"wid\"", "$.wid: unknown key"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct err err = {0};
        assert_null(read(*state, changed(*state, CASES[i].from, CASES[i].to), &err));
        assert_int_equal(err.kind, ERR_INPUT);
        if (!strstr(err.text, CASES[i].says)) {
            print_message("# found: %s\n# wanted: %s\n", err.text, CASES[i].says);
            fail();
        }
    }
}

static void only_files_of_the_kind_are_taken_for_it(void **state)
{
    (void)state;
    struct err err = {0};
    assert_true(recommender_is("dlrm-dcnv2-mlperf", &err));
    assert_true(recommender_is("models/recommenders/dlrm-10tb.json", &err));
    assert_false(recommender_is("llama-2-7b", &err));
    assert_false(recommender_is("models/zoo/gpt2.json", &err));
    assert_false(recommender_is("no/such/file.json", &err));
    assert_int_equal(err.kind, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_benchmarks_model_has_its_published_size),
        cmocka_unit_test(dot_interaction_has_a_product_of_every_pair),
        cmocka_unit_test(a_list_entry_stands_for_many_tables),
        cmocka_unit_test(the_wide_part_is_a_weight_a_row),
        cmocka_unit_test(what_is_wrong_is_said_at_its_place),
        cmocka_unit_test(only_files_of_the_kind_are_taken_for_it),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
