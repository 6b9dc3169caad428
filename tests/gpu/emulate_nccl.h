#pragma once
#include <nccl.h>

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// Inside of the emulated NCCL. Every pair of ranks of a communicator has a box in each direction,
// in memory that they share: the receiver says that it wants something, the sender fills the box,
// the receiver empties it.

enum { BOX_BYTES = 4096 };
enum box_state { BOX_IDLE, BOX_WANTED, BOX_FULL };

struct box {
    alignas(64) _Atomic int state;
    uint64_t signature;  // of the call that sends, which has to be that which receives
    int64_t whole_bytes, bytes;
    unsigned char data[BOX_BYTES];
};

struct nccl_shared {
    _Atomic int joined, finished, is_aborted;
    _Atomic int pids[64];
    struct box boxes[];  // [sender][receiver]
};

// A stream that the transport has made. Those of the back end do everything at once and are not
// known here: calls on them are done when the communicator's state says so.
struct CUstream_st {
    struct CUstream_st *next;
    _Atomic uint64_t issued, done;
};

enum call_kind {
    CALL_SEND,
    CALL_RECEIVE,
    CALL_ALL_REDUCE,
    CALL_ALL_GATHER,
    CALL_REDUCE_SCATTER,
    CALL_BROADCAST,
    CALL_REDUCE
};
struct nccl_call {
    struct nccl_call *next;
    enum call_kind kind;
    const void *from;
    void *to;
    int64_t count;
    ncclDataType_t type;
    ncclRedOp_t operation;
    int peer;  // or root
    ncclComm_t comm;
    cudaStream_t stream;
    bool ends_group;
};

struct ncclComm {
    struct nccl_shared *shared;
    int64_t shared_bytes;
    int count, rank;
    pthread_t worker;
    pthread_mutex_t lock;
    struct nccl_call *first, *last;  // not yet carried out
    _Atomic int state;               // ncclResult_t; ncclInProgress while it is being made
    _Atomic int is_aborted, is_ending, has_work;
    bool is_finalized, blocks;
    _Atomic int inside;   // calls that block
    unsigned look_count;  // of the worker
};

// Of one piece of an exchange with another rank.
struct transfer {
    int peer;
    bool sends, is_done;
    unsigned char *data;
    int64_t bytes, moved;
    uint64_t signature;
};

// tests/gpu/emulate_nccl_box.c: until all are done; false: the communicator has failed.
bool box_exchange(ncclComm_t comm, struct transfer *transfers, int count);
// Pauses; longer, up to 640 us, the more turns there was nothing to do.
void box_rest(int *turns);
// Whether the communicator is to give up, with its state set.
bool box_has_failed(ncclComm_t comm);
// tests/gpu/emulate_nccl_work.c
void *nccl_work(void *context);  // the communicator
int64_t nccl_type_bytes(ncclDataType_t type);
// tests/gpu/emulate_nccl_stream.c: streams that this transport has made.
bool stream_is_own(cudaStream_t stream);
