#include "core/file.h"
#include "tests/support/test.h"
#include "validation/fit_files.h"

#include <stdio.h>
#include <unistd.h>

static const struct fit_constant CONSTANTS[] = {
    {.owner = CONSTANT_DEVICE,
     .owner_name = "h100-sxm5-80g",
     .key = "efficiency.gemm_ratio.bf16",
     .prior = 0.71,
     .spread = 0.1,
     .value = 0.698765},
    {.owner = CONSTANT_STACK,
     .owner_name = "megatron-core",
     .key = "gemm_scale",
     .prior = 0.95,
     .spread = 0.05,
     .value = 0.9123456},
    {.owner = CONSTANT_STACK,
     .owner_name = "megatron-core",
     .key = "host_op_s",
     .prior = 2.5e-6,
     .spread = 0.24,
     .value = 3.21e-6},
    {.owner = CONSTANT_FABRIC,
     .owner_name = "infiniband",
     .key = "efficiency_ratio",
     .prior = 0.83,
     .spread = 0.1,
     .value = 0.86},
};

static struct fit_result result_of(struct arena *arena)
{
    struct fit_constant *constants = ARENA_NEW(arena, struct fit_constant, 4);
    memcpy(constants, CONSTANTS, sizeof CONSTANTS);
    return (struct fit_result){.constants = constants, .constant_count = 4};
}

static char *text_at(struct arena *arena, const char *path)
{
    struct err err = {0};
    size_t bytes = 0;
    char *text = file_read(arena, path, 1 << 20, &bytes, &err);
    assert_string_equal(err.text, "");
    return text;
}

static struct json_document parse(struct arena *arena, const char *text)
{
    struct err err = {0};
    struct json_document document;
    assert_true(json_parse(arena, "edited", text, strlen(text), &document, &err));
    return document;
}

static char *edit_stack(struct arena *arena, const char *text, const struct fit_result *result,
                        const char *source)
{
    struct err err = {0};
    struct json_document document = parse(arena, text);
    struct json root = json_root(&document);
    char *edited =
        fit_edit_text(arena, &root, result, CONSTANT_STACK, "megatron-core", source, &err);
    assert_string_equal(err.text, "");
    return edited;
}

static int lines_that_differ(const char *a, const char *b)
{
    int count = 0;
    while (*a || *b) {
        size_t left = strcspn(a, "\n"), right = strcspn(b, "\n");
        count += left != right || strncmp(a, b, left) != 0;
        a += left + (a[left] == '\n');
        b += right + (b[right] == '\n');
    }
    return count;
}

// Two constants of the stack: their two numbers and their two entries, no other line.
static void only_numbers_and_entries_of_fitted_constants_change(void **state)
{
    struct err err = {0};
    struct fit_result result = result_of(*state);
    const char *text = text_at(*state, "cost_models/stacks/megatron-core.json");
    const char *edited = edit_stack(*state, text, &result, "fit of a day");
    assert_int_equal(lines_that_differ(text, edited), 4);
    struct json_document document = parse(*state, edited);
    struct json root = json_root(&document);
    const struct stack *stack = stack_read(*state, &root, &err);
    assert_string_equal(err.text, "");
    assert_true(stack->gemm_scale == 0.9123 && stack->host_op_s == 3.21e-6);
    struct provenance_list list = {stack->provenance, stack->provenance_count};
    const struct provenance *entry = provenance_find(&list, "gemm_scale");
    assert_int_equal(entry->kind, PROVENANCE_FITTED);
    assert_true(entry->prior == 0.95 && entry->spread == 0.05);
    assert_non_null(strstr(entry->source, "fit of a day; prior: estimated, "));
}

// A second fit replaces the first and keeps what the prior rested on.
static void a_later_fit_keeps_what_the_prior_rested_on(void **state)
{
    struct fit_result result = result_of(*state);
    const char *text = text_at(*state, "cost_models/stacks/megatron-core.json");
    const char *once = edit_stack(*state, text, &result, "fit of a later day");
    const char *first = edit_stack(*state, text, &result, "fit of a day");
    assert_string_equal(edit_stack(*state, first, &result, "fit of a later day"), once);
    assert_string_equal(edit_stack(*state, once, &result, "fit of a later day"), once);
}

// An entry that speaks for several numbers stays for the others.
static void a_number_below_an_entry_gets_one_of_its_own(void **state)
{
    struct err err = {0};
    struct fit_result result = result_of(*state);
    const char *text = text_at(*state, "topologies/devices/h100-sxm5-80g.json");
    struct json_document document = parse(*state, text);
    struct json root = json_root(&document);
    const char *edited = fit_edit_text(*state, &root, &result, CONSTANT_DEVICE, "h100-sxm5-80g",
                                       "fit of a day", &err);
    assert_string_equal(err.text, "");
    document = parse(*state, edited);
    root = json_root(&document);
    const struct device *device = device_read(*state, &root, &err);
    assert_string_equal(err.text, "");
    assert_true(device->efficiency.gemm_ratio[PRECISION_BF16] == 0.6988);
    const struct provenance *bf16 = device_provenance(device, "efficiency.gemm_ratio.bf16");
    const struct provenance *fp32 = device_provenance(device, "efficiency.gemm_ratio.fp32");
    assert_int_equal(bf16->kind, PROVENANCE_FITTED);
    assert_true(bf16->prior == 0.71);
    assert_int_not_equal(fp32->kind, PROVENANCE_FITTED);
    assert_non_null(strstr(edited, "\n    {\"key\": \"efficiency.gemm_ratio.bf16\", \"kind\": "
                                   "\"fitted\", \"source\": \"fit of a day; prior: "));
}

static void a_constant_that_no_file_has_is_an_error(void **state)
{
    struct err err = {0};
    struct fit_result result = result_of(*state);
    result.constants[1].key = "gemm_scala";
    struct json_document document =
        parse(*state, text_at(*state, "cost_models/stacks/megatron-core.json"));
    struct json root = json_root(&document);
    assert_null(
        fit_edit_text(*state, &root, &result, CONSTANT_STACK, "megatron-core", "fit", &err));
    assert_int_equal(err.kind, ERR_INPUT);
    assert_non_null(strstr(err.text, "gemm_scala"));
}

static bool write_files(struct arena *arena, const struct fit_result *result, const char *folder,
                        struct err *err)
{
    int count = 0;
    const struct file_text *files =
        fit_files_text(arena, result, folder, "fit of a day", &count, err);
    return files && file_write_all(files, count, err);
}

// Folders are made; what is written reads as what it was; a folder that is a file is refused.
static void files_are_written_where_the_source_tree_has_them(void **state)
{
    struct err err = {0};
    struct fit_result result = result_of(*state);
    char folder[] = "/tmp/fit_files_XXXXXX";
    assert_non_null(mkdtemp(folder));
    assert_true(write_files(*state, &result, folder, &err));
    const char *fabrics_path = arena_print(*state, "%s/cost_models/fabrics.json", folder);
    struct json_document document;
    assert_true(json_load(*state, fabrics_path, &document, &err));
    struct json root = json_root(&document);
    const struct fabrics *fabrics = fabrics_read(*state, &root, &err);
    assert_string_equal(err.text, "");
    assert_true(fabrics_find(fabrics, "infiniband", 25e9)->efficiency_ratio == 0.86);
    static const char *const PATHS[] = {"topologies/devices/h100-sxm5-80g.json",
                                        "topologies/devices",
                                        "topologies",
                                        "cost_models/stacks/megatron-core.json",
                                        "cost_models/stacks",
                                        "cost_models/fabrics.json",
                                        "cost_models"};
    const char *blocked = arena_print(*state, "%s/%s", folder, PATHS[0]);
    assert_false(write_files(*state, &result, blocked, &err));
    assert_int_equal(err.kind, ERR_SYSTEM);
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        assert_int_equal(remove(arena_print(*state, "%s/%s", folder, PATHS[i])), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_numbers_and_entries_of_fitted_constants_change),
        cmocka_unit_test(a_later_fit_keeps_what_the_prior_rested_on),
        cmocka_unit_test(a_number_below_an_entry_gets_one_of_its_own),
        cmocka_unit_test(a_constant_that_no_file_has_is_an_error),
        cmocka_unit_test(files_are_written_where_the_source_tree_has_them),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
