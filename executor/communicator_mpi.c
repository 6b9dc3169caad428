#include "executor/communicator_plugin.h"
#include "executor/plugin.h"

#include <dlfcn.h>

const struct transport *communicator_mpi(const struct communicator_request *request,
                                         struct communicator **communicator, struct err *err)
{
    static const struct communicator_services SERVICES = {
        .version = COMMUNICATOR_VERSION,
        .fail = err_set,
        .open_host = communicator_host,
        .memory_create = shared_memory_create,
        .memory_close = shared_memory_close,
    };
    bool is_there;
    // Open MPI opens parts of its own, which look for MPI's symbols among the global ones.
    void *library = plugin_open("exec_mpi.so", RTLD_NOW | RTLD_GLOBAL, &is_there);
    const char *fault = library || !is_there ? NULL : dlerror();
    const struct communicator_plugin *plugin =
        library ? dlsym(library, COMMUNICATOR_PLUGIN_SYMBOL) : NULL;
    if (plugin) return plugin->open(&SERVICES, request, communicator, err);
    if (!is_there)
        err_set(
            err, ERR_SYSTEM,
            "no exec_mpi.so beside the binary or where it is installed: it is built where mpicc "
            "is (on Debian: apt-get install libopenmpi-dev)");
    else
        err_set(err, ERR_SYSTEM,
                "exec_mpi.so does not open: %.300s (on Debian: apt-get install openmpi-bin)",
                fault ? fault : "it is of another version of this program");
    return NULL;
}

const struct transport *communicator_open(const struct communicator_request *request,
                                          struct communicator **communicator, struct err *err)
{
    if (request->rank_count == 1) return communicator_self(request, communicator, err);
    if (request->has_nodes) return communicator_tcp(request, communicator, err);
    if (request->host_name) return communicator_host(request, communicator, err);
    return communicator_mpi(request, communicator, err);
}
