#include "executor/cuda/cudnn_library.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
// The version whose header this was compiled with: names and meanings change between majors.
#define LIBRARY "libcudnn.so." TEXT(CUDNN_MAJOR)

static const char *const NAMES[] = {
#define CUDNN_NAME(name) "cudnn" #name,
    CUDNN_FUNCTIONS(CUDNN_NAME)
#undef CUDNN_NAME
};
enum { COUNT = sizeof NAMES / sizeof *NAMES };

struct library {
    struct cudnn_functions functions;
    bool is_open;
    char fault[160];
};

// One of the process, as the library itself is.
static struct library *library(void)
{
    static struct library library;
    return &library;
}

const char *cudnn_open(void)
{
    struct library *own = library();
    void *symbols[COUNT];
    static_assert(sizeof symbols == sizeof own->functions, "a function is an address");
    if (own->is_open) return NULL;
    void *opened = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    const char *fault = opened ? NULL : dlerror();
    for (int i = 0; i < COUNT && opened; i++) {
        symbols[i] = dlsym(opened, NAMES[i]);
        if (!symbols[i] && !fault) fault = NAMES[i];
    }
    if (fault) {
        snprintf(own->fault, sizeof own->fault, "no %s: %s", LIBRARY, fault);
        if (opened) dlclose(opened);
        return own->fault;
    }
    memcpy(&own->functions, symbols, sizeof symbols);
    own->is_open = true;
    return NULL;
}

const struct cudnn_functions *cudnn(void)
{
    assert(library()->is_open);
    return &library()->functions;
}
