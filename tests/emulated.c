#include "tests/emulated.h"

#include "executor/communicator_plugin.h"
#include "executor/plugin.h"
#include "tests/test.h"

#include <dlfcn.h>
#include <stdlib.h>

const struct backend *emulated_backend(enum precision precision)
{
    bool is_there;
    if (getenv("MESHWRIGHT_TEST_GPU")) {
        struct err err = {0};
        const struct backend *backend = backend_open("cuda", &err);
        assert_string_equal(err.text, "");
        return backend->at(precision);
    }
    void *library = plugin_open("exec_cuda_emulated.so", RTLD_NOW | RTLD_LOCAL, &is_there);
    if (!library) fail_msg("no exec_cuda_emulated.so: %s", is_there ? dlerror() : "make test");
    const struct backend *(*table)(void);
    void *symbol = dlsym(library, "meshwright_backend");
    memcpy(&table, &symbol, sizeof table);
    assert_non_null(table);
    return table()->at(precision);
}

const struct transport *nccl_emulated(const struct communicator_request *request,
                                      struct communicator **communicator, struct err *err)
{
    struct communicator_request beside = *request, above;
    // What is beside would find out by itself whether it is NCCL.
    beside.kind = TRANSPORT_HOST;
    above = beside;
    above.beside = communicator_open(&beside, &above.beside_communicator, err);
    if (!above.beside) return NULL;
    return communicator_plugin_open("exec_nccl_emulated.so", "make test", "", &above, communicator,
                                    err);
}
