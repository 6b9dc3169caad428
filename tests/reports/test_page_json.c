// The stand-in of a page for cJSON (wasm/cjson.c), beside cJSON itself: its names get a prefix, so
// that both are in one program.
#define cJSON_InitHooks page_InitHooks
#define cJSON_ParseWithLengthOpts page_ParseWithLengthOpts
#define cJSON_Delete page_Delete
#define cJSON_IsString page_IsString
#define cJSON_IsNumber page_IsNumber
#define cJSON_IsObject page_IsObject
#define cJSON_IsArray page_IsArray
#define cJSON_IsTrue page_IsTrue
#define cJSON_IsFalse page_IsFalse
#define cJSON_IsBool page_IsBool
#define cJSON_IsNull page_IsNull
#include "wasm/cjson.c"
#undef cJSON_InitHooks
#undef cJSON_ParseWithLengthOpts
#undef cJSON_Delete
#undef cJSON_IsString
#undef cJSON_IsNumber
#undef cJSON_IsObject
#undef cJSON_IsArray
#undef cJSON_IsTrue
#undef cJSON_IsFalse
#undef cJSON_IsBool
#undef cJSON_IsNull

#include "core/file.h"
#include "core/json_scan.h"
#include "tests/support/test.h"

cJSON *cJSON_ParseWithLengthOpts(const char *text, size_t bytes, const char **end, cJSON_bool nul);
void cJSON_Delete(cJSON *value);

static void assert_same(const cJSON *found, const cJSON *wanted)
{
    for (; wanted; found = found->next, wanted = wanted->next) {
        assert_non_null(found);
        assert_int_equal(found->type, wanted->type & 0xff);
        assert_true(found->valuedouble == wanted->valuedouble || wanted->type != cJSON_Number);
        if (wanted->valuestring) assert_string_equal(found->valuestring, wanted->valuestring);
        if (wanted->string) assert_string_equal(found->string, wanted->string);
        assert_int_equal(found->string == NULL, wanted->string == NULL);
        assert_same(found->child, wanted->child);
    }
    assert_null(found);
}

static void compare(const char *text)
{
    size_t offset = 0;
    const char *end = NULL;
    assert_null(json_scan(text, strlen(text), 64, &offset));
    cJSON *wanted = cJSON_ParseWithLengthOpts(text, strlen(text) + 1, &end, 1);
    cJSON *found = page_ParseWithLengthOpts(text, strlen(text) + 1, &end, 1);
    assert_int_equal(found == NULL, wanted == NULL);
    assert_same(found, wanted);
    page_Delete(found);
    cJSON_Delete(wanted);
}

static void values_are_those_of_cjson(void **state)
{
    (void)state;
    const char *const texts[] = {
        "0",
        " -1.5e-3 ",
        "123456789012345678",
        "1e400",
        "null",
        "[true, false ,null]",
        "{}",
        "[]",
        "[[],{},[{}]]",
        "\"\"",
        "{\"a\": {\"b\" : [1, 2,3]}, \"a\": \"twice\"}",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
        "\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00 \xe2\x82\xac\"",
        "\xef\xbb\xbf{\"mark\": 1}",
        // No characters: cJSON refuses them, though the grammar allows them.
        "\"\\ud83d\"",
        "\"\\ude00\"",
        "\"\\ud83d\\u0041\"",
        "[1, {\"a\": \"\\udc00\"}, 2]",
        "{\"\\ud800x\": 1}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        compare(texts[i]);
}

static void shipped_files_are_read_alike(void **state)
{
    static const char *const FOLDERS[] = {"topologies", "models/zoo", "cost_models",
                                          "cost_models/stacks"};
    for (size_t f = 0; f < sizeof FOLDERS / sizeof *FOLDERS; f++) {
        int count = 0;
        const char **names = file_list_data(*state, FOLDERS[f], &count);
        assert_true(count > 0);
        for (int i = 0; i < count; i++) {
            struct err err = {0};
            size_t bytes = 0;
            const char *path = file_find_data(*state, FOLDERS[f], names[i], "file", &err);
            const char *text = path ? file_read(*state, path, 1 << 24, &bytes, &err) : NULL;
            assert_string_equal(err.text, "");
            compare(text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_cjson),
        cmocka_unit_test(shipped_files_are_read_alike),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
