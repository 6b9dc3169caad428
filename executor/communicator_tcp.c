#include "executor/communicator_tcp.h"
#include "executor/launch.h"
#include "executor/random.h"
#include "executor/shared_memory.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// All ranks of all nodes get so long to connect, a connection so long to say whose it is, and the
// last messages so long to leave.
static const double CONNECT_S = 60, GREET_S = 5, LEAVE_S = 5;

struct greeting {
    uint64_t key;
    int32_t rank, version;
};

static const char *open_group(struct group *group)
{
    struct tcp_group *own = memory_get(sizeof *own);
    uint64_t key = random_key_text(1, group->purpose), earlier = 0;
    for (int i = 0; i < group->count; i++)
        key = random_key(key, (uint64_t)group->ranks[i]);
    // The same group once more is another one.
    for (const struct group *other = group->communicator->groups; other; other = other->next)
        earlier += !other->inside && other->count == group->count &&
                   strcmp(other->purpose, group->purpose) == 0 &&
                   memcmp(other->ranks, group->ranks, (size_t)group->count * sizeof(int)) == 0;
    *own = (struct tcp_group){.key = random_key(key, earlier)};
    group->of_wire = own;
    return NULL;
}

static void close_group(struct group *group)
{
    free(group->of_wire);
}

static const char *exchange(struct group *group, const struct piece *out, const struct piece *in,
                            const char *what)
{
    struct communicator *communicator = group->communicator;
    struct tcp_group *own = group->of_wire;
    uint64_t tag = random_key(own->key, own->exchange_count++) | TAG_GROUP;
    const char *failure = communicator->has_failed ? communicator->text : NULL;
    char text[128];
    snprintf(text, sizeof text, "group %s: %s", group->purpose, what);
    // Each begins behind itself, so that not all go to the first at once.
    for (int i = 1; i < group->count && !failure; i++) {
        int member = (group->me + i) % group->count;
        tcp_post(communicator, group->ranks[member], tag, out[member].data, out[member].bytes);
    }
    for (int i = 1; i < group->count && !failure; i++) {
        int member = (group->me + group->count - i) % group->count;
        failure = tcp_take(communicator, group->ranks[member], tag, in[member].data,
                           in[member].bytes, text);
    }
    for (int i = 1; i < group->count && !failure; i++)
        failure = tcp_flush(communicator, group->ranks[(group->me + i) % group->count]);
    return failure;
}

static const char *post(struct communicator *communicator, int rank, int channel, const void *data,
                        int64_t bytes)
{
    if (communicator->has_failed) return communicator->text;
    tcp_post(communicator, rank, (uint64_t)channel, data, bytes);
    return NULL;
}

static const char *take(struct communicator *communicator, int rank, int channel, void *data,
                        int64_t bytes)
{
    return tcp_take(communicator, rank, (uint64_t)channel, data, bytes, "receive");
}

static void idle(struct communicator *communicator)
{
    tcp_pump(communicator, 0);
    if (communicator->host) communicator->host->progress(communicator->inside);
}

static void idle_inside(void *context)
{
    tcp_pump(context, 0);
}

static const struct wire TCP_WIRE = {
    .group_open = open_group,
    .group_close = close_group,
    .exchange = exchange,
    .post = post,
    .take = take,
    .idle = idle,
};

static const char *tcp_barrier(struct communicator *communicator)
{
    double one = 1;
    return between_host_sum(tcp_of(communicator)->world, &one, 1);
}

// Says farewell and waits until the others have: a connection that is closed with something unread
// takes back what was sent on it.
static void leave(struct communicator *communicator)
{
    struct tcp_wire *wire = tcp_of(communicator);
    double until_s = socket_now_s() + LEAVE_S;
    for (int rank = 0; rank < communicator->rank_count; rank++)
        tcp_post(communicator, rank, TAG_FAREWELL, NULL, 0);
    for (bool is_alone = false; !is_alone && socket_now_s() < until_s;) {
        if (communicator->has_failed) return;
        is_alone = true;
        for (int rank = 0; rank < communicator->rank_count; rank++) {
            const struct tcp_peer *peer = &wire->peers[rank];
            is_alone &= peer->socket < 0 || (peer->has_left && !peer->first);
        }
        if (!is_alone) tcp_pump(communicator, 1);
        if (communicator->host) communicator->host->progress(communicator->inside);
    }
}

static void tcp_close(struct communicator *communicator)
{
    struct tcp_wire *wire = tcp_of(communicator);
    if (!communicator->has_failed && wire->world) leave(communicator);
    int rank_count = communicator->rank_count;
    between_free(communicator);
    for (int rank = 0; rank < rank_count; rank++)
        tcp_peer_free(&wire->peers[rank]);
    free(wire->peers);
    free(wire->polls);
    free(wire->polled);
    free(wire);
}

static const struct transport TCP_TRANSPORT = {
    .version = COMMUNICATOR_VERSION,
    .name = "tcp",
    .is_deterministic = true,
    .close = tcp_close,
    .group = between_group,
    .all_reduce = between_all_reduce,
    .all_gather = between_all_gather,
    .reduce_scatter = between_reduce_scatter,
    .all_to_all = between_all_to_all,
    .host_gather = between_host_gather,
    .host_sum = between_host_sum,
    .send = between_send,
    .receive = between_receive,
    .barrier = tcp_barrier,
    .progress = between_progress,
    .abort = tcp_abort,
};

static void beat(const struct communicator *communicator)
{
    if (communicator->pulse) atomic_fetch_add(&communicator->pulse->beat, 1);
}

static bool call_rank(struct communicator *communicator, const struct rendezvous_table *table,
                      int rank, double until_s, struct err *err)
{
    const struct rendezvous_seat *seat = &table->seats[rank];
    const struct greeting greeting = {table->key, communicator->rank, RENDEZVOUS_VERSION};
    char who[32];
    snprintf(who, sizeof who, "rank %d", rank);
    struct tcp_peer *peer = &tcp_of(communicator)->peers[rank];
    peer->socket = socket_connect(seat->address, seat->port, until_s, err);
    beat(communicator);
    return peer->socket >= 0 &&
           socket_write(peer->socket, &greeting, sizeof greeting, until_s, who, err);
}

// Whoever does not know the job's key is none of it and is sent away.
static bool answer_rank(struct communicator *communicator, const struct rendezvous_table *table,
                        int listener, int *called, double until_s, struct err *err)
{
    struct greeting greeting;
    struct err ignored = {0};
    int socket = socket_accept(listener, until_s, err);
    if (socket < 0 && !err->kind)
        err_set(err, ERR_SYSTEM,
                "rank %d: some ranks of other nodes have not connected within "
                "%.0f s",
                communicator->rank, CONNECT_S);
    if (socket < 0) return false;
    beat(communicator);
    bool is_known = socket_read(socket, &greeting, sizeof greeting, socket_now_s() + GREET_S,
                                "a rank", &ignored) &&
                    greeting.key == table->key && greeting.version == RENDEZVOUS_VERSION &&
                    greeting.rank > communicator->rank &&
                    greeting.rank < communicator->rank_count &&
                    tcp_of(communicator)->peers[greeting.rank].socket < 0;
    if (is_known) {
        tcp_of(communicator)->peers[greeting.rank].socket = socket;
        (*called)++;
    } else {
        close(socket);
    }
    return true;
}

static bool connect_all(struct communicator *communicator, const struct rendezvous_table *table,
                        int listener, struct err *err)
{
    double until_s = socket_now_s() + CONNECT_S;
    int called = 0, later = communicator->rank_count - 1 - communicator->rank;
    for (int rank = 0; rank < communicator->rank; rank++) {
        if (!call_rank(communicator, table, rank, until_s, err)) return false;
    }
    while (called < later) {
        if (!answer_rank(communicator, table, listener, &called, until_s, err)) return false;
    }
    return true;
}

static bool open_inside(struct communicator *communicator, const struct rendezvous_table *table,
                        const struct communicator_request *request, struct err *err)
{
    struct communicator_request inside = *request;
    inside.rank_count = 0;
    inside.has_nodes = false;
    for (int rank = 0, first = 0; rank < request->rank_count; rank++) {
        if (table->seats[rank].node != table->seats[first].node) first = rank;
        communicator->host_of[rank] = first;
        communicator->place_of[rank] = rank - first;
        inside.rank_count += table->seats[rank].node == table->seats[request->rank].node;
    }
    inside.rank = communicator->place_of[request->rank];
    inside.idle = idle_inside;
    inside.idle_context = communicator;
    if (inside.rank_count == 1) return true;
    communicator->host = communicator_host(&inside, &communicator->inside, err);
    return communicator->host != NULL;
}

static bool open_wire(struct communicator *communicator, const struct communicator_request *request,
                      struct err *err)
{
    size_t count = (size_t)request->rank_count;
    int64_t bytes =
        (int64_t)(sizeof(struct rendezvous_table) + count * sizeof(struct rendezvous_seat));
    struct tcp_wire *wire = communicator->of_wire;
    wire->peers = memory_get(count * sizeof *wire->peers);
    wire->polls = memory_get(count * sizeof *wire->polls);
    wire->polled = memory_get(count * sizeof *wire->polled);
    for (size_t i = 0; i < count; i++)
        wire->peers[i] = (struct tcp_peer){.socket = -1};
    struct rendezvous_table *table =
        shared_memory_map(request->host_name, SHARED_TABLE, bytes, err);
    if (!table) return false;
    bool is_well = table->rank_count == request->rank_count;
    if (!is_well) err_set(err, ERR_SYSTEM, "the launcher does not say where the ranks are");
    is_well = is_well && open_inside(communicator, table, request, err) &&
              connect_all(communicator, table, request->listener, err);
    shared_memory_unmap(table, bytes);
    close(request->listener);
    return is_well;
}

const struct transport *communicator_tcp(const struct communicator_request *request,
                                         struct communicator **opened, struct err *err)
{
    struct communicator *communicator = between_new(&TCP_WIRE, request);
    if (!communicator) {
        err_set(err, ERR_SYSTEM, "out of memory");
        return NULL;
    }
    struct tcp_wire *wire = memory_get(sizeof *wire);
    *wire = (struct tcp_wire){0};
    communicator->of_wire = wire;
    bool is_well = open_wire(communicator, request, err);
    int *all = memory_get((size_t)request->rank_count * sizeof *all);
    for (int rank = 0; rank < request->rank_count; rank++)
        all[rank] = rank;
    const char *failure =
        is_well ? between_group(communicator, all, request->rank_count, "barrier", &wire->world)
                : NULL;
    free(all);
    if (failure) is_well = err_set(err, ERR_SYSTEM, "%s", failure);
    if (!is_well) {
        tcp_close(communicator);
        return NULL;
    }
    *opened = communicator;
    return &TCP_TRANSPORT;
}
