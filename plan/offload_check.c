#include "plan/passes.h"
#include "plan/program.h"

bool program_check_offload(const struct cluster *cluster, const struct offload *offload,
                           struct err *err)
{
    bool to_nvme = offload_reaches_nvme(offload);
    int states = offload->optimizer_layers, parameters = offload->parameter_layers;
    if (offload_moves_parameters(offload) && offload->optimizer == TIER_DEVICE)
        return err_set(err, ERR_USAGE,
                       "--offload parameters: what updates them has to be off the device as well; "
                       "--offload optimizer,parameters would run");
    if (offload_moves_parameters(offload) && states > 0 && (parameters == 0 || parameters > states))
        return err_set(err, ERR_USAGE,
                       "--offload parameters: what updates them has to be off the device as well; "
                       "--offload optimizer:%d,parameters:%d would run",
                       states, states);
    if (offload_moves_gradients(offload) && offload->optimizer == TIER_DEVICE)
        return err_set(err, ERR_USAGE,
                       "--offload gradients: what they are for has to be off the device as well; "
                       "--offload optimizer,gradients would run");
    int gradients = offload->gradient_layers;
    if (offload_moves_gradients(offload) && states > 0 && gradients > states)
        return err_set(err, ERR_USAGE,
                       "--offload gradients: what they are for has to be off the device as well; "
                       "--offload optimizer:%d,gradients:%d would run",
                       states, states);
    if (offload_keeps_some(offload) && !offload_moves_parameters(offload))
        return err_set(
            err, ERR_USAGE,
            "--offload turn and between: parameters that stay for a while have to leave; "
            "--offload optimizer,parameters beside them would run");
    for (int i = 0; i < cluster->node_group_count && to_nvme; i++) {
        const struct host *host = &cluster->nodes[i].host;
        if (host->nvme_bytes > 0 && host->nvme_bytes_per_s > 0) continue;
        return err_set(err, ERR_USAGE,
                       "--offload: the hosts of %s have no NVMe; where they do, their cluster file "
                       "gives nvme_bytes and nvme_bytes_per_s",
                       cluster->name);
    }
    return true;
}

bool stays_check(const struct parallel *parallel, struct err *err)
{
    const char *why = NULL;
    if (!offload_keeps_some(&parallel->offload)) return true;
    if (parallel->degree[AXIS_PP] > 1)
        why = "--pp above 1, where micro-batches work beside each other";
    if (parallel->vpp > 1) why = "--vpp above 1, whose chunks work in turn";
    if (parallel->replica_count > 0) why = "--replica-batches, whose ranks fetch at other times";
    if (!why) return true;
    return err_set(err, ERR_USAGE, "--offload turn and between: not with %s", why);
}

bool program_check_gradients(const struct parallel *parallel, struct err *err)
{
    const char *why = NULL;
    if (!offload_moves_gradients(&parallel->offload)) return true;
    if (parallel->degree[AXIS_PP] > 1)
        why = "--pp above 1, where micro-batches add to them beside each other";
    if (!pass_is_on(parallel, PASS_COMBINE)) why = "--passes without combine: a bucket is copied";
    if (parallel->replica_count > 0) why = "--replica-batches, whose ranks copy at other times";
    if (!why) return true;
    return err_set(err, ERR_USAGE, "--offload gradients: not with %s", why);
}
