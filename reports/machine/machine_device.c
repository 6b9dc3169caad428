#include "reports/machine/machine_parts.h"
#include "topologies/provenance.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// The device of a machine: what its rows say of peak rates, and what is reached of them.

enum machine_kind machine_class(const struct calibrate_kernel *row)
{
    switch (row->instr->kind) {
    case OP_CONTRACT:
        return MACHINE_GEMM;
    case OP_ATTENTION:
    case OP_ATTENTION_BACKWARD:
        return MACHINE_ATTENTION;
    default:
        return MACHINE_MEMORY;
    }
}

double machine_price_s(const struct device *device, const struct stack *stack,
                       const struct calibrate_kernel *row)
{
    const struct compute_context context = {
        .device = device, .stack = stack, .precision = row->precision};
    return compute_price(&context, row->program, row->instr).s;
}

// Rows that a constant is fitted to: those of a class and a precision, and of one operator where
// `kind` is one.
struct device_rows {
    const struct calibration *calibration;
    enum machine_kind class;
    enum precision precision;
    int kind;  // enum op_kind; -1: all of the class
};

static bool is_in(const struct device_rows *rows, const struct calibrate_kernel *row)
{
    bool is_kind = rows->kind < 0 || rows->kind == (int)row->instr->kind;
    return is_kind && row->precision == rows->precision && machine_class(row) == rows->class &&
           row->s > 0;
}

// The factor on a rate, or on bytes, at which the rows take as long in sum as measured. Long rows
// weigh more: they are most of a step.
static double sum_ratio(const struct device_rows *rows, const struct device *device,
                        const struct stack *stack)
{
    double measured_s = 0, predicted_s = 0;
    for (int i = 0; i < rows->calibration->kernel_count; i++) {
        const struct calibrate_kernel *row = &rows->calibration->kernels[i];
        if (!is_in(rows, row)) continue;
        measured_s += row->s;
        predicted_s += machine_price_s(device, stack, row);
    }
    return predicted_s > 0 && measured_s > 0 ? measured_s / predicted_s : 1;
}

// Squared logarithm of predicted over measured, a row weighed by the root of its time: a step is
// made of long rows, and short ones shall not be forgotten. What costs nothing because another row
// is said to do it is no misfit.
static double misfit(const struct device_rows *rows, const struct device *device,
                     const struct stack *stack)
{
    double sum = 0, weights = 0;
    for (int i = 0; i < rows->calibration->kernel_count; i++) {
        const struct calibrate_kernel *row = &rows->calibration->kernels[i];
        if (!is_in(rows, row)) continue;
        double predicted_s = machine_price_s(device, stack, row);
        if (predicted_s <= 0) continue;
        double error = log(predicted_s / row->s), weight = sqrt(row->s);
        sum += weight * error * error;
        weights += weight;
    }
    return weights > 0 ? sum / weights : 0;
}

static double clamp(double value, double low, double high)
{
    assert(low <= high);
    return fmin(fmax(value, low), high);
}

// A rate that scales the rows' time, by rounds: next to it stand gaps and memory, which do not.
enum { SCALE_ROUNDS = 12 };
static void fit_rate(double *rate, double low, double high, const struct device_rows *rows,
                     const struct device *device, const struct stack *stack)
{
    assert(low > 0 && *rate > 0);
    for (int i = 0; i < SCALE_ROUNDS; i++)
        *rate = clamp(*rate / sum_ratio(rows, device, stack), low, high);
}

// While it is fitted a rate has room above: what a processor could do at most is not known.
static const double ROOM = 16;

// 0: nothing was measured in this precision.
static double best_flop_per_s(const struct calibration *calibration, enum precision precision)
{
    double best = 0;
    for (int i = 0; i < calibration->kernel_count; i++) {
        const struct calibrate_kernel *row = &calibration->kernels[i];
        bool counts = machine_class(row) == MACHINE_GEMM && row->precision == precision;
        double flop = calibrate_flop(row);
        if (counts && row->s > 0) best = fmax(best, flop / row->s);
    }
    return best;
}

// What is tried for each constant of a formula's shape. On a host no tiles share anything.
struct choices {
    const double *values;
    int count;
};
#define CHOICES(...)                                                      \
    {                                                                     \
        (const double[]){__VA_ARGS__},                                    \
            (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)) \
    }
struct device_shape {
    struct choices ramps, smooths, tile_exponents, halves;
};
static const struct device_shape HOST_SHAPE = {
    .ramps = CHOICES(0, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256),
    .smooths = CHOICES(1),
    .tile_exponents = CHOICES(0),
    .halves = CHOICES(0, 8, 16, 32, 64, 96, 128, 192, 256),
};
static const struct device_shape GPU_SHAPE = {
    .ramps = CHOICES(0, 40, 80, 120, 200, 320),
    .smooths = CHOICES(0.3, 0.6, 1),
    .tile_exponents = CHOICES(0, 0.2, 0.4),
    .halves = CHOICES(0, 50, 100, 150, 250, 350, 500, 800),
};

// The rate of long products in every precision with this shape, and how far all are off.
static double fit_gemm_rates(const struct calibration *calibration, struct device *device,
                             const struct stack *stack)
{
    double sum = 0;
    for (int p = 0; p < PRECISION_COUNT; p++) {
        const struct device_rows rows = {calibration, MACHINE_GEMM, (enum precision)p, -1};
        if (device->peak_flop_per_s[p] <= 0) continue;
        fit_rate(&device->efficiency.gemm_ratio[p], DEVICE_RATIO_LOW, 1, &rows, device, stack);
        sum += misfit(&rows, device, stack);
    }
    return sum;
}

// How much a short sum over k costs beside its length, how tiles and their waves do, and the rates.
static void fit_gemm(const struct calibration *calibration, const struct device_shape *shape,
                     struct device *device, const struct stack *stack)
{
    struct device_efficiency *efficiency = &device->efficiency, best = *efficiency;
    double least = INFINITY;
    int smooths = shape->smooths.count, exponents = shape->tile_exponents.count;
    assert(shape->ramps.count > 0 && smooths > 0 && exponents > 0);
    for (int i = 0; i < shape->ramps.count * smooths * exponents; i++) {
        efficiency->gemm_k_ramp = shape->ramps.values[i / (smooths * exponents)];
        efficiency->gemm_wave_smooth_ratio = shape->smooths.values[i / exponents % smooths];
        efficiency->gemm_tile_exponent = shape->tile_exponents.values[i % exponents];
        double found = fit_gemm_rates(calibration, device, stack);
        if (found >= least) continue;
        least = found;
        best = *efficiency;
    }
    *efficiency = best;
}

// The length at half the rate is one for both directions, their rates are two.
static void fit_attention(const struct calibration *calibration, const struct device_shape *shape,
                          struct device *device, const struct stack *stack)
{
    enum precision precision = calibration->precision;
    const struct device_rows forward = {calibration, MACHINE_ATTENTION, precision, OP_ATTENTION};
    const struct device_rows backward = {calibration, MACHINE_ATTENTION, precision,
                                         OP_ATTENTION_BACKWARD};
    struct device_efficiency *efficiency = &device->efficiency, best = *efficiency;
    double least = INFINITY;
    for (int i = 0; i < shape->halves.count; i++) {
        efficiency->attention_half_seq = shape->halves.values[i];
        fit_rate(&efficiency->attention_forward_ratio, DEVICE_RATIO_LOW, 1, &forward, device,
                 stack);
        fit_rate(&efficiency->attention_backward_ratio, DEVICE_RATIO_LOW, 1, &backward, device,
                 stack);
        double found = misfit(&forward, device, stack) + misfit(&backward, device, stack);
        if (found >= least) continue;
        least = found;
        best = *efficiency;
    }
    *efficiency = best;
}

// The update walks through memory; what other operators cost beside that is the stack's scale.
static void set_memory(const struct calibration *calibration, struct device *device,
                       const struct stack *stack)
{
    device->memory_bandwidth_bytes_per_s = fmax(calibration->copy_bytes_per_s, 1);
    device->efficiency.memory_ratio = 1;
    const struct compute_context context = {
        .device = device, .stack = stack, .precision = calibration->precision};
    double bytes = update_bytes(&context, OPTIMIZER_ADAMW, (double)calibration->update_elements);
    if (calibration->update_s <= 0) return;
    double rate = bytes / calibration->update_s;
    device->memory_bandwidth_bytes_per_s = fmax(device->memory_bandwidth_bytes_per_s, rate);
    device->efficiency.memory_ratio =
        clamp(rate / device->memory_bandwidth_bytes_per_s, DEVICE_RATIO_LOW, 1);
}

static const double SCALE_LOW = 0.05, SCALE_HIGH = 4;  // of a stack

// What is beside the update scales alone: memory and gaps are settled before.
static void fit_elements(const struct calibration *calibration, const struct device *device,
                         struct stack *stack)
{
    const struct device_rows rows = {calibration, MACHINE_MEMORY, calibration->precision, -1};
    for (int i = 0; i < SCALE_ROUNDS; i++) {
        double ratio = sum_ratio(&rows, device, stack);
        stack->element_wise_scale = clamp(stack->element_wise_scale * ratio, SCALE_LOW, SCALE_HIGH);
    }
}

// The peak is that of the data sheet, where it is known, so that shares of it are those that others
// state; else the fastest that anything ran. The ratios are of that.
static void settle_peak(const struct calibration *calibration, const struct device *like,
                        struct device *device, enum precision precision)
{
    struct device_efficiency *efficiency = &device->efficiency;
    double room = device->peak_flop_per_s[precision];
    double peak = best_flop_per_s(calibration, precision);
    bool has_attention = precision == calibration->precision;
    double *ratios[] = {&efficiency->gemm_ratio[precision], &efficiency->attention_forward_ratio,
                        &efficiency->attention_backward_ratio};
    size_t count = has_attention ? sizeof ratios / sizeof *ratios : 1;
    for (size_t i = 0; i < count; i++)
        peak = fmax(peak, *ratios[i] * room);
    if (like && like->peak_flop_per_s[precision] > 0) peak = like->peak_flop_per_s[precision];
    for (size_t i = 0; i < count; i++)
        *ratios[i] = clamp(*ratios[i] * room / peak, DEVICE_RATIO_LOW, 1);
    assert(peak > 0);
    device->peak_flop_per_s[precision] = peak;
}

static const struct provenance COMMON_ROWS[] = {
    {"memory_bandwidth_bytes_per_s", PROVENANCE_MEASURED, "copy, read and written; ", 0, 0},
    {"launch_latency_s", PROVENANCE_MEASURED, "a sum of eight numbers; ", 0, 0},
    {"efficiency", PROVENANCE_MEASURED, "fitted to operators of layers, forward and backward; ", 0,
     0},
    {"efficiency.gemm_memory_ratio", PROVENANCE_ESTIMATED, "as memory_ratio; ", 0, 0},
};
static const struct provenance HOST_ROWS[] = {
    {"peak_flop_per_s", PROVENANCE_MEASURED, "the fastest GEMM; ", 0, 0},
    {"memory_bytes", PROVENANCE_MEASURED, "memory of the host over its ranks; ", 0, 0},
    {"multiprocessor_count", PROVENANCE_MEASURED, "a rank has one thread; ", 0, 0},
    {"cache_bytes", PROVENANCE_MEASURED, "last level, as the system says; ", 0, 0},
    {"efficiency.gemm_tile_exponent", PROVENANCE_ESTIMATED, "0: no tiles share anything; ", 0, 0},
    {"efficiency.gemm_wave_smooth_ratio", PROVENANCE_ESTIMATED, "1: tiles in turn; ", 0, 0},
};
static const struct provenance GPU_ROWS[] = {
    {"memory_bytes", PROVENANCE_MEASURED, "as the driver says; ", 0, 0},
    {"multiprocessor_count", PROVENANCE_MEASURED, "as the driver says; ", 0, 0},
    {"cache_bytes", PROVENANCE_MEASURED, "as the driver says; ", 0, 0},
    {"exponential_per_s", PROVENANCE_PUBLISHED,
     "16 results a clock and multiprocessor (CUDA C++ programming guide, throughput of native "
     "arithmetic instructions) at the clock that the driver says; ",
     0, 0},
    {"efficiency.attention_tail_ratio", PROVENANCE_ESTIMATED,
     "as B200, whose kernels too start the longest blocks first; ", 0, 0},
};
static const struct provenance LIKE_PEAK = {"peak_flop_per_s", PROVENANCE_DATASHEET, "", 0, 0};

static void put_rows(struct arena *arena, struct device *device, const struct provenance *rows,
                     size_t count, const char *measured)
{
    for (size_t i = 0; i < count; i++) {
        bool is_known = strcmp(rows[i].key, "exponential_per_s") != 0;
        if (!is_known && device->exponential_per_s <= 0) continue;
        struct provenance *made = &device->provenance[device->provenance_count++];
        *made = rows[i];
        made->source = arena_print(arena, "%s%s", rows[i].source, measured);
    }
}

static void put_provenance(struct arena *arena, const struct machine_facts *facts,
                           struct device *device, const char *measured)
{
    enum { COMMON = sizeof COMMON_ROWS / sizeof *COMMON_ROWS, ROWS_MAX = 16 };
    device->provenance = ARENA_NEW(arena, struct provenance, ROWS_MAX);
    put_rows(arena, device, COMMON_ROWS, COMMON, measured);
    if (!facts->device) {
        put_rows(arena, device, HOST_ROWS, sizeof HOST_ROWS / sizeof *HOST_ROWS, measured);
        return;
    }
    put_rows(arena, device, GPU_ROWS, sizeof GPU_ROWS / sizeof *GPU_ROWS, measured);
    if (!facts->like) {
        put_rows(arena, device, HOST_ROWS, 1, measured);
        return;
    }
    put_rows(arena, device, &LIKE_PEAK, 1, arena_print(arena, "as %s", facts->like->name));
    if (facts->like->busy_power_w <= 0) return;
    struct provenance power = {"busy_power_w", PROVENANCE_DATASHEET, "", 0, 0};
    put_rows(arena, device, &power, 1, arena_print(arena, "as %s", facts->like->name));
}

static struct device *start_device(struct arena *arena, const struct calibration *calibration,
                                   const struct machine_facts *facts)
{
    assert(calibration->rank_count > 0);
    struct device *device = ARENA_NEW(arena, struct device, 1);
    const struct backend_device_facts *gpu = facts->device;
    *device = (struct device){
        .name = gpu ? "local-gpu" : "local-cpu",
        .kind = gpu ? "gpu" : "cpu",
        .memory_bytes = gpu ? gpu->memory_bytes : facts->memory_bytes / calibration->rank_count,
        .multiprocessor_count = gpu ? gpu->multiprocessor_count : 1,
        .cache_bytes = gpu ? gpu->cache_bytes : facts->cache_bytes,
        .exponential_per_s = gpu ? gpu->exponential_per_s : 0,
        .launch_latency_s = calibration->call_s,
        .busy_power_w = facts->like ? facts->like->busy_power_w : 0,
        .efficiency = {.attention_forward_ratio = 0.5 / ROOM,
                       .attention_backward_ratio = 0.5 / ROOM,
                       .attention_tail_ratio = gpu ? 0.5 : 0},
    };
    for (int p = 0; p < PRECISION_COUNT; p++) {
        double best = best_flop_per_s(calibration, (enum precision)p);
        if (p == (int)calibration->precision) best = fmax(best, 1);
        device->peak_flop_per_s[p] = ROOM * best;
        device->efficiency.gemm_ratio[p] = best > 0 ? 1 / ROOM : 0;
    }
    return device;
}

struct device *machine_device(struct arena *arena, const struct calibration *calibration,
                              const struct machine_facts *facts, struct stack *stack,
                              const char *measured)
{
    const struct device_shape *shape = facts->device ? &GPU_SHAPE : &HOST_SHAPE;
    struct device *device = start_device(arena, calibration, facts);
    set_memory(calibration, device, stack);
    device->efficiency.gemm_memory_ratio = device->efficiency.memory_ratio;
    fit_gemm(calibration, shape, device, stack);
    fit_attention(calibration, shape, device, stack);
    fit_elements(calibration, device, stack);
    for (int p = 0; p < PRECISION_COUNT; p++) {
        if (device->peak_flop_per_s[p] > 0)
            settle_peak(calibration, facts->like, device, (enum precision)p);
    }
    put_provenance(arena, facts, device, measured);
    return device;
}
