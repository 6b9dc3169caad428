#include "tests/support/test.h"

#include "memory/formats.h"
#include "tests/support/memory_graphs.h"

#include <stdio.h>

static void packing_columns_may_stand_in_any_order(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct packing_file file;
    assert_true(packing_load(arena, "tests/data/packing_columns.csv", &file, &err));
    assert_int_equal(file.problem.count, 3);
    assert_string_equal(file.ids[1], "b2");
    const struct pack_buffer *buffers = file.problem.buffers;
    assert_int_equal(buffers[0].lower, 0);
    assert_int_equal(buffers[0].upper, 3);
    assert_int_equal(buffers[0].size, 4);
    assert_int_equal(buffers[0].alignment, 2);
    assert_int_equal(buffers[0].fixed_offset, -1);
    assert_int_equal(buffers[1].fixed_offset, 8);
    assert_int_equal(buffers[2].fixed_offset, -1);
    const char *text = packing_text(arena, &file, (const int64_t[]){0, 8, 16});
    assert_string_equal(text, "size, upper ,lower,buffer,alignment,offset\n4,3,0,b1,2,0\n"
                              "4,9,3,b2,4,8\n4,9,0,b3,1,16\n");
}

static void packing_text_is_the_file_with_offsets(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct packing_file file, again;
    assert_true(packing_load(arena, "tests/data/packing_good.csv", &file, &err));
    const int64_t offsets[] = {0, 0, 4};
    const char *text = packing_text(arena, &file, offsets);
    assert_string_equal(text, "id,lower,upper,size,offset\nb1,0,3,4,0\nb2,3,9,4,0\nb3,0,9,4,4\n");
    assert_true(packing_parse(arena, "again.csv", text, strlen(text), &again, &err));
    assert_int_equal(again.offset_column, 4);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(again.problem.buffers[i].fixed_offset, offsets[i]);
    }
    assert_string_equal(packing_text(arena, &again, offsets), text);
}

static const struct {
    const char *file, *text;
} BAD_PACKINGS[] = {
    {"empty", ":1:1: expected a header with the columns id, lower, upper, size"},
    {"missing_column",
     ":1:1: missing column \"size\", expected a header with the columns id, lower, upper, size"},
    {"unknown_column", ":1:21: unknown column \"colour\", expected id, lower, upper, size, "
                       "alignment, offset"},
    {"column_twice", ":1:21: a second column \"lower\""},
    {"reversed", ":3:1: the lifetime is reversed: lower 9, upper 3"},
    {"id_twice", ":4:1: id: \"b1\" is there twice"},
    {"not_a_number", ":3:6: upper: expected a whole number, found \"nine\""},
    {"negative", ":2:8: size: expected a number from 1 to 9007199254740992, found -4"},
    {"overflow",
     ":2:8: size: expected a number from 1 to 9007199254740992, found 99999999999999999999"},
    {"missing_id",
     ":1:1: missing column \"id\", expected a header with the columns id, lower, upper, size"},
    {"more_cells", ":2:10: more cells than columns"},
    {"fewer_cells", ":2:7: fewer cells than columns"},
    {"misaligned", ":2:1: offset 6 is no multiple of the alignment, 4"},
    {"no_id", ":2:1: id: empty"},
};

static void a_wrong_packing_is_answered_with_its_place(void **state)
{
    struct arena *arena = *state;
    for (size_t i = 0; i < sizeof BAD_PACKINGS / sizeof *BAD_PACKINGS; i++) {
        struct err err = {0};
        struct packing_file file;
        const char *path = arena_print(arena, "tests/data/packing_%s.csv", BAD_PACKINGS[i].file);
        assert_false(packing_load(arena, path, &file, &err));
        assert_string_equal(err.text, arena_print(arena, "%s%s", path, BAD_PACKINGS[i].text));
        assert_int_equal(err.kind, ERR_INPUT);
    }
    struct err err = {0};
    struct packing_file file;
    const char text[] = "id,lower,upper,size\nb1,0\0,3,4\n";
    assert_false(packing_parse(arena, "nul.csv", text, sizeof text - 1, &file, &err));
    assert_string_equal(err.text, "nul.csv:2:5: a NUL byte");
    err = (struct err){0};
    assert_false(packing_load(arena, "tests/data/no_such.csv", &file, &err));
    assert_string_equal(err.text, "cannot read tests/data/no_such.csv: No such file or directory");
}

// 2^53 bytes on as many: 127 rows have 2^61 - 2^54, one more has one byte more than there may be.
// Of a long cell 40 letters or digits are told.
static void packings_end_where_sums_and_texts_do(void **state)
{
    struct arena *arena = *state;
    struct packing_file file;
    const char *text = "id,lower,upper,size,alignment\n";
    for (int rows = 1; rows <= 128; rows++) {
        struct err err = {0};
        text = arena_print(arena, "%sb%d,0,3,9007199254740992,9007199254740992\n", text, rows);
        if (rows < 127) continue;
        assert_int_equal(packing_parse(arena, "sum.csv", text, strlen(text), &file, &err),
                         rows == 127);
        assert_string_equal(err.text, rows == 127 ? ""
                                                  : "sum.csv:129:1: the sizes add up to more than "
                                                    "2305843009213693951");
    }
    static const char *const LONG[][2] = {
        {"abcdefghijklmnopqrstuvwxyzabcdefghijklmn",
         "a whole number, found \"abcdefghijklmnopqrstuvwxyzabcdefghijklmn\""},
        {"1234567890123456789012345678901234567890",
         "a number from -9007199254740992 to 9007199254740992, found "
         "1234567890123456789012345678901234567890"},
    };
    for (int i = 0; i < 2; i++) {
        struct err err = {0};
        text = arena_print(arena, "id,lower,upper,size\nb1,0,%s9,4\n", LONG[i][0]);
        assert_false(packing_parse(arena, "long.csv", text, strlen(text), &file, &err));
        assert_string_equal(err.text,
                            arena_print(arena, "long.csv:2:6: upper: expected %s", LONG[i][1]));
    }
}

static void assert_equal_graphs(const struct memory_graph *a, const struct memory_graph *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->tensor_count, b->tensor_count);
    assert_int_equal(a->operator_count, b->operator_count);
    for (int i = 0; i < a->tensor_count; i++) {
        const struct memory_tensor *x = &a->tensors[i], *y = &b->tensors[i];
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->bytes, y->bytes);
        assert_int_equal(x->producer, y->producer);
        assert_int_equal(x->storage, y->storage);
        assert_int_equal(x->shares, y->shares);
        assert_int_equal(x->overwrites, y->overwrites);
        assert_int_equal(x->persistent, y->persistent);
        assert_int_equal(x->kept, y->kept);
    }
    for (int i = 0; i < a->operator_count; i++) {
        const struct memory_operator *x = &a->operators[i], *y = &b->operators[i];
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->input_count, y->input_count);
        assert_int_equal(x->output_count, y->output_count);
        assert_int_equal(x->after_count, y->after_count);
        assert_int_equal(x->workspace_bytes, y->workspace_bytes);
        assert_true(x->seconds == y->seconds);
        assert_int_equal(x->update, y->update);
        for (int j = 0; j < x->input_count; j++) {
            assert_int_equal(x->inputs[j], y->inputs[j]);
        }
        for (int j = 0; j < x->output_count; j++) {
            assert_int_equal(x->outputs[j], y->outputs[j]);
        }
        for (int j = 0; j < x->after_count; j++) {
            assert_int_equal(x->after[j], y->after[j]);
        }
    }
}

static void what_is_written_is_read(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("graphs written and read", 3);
    for (int round = 0; round < 200; round++) {
        struct arena_mark mark = arena_mark(arena);
        struct err err = {0};
        const struct memory_graph *graph = graph_random(arena, &draw, draw_int(&draw, 1, 20));
        const char *text = memory_graph_text(arena, graph);
        const struct memory_graph *again =
            memory_graph_parse(arena, "again.json", text, strlen(text), &err);
        assert_string_equal(err.text, "");
        assert_equal_graphs(graph, again);
        assert_string_equal(memory_graph_text(arena, again), text);
        arena_reset(arena, mark);
    }
}

static void a_graph_with_everything_is_read(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    const struct memory_graph *graph =
        memory_graph_load(arena, "tests/data/memory_graph_all.json", &err);
    assert_string_equal(err.text, "");
    assert_string_equal(graph->name, "everything");
    const struct memory_problem *problem = memory_problem_make(arena, graph, 1);
    assert_int_equal(problem->persistent_bytes, 64);
    // x, y with its view and what overwrites it, loss, and the workspace of the sum.
    assert_int_equal(problem->buffer_count, 4);
    assert_int_equal(problem->buffers[1].user_count, 3);
    assert_true(problem->buffers[2].kept);
    assert_int_equal(problem->buffers[3].bytes, 16);
    assert_true(problem->update[3]);
}

// Nothing is written that is not there, and nothing that is there is lost.
static void a_graph_with_everything_is_written(void **state)
{
    static const char EVERYTHING[] =
        "{\"version\": 1, \"name\": \"g\", \"tensors\": ["
        "{\"name\": \"w\", \"bytes\": 8, \"persistent\": true}, "
        "{\"name\": \"x\", \"bytes\": 16}, {\"name\": \"v\", \"bytes\": 16, \"alias_of\": \"x\"}, "
        "{\"name\": \"u\", \"bytes\": 16, \"kept\": true, \"overwrites\": \"v\"}], "
        "\"operators\": [{\"name\": \"a\", \"inputs\": [\"w\"], \"outputs\": [\"x\"], "
        "\"workspace_bytes\": 32, \"seconds\": 0.25}, "
        "{\"name\": \"b\", \"inputs\": [\"x\"], \"outputs\": [\"v\"]}, "
        "{\"name\": \"c\", \"inputs\": [\"v\", \"w\"], \"outputs\": [\"u\"], "
        "\"after\": [\"a\"], \"update\": true}]}";
    struct arena *arena = *state;
    struct err err = {0};
    const struct memory_graph *graph =
        memory_graph_parse(arena, "g.json", EVERYTHING, strlen(EVERYTHING), &err);
    assert_string_equal(err.text, "");
    assert_int_equal(graph->tensors[0].producer, -1);
    assert_int_equal(graph->tensors[0].shares, -1);
    assert_int_equal(graph->tensors[1].producer, 0);
    assert_int_equal(graph->tensors[1].shares, -1);
    assert_int_equal(graph->tensors[2].shares, 1);
    assert_false(graph->tensors[2].overwrites);
    assert_int_equal(graph->tensors[3].shares, 2);
    assert_true(graph->tensors[3].overwrites && graph->tensors[3].kept);
    const char *text = memory_graph_text(arena, graph);
    // One line an item; without its spaces it is what was read.
    char *bare[2] = {arena_print(arena, "%s", text), arena_print(arena, "%s", EVERYTHING)};
    for (int i = 0; i < 2; i++) {
        char *to = bare[i];
        for (const char *from = bare[i]; *from; from++)
            if (*from != ' ' && *from != '\n') *to++ = *from;
        *to = '\0';
    }
    assert_string_equal(bare[0], bare[1]);
}

static void nodes_and_edges_become_operators_and_tensors(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    const struct memory_graph *graph =
        memory_graph_load(arena, "tests/data/memory_nodes_good.json", &err);
    assert_string_equal(err.text, "");
    assert_string_equal(graph->name, "memory_nodes_good.json");
    assert_int_equal(graph->operator_count, 4);
    assert_int_equal(graph->tensor_count, 5);
    assert_true(graph->tensors[0].persistent);
    assert_int_equal(graph->tensors[0].bytes, 100);
    assert_int_equal(graph->tensors[2].bytes, 32);
    assert_int_equal(graph->operators[1].input_count, 2);
    assert_true(graph->operators[3].update);
    assert_false(graph->operators[2].update);
    assert_true(graph->operators[1].seconds == 0.0005);
}

static const struct {
    const char *file, *text;
} BAD_GRAPHS[] = {
    {"graph_cycle", ":11:3: $.operators[1]: a cycle of 2 operators: \"V1\" -> \"V2\" -> \"V1\""},
    {"graph_negative",
     ":4:26: $.tensors[0].bytes: must be between 0 and 9007199254740992, found -10"},
    {"graph_unknown_tensor", ":13:34: $.operators[3].inputs[1]: unknown tensor \"f\", did you mean "
                             "\"a\"?"},
    {"graph_unknown_operator", ":13:65: $.operators[3].after[0]: unknown operator \"V9\", did you "
                               "mean \"V2\"?"},
    {"graph_two_producers",
     ":13:3: $.operators[3]: tensor \"d\" has two producers, \"V2\" and \"V3\""},
    {"graph_tensor_twice", ":8:12: $.tensors[4].name: a second tensor \"a\""},
    {"graph_operator_twice", ":14:12: $.operators[4].name: a second operator \"V0\""},
    {"graph_huge", ":4:26: $.tensors[0].bytes: must be between 0 and 9007199254740992, found "
                   "1e+300"},
    {"graph_not_a_number", ":4:26: $.tensors[0].bytes: expected a number, found a string"},
    {"graph_missing_bytes", ":4:3: $.tensors[0]: missing \"bytes\""},
    {"graph_unknown_key", ":4:29: $.tensors[0].size: unknown key"},
    {"graph_circular_alias", ":4:3: $.tensors[0]: the sharing of tensor \"a\" goes in a circle"},
    {"graph_late_reader", ":10:3: $.operators[1]: operator \"relu\" overwrites \"y\", but has to "
                          "run before \"use\", which uses it"},
    {"graph_both_shares", ":6:3: $.tensors[2]: \"alias_of\" and \"overwrites\" exclude each other"},
    {"graph_no_operator", ":1:85: $.operators: expected one operator or more"},
    {"graph_inputs_no_array", ":10:28: $.operators[0].inputs: expected an array, found a string"},
    {"graph_version", ":1:13: $.version: must be between 1 and 1, found 2"},
    {"nodes_cycle",
     ":6:3: $.nodes[2]: a cycle of 2 operators: \"multiply\" -> \"sum\" -> \"multiply\""},
    {"nodes_unknown", ":12:29: $.edges[1].destId: unknown node 9"},
    {"nodes_twice", ":9:10: $.nodes[5].id: a second node with id 7"},
    {"nodes_no_operator", ":3:11: $.nodes: expected one node or more that is no parameter"},
    {"nodes_negative", ":11:40: $.edges[0].size: must be between 0 and 9007199254740992, found -8"},
};

static void a_wrong_graph_is_answered_with_its_place(void **state)
{
    struct arena *arena = *state;
    for (size_t i = 0; i < sizeof BAD_GRAPHS / sizeof *BAD_GRAPHS; i++) {
        struct err err = {0};
        const char *path = arena_print(arena, "tests/data/memory_%s.json", BAD_GRAPHS[i].file);
        assert_null(memory_graph_load(arena, path, &err));
        assert_string_equal(err.text, arena_print(arena, "%s%s", path, BAD_GRAPHS[i].text));
        assert_int_equal(err.kind, ERR_INPUT);
    }
}

static void results_name_every_buffer(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    const struct memory_graph *graph =
        memory_graph_load(arena, "tests/data/memory_graph_all.json", &err);
    assert_string_equal(err.text, "");
    const struct memory_problem *problem = memory_problem_make(arena, graph, 16);
    const int order[] = {0, 1, 2, 3};
    const int64_t birth[] = {0, 0, 1, 1}, death[] = {1, 4, 4, 2}, offsets[] = {32, 0, 48, 32};
    const struct memory_schedule schedule = {.method = MEMORY_ROAM,
                                             .order = order,
                                             .birth = birth,
                                             .death = death,
                                             .offsets = offsets,
                                             .live_bytes = 64,
                                             .arena_bytes = 64,
                                             .bound_bytes = 64,
                                             .persistent_bytes = problem->persistent_bytes};
    assert_string_equal(memory_result_csv(arena, graph, problem, &schedule),
                        "id,lower,upper,size,offset\nx,0,1,32,32\ny,0,4,32,0\nloss,1,4,16,48\n"
                        "sum.workspace,1,2,16,32\n");
    const char *text = memory_result_json(arena, graph, problem, 16, &schedule);
    assert_non_null(strstr(text, "\"order\": [\"multiply\", \"sum\", \"relu\", \"step\"]"));
    assert_non_null(strstr(text, "{\"name\": \"y\", \"offset\": 0, \"bytes\": 32, \"lower\": 0, "
                                 "\"upper\": 4, \"shared_by\": [\"y_flat\", \"z\"]}"));
    assert_non_null(strstr(text, "\"persistent_bytes\": 64"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packing_columns_may_stand_in_any_order),
        cmocka_unit_test(packing_text_is_the_file_with_offsets),
        cmocka_unit_test(a_wrong_packing_is_answered_with_its_place),
        cmocka_unit_test(packings_end_where_sums_and_texts_do),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_graph_with_everything_is_read),
        cmocka_unit_test(a_graph_with_everything_is_written),
        cmocka_unit_test(nodes_and_edges_become_operators_and_tensors),
        cmocka_unit_test(a_wrong_graph_is_answered_with_its_place),
        cmocka_unit_test(results_name_every_buffer),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
