#include "tests/emulated.h"

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
