#pragma once
#include "executor/communicator_between.h"
#include "executor/rendezvous.h"

// Inside of the transport `tcp`: every rank has a connection to every other one. What is to go out
// is copied into parcels, which leave whenever this rank waits; what comes in is taken off the
// connections then and kept as letters until somebody asks for them.

// What stands before the bytes of a message. Tags below TAG_GROUP are channels of messages.
struct tcp_header {
    uint64_t tag;
    int64_t bytes;
};
#define TAG_GROUP (UINT64_C(1) << 63)
enum { TAG_FAREWELL = 1 << 30, TAG_ABORT };

struct parcel {
    struct parcel *next;
    int64_t bytes, done;  // header included
    unsigned char data[];
};

struct tcp_letter {
    struct tcp_letter *next;
    struct tcp_header header;
    int64_t came;
    unsigned char data[];
};

struct tcp_peer {
    int socket;                   // -1: this rank itself, or closed
    bool has_left;                // has said farewell
    double lost_s;                // when the connection ended without; 0: it has not
    struct parcel *first, *last;  // out
    struct tcp_letter *letters;   // in, oldest first
    struct tcp_letter *coming;    // half of it here
    struct tcp_header header;     // of the next
    int64_t header_came;
};

struct tcp_wire {
    struct tcp_peer *peers;  // [rank]
    struct pollfd *polls;
    int *polled;  // whose each is
    struct group *world;
};

struct tcp_group {
    uint64_t key;
    uint64_t exchange_count;
};

static inline struct tcp_wire *tcp_of(const struct communicator *communicator)
{
    return communicator->of_wire;
}

// executor/communicator_tcp_wire.c
// Takes in and sends what can be, and waits for something to do so up to `wait_ms`.
void tcp_pump(struct communicator *communicator, int wait_ms);
void tcp_post(struct communicator *communicator, int rank, uint64_t tag, const void *data,
              int64_t bytes);
// The next letter of that tag from the rank, of just so many bytes.
const char *tcp_take(struct communicator *communicator, int rank, uint64_t tag, void *data,
                     int64_t bytes, const char *what);
// Until nothing is to go out to the rank.
const char *tcp_flush(struct communicator *communicator, int rank);
void tcp_abort(struct communicator *communicator, const char *reason);
void tcp_peer_free(struct tcp_peer *peer);
