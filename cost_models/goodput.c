#include "cost_models/goodput.h"
#include "core/real.h"
#include "cost_models/parameters.h"
#include "cost_models/renewal.h"

#include <assert.h>
#include <math.h>

static const double QUANTILE_RATIOS[GOODPUT_QUANTILE_COUNT] = {0.1, 0.5, 0.9};

double goodput_interval_s(double checkpoint_s, double mtbf_s)
{
    assert(checkpoint_s >= 0 && mtbf_s > 0);
    double ratio = checkpoint_s / (2 * mtbf_s);
    // Where a checkpoint takes twice the time between interruptions the series of the paper no
    // longer holds, and its equation 37 takes that time itself.
    if (ratio >= 1) return mtbf_s;
    double first_s = sqrt(2 * checkpoint_s * mtbf_s);
    return first_s * (1 + sqrt(ratio) / 3 + ratio / 9) - checkpoint_s;
}

// Hosts write their shares at once, as fast as they can and the storage allows together.
static void fill_storage(const struct goodput_request *request, struct goodput *goodput)
{
    const struct failures *failures = &request->cluster->failures;
    double hosts = cluster_host_count(request->cluster);
    double shared_bytes_per_s = failures->checkpoint_bytes_per_s;
    double host_bytes_per_s = failures->host_checkpoint_bytes_per_s * hosts;
    goodput->storage_is_assumed = shared_bytes_per_s <= 0 && host_bytes_per_s <= 0;
    if (goodput->storage_is_assumed) host_bytes_per_s = GOODPUT_HOST_BYTES_PER_S * hosts;
    goodput->storage_bytes_per_s = shared_bytes_per_s;
    bool hosts_decide = shared_bytes_per_s <= 0 || host_bytes_per_s < shared_bytes_per_s;
    if (host_bytes_per_s > 0 && hosts_decide) goodput->storage_bytes_per_s = host_bytes_per_s;
    goodput->write_s = (double)goodput->checkpoint_bytes / goodput->storage_bytes_per_s;
}

// Into the hosts' memory over the links of all GPUs; where a host has no room for its share, the
// job stands until it is written.
static double stall_s(const struct goodput_request *request, const struct goodput *goodput)
{
    const struct cluster *cluster = request->cluster;
    if (!cluster->failures.async_checkpoints) return goodput->write_s;
    double host_bytes = (double)goodput->checkpoint_bytes / cluster_host_count(cluster);
    double rank_bytes = (double)goodput->checkpoint_bytes / cluster->rank_count;
    double copy_s = 0;
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct host *host = &cluster->nodes[i].host;
        // The slowest host decides: all ranks go on together.
        if (host_bytes > (double)host->memory_bytes) return goodput->write_s;
        copy_s = fmax(copy_s, rank_bytes / host->pcie_bytes_per_s);
    }
    return fmin(copy_s, goodput->write_s);
}

// In whole steps, and no checkpoint begins before the last one is stored.
static void fill_interval(const struct goodput_request *request, struct goodput *goodput)
{
    double asked_s = request->cluster->failures.checkpoint_interval_s;
    goodput->interval_is_best = asked_s <= 0;
    double interval_s = goodput->interval_is_best
                            ? goodput_interval_s(goodput->checkpoint_s, goodput->mtbf_s)
                            : asked_s;
    double storing_s = goodput->write_s - goodput->checkpoint_s;
    assert(storing_s >= 0);  // the job stands no longer than writing takes
    double steps = fmax(round(interval_s / request->step_s), ceil(storing_s / request->step_s));
    goodput->interval_s = fmax(steps, 1) * request->step_s;
}

static struct renewal renewal_of(const struct goodput_request *request,
                                 const struct goodput *goodput)
{
    const struct failures *failures = &request->cluster->failures;
    double node_loss_per_s = 0;
    for (int cause = 0; cause < FAILURE_CAUSE_COUNT; cause++) {
        if (failure_takes_node((enum failure_cause)cause))
            node_loss_per_s += goodput->cause_per_s[cause];
    }
    double restart_s =
        goodput->restart_is_assumed ? GOODPUT_RESTART_S : request->cluster->failures.restart_s;
    return (struct renewal){
        .mtbf_s = goodput->mtbf_s,
        .interval_s = goodput->interval_s,
        .checkpoint_s = goodput->checkpoint_s,
        .storing_s = goodput->write_s - goodput->checkpoint_s,
        .restart_s = restart_s + goodput->write_s + goodput->communicators_s,
        .node_loss_ratio = node_loss_per_s * goodput->mtbf_s,
        .repair_s = failures->repair_s,
        .spare_nodes = failures->spare_nodes,
    };
}

// A segment of one interval and its checkpoint, over and over, and the share of waits of the run: a
// short one ends before it has waited like one without an end.
static double wait_ratio_of(const struct renewal *renewal, double work_s)
{
    if (work_s <= 0) return renewal_wait_ratio(renewal);
    double busy_s = renewal_busy_s(renewal, work_s), wait_s = renewal_wait_s(renewal, work_s);
    return isfinite(busy_s) ? wait_s / (busy_s + wait_s) : renewal_wait_ratio(renewal);
}

static void fill_ratios(const struct renewal *renewal, double wait_ratio, struct goodput *goodput)
{
    double mtbf_s = renewal->mtbf_s;
    double length_s = renewal->interval_s + renewal->checkpoint_s;
    double back_s = renewal->restart_s + renewal->storing_s;
    double busy_s = mtbf_s * real_exp(back_s / mtbf_s) * real_expm1(length_s / mtbf_s);
    double running_ratio = 1 - wait_ratio;
    // Every failure begins a restart, which the next may cut short.
    double restarting_ratio = -real_expm1(-renewal->restart_s / mtbf_s);
    goodput->goodput_ratio = running_ratio * renewal->interval_s / busy_s;
    goodput->checkpoint_ratio = running_ratio * renewal->checkpoint_s / busy_s;
    goodput->restart_ratio = wait_ratio + running_ratio * restarting_ratio;
    goodput->lost_ratio =
        1 - goodput->goodput_ratio - goodput->checkpoint_ratio - goodput->restart_ratio;
    // What is done twice. Not below 0: x / (e^x - 1) is 1 at most, so that progress and checkpoints
    // take no more than what no restart takes.
    assert(goodput->lost_ratio > -1e-9);
    goodput->wait_s = mtbf_s * wait_ratio / running_ratio;
    goodput->restart_s = renewal->restart_s + goodput->wait_s;
}

static void fill_finish(const struct goodput_request *request, const struct renewal *renewal,
                        struct goodput *goodput)
{
    if (request->steps <= 0) return;
    if (goodput->goodput_ratio < GOODPUT_LEAST_RATIO) {
        goodput->expected_s = goodput->interruptions = INFINITY;
        for (int i = 0; i < GOODPUT_QUANTILE_COUNT; i++)
            goodput->finish_s[i] = INFINITY;
        return;
    }
    double work_s = request->steps * request->step_s;
    goodput->expected_s = renewal_mean_s(renewal, work_s);
    goodput->interruptions = renewal_busy_s(renewal, work_s) / renewal->mtbf_s;
}

struct goodput goodput_checkpoint_of(const struct goodput_request *request)
{
    struct goodput goodput = {.checkpoint_bytes = request->checkpoint_bytes};
    fill_storage(request, &goodput);
    goodput.checkpoint_s = stall_s(request, &goodput);
    return goodput;
}

static struct goodput fill(const struct goodput_request *request, bool with_quantiles)
{
    assert(request->step_s > 0 && request->checkpoint_bytes >= 0 && request->steps >= 0);
    struct goodput goodput = goodput_checkpoint_of(request);
    double per_s = 0;
    for (int cause = 0; cause < FAILURE_CAUSE_COUNT; cause++) {
        goodput.cause_per_s[cause] =
            cluster_failures_per_s(request->cluster, (enum failure_cause)cause);
        per_s += goodput.cause_per_s[cause];
    }
    if (per_s <= 0) return (struct goodput){0};
    goodput.is_known = true;
    goodput.mtbf_s = 1 / per_s;
    goodput.restart_is_assumed = request->cluster->failures.restart_s <= 0;
    goodput.communicators_s = communicators_s(&request->communicators, &request->cluster->failures);
    fill_interval(request, &goodput);
    const struct renewal renewal = renewal_of(request, &goodput);
    double wait_ratio = wait_ratio_of(&renewal, request->steps * request->step_s);
    fill_ratios(&renewal, wait_ratio, &goodput);
    fill_finish(request, &renewal, &goodput);
    if (with_quantiles && isfinite(goodput.expected_s) && request->steps > 0) {
        renewal_quantiles(&renewal, request->steps * request->step_s, QUANTILE_RATIOS,
                          goodput.finish_s, GOODPUT_QUANTILE_COUNT);
    }
    return goodput;
}

struct goodput goodput_of(const struct goodput_request *request)
{
    return fill(request, true);
}

struct goodput goodput_mean_of(const struct goodput_request *request)
{
    return fill(request, false);
}

int64_t goodput_checkpoint_bytes(const struct program *program, const struct graph *graph,
                                 const struct stack *stack)
{
    enum precision precision = program->workload.precision;
    bool is_sharded = program->storage[PARAMETER_DENSE].weight_axes != 0;
    double bytes = stack_state_bytes(stack, program->workload.optimizer, precision);
    if (stack_keeps_low_precision_weights(stack, precision, is_sharded))
        bytes += parameter_weight_bytes(precision);
    int64_t all = graph->parameter_count + graph->mtp_parameter_count;
    return (int64_t)(bytes * (double)(all - graph->frozen_parameter_count));
}

bool goodput_is_told(const struct failures *failures)
{
    bool is_told = failures->gpu_mtbf_h != CLUSTER_GPU_MTBF_H || failures->restart_s > 0 ||
                   failures->communicator_s > 0 || failures->communicator_rank_s > 0 ||
                   failures->repair_s > 0 || failures->spare_nodes > 0 ||
                   failures->checkpoint_bytes_per_s > 0 ||
                   failures->host_checkpoint_bytes_per_s > 0 ||
                   failures->checkpoint_interval_s > 0 || failures->async_checkpoints;
    for (int cause = 0; cause < FAILURE_CAUSE_COUNT; cause++)
        is_told = is_told || failures->mtbf_h[cause] > 0;
    return is_told;
}
