#pragma once
#include "executor/communicators/communicator.h"
#include "executor/launcher/shared_memory.h"

// What a plug-in that is a transport exports, and what it may call of the binary, none of whose
// symbols it sees: exec_mpi.so exports `const struct communicator_plugin meshwright_communicator`.

#define COMMUNICATOR_PLUGIN_SYMBOL "meshwright_communicator"

struct communicator_services {
    bool (*fail)(struct err *err, enum err_kind kind, const char *format, ...) PRINTF_LIKE(3, 4);
    const struct transport *(*open_host)(const struct communicator_request *request,
                                         struct communicator **communicator, struct err *err);
    bool (*memory_create)(struct shared_memory *memory, struct err *err);
    void (*memory_close)(struct shared_memory *memory);
};

// Opens the transport of a plug-in. What is said when it is not there, and beside the reason when
// it does not open.
MUST_CHECK const struct transport *
communicator_plugin_open(const char *file, const char *missing, const char *broken,
                         const struct communicator_request *request,
                         struct communicator **communicator, struct err *err);

struct communicator_plugin {
    int version;  // COMMUNICATOR_VERSION; first in every version, so that it can be asked for
    const struct transport *(*open)(const struct communicator_services *services,
                                    const struct communicator_request *request,
                                    struct communicator **communicator, struct err *err);
};
