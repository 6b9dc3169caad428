#include "cost_models/tables/towers.h"
#include "cost_models/compute.h"

#include <math.h>

double table_stream_s(const struct table_request *request, double bytes)
{
    const struct device *device =
        cluster_slowest_device(request->cluster, request->workload.precision);
    return bytes / (device->memory_bandwidth_bytes_per_s * device->efficiency.memory_ratio);
}

static double launch_s(const struct table_request *request)
{
    return cluster_slowest_device(request->cluster, request->workload.precision)->launch_latency_s;
}

static double product_s(const struct table_request *request, const struct stack *stack, int64_t m,
                        int64_t n, int64_t k)
{
    const struct compute_context context = {
        .device = cluster_slowest_device(request->cluster, request->workload.precision),
        .stack = stack,
        .precision = request->workload.precision,
    };
    const struct gemm gemm = {.batch = 1, .m = m, .n = n, .k = k};
    enum bound bound;
    return gemm_s(&context, &gemm, 0, &bound);
}

static void add_layer(const struct table_request *request, const struct stack *stack,
                      const struct dense_layer *layer, bool is_first, struct towers_cost *cost)
{
    int64_t samples = request->workload.global_batch / request->placement->rank_count;
    double wide = precision_bytes(request->workload.precision);
    double flop = 2.0 * (double)samples * (double)layer->inputs * (double)layer->outputs;
    double outputs_bytes = (double)samples * (double)layer->outputs * fmax(wide, 2);
    cost->forward_s[layer->part] +=
        product_s(request, stack, samples, layer->outputs, layer->inputs);
    cost->forward_flop[layer->part] += flop;
    cost->backward_s[layer->part] +=
        product_s(request, stack, layer->inputs, layer->outputs, samples);
    cost->backward_flop[layer->part] += flop;
    if (layer->part != DENSE_CROSS) {
        double passes = request->stack->activation_passes_backward;
        cost->backward_s[layer->part] += table_stream_s(request, passes * outputs_bytes);
    }
    if (is_first) return;  // nobody asks for the gradient of the features
    cost->backward_s[layer->part] +=
        product_s(request, stack, samples, layer->inputs, layer->outputs);
    cost->backward_flop[layer->part] += flop;
}

// What stands between sums and the top tower: walks over the vectors side by side, of which each
// cross layer makes several; the products of pairs read all of them and write few.
static void add_interaction(const struct table_request *request, struct towers_cost *cost)
{
    const struct recommender *model = request->placement->model;
    const struct table_stack *stack = request->stack;
    double samples = (double)request->workload.global_batch / request->placement->rank_count;
    double joined = samples * (double)recommender_joined_width(model) *
                    fmax(2, precision_bytes(request->workload.precision));
    double layers = (double)model->cross_layers;
    double pair_passes = model->interaction == INTERACTION_DOT;
    double forward = stack->join_passes + layers * stack->cross_passes_forward + pair_passes;
    double backward = stack->join_passes + layers * stack->cross_passes_backward + 2 * pair_passes;
    cost->forward_s[DENSE_CROSS] +=
        table_stream_s(request, forward * joined) + (1 + layers) * launch_s(request);
    cost->backward_s[DENSE_CROSS] +=
        table_stream_s(request, backward * joined) + (1 + 3 * layers) * launch_s(request);
}

struct towers_cost towers_price(const struct table_request *request)
{
    struct stack plain = {.gemm_scale = request->stack->gemm_scale, .unaligned_gemm_ratio = 1};
    struct towers_cost cost = {0};
    struct dense_layer layers[DENSE_LAYERS_MAX];
    int count = recommender_layers(request->placement->model, layers);
    for (int i = 0; i < count; i++)
        add_layer(request, &plain, &layers[i], layers[i].part == DENSE_BOTTOM && i == 0, &cost);
    add_interaction(request, &cost);
    // Weight and state read and written, the gradient read, the narrow copy written.
    double parameters = (double)recommender_dense_parameters(request->placement->model);
    double states = request->workload.optimizer == TABLE_SGD ? 1 : 2;
    cost.update_s =
        table_stream_s(request, parameters * (2 * WEIGHT_BYTES * states + GRADIENT_SUM_BYTES)) +
        launch_s(request);
    return cost;
}
