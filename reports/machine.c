#include "reports/machine.h"
#include "topologies/provenance.h"

#include <math.h>
#include <string.h>

enum kernel_class { CLASS_GEMM, CLASS_ATTENTION, CLASS_MEMORY };

static enum kernel_class class_of(const struct calibrate_kernel *row)
{
    switch (row->instr->kind) {
    case OP_CONTRACT:
        return CLASS_GEMM;
    case OP_ATTENTION:
    case OP_ATTENTION_BACKWARD:
        return CLASS_ATTENTION;
    default:
        return CLASS_MEMORY;
    }
}

static double price_s(const struct device *device, const struct stack *stack,
                      const struct calibrate_kernel *row)
{
    const struct compute_context context = {
        .device = device, .stack = stack, .precision = PRECISION_FP32};
    return compute_price(&context, row->program, row->instr).s;
}

double machine_kernel_s(const struct machine *machine, const struct calibrate_kernel *row)
{
    return price_s(machine->device, machine->stack, row);
}

// Rows that a constant is fitted to: those of a class, and of one operator where `kind` is one.
struct rows {
    const struct calibration *calibration;
    enum kernel_class class;
    int kind;  // enum op_kind; -1: all of the class
};

static bool is_in(const struct rows *rows, const struct calibrate_kernel *row)
{
    bool is_kind = rows->kind < 0 || rows->kind == (int)row->instr->kind;
    return is_kind && class_of(row) == rows->class && row->s > 0;
}

// The factor on a rate, or on bytes, at which the rows take as long in sum as measured. Long rows
// weigh more: they are most of a step.
static double sum_ratio(const struct rows *rows, const struct device *device,
                        const struct stack *stack)
{
    double measured_s = 0, predicted_s = 0;
    for (int i = 0; i < rows->calibration->kernel_count; i++) {
        const struct calibrate_kernel *row = &rows->calibration->kernels[i];
        if (!is_in(rows, row)) continue;
        measured_s += row->s;
        predicted_s += price_s(device, stack, row);
    }
    return predicted_s > 0 && measured_s > 0 ? measured_s / predicted_s : 1;
}

// Squared logarithm of predicted over measured, a row weighed by the root of its time: a step is
// made of long rows, and short ones shall not be forgotten.
static double misfit(const struct rows *rows, const struct device *device,
                     const struct stack *stack)
{
    double sum = 0, weights = 0;
    for (int i = 0; i < rows->calibration->kernel_count; i++) {
        const struct calibrate_kernel *row = &rows->calibration->kernels[i];
        if (!is_in(rows, row)) continue;
        double error = log(price_s(device, stack, row) / row->s), weight = sqrt(row->s);
        sum += weight * error * error;
        weights += weight;
    }
    return weights > 0 ? sum / weights : 0;
}

static double clamp(double value, double low, double high)
{
    return fmin(fmax(value, low), high);
}

// A rate that scales the rows' time, by rounds: next to it stand gaps and memory, which do not.
enum { SCALE_ROUNDS = 12 };
static void fit_rate(double *rate, double low, double high, const struct rows *rows,
                     const struct device *device, const struct stack *stack)
{
    for (int i = 0; i < SCALE_ROUNDS; i++)
        *rate = clamp(*rate / sum_ratio(rows, device, stack), low, high);
}

// While it is fitted a rate has room above: what a processor could do at most is not known.
static const double ROOM = 16;

static double best_flop_per_s(const struct calibration *calibration)
{
    double best = 1;
    for (int i = 0; i < calibration->kernel_count; i++) {
        const struct calibrate_kernel *row = &calibration->kernels[i];
        if (class_of(row) == CLASS_GEMM && row->s > 0) best = fmax(best, row->instr->flop / row->s);
    }
    return best;
}

// How much a short sum over k costs beside its length, and the rate of long ones.
static void fit_gemm(const struct calibration *calibration, struct device *device,
                     const struct stack *stack)
{
    static const double RAMPS[] = {0, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256};
    const struct rows rows = {calibration, CLASS_GEMM, -1};
    struct device_efficiency *efficiency = &device->efficiency, best = *efficiency;
    double least = INFINITY;
    for (size_t i = 0; i < sizeof RAMPS / sizeof *RAMPS; i++) {
        efficiency->gemm_k_ramp = RAMPS[i];
        fit_rate(&efficiency->gemm_ratio[PRECISION_FP32], DEVICE_RATIO_LOW, 1, &rows, device,
                 stack);
        double found = misfit(&rows, device, stack);
        if (found >= least) continue;
        least = found;
        best = *efficiency;
    }
    *efficiency = best;
}

static void fit_attention(const struct calibration *calibration, struct device *device,
                          const struct stack *stack)
{
    static const double HALVES[] = {0, 8, 16, 32, 64, 96, 128, 192, 256};
    const struct rows forward = {calibration, CLASS_ATTENTION, OP_ATTENTION};
    const struct rows backward = {calibration, CLASS_ATTENTION, OP_ATTENTION_BACKWARD};
    struct device_efficiency *efficiency = &device->efficiency, best = *efficiency;
    double least = INFINITY;
    for (size_t i = 0; i < sizeof HALVES / sizeof *HALVES; i++) {
        efficiency->attention_half_seq = HALVES[i];
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
        .device = device, .stack = stack, .precision = PRECISION_FP32};
    double bytes = update_bytes(&context, OPTIMIZER_ADAMW, (double)calibration->update_elements);
    if (calibration->update_s <= 0) return;
    double rate = bytes / calibration->update_s;
    device->memory_bandwidth_bytes_per_s = fmax(device->memory_bandwidth_bytes_per_s, rate);
    device->efficiency.memory_ratio =
        clamp(rate / device->memory_bandwidth_bytes_per_s, DEVICE_RATIO_LOW, 1);
}

static const double SCALE_LOW = 0.05, SCALE_HIGH = 4;  // of a stack

static void fit_elements(const struct calibration *calibration, const struct device *device,
                         struct stack *stack)
{
    const struct rows rows = {calibration, CLASS_MEMORY, -1};
    for (int i = 0; i < SCALE_ROUNDS; i++) {
        double ratio = sum_ratio(&rows, device, stack);
        stack->element_wise_scale = clamp(stack->element_wise_scale * ratio, SCALE_LOW, SCALE_HIGH);
    }
}

// The peak is the fastest that anything ran; the ratios are of that.
static void settle_peak(const struct calibration *calibration, struct device *device)
{
    struct device_efficiency *efficiency = &device->efficiency;
    double room = device->peak_flop_per_s[PRECISION_FP32];
    double peak = best_flop_per_s(calibration);
    double *ratios[] = {&efficiency->gemm_ratio[PRECISION_FP32],
                        &efficiency->attention_forward_ratio,
                        &efficiency->attention_backward_ratio};
    for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++)
        peak = fmax(peak, *ratios[i] * room);
    for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++)
        *ratios[i] = clamp(*ratios[i] * room / peak, DEVICE_RATIO_LOW, 1);
    device->peak_flop_per_s[PRECISION_FP32] = peak;
}

// Ranks that take turns on a core have a share of it each.
static void share_cores(struct device *device, const struct calibration *calibration,
                        const struct machine_facts *facts)
{
    if (calibration->rank_count <= facts->core_count) return;
    double share = (double)facts->core_count / calibration->rank_count;
    device->peak_flop_per_s[PRECISION_FP32] *= share;
    device->memory_bandwidth_bytes_per_s *= share;
    device->launch_latency_s /= share;
}

static const char *origin(struct arena *arena, const struct calibration *calibration,
                          const struct machine_facts *facts)
{
    return arena_print(arena, "%s, %s, meshwright %s, %d rank%s on %d core%s%s, median of %d",
                       facts->date, facts->processor, facts->version, calibration->rank_count,
                       calibration->rank_count == 1 ? "" : "s", facts->core_count,
                       facts->core_count == 1 ? "" : "s",
                       facts->is_bound ? ", each bound to its own" : ", not bound",
                       calibration->round_count);
}

static void put_provenance(struct arena *arena, struct device *device, const char *measured)
{
    const struct provenance rows[] = {
        {"peak_flop_per_s", PROVENANCE_MEASURED, "the fastest matrix product; ", 0, 0},
        {"memory_bytes", PROVENANCE_MEASURED, "memory of the host over its ranks; ", 0, 0},
        {"memory_bandwidth_bytes_per_s", PROVENANCE_MEASURED, "copy, read and written; ", 0, 0},
        {"multiprocessor_count", PROVENANCE_MEASURED, "a rank has one thread; ", 0, 0},
        {"cache_bytes", PROVENANCE_MEASURED, "last level, as the system says; ", 0, 0},
        {"launch_latency_s", PROVENANCE_MEASURED, "a sum of eight numbers; ", 0, 0},
        {"efficiency", PROVENANCE_MEASURED, "fitted to operators of layers, forward and backward; ",
         0, 0},
        {"efficiency.gemm_tile_exponent", PROVENANCE_ESTIMATED, "0: no tiles share anything; ", 0,
         0},
        {"efficiency.gemm_wave_smooth_ratio", PROVENANCE_ESTIMATED, "1: tiles in turn; ", 0, 0},
        {"efficiency.gemm_memory_ratio", PROVENANCE_ESTIMATED, "as memory_ratio; ", 0, 0},
    };
    int count = sizeof rows / sizeof *rows;
    device->provenance = ARENA_NEW(arena, struct provenance, count);
    device->provenance_count = count;
    for (int i = 0; i < count; i++) {
        device->provenance[i] = rows[i];
        device->provenance[i].source = arena_print(arena, "%s%s", rows[i].source, measured);
    }
}

static struct device *make_device(struct arena *arena, const struct calibration *calibration,
                                  const struct machine_facts *facts, struct stack *stack)
{
    struct device *device = ARENA_NEW(arena, struct device, 1);
    *device = (struct device){
        .name = "local-cpu",
        .kind = "cpu",
        .memory_bytes = facts->memory_bytes / calibration->rank_count,
        .multiprocessor_count = 1,
        .cache_bytes = facts->cache_bytes,
        .launch_latency_s = calibration->call_s,
        .efficiency = {.gemm_wave_smooth_ratio = 1,
                       .attention_forward_ratio = 0.5 / ROOM,
                       .attention_backward_ratio = 0.5 / ROOM},
    };
    device->peak_flop_per_s[PRECISION_FP32] = ROOM * best_flop_per_s(calibration);
    device->efficiency.gemm_ratio[PRECISION_FP32] = 1 / ROOM;
    set_memory(calibration, device, stack);
    device->efficiency.gemm_memory_ratio = device->efficiency.memory_ratio;
    fit_gemm(calibration, device, stack);
    fit_attention(calibration, device, stack);
    fit_elements(calibration, device, stack);
    settle_peak(calibration, device);
    put_provenance(arena, device, origin(arena, calibration, facts));
    return device;
}

static struct stack *make_stack(struct arena *arena, const struct stack *base)
{
    struct stack *stack = stack_copy(arena, base);
    stack->provenance = ARENA_NEW(arena, struct provenance, base->provenance_count);
    memcpy(stack->provenance, base->provenance,
           (size_t)base->provenance_count * sizeof *stack->provenance);
    return stack;
}

static void note_stack(struct arena *arena, struct stack *stack, const char *measured)
{
    for (int i = 0; i < stack->provenance_count; i++) {
        struct provenance *entry = &stack->provenance[i];
        if (strcmp(entry->key, "element_wise_scale") != 0) continue;
        entry->kind = PROVENANCE_MEASURED;
        entry->source = arena_print(
            arena, "operators of layers beside the update, which walks through memory; %s",
            measured);
    }
}

// Ranks of one node over one link each; `lone` ones have nobody to talk to.
static struct cluster *make_cluster(struct arena *arena, const struct calibration *calibration,
                                    const struct machine_facts *facts, const struct device *device)
{
    int ranks = calibration->rank_count;
    struct cluster *cluster = ARENA_NEW(arena, struct cluster, 1);
    struct node_group *node = ARENA_NEW(arena, struct node_group, 1);
    double copy = fmax(calibration->copy_bytes_per_s, 1);
    *node = (struct node_group){
        .count = 1,
        .gpus = ranks,
        .device = device,
        .intra = {.kind = "shared-memory", .bandwidth_bytes_per_s = copy / 2, .latency_s = 1e-6},
        .gpus_per_host = ranks,
        .host = {.memory_bytes = facts->memory_bytes,
                 .memory_bandwidth_bytes_per_s = copy,
                 .cores = facts->core_count,
                 .pcie_bytes_per_s = copy / 2},
    };
    *cluster = (struct cluster){
        .name = "local",
        .nodes = node,
        .node_group_count = 1,
        .network = {.kind = "none", .oversubscription_ratio = 1},
        .failures = {.gpu_mtbf_h = CLUSTER_GPU_MTBF_H},
        .node_count = 1,
        .rank_count = ranks,
    };
    return cluster;
}

static struct group_shape whole_group(const struct cluster *cluster)
{
    int ranks = cluster->rank_count;
    return (struct group_shape){.rank_count = ranks,
                                .node_count = 1,
                                .ranks_per_node = ranks,
                                .ranks_per_node_least = ranks,
                                .intra = &cluster->nodes[0].intra,
                                .network = &cluster->network};
}

static double exchange_s(const struct cluster *cluster, const struct fabrics *fabrics,
                         const struct calibrate_collective *row)
{
    struct group_shape group = whole_group(cluster);
    return collective_price(fabrics, &group, row->collective, (double)row->bytes, 1).s;
}

double machine_exchange_s(const struct machine *machine, const struct fabrics *fabrics,
                          const struct calibrate_collective *row)
{
    return exchange_s(machine->cluster, fabrics, row);
}

static double exchange_misfit(const struct cluster *cluster, const struct fabrics *fabrics,
                              const struct calibration *calibration)
{
    double sum = 0;
    for (int i = 0; i < calibration->collective_count; i++) {
        const struct calibrate_collective *row = &calibration->collectives[i];
        if (row->s <= 0) continue;
        double error = log(exchange_s(cluster, fabrics, row) / row->s);
        sum += error * error;
    }
    return sum;
}

// Latency and bandwidth with which all rows together are nearest, each first on a coarse grid of
// powers and then on finer ones around the best.
static void fit_exchange(struct cluster *cluster, const struct fabrics *fabrics,
                         const struct calibration *calibration)
{
    if (calibration->collective_count == 0) return;
    struct intra_fabric *intra = &cluster->nodes[0].intra;
    double latency_s = 1e-5, bytes_per_s = 1e9, factor = 10;
    for (int level = 0; level < 12; level++) {
        double best_latency_s = latency_s, best_bytes_per_s = bytes_per_s, least = INFINITY;
        for (int i = -2; i <= 2; i++) {
            for (int j = -2; j <= 2; j++) {
                intra->latency_s = clamp(latency_s * pow(factor, i), 1e-9, 1);
                intra->bandwidth_bytes_per_s = clamp(bytes_per_s * pow(factor, j), 1e3, 1e14);
                double found = exchange_misfit(cluster, fabrics, calibration);
                if (found >= least) continue;
                least = found;
                best_latency_s = intra->latency_s;
                best_bytes_per_s = intra->bandwidth_bytes_per_s;
            }
        }
        latency_s = best_latency_s;
        bytes_per_s = best_bytes_per_s;
        factor = sqrt(factor);
    }
    intra->latency_s = latency_s;
    intra->bandwidth_bytes_per_s = bytes_per_s;
}

static void add_error(struct machine_error *error, double measured_s, double predicted_s)
{
    if (measured_s <= 0 || predicted_s <= 0) return;
    error->row_count++;
    error->measured_s += measured_s;
    error->predicted_s += predicted_s;
    error->mean_ratio += fabs(log(predicted_s / measured_s));
}

static void sum_errors(struct machine *machine, const struct calibration *calibration,
                       const struct fabrics *fabrics)
{
    for (int i = 0; i < calibration->kernel_count; i++) {
        const struct calibrate_kernel *row = &calibration->kernels[i];
        add_error(&machine->errors[(int)class_of(row)], row->s, machine_kernel_s(machine, row));
    }
    for (int i = 0; i < calibration->collective_count; i++) {
        const struct calibrate_collective *row = &calibration->collectives[i];
        add_error(&machine->errors[MACHINE_EXCHANGE], row->s,
                  machine_exchange_s(machine, fabrics, row));
    }
    for (int k = 0; k < MACHINE_KIND_COUNT; k++) {
        struct machine_error *error = &machine->errors[k];
        error->mean_ratio = error->row_count ? exp(error->mean_ratio / error->row_count) : 1;
    }
}

struct machine machine_make(struct arena *arena, const struct calibration *calibration,
                            const struct machine_facts *facts, const struct stack *base,
                            const struct fabrics *fabrics)
{
    struct stack *stack = make_stack(arena, base);
    struct device *device = make_device(arena, calibration, facts, stack);
    note_stack(arena, stack, origin(arena, calibration, facts));
    struct cluster *cluster = make_cluster(arena, calibration, facts, device);
    fit_exchange(cluster, fabrics, calibration);
    struct machine machine = {.device = device, .cluster = cluster, .stack = stack};
    sum_errors(&machine, calibration, fabrics);
    struct device *shared = device_copy(arena, device);
    share_cores(shared, calibration, facts);
    cluster->nodes[0].device = shared;
    return machine;
}
