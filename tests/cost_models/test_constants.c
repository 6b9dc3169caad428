#include "core/file.h"
#include "cost_models/constants.h"
#include "tests/support/priced.h"
#include "tests/support/test.h"

// Numbers of a file that are no constants of rates: what a struct keeps as a whole number.
static bool is_whole(const char *key)
{
    static const char *const WHOLE[] = {
        "memory_bytes", "multiprocessor_count", "cache_bytes",
        "bucket_bytes", "reserve_bytes",        "in_network_ranks_least",
    };
    for (size_t i = 0; i < sizeof WHOLE / sizeof *WHOLE; i++) {
        if (strcmp(WHOLE[i], key) == 0) return true;
    }
    return false;
}

// Every number below `object` is in the list under its dotted key, with the value of the file.
static int find_numbers(struct arena *arena, const struct constant_list *list,
                        enum constant_owner owner, const char *owner_name,
                        const struct json *object, const char *prefix)
{
    struct err err = {0};
    int found = 0, count = json_member_count(object, &err);
    for (int i = 0; i < count; i++) {
        struct json member = json_item(object, i);
        const char *key = arena_print(arena, "%s%s", prefix, json_key(&member));
        // What a stack changes where a model has experts, and a device for kernels alone, are other
        // values of those that are listed.
        bool is_other = strcmp(key, "with_experts") == 0 || strcmp(key, "efficiency_alone") == 0;
        if (json_is_object(&member) && !is_other) {
            found += find_numbers(arena, list, owner, owner_name, &member,
                                  arena_print(arena, "%s.", key));
        }
        if (!json_is_number(&member) || is_whole(key)) continue;
        const struct constant *constant = constants_find(list, owner, owner_name, key);
        if (!constant) fail_msg("%s of %s is not in the list", key, owner_name);
        assert_true(*constant->value == json_f64(&member, -1e30, 1e30, &err));
        assert_true(constant->low <= *constant->value && *constant->value <= constant->high);
        assert_non_null(constant->provenance);
        found++;
    }
    assert_string_equal(err.text, "");
    return found;
}

static struct json_document document_of(struct arena *arena, const char *folder, const char *name)
{
    struct err err = {0};
    struct json_document document = {0};
    const char *path = file_find_data(arena, folder, name, "file", &err);
    assert_true(path && json_load(arena, path, &document, &err));
    return document;
}

static void every_number_of_every_device_is_in_the_list(void **state)
{
    int count = 0;
    const char **names = file_list_data(*state, "topologies/devices", &count);
    for (int i = 0; i < count; i++) {
        struct err err = {0};
        struct json_document document = document_of(*state, "topologies/devices", names[i]);
        struct json root = json_root(&document);
        struct device *device = device_read(*state, &root, &err);
        assert_string_equal(err.text, "");
        struct constant_list list = constants_list(*state, device, NULL, NULL);
        int found = find_numbers(*state, &list, CONSTANT_DEVICE, device->name, &root, "");
        assert_int_equal(found, list.count);
    }
}

static void every_number_of_every_stack_is_in_the_list(void **state)
{
    int count = 0;
    const char **names = file_list_data(*state, "cost_models/stacks", &count);
    for (int i = 0; i < count; i++) {
        struct err err = {0};
        struct json_document document = document_of(*state, "cost_models/stacks", names[i]);
        struct json root = json_root(&document);
        const struct stack *stack = stack_read(*state, &root, &err);
        assert_string_equal(err.text, "");
        struct constant_list list = constants_list(*state, NULL, stack_copy(*state, stack), NULL);
        int found = find_numbers(*state, &list, CONSTANT_STACK, stack->name, &root, "");
        assert_int_equal(found, list.count);
    }
}

// Rows of one kind are told apart by the speed they begin at; tables of group sizes by the ranks.
static void every_number_of_every_fabric_is_in_the_list(void **state)
{
    struct err err = {0};
    struct json_document document = document_of(*state, "cost_models", "fabrics");
    struct json root = json_root(&document);
    struct fabrics *fabrics = fabrics_copy(*state, fabrics_read(*state, &root, &err));
    struct constant_list list = constants_list(*state, NULL, NULL, fabrics);
    struct json rows = json_get(&root, "fabrics", &err);
    int found = 0;
    for (int i = 0; i < fabrics->count; i++) {
        const struct fabric *row = &fabrics->rows[i];
        const char *name = row->kind;
        if (row->link_bytes_per_s_least > 0) {
            name = arena_print(*state, "%s from %g GB/s", row->kind,
                               row->link_bytes_per_s_least / 1e9);
        }
        struct json at = json_item(&rows, i);
        found += find_numbers(*state, &list, CONSTANT_FABRIC, name, &at, "");
        for (int k = 0; k < row->group_efficiency_count; k++) {
            const char *key =
                arena_print(*state, "group_efficiency.%d", row->group_efficiency[k].rank_count);
            const struct constant *group = constants_find(&list, CONSTANT_FABRIC, name, key);
            assert_ptr_equal(group->value, &row->group_efficiency[k].ratio);
            found++;
        }
    }
    assert_int_equal(found, list.count);
}

static void names_and_keys_are_found_and_others_are_not(void **state)
{
    struct err err = {0};
    struct stack *stack = stack_copy(*state, stack_load(*state, "megatron-core", &err));
    struct fabrics *fabrics = fabrics_copy(*state, fabrics_load(*state, &err));
    struct constant_list list = constants_list(*state, NULL, stack, fabrics);
    const struct constant *scale = constants_find(&list, CONSTANT_STACK, NULL, "gemm_scale");
    assert_ptr_equal(scale->value, &stack->gemm_scale);
    assert_string_equal(scale->owner_name, "megatron-core");
    assert_string_equal(scale->provenance->key, "gemm_scale");
    assert_null(constants_find(&list, CONSTANT_STACK, "fsdp", "gemm_scale"));
    assert_null(constants_find(&list, CONSTANT_DEVICE, NULL, "gemm_scale"));
    assert_null(constants_find(&list, CONSTANT_STACK, NULL, "gemm_scal"));
    assert_null(constants_find(&list, CONSTANT_STACK, NULL, "bucket_bytes"));
}

static double step_s_of(struct priced *of)
{
    priced_finish(of);
    double s = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        for (int part = 0; part < PART_COUNT; part++) {
            s += of->price->classes[0].phase_s[phase][part];
        }
    }
    return s;
}

// A value set through the list changes a price; the structs that were copied keep theirs.
static void setting_a_constant_changes_a_price_and_not_the_original(void **state)
{
    struct priced of = priced_start(*state, "llama-2-7b", "dgx-h100-x2", "megatron-core");
    of.parallel.degree[AXIS_TP] = 8;
    double before_s = step_s_of(&of);
    const struct device *device = of.cluster->nodes[0].device;
    struct device *changed = device_copy(*state, device);
    struct stack *stack = stack_copy(*state, of.stack);
    struct fabrics *fabrics = fabrics_copy(*state, of.fabrics);
    struct constant_list list = constants_list(*state, changed, stack, fabrics);
    static const struct {
        enum constant_owner owner;
        const char *owner_name, *key;
    } SLOWER[] = {
        {CONSTANT_DEVICE, NULL, "efficiency.gemm_ratio.bf16"},
        {CONSTANT_STACK, NULL, "gemm_scale"},
        {CONSTANT_FABRIC, "nvswitch from 400 GB/s", "group_efficiency.8"},
    };
    of.cluster = cluster_with_device(*state, of.cluster, changed);
    of.stack = stack;
    of.fabrics = fabrics;
    assert_true(step_s_of(&of) == before_s);
    for (size_t i = 0; i < sizeof SLOWER / sizeof *SLOWER; i++) {
        const struct constant *constant =
            constants_find(&list, SLOWER[i].owner, SLOWER[i].owner_name, SLOWER[i].key);
        double value = *constant->value;
        *constant->value = 0.8 * value;
        assert_true(step_s_of(&of) > before_s);
        *constant->value = value;
    }
    *constants_find(&list, CONSTANT_DEVICE, NULL, "efficiency.gemm_ratio.bf16")->value = 0.1;
    *constants_find(&list, CONSTANT_FABRIC, "nvswitch", "group_efficiency.8")->value = 0.1;
    struct err err = {0};
    assert_true(device->efficiency.gemm_ratio[PRECISION_BF16] > 0.1);
    assert_true(fabrics_load(*state, &err)->rows[0].group_efficiency[0].ratio > 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_every_device_is_in_the_list),
        cmocka_unit_test(every_number_of_every_stack_is_in_the_list),
        cmocka_unit_test(every_number_of_every_fabric_is_in_the_list),
        cmocka_unit_test(names_and_keys_are_found_and_others_are_not),
        cmocka_unit_test(setting_a_constant_changes_a_price_and_not_the_original),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
