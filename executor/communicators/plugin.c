#include "executor/communicators/plugin.h"
#include "executor/plugin.h"

#include <dlfcn.h>

const struct transport *communicator_plugin_open(const char *file, const char *missing,
                                                 const char *broken,
                                                 const struct communicator_request *request,
                                                 struct communicator **communicator,
                                                 struct err *err)
{
    static const struct communicator_services SERVICES = {
        .fail = err_set,
        .open_host = communicator_host,
        .memory_create = shared_memory_create,
        .memory_close = shared_memory_close,
    };
    bool is_there;
    // Open MPI opens parts of its own, which look for MPI's symbols among the global ones.
    void *library = plugin_open(file, RTLD_NOW | RTLD_GLOBAL, &is_there);
    const char *fault = library || !is_there ? NULL : dlerror();
    const struct communicator_plugin *plugin =
        library ? dlsym(library, COMMUNICATOR_PLUGIN_SYMBOL) : NULL;
    // Another version's tables and requests may have other members in other places.
    bool is_ours = plugin && plugin->version == COMMUNICATOR_VERSION;
    if (is_ours) return plugin->open(&SERVICES, request, communicator, err);
    if (!is_there)
        err_set(err, ERR_SYSTEM, "no %s in the folder of this binary's plug-ins: %s", file,
                missing);
    else
        err_set(err, ERR_SYSTEM, "%s does not open: %.300s (%s)", file,
                fault ? fault : "it is of another version of this program", broken);
    return NULL;
}

const struct transport *communicator_mpi(const struct communicator_request *request,
                                         struct communicator **communicator, struct err *err)
{
    return communicator_plugin_open(
        "exec_mpi.so", "it is built where mpicc is (on Debian: apt-get install libopenmpi-dev)",
        "on Debian: apt-get install openmpi-bin", request, communicator, err);
}

const struct transport *communicator_nccl(const struct communicator_request *request,
                                          struct communicator **communicator, struct err *err)
{
    return communicator_plugin_open("exec_nccl.so", "it is built where nvcc and nccl.h are",
                                    "NCCL comes with the CUDA toolkit or as libnccl2", request,
                                    communicator, err);
}
