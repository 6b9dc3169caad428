#include "executor/cuda/sdpa_graph.h"

#include <assert.h>

// From a graph of attention to what runs: engines that cuDNN knows for it, and its compiled plan.

enum { CONFIGS = 8 };

static cudnnStatus_t make_configs(int capacity, cudnnBackendDescriptor_t *configs)
{
    for (int i = 0; i < capacity; i++) {
        cudnnStatus_t status =
            cudnn()->BackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]);
        if (status == CUDNN_STATUS_SUCCESS) continue;
        while (i-- > 0)
            cudnn()->BackendDestroyDescriptor(configs[i]);
        return status;
    }
    return CUDNN_STATUS_SUCCESS;
}

// The engine configurations that cuDNN's heuristics name, best first. They come finalized: doing so
// again is an error. The caller destroys them.
static const char *find_configs(const struct sdpa_graph *graph,
                                cudnnBackendDescriptor_t device_properties, int capacity,
                                cudnnBackendDescriptor_t *configs, int *count)
{
    struct sdpa_graph asks = {0};
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t found = 0;
    cudnnBackendDescriptor_t heuristics = sdpa_begin(&asks, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    sdpa_set(&asks, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
             CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph->graph);
    sdpa_set(&asks, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (device_properties) {
        sdpa_set(&asks, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                 1, &device_properties);
    }
    sdpa_end(&asks, heuristics);
    if (asks.status == CUDNN_STATUS_SUCCESS) asks.status = make_configs(capacity, configs);
    if (asks.status == CUDNN_STATUS_SUCCESS) {
        asks.status =
            cudnn()->BackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, capacity, &found, configs);
        if (asks.status != CUDNN_STATUS_SUCCESS) found = 0;
        for (int i = (int)found; i < capacity; i++)
            cudnn()->BackendDestroyDescriptor(configs[i]);
    }
    assert(found >= 0 && found <= capacity);
    *count = (int)found;
    sdpa_graph_free(&asks);
    if (asks.status != CUDNN_STATUS_SUCCESS) return cudnn()->GetErrorString(asks.status);
    return found > 0 ? NULL : "cuDNN has no engine for this attention";
}

// The plan of one configuration: this is where cuDNN compiles.
static cudnnStatus_t compile(cudnnBackendDescriptor_t config, cudnnHandle_t handle,
                             cudnnBackendDescriptor_t device_properties, struct sdpa_made *made)
{
    struct sdpa_graph asks = {0};
    int64_t count = 0;
    cudnnBackendDescriptor_t plan = sdpa_begin(&asks, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    sdpa_set(&asks, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
             &config);
    if (handle) {
        sdpa_set(&asks, plan, SDPA_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    } else {
        sdpa_set(&asks, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                 1, &device_properties);
    }
    sdpa_end(&asks, plan);
    if (asks.status == CUDNN_STATUS_SUCCESS) {
        asks.status =
            cudnn()->BackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                         CUDNN_TYPE_INT64, 1, &count, &made->workspace_bytes);
    }
    if (asks.status == CUDNN_STATUS_SUCCESS) {
        *made = (struct sdpa_made){config, plan, made->workspace_bytes};
        asks.held_count = 0;  // the plan is the caller's now
    }
    sdpa_graph_free(&asks);
    return asks.status;
}

const char *sdpa_plan_make(const struct sdpa_shape *shape, cudnnHandle_t handle,
                           cudnnBackendDescriptor_t device_properties, struct sdpa_made *made)
{
    struct sdpa_graph graph;
    cudnnBackendDescriptor_t configs[CONFIGS];
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    int count = 0;
    const char *fault = sdpa_graph_make(&graph, shape, handle);
    if (!fault) fault = find_configs(&graph, device_properties, CONFIGS, configs, &count);
    *made = (struct sdpa_made){0};
    for (int i = 0; i < count; i++) {
        if (!made->plan) status = compile(configs[i], handle, device_properties, made);
        if (made->config != configs[i]) cudnn()->BackendDestroyDescriptor(configs[i]);
    }
    sdpa_graph_free(&graph);
    assert(!made->plan || (made->config && made->workspace_bytes >= 0));
    return fault || made->plan ? fault : cudnn()->GetErrorString(status);
}

void sdpa_plan_free(struct sdpa_made *made)
{
    if (made->plan) cudnn()->BackendDestroyDescriptor(made->plan);
    if (made->config) cudnn()->BackendDestroyDescriptor(made->config);
    *made = (struct sdpa_made){0};
}
