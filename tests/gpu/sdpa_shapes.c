#include "executor/cuda/sdpa_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Compiles cuDNN's plan for every attention shape on its standard input as the back end does, for a
// device that need not be there: lines of
//   NAME batch heads kv_heads queries keys width value_width ends ahead starts back softcap slopes
//   sinks choice
// to lines of "NAME forward MADE BYTES" and "NAME backward MADE BYTES", dense and then in rows of
// one packed array: the workspace of the plan, or why there is none, or which of its arguments it
// leaves out. Ends with 1 when one has none.

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

// The kernel of a plan has all numbers by value, slopes and sinks of its graph among its arguments:
// none of them was left out. Its arguments stand in the plan's text, behind the graph, as "uid": n.
static const char *find_left_out(const struct sdpa_shape *s, cudnnBackendDescriptor_t plan)
{
    enum { TEXT_MAX = 1 << 20 };
    const struct {
        enum sdpa_tensor tensor;
        bool is_wanted;
        const char *name;
    } rows[] = {
        {SDPA_SCALE, true, "scale"},
        {SDPA_LOWEST, s->has_end || s->has_start, "mask"},
        {SDPA_AHEAD, s->has_end && s->ahead != 0, "keys ahead"},
        {SDPA_BACK, s->has_start, "window"},
        {SDPA_SOFTCAP, s->softcap > 0, "cap"},
        {SDPA_SLOPES, s->has_slopes, "slopes"},
        {SDPA_CHOSEN, s->has_choice, "choice"},
        {SDPA_SINKS, s->has_sinks && !s->is_backward, "sinks"},
    };
    static char text[TEXT_MAX + 1];
    int64_t count = 0;
    cudnnStatus_t status =
        cudnn()->BackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                     CUDNN_TYPE_CHAR, TEXT_MAX, &count, text);
    if (status != CUDNN_STATUS_SUCCESS) return "no text of the plan";
    text[count] = '\0';
    const char *arguments = strstr(text, "\"kernelParams\"");
    if (!arguments) return "no arguments in the plan's text";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char mark[32];
        snprintf(mark, sizeof mark, "\"uid\":%d,", (int)rows[i].tensor);
        if (rows[i].is_wanted != (strstr(arguments, mark) != NULL)) return rows[i].name;
    }
    return NULL;
}

static bool check(cudnnBackendDescriptor_t properties, const char *name,
                  const struct sdpa_shape *shape)
{
    struct sdpa_made made;
    const char *fault = sdpa_plan_make(shape, NULL, properties, &made);
    // Who gets a fault takes another way, whatever was made.
    if (!fault) fault = find_left_out(shape, made.plan);
    bool is_made = !fault;
    printf("%s %s %d %lld%s%s\n", name, shape->is_backward ? "backward" : "forward", is_made,
           (long long)made.workspace_bytes, fault ? " " : "", fault ? fault : "");
    sdpa_plan_free(&made);
    return is_made;
}

// False at the end.
static bool read_shape(char name[128], struct sdpa_shape *s)
{
    long long n[9];
    int ends, starts, slopes, sinks, choice;
    bool is_read = scanf("%127s %lld %lld %lld %lld %lld %lld %lld %d %lld %d %lld %f %d %d %d",
                         name, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], &ends, &n[7],
                         &starts, &n[8], &s->softcap, &slopes, &sinks, &choice) == 16;
    s->number = NUMBER_BF16, s->scale = 1, s->is_backward = false;
    s->batch = n[0], s->heads = n[1], s->kv_heads = n[2], s->queries = n[3], s->keys = n[4];
    s->width = n[5], s->value_width = n[6], s->ahead = n[7], s->back = n[8];
    s->has_end = ends, s->has_start = starts;
    s->has_slopes = slopes, s->has_sinks = sinks, s->has_choice = choice;
    s->choice_stride = (s->keys + 7) / 8 * 8;
    return is_read;
}

int main(void)
{
    char name[128];
    struct sdpa_shape shape;
    int faults = 0;
    const char *missing = cudnn_open();
    if (missing) {
        fprintf(stderr, "%s\n", missing);
        return 2;
    }
    cudnnBackendDescriptor_t properties = device_properties();
    while (memset(&shape, 0, sizeof shape), read_shape(name, &shape)) {
        faults += !check(properties, name, &shape);
        shape.is_backward = true;
        shape.turns_lse = cudnn()->GetVersion() < SDPA_STRIDED;
        faults += !check(properties, name, &shape);
        // All three, and their gradients, in rows of one packed array.
        for (int i = 0; i < 3; i++)
            shape.strides[i] = shape.gradient_strides[i] =
                shape.heads * shape.width + shape.kv_heads * (shape.width + shape.value_width);
        faults += !check(properties, name, &shape);
        shape.is_backward = shape.turns_lse = false;
        faults += !check(properties, name, &shape);
    }
    cudnn()->BackendDestroyDescriptor(properties);
    return faults > 0;
}
