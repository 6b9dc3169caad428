#include "tests/support/graph_text.h"
#include "tests/support/test.h"

#include "core/file.h"
#include "core/gzip.h"
#include "core/json.h"
#include "core/zip.h"
#include "models/import.h"
#include "models/pt2.h"

#include <math.h>

// Programs of torch.export (tests/data/pt2/make.py) are the models that they were exported from:
// the same graph as the config gives, and each tensor has the shape that PyTorch wrote down for it,
// which the reader does not look at where its own rules give one.

#define FOLDER "tests/data/pt2/"

static const struct import_options OPTIONS = {.flash = true, .dropout = true};

static const char *text_of(struct arena *arena, const char *path)
{
    struct err err = {0};
    struct model_config *config = model_load(arena, path, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    config->name = "same";
    return graph_text(arena, model_graph(arena, config, &OPTIONS));
}

static const char *text_of_config(struct arena *arena, const char *text)
{
    struct err err = {0};
    struct json_document document;
    assert_true(json_parse(arena, "mine.json", text, strlen(text), &document, &err));
    struct json root = json_root(&document);
    struct model_config *config = model_read(arena, "same", &root, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    return graph_text(arena, model_graph(arena, config, &OPTIONS));
}

static void gpt2_is_the_shipped_one(void **state)
{
    assert_string_equal(text_of(*state, FOLDER "gpt2.pt2"), text_of(*state, "gpt2"));
    assert_string_equal(text_of(*state, FOLDER "gpt2_core.pt2"), text_of(*state, "gpt2"));
}

#define TINY                                                                      \
    "\"num_hidden_layers\": 3, \"hidden_size\": 32, \"num_attention_heads\": 4, " \
    "\"num_key_value_heads\": 2, \"intermediate_size\": 48, \"vocab_size\": 100}"
#define TINY_BERT                                                                  \
    "{\"model_type\": \"bert\", \"num_hidden_layers\": 2, \"hidden_size\": 32, "   \
    "\"num_attention_heads\": 4, \"intermediate_size\": 64, \"vocab_size\": 100, " \
    "\"max_position_embeddings\": 40}"
#define TINY_GPT2                                                                \
    "{\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_embd\": 32, \"n_head\": 4, " \
    "\"vocab_size\": 100, \"n_positions\": 64}"

static void other_stacks_are_their_configs(void **state)
{
    static const struct {
        const char *path, *config;
    } CASES[] = {
        {FOLDER "llama_eager.pt2", "{\"model_type\": \"llama\", " TINY},
        {FOLDER "llama_sdpa.pt2", "{\"model_type\": \"llama\", " TINY},
        {FOLDER "llama_core.pt2", "{\"model_type\": \"llama\", " TINY},
        {FOLDER "qwen2.pt2", "{\"model_type\": \"qwen2\", " TINY},
        {FOLDER "bert_eager.pt2", TINY_BERT},
        {FOLDER "bert_sdpa.pt2", TINY_BERT},
        {FOLDER "bert_core.pt2", TINY_BERT},
        {FOLDER "bert_masked.pt2", TINY_BERT},
        {FOLDER "bert_2_5.pt2", TINY_BERT},
        {FOLDER "gpt2_2_5.pt2", TINY_GPT2},
        {FOLDER "loss.pt2", TINY_GPT2},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        assert_string_equal(text_of(*state, CASES[i].path),
                            text_of_config(*state, CASES[i].config));
}

// The JSON of an archive, found without the reader of programs.
static const char *graph_of(struct arena *arena, const char *path, size_t *bytes)
{
    struct err err = {0};
    size_t file_bytes = 0;
    struct zip member, archive = {.bytes = file_read(arena, path, 1 << 24, &file_bytes, &err)};
    archive.size = (int64_t)file_bytes;
    assert_true(zip_find(&archive, "model.json", &member) ||
                zip_find(&archive, "program.json", &member));
    assert_int_equal(member.method, ZIP_DEFLATED);
    const char *text =
        gzip_unpack_bare(arena, path, member.bytes, (size_t)member.size, 1 << 26, bytes, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(*bytes, member.whole_bytes);
    return text;
}

// An encoder of pictures whose head reads the token of a class; one with another token beside it is
// none, and planned as blocks.
static void vit_is_its_config(void **state)
{
    const char *config =
        "{\"model_type\": \"vit\", \"image_size\": 32, \"patch_size\": 8, \"num_labels\": 10, "
        "\"hidden_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
        "\"intermediate_size\": 64}";
    assert_string_equal(text_of(*state, FOLDER "vit.pt2"), text_of_config(*state, config));
    struct err err = {0};
    struct model_config *deit = model_load(*state, FOLDER "deit.pt2", NULL, NULL, &err);
    assert_string_equal(err.text, "");
    const struct graph *graph = model_graph(*state, deit, &OPTIONS);
    assert_string_equal(graph->model_type, "operators");
    assert_int_equal(graph->parameter_count, 24234 + 2 * 32);
}

static void check_stated(const struct onnx_tensor *tensor, const struct json *stated)
{
    struct err err = {0};
    struct json sizes = json_get(stated, "sizes", &err);
    if (json_count(&sizes, &err) != tensor->rank)
        fail_msg("%s: %d dims", tensor->name, tensor->rank);
    for (int d = 0; d < tensor->rank; d++) {
        struct json size = json_item(&sizes, d), number = json_item(&size, 0);
        if (json_i64(&number, 0, 1e15, &err) != tensor->dims[d])
            fail_msg("%s: dimension %d is %d", tensor->name, d, (int)tensor->dims[d]);
    }
    assert_string_equal(err.text, "");
}

// Floats that differ are not those that are equal: ONNX has an operator for truths alone.
static void unequal_is_not_equal(void **state)
{
    struct err err = {0};
    const struct onnx_options options = {.training = true};
    const struct onnx_graph *graph = onnx_load(*state, FOLDER "made.pt2", &options, &err);
    int equal = 0, not = 0;
    assert_string_equal(err.text, "");
    for (int n = 0; n < graph->node_count; n++) {
        equal += strcmp(graph->nodes[n].type, "Equal") == 0;
        not += strcmp(graph->nodes[n].type, "Not") == 0;
        assert_true(strcmp(graph->nodes[n].type, "Xor") != 0);
    }
    assert_int_equal(equal, 3);
    assert_int_equal(not, 3);
}

static void every_shape_is_the_one_stated(void **state)
{
    static const char *const PATHS[] = {
        FOLDER "llama_sdpa.pt2",  FOLDER "llama_core.pt2", FOLDER "bert_eager.pt2",
        FOLDER "bert_masked.pt2", FOLDER "resnet50.pt2",   FOLDER "resnet50_core.pt2",
        FOLDER "gpt2_2_5.pt2",    FOLDER "bert_core.pt2",  FOLDER "recurrent.pt2",
        FOLDER "bags.pt2",        FOLDER "many.pt2",       FOLDER "t5.pt2",
        FOLDER "made.pt2",        FOLDER "mixtral.pt2"};
    struct err err = {0};
    for (size_t p = 0; p < sizeof PATHS / sizeof *PATHS; p++) {
        const struct onnx_options options = {0};
        struct onnx_graph *graph = onnx_load(*state, PATHS[p], &options, &err);
        assert_string_equal(err.text, "");
        size_t bytes = 0;
        const char *text = graph_of(*state, PATHS[p], &bytes);
        struct json_document document;
        assert_true(json_parse(*state, PATHS[p], text, bytes, &document, &err));
        struct json root = json_root(&document), module = json_get(&root, "graph_module", &err);
        struct json inner = json_get(&module, "graph", &err);
        struct json values = json_get(&inner, "tensor_values", &err);
        int checked = 0;
        for (int t = 0; t < graph->tensor_count; t++) {
            struct json stated = json_find(&values, graph->tensors[t].name);
            if (!json_is_object(&stated)) continue;
            check_stated(&graph->tensors[t], &stated);
            checked++;
        }
        assert_true(checked > 10);
    }
}

// He et al. 2015, table 1, has 3.8 billion multiply-adds with the strides in the first product of a
// bottleneck; with them in the middle one it is 4.09, and as published there are 25,557,032
// parameters. Worked out here from the sizes of the layers alone.
static void resnet_has_its_published_work(void **state)
{
    double multiplies = 64.0 * 112 * 112 * 3 * 49 + 2048.0 * 1000, width = 64, in = 64, side = 56;
    static const int DEPTHS[] = {3, 4, 6, 3};
    for (int stage = 0; stage < 4; stage++, width *= 2) {
        for (int layer = 0; layer < DEPTHS[stage]; layer++) {
            double before = side;
            if (stage > 0 && layer == 0) side /= 2;
            multiplies += before * before * in * width + side * side * width * width * 9 +
                          side * side * width * width * 4;
            if (layer == 0) multiplies += side * side * in * width * 4;
            in = width * 4;
        }
    }
    static const char *const PATHS[] = {FOLDER "resnet50.pt2", FOLDER "resnet50_core.pt2"};
    for (int p = 0; p < 2; p++) {
        struct err err = {0};
        const struct onnx_options options = {.training = true};
        struct onnx_graph *graph = onnx_load(*state, PATHS[p], &options, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(graph->parameter_elements, 25557032);
        double flop = 0;
        for (int n = 0; n < graph->node_count; n++) {
            const char *type = graph->nodes[n].type;
            bool is_product = strcmp(type, "Conv") == 0 || strcmp(type, "Gemm") == 0 ||
                              strcmp(type, "MatMul") == 0;
            if (is_product) flop += graph->nodes[n].flop;
        }
        assert_true(flop == 2 * multiplies);
        assert_true(flop > 2 * 4.08e9 && flop < 2 * 4.10e9);
    }
}

struct bytes {
    char *text;
    size_t count;
};

static void put(struct arena *arena, struct bytes *bytes, const void *more, size_t count)
{
    char *grown = ARENA_NEW(arena, char, bytes->count + count);
    if (bytes->count) memcpy(grown, bytes->text, bytes->count);
    if (count) memcpy(grown + bytes->count, more, count);
    bytes->text = grown;
    bytes->count += count;
}

static void put_numbers(struct arena *arena, struct bytes *bytes, int count,
                        const uint32_t *numbers, const int *widths)
{
    for (int i = 0; i < count; i++)
        put(arena, bytes, &numbers[i], (size_t)widths[i]);  // zips are little-endian, as we are
}

// A zip of one stored member (PKWARE's APPNOTE.TXT, 4.3.7, 4.3.12 and 4.3.16).
static struct bytes archive_of(struct arena *arena, const char *name, const char *text)
{
    uint32_t size = (uint32_t)strlen(text), name_bytes = (uint32_t)strlen(name);
    const uint32_t local[] = {0x04034b50, 20, 0, 0, 0, 0, 0, size, size, name_bytes, 0};
    const int local_widths[] = {4, 2, 2, 2, 2, 2, 4, 4, 4, 2, 2};
    const uint32_t head[] = {0x02014b50, 20,         20, 0, 0, 0, 0, 0, size,
                             size,       name_bytes, 0,  0, 0, 0, 0, 0};
    const int head_widths[] = {4, 2, 2, 2, 2, 2, 2, 4, 4, 4, 2, 2, 2, 2, 2, 4, 4};
    struct bytes all = {0};
    put_numbers(arena, &all, 11, local, local_widths);
    put(arena, &all, name, name_bytes);
    put(arena, &all, text, size);
    uint32_t directory = (uint32_t)all.count;
    put_numbers(arena, &all, 17, head, head_widths);
    put(arena, &all, name, name_bytes);
    uint32_t directory_bytes = (uint32_t)all.count - directory;
    const uint32_t end[] = {0x06054b50, 0, 0, 1, 1, directory_bytes, directory, 0};
    const int end_widths[] = {4, 2, 2, 2, 2, 4, 4, 2};
    put_numbers(arena, &all, 8, end, end_widths);
    return all;
}

// A program x * x of a parameter and an input, with `nodes` in between and sizes as given.
static const char *program_of(struct arena *arena, const char *size, const char *node)
{
    return arena_print(
        arena,
        "{\"graph_module\": {\"graph\": {\"tensor_values\": {"
        "\"w\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 4}]},"
        "\"x\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 2}, %s]},"
        "\"y\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 2}, {\"as_int\": 4}]}},"
        "\"nodes\": [%s]},"
        "\"signature\": {\"input_specs\": [{\"parameter\": {\"arg\": {\"name\": \"w\"}}},"
        "{\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": \"x\"}}}}],"
        "\"output_specs\": [{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": \"y\"}}}}]}}}",
        size, node);
}

#define NODE(target, inputs)                                           \
    "{\"target\": \"torch.ops.aten." target "\", \"inputs\": [" inputs \
    "], \"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}]}"
#define TENSOR(key, name) \
    "{\"name\": \"" key "\", \"arg\": {\"as_tensor\": {\"name\": \"" name "\"}}}"

#define TURN(dims)          \
    NODE("permute.default", \
         TENSOR("self", "x") ",{\"name\": \"dims\", \"arg\": {\"as_ints\": [" dims "]}}")

static const char *message_of(struct arena *arena, const char *name, const char *text)
{
    struct err err = {0};
    const struct onnx_options options = {.training = true};
    struct bytes bytes = archive_of(arena, name, text);
    struct onnx_graph *graph = onnx_read(arena, "x.pt2", bytes.text, bytes.count, &options, &err);
    assert_true((graph != NULL) == (err.kind == ERR_NONE));
    assert_null(strchr(err.text, '\n'));
    return arena_copy(arena, err.text);
}

static void wrong_programs_are_one_line(void **state)
{
    static const char MEMBER[] = "x/models/model.json";
    static const char MUL[] = NODE("mul.Tensor", TENSOR("self", "x") "," TENSOR("other", "w"));
    const struct {
        const char *name, *size, *node, *message;
    } CASES[] = {
        {MEMBER, "{\"as_int\": 4}", MUL, ""},
        {MEMBER, "{\"as_expr\": {\"expr_str\": \"s0\", \"hint\": {\"as_int\": 4}}}", MUL, ""},
        {"serialized_exported_program.json", "{\"as_int\": 4}", MUL, ""},
        {"x/data/weights.json", "{\"as_int\": 4}", MUL,
         "x.pt2: a zip, but no program of torch.export"},
        {MEMBER, "{\"as_expr\": {\"expr_str\": \"s0\", \"hint\": null}}", MUL,
         "a dimension without value or example"},
        {MEMBER, "{\"as_int\": 3}", MUL, "which does not broadcast with"},
        {MEMBER, "{\"as_int\": 4}", NODE("fft.default", TENSOR("self", "x")),
         "x.pt2: node y (torch.ops.aten.fft.default): an operator that we do not know"},
        {MEMBER, "{\"as_int\": 4}", NODE("mul.Tensor", TENSOR("self", "z")),
         "nothing is said of this tensor"},
        {MEMBER, "{\"as_int\": 4}",
         NODE("mm.default", TENSOR("self", "x") ",{\"name\": \"mat2\", \"arg\": {\"as_int\": 1}}"),
         "argument mat2 is no tensor"},
        {MEMBER, "{\"as_int\": 4}", "3", "an object with members is wanted"},
        {MEMBER, "{\"as_int\": 4}", TURN("0, 9"), "dims name one twice, or none of its tensor"},
        {MEMBER, "{\"as_int\": 4}", TURN("1, 1"), "dims name one twice, or none of its tensor"},
        {MEMBER, "{\"as_int\": 4}", TURN("-3, 0"), "dims name one twice, or none of its tensor"},
        {MEMBER, "{\"as_int\": 4}", TURN("0"), "dims are not all of them"},
        {MEMBER, "{\"as_int\": 4}",
         NODE("einsum.default",
              TENSOR("path", "x") ", {\"name\": \"equation\", \"arg\": {\"as_string\": \"a->a\"}}, "
                                  "{\"name\": \"tensors\", \"arg\": {\"as_tensors\": []}}"),
         "an equation over one or two tensors is wanted"},
        {MEMBER, "{\"as_int\": 4}", NODE("glu.default", TENSOR("self", "w")),
         "its result has other dimensions"},
        {MEMBER, "{\"as_int\": 4}", NODE("topk.default", TENSOR("self", "w")),
         "its result has other dimensions"},
        {MEMBER, "{\"as_int\": 1000000000000000}", MUL, "a tensor of more than 2^50 bytes"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *text = program_of(*state, CASES[i].size, CASES[i].node);
        const char *message = message_of(*state, CASES[i].name, text);
        if (!*CASES[i].message) assert_string_equal(message, "");
        if (!strstr(message, CASES[i].message)) assert_string_equal(message, CASES[i].message);
    }
}

// The operators that a node over x and v of `sizes` and a parameter w becomes, each with the number
// of its kernel; "-": none runs it.
static const char *operators_of(struct arena *arena, const char *sizes, const char *node)
{
    struct err err = {0};
    const struct onnx_options options = {0};
    const char *text = arena_print(
        arena,
        "{\"graph_module\": {\"graph\": {\"tensor_values\": {%s},\"nodes\": [%s]},"
        "\"signature\": {\"input_specs\": [{\"parameter\": {\"arg\": {\"name\": \"w\"}}},"
        "{\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": \"x\"}}}},"
        "{\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": \"v\"}}}}],"
        "\"output_specs\": [{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": "
        "\"y\"}}}}]}}}",
        sizes, node);
    struct bytes bytes = archive_of(arena, "x/models/model.json", text);
    struct onnx_graph *graph = onnx_read(arena, "x.pt2", bytes.text, bytes.count, &options, &err);
    assert_string_equal(err.text, "");
    const char *found = "";
    for (int n = 0; n < graph->node_count; n++) {
        double number = graph->nodes[n].scalar;
        found = arena_print(arena, "%s%s%s ", *found ? found : "", graph->nodes[n].type,
                            isfinite(number) ? arena_print(arena, " %.3g", number) : " -");
    }
    return found;
}

#define SIZES(name, a, b, c)                                                        \
    "\"" name "\": {\"dtype\": 7, \"sizes\": [{\"as_int\": " a "}, {\"as_int\": " b \
    "}, {\"as_int\": " c "}]}"
#define NUMBER(key, number) "{\"name\": \"" key "\", \"arg\": {\"as_float\": " number "}}"
#define BATCHES \
    SIZES("w", "1", "4", "4") "," SIZES("x", "1", "2", "4") "," SIZES("v", "1", "2", "4")
#define CUBES BATCHES "," SIZES("y", "1", "2", "4")

// torch.baddbmm adds beta of the first to alpha times the product; torch.var divides by one less
// than there are numbers, 4 over 3 of the mean of squares here.
static void numbers_beside_tensors_are_computed_or_not_run(void **state)
{
    static const char SUM[] =
        TENSOR("self", "v") "," TENSOR("batch1", "x") "," TENSOR("batch2", "w");
    static const char X[] = TENSOR("self", "x");
    const struct {
        const char *target, *inputs, *more, *operators;
    } CASES[] = {
        {"baddbmm.default", SUM, "", "MatMul 0 Add - "},
        {"baddbmm.default", SUM, "," NUMBER("alpha", "0.5"), "MatMul 0 Mul 0.5 Add - "},
        {"baddbmm.default", SUM, "," NUMBER("beta", "0"), "MatMul 0 "},
        {"baddbmm.default", SUM, "," NUMBER("beta", "0") "," NUMBER("alpha", "0.25"),
         "MatMul 0 Mul 0.25 "},
        {"baddbmm.default", SUM, "," NUMBER("beta", "2"), "MatMul 0 Mul 2 Add - "},
        {"relu.default", X, "", "Relu 0 "},
        {"relu.default", X, "," NUMBER("memory_format", "1"), "Relu 0 "},
        {"relu.default", X, "," NUMBER("slope", "1"), "Relu - "},
        {"relu.default", X, ",{\"name\": \"slope\", \"arg\": {\"as_none\": true}}", "Relu 0 "},
        {"div.Tensor_mode", X, "," NUMBER("other", "4"), "Div 0.25 "},
        {"div.Tensor_mode", X,
         "," NUMBER("other", "4") ",{\"name\": \"rounding_mode\", \"arg\": {\"as_string\": "
                                  "\"trunc\"}}",
         "Div - "},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *node =
            arena_print(*state,
                        "{\"target\": \"torch.ops.aten.%s\", \"inputs\": [%s%s], \"outputs\": "
                        "[{\"as_tensor\": {\"name\": \"y\"}}]}",
                        CASES[i].target, CASES[i].inputs, CASES[i].more);
        assert_string_equal(operators_of(*state, CUBES, node), CASES[i].operators);
    }
    const char *sizes = BATCHES "," SIZES("y", "1", "2", "1");
    const char *dims = ",{\"name\": \"dim\", \"arg\": {\"as_ints\": [-1]}},{\"name\": "
                       "\"keepdim\", \"arg\": {\"as_bool\": true}}";
    const char *node = arena_print(*state, NODE("var.correction", "%s%s%s"), X, dims, "");
    assert_string_equal(operators_of(*state, sizes, node),
                        "ReduceMean 0 Sub - Mul 0 ReduceMean 0 Mul 1.33 ");
    node = arena_print(*state, NODE("var.correction", "%s%s%s"), X, dims,
                       "," NUMBER("correction", "0"));
    assert_null(strstr(operators_of(*state, sizes, node), "1.33"));
}

// Whatever one byte becomes, reading ends with a graph or one line.
static void damaged_programs_end_in_a_line(void **state)
{
    static const char MUL[] = NODE("mul.Tensor", TENSOR("self", "x") "," TENSOR("other", "w"));
    static const char OTHERS[] = "0-\"}],[{:\xff";
    struct arena *arena = *state;
    struct bytes whole =
        archive_of(arena, "x/models/model.json", program_of(arena, "{\"as_int\": 4}", MUL));
    for (size_t at = 4; at < whole.count; at++) {
        for (size_t other = 0; OTHERS[other]; other++) {
            struct arena_mark mark = arena_mark(arena);
            struct err err = {0};
            const struct onnx_options options = {.training = true};
            char kept = whole.text[at];
            whole.text[at] = OTHERS[other];
            struct onnx_graph *graph =
                onnx_read(arena, "x.pt2", whole.text, whole.count, &options, &err);
            whole.text[at] = kept;
            assert_true((graph != NULL) == (err.kind == ERR_NONE));
            assert_null(strchr(err.text, '\n'));
            arena_reset(arena, mark);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_is_the_shipped_one),
        cmocka_unit_test(other_stacks_are_their_configs),
        cmocka_unit_test(vit_is_its_config),
        cmocka_unit_test(unequal_is_not_equal),
        cmocka_unit_test(every_shape_is_the_one_stated),
        cmocka_unit_test(resnet_has_its_published_work),
        cmocka_unit_test(wrong_programs_are_one_line),
        cmocka_unit_test(numbers_beside_tensors_are_computed_or_not_run),
        cmocka_unit_test(damaged_programs_end_in_a_line),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
