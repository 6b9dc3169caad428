#include "core/file.h"
#include "cost_models/measured.h"
#include "tests/support/priced.h"
#include "tests/support/test.h"
#include "topologies/kernels.h"

// Tables of measured kernels: what their reader takes and refuses, what is found in them, and that
// a shape that was measured is priced by its row and nothing else is.

static struct kernel_table *load(struct arena *arena, const char *name)
{
    struct err err = {0};
    struct kernel_table *table = kernels_load(arena, name, &err);
    assert_string_equal(err.text, "");
    assert_non_null(table);
    return table;
}

static char *text_of(struct arena *arena, const struct kernel_table *table)
{
    struct json_writer writer = {.arena = arena};
    kernels_write(&writer, NULL, table);
    return writer.text;
}

static void every_shipped_table_reads_is_of_a_shipped_device_and_below_its_peak(void **state)
{
    int count = 0;
    const char **names = file_list_data(*state, "topologies/kernels", &count);
    assert_true(count >= 2);
    for (int i = 0; i < count; i++) {
        struct err err = {0};
        const struct kernel_table *table = load(*state, names[i]);
        assert_string_equal(table->name, names[i]);
        struct json_document document;
        const char *text = arena_print(*state, "\"%s\"", table->device);
        assert_true(json_parse(*state, "name", text, strlen(text), &document, &err));
        struct json root = json_root(&document);
        const struct device *device = device_read(*state, &root, &err);
        assert_string_equal(err.text, "");
        assert_true(table->flop_per_s_most < device->peak_flop_per_s[PRECISION_BF16]);
        assert_true(table->flop_per_s_most > 0.5 * device->peak_flop_per_s[PRECISION_BF16]);
    }
}

static void a_table_is_written_as_it_was_read(void **state)
{
    struct arena *arena = *state;
    const char *const names[] = {"tests/data/kernels_good.json", "simumax-a100-pcie"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct err err = {0};
        struct json_document document;
        const char *text = text_of(arena, load(arena, names[i]));
        assert_true(json_parse(arena, "copy", text, strlen(text), &document, &err));
        struct json root = json_root(&document);
        const struct kernel_table *copy = kernels_read(arena, &root, &err);
        assert_string_equal(err.text, "");
        assert_string_equal(text_of(arena, copy), text);
    }
}

static void a_wrong_file_is_answered_with_its_place(void **state)
{
    static const struct {
        const char *name, *message;
    } BAD[] = {
        {"twice", "9:5: $.rows[2]: a row of this shape stands before"},
        {"no_rows", "6:11: $.rows: expected a row, found none"},
        {"unknown_kind",
         "7:14: $.rows[0].kind: expected gemm, grouped-gemm or attention, found \"convolution\""},
        {"unknown_phase", "7:36: $.rows[0].phase: expected forward or backward, found \"weight\""},
        {"unknown_precision", "7:55: $.rows[0].precision: expected fp32, fp16, bf16, fp8 or fp4, "
                              "found \"int8\""},
        {"unknown_key", "7:128: $.rows[0].layout: unknown key"},
        {"missing_size", "7:5: $.rows[0]: missing \"k\""},
        {"mixed_keys", "7:142: $.rows[0].m: unknown key, did you mean \"s\"?; 7:5: $.rows[0]: "
                       "missing \"seq\""},
        {"no_time", "7:133: $.rows[0].s: must be between 1e-09 and 1000, found 0"},
        {"no_provenance", "6:11: $.rows: expected an entry for \"rows\" in provenance, found none"},
    };
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        struct err err = {0};
        const char *path = arena_print(*state, "tests/data/kernels_%s.json", BAD[i].name);
        assert_null(kernels_load(*state, path, &err));
        assert_string_equal(err.text, arena_print(*state, "%s:%s", path, BAD[i].message));
        assert_int_equal(err.kind, ERR_INPUT);
    }
}

// Every row is found by its own shape, and by no other: one more or less of any size is none.
static void a_row_is_found_by_its_shape_alone(void **state)
{
    const struct kernel_table *table = load(*state, "simumax-b200");
    for (int i = 0; i < table->row_count; i++) {
        struct kernel wanted = table->rows[i];
        wanted.s = 0;
        assert_ptr_equal(kernels_find(table, &wanted), &table->rows[i]);
        wanted.precision = PRECISION_FP8;
        assert_null(kernels_find(table, &wanted));
        wanted = table->rows[i];
        int64_t *sizes[] = {&wanted.batch,
                            wanted.kind == KERNEL_ATTENTION ? &wanted.seq : &wanted.m};
        for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
            *sizes[n] += 1;
            assert_null(kernels_find(table, &wanted));
            *sizes[n] -= 1;
        }
    }
}

static void a_selection_holds_what_was_selected(void **state)
{
    const struct kernel_table *table = load(*state, "tests/data/kernels_good.json");
    const bool used[] = {false, true, false, true}, nothing[4] = {0};
    const struct kernel_table *some = kernels_select(*state, table, used);
    assert_int_equal(some->row_count, 2);
    for (int i = 0; i < table->row_count; i++) {
        assert_true((kernels_find(some, &table->rows[i]) != NULL) == used[i]);
    }
    const struct kernel_table *none = kernels_select(*state, table, nothing);
    assert_int_equal(none->row_count, 0);
    assert_null(kernels_find(none, &table->rows[0]));
}

static void a_table_of_another_device_is_refused(void **state)
{
    struct err err = {0};
    const struct cluster *cluster = cluster_load(*state, "dgx-h100", &err);
    assert_null(cluster_with_kernels(*state, cluster, load(*state, "simumax-b200"), &err));
    assert_string_equal(err.text, "kernel table simumax-b200 was measured on b200-sxm-180g, which "
                                  "cluster dgx-h100 has none of");
    assert_int_equal(err.kind, ERR_USAGE);
}

// Llama-2-70B's layer over tp 8 on B200, the case of the published table.
static struct priced measured_layer(struct arena *arena, const char *table)
{
    struct err err = {0};
    struct priced of = priced_start(arena, "llama-2-70b", "dgx-b200", "megatron-core");
    of.parallel.degree[AXIS_TP] = 8;
    of.parallel.sp = true;
    of.workload.seq_len = 4096;
    if (table) {
        of.cluster = cluster_with_kernels(arena, of.cluster, load(arena, table), &err);
        assert_non_null(of.cluster);
    }
    priced_finish(&of);
    return of;
}

static void a_measured_shape_takes_the_seconds_of_its_row(void **state)
{
    struct priced with = measured_layer(*state, "simumax-b200");
    struct priced without = measured_layer(*state, NULL);
    const struct compute_context *context = &with.context.compute;
    const struct block_program *layer = priced_block(&with, BLOCK_LAYER);
    int count = 0;
    for (int i = 0; i < layer->instr_count; i++) {
        const struct instr *instr = &layer->instrs[i];
        if (instr->collective != COLLECTIVE_NONE) continue;
        struct compute_cost cost = compute_price(context, layer, instr);
        const struct instr *same = &priced_block(&without, BLOCK_LAYER)->instrs[i];
        struct compute_cost formula =
            compute_price(&without.context.compute, priced_block(&without, BLOCK_LAYER), same);
        if (!cost.measured) {
            assert_true(cost.s == formula.s);
            continue;
        }
        double scale = instr->kind == OP_CONTRACT    ? with.stack->gemm_scale
                       : instr->kind == OP_ATTENTION ? with.stack->attention_forward_scale
                                                     : with.stack->attention_backward_scale;
        assert_true(cost.s == cost.measured->s / scale + context->device->launch_latency_s);
        // The formula is not far from what was measured.
        assert_true(formula.s > 0.5 * cost.s && formula.s < 2 * cost.s);
        count++;
    }
    // Four products and attention backward; q, k and v are one, and so are gate and up.
    assert_int_equal(count, 4 * 3 + 1);
    struct measured_use use = measured_use_of(*state, context, with.program);
    assert_int_equal(use.price_count, count);
    assert_int_equal(use.row_count, count);
    assert_int_equal(use.kernel_count, count + 1 + 3);  // attention forward, and the head of
                                                        // another vocabulary
    assert_null(measured_use_of(*state, &without.context.compute, without.program).table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shipped_table_reads_is_of_a_shipped_device_and_below_its_peak),
        cmocka_unit_test(a_table_is_written_as_it_was_read),
        cmocka_unit_test(a_wrong_file_is_answered_with_its_place),
        cmocka_unit_test(a_row_is_found_by_its_shape_alone),
        cmocka_unit_test(a_selection_holds_what_was_selected),
        cmocka_unit_test(a_table_of_another_device_is_refused),
        cmocka_unit_test(a_measured_shape_takes_the_seconds_of_its_row),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
