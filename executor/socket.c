#include "executor/socket.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// Between two looks at the signals; between two attempts to connect.
enum { LOOK_MS = 50, ATTEMPT_NS = 50000000 };

double socket_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bool socket_split(const char *text, char *host, size_t host_bytes, int *port, struct err *err)
{
    const char *colon = strrchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : 0;
    bool is_bracketed = length > 2 && text[0] == '[' && text[length - 1] == ']';
    const char *first = is_bracketed ? text + 1 : text;
    if (is_bracketed) length -= 2;
    char *end = NULL;
    long read = colon && colon[1] ? strtol(colon + 1, &end, 10) : 0;
    bool is_well = length > 0 && length < host_bytes && end && !*end && read > 0 && read < 65536 &&
                   (is_bracketed || !memchr(first, ':', length));
    if (!is_well)
        return err_set(err, ERR_USAGE, "found '%.100s', wanted HOST:PORT with a port of 1 to 65535",
                       text);
    memcpy(host, first, length);
    host[length] = '\0';
    *port = (int)read;
    return true;
}

static struct addrinfo *resolve(const char *host, int port, bool listens, struct err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | (listens ? AI_PASSIVE : 0)};
    struct addrinfo *found = NULL;
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    int code = getaddrinfo(host, service, &hints, &found);
    if (code == 0) return found;
    err_set(err, ERR_SYSTEM, "%s: %s", host, gai_strerror(code));
    return NULL;
}

int socket_listen(const char *host, int port, struct err *err)
{
    struct addrinfo *all = resolve(host, port, true, err);
    int listener = -1, reason = 0, yes = 1;
    for (const struct addrinfo *at = all; at && listener < 0; at = at->ai_next) {
        listener = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (listener < 0) continue;
        // A port whose last connections are still on their way out can be had again.
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (bind(listener, at->ai_addr, at->ai_addrlen) == 0 && listen(listener, SOMAXCONN) == 0)
            continue;
        reason = errno;
        close(listener);
        listener = -1;
    }
    if (all) freeaddrinfo(all);
    if (listener < 0)
        err_set(err, ERR_SYSTEM, "cannot listen at %s:%d: %s", host, port, strerror(reason));
    return listener;
}

// Text and port of an address; either may be NULL.
static void name_of(const struct sockaddr *address, socklen_t bytes, char *text, int *port)
{
    char service[16] = "0";
    if (text) text[0] = '\0';
    getnameinfo(address, bytes, text, text ? SOCKET_TEXT_BYTES : 0, service, sizeof service,
                NI_NUMERICHOST | NI_NUMERICSERV);
    if (port) *port = (int)strtol(service, NULL, 10);
}

int socket_port(int socket)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    int port = 0;
    if (getsockname(socket, (struct sockaddr *)&address, &bytes) == 0)
        name_of((struct sockaddr *)&address, bytes, NULL, &port);
    return port;
}

void socket_address(int socket, bool of_other, char *text)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    text[0] = '\0';
    int code = of_other ? getpeername(socket, (struct sockaddr *)&address, &bytes)
                        : getsockname(socket, (struct sockaddr *)&address, &bytes);
    if (code == 0) name_of((struct sockaddr *)&address, bytes, text, NULL);
}

void socket_set_prompt(int socket)
{
    int yes = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    // A machine that has vanished without a word is found out by the kernel.
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
}

// A signal that waits to end this process: the launcher blocks those that it looks at by itself.
static bool is_interrupted(struct err *err)
{
    static const int ENDING[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    for (int i = 0; i < 3; i++) {
        if (!sigismember(&pending, ENDING[i])) continue;
        err_set(err, ERR_SYSTEM, "the job was ended by signal %d (%s)", ENDING[i],
                strsignal(ENDING[i]));
        return true;
    }
    return false;
}

// Until one of `events`, or the time is over: false, with an error if it was a signal.
static bool wait_for(int socket, short events, double until_s, struct err *err)
{
    struct pollfd poll_of = {.fd = socket, .events = events};
    double left_s = 0;
    do {
        left_s = until_s - socket_now_s();
        double left_ms = left_s <= 0 ? 0 : 1e3 * left_s + 1;
        if (poll(&poll_of, 1, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS) > 0) return true;
        if (is_interrupted(err)) return false;
    } while (left_s > 0);
    return false;
}

bool socket_wait(int socket, double until_s, struct err *err)
{
    return wait_for(socket, POLLIN, until_s, err);
}

// 0, or the reason.
static int try_connect(const struct addrinfo *at, double until_s, int *connected, struct err *err)
{
    int one = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), reason = 0;
    if (one < 0) return errno;
    socklen_t bytes = sizeof reason;
    if (connect(one, at->ai_addr, at->ai_addrlen) != 0) reason = errno;
    if (reason == EINPROGRESS) {
        if (wait_for(one, POLLOUT, until_s, err))
            getsockopt(one, SOL_SOCKET, SO_ERROR, &reason, &bytes);
        else
            reason = ETIMEDOUT;
    }
    if (reason)
        close(one);
    else
        *connected = one;
    return reason;
}

int socket_connect(const char *host, int port, double until_s, struct err *err)
{
    const struct timespec pause = {0, ATTEMPT_NS};
    struct addrinfo *all = resolve(host, port, false, err);
    int connected = -1, reason = 0;
    while (all && connected < 0) {
        for (const struct addrinfo *at = all; at && connected < 0; at = at->ai_next)
            reason = try_connect(at, until_s, &connected, err);
        if (connected >= 0 || socket_now_s() >= until_s || is_interrupted(err)) break;
        nanosleep(&pause, NULL);
    }
    if (all) freeaddrinfo(all);
    if (connected < 0 && !err->kind)
        err_set(err, ERR_SYSTEM, "nobody answers at %s:%d: %s", host, port, strerror(reason));
    if (connected >= 0) socket_set_prompt(connected);
    return connected;
}

int socket_accept(int listener, double until_s, struct err *err)
{
    while (wait_for(listener, POLLIN, until_s, err)) {
        int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (accepted >= 0) {
            socket_set_prompt(accepted);
            return accepted;
        }
        if (errno == EINTR || errno == EAGAIN || errno == ECONNABORTED) continue;
        err_set(err, ERR_SYSTEM, "no connection can be taken: %s", strerror(errno));
        break;
    }
    return -1;
}

static bool say_late(const char *who, struct err *err)
{
    return err->kind ? false : err_set(err, ERR_SYSTEM, "%s does not answer in time", who);
}

bool socket_write(int socket, const void *data, size_t bytes, double until_s, const char *who,
                  struct err *err)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t written = send(socket, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (written > 0) {
            at += written;
            bytes -= (size_t)written;
        } else if (written < 0 && errno != EAGAIN && errno != EINTR) {
            return err_set(err, ERR_SYSTEM, "%s cannot be told: %s", who, strerror(errno));
        } else if (!wait_for(socket, POLLOUT, until_s, err)) {
            return say_late(who, err);
        }
    }
    return true;
}

bool socket_read(int socket, void *data, size_t bytes, double until_s, const char *who,
                 struct err *err)
{
    char *at = data;
    while (bytes > 0) {
        ssize_t taken = recv(socket, at, bytes, MSG_DONTWAIT);
        if (taken > 0) {
            at += taken;
            bytes -= (size_t)taken;
        } else if (taken == 0) {
            return err_set(err, ERR_SYSTEM, "%s has closed its connection", who);
        } else if (errno != EAGAIN && errno != EINTR) {
            return err_set(err, ERR_SYSTEM, "%s is gone: %s", who, strerror(errno));
        } else if (!wait_for(socket, POLLIN, until_s, err)) {
            return say_late(who, err);
        }
    }
    return true;
}
