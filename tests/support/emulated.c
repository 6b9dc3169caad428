#include "tests/support/emulated.h"

#include "executor/communicators/plugin.h"
#include "executor/plugin.h"
#include "tests/support/test.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

const struct backend *emulated_backend(enum precision precision)
{
    bool is_there;
    // On a device it is opened without a look at the device: CUDA does not outlive the fork of who
    // has used it, and ranks are forked.
    const char *file = getenv("MESHWRIGHT_TEST_GPU") ? "exec_cuda.so" : "exec_cuda_emulated.so";
    void *library = plugin_open(file, RTLD_NOW | RTLD_LOCAL, &is_there);
    if (!library) fail_msg("no %s: %s", file, is_there ? dlerror() : "make test");
    const struct backend *(*table)(void);
    void *symbol = dlsym(library, "meshwright_backend");
    memcpy(&table, &symbol, sizeof table);
    assert_non_null(table);
    return table()->at(precision);
}

int64_t emulated_groups(void)
{
    bool is_there;
    if (getenv("MESHWRIGHT_TEST_GPU")) return -1;
    void *library = plugin_open("exec_cuda_emulated.so", RTLD_NOW | RTLD_LOCAL, &is_there);
    assert_non_null(library);
    int64_t (*count)(void);
    void *symbol = dlsym(library, "emulated_group_count");
    assert_non_null(symbol);
    memcpy(&count, &symbol, sizeof count);
    return count();
}

// The back end whose streams the emulated NCCL works on. What is asked of it there is done at once,
// so all that stands before it on the stream has to be done by then: here, where NCCL gets the
// stream.
static const struct backend **drained(void)
{
    static const struct backend *backend;
    return &backend;
}

static void *drain(struct device *device, enum stream stream)
{
    const struct backend *backend = *drained();
    const char *fault = backend->synchronize(device, stream);
    if (fault) fprintf(stderr, "# %s\n", fault);
    return backend->native_stream(device, stream);
}

const struct transport *nccl_emulated(const struct communicator_request *request,
                                      struct communicator **communicator, struct err *err)
{
    static struct backend backend;
    struct communicator_request beside = *request, above;
    *drained() = request->backend;
    backend = *request->backend;
    backend.native_stream = drain;
    // What is beside would find out by itself whether it is NCCL.
    if (beside.kind != TRANSPORT_MPI) beside.kind = TRANSPORT_HOST;
    above = beside;
    above.backend = &backend;
    above.beside = communicator_open(&beside, &above.beside_communicator, err);
    if (!above.beside) return NULL;
    return communicator_plugin_open("exec_nccl_emulated.so", "make test", "", &above, communicator,
                                    err);
}
