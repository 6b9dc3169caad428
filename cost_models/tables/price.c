#include "cost_models/tables/price.h"
#include "cost_models/tables/exchanges.h"
#include "cost_models/tables/rows.h"
#include "cost_models/tables/towers.h"

#include <assert.h>
#include <math.h>

// What ranks do, gathered: of each quantity the most that a rank has.
struct most {
    double lookups, read_bytes, update_bytes;
    double lookup_sum, hit_sum, unique_sum;
    double fetch_s;
    int64_t device_bytes, host_bytes, nvme_bytes;
};

struct rank_sums {
    double lookups, read_bytes, update_bytes, fetch_bytes, nvme_bytes;
    int64_t tier_bytes[TIER_COUNT];
};

// The ranks of one host, from `first` on.
static void add_host(const struct table_request *request, const struct rank_sums *ranks, int first,
                     int count, struct most *most)
{
    const struct host *host = &cluster_group_of(request->cluster, first)->host;
    double fetch = 0, nvme = 0, slowest = 0;
    int64_t host_bytes = 0, nvme_bytes = 0;
    for (int r = first; r < first + count; r++) {
        fetch += ranks[r].fetch_bytes;
        nvme += ranks[r].nvme_bytes;
        slowest = fmax(slowest, ranks[r].fetch_bytes);
        host_bytes += ranks[r].tier_bytes[TIER_HOST];
        nvme_bytes += ranks[r].tier_bytes[TIER_NVME];
    }
    most->fetch_s = fmax(most->fetch_s, host_fetch_s(request, host, slowest, fetch, nvme));
    if (host_bytes > most->host_bytes) most->host_bytes = host_bytes;
    if (nvme_bytes > most->nvme_bytes) most->nvme_bytes = nvme_bytes;
}

static void add_piece(const struct table_request *request, const struct table_piece *piece,
                      struct rank_sums *ranks, struct most *most)
{
    const struct piece_work work = piece_work(request, piece);
    int rank_count = request->placement->rank_count;
    bool is_every = piece->rank == PIECE_EVERY_RANK;
    int first = is_every ? 0 : piece->rank, end = is_every ? rank_count : piece->rank + 1;
    assert(first >= 0 && end <= rank_count);
    double holders = end - first;
    most->lookup_sum += work.lookups * holders;
    most->hit_sum += work.hits * holders;
    most->unique_sum += piece->first_column == 0 ? work.unique : 0;
    for (int r = first; r < end; r++) {
        ranks[r].lookups += work.lookups;
        ranks[r].read_bytes += work.read_bytes;
        ranks[r].update_bytes += work.update_bytes;
        ranks[r].fetch_bytes += work.fetch_bytes;
        ranks[r].nvme_bytes += work.nvme_bytes;
        for (int tier = 0; tier < TIER_COUNT; tier++)
            ranks[r].tier_bytes[tier] +=
                piece_bytes(piece, request->workload.optimizer, (enum tier)tier);
    }
}

// Steps wait for the rank that has most of each quantity.
static struct most gather(struct arena *arena, const struct table_request *request)
{
    const struct table_placement *placement = request->placement;
    struct rank_sums *ranks = ARENA_NEW(arena, struct rank_sums, placement->rank_count);
    struct most most = {0};
    for (int i = 0; i < placement->piece_count; i++)
        add_piece(request, &placement->pieces[i], ranks, &most);
    for (int r = 0; r < placement->rank_count; r++) {
        most.lookups = fmax(most.lookups, ranks[r].lookups);
        most.read_bytes = fmax(most.read_bytes, ranks[r].read_bytes);
        most.update_bytes = fmax(most.update_bytes, ranks[r].update_bytes);
        if (ranks[r].tier_bytes[TIER_DEVICE] > most.device_bytes)
            most.device_bytes = ranks[r].tier_bytes[TIER_DEVICE];
    }
    for (int first = 0; first < placement->rank_count;) {
        int count = cluster_group_of(request->cluster, first)->gpus_per_host;
        assert(count > 0);
        if (count > placement->rank_count - first) count = placement->rank_count - first;
        add_host(request, ranks, first, count, &most);
        first += count;
    }
    return most;
}

// Of the kernels a third look up and two thirds update.
static void price_compute(const struct table_request *request, const struct most *most,
                          struct table_span *spans)
{
    const struct towers_cost towers = towers_price(request);
    const struct device *device =
        cluster_slowest_device(request->cluster, request->workload.precision);
    double launches_s = request->stack->sparse_kernels * device->launch_latency_s;
    spans[TABLE_TASK_LOOKUP].bytes = most->read_bytes;
    spans[TABLE_TASK_LOOKUP].s = table_stream_s(request, most->read_bytes) + launches_s / 3;
    spans[TABLE_TASK_UPDATE].bytes = most->update_bytes;
    spans[TABLE_TASK_UPDATE].s = table_stream_s(request, most->update_bytes) + launches_s * 2 / 3;
    spans[TABLE_TASK_FETCH].s = spans[TABLE_TASK_STORE].s = most->fetch_s;
    spans[TABLE_TASK_BOTTOM].s = towers.forward_s[DENSE_BOTTOM];
    spans[TABLE_TASK_BOTTOM].flop = towers.forward_flop[DENSE_BOTTOM];
    spans[TABLE_TASK_BOTTOM_BACK].s = towers.backward_s[DENSE_BOTTOM];
    spans[TABLE_TASK_BOTTOM_BACK].flop = towers.backward_flop[DENSE_BOTTOM];
    spans[TABLE_TASK_TOP].s = towers.forward_s[DENSE_CROSS] + towers.forward_s[DENSE_TOP];
    spans[TABLE_TASK_TOP].flop = towers.forward_flop[DENSE_CROSS] + towers.forward_flop[DENSE_TOP];
    spans[TABLE_TASK_TOP_BACK].s = towers.backward_s[DENSE_CROSS] + towers.backward_s[DENSE_TOP];
    spans[TABLE_TASK_TOP_BACK].flop =
        towers.backward_flop[DENSE_CROSS] + towers.backward_flop[DENSE_TOP];
    spans[TABLE_TASK_DENSE_UPDATE].s = towers.update_s;
    spans[TABLE_TASK_REST].s = request->stack->step_overhead_s;
}

// When each begins; returns the step. Ids that are exchanged ahead are the next step's, right
// behind the sums.
static double schedule(const struct table_stack *stack, struct table_span *spans)
{
    double free_s[STREAM_COUNT] = {0}, end_s[TABLE_TASK_COUNT] = {0}, last_s = 0;
    for (int task = 0; task < TABLE_TASK_COUNT; task++) {
        enum stream stream = table_task_stream((enum table_task)task);
        unsigned waits = table_task_waits((enum table_task)task);
        if (stack->prefetches_ids && task == TABLE_TASK_IDS) continue;
        double start_s = stack->overlaps ? free_s[stream] : last_s;
        for (int other = 0; other < task; other++) {
            if (waits >> other & 1) start_s = fmax(start_s, end_s[other]);
        }
        spans[task].start_s = start_s;
        end_s[task] = free_s[stream] = start_s + spans[task].s;
        if (stack->prefetches_ids && task == TABLE_TASK_SUMS) {
            spans[TABLE_TASK_IDS].start_s = end_s[task];
            free_s[stream] = end_s[task] + spans[TABLE_TASK_IDS].s;
        }
        last_s = fmax(last_s, free_s[stream]);
    }
    assert(isfinite(last_s) && last_s >= 0);
    return last_s;
}

// What a rank's device holds beside tables: dense parameters, activations, sums and ids of its
// samples.
int64_t table_beside_bytes(const struct table_request *request)
{
    const struct recommender *model = request->placement->model;
    struct dense_layer layers[DENSE_LAYERS_MAX];
    int count = recommender_layers(model, layers);
    int64_t samples = request->workload.global_batch / request->placement->rank_count;
    int64_t kept = recommender_joined_width(model) * (2 + model->cross_layers);
    for (int i = 0; i < count; i++)
        kept += 2 * layers[i].outputs;  // and its gradient
    // Sums and their gradients, as sent and as received.
    kept += 4 * model->table_count * recommender_row_width(model);
    int64_t wide = table_exchange_bytes(request->workload.precision);
    int64_t ids = recommender_id_count(model) * 2 * 8;
    int64_t states = request->workload.optimizer == TABLE_SGD ? 1 : 2;
    int64_t dense =
        recommender_dense_parameters(model) * (WEIGHT_BYTES * states + GRADIENT_SUM_BYTES + wide);
    return dense + samples * (kept * wide + ids) + request->stack->reserve_bytes;
}

static void fill_memory(const struct table_request *request, const struct most *most,
                        struct table_prediction *prediction)
{
    struct table_memory *memory = &prediction->memory;
    int64_t states = request->workload.optimizer == TABLE_SGD ? 1 : 2;
    const struct host *host = &request->cluster->nodes[0].host;
    memory->tier_bytes[TIER_DEVICE] = most->device_bytes;
    memory->tier_bytes[TIER_HOST] = most->host_bytes;
    memory->tier_bytes[TIER_NVME] = most->nvme_bytes;
    memory->reserve_bytes = request->stack->reserve_bytes;
    memory->dense_bytes = recommender_dense_parameters(request->placement->model) *
                          (WEIGHT_BYTES * states + GRADIENT_SUM_BYTES +
                           table_exchange_bytes(request->workload.precision));
    int64_t beside = table_beside_bytes(request);
    memory->activation_bytes = beside - memory->dense_bytes - memory->reserve_bytes;
    memory->device_bytes = most->device_bytes + beside;
    prediction->device_limit_bytes = cluster_device_bytes(request->cluster);
    prediction->host_bytes = most->host_bytes;
    prediction->host_limit_bytes = host->memory_bytes;
    prediction->nvme_bytes = most->nvme_bytes;
    prediction->nvme_limit_bytes = host->nvme_bytes;
    prediction->fits = memory->device_bytes <= prediction->device_limit_bytes &&
                       most->host_bytes <= host->memory_bytes &&
                       most->nvme_bytes <= host->nvme_bytes;
}

struct table_prediction table_price(const struct table_request *asked)
{
    assert(asked->workload.global_batch % asked->placement->rank_count == 0);
    struct arena arena = {0};
    struct table_request known = *asked;
    const struct table_request *request = &known;
    if (!known.laws) known.laws = table_laws_make(&arena, asked);
    const struct most most = gather(&arena, request);
    struct table_prediction prediction = {0};
    exchanges_price(request, prediction.spans);
    price_compute(request, &most, prediction.spans);
    prediction.step_s = schedule(request->stack, prediction.spans);
    prediction.samples_per_s = (double)request->workload.global_batch / prediction.step_s;
    double mean = most.lookup_sum / request->placement->rank_count;
    prediction.lookups = most.lookups;
    prediction.imbalance = most.lookups / mean;
    prediction.hit_ratio = most.hit_sum / most.lookup_sum;
    prediction.unique_rows = most.unique_sum;
    double flop = 0;
    for (int task = 0; task < TABLE_TASK_COUNT; task++)
        flop += prediction.spans[task].flop;
    prediction.flop_per_s_per_gpu = flop / prediction.step_s;
    fill_memory(request, &most, &prediction);
    arena_free(&arena);
    return prediction;
}
