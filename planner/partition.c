#include "planner/partition.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static double stage_extra_s(const struct partition_request *request, int stage)
{
    double extra_s = 0;
    if (stage == 0) extra_s += request->first_s;
    extra_s += stage == request->stage_count - 1 ? request->last_s : request->cut_s;
    return extra_s;
}

static double stage_extra_bytes(const struct partition_request *request, int stage)
{
    double extra_bytes = 0;
    if (stage == 0) extra_bytes += request->first_bytes;
    if (stage == request->stage_count - 1) extra_bytes += request->last_bytes;
    return extra_bytes;
}

static double layer_bytes(const struct partition_request *request, int stage, int layer)
{
    if (!request->layer_static_bytes) return 0;
    return request->layer_static_bytes[layer] +
           request->in_flight[stage] * request->layer_saved_bytes[layer];
}

double partition_slowest(const struct partition_request *request, const int *stage_layers)
{
    double slowest_s = 0;
    int layer = 0;
    for (int stage = 0; stage < request->stage_count; stage++) {
        double stage_s = stage_extra_s(request, stage);
        for (int end = layer + stage_layers[stage]; layer < end; layer++) {
            stage_s += request->layer_s[layer];
        }
        slowest_s = fmax(slowest_s, stage_s);
    }
    assert(layer == request->layer_count);
    return slowest_s;
}

// Fills stages from the last to the first, each as full as `limit_s` and the memory allow. Every
// sub-row of a row that fits fits too, so taking the most never shuts out a split that works.
static bool fill(const struct partition_request *request, double limit_s, int *stage_layers)
{
    bool bounded = request->layer_static_bytes != NULL;
    int left = request->layer_count;
    for (int stage = request->stage_count - 1; stage >= 0; stage--) {
        double stage_s = stage_extra_s(request, stage);
        double bytes = bounded ? stage_extra_bytes(request, stage) : 0;
        int taken = 0;
        while (left - taken > stage) {  // one layer stays for each stage before
            int layer = left - taken - 1;
            stage_s += request->layer_s[layer];
            bytes += layer_bytes(request, stage, layer);
            if (stage_s > limit_s || (bounded && bytes > request->limit_bytes)) break;
            taken++;
        }
        if (taken == 0) return false;
        stage_layers[stage] = taken;
        left -= taken;
    }
    return left == 0;
}

bool partition_balance(struct arena *scratch, const struct partition_request *request,
                       int *stage_layers, double *slowest_s)
{
    assert(request->stage_count >= 1);
    if (!fill(request, INFINITY, stage_layers)) return false;
    struct arena_mark mark = arena_mark(scratch);
    int *trial = ARENA_NEW(scratch, int, request->stage_count);
    double high_s = partition_slowest(request, stage_layers), low_s = 0;
    // Halving narrows the limit quickly; then each round asks for strictly faster than the best
    // found, so the end is exact: the next smaller limit has no split.
    while (high_s - low_s > 1e-3 * high_s) {
        double middle_s = low_s + (high_s - low_s) / 2;
        bool ok = fill(request, middle_s, trial);
        if (!ok) {
            low_s = middle_s;
            continue;
        }
        memcpy(stage_layers, trial, (size_t)request->stage_count * sizeof *trial);
        high_s = partition_slowest(request, stage_layers);
    }
    while (fill(request, nextafter(high_s, 0), trial)) {
        double faster_s = partition_slowest(request, trial);
        if (!(faster_s < high_s)) break;
        memcpy(stage_layers, trial, (size_t)request->stage_count * sizeof *trial);
        high_s = faster_s;
    }
    arena_reset(scratch, mark);
    if (slowest_s) *slowest_s = high_s;
    return true;
}
