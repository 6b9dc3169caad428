#include "reports/machine/machine.h"

#include "core/table.h"
#include "core/units.h"
#include "models/op.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *const PHASES[PHASE_COUNT] = {"forward", "backward", "weight"};

// What the model says over what was measured.
static const char *ratio_text(struct arena *arena, double predicted_s, double measured_s)
{
    return measured_s > 0 ? arena_print(arena, "%.2f", predicted_s / measured_s) : "-";
}

static const char *shape_text(struct arena *arena, const struct instr *instr)
{
    if (instr->kind == OP_CONTRACT) {
        const struct gemm *gemm = &instr->gemm;
        return arena_print(arena, "%lld x %lld x %lld", (long long)gemm->m, (long long)gemm->n,
                           (long long)gemm->k);
    }
    if (instr->heads > 0) {
        return arena_print(arena, "%lld heads of %lld, %lld tokens", (long long)instr->heads,
                           (long long)instr->head_dim, (long long)instr->seq);
    }
    return units_bytes(arena, (double)instr->read_bytes + (double)instr->write_bytes);
}

static const char *rate_text(struct arena *arena, double flop, double bytes, double s)
{
    assert(flop >= 0 && bytes >= 0);
    if (s <= 0) return "-";
    return flop > 0 ? units_flop_per_s(arena, flop / s) : units_bytes_per_s(arena, bytes / s);
}

// Of other operators the bytes say how fast they are.
static bool counts_flop(enum op_kind kind)
{
    return kind == OP_CONTRACT || kind == OP_ATTENTION || kind == OP_ATTENTION_BACKWARD;
}

// Rows of one operator, phase and precision, added up.
struct summed {
    enum op_kind kind;
    enum phase phase;
    enum precision precision;
};

static const char *summed_name(struct arena *arena, const struct summed *of, bool has_many)
{
    const char *name = arena_print(arena, "%s, %s", op_rule(of->kind)->name, PHASES[of->phase]);
    return has_many ? arena_print(arena, "%s, %s", name, precision_name(of->precision)) : name;
}

static void put_kind(struct table *table, const struct machine *machine,
                     const struct calibration *calibration, const struct summed *of, bool has_many)
{
    double measured_s = 0, predicted_s = 0, flop = 0, bytes = 0;
    int count = 0;
    for (int i = 0; i < calibration->kernel_count; i++) {
        const struct calibrate_kernel *row = &calibration->kernels[i];
        if (row->instr->kind != of->kind || row->instr->phase != of->phase) continue;
        if (row->precision != of->precision) continue;
        measured_s += row->s;
        predicted_s += machine_kernel_s(machine, row);
        if (counts_flop(of->kind)) flop += calibrate_flop(row);
        bytes += calibrate_bytes(row);
        count++;
    }
    if (count == 0) return;
    struct arena *arena = table->arena;
    const char *cells[] = {summed_name(arena, of, has_many), arena_print(arena, "%d", count),
                           units_seconds(arena, measured_s),
                           rate_text(arena, flop, bytes, measured_s),
                           ratio_text(arena, predicted_s, measured_s)};
    table_row(table, cells);
}

static void put_row(struct table *table, const struct machine *machine,
                    const struct calibrate_kernel *row, bool has_many)
{
    struct arena *arena = table->arena;
    const struct instr *instr = row->instr;
    double bytes = calibrate_bytes(row);
    const char *name = arena_print(arena, "%s, %s", row->program->block->ops[instr->op].name,
                                   PHASES[instr->phase]);
    if (has_many) name = arena_print(arena, "%s, %s", name, precision_name(row->precision));
    const char *cells[] = {
        name, shape_text(arena, instr), units_seconds(arena, row->s),
        rate_text(arena, counts_flop(instr->kind) ? calibrate_flop(row) : 0, bytes, row->s),
        ratio_text(arena, machine_kernel_s(machine, row), row->s)};
    table_row(table, cells);
}

static bool has_many_precisions(const struct calibration *calibration)
{
    for (int i = 0; i < calibration->kernel_count; i++) {
        if (calibration->kernels[i].precision != calibration->precision) return true;
    }
    return false;
}

static void put_kernels(struct table *table, const struct machine *machine,
                        const struct calibration *calibration, bool is_long)
{
    bool has_many = has_many_precisions(calibration);
    for (int i = 0; is_long && i < calibration->kernel_count; i++)
        put_row(table, machine, &calibration->kernels[i], has_many);
    for (int i = 0; !is_long && i < PRECISION_COUNT * OP_KIND_COUNT * PHASE_COUNT; i++) {
        const struct summed of = {(enum op_kind)(i / PHASE_COUNT % OP_KIND_COUNT),
                                  (enum phase)(i % PHASE_COUNT),
                                  (enum precision)(i / PHASE_COUNT / OP_KIND_COUNT)};
        put_kind(table, machine, calibration, &of, has_many);
    }
}

static int by_kind_and_size(const void *a, const void *b)
{
    const struct calibrate_collective *x = a, *y = b;
    if (x->collective != y->collective) return x->collective < y->collective ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static void put_exchanges(struct table *table, const struct machine *machine,
                          const struct calibration *calibration, const struct fabrics *fabrics)
{
    assert(calibration->collective_count >= 0);
    struct arena *arena = table->arena;
    int count = calibration->collective_count;
    struct calibrate_collective *rows =
        ARENA_COPY(arena, struct calibrate_collective, calibration->collectives, count);
    qsort(rows, (size_t)count, sizeof *rows, by_kind_and_size);
    for (int i = 0; i < count; i++) {
        const struct calibrate_collective *row = &rows[i];
        const char *cells[] = {
            collective_name(row->collective), units_bytes(arena, (double)row->bytes),
            units_seconds(arena, row->s), rate_text(arena, 0, (double)row->bytes, row->s),
            ratio_text(arena, machine_exchange_s(machine, fabrics, row), row->s)};
        table_row(table, cells);
    }
}

static const char *where_text(struct arena *arena, const struct calibration *calibration,
                              const struct machine_facts *facts)
{
    assert(calibration->rank_count > 0 && calibration->round_count > 0);
    const struct backend_device_facts *gpu = facts->device;
    int units = gpu ? gpu->device_count : facts->core_count;
    const char *bound =
        facts->is_bound ? ", each bound to its own" : ", not bound: more ranks than cores";
    bool is_said = facts->transport && calibration->rank_count > 1;
    const char *over = is_said ? arena_print(arena, ", over %s", facts->transport) : "";
    return arena_print(arena, "%s, %s\n%d rank%s on %d %s%s%s%s; median of %d round%s in %s\n",
                       gpu ? gpu->name : facts->processor, facts->libraries,
                       calibration->rank_count, calibration->rank_count == 1 ? "" : "s", units,
                       gpu ? "device" : "core", units == 1 ? "" : "s", gpu ? "" : bound, over,
                       calibration->round_count, calibration->round_count == 1 ? "" : "s",
                       units_seconds(arena, calibration->taken_s));
}

static const char *rates_text(struct arena *arena, const struct machine *machine,
                              const struct calibration *calibration)
{
    const struct device *device = machine->device;
    const struct device_efficiency *efficiency = &device->efficiency;
    enum precision precision = calibration->precision;
    const char *host = "";
    if (calibration->host_call_s > 0) {
        host = arena_print(arena, "; the host makes one in %s; %s to the host, %s from it",
                           units_seconds(arena, calibration->host_call_s),
                           units_bytes_per_s(arena, calibration->to_host_bytes_per_s),
                           units_bytes_per_s(arena, calibration->from_host_bytes_per_s));
    }
    return arena_print(
        arena,
        "A rank: %s at most, %.0f %% of it in long GEMMs, %.0f and %.0f %% in attention; "
        "%s copied, %s a call%s\n",
        units_flop_per_s(arena, device->peak_flop_per_s[precision]),
        100 * efficiency->gemm_ratio[precision], 100 * efficiency->attention_forward_ratio,
        100 * efficiency->attention_backward_ratio,
        units_bytes_per_s(arena, calibration->copy_bytes_per_s),
        units_seconds(arena, calibration->call_s), host);
}

char *machine_text(struct arena *arena, const struct machine *machine,
                   const struct calibration *calibration, const struct machine_facts *facts,
                   const struct fabrics *fabrics, bool is_long)
{
    const char *const header[] = {"what", is_long ? "shape" : "rows", "measured", "rate",
                                  "model/measured"};
    struct table table = table_new(arena, "lrrrr");
    table_row(&table, header);
    put_kernels(&table, machine, calibration, is_long);
    const struct compute_context context = {
        .device = machine->device, .stack = machine->stack, .precision = calibration->precision};
    double elements = (double)calibration->update_elements;
    double walked_bytes = update_bytes(&context, OPTIMIZER_ADAMW, elements);
    const char *update[] = {
        "adamw and its norm", arena_print(arena, "%lld", (long long)calibration->update_elements),
        units_seconds(arena, calibration->update_s),
        rate_text(arena, 0, walked_bytes, calibration->update_s),
        ratio_text(arena, update_s(&context, OPTIMIZER_ADAMW, elements), calibration->update_s)};
    table_row(&table, update);
    put_exchanges(&table, machine, calibration, fabrics);
    return arena_print(arena, "%s\n%s%s", table_text(&table), where_text(arena, calibration, facts),
                       rates_text(arena, machine, calibration));
}
