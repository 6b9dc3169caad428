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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_keep_their_order_and_indent_by_two),
        cmocka_unit_test(what_is_written_reads_back),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
