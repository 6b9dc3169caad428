#include "reports/machine/machine.h"

#include "reports/machine/machine_parts.h"
#include "topologies/provenance.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static double clamp(double value, double low, double high)
{
    assert(low <= high);
    return fmin(fmax(value, low), high);
}

double machine_kernel_s(const struct machine *machine, const struct calibrate_kernel *row)
{
    return machine_price_s(machine->device, machine->stack, row);
}

// Cores, or devices, that the ranks share.
static int unit_count(const struct machine_facts *facts)
{
    return facts->device ? facts->device->device_count : facts->core_count;
}

double machine_share(const struct calibration *calibration, const struct machine_facts *facts)
{
    assert(calibration->rank_count > 0 && unit_count(facts) > 0);
    return fmin((double)unit_count(facts) / calibration->rank_count, 1);
}

// Ranks that take turns on a core or a device have a share of it each.
static void share_units(struct device *device, const struct calibration *calibration,
                        const struct machine_facts *facts)
{
    double share = machine_share(calibration, facts);
    if (share == 1) return;
    assert(share > 0 && share < 1);
    for (int p = 0; p < PRECISION_COUNT; p++)
        device->peak_flop_per_s[p] *= share;
    device->memory_bandwidth_bytes_per_s *= share;
    device->exponential_per_s *= share;
    device->launch_latency_s /= share;
    // That of a host is shared already.
    if (facts->device) device->memory_bytes = (int64_t)((double)device->memory_bytes * share);
}

static const char *counted(struct arena *arena, int count, const char *what)
{
    return arena_print(arena, "%d %s%s", count, what, count == 1 ? "" : "s");
}

static const char *origin(struct arena *arena, const struct calibration *calibration,
                          const struct machine_facts *facts)
{
    const struct backend_device_facts *gpu = facts->device;
    const char *ranks = counted(arena, calibration->rank_count, "rank");
    if (gpu) {
        return arena_print(arena, "%s, %s, driver %s, %s, meshwright %s, %s on %s, median of %d",
                           facts->date, gpu->name, *gpu->driver ? gpu->driver : "unknown",
                           facts->libraries, facts->version, ranks,
                           counted(arena, gpu->device_count, "device"), calibration->round_count);
    }
    return arena_print(
        arena, "%s, %s, meshwright %s, %s on %s%s, median of %d", facts->date, facts->processor,
        facts->version, ranks, counted(arena, facts->core_count, "core"),
        facts->is_bound ? ", each bound to its own" : ", not bound", calibration->round_count);
}

static struct stack *make_stack(struct arena *arena, const struct stack *base)
{
    struct stack *stack = stack_copy(arena, base);
    stack->provenance =
        ARENA_COPY(arena, struct provenance, base->provenance, base->provenance_count);
    return stack;
}

// Constants of the stack that stand for what was measured: of a host the scale of its element-wise
// operators alone, because its own stack knows the rest.
struct stack_constant {
    const char *key, *source;
    double *at;
    double value;
};

static void set_constant(struct arena *arena, struct stack *stack,
                         const struct stack_constant *constant, const char *measured)
{
    assert(isfinite(constant->value) && constant->value >= 0);
    *constant->at = constant->value;
    for (int i = 0; i < stack->provenance_count; i++) {
        struct provenance *entry = &stack->provenance[i];
        if (strcmp(entry->key, constant->key) != 0) continue;
        *entry =
            (struct provenance){.key = entry->key,
                                .kind = PROVENANCE_MEASURED,
                                .source = arena_print(arena, "%s; %s", constant->source, measured)};
    }
}

static void set_element_scale(struct arena *arena, struct stack *stack, const char *measured)
{
    const struct stack_constant scale = {
        "element_wise_scale", "operators of layers beside the update, which walks through memory",
        &stack->element_wise_scale, stack->element_wise_scale};
    set_constant(arena, stack, &scale, measured);
}

// Before the device is fitted: its rates are those of the executor's own kernels, one call each.
static void set_device_stack(struct arena *arena, const struct calibration *calibration,
                             struct stack *stack, const char *measured)
{
    static const char OWN[] =
        "1: the rates that calibration writes into the device are those of our own kernels";
    static const char HOST[] = "0: the host's calls are host_op_s, data are made in memory";
    const struct stack_constant constants[] = {
        {"gemm_scale", OWN, &stack->gemm_scale, 1},
        {"attention_forward_scale", OWN, &stack->attention_forward_scale, 1},
        {"attention_backward_scale", OWN, &stack->attention_backward_scale, 1},
        {"host_op_s", "calls of a sum of eight numbers that the device does not do meanwhile",
         &stack->host_op_s, calibration->host_call_s},
        {"host_task_s", HOST, &stack->host_task_s, 0},
        {"step_overhead_s", HOST, &stack->step_overhead_s, 0},
        {"copy_ratio", "1: the host's pcie_bytes_per_s is what copies reach", &stack->copy_ratio,
         1},
    };
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        set_constant(arena, stack, &constants[i], measured);
}

// Ranks of one node over one link each; `lone` ones have nobody to talk to.
static struct cluster *make_cluster(struct arena *arena, const struct calibration *calibration,
                                    const struct machine_facts *facts, const struct device *device)
{
    int ranks = calibration->rank_count;
    struct cluster *cluster = ARENA_NEW(arena, struct cluster, 1);
    struct node_group *node = ARENA_NEW(arena, struct node_group, 1);
    double copy = fmax(calibration->copy_bytes_per_s, 2 * LINK_RATE_LOW), pcie = copy / 2;
    if (facts->device) {
        copy = fmax(calibration->host_copy_bytes_per_s, 2 * LINK_RATE_LOW);
        pcie = fmin(calibration->to_host_bytes_per_s, calibration->from_host_bytes_per_s);
    }
    *node = (struct node_group){
        .count = 1,
        .gpus = ranks,
        .device = device,
        .intra = {.kind = "shared-memory", .bandwidth_bytes_per_s = copy / 2, .latency_s = 1e-6},
        .gpus_per_host = ranks,
        .host = {.memory_bytes = facts->memory_bytes,
                 .memory_bandwidth_bytes_per_s = copy,
                 .cores = facts->core_count,
                 .pcie_bytes_per_s = fmax(pcie, LINK_RATE_LOW)},
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
    assert(cluster->node_group_count == 1);
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

// Squares of logarithms: twice as long and half as long are as wrong.
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
// powers and then on finer ones around the best; and how near that is.
static double fit_fabric(struct cluster *cluster, const char *kind, const struct fabrics *fabrics,
                         const struct calibration *calibration)
{
    struct intra_fabric *intra = &cluster->nodes[0].intra;
    double latency_s = 1e-5, bytes_per_s = 1e9, factor = 10, nearest = INFINITY;
    intra->kind = kind;
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
        nearest = least;
    }
    assert(latency_s > 0 && bytes_per_s > 0);
    intra->latency_s = latency_s;
    intra->bandwidth_bytes_per_s = bytes_per_s;
    return nearest;
}

// What joins the ranks of a host is its memory; of devices it is what their collectives look like.
static void fit_exchange(struct cluster *cluster, const struct fabrics *fabrics,
                         const struct calibration *calibration, const struct machine_facts *facts)
{
    static const char *const KINDS[] = {"shared-memory", "nvswitch", "nvlink", "pcie"};
    size_t count = facts->device ? sizeof KINDS / sizeof *KINDS : 1;
    struct intra_fabric *intra = &cluster->nodes[0].intra, best = *intra;
    double least = INFINITY;
    if (calibration->collective_count == 0) return;
    for (size_t i = 0; i < count; i++) {
        double found = fit_fabric(cluster, KINDS[i], fabrics, calibration);
        if (found >= least) continue;
        least = found;
        best = *intra;
    }
    *intra = best;
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
        add_error(&machine->errors[(int)machine_class(row)], row->s,
                  machine_kernel_s(machine, row));
    }
    for (int i = 0; i < calibration->collective_count; i++) {
        const struct calibrate_collective *row = &calibration->collectives[i];
        add_error(&machine->errors[MACHINE_EXCHANGE], row->s,
                  machine_exchange_s(machine, fabrics, row));
    }
    for (int k = 0; k < MACHINE_KIND_COUNT; k++) {
        struct machine_error *error = &machine->errors[k];
        assert(error->mean_ratio >= 0);
        error->mean_ratio = error->row_count ? exp(error->mean_ratio / error->row_count) : 1;
    }
}

struct machine machine_make(struct arena *arena, const struct calibration *calibration,
                            const struct machine_facts *facts, const struct stack *base,
                            const struct fabrics *fabrics)
{
    struct stack *stack = make_stack(arena, base);
    const char *measured = origin(arena, calibration, facts);
    if (facts->device) set_device_stack(arena, calibration, stack, measured);
    struct device *device = machine_device(arena, calibration, facts, stack, measured);
    set_element_scale(arena, stack, measured);
    struct cluster *cluster = make_cluster(arena, calibration, facts, device);
    fit_exchange(cluster, fabrics, calibration, facts);
    struct machine machine = {.device = device, .cluster = cluster, .stack = stack};
    sum_errors(&machine, calibration, fabrics);
    struct device *shared = device_copy(arena, device);
    share_units(shared, calibration, facts);
    cluster->nodes[0].device = shared;
    machine.kernels = machine_kernels(arena, &machine, calibration, facts, measured);
    return machine;
}
