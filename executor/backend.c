#include "executor/backend.h"
#include "executor/plugin.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct plugin {
    const char *name, *file, *package;  // package: what a Debian system lacks when it does not open
    const char *table;                  // symbol of the function that returns it
};
static const struct plugin PLUGINS[] = {
    {"cpu", "exec_cpu.so", "libopenblas0", "meshwright_backend"},
    {"cpu-fp64", "exec_cpu64.so", "libopenblas0", "meshwright_backend"},
    {"cpu-half", "exec_cpu.so", "libopenblas0", "meshwright_backend_half"},
    {"cuda", "exec_cuda.so", "CUDA", "meshwright_backend"},
};

static const struct plugin *find_plugin(const char *name)
{
    for (size_t i = 0; i < sizeof PLUGINS / sizeof *PLUGINS; i++) {
        if (strcmp(PLUGINS[i].name, name) == 0) return &PLUGINS[i];
    }
    return NULL;
}

// OpenBLAS reads these when it is loaded. Some environments export a core type that is older than
// the processor, which halves its speed: where there is AVX-512 on an Intel core its kernels are
// asked for, elsewhere OpenBLAS finds its own. One thread a rank, unless a user says otherwise.
static void prepare_blas(void)
{
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    if (getenv("MESHWRIGHT_KEEP_CORETYPE")) return;
    unsetenv("OPENBLAS_CORETYPE");
#if defined(__x86_64__)
    bool is_wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    if (__builtin_cpu_is("intel") && is_wide) setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
#endif
}

static const struct backend *open_plugin(const struct plugin *plugin, struct err *err)
{
    bool is_there;
    prepare_blas();
    void *library = plugin_open(plugin->file, RTLD_NOW | RTLD_LOCAL, &is_there);
    if (!library) {
        const char *fault = is_there ? dlerror() : NULL;
        if (is_there) {
            err_set(err, ERR_SYSTEM, "the back end %s does not open: %.300s (is %s installed?)",
                    plugin->name, fault ? fault : "unknown reason", plugin->package);
        } else {
            err_set(err, ERR_SYSTEM, "no %s in the folder of this binary's plug-ins", plugin->file);
        }
        return NULL;
    }
    const struct backend *(*table)(void);
    void *symbol = dlsym(library, plugin->table);
    memcpy(&table, &symbol, sizeof table);
    const struct backend *backend = symbol ? table() : NULL;
    struct backend_device_facts facts;
    const char *fault = NULL;
    if (!backend || backend->version != BACKEND_VERSION) {
        fault = "it is of another version of this program";
    } else {
        fault = backend->probe(&facts);
    }
    if (!fault) return backend;
    // The library stays: CUDA's libraries keep things for the life of the process, which nobody
    // could reach once they are unmapped.
    err_set(err, ERR_SYSTEM, "the back end %s cannot be used: %.300s", plugin->name, fault);
    return NULL;
}

const struct backend *backend_open(const char *name, struct err *err)
{
    const struct plugin *plugin = find_plugin(name);
    if (!plugin) {
        err_set(err, ERR_USAGE, "no back end \"%.60s\": there are cpu, cpu-fp64, cpu-half and cuda",
                name);
        return NULL;
    }
    return open_plugin(plugin, err);
}

const struct backend *backend_at(const struct backend *backend, enum precision precision)
{
    if (!backend->at) return backend;
    const struct backend *at = backend->at(precision);
    return at ? at : backend->at(PRECISION_BF16);
}

const struct backend *backend_choose(struct arena *arena, const char *name, const char **note,
                                     struct err *err)
{
    struct err why = {0};
    const struct backend *backend = NULL;
    struct backend_device_facts facts = {0};
    bool is_auto = strcmp(name, "auto") == 0;
    if (is_auto) backend = backend_open("cuda", &why);
    if (!backend) backend = backend_open(is_auto ? "cpu" : name, err);
    if (!backend) return NULL;
    if (backend->probe(&facts)) facts.name[0] = '\0';
    *note = arena_print(arena, "%s on %s, %s%s%s", backend->name, facts.name, facts.libraries,
                        why.kind ? "; no CUDA: " : "", why.kind ? why.text : "");
    return backend;
}
