#include "tests/gpu/emulate_nccl.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static struct box *box_of(ncclComm_t comm, int sender, int receiver)
{
    return &comm->shared->boxes[sender * comm->count + receiver];
}

static bool is_process_gone(int pid)
{
    char path[32], text[256];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[length] = '\0';
    const char *end = strrchr(text, ')');
    return !end || end[2] == 'Z' || end[2] == 'X';
}

// As a connection would: a rank that is gone is found out, after a while.
static bool is_rank_gone(ncclComm_t comm)
{
    if (++comm->look_count % 500 != 0) return false;
    for (int rank = 0; rank < comm->count; rank++) {
        int pid = atomic_load(&comm->shared->pids[rank]);
        if (pid && is_process_gone(pid)) return true;
    }
    return false;
}

bool box_has_failed(ncclComm_t comm)
{
    int state = atomic_load(&comm->state);
    if (state != ncclSuccess && state != ncclInProgress) return true;
    if (atomic_load(&comm->is_aborted)) return true;
    bool is_elsewhere = atomic_load(&comm->shared->is_aborted) || is_rank_gone(comm);
    if (is_elsewhere) atomic_store(&comm->state, ncclRemoteError);
    return is_elsewhere;
}

// Fills the box once the receiver wants it: the data is as it is then.
static bool give(ncclComm_t comm, struct transfer *transfer)
{
    struct box *box = box_of(comm, comm->rank, transfer->peer);
    if (atomic_load(&box->state) != BOX_WANTED) return false;
    int64_t left = transfer->bytes - transfer->moved;
    box->bytes = left < BOX_BYTES ? left : BOX_BYTES;
    box->whole_bytes = transfer->bytes;
    box->signature = transfer->signature;
    memcpy(box->data, transfer->data + transfer->moved, (size_t)box->bytes);
    transfer->moved += box->bytes;
    transfer->is_done = transfer->moved == transfer->bytes;
    atomic_store(&box->state, BOX_FULL);
    return true;
}

static bool take(ncclComm_t comm, struct transfer *transfer)
{
    struct box *box = box_of(comm, transfer->peer, comm->rank);
    int state = atomic_load(&box->state);
    if (state == BOX_IDLE) atomic_store(&box->state, BOX_WANTED);
    if (state != BOX_FULL) return state == BOX_IDLE;
    bool is_same = box->signature == transfer->signature && box->whole_bytes == transfer->bytes;
    if (!is_same) {
        atomic_store(&comm->state, ncclInvalidUsage);
        atomic_store(&comm->shared->is_aborted, 1);
        return false;
    }
    memcpy(transfer->data + transfer->moved, box->data, (size_t)box->bytes);
    transfer->moved += box->bytes;
    transfer->is_done = transfer->moved == transfer->bytes;
    atomic_store(&box->state, BOX_IDLE);
    return true;
}

// Of one direction with one rank only the first that is not done moves.
static bool is_behind(const struct transfer *transfers, int index)
{
    for (int i = 0; i < index; i++) {
        if (!transfers[i].is_done && transfers[i].peer == transfers[index].peer &&
            transfers[i].sends == transfers[index].sends)
            return true;
    }
    return false;
}

void box_rest(int *turns)
{
    const struct timespec pause = {0, 20000L << *turns};
    if (*turns < 5) ++*turns;
    nanosleep(&pause, NULL);
}

bool box_exchange(ncclComm_t comm, struct transfer *transfers, int count)
{
    for (int turns = 0;;) {
        bool all_done = true, has_moved = false;
        for (int i = 0; i < count; i++) {
            if (transfers[i].is_done) continue;
            all_done = false;
            if (is_behind(transfers, i)) continue;
            has_moved |= (transfers[i].sends ? give : take)(comm, &transfers[i]);
        }
        if (all_done) return true;
        if (has_moved) turns = 0;
        if (has_moved) continue;
        if (box_has_failed(comm)) return false;
        box_rest(&turns);
    }
}
