#include "tests/support/oracle_bound.h"
#include "tests/support/graph_counts.h"

#include <math.h>

// Rounding of sums of a few thousand terms.
static const double SLACK = 1 - 1e-9;

// Capacity below the imbalance drops tokens: then less is worked than the model's flops say.
static bool drops_tokens(const struct workload *workload)
{
    return workload->capacity_factor > 0;
}

// The highest peak of a device of the cluster, in a precision no narrower than this.
static double highest_peak(const struct cluster *cluster, double bytes)
{
    double highest = 0;
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct device *device = cluster->nodes[i].device;
        for (int p = 0; p < PRECISION_COUNT; p++) {
            if (precision_bytes((enum precision)p) >= bytes)
                highest = fmax(highest, device->peak_flop_per_s[p]);
        }
    }
    return highest;
}

// One sequence forward and backward on one device: products with parameters no narrower than the
// run, those of attention no narrower than 16 bits.
static double sequence_s(const struct oracle_question *question)
{
    const struct workload *workload = &question->workload;
    const struct graph *graph = question->graph;
    double bytes = precision_bytes(workload->precision);
    double all = graph_model_flop(graph, workload->seq_len);
    double products = 6.0 * (double)graph_matmul_parameter_count(graph) * (double)workload->seq_len;
    if (drops_tokens(workload)) return 0;
    // Of a picture in the text a weight counts once for each of its places, not for each token:
    // then nothing is known of which products are of parameters.
    if (products > all) products = 0;
    return products / highest_peak(question->cluster, bytes) +
           (all - products) / highest_peak(question->cluster, fmin(bytes, 2));
}

static double memory_bytes_per_s(const struct cluster *cluster)
{
    double highest = 0;
    for (int i = 0; i < cluster->node_group_count; i++)
        highest = fmax(highest, cluster->nodes[i].device->memory_bandwidth_bytes_per_s);
    return highest;
}

// Of one parameter: the moments and the copy that the optimizer keeps, or the weight itself.
static double state_bytes(const struct oracle_question *question)
{
    const struct stack *stack = question->stack;
    double moments = optimizer_moment_count(question->workload.optimizer) * stack->moment_bytes;
    return moments + fmin(stack->master_bytes > 0 ? stack->master_bytes : 2, 4);
}

// All states, read and written once, by all devices.
static double update_walk_s(const struct oracle_question *question)
{
    double elements = (double)question->graph->parameter_count;
    double rate = memory_bytes_per_s(question->cluster) * question->cluster->rank_count;
    return 2 * state_bytes(question) * elements / rate;
}

double oracle_step_s(const struct oracle_question *question)
{
    double work_s = sequence_s(question) * (double)question->workload.global_batch /
                    question->cluster->rank_count;
    double update_s = question->offloads ? 0 : update_walk_s(question);
    return (work_s + update_s) * SLACK;
}

// What one rank can send a second, were nobody else there.
static double fastest_link(const struct cluster *cluster)
{
    double highest = 0;
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct node_group *node = &cluster->nodes[i];
        highest = fmax(highest, node->intra.bandwidth_bytes_per_s);
        highest = fmax(highest, node->nics.count * node->nics.bandwidth_bytes_per_s);
    }
    return highest;
}

// Where each stage runs one chunk, and a micro-batch's weight gradients behind its backward, stage
// s does the work of all micro-batches, and waits for those before it to do that of one. Of all
// ways to share the work T the best has the same sum on every stage, T / (1 - (1 - 1 / m)^p).
static double pipeline_s(const struct parallel *parallel, double micro_batches, double work_s)
{
    bool plain = parallel->schedule == SCHEDULE_GPIPE || parallel->schedule == SCHEDULE_1F1B;
    int stages = parallel->degree[AXIS_PP];
    double steady_s = micro_batches * work_s / stages;
    if (!plain || parallel->vpp > 1) return steady_s;
    return fmax(steady_s, work_s / (1 - pow(1 - 1 / micro_batches, stages)));
}

double oracle_plan_s(const struct oracle_question *question, const struct parallel *parallel)
{
    const int *degree = parallel->degree;
    double sequences = (double)question->workload.global_batch / degree[AXIS_DP];
    double micro_batches = sequences / parallel->micro_batch;
    double tensor = (double)degree[AXIS_TP] * degree[AXIS_CP];
    double work_s = sequence_s(question) * parallel->micro_batch / tensor;
    double compute_s = pipeline_s(parallel, micro_batches, work_s);
    // A chain of one micro-batch through all stages; its weight gradients may come later.
    compute_s = fmax(compute_s, work_s * 2 / 3);
    double group = (double)degree[AXIS_DP] * degree[AXIS_CP];
    double elements = (double)question->graph->parameter_count / degree[AXIS_TP] / degree[AXIS_PP];
    if (question->graph->expert_count > 0) elements = 0;  // theirs may be whole on their ranks
    double bytes = elements * fmin(question->stack->reduce_bytes, 2) * (group - 1) / group;
    double send_s = bytes / fastest_link(question->cluster);
    return fmax(fmax(compute_s, send_s) * SLACK, oracle_step_s(question));
}

double oracle_bytes(const struct oracle_question *question)
{
    if (question->offloads) return 0;
    double elements = (double)question->graph->parameter_count;
    return state_bytes(question) * elements / question->cluster->rank_count * SLACK;
}

double oracle_mfu(const struct oracle_question *question, double step_s)
{
    const struct workload *workload = &question->workload;
    double flop = graph_model_flop(question->graph, workload->seq_len);
    double peak = 0;
    if (drops_tokens(workload)) return 0;
    for (int i = 0; i < question->cluster->node_group_count; i++) {
        const struct device *device = question->cluster->nodes[i].device;
        peak = fmax(peak, device->peak_flop_per_s[workload->precision]);
    }
    return flop * (double)workload->global_batch / step_s / peak / question->cluster->rank_count;
}
