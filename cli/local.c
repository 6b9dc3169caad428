#include "cli/local.h"

#include "core/console.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/plain.h"
#include "core/version.h"
#include "executor/calibrate/calibrate.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 2 };

static const struct json_field KEY_FIELDS[] = {
    {JSON_TEXT(struct local_key, processor)},
    {JSON_TEXT(struct local_key, libraries)},
    {JSON_TEXT(struct local_key, version)},
    {JSON_TEXT(struct local_key, build)},
    {JSON_INT(struct local_key, core_count, 1, 1e6)},
    {JSON_INT(struct local_key, rank_count, 1, CLUSTER_GPUS_MAX)},
    {JSON_I64(struct local_key, memory_bytes, 1, 1e15)},
    {0},
};

struct file_head {
    int format;
};
static const struct json_field FILE_FIELDS[] = {
    {JSON_INT(struct file_head, format, 1, 1e6)},
    {JSON_ANY("machine")},
    {JSON_ANY("cluster")},
    {JSON_ANY("stack")},
    {JSON_OPT_ANY("kernels")},
    {0},
};

// Over the bytes of a file.
static bool hash_file(struct arena *arena, const char *path, uint64_t *hash, struct err *err)
{
    enum { BYTES_MOST = 1 << 26 };
    size_t bytes = 0;
    const char *text = path ? file_read(arena, path, BYTES_MOST, &bytes, err) : NULL;
    if (text) *hash = hash_bytes(*hash, text, bytes);
    return text != NULL;
}

// The plug-in that was opened, and what the constants were fitted with.
static bool find_build(struct arena *arena, const struct backend *backend, struct local_key *key,
                       struct err *err)
{
    uint64_t hash = HASH_START;
    Dl_info plugin = {0};
    void *inside = NULL;
    memcpy(&inside, &backend->run, sizeof inside);
    if (!dladdr(inside, &plugin))
        return err_set(err, ERR_SYSTEM, "the back end %s is in no file", key->backend);
    const char *name = backend->is_host ? CPU_STACK : GPU_STACK;
    const char *stack = file_find_data(arena, "cost_models/stacks", name, "stack", err);
    const char *fabrics = file_find_data(arena, "cost_models", "fabrics", "file", err);
    const char *paths[] = {plugin.dli_fname, stack, fabrics};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        if (!hash_file(arena, paths[i], &hash, err)) return false;
    }
    key->build = arena_print(arena, "fnv1a64:%016llx", (unsigned long long)hash);
    return true;
}

// Where a device was asked for by name there has to be one.
static const struct backend *choose(const char *name, struct err *err)
{
    struct err none = {0};
    const struct backend *cuda = NULL;
    if (strcmp(name, "auto") != 0) return backend_open(name, err);
    cuda = backend_open("cuda", &none);
    return cuda ? cuda : backend_open("cpu", err);
}

bool local_key_find(struct arena *arena, const char *backend, int rank_count, struct local_key *key,
                    struct err *err)
{
    const struct backend *found = choose(backend, err);
    struct backend_device_facts facts = {0};
    if (!found) return false;
    const char *fault = found->probe(&facts);
    if (fault) return err_set(err, ERR_SYSTEM, "the back end %.60s: %.300s", found->name, fault);
    *key = (struct local_key){.processor = arena_copy(arena, facts.name),
                              .libraries = arena_copy(arena, facts.libraries),
                              .version = MESHWRIGHT_VERSION,
                              .core_count = binding_core_count(),
                              .memory_bytes = facts.memory_bytes,
                              .backend = found->name};
    if (*facts.driver)
        key->libraries = arena_print(arena, "%s, driver %s", facts.libraries, facts.driver);
    int most = found->is_host ? key->core_count : facts.device_count;
    key->rank_count = rank_count > 0 ? rank_count : most;
    return find_build(arena, found, key, err);
}

const char *local_path(struct arena *arena, const struct local_key *key)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *backend = key->backend ? key->backend : "cpu";
    bool is_host = strcmp(backend, "cpu") == 0;
    const char *file = arena_print(arena, "meshwright/local-%s%s%d.json", is_host ? "" : backend,
                                   is_host ? "" : "-", key->rank_count);
    // The specification has relative ones ignored.
    if (cache && cache[0] == '/') return arena_print(arena, "%s/%s", cache, file);
    if (!home || home[0] != '/') return NULL;
    return arena_print(arena, "%s/.cache/%s", home, file);
}

char *local_text(struct arena *arena, const struct local_key *key, const struct local *local)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "format", FORMAT);
    json_open(&writer, "machine", '{');
    json_put_text(&writer, "processor", key->processor);
    json_put_text(&writer, "libraries", key->libraries);
    json_put_text(&writer, "version", key->version);
    json_put_text(&writer, "build", key->build);
    json_put_i64(&writer, "core_count", key->core_count);
    json_put_i64(&writer, "rank_count", key->rank_count);
    json_put_i64(&writer, "memory_bytes", key->memory_bytes);
    json_close(&writer, '}');
    cluster_write(&writer, "cluster", local->cluster);
    stack_write(&writer, "stack", local->stack);
    if (local->kernels) kernels_write(&writer, "kernels", local->kernels);
    json_close(&writer, '}');
    return writer.text;
}

static bool is_same(const struct local_key *a, const struct local_key *b)
{
    return strcmp(a->processor, b->processor) == 0 && strcmp(a->libraries, b->libraries) == 0 &&
           strcmp(a->version, b->version) == 0 && strcmp(a->build, b->build) == 0 &&
           a->core_count == b->core_count && a->rank_count == b->rank_count &&
           a->memory_bytes == b->memory_bytes;
}

static bool read_document(struct arena *arena, const struct json_document *document,
                          const struct local_key *key, struct local *local, bool *is_stale,
                          struct err *err)
{
    struct json root = json_root(document);
    struct file_head head = {0};
    struct local_key found = {0};
    json_read(&root, FILE_FIELDS, &head, err);
    // What another version wrote may hold anything.
    *is_stale = !err->kind && head.format != FORMAT;
    if (err->kind || *is_stale) return !err->kind;
    struct json machine = json_get(&root, "machine", err);
    json_read(&machine, KEY_FIELDS, &found, err);
    *is_stale = !err->kind && !is_same(&found, key);
    if (err->kind || *is_stale) return !err->kind;
    struct json cluster = json_get(&root, "cluster", err), stack = json_get(&root, "stack", err);
    local->cluster = cluster_read(arena, &cluster, err);
    local->stack = err->kind ? NULL : stack_read(arena, &stack, err);
    if (!err->kind && json_has(&root, "kernels")) {
        struct json kernels = json_get(&root, "kernels", err);
        local->kernels = kernels_read(arena, &kernels, err);
    }
    if (!err->kind && local->cluster->rank_count != key->rank_count)
        json_fail(&cluster, err, "expected %d ranks, found %d", key->rank_count,
                  local->cluster->rank_count);
    return !err->kind;
}

bool local_read(struct arena *arena, const char *path, const struct local_key *key,
                struct local *local, bool *is_stale, struct err *err)
{
    struct json_document document;
    *is_stale = false;
    return json_load(arena, path, &document, err) &&
           read_document(arena, &document, key, local, is_stale, err);
}

bool local_parse(struct arena *arena, const char *text, const struct local_key *key,
                 struct local *local, struct err *err)
{
    struct json_document document;
    bool is_stale = false;
    if (!json_parse(arena, "measured", text, strlen(text), &document, err) ||
        !read_document(arena, &document, key, local, &is_stale, err))
        return false;
    return !is_stale || err_set(err, ERR_SYSTEM, "this machine changed while it was measured");
}

static void note(const struct local_request *request, const char *line)
{
    if (request->note) request->note(request->note_context, line);
}

// Whether the cache has it; else a note says why it is measured.
static bool is_kept(struct arena *arena, const struct local_request *request, struct local *local)
{
    struct err broken = {0};
    bool is_stale = false;
    if (request->path && file_exists(request->path)) {
        bool done = local_read(arena, request->path, &request->key, local, &is_stale, &broken);
        if (done && !is_stale) return true;
    }
    const char *why = "";
    if (broken.kind) why = arena_print(arena, " again (%s)", broken.text);
    if (is_stale) why = " again: another machine, library or version than the last time";
    note(request, arena_print(arena, "measuring this machine%s", why));
    return false;
}

static void keep(struct arena *arena, const struct local_request *request, const char *text)
{
    struct err err = {0};
    const struct file_text file = {request->path, text};
    if (!request->path) {
        note(request, "neither XDG_CACHE_HOME nor HOME names a folder: measured again next time");
    } else if (!file_write_all(&file, 1, &err)) {
        note(request, arena_print(arena, "%s: measured again next time", err.text));
    }
}

bool local_load(struct arena *arena, const struct local_request *request, struct local *local,
                struct err *err)
{
    if (is_kept(arena, request, local)) return true;
    char *text = request->measure(request->measure_context, arena, &request->key, err);
    if (!text) return false;
    keep(arena, request, text);
    // What is used is what the next run reads.
    return local_parse(arena, text, &request->key, local, err);
}

static void print_note(void *context, const char *line)
{
    console_printf(stderr, "meshwright %s: %s\n", (const char *)context, line);
}

// Somebody waits for a plan.
static const double LOCAL_S = 15;

// `local` with so many ranks (0: as many as cores), measured if need be, with its notes on stderr.
static bool local_find(struct arena *arena, const char *command, int rank_count,
                       struct local *local, struct err *err)
{
    struct calibrate_arguments arguments = calibrate_arguments_default();
    arguments.quiet = true;
    arguments.seconds = LOCAL_S;
    struct local_request request = {.measure = calibrate_job,
                                    .measure_context = &arguments,
                                    .note = print_note,
                                    .note_context = arena_copy(arena, command)};
    if (!local_key_find(arena, arguments.backend, rank_count, &request.key, err)) return false;
    request.path = local_path(arena, &request.key);
    return local_load(arena, &request, local, err);
}

void local_note(const struct cluster *cluster)
{
    if (!cluster->note) return;
    struct arena spare = {0};
    console_printf(stderr, "note: %s\n", plain_copy(&spare, cluster->note));
    arena_free(&spare);
}

struct cluster *local_or_load(struct arena *arena, const char *command, const char *name,
                              int rank_count, const struct stack **stack, struct err *err)
{
    struct local local = {0};
    if (strcmp(name, "local") != 0) {
        if (rank_count)
            err_set(err, ERR_USAGE, "--ranks: only CLUSTER local has it; --gpus N takes the first");
        struct cluster *cluster = rank_count ? NULL : cluster_load(arena, name, err);
        if (cluster) local_note(cluster);
        return cluster;
    }
    if (!local_find(arena, command, rank_count, &local, err)) return NULL;
    if (stack) *stack = local.stack;
    return local.cluster;
}
