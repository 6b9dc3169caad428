#include "executor/half.h"
#include "tests/gpu/emulate_nccl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Carries out the calls of a communicator, on a thread of its own.

int64_t nccl_type_bytes(ncclDataType_t type)
{
    return type == ncclFloat64 ? 8 : type == ncclFloat32 ? 4 : 2;
}

static double get(const void *data, ncclDataType_t type, int64_t i)
{
    assert(data);
    switch (type) {
    case ncclFloat64:
        return ((const double *)data)[i];
    case ncclFloat32:
        return (double)((const float *)data)[i];
    case ncclBfloat16:
        return (double)bf16_widen(((const uint16_t *)data)[i]);
    default:
        break;
    }
    return (double)fp16_widen(((const uint16_t *)data)[i]);
}

static void put(void *data, ncclDataType_t type, int64_t i, double value)
{
    switch (type) {
    case ncclFloat64:
        ((double *)data)[i] = value;
        return;
    case ncclFloat32:
        ((float *)data)[i] = (float)value;
        return;
    case ncclBfloat16:
        ((uint16_t *)data)[i] = bf16_round((float)value);
        return;
    default:
        break;
    }
    ((uint16_t *)data)[i] = fp16_round((float)value);
}

// Around a ring, from another rank for each element, rounded at every station.
static void combine(const struct nccl_call *call, unsigned char **parts, void *to)
{
    int count = call->comm->count;
    unsigned char rounded[8];
    for (int64_t i = 0; i < call->count; i++) {
        int first = (int)((i + 1) % count);
        double sum = get(parts[first], call->type, i);
        for (int turn = 1; turn < count; turn++) {
            double term = get(parts[(first + turn) % count], call->type, i);
            sum = call->operation == ncclSum ? sum + term : sum > term ? sum : term;
            put(rounded, call->type, 0, sum);
            sum = get(rounded, call->type, 0);
        }
        put(to, call->type, i, sum);
    }
}

static uint64_t signature(const struct nccl_call *call)
{
    bool is_message = call->kind == CALL_SEND || call->kind == CALL_RECEIVE;
    uint64_t kind = is_message ? CALL_SEND : call->kind,
             root = is_message ? 0 : (uint64_t)call->peer;
    return kind << 60 | root << 52 | (uint64_t)call->type << 48 | (uint64_t)call->count;
}

static void *shift(const void *data, int64_t bytes)
{
    void *start;
    memcpy(&start, &data, sizeof start);
    return (char *)start + bytes;
}

static void add(struct transfer *transfers, int *count, const struct nccl_call *call, int peer,
                bool sends, void *data)
{
    transfers[(*count)++] = (struct transfer){
        .peer = peer,
        .sends = sends,
        .data = data,
        .bytes = call->count * nccl_type_bytes(call->type),
        .signature = signature(call),
    };
}

// Every rank gets `parts` of all that have something for it. `gives`, `takes`: whether this rank
// does, to or from all.
static bool exchange(const struct nccl_call *call, bool gives_all, bool takes_all,
                     unsigned char **parts)
{
    ncclComm_t comm = call->comm;
    int64_t bytes = call->count * nccl_type_bytes(call->type);
    bool is_scattered = call->kind == CALL_REDUCE_SCATTER;
    struct transfer *transfers = calloc((size_t)comm->count * 2, sizeof *transfers);
    int count = 0;
    for (int rank = 0; rank < comm->count && transfers; rank++) {
        if (rank == comm->rank) continue;
        bool gives = gives_all || (call->kind == CALL_REDUCE && rank == call->peer);
        bool takes = takes_all || (call->kind == CALL_BROADCAST && rank == call->peer);
        void *from = shift(call->from, is_scattered ? rank * bytes : 0);
        if (gives) add(transfers, &count, call, rank, true, from);
        if (takes) add(transfers, &count, call, rank, false, parts[rank]);
    }
    bool is_well = transfers && box_exchange(comm, transfers, count);
    free(transfers);
    return is_well;
}

static bool run_collective(const struct nccl_call *call)
{
    ncclComm_t comm = call->comm;
    int64_t bytes = call->count * nccl_type_bytes(call->type);
    bool is_root = comm->rank == call->peer, is_gather = call->kind == CALL_ALL_GATHER;
    bool gives = call->kind == CALL_BROADCAST ? is_root : call->kind != CALL_REDUCE;
    bool takes = call->kind == CALL_REDUCE ? is_root : call->kind != CALL_BROADCAST;
    bool sums = call->kind != CALL_BROADCAST && !is_gather && takes;
    unsigned char **parts = calloc((size_t)comm->count, sizeof *parts);
    unsigned char *room = malloc((size_t)(comm->count * bytes) + 1);
    for (int rank = 0; rank < comm->count && parts && room; rank++)
        parts[rank] = is_gather                      ? shift(call->to, rank * bytes)
                      : call->kind == CALL_BROADCAST ? call->to
                                                     : room + rank * bytes;
    bool is_well = parts && room && exchange(call, gives, takes, parts);
    bool is_scattered = call->kind == CALL_REDUCE_SCATTER;
    const void *own = shift(call->from, is_scattered ? comm->rank * bytes : 0);
    if (is_well && is_gather) memmove(parts[comm->rank], own, (size_t)bytes);
    if (is_well && call->kind == CALL_BROADCAST && is_root && call->to != call->from)
        memmove(call->to, own, (size_t)bytes);
    if (is_well && sums) {
        memcpy(parts[comm->rank], own, (size_t)bytes);
        combine(call, parts, call->to);
    }
    free(parts);
    free(room);
    return is_well;
}

static bool is_message(const struct nccl_call *call)
{
    return call->kind == CALL_SEND || call->kind == CALL_RECEIVE;
}

// The messages of a group move together, collectives one after another.
static bool run_group(struct nccl_call *first, int count)
{
    struct transfer *transfers = calloc((size_t)count, sizeof *transfers);
    int message_count = 0;
    bool is_well = transfers != NULL;
    for (struct nccl_call *call = first; call && is_well; call = call->next) {
        if (is_message(call)) {
            bool sends = call->kind == CALL_SEND;
            add(transfers, &message_count, call, call->peer, sends,
                sends ? shift(call->from, 0) : call->to);
        } else {
            is_well = run_collective(call);
        }
    }
    is_well = is_well && box_exchange(first->comm, transfers, message_count);
    free(transfers);
    return is_well;
}

// Only now a stream knows of its calls: an event that was recorded before does not wait for them.
static void launch(ncclComm_t comm, const struct nccl_call *first)
{
    for (const struct nccl_call *call = first; call; call = call->next) {
        if (!stream_is_own(call->stream)) continue;
        atomic_fetch_add(&call->stream->issued, 1);
        atomic_fetch_sub(&comm->has_work, 1);
    }
}

// The calls up to the end of a group, taken out of the list; NULL: there is none.
static struct nccl_call *take_group(ncclComm_t comm, int *count)
{
    pthread_mutex_lock(&comm->lock);
    struct nccl_call *first = comm->first, *last = first;
    *count = first != NULL;
    while (last && !last->ends_group) {
        last = last->next;
        (*count)++;
    }
    if (last) {
        comm->first = last->next;
        if (!comm->first) comm->last = NULL;
        last->next = NULL;
    } else {
        first = NULL;
    }
    pthread_mutex_unlock(&comm->lock);
    launch(comm, first);
    return first;
}

static void end_group(ncclComm_t comm, struct nccl_call *first)
{
    for (struct nccl_call *call = first; call;) {
        struct nccl_call *next = call->next;
        if (stream_is_own(call->stream))
            atomic_fetch_add(&call->stream->done, 1);
        else
            atomic_fetch_sub(&comm->has_work, 1);
        free(call);
        call = next;
    }
}

static bool join(ncclComm_t comm)
{
    const struct timespec pause = {0, 100000};
    atomic_fetch_add(&comm->shared->joined, 1);
    while (atomic_load(&comm->shared->joined) < comm->count) {
        if (box_has_failed(comm)) return false;
        nanosleep(&pause, NULL);
    }
    atomic_store(&comm->state, ncclSuccess);
    return true;
}

void *nccl_work(void *context)
{
    int turns = 0;
    ncclComm_t comm = context;
    if (!join(comm)) return NULL;
    while (!atomic_load(&comm->is_aborted)) {
        int count = 0;
        struct nccl_call *first = take_group(comm, &count);
        if (first) {
            turns = 0;
            bool is_well = run_group(first, count);
            if (is_well) end_group(comm, first);
            for (struct nccl_call *next; !is_well && first; first = next) {
                next = first->next;
                free(first);
            }
            if (!is_well) return NULL;
        } else if (atomic_load(&comm->is_ending)) {
            return NULL;
        } else {
            // One that is gone or has given up is noticed with nothing to do as well.
            if (!atomic_load(&comm->shared->finished) && box_has_failed(comm)) return NULL;
            box_rest(&turns);
        }
    }
    return NULL;
}
