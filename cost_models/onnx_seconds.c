#include "cost_models/onnx_seconds.h"

#include <assert.h>
#include <math.h>

static double tensor_bytes(const struct onnx_graph *graph, const int *tensors, int count)
{
    double bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += (double)graph->tensors[tensors[i]].bytes;
    return bytes;
}

// Numbers of other widths than 2 bytes are computed as fp32.
static enum precision precision_of(const struct device *device, int element_bytes)
{
    if (element_bytes != 2) return PRECISION_FP32;
    return device->peak_flop_per_s[PRECISION_BF16] > 0 ? PRECISION_BF16 : PRECISION_FP16;
}

// All that a node makes shares the memory of something else, and nothing is written there.
static bool is_view(const struct onnx_graph *graph, const struct onnx_node *node)
{
    for (int i = 0; i < node->output_count; i++) {
        const struct onnx_tensor *tensor = &graph->tensors[node->outputs[i]];
        if (tensor->shares < 0 || tensor->overwrites) return false;
    }
    return true;
}

// The roofline of each node alone, at the rates that the device's kernels reach.
const double *onnx_seconds(struct arena *arena, const struct onnx_graph *graph,
                           const struct device *device, struct err *err)
{
    double *seconds = ARENA_NEW(arena, double, graph->node_count);
    const struct device_efficiency *rates = &device->efficiency;
    for (int i = 0; i < graph->node_count; i++) {
        const struct onnx_node *node = &graph->nodes[i];
        if (is_view(graph, node)) continue;
        int element_bytes = graph->tensors[node->outputs[0]].element_bytes;
        enum precision precision = precision_of(device, element_bytes);
        double rate = device->peak_flop_per_s[precision] * rates->gemm_ratio[precision];
        if (node->flop > 0 && rate <= 0) {
            err_set(err, ERR_USAGE, "%s has no rate in %s, which node %s computes in", device->name,
                    precision_name(precision), node->name);
            return NULL;
        }
        double bytes = tensor_bytes(graph, node->inputs, node->input_count) +
                       tensor_bytes(graph, node->outputs, node->output_count);
        double memory_s = bytes / (device->memory_bandwidth_bytes_per_s * rates->memory_ratio);
        double compute_s = node->flop > 0 ? node->flop / rate : 0;
        seconds[i] = device->launch_latency_s + (compute_s > memory_s ? compute_s : memory_s);
        assert(isfinite(seconds[i]) && seconds[i] >= 0);
    }
    return seconds;
}
