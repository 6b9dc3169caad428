#include "reports/machine/machine_parts.h"

#include "cost_models/measured.h"
#include "topologies/provenance.h"

#include <assert.h>
#include <math.h>

// The measured products and attention by shape, as a table of kernels (topologies/kernels.h).

// Rows of one shape, added up.
struct shape_sum {
    struct kernel *row;
    const struct calibrate_kernel *first;  // that was measured
    int count;
};

static struct compute_context context_of(const struct device *device, const struct stack *stack,
                                         const struct calibrate_kernel *measured)
{
    return (struct compute_context){
        .device = device, .stack = stack, .precision = measured->precision};
}

static struct shape_sum *find(struct shape_sum *sums, int count, const struct kernel *shape)
{
    for (int i = 0; i < count; i++) {
        if (kernel_same_shape(sums[i].row, shape)) return &sums[i];
    }
    return NULL;
}

// Those of the plan first: where it has a shape, others that look like it do not count.
static int add_rows(const struct machine *machine, const struct calibration *calibration,
                    bool of_plan, struct kernel_table *table, struct shape_sum *sums)
{
    int before = table->row_count;
    for (int i = 0; i < calibration->kernel_count; i++) {
        const struct calibrate_kernel *measured = &calibration->kernels[i];
        if (measured->of_plan != of_plan || measured->s <= 0) continue;
        // A group is not a GEMM's alone, but for several that are one.
        const struct instr *first = measured->instr;
        if (first->joined && first[1].join != JOIN_MERGED) continue;
        struct kernel shape = {0};
        struct compute_context context = context_of(machine->device, machine->stack, measured);
        if (!measured_shape(&context, measured->program, measured->instr, &shape)) continue;
        struct shape_sum *sum = find(sums, table->row_count, &shape);
        if (sum && sum - sums < before) continue;
        if (!sum) {
            sum = &sums[table->row_count];
            *sum = (struct shape_sum){&table->rows[table->row_count++], measured, 0};
            *sum->row = shape;
        }
        sum->row->s += measured->s;
        sum->count++;
    }
    return table->row_count;
}

// A price is the row's seconds over a scale and what stands beside them: the gap, the quantising of
// operands. The seconds with which the model's price is what was measured; `device` has the table.
static double solve(const struct device *device, const struct stack *stack,
                    const struct shape_sum *sum, double measured_s)
{
    static const double LEAST_S = 1e-9;
    const struct calibrate_kernel *first = sum->first;
    struct compute_context context = context_of(device, stack, first);
    sum->row->s = measured_s;
    double once_s = compute_price(&context, first->program, first->instr).s;
    sum->row->s = 2 * measured_s;
    double twice_s = compute_price(&context, first->program, first->instr).s;
    double scaled_s = twice_s - once_s, beside_s = once_s - scaled_s;
    return fmax((measured_s - beside_s) * measured_s / scaled_s, LEAST_S);
}

static void put_provenance(struct arena *arena, const char *measured, struct kernel_table *table)
{
    table->provenance = ARENA_NEW(arena, struct provenance, 2);
    table->provenance[table->provenance_count++] = (struct provenance){
        .key = "rows",
        .kind = PROVENANCE_MEASURED,
        .source = arena_print(arena,
                              "between the other operators of a block, without the gap before "
                              "each; %s",
                              measured),
    };
    if (table->choice_count == 0) return;
    table->provenance[table->provenance_count++] = (struct provenance){
        .key = "choices",
        .kind = PROVENANCE_MEASURED,
        .source = arena_print(arena, "the fastest of three calls by each algorithm; %s", measured),
    };
}

struct kernel_table *machine_kernels(struct arena *arena, const struct machine *machine,
                                     const struct calibration *calibration,
                                     const struct machine_facts *facts, const char *measured)
{
    struct kernel_table *table = ARENA_NEW(arena, struct kernel_table, 1);
    const struct device *own = machine->cluster->nodes[0].device;
    const char *driver = facts->device ? facts->device->driver : "";
    *table = (struct kernel_table){
        .name = "local",
        .device = own->name,
        .date = facts->date,
        .software = *driver ? arena_print(arena, "%s, driver %s", facts->libraries, driver)
                            : facts->libraries,
        .rows = ARENA_NEW(arena, struct kernel, calibration->kernel_count),
        .choices = calibration->choices,
        .choice_count = calibration->choice_count,
    };
    struct shape_sum *sums = ARENA_NEW(arena, struct shape_sum, calibration->kernel_count);
    add_rows(machine, calibration, true, table, sums);
    if (add_rows(machine, calibration, false, table, sums) == 0) return NULL;
    int twice = kernels_index(arena, table);
    assert(twice < 0);  // every shape is looked for before it is added
    struct device *device = device_copy(arena, own);
    device->kernels = table;
    double share = machine_share(calibration, facts);
    for (int i = 0; i < table->row_count; i++) {
        double measured_s = sums[i].row->s / sums[i].count / share;
        sums[i].row->s = solve(device, machine->stack, &sums[i], measured_s);
    }
    twice = kernels_index(arena, table);
    assert(twice < 0);
    (void)twice;
    put_provenance(arena, measured, table);
    return table;
}
