#include "executor/cuda/sdpa_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Compiles cuDNN's plan for every attention shape on its standard input as the back end does, for a
// device that need not be there: lines of
//   NAME batch heads kv_heads queries keys width value_width causal
// to lines of "NAME forward MADE BYTES" and "NAME backward MADE BYTES", dense and then in rows of
// one packed array: the workspace of the plan, or 0 and why there is none. Ends with 1 when one
// has none.

// A Hopper as its data sheet has it.
static const char DEVICE[] =
    "{\"deviceName\": \"NVIDIA H200\", \"deviceVer\": 900, \"driverVer\": 13000, \"cudaDeviceId\": "
    "0, \"pciDeviceId\": 0, "
    "\"multiProcessorCount\": 132, \"warpSize\": 32, \"regsPerBlock\": 65536, "
    "\"maxRegistersPerSM\": 65536, \"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, "
    "\"maxThreadsPerSM\": 2048, \"maxBlockSize\": [1024, 1024, 64], "
    "\"maxGridSize\": [2147483647, 65535, 65535], \"maxSharedMemoryPerBlock\": 49152, "
    "\"maxSharedMemoryPerBlockOptin\": 232448, \"reservedSharedMemoryPerBlock\": 1024, "
    "\"isTccDriver\": 0, \"supportCoopLaunch\": 1, \"totalGlobalMem\": 150000000000, "
    "\"smClockRateKHz\": 1980000, \"memClockRateKHz\": 3201000, \"l2CacheSize\": 62914560}";

static cudnnBackendDescriptor_t device_properties(void)
{
    cudnnBackendDescriptor_t properties;
    cudnnStatus_t status =
        cudnn()->BackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &properties);
    if (status == CUDNN_STATUS_SUCCESS) {
        status = cudnn()->BackendSetAttribute(properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                              CUDNN_TYPE_CHAR, (int64_t)strlen(DEVICE), DEVICE);
    }
    if (status == CUDNN_STATUS_SUCCESS) status = cudnn()->BackendFinalize(properties);
    if (status == CUDNN_STATUS_SUCCESS) return properties;
    fprintf(stderr, "no properties of a device: %s\n", cudnn()->GetErrorString(status));
    exit(2);
}

static bool check(cudnnBackendDescriptor_t properties, const char *name,
                  const struct sdpa_shape *shape)
{
    struct sdpa_made made;
    const char *fault = sdpa_plan_make(shape, NULL, properties, &made);
    printf("%s %s %d %lld%s%s\n", name, shape->is_backward ? "backward" : "forward",
           made.plan != NULL, (long long)made.workspace_bytes, fault ? " " : "",
           fault ? fault : "");
    bool is_made = made.plan != NULL;
    sdpa_plan_free(&made);
    return is_made;
}

int main(void)
{
    char name[128];
    long long b, h, k, q, s, d, v;
    int causal, faults = 0;
    const char *missing = cudnn_open();
    if (missing) {
        fprintf(stderr, "%s\n", missing);
        return 2;
    }
    cudnnBackendDescriptor_t properties = device_properties();
    while (scanf("%127s %lld %lld %lld %lld %lld %lld %lld %d", name, &b, &h, &k, &q, &s, &d, &v,
                 &causal) == 9) {
        struct sdpa_shape shape = {.number = NUMBER_BF16,
                                   .causal = causal,
                                   .batch = b,
                                   .heads = h,
                                   .kv_heads = k,
                                   .queries = q,
                                   .keys = s,
                                   .width = d,
                                   .value_width = v,
                                   .scale = 1};
        faults += !check(properties, name, &shape);
        shape.is_backward = true;
        faults += !check(properties, name, &shape);
        // All three, and their gradients, in rows of one packed array.
        for (int i = 0; i < 3; i++)
            shape.strides[i] = shape.gradient_strides[i] = h * d + k * (d + v);
        faults += !check(properties, name, &shape);
        shape.is_backward = false;
        faults += !check(properties, name, &shape);
    }
    cudnn()->BackendDestroyDescriptor(properties);
    return faults > 0;
}
