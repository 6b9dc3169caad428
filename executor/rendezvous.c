#include "executor/rendezvous.h"
#include "core/version.h"

#include <arpa/inet.h>
#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static const uint32_t FRAME_MAGIC = 0x6d657368;

// Whoever connects gets so long to say who it is: another program on the network says nothing.
static const double HELLO_S = 5;

struct hello {
    int32_t node, node_count, rank_count, own_count;
    uint64_t plan_key, options_key;
    char name[NODE_NAME_BYTES], program[32];
    int32_t ports[];  // [own_count]
};

int rendezvous_first_rank(int rank_count, int node_count, int node)
{
    return (int)((int64_t)rank_count * node / node_count);
}

bool frame_write(int socket, enum frame_kind kind, const void *data, size_t bytes, double until_s,
                 const char *who, struct err *err)
{
    const struct frame frame = {FRAME_MAGIC, RENDEZVOUS_VERSION, (uint32_t)kind, (uint32_t)bytes};
    return socket_write(socket, &frame, sizeof frame, until_s, who, err) &&
           socket_write(socket, data, bytes, until_s, who, err);
}

bool frame_read(int socket, enum frame_kind *kind, void *data, size_t room, size_t *bytes,
                double until_s, const char *who, struct err *err)
{
    struct frame frame;
    if (!socket_read(socket, &frame, sizeof frame, until_s, who, err)) return false;
    if (frame.magic != FRAME_MAGIC)
        return err_set(err, ERR_SYSTEM, "%s is not a launcher of this program", who);
    if (frame.version != RENDEZVOUS_VERSION)
        return err_set(err, ERR_SYSTEM,
                       "%s speaks version %u of the rendezvous, this program version %d", who,
                       frame.version, RENDEZVOUS_VERSION);
    if (frame.bytes > room)
        return err_set(err, ERR_SYSTEM, "%s says more than there is to say", who);
    *kind = (enum frame_kind)frame.kind;
    *bytes = frame.bytes;
    return socket_read(socket, data, frame.bytes, until_s, who, err);
}

static size_t hello_bytes(int rank_count)
{
    return sizeof(struct hello) + (size_t)rank_count * sizeof(int32_t);
}

static struct hello *hello_make(const struct rendezvous_request *request,
                                const struct rendezvous *met)
{
    struct hello *hello = memory_get(hello_bytes(met->own_count));
    *hello = (struct hello){
        .node = request->node,
        .node_count = request->node_count,
        .rank_count = request->rank_count,
        .own_count = met->own_count,
        .plan_key = request->plan_key,
        .options_key = request->options_key,
        .program = MESHWRIGHT_VERSION,
    };
    gethostname(hello->name, sizeof hello->name - 1);
    for (int i = 0; i < met->own_count; i++)
        hello->ports[i] = socket_port(met->listeners[i]);
    return hello;
}

// Ranks listen where their launcher talks to node 0: the way that the others can reach.
static bool open_listeners(struct rendezvous *met, const char *address, struct err *err)
{
    for (int i = 0; i < met->own_count; i++) {
        met->listeners[i] = socket_listen(address, 0, err);
        if (met->listeners[i] < 0) return false;
    }
    return true;
}

static void take_seats(struct rendezvous *met, const struct hello *hello, const char *address)
{
    int first = rendezvous_first_rank(met->rank_count, met->node_count, hello->node);
    for (int i = 0; i < hello->own_count; i++) {
        struct rendezvous_seat *seat = &met->table->seats[first + i];
        snprintf(seat->address, sizeof seat->address, "%s", address);
        seat->port = hello->ports[i];
        seat->node = hello->node;
    }
    snprintf(met->names[hello->node], NODE_NAME_BYTES, "%.*s", NODE_NAME_BYTES - 1, hello->name);
}

// What a node that has come was given, against what node 0 was.
static bool check_hello(const struct rendezvous *met, const struct hello *mine,
                        const struct hello *other, size_t bytes, struct err *err)
{
    const char *name = other->name;
    if (strncmp(other->program, mine->program, sizeof mine->program) != 0)
        return err_set(err, ERR_SYSTEM, "a node (%.60s) runs version %.30s, node 0 version %s",
                       name, other->program, mine->program);
    if (other->node_count != mine->node_count)
        return err_set(err, ERR_SYSTEM,
                       "a node (%.60s) was started with --node-count %d, node 0 "
                       "with %d",
                       name, other->node_count, mine->node_count);
    if (other->node <= 0 || other->node >= met->node_count)
        return err_set(err, ERR_SYSTEM,
                       "a node (%.60s) was started with --node-rank %d, wanted 1 "
                       "to %d",
                       name, other->node, met->node_count - 1);
    if (met->links[other->node] >= 0)
        return err_set(err, ERR_SYSTEM, "--node-rank %d is there twice: %.60s and %.60s",
                       other->node, met->names[other->node], name);
    if (other->plan_key != mine->plan_key || other->rank_count != mine->rank_count)
        return err_set(err, ERR_SYSTEM, "node %d (%.60s) has another plan than node 0", other->node,
                       name);
    if (other->options_key != mine->options_key)
        return err_set(err, ERR_SYSTEM,
                       "node %d (%.60s) was started with other options than node 0", other->node,
                       name);
    int own = rendezvous_first_rank(met->rank_count, met->node_count, other->node + 1) -
              rendezvous_first_rank(met->rank_count, met->node_count, other->node);
    if (other->own_count != own || bytes != hello_bytes(own))
        return err_set(err, ERR_SYSTEM, "node %d (%.60s) says what cannot be", other->node, name);
    return true;
}

// One that knocks: false when it is one of ours and does not fit; others are sent away.
static bool receive_node(struct rendezvous *met, int socket, const struct hello *mine,
                         struct hello *room, struct err *err)
{
    struct err own = {0};
    enum frame_kind kind = FRAME_END;
    size_t bytes = 0;
    char address[SOCKET_TEXT_BYTES], who[SOCKET_TEXT_BYTES + 16];
    socket_address(socket, true, address);
    snprintf(who, sizeof who, "a node (%s)", address);
    bool is_ours = frame_read(socket, &kind, room, hello_bytes(met->rank_count), &bytes,
                              socket_now_s() + HELLO_S, who, &own);
    // Another version is one of ours; who says nothing, or something else, is not.
    if (!is_ours && !strstr(own.text, "version")) {
        close(socket);
        return true;
    }
    bool fits = is_ours && kind == FRAME_HELLO && bytes >= sizeof *room;
    if (is_ours && !fits) err_set(&own, ERR_SYSTEM, "%s says what cannot be", who);
    if (fits) room->name[NODE_NAME_BYTES - 1] = room->program[sizeof room->program - 1] = '\0';
    if (fits && check_hello(met, mine, room, bytes, &own)) {
        met->links[room->node] = socket;
        take_seats(met, room, address);
        return true;
    }
    struct err ignored = {0};
    (void)!frame_write(socket, FRAME_REFUSED, own.text, strlen(own.text) + 1,
                       socket_now_s() + HELLO_S, who, &ignored);
    close(socket);
    return err_set(err, ERR_SYSTEM, "%s", own.text);
}

// Who has come and does not wait any more.
static bool check_waiting(const struct rendezvous *met, struct err *err)
{
    for (int node = 1; node < met->node_count; node++) {
        struct pollfd poll_of = {.fd = met->links[node], .events = POLLIN};
        if (met->links[node] < 0 || poll(&poll_of, 1, 0) <= 0) continue;
        return err_set(err, ERR_SYSTEM, "node %d (%s) has left before all had come", node,
                       met->names[node]);
    }
    return true;
}

static int find_missing(const struct rendezvous *met)
{
    for (int node = 1; node < met->node_count; node++) {
        if (met->links[node] < 0) return node;
    }
    return -1;
}

static bool gather_nodes(const struct rendezvous_request *request, struct rendezvous *met,
                         int listener, const struct hello *mine, struct err *err)
{
    double until_s = socket_now_s() + request->timeout_s;
    struct hello *room = memory_get(hello_bytes(met->rank_count));
    while (find_missing(met) >= 0 && check_waiting(met, err) && !err->kind) {
        double look_s = socket_now_s() + 0.1;
        int socket = socket_accept(listener, look_s, err);
        if (socket >= 0) (void)!receive_node(met, socket, mine, room, err);
        if (socket < 0 && !err->kind && socket_now_s() >= until_s)
            err_set(err, ERR_SYSTEM, "node %d did not come to %s:%d within %.0f s",
                    find_missing(met), request->host, request->port, request->timeout_s);
    }
    free(room);
    return !err->kind;
}

// The same word to all that have come.
static bool tell_nodes(struct rendezvous *met, enum frame_kind kind, const void *data, size_t bytes,
                       struct err *err)
{
    for (int node = 1; node < met->node_count; node++) {
        if (met->links[node] < 0) continue;
        (void)!frame_write(met->links[node], kind, data, bytes, socket_now_s() + HELLO_S,
                           met->names[node], err);
    }
    return !err->kind;
}

// A name may be that of this machine's loop back (Debian writes it so into /etc/hosts), where no
// other node comes: node 0 then listens at all of its addresses, and is where a node found it.
static const char ANY[] = "0.0.0.0";

static const char *listening_address(const char *host)
{
    unsigned char numeric[16];
    bool is_numeric =
        inet_pton(AF_INET, host, numeric) == 1 || inet_pton(AF_INET6, host, numeric) == 1;
    return is_numeric ? host : ANY;
}

static void place_host(struct rendezvous *met)
{
    struct rendezvous_seat *seats = met->table->seats;
    for (int rank = 0; rank < met->own_count && strcmp(seats[rank].address, ANY) == 0; rank++)
        socket_address(met->links[1], false, seats[rank].address);
}

static bool be_host(const struct rendezvous_request *request, struct rendezvous *met,
                    struct err *err)
{
    char address[SOCKET_TEXT_BYTES];
    int listener = socket_listen(listening_address(request->host), request->port, err);
    if (listener < 0) return false;
    socket_address(listener, false, address);
    if (getrandom(&met->table->key, sizeof met->table->key, 0) < 0) met->table->key = 1;
    struct hello *mine = NULL;
    if (open_listeners(met, address, err)) {
        mine = hello_make(request, met);
        take_seats(met, mine, address);
    }
    bool is_well = mine && gather_nodes(request, met, listener, mine, err);
    if (is_well) {
        place_host(met);
        is_well = tell_nodes(met, FRAME_WELCOME, met->table, met->table_bytes, err);
    } else {
        struct err ignored = {0};
        (void)!tell_nodes(met, FRAME_REFUSED, err->text, strlen(err->text) + 1, &ignored);
    }
    free(mine);
    close(listener);
    return is_well;
}

static bool read_welcome(const struct rendezvous_request *request, struct rendezvous *met,
                         const char *who, struct err *err)
{
    char text[sizeof err->text] = "";
    enum frame_kind kind = FRAME_END;
    size_t bytes = 0, room = met->table_bytes > sizeof text ? met->table_bytes : sizeof text;
    void *answer = memory_get(room);
    // The others may come as late as this one was allowed to.
    double until_s = socket_now_s() + request->timeout_s + HELLO_S;
    bool is_well = frame_read(met->links[0], &kind, answer, room, &bytes, until_s, who, err);
    if (is_well && kind == FRAME_REFUSED) {
        snprintf(text, sizeof text, "%.*s", (int)strnlen(answer, bytes), (const char *)answer);
        is_well = err_set(err, ERR_SYSTEM, "%s", text);
    } else if (is_well && (kind != FRAME_WELCOME || bytes != met->table_bytes)) {
        is_well = err_set(err, ERR_SYSTEM, "%s says what cannot be", who);
    }
    if (is_well) memcpy(met->table, answer, bytes);
    free(answer);
    return is_well;
}

static bool be_guest(const struct rendezvous_request *request, struct rendezvous *met,
                     struct err *err)
{
    char who[128], address[SOCKET_TEXT_BYTES];
    snprintf(who, sizeof who, "node 0 (%.60s:%d)", request->host, request->port);
    double until_s = socket_now_s() + request->timeout_s;
    met->links[0] = socket_connect(request->host, request->port, until_s, err);
    if (met->links[0] < 0) return false;
    socket_address(met->links[0], false, address);
    if (!open_listeners(met, address, err)) return false;
    struct hello *hello = hello_make(request, met);
    bool is_well = frame_write(met->links[0], FRAME_HELLO, hello, hello_bytes(met->own_count),
                               until_s, who, err) &&
                   read_welcome(request, met, who, err);
    free(hello);
    return is_well;
}

bool rendezvous_meet(const struct rendezvous_request *request, struct rendezvous *met,
                     struct err *err)
{
    size_t nodes = (size_t)request->node_count, ranks = (size_t)request->rank_count;
    assert(request->node >= 0 && request->node < request->node_count && request->rank_count > 0);
    int first = rendezvous_first_rank(request->rank_count, request->node_count, request->node);
    int end = rendezvous_first_rank(request->rank_count, request->node_count, request->node + 1);
    *met = (struct rendezvous){
        .node = request->node,
        .node_count = request->node_count,
        .rank_count = request->rank_count,
        .first_rank = first,
        .own_count = end - first,
        .listeners = memory_get(ranks * sizeof(int)),
        .links = memory_get(nodes * sizeof(int)),
        .names = memory_get(nodes * NODE_NAME_BYTES),
        .table_bytes = sizeof(struct rendezvous_table) + ranks * sizeof(struct rendezvous_seat),
    };
    memset(met->names, 0, nodes * NODE_NAME_BYTES);
    for (size_t i = 0; i < nodes; i++)
        met->links[i] = -1;
    for (size_t i = 0; i < ranks; i++)
        met->listeners[i] = -1;
    met->table = memory_get(met->table_bytes);
    memset(met->table, 0, met->table_bytes);
    met->table->node_count = request->node_count;
    met->table->rank_count = request->rank_count;
    return request->node == 0 ? be_host(request, met, err) : be_guest(request, met, err);
}

void rendezvous_close_listeners(struct rendezvous *met)
{
    for (int i = 0; met->listeners && i < met->own_count; i++) {
        if (met->listeners[i] >= 0) close(met->listeners[i]);
        met->listeners[i] = -1;
    }
}

void rendezvous_close(struct rendezvous *met)
{
    rendezvous_close_listeners(met);
    for (int node = 0; met->links && node < met->node_count; node++) {
        if (met->links[node] >= 0) close(met->links[node]);
    }
    free(met->listeners);
    free(met->links);
    free(met->names);
    free(met->table);
    *met = (struct rendezvous){0};
}
