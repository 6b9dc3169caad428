#pragma once
#include "executor/socket.h"

// How the launchers of a job that runs on several nodes find each other without mpirun: node 0
// listens, the others come to it, each says which ranks it has and what it was given to run, and
// all get the table of where every rank listens. Their connections to node 0 stay open: over them
// launchers tell each other how their ranks fare (executor/launch_nodes.c).

enum { RENDEZVOUS_VERSION = 1, NODE_NAME_BYTES = 64, NODE_COUNT_MAX = 4096 };

// Where a rank listens for those of other nodes.
struct rendezvous_seat {
    char address[SOCKET_TEXT_BYTES];
    int port, node;
};

// What ranks find in the memory that they share with their launcher (SHARED_TABLE).
struct rendezvous_table {
    uint64_t key;  // of the job: whoever connects to a rank has to know it
    int node_count, rank_count;
    struct rendezvous_seat seats[];
};

struct rendezvous_request {
    const char *host;  // of node 0
    int port;
    int node, node_count, rank_count;
    uint64_t plan_key;     // of the plan; all nodes must have the same
    uint64_t options_key;  // of what else they must agree on
    double timeout_s;
};

struct rendezvous {
    int node, node_count, rank_count;
    int first_rank, own_count;       // ranks of this node
    int *listeners;                  // [own_count]
    int *links;                      // node 0: [node] to each other, [0] is -1; else [0] to node 0
    char (*names)[NODE_NAME_BYTES];  // node 0: of each node's host, for messages
    struct rendezvous_table *table;
    size_t table_bytes;
};

// Ranks of a node: neighbours stay together, counts differ by one at most.
int rendezvous_first_rank(int rank_count, int node_count, int node);

// ERR_SYSTEM, one line that says who did not come, or who came with what; on all nodes that have
// come. The caller closes what is returned, also after a failure.
MUST_CHECK bool rendezvous_meet(const struct rendezvous_request *request, struct rendezvous *met,
                                struct err *err);
void rendezvous_close(struct rendezvous *met);
// Leaves listening to the ranks, once those have been started.
void rendezvous_close_listeners(struct rendezvous *met);

// Whole messages between launchers: a kind and bytes. `who` for the text.
struct frame {
    uint32_t magic, version, kind, bytes;
};
enum frame_kind { FRAME_HELLO = 1, FRAME_WELCOME, FRAME_REFUSED, FRAME_NEWS, FRAME_END };
MUST_CHECK bool frame_write(int socket, enum frame_kind kind, const void *data, size_t bytes,
                            double until_s, const char *who, struct err *err);
// Of at most `room` bytes. ERR_SYSTEM also for what is no frame of this version.
MUST_CHECK bool frame_read(int socket, enum frame_kind *kind, void *data, size_t room,
                           size_t *bytes, double until_s, const char *who, struct err *err);
