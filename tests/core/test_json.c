#include "core/json.h"
#include "tests/support/test.h"

#include <stdio.h>

struct link_record {
    const char *kind;
    int gpus;
    int64_t memory_bytes;
    double latency_s;
    bool rail;
};

static const struct json_field FIELDS[] = {
    {JSON_TEXT(struct link_record, kind)},
    {JSON_INT(struct link_record, gpus, 1, 64)},
    {JSON_OPT_I64(struct link_record, memory_bytes, 1, 1e18)},
    {JSON_F64(struct link_record, latency_s, 0, 1)},
    {JSON_OPT_BOOL(struct link_record, rail)},
    {JSON_OPT_ANY("nics")},
    {0},
};

static const char *read_link(struct arena *arena, const char *text, struct link_record *link)
{
    struct err err = {0};
    struct json_document document;
    if (json_parse(arena, "x.json", text, strlen(text), &document, &err)) {
        struct json root = json_root(&document);
        json_read(&root, FIELDS, link, &err);
    }
    return arena_copy(arena, err.text);
}

static void check(void **state, const char *text, const char *message)
{
    struct link_record link = {0};
    assert_string_equal(read_link(*state, text, &link), message);
}

static void a_good_object_fills_its_struct(void **state)
{
    struct link_record link = {.memory_bytes = 5};
    const char *text =
        "{\"kind\": \"nv\\u00b5\", \"gpus\": 8, \"latency_s\": 2.5e-6, \"rail\": true}";
    assert_string_equal(read_link(*state, text, &link), "");
    assert_string_equal(link.kind, "nvµ");
    assert_int_equal(link.gpus, 8);
    assert_int_equal(link.memory_bytes, 5);
    assert_true(link.latency_s == 2.5e-6);
    assert_true(link.rail);
}

static void a_whole_number_may_have_an_exponent(void **state)
{
    struct link_record link = {0};
    const char *text =
        "{\"kind\": \"x\", \"gpus\": 8, \"latency_s\": 0, \"memory_bytes\": 450e9, \"rail\": null}";
    assert_string_equal(read_link(*state, text, &link), "");
    assert_int_equal(link.memory_bytes, 450000000000);
}

static void keys_are_checked(void **state)
{
    check(state, "{\"kind\": \"x\",\n \"gpus\": 8}", "x.json:1:1: $: missing \"latency_s\"");
    check(state, "{\"kind\": \"x\",\n \"zzz\": 8}",
          "x.json:2:2: $.zzz: unknown key; 1:1: $: missing \"gpus\", \"latency_s\"");
    check(state, "{\"kind\": \"x\", \"latency\": 8}",
          "x.json:1:15: $.latency: unknown key, did you mean \"latency_s\"?; 1:1: $: missing "
          "\"gpus\"");
    check(state, "{\"Kind\": \"x\"}",
          "x.json:1:2: $.Kind: unknown key, did you mean \"kind\"?; 1:1: $: missing \"gpus\", "
          "\"latency_s\"");
    check(state, "{\"kind\": \"x\", \"gpus\": 1, \"latency_s\": 1, \"kind\": \"y\"}",
          "x.json:1:42: $.kind: duplicate key");
    check(state, "[1]", "x.json:1:1: $: expected an object, found an array");
}

static void types_and_ranges_are_checked(void **state)
{
    check(state, "{\"kind\": 1, \"gpus\": 1, \"latency_s\": 1}",
          "x.json:1:10: $.kind: expected a string, found a number");
    check(state, "{\"kind\": \"µµ\", \"gpus\": \"8\", \"latency_s\": 1}",
          "x.json:1:24: $.gpus: expected a number, found a string");
    check(state, "{\"kind\": null, \"gpus\": 1, \"latency_s\": 1}",
          "x.json:1:10: $.kind: expected a string, found null");
    check(state, "{\"kind\": \"x\", \"gpus\": 1.5, \"latency_s\": 1}",
          "x.json:1:23: $.gpus: expected a whole number, found 1.5");
    check(state, "{\"kind\": \"x\", \"gpus\": 65, \"latency_s\": 1}",
          "x.json:1:23: $.gpus: must be between 1 and 64, found 65");
    check(state, "{\"kind\": \"x\", \"gpus\": 1, \"latency_s\": 1e999}",
          "x.json:1:39: $.latency_s: too large for a number");
    check(state, "{\"kind\": \"x\", \"gpus\": 1, \"latency_s\": 1, \"rail\": 0}",
          "x.json:1:50: $.rail: expected true or false, found a number");
    check(state,
          "{\"kind\": \"x\", \"gpus\": 1, \"latency_s\": 1, \"memory_bytes\": 9007199254740993}",
          "x.json:1:58: $.memory_bytes: whole numbers are exact only below 2^53");
}

static void what_is_not_json_is_refused_where_it_starts(void **state)
{
    check(state, "", "x.json:1:1: not valid JSON from here on");
    check(state, "{\n  \"kind\": \"x\",\n}", "x.json:3:1: not valid JSON from here on");
    check(state, "{} {}", "x.json:1:4: not valid JSON from here on");
    check(state, "{\"kind\": \"x", "x.json:1:12: not valid JSON from here on");
    check(state, "{\"a\": nul}", "x.json:1:7: not valid JSON from here on");
    check(state, "[01]", "x.json:1:2: not a number");
    check(state, "[1.]", "x.json:1:2: not a number");
    check(state, "[\"\\u00zz\"]", "x.json:1:3: not valid JSON from here on");
    check(state, "[NaN]", "x.json:1:2: not valid JSON from here on");
    check(state, "[\v1]", "x.json:1:2: not valid JSON from here on");
    check(state, "[\"a\tb\"]", "x.json:1:4: a control character must be escaped");
    check(state, "[\"a\\u0000b\"]", "x.json:1:4: a text cannot hold a NUL");
    check(state, "[\"\xff\"]", "x.json:1:3: not valid UTF-8");
    check(state, "[\"\xc0\x80\"]", "x.json:1:3: not valid UTF-8");
    check(state, "[\"\\ud800\"]", "x.json:1:3: not valid JSON from here on");
}

static void a_nul_byte_is_refused(void **state)
{
    struct err err = {0};
    struct json_document document;
    assert_false(json_parse(*state, "x.json", "{\"a\"\0: 1}", 9, &document, &err));
    assert_string_equal(err.text, "x.json:1:5: a NUL byte");
}

static void nesting_is_limited(void **state)
{
    char text[2 * JSON_DEPTH_MAX + 3] = "";
    struct err err = {0};
    struct json_document document;
    memset(text, '[', JSON_DEPTH_MAX);
    memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    assert_true(json_parse(*state, "x.json", text, strlen(text), &document, &err));
    memset(text, '[', JSON_DEPTH_MAX + 1);
    memset(text + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
    assert_false(json_parse(*state, "x.json", text, strlen(text), &document, &err));
    assert_string_equal(err.text, "x.json:1:65: nested too deep");
}

static void a_byte_order_mark_takes_no_place(void **state)
{
    check(state, "\xef\xbb\xbf{\"zzz\": 1}",
          "x.json:1:2: $.zzz: unknown key; 1:1: $: missing \"kind\", \"gpus\", \"latency_s\"");
}

static void cursors_know_their_place(void **state)
{
    const char *text = "{\"a\": {\"x\": [1, {}]},\n"
                       " \"nodes\": [{\"n\": \"]\\\"}\"}, {\"deep\": [true, {\"gpus\": \"8\"}]}]}";
    struct err err = {0};
    struct json_document document;
    assert_true(json_parse(*state, "ring8.json", text, strlen(text), &document, &err));
    struct json root = json_root(&document);
    struct json nodes = json_get(&root, "nodes", &err);
    assert_int_equal(json_count(&nodes, &err), 2);
    struct err no_object = {0}, no_array = {0};
    assert_int_equal(json_member_count(&nodes, &no_object), 0);
    assert_non_null(strstr(no_object.text, "$.nodes: expected an object, found an array"));
    assert_int_equal(json_count(&root, &no_array), 0);
    assert_non_null(strstr(no_array.text, "$: expected an array, found an object"));
    struct json node = json_item(&nodes, 1);
    struct json deep = json_get(&node, "deep", &err);
    struct json last = json_item(&deep, 1);
    struct json gpus = json_get(&last, "gpus", &err);
    assert_string_equal(json_key(&gpus), "gpus");
    assert_null(json_key(&last));
    assert_string_equal(err.text, "");
    json_i64(&gpus, 1, 8, &err);
    assert_string_equal(err.text, "ring8.json:2:52: $.nodes[1].deep[1].gpus: "
                                  "expected a number, found a string");
}

static void reading_after_an_error_does_nothing(void **state)
{
    struct err err = {0};
    struct json_document document;
    assert_true(json_parse(*state, "x.json", "{\"a\": null}", 11, &document, &err));
    struct json root = json_root(&document);
    assert_false(json_has(&root, "a"));
    assert_false(json_has(&root, "b"));
    struct json missing = json_get(&root, "b", &err);
    assert_string_equal(err.text, "x.json:1:1: $: missing \"b\"");
    struct json under = json_get(&missing, "c", &err);
    assert_int_equal(json_count(&under, &err), 0);
    assert_null(json_text(&under, &err));
    assert_false(json_is_object(&under));
    assert_int_equal(json_i64(&under, 1, 2, &err), 0);
    json_fail(&under, &err, "never said");
    assert_string_equal(err.text, "x.json:1:1: $: missing \"b\"");
}

static void collect(void *context, const char *line)
{
    strcat(context, line);
}

static void a_foreign_file_may_hold_other_keys(void **state)
{
    const char *text =
        "{\"kind\": \"x\", \"gpus\": 8, \"latency_s\": 0, \"other\": {}, \"raill\": 1}";
    struct err err = {0};
    struct json_document document;
    struct link_record link = {0};
    char lines[1024] = "";
    assert_true(json_parse(*state, "hf.json", text, strlen(text), &document, &err));
    struct json root = json_root(&document);
    json_read_lenient(&root, FIELDS, &link, collect, lines, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(link.gpus, 8);
    assert_string_equal(lines, "hf.json: \"raill\" is not known, did you mean \"rail\"?");
}

static void a_missing_file_is_named(void **state)
{
    struct err err = {0};
    struct json_document document;
    assert_false(json_load(*state, "none/x.json", &document, &err));
    assert_string_equal(err.text, "cannot read none/x.json: No such file or directory");
    assert_int_equal(err.kind, ERR_INPUT);
    err = (struct err){0};
    assert_false(json_load(*state, "/tmp", &document, &err));
    assert_string_equal(err.text, "cannot read /tmp: Is a directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_object_fills_its_struct),
        cmocka_unit_test(a_whole_number_may_have_an_exponent),
        cmocka_unit_test(keys_are_checked),
        cmocka_unit_test(types_and_ranges_are_checked),
        cmocka_unit_test(what_is_not_json_is_refused_where_it_starts),
        cmocka_unit_test(a_nul_byte_is_refused),
        cmocka_unit_test(nesting_is_limited),
        cmocka_unit_test(a_byte_order_mark_takes_no_place),
        cmocka_unit_test(cursors_know_their_place),
        cmocka_unit_test(reading_after_an_error_does_nothing),
        cmocka_unit_test(a_foreign_file_may_hold_other_keys),
        cmocka_unit_test(a_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
