#include "executor/calibrate/calibrate.h"

#include <assert.h>

// Each collective by size over all ranks, and messages between neighbours there and back.

// The first two are measured in any case: they tell latency and bandwidth apart. The last is for
// devices, whose links want more to be busy.
static const int64_t SIZES[] = {4 << 10, 1 << 20, 64 << 10, 16 << 20, 256 << 20};
enum {
    SIZES_DEVICE = sizeof SIZES / sizeof *SIZES,
    SIZES_HOST = SIZES_DEVICE - 1,
    SIZES_LEAST = 2,
    REPEATS = 9
};
static const int64_t MESSAGE_MOST = 1 << 20;  // of what is under way: struct communicator_request

static const enum collective KINDS[] = {COLLECTIVE_ALL_REDUCE, COLLECTIVE_ALL_GATHER,
                                        COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_ALL_TO_ALL,
                                        COLLECTIVE_SEND_RECV};
enum { KIND_COUNT = sizeof KINDS / sizeof *KINDS };

struct timed_exchange {
    const struct calibrate_request *request;
    struct group *world;
    enum collective kind;
    int64_t reals;    // of the whole payload
    int64_t *counts;  // of it, by rank
    char *from, *to;
};

// There and back: even ranks begin. The last of an odd number has nobody.
static const char *bounce(const struct timed_exchange *exchange)
{
    const struct calibrate_request *request = exchange->request;
    const struct transport *transport = request->transport;
    bool begins = request->rank % 2 == 0;
    int peer = begins ? request->rank + 1 : request->rank - 1;
    if (peer >= request->rank_count) return NULL;
    const char *fault = NULL;
    for (int turn = 0; turn < 2 && !fault; turn++) {
        bool sends = begins == (turn == 0);
        fault = sends ? transport->send(request->communicator, STREAM_PP, ELEMENT_FP32, peer, 0,
                                        exchange->from, exchange->reals)
                      : transport->receive(request->communicator, STREAM_PP, ELEMENT_FP32, peer, 0,
                                           exchange->to, exchange->reals);
    }
    return fault;
}

static const char *begin(const struct timed_exchange *exchange)
{
    const struct transport *transport = exchange->request->transport;
    const int64_t *counts = exchange->counts;
    switch (exchange->kind) {
    case COLLECTIVE_ALL_REDUCE:
        return transport->all_reduce(exchange->world, STREAM_DP, ELEMENT_FP32, exchange->to,
                                     exchange->reals, COMBINE_SUM);
    case COLLECTIVE_ALL_GATHER:
        return transport->all_gather(exchange->world, STREAM_DP, ELEMENT_FP32, exchange->from,
                                     exchange->to, counts);
    case COLLECTIVE_REDUCE_SCATTER:
        return transport->reduce_scatter(exchange->world, STREAM_DP, ELEMENT_FP32, exchange->to,
                                         exchange->from, counts);
    case COLLECTIVE_ALL_TO_ALL:
        return transport->all_to_all(exchange->world, STREAM_EP, ELEMENT_FP32, exchange->from,
                                     counts, exchange->to, counts);
    default:
        return bounce(exchange);
    }
}

// What ranks exchange in a run is known to the transport as well.
static void adopt(const struct timed_exchange *exchange, void *memory, int64_t bytes)
{
    const struct calibrate_request *request = exchange->request;
    if (request->transport->adopt)
        request->transport->adopt(request->communicator, memory, memory ? bytes : 0);
}

// A device goes on with it when the call has returned.
static const char *exchange_once(const struct timed_exchange *exchange)
{
    static const enum stream STREAMS[] = {STREAM_DP, STREAM_EP, STREAM_PP};
    const struct calibrate_side *side = exchange->request->sides;
    const char *fault = begin(exchange);
    for (size_t i = 0; i < sizeof STREAMS / sizeof *STREAMS && !fault; i++)
        fault = side->backend->synchronize(side->device, STREAMS[i]);
    return fault;
}

// The best of some: ranks wait for each other, and for whatever else the cores are given to.
static bool measure(const struct timed_exchange *exchange, double *s, struct err *err)
{
    const struct calibrate_request *request = exchange->request;
    *s = 0;
    for (int i = 0; i <= REPEATS; i++) {
        const char *fault = request->transport->barrier(request->communicator);
        double start_s = request->clock.wall_s(request->clock.context);
        if (!fault) fault = exchange_once(exchange);
        double taken_s = request->clock.wall_s(request->clock.context) - start_s;
        if (!calibrate_ok(err, "a collective", fault)) return false;
        if (i == 1 || (i > 0 && taken_s < *s)) *s = taken_s;
    }
    assert(*s >= 0);
    if (exchange->kind == COLLECTIVE_SEND_RECV) *s /= 2;  // there, without back
    return calibrate_mean(request, exchange->world, s, 1, err);
}

// Whether on no rank the time is over: all must do the same.
static bool goes_on(const struct calibrate_request *request, struct group *world, double until_s,
                    struct err *err)
{
    double late = request->clock.wall_s(request->clock.context) > until_s;
    return calibrate_mean(request, world, &late, 1, err) && late == 0;
}

// All ranks give and get the same: what is left over of a size is not exchanged.
static bool measure_size(struct timed_exchange *exchange, int64_t bytes,
                         struct calibration *calibration, struct err *err)
{
    int ranks = exchange->request->rank_count;
    int real_bytes = exchange->request->sides->backend->real_bytes;
    int64_t each = bytes / real_bytes / ranks;
    for (int r = 0; r < ranks; r++)
        exchange->counts[r] = each;
    exchange->reals = each * ranks;
    assert(exchange->reals * real_bytes <= bytes && "what the memory has room for");
    for (int k = 0; k < KIND_COUNT; k++) {
        if (KINDS[k] == COLLECTIVE_SEND_RECV && bytes > MESSAGE_MOST) continue;
        exchange->kind = KINDS[k];
        struct calibrate_collective *row = &calibration->collectives[calibration->collective_count];
        *row = (struct calibrate_collective){KINDS[k], ranks, exchange->reals * real_bytes, 0};
        if (!measure(exchange, &row->s, err)) return false;
        calibration->collective_count++;
    }
    return true;
}

bool calibrate_collectives(struct arena *arena, const struct calibrate_request *request,
                           struct group *world, double until_s, struct calibration *calibration,
                           struct err *err)
{
    if (request->rank_count < 2) return true;
    int sizes = request->is_short                     ? SIZES_LEAST
                : calibrate_has_marks(request->sides) ? SIZES_DEVICE
                                                      : SIZES_HOST;
    calibration->collectives = ARENA_NEW(arena, struct calibrate_collective, sizes * KIND_COUNT);
    struct timed_exchange exchange = {.request = request,
                                      .world = world,
                                      .counts = ARENA_NEW(arena, int64_t, request->rank_count)};
    const struct backend *backend = request->sides->backend;
    struct device *device = request->sides->device;
    void *memory = NULL;
    int64_t most = 0;
    for (int i = 0; i < sizes; i++)
        if (SIZES[i] > most) most = SIZES[i];
    const char *fault = backend->allocate(device, 2 * most, &memory);
    if (!fault) fault = backend->fill(device, STREAM_DP, memory, 0, 2 * most);
    if (!calibrate_ok(err, "memory to measure in", fault)) return false;
    exchange.from = memory;
    exchange.to = exchange.from + most;
    adopt(&exchange, memory, 2 * most);
    for (int i = 0; i < sizes && !err->kind; i++) {
        if (i >= SIZES_LEAST && !goes_on(request, world, until_s, err)) break;
        (void)(measure_size(&exchange, SIZES[i], calibration, err));
    }
    adopt(&exchange, NULL, 0);
    backend->release(device, memory);
    return !err->kind;
}
