#pragma once
#include "core/err.h"

#include <stddef.h>
#include <stdint.h>

// TCP between the nodes of a job. Whatever waits does so until a point in time, and gives up at
// once when a signal is pending that would end the process and that it has blocked (the launcher).
// What fails says in `err` whom it was about; nothing of this is protected against others on the
// network, which has to be one's own.

enum { SOCKET_TEXT_BYTES = 64 };

double socket_now_s(void);  // of a clock that only goes forward

// "host:port", "[::1]:port"; ERR_USAGE with what was found.
MUST_CHECK bool socket_split(const char *text, char *host, size_t host_bytes, int *port,
                             struct err *err);
// Of an address of this machine; port 0: any that is free. -1 on failure.
MUST_CHECK int socket_listen(const char *host, int port, struct err *err);
int socket_port(int socket);  // of this end
// Numeric address of this end, or of the other; SOCKET_TEXT_BYTES.
void socket_address(int socket, bool of_other, char *text);

// Tries until somebody answers. -1 on failure.
MUST_CHECK int socket_connect(const char *host, int port, double until_s, struct err *err);
// Sends small messages at once.
void socket_set_prompt(int socket);
// Whether there is something to take before `until_s`, or the other end has closed. False and no
// error when the time is over.
MUST_CHECK bool socket_wait(int socket, double until_s, struct err *err);
MUST_CHECK int socket_accept(int listener, double until_s, struct err *err);
// All of it; `who` for the text.
MUST_CHECK bool socket_write(int socket, const void *data, size_t bytes, double until_s,
                             const char *who, struct err *err);
MUST_CHECK bool socket_read(int socket, void *data, size_t bytes, double until_s, const char *who,
                            struct err *err);
