#include "tests/support/test.h"

#include "cost_models/measured.h"
#include "tests/support/fake_machine.h"
#include "tests/support/script_case.h"
#include "topologies/cluster.h"

#include <math.h>

// Calibration for one plan, on a machine whose clock is a formula: what a rank is asked to run has
// the shapes of its program, and the table that comes of it prices the plan as it was measured.

static const struct backend_device_facts GPU = {
    .name = "a device",
    .libraries = "libraries",
    .memory_bytes = 150000000000,
    .device_count = 1,
    .multiprocessor_count = 132,
    .cache_bytes = 50 << 20,
};

struct measured {
    struct program *program;
    struct calibration calibration;
    struct machine machine;
    struct compute_context context;  // of the cluster's device with the table
    double share;                    // of a core that a rank gets
};

// The drawn plan as the executor runs it, in this precision.
static struct program *lower(struct arena *arena, const struct script_case *drawn,
                             enum precision precision)
{
    struct workload workload = drawn->program->workload;
    workload.precision = precision;
    return program_lower(arena, drawn->program->graph, drawn->program->cluster, &workload,
                         &drawn->program->parallel, 0);
}

static void measure(struct arena *arena, const struct script_case *drawn, bool is_host,
                    int rank_count, struct measured *made)
{
    struct err err = {0};
    struct fake_machine fake = is_host ? FAKE_PROCESSOR : FAKE_DEVICE;
    fake.rank_count = rank_count;
    fake_machine_use(&fake);
    struct calibrate_request request =
        is_host ? fake_machine_request(&fake) : fake_device_request(&fake);
    enum precision precision = is_host ? PRECISION_FP32 : PRECISION_BF16;
    made->program = lower(arena, drawn, precision);
    request.plan = made->program;
    request.is_short = true;
    assert_true(calibrate(arena, &request, &made->calibration, &err));
    const struct stack *stack = stack_load(arena, is_host ? "meshwright-cpu" : "meshwright", &err);
    const struct fabrics *fabrics = fabrics_load(arena, &err);
    const struct machine_facts facts = {.processor = "a processor",
                                        .libraries = "a library",
                                        .date = "2026-11-21",
                                        .version = "0",
                                        .core_count = 2,
                                        .memory_bytes = 8000000000,
                                        .device = is_host ? NULL : &GPU};
    assert_string_equal(err.text, "");
    made->machine = machine_make(arena, &made->calibration, &facts, stack, fabrics);
    assert_non_null(made->machine.kernels);
    int units = is_host ? 2 : 1;
    made->share = rank_count > units ? (double)units / rank_count : 1;
    struct cluster *cluster =
        cluster_with_kernels(arena, made->machine.cluster, made->machine.kernels, &err);
    assert_non_null(cluster);
    made->context = (struct compute_context){
        .device = cluster->nodes[0].device, .stack = made->machine.stack, .precision = precision};
}

// The fake machine's own formula, on the shape that the program says.
static double expected_s(const struct instr *instr, bool is_host)
{
    const struct fake_machine *fake = is_host ? &FAKE_PROCESSOR : &FAKE_DEVICE;
    double rate = is_host ? fake->gemm_flop_per_s : fake->bf16_flop_per_s;
    if (instr->kind == OP_CONTRACT) {
        const struct gemm *gemm = &instr->gemm;
        double outer = (double)gemm->batch * (double)gemm->m * (double)gemm->n;
        // Of a part that is handed on a call for each sequence, of its rows or summed over them.
        double calls = instr->rows && instr->dim == DIM_SEQ ? (double)instr->batch : 1;
        double ramps = instr->phase == PHASE_WEIGHT ? calls : 1;
        return calls * fake->call_s +
               2 * outer * ((double)gemm->k + ramps * fake->gemm_k_ramp) / rate;
    }
    double pairs = (double)instr->batch * (double)instr->heads * (double)instr->seq *
                   (double)instr->seq * (double)instr->head_dim;
    double products = instr->kind == OP_ATTENTION ? 2 : 5;
    return fake->call_s + products * pairs / fake->attention_flop_per_s;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fabs(b) + 1e-15;
}

static bool is_kernel(const struct instr *instr)
{
    if (instr->collective != COLLECTIVE_NONE || instr->ragged) return false;
    bool attends = instr->kind == OP_ATTENTION || instr->kind == OP_ATTENTION_BACKWARD;
    return instr->kind == OP_CONTRACT || (attends && instr->seq == instr->kv_seq);
}

static void check_shapes(const struct measured *of, bool is_host, const struct script_case *drawn)
{
    int wanted = 0, found = 0;
    for (int b = 0; b < of->program->block_count; b++) {
        for (int i = 0; i < of->program->blocks[b]->instr_count; i++)
            wanted += is_kernel(&of->program->blocks[b]->instrs[i]);
    }
    for (int i = 0; i < of->calibration.kernel_count; i++) {
        const struct calibrate_kernel *row = &of->calibration.kernels[i];
        if (!row->of_plan) continue;
        found++;
        if (is_near(row->s, expected_s(row->instr, is_host))) continue;
        script_case_print(drawn);
        fail_msg("%s took %g s where its shape says %g",
                 row->program->block->ops[row->instr->op].name, row->s,
                 expected_s(row->instr, is_host));
    }
    assert_int_equal(found, wanted);
}

// Every product and attention of the plan costs what was measured of its shape.
static void check_prices(struct arena *arena, const struct measured *of,
                         const struct script_case *drawn)
{
    int wanted = 0;
    double measured_s = 0, predicted_s = 0;
    for (int i = 0; i < of->calibration.kernel_count; i++) {
        const struct calibrate_kernel *row = &of->calibration.kernels[i];
        struct kernel shape;
        if (!row->of_plan || !measured_shape(&of->context, row->program, row->instr, &shape))
            continue;
        struct compute_cost cost = compute_price(&of->context, row->program, row->instr);
        assert_non_null(cost.measured);
        wanted++;
        // No kernel is priced above the peak, however fast it was measured.
        const struct device *device = of->machine.device;
        double peak = device->peak_flop_per_s[of->context.precision];
        double least_s = (double)row->instr->flop / peak + device->launch_latency_s;
        measured_s += fmax(row->s / of->share, least_s);
        predicted_s += cost.s;
    }
    // No row of a table is shorter than a nanosecond, as some of these are on a device.
    double slack_s = of->machine.device->multiprocessor_count > 1 ? 1e-9 * wanted : 0;
    if (!is_near(predicted_s, measured_s) && fabs(predicted_s - measured_s) > slack_s) {
        script_case_print(drawn);
        fail_msg("%g s predicted, %g s measured", predicted_s, measured_s);
    }
    struct measured_use use = measured_use_of(arena, &of->context, of->program);
    assert_int_equal(use.price_count, wanted);
}

static void a_plan_is_priced_as_it_was_measured(bool is_host, int rank_count, uint64_t seed)
{
    struct draw draw = draw_start("calibrate plan", seed);
    int done = 0;
    for (int i = 0; done < script_case_count(12); i++) {
        struct arena arena = {0};
        struct script_case drawn;
        if (script_case_draw(&arena, &draw, &drawn)) {
            struct measured measured = {0};
            measure(&arena, &drawn, is_host, rank_count, &measured);
            check_shapes(&measured, is_host, &drawn);
            check_prices(&arena, &measured, &drawn);
            done++;
        }
        arena_free(&arena);
    }
}

static void a_plan_on_a_host_is_priced_as_it_was_measured(void **state)
{
    (void)state;
    a_plan_is_priced_as_it_was_measured(true, 1, 71);
}

static void a_plan_on_a_device_is_priced_as_it_was_measured(void **state)
{
    (void)state;
    a_plan_is_priced_as_it_was_measured(false, 1, 72);
}

static void ranks_that_share_a_core_take_as_much_longer(void **state)
{
    (void)state;
    a_plan_is_priced_as_it_was_measured(true, 8, 73);
}

static void a_table_is_of_what_is_always_measured_without_a_plan(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct fake_machine fake = FAKE_PROCESSOR;
    struct calibration calibration;
    fake_machine_use(&fake);
    struct calibrate_request request = fake_machine_request(&fake);
    request.is_short = true;
    assert_true(calibrate(arena, &request, &calibration, &err));
    const struct machine_facts facts = {.processor = "a processor",
                                        .libraries = "a library",
                                        .date = "2026-11-21",
                                        .version = "0",
                                        .core_count = 2};
    const struct stack *stack = stack_load(arena, "meshwright-cpu", &err);
    struct machine machine =
        machine_make(arena, &calibration, &facts, stack, fabrics_load(arena, &err));
    const struct kernel_table *table = machine.kernels;
    assert_string_equal(table->device, "local-cpu");
    assert_string_equal(table->software, "a library");
    assert_non_null(strstr(table->provenance[0].source, "2026-11-21, a processor"));
    // What is written is read again: no two rows of one shape, none without a time.
    struct json_writer writer = {.arena = arena};
    kernels_write(&writer, NULL, table);
    struct json_document document;
    assert_true(json_parse(arena, "kernels", writer.text, strlen(writer.text), &document, &err));
    struct json root = json_root(&document);
    struct kernel_table *again = kernels_read(arena, &root, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(again->row_count, table->row_count);
    assert_true(table->row_count > 20);
    assert_true(again->flop_per_s_most == table->flop_per_s_most);
    assert_true(table->flop_per_s_most < FAKE_PROCESSOR.gemm_flop_per_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_on_a_host_is_priced_as_it_was_measured),
        cmocka_unit_test(a_plan_on_a_device_is_priced_as_it_was_measured),
        cmocka_unit_test(ranks_that_share_a_core_take_as_much_longer),
        cmocka_unit_test(a_table_is_of_what_is_always_measured_without_a_plan),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
