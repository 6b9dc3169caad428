#include "cli/local.h"
#include "cli/run_job.h"
#include "core/console.h"

#include <string.h>

// Algorithms that a calibration has measured, for the GEMMs of a run: those of --kernels, or what
// CLUSTER local holds of this very machine. All ranks read the same, and so run the same kernels.

// Whether the table is of these libraries; its `software` says the driver behind them.
static bool is_of(const struct kernel_table *table, const struct backend_device_facts *facts)
{
    size_t bytes = strlen(facts->libraries);
    bool begins = strncmp(table->software, facts->libraries, bytes) == 0;
    return begins && (table->software[bytes] == '\0' || table->software[bytes] == ',');
}

// What is not there, or not of this machine, is nothing to be said of.
static const struct kernel_table *kept(struct arena *arena, const struct backend *backend)
{
    struct err ignored = {0};
    struct local_key key;
    struct local local = {0};
    bool is_stale = false;
    if (!local_key_find(arena, backend->name, 0, &key, &ignored)) return NULL;
    const char *path = local_path(arena, &key);
    if (!path || !local_read(arena, path, &key, &local, &is_stale, &ignored)) return NULL;
    return is_stale ? NULL : local.kernels;
}

bool run_choices(struct arena *arena, const char *name, const struct backend *backend,
                 struct device *device, bool speaks, struct err *err)
{
    struct backend_device_facts facts = {0};
    const struct kernel_table *table = name ? kernels_load(arena, name, err) : NULL;
    if (err->kind) return false;
    if (!backend->choose || backend->probe(&facts)) {
        if (name && speaks)
            console_printf(stderr,
                           "note: the back end %s chooses no algorithms: --kernels is "
                           "not used\n",
                           backend->name);
        return true;
    }
    if (!name) table = kept(arena, backend);
    if (!table || table->choice_count == 0) return true;
    if (!is_of(table, &facts)) {
        if (speaks)
            console_printf(stderr,
                           "note: the algorithms of kernel table %s are those of %s, and "
                           "not used with %s\n",
                           table->name, table->software, facts.libraries);
        return true;
    }
    const char *fault = backend->choose(device, table->choices, table->choice_count);
    if (fault) return err_set(err, ERR_SYSTEM, "algorithms of GEMMs: %s", fault);
    if (speaks)
        console_printf(stderr, "meshwright run: GEMMs by %d algorithms measured on %s\n",
                       table->choice_count, table->date);
    return true;
}
