#include "reports/machine.h"

#include "core/table.h"
#include "core/units.h"
#include "models/op.h"

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
    if (s <= 0) return "-";
    return flop > 0 ? units_flop_per_s(arena, flop / s) : units_bytes_per_s(arena, bytes / s);
}

static bool counts_flop(enum op_kind kind)
{
    return kind == OP_CONTRACT || kind == OP_ATTENTION || kind == OP_ATTENTION_BACKWARD;
}

// Rows of one operator and phase, added up.
static void put_kind(struct table *table, const struct machine *machine,
                     const struct calibration *calibration, enum op_kind kind, enum phase phase)
{
    double measured_s = 0, predicted_s = 0, flop = 0, bytes = 0;
    int count = 0;
    for (int i = 0; i < calibration->kernel_count; i++) {
        const struct calibrate_kernel *row = &calibration->kernels[i];
        if (row->instr->kind != kind || row->instr->phase != phase) continue;
        measured_s += row->s;
        predicted_s += machine_kernel_s(machine, row);
        if (counts_flop(kind)) flop += row->instr->flop;
        bytes += (double)row->instr->read_bytes + (double)row->instr->write_bytes;
        count++;
    }
    if (count == 0) return;
    struct arena *arena = table->arena;
    const char *cells[] = {arena_print(arena, "%s, %s", op_rule(kind)->name, PHASES[phase]),
                           arena_print(arena, "%d", count), units_seconds(arena, measured_s),
                           rate_text(arena, flop, bytes, measured_s),
                           ratio_text(arena, predicted_s, measured_s)};
    table_row(table, cells);
}

static void put_row(struct table *table, const struct machine *machine,
                    const struct calibrate_kernel *row)
{
    struct arena *arena = table->arena;
    const struct instr *instr = row->instr;
    double bytes = (double)instr->read_bytes + (double)instr->write_bytes;
    const char *cells[] = {
        arena_print(arena, "%s, %s", row->program->block->ops[instr->op].name,
                    PHASES[instr->phase]),
        shape_text(arena, instr), units_seconds(arena, row->s),
        rate_text(arena, counts_flop(instr->kind) ? instr->flop : 0, bytes, row->s),
        ratio_text(arena, machine_kernel_s(machine, row), row->s)};
    table_row(table, cells);
}

static void put_kernels(struct table *table, const struct machine *machine,
                        const struct calibration *calibration, bool is_long)
{
    for (int i = 0; is_long && i < calibration->kernel_count; i++)
        put_row(table, machine, &calibration->kernels[i]);
    for (int kind = 0; !is_long && kind < OP_KIND_COUNT; kind++) {
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            put_kind(table, machine, calibration, (enum op_kind)kind, (enum phase)phase);
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
    struct arena *arena = table->arena;
    int count = calibration->collective_count;
    struct calibrate_collective *rows = ARENA_NEW(arena, struct calibrate_collective, count);
    if (count > 0) memcpy(rows, calibration->collectives, (size_t)count * sizeof *rows);
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
        .device = machine->device, .stack = machine->stack, .precision = PRECISION_FP32};
    double elements = (double)calibration->update_elements;
    double walked_bytes = update_bytes(&context, OPTIMIZER_ADAMW, elements);
    const char *update[] = {
        "adamw and its norm", arena_print(arena, "%lld", (long long)calibration->update_elements),
        units_seconds(arena, calibration->update_s),
        rate_text(arena, 0, walked_bytes, calibration->update_s),
        ratio_text(arena, update_s(&context, OPTIMIZER_ADAMW, elements), calibration->update_s)};
    table_row(&table, update);
    put_exchanges(&table, machine, calibration, fabrics);
    const struct device *device = machine->device;
    const struct device_efficiency *efficiency = &device->efficiency;
    return arena_print(
        arena,
        "%s\n%s, %s\n%d rank%s on %d core%s, %s; median of %d round%s in %s\n"
        "A rank: %s at most, %.0f %% of it in long matrix products, %.0f and %.0f %% in attention; "
        "%s copied, %s a call\n",
        table_text(&table), facts->processor, facts->libraries, calibration->rank_count,
        calibration->rank_count == 1 ? "" : "s", facts->core_count,
        facts->core_count == 1 ? "" : "s",
        facts->is_bound ? "each bound to its own" : "not bound: more ranks than cores",
        calibration->round_count, calibration->round_count == 1 ? "" : "s",
        units_seconds(arena, calibration->taken_s),
        units_flop_per_s(arena, device->peak_flop_per_s[PRECISION_FP32]),
        100 * efficiency->gemm_ratio[PRECISION_FP32], 100 * efficiency->attention_forward_ratio,
        100 * efficiency->attention_backward_ratio,
        units_bytes_per_s(arena, calibration->copy_bytes_per_s),
        units_seconds(arena, calibration->call_s));
}
