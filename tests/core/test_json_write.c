#include "core/json.h"
#include "core/json_write.h"
#include "tests/support/test.h"

static void keys_keep_their_order_and_indent_by_two(void **state)
{
    struct json_writer writer = {.arena = *state};
    json_open(&writer, NULL, '{');
    json_put_text(&writer, "name", "a \"b\"\n\x01µ");
    json_put_f64(&writer, "step_s", 1.5);
    json_put_i64(&writer, "bytes", INT64_C(1) << 53);
    json_put_bool(&writer, "fits", false);
    json_put_null(&writer, "price");
    json_open_flat(&writer, "stages", '[');
    json_put_i64(&writer, NULL, 10);
    json_open(&writer, NULL, '[');
    json_put_i64(&writer, NULL, 1);
    json_close(&writer, ']');
    json_close(&writer, ']');
    json_open(&writer, "empty", '{');
    json_close(&writer, '}');
    json_open(&writer, "inner", '{');
    json_put_i64(&writer, "x", -1);
    json_close(&writer, '}');
    json_close(&writer, '}');
    assert_string_equal(writer.text, "{\n"
                                     "  \"name\": \"a \\\"b\\\"\\n\\u0001µ\",\n"
                                     "  \"step_s\": 1.5,\n"
                                     "  \"bytes\": 9007199254740992,\n"
                                     "  \"fits\": false,\n"
                                     "  \"price\": null,\n"
                                     "  \"stages\": [10, [1]],\n"
                                     "  \"empty\": {},\n"
                                     "  \"inner\": {\n"
                                     "    \"x\": -1\n"
                                     "  }\n"
                                     "}\n");
    assert_int_equal(strlen(writer.text), writer.length);
}

static void what_is_written_reads_back(void **state)
{
    struct json_writer writer = {.arena = *state};
    json_open(&writer, NULL, '[');
    for (int i = 0; i < 1000; i++) {
        json_put_f64(&writer, NULL, 1.0 / (i + 1));
    }
    json_close(&writer, ']');
    struct json_document document;
    struct err err = {0};
    assert_true(json_parse(*state, "x.json", writer.text, writer.length, &document, &err));
    struct json root = json_root(&document);
    assert_int_equal(json_count(&root, &err), 1000);
    for (int i = 0; i < 1000; i++) {
        struct json item = json_item(&root, i);
        assert_true(json_f64(&item, 0, 1, &err) == 1.0 / (i + 1));
    }
    assert_string_equal(err.text, "");
}

struct record {
    const char *name, *remark;
    int64_t bytes, spare_bytes;
    int count, left;
    double s, wait_s;
    bool fits, is_spare;
};
static const struct json_field FIELDS[] = {
    {JSON_TEXT(struct record, name)},
    {JSON_OPT_TEXT(struct record, remark)},
    {JSON_I64(struct record, bytes, 0, 1e15)},
    {JSON_OPT_I64(struct record, spare_bytes, 0, 1e15)},
    {JSON_ANY("by_hand")},
    {JSON_INT(struct record, count, 0, 100)},
    {JSON_OPT_INT(struct record, left, 0, 100)},
    {JSON_F64(struct record, s, 0, 1)},
    {JSON_OPT_F64(struct record, wait_s, 0, 1)},
    {JSON_BOOL(struct record, fits)},
    {JSON_OPT_BOOL(struct record, is_spare)},
    {0},
};

static const char *written(void **state, const struct record *record)
{
    struct json_writer writer = {.arena = *state};
    json_open_flat(&writer, NULL, '{');
    const struct json_field *by_hand = json_put_fields(&writer, FIELDS, record);
    json_put_i64(&writer, by_hand->key, 7);
    assert_null(json_put_fields(&writer, by_hand + 1, record)->key);
    json_close(&writer, '}');
    return writer.text;
}

static void a_table_of_fields_writes_what_it_reads_but_optional_zeros(void **state)
{
    const struct record none = {.name = "a"}, all = {"a", "b", 1, 2, 3, 4, 0.5, 0.25, true, true};
    assert_string_equal(written(state, &none),
                        "{\"name\": \"a\", \"bytes\": 0, \"by_hand\": 7, \"count\": 0, \"s\": 0, "
                        "\"fits\": false}\n");
    const char *text = written(state, &all);
    assert_string_equal(text,
                        "{\"name\": \"a\", \"remark\": \"b\", \"bytes\": 1, "
                        "\"spare_bytes\": 2, \"by_hand\": 7, \"count\": 3, \"left\": 4, "
                        "\"s\": 0.5, \"wait_s\": 0.25, \"fits\": true, \"is_spare\": true}\n");
    struct json_document document;
    struct err err = {0};
    struct record read = {0};
    assert_true(json_parse(*state, "x.json", text, strlen(text), &document, &err));
    struct json root = json_root(&document);
    json_read(&root, FIELDS, &read, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(written(state, &read), text);
}

static void arrays_stand_on_one_line_and_what_is_not_known_is_null(void **state)
{
    struct json_writer writer = {.arena = *state};
    json_open_flat(&writer, NULL, '{');
    json_put_f64s(&writer, "s", (const double[]){0.5, 2}, 2);
    json_put_i64s(&writer, "bytes", (const int64_t[]){INT64_C(1) << 40}, 1);
    json_put_ints(&writer, "layers", (const int[]){3, 4}, 2);
    json_put_texts(&writer, "names", (const char *const[]){"a", "b"}, 2);
    json_put_ints(&writer, "none", NULL, 0);
    json_put_text(&writer, "remark", NULL);
    json_put_known(&writer, "loss", 0.0 / 0.0);
    json_put_known(&writer, "never_s", 1.0 / 0.0);
    json_put_known(&writer, "wait_s", 3);
    json_close(&writer, '}');
    assert_string_equal(
        writer.text, "{\"s\": [0.5, 2], \"bytes\": [1099511627776], \"layers\": [3, 4], "
                     "\"names\": [\"a\", \"b\"], \"none\": [], \"remark\": null, \"loss\": null, "
                     "\"never_s\": null, \"wait_s\": 3}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_keep_their_order_and_indent_by_two),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(a_table_of_fields_writes_what_it_reads_but_optional_zeros),
        cmocka_unit_test(arrays_stand_on_one_line_and_what_is_not_known_is_null),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
