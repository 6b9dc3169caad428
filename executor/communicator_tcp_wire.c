#include "executor/communicator_tcp.h"
#include "executor/launch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// A rank whose connection has ended is most likely dead, and its launcher says better than we can
// what has become of it: that gets so long to end the job.
static const double GRACE_S = 5;
enum { WAIT_MS = 20, MOST_BYTES_BITS = 44 };

void tcp_peer_free(struct tcp_peer *peer)
{
    if (peer->socket >= 0) close(peer->socket);
    for (struct parcel *next; peer->first; peer->first = next) {
        next = peer->first->next;
        free(peer->first);
    }
    for (struct tcp_letter *next; peer->letters; peer->letters = next) {
        next = peer->letters->next;
        free(peer->letters);
    }
    free(peer->coming);
    *peer = (struct tcp_peer){.socket = -1};
}

// Nothing more goes out or comes in; what has come can still be read.
static void lose(struct tcp_peer *peer)
{
    struct tcp_letter *letters = peer->letters;
    bool has_left = peer->has_left;
    peer->letters = NULL;
    tcp_peer_free(peer);
    peer->letters = letters;
    peer->has_left = has_left;
    peer->lost_s = socket_now_s();
}

// False when the connection has ended.
static bool take_bytes(struct tcp_peer *peer, void *data, int64_t wanted, int64_t *came)
{
    while (*came < wanted) {
        ssize_t taken =
            recv(peer->socket, (char *)data + *came, (size_t)(wanted - *came), MSG_DONTWAIT);
        if (taken == 0) return false;
        if (taken < 0) return errno == EAGAIN || errno == EINTR;
        *came += taken;
    }
    return true;
}

static void keep_letter(struct communicator *communicator, struct tcp_peer *peer)
{
    struct tcp_letter *letter = peer->coming;
    peer->coming = NULL;
    peer->header_came = 0;
    if (communicator->pulse) atomic_fetch_add(&communicator->pulse->beat, 1);
    if (letter->header.tag == TAG_ABORT && !communicator->has_aborted) {
        between_fail(communicator, "%.*s", (int)letter->header.bytes, (const char *)letter->data);
        communicator->has_aborted = true;
        if (communicator->host) communicator->host->abort(communicator->inside, communicator->text);
    }
    peer->has_left |= letter->header.tag == TAG_FAREWELL;
    if (letter->header.tag == TAG_ABORT || letter->header.tag == TAG_FAREWELL) {
        free(letter);
        return;
    }
    struct tcp_letter **at = &peer->letters;
    while (*at)
        at = &(*at)->next;
    *at = letter;
}

static void take_in(struct communicator *communicator, struct tcp_peer *peer)
{
    for (;;) {
        const int64_t header_bytes = sizeof peer->header;
        if (!take_bytes(peer, &peer->header, header_bytes, &peer->header_came)) {
            lose(peer);
            return;
        }
        if (peer->header_came < header_bytes) return;
        int64_t bytes = peer->header.bytes;
        if (bytes < 0 || bytes >> MOST_BYTES_BITS) {
            lose(peer);
            return;
        }
        if (!peer->coming) {
            peer->coming = memory_get(sizeof *peer->coming + (size_t)bytes + 1);
            *peer->coming = (struct tcp_letter){.header = peer->header};
        }
        if (!take_bytes(peer, peer->coming->data, bytes, &peer->coming->came)) {
            lose(peer);
            return;
        }
        if (peer->coming->came < bytes) return;
        keep_letter(communicator, peer);
    }
}

static void send_out(struct tcp_peer *peer)
{
    while (peer->first) {
        struct parcel *parcel = peer->first;
        ssize_t sent = send(peer->socket, parcel->data + parcel->done,
                            (size_t)(parcel->bytes - parcel->done), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            lose(peer);
            return;
        }
        if (sent <= 0) return;
        parcel->done += sent;
        if (parcel->done < parcel->bytes) return;
        peer->first = parcel->next;
        if (!peer->first) peer->last = NULL;
        free(parcel);
    }
}

void tcp_pump(struct communicator *communicator, int wait_ms)
{
    struct tcp_wire *wire = tcp_of(communicator);
    nfds_t count = 0;
    for (int rank = 0; rank < communicator->rank_count; rank++) {
        const struct tcp_peer *peer = &wire->peers[rank];
        if (peer->socket < 0) continue;
        short events = peer->first ? POLLIN | POLLOUT : POLLIN;
        wire->polls[count] = (struct pollfd){.fd = peer->socket, .events = events};
        wire->polled[count++] = rank;
    }
    if (poll(wire->polls, count, wait_ms) <= 0) return;
    for (nfds_t i = 0; i < count; i++) {
        struct tcp_peer *peer = &wire->peers[wire->polled[i]];
        if (wire->polls[i].revents & POLLOUT) send_out(peer);
        if (peer->socket >= 0 && wire->polls[i].revents & ~POLLOUT) take_in(communicator, peer);
    }
}

void tcp_post(struct communicator *communicator, int rank, uint64_t tag, const void *data,
              int64_t bytes)
{
    struct tcp_peer *peer = &tcp_of(communicator)->peers[rank];
    if (peer->socket < 0) return;  // who waits for an answer finds out
    const struct tcp_header header = {tag, bytes};
    struct parcel *parcel = memory_get(sizeof *parcel + sizeof header + (size_t)bytes);
    *parcel = (struct parcel){.bytes = (int64_t)sizeof header + bytes};
    memcpy(parcel->data, &header, sizeof header);
    if (bytes) memcpy(parcel->data + sizeof header, data, (size_t)bytes);
    if (peer->last)
        peer->last->next = parcel;
    else
        peer->first = parcel;
    peer->last = parcel;
    send_out(peer);
}

// What the wait for this rank has come to.
static const char *check_peer(struct communicator *communicator, int rank)
{
    const struct tcp_peer *peer = &tcp_of(communicator)->peers[rank];
    if (communicator->has_failed) return communicator->text;
    if (communicator->host) communicator->host->progress(communicator->inside);
    if (peer->has_left)
        return between_fail(communicator, "rank %d has ended while rank %d waits for it", rank,
                            communicator->rank);
    if (peer->lost_s > 0 && socket_now_s() - peer->lost_s > GRACE_S)
        return between_fail(communicator, "rank %d is gone: its connection has ended", rank);
    return NULL;
}

static struct tcp_letter *find_letter(struct tcp_peer *peer, uint64_t tag)
{
    for (struct tcp_letter **at = &peer->letters; *at; at = &(*at)->next) {
        struct tcp_letter *letter = *at;
        if (letter->header.tag != tag) continue;
        *at = letter->next;
        return letter;
    }
    return NULL;
}

// Waits shortly where the connection is gone: nothing wakes us then.
static void wait_shortly(struct communicator *communicator)
{
    struct timespec pause = {0, 5000000};
    bool is_busy = communicator->host != NULL;
    tcp_pump(communicator, is_busy ? 1 : WAIT_MS);
    bool is_any = false;
    for (int rank = 0; rank < communicator->rank_count; rank++)
        is_any |= tcp_of(communicator)->peers[rank].socket >= 0;
    if (!is_any) nanosleep(&pause, NULL);
}

const char *tcp_take(struct communicator *communicator, int rank, uint64_t tag, void *data,
                     int64_t bytes, const char *what)
{
    struct tcp_peer *peer = &tcp_of(communicator)->peers[rank];
    struct tcp_letter *letter;
    tcp_pump(communicator, 0);
    while (!(letter = find_letter(peer, tag))) {
        const char *failure = check_peer(communicator, rank);
        if (failure) return failure;
        wait_shortly(communicator);
    }
    int64_t came = letter->header.bytes;
    if (came == bytes && bytes) memcpy(data, letter->data, (size_t)bytes);
    free(letter);
    if (came == bytes) return NULL;
    return between_fail(communicator, "%s: rank %d sent %lld bytes where rank %d expects %lld",
                        what, rank, (long long)came, communicator->rank, (long long)bytes);
}

const char *tcp_flush(struct communicator *communicator, int rank)
{
    while (tcp_of(communicator)->peers[rank].first) {
        if (communicator->has_failed) return communicator->text;
        wait_shortly(communicator);
    }
    return NULL;
}

void tcp_abort(struct communicator *communicator, const char *reason)
{
    if (communicator->has_aborted) return;  // the first reason stays
    communicator->has_aborted = true;
    between_fail(communicator, "%s", reason);
    if (communicator->host) communicator->host->abort(communicator->inside, communicator->text);
    for (int rank = 0; rank < communicator->rank_count; rank++)
        tcp_post(communicator, rank, TAG_ABORT, communicator->text,
                 (int64_t)strlen(communicator->text));
    // Who aborts is not to wait for anybody; the launchers end the job in any case.
    tcp_pump(communicator, 0);
}
