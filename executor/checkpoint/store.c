#include "executor/checkpoint/store.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char INDEX[] = "checkpoint.json", WHOLE[] = "step-", PARTIAL[] = ".step-",
                  AWAY[] = ".gone-", DAMAGED[] = "damaged-";

static bool fail(struct err *err, const char *doing, const char *path, int error)
{
    return err_set(err, ERR_SYSTEM, "%s %s: %s", doing, path, strerror(error));
}

static char *named(struct arena *arena, const struct checkpoint_store *store, const char *begin,
                   int64_t step, const char *end)
{
    assert(step >= 0);
    return arena_print(arena, "%s/%s%08" PRId64 "%s", store->folder, begin, step, end);
}

char *checkpoint_store_path(struct arena *arena, const struct checkpoint_store *store, int64_t step)
{
    return named(arena, store, WHOLE, step, "");
}

static char *partial_path(struct arena *arena, const struct checkpoint_store *store, int64_t step)
{
    return named(arena, store, PARTIAL, step, ".partial");
}

static char *file_path(struct arena *arena, const char *folder, int rank)
{
    assert(rank >= 0);
    return arena_print(arena, "%s/rank-%05d.safetensors", folder, rank);
}

// Files first, then the folder. What is gone already is no fault.
static bool remove_folder(const struct disk *disk, struct arena *arena, const char *path,
                          struct err *err)
{
    const char **names;
    int count, error = disk->list(disk->context, arena, path, &names, &count);
    if (error == ENOENT) return true;
    if (error) return fail(err, "reading", path, error);
    for (int i = 0; i < count; i++) {
        const char *file = arena_print(arena, "%s/%s", path, names[i]);
        error = disk->remove(disk->context, file);
        if (error && error != ENOENT) return fail(err, "removing", file, error);
    }
    error = disk->remove(disk->context, path);
    return !error || error == ENOENT || fail(err, "removing", path, error);
}

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

static bool remove_leftovers(const struct checkpoint_store *store, struct arena *arena,
                             struct err *err)
{
    const char **names;
    int count;
    const struct disk *disk = store->disk;
    int error = disk->list(disk->context, arena, store->folder, &names, &count);
    if (error) return fail(err, "reading", store->folder, error);
    for (int i = 0; i < count; i++) {
        if (!begins(names[i], PARTIAL) && !begins(names[i], AWAY)) continue;
        const char *path = arena_print(arena, "%s/%s", store->folder, names[i]);
        if (!remove_folder(disk, arena, path, err)) return false;
    }
    return true;
}

// The folder's own name lasts, too: all that is committed hangs on it, and who made it may not have
// come to this. Only above one that was there already it may be for others to write.
static bool sync_above(const struct disk *disk, struct arena *arena, const char *path, bool is_new,
                       struct err *err)
{
    const char *slash = strrchr(path, '/');
    while (slash && slash > path && !slash[1]) {
        path = arena_print(arena, "%.*s", (int)(slash - path), path);
        slash = strrchr(path, '/');
    }
    const char *above = !slash          ? "."
                        : slash == path ? "/"
                                        : arena_print(arena, "%.*s", (int)(slash - path), path);
    int error = disk->sync_folder(disk->context, above);
    if (!is_new && error == EACCES) return true;
    return !error || fail(err, "syncing", above, error);
}

static bool open_folder(const struct checkpoint_store *store, struct arena *arena, struct err *err)
{
    const struct disk *disk = store->disk;
    int error = disk->make_folder(disk->context, store->folder);
    if (error && error != EEXIST) return fail(err, "making", store->folder, error);
    if (!sync_above(disk, arena, store->folder, !error, err)) return false;
    if (!remove_leftovers(store, arena, err)) return false;
    const char *trial = arena_print(arena, "%s/%strial", store->folder, AWAY);
    error = disk->make_folder(disk->context, trial);
    if (error) return fail(err, "writing in", store->folder, error);
    error = disk->remove(disk->context, trial);
    if (error) return fail(err, "removing", trial, error);
    // What has the name of a checkpoint is gone on from: it may be of a run whose last sync failed.
    error = disk->sync_folder(disk->context, store->folder);
    return !error || fail(err, "syncing", store->folder, error);
}

bool checkpoint_store_open(const struct checkpoint_store *store, struct err *err)
{
    struct arena arena = {0};
    bool done = open_folder(store, &arena, err);
    arena_free(&arena);
    return done;
}

// "step-00000010" and nothing else.
static bool step_of(const char *name, int64_t *step)
{
    char *end;
    const char *digits = name + strlen(WHOLE);
    if (!begins(name, WHOLE) || !isdigit((unsigned char)*digits)) return false;
    *step = strtoll(digits, &end, 10);
    return *end == '\0';
}

static int last_first(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left < right) - (left > right);
}

bool checkpoint_store_steps(const struct checkpoint_store *store, struct arena *arena,
                            int64_t **steps, int *count, struct err *err)
{
    const char **names;
    int name_count = 0;
    *count = 0;
    *steps = NULL;
    const struct disk *disk = store->disk;
    int error = disk->list(disk->context, arena, store->folder, &names, &name_count);
    if (error && error != ENOENT) return fail(err, "reading", store->folder, error);
    if (error) name_count = 0;
    *steps = ARENA_NEW(arena, int64_t, name_count + 1);
    for (int i = 0; i < name_count; i++) {
        if (step_of(names[i], &(*steps)[*count])) ++*count;
    }
    qsort(*steps, (size_t)*count, sizeof **steps, last_first);
    return true;
}

// Small arrays go out together.
struct outgoing {
    const struct disk *disk;
    struct disk_file *file;
    char *buffer;
    int64_t at, used;  // of the file, where the buffer begins
    int64_t room;
};
enum { BUFFER_BYTES = 1 << 20 };

static int flush(struct outgoing *out)
{
    int64_t used = out->used;
    int error =
        used ? out->disk->write(out->disk->context, out->file, out->at, out->buffer, used) : 0;
    out->at += used;
    out->used = 0;
    return error;
}

static int put(struct outgoing *out, const void *bytes, int64_t count)
{
    assert(count >= 0 && out->used >= 0 && out->used <= out->room);
    int error = out->used + count > out->room ? flush(out) : 0;
    if (error) return error;
    if (count > out->room) {
        error = out->disk->write(out->disk->context, out->file, out->at, bytes, count);
        out->at += count;
        return error;
    }
    memcpy(out->buffer + out->used, bytes, (size_t)count);
    out->used += count;
    return 0;
}

// The arrays first, then the header, which knows their checksums.
static int put_all(const struct disk *disk, struct disk_file *file, struct arena *arena,
                   struct checkpoint_entry *entries, int count, checkpoint_get get, void *context,
                   struct err *err)
{
    int64_t header_bytes;
    (void)checkpoint_header(arena, entries, count, &header_bytes);
    int64_t all = count > 0 ? entries[count - 1].at_bytes + entries[count - 1].bytes : 0;
    int64_t room = all < BUFFER_BYTES ? all : BUFFER_BYTES;
    char *buffer = arena_alloc(arena, (size_t)room + 1, 1);
    struct outgoing out = {disk, file, buffer, header_bytes, 0, room};
    int error = 0;
    for (int e = 0; e < count && !error; e++) {
        const void *bytes = get(context, e, err);
        if (!bytes) return 0;
        entries[e].checksum = checkpoint_checksum(bytes, entries[e].bytes);
        error = put(&out, bytes, entries[e].bytes);
    }
    if (!error) error = flush(&out);
    if (error) return error;
    const char *header = checkpoint_header(arena, entries, count, &header_bytes);
    return disk->write(disk->context, file, 0, header, header_bytes);
}

static bool write_file(const struct disk *disk, struct arena *arena, const char *path,
                       struct checkpoint_entry *entries, int count, checkpoint_get get,
                       void *context, struct err *err)
{
    struct disk_file *file;
    int error = disk->create(disk->context, path, &file);
    if (error) return fail(err, "writing", path, error);
    error = put_all(disk, file, arena, entries, count, get, context, err);
    int closed = disk->close(disk->context, file, !error && !err->kind);
    if (err->kind) return false;
    if (!error) error = closed;
    return !error || fail(err, "writing", path, error);
}

bool checkpoint_store_write(const struct checkpoint_store *store, int64_t step, int rank,
                            struct checkpoint_entry *entries, int count, checkpoint_get get,
                            void *context, struct err *err)
{
    assert(step >= 0 && rank >= 0 && count >= 0);
    struct arena arena = {0};
    const struct disk *disk = store->disk;
    const char *folder = partial_path(&arena, store, step);
    for (int e = 0; e < count; e++)
        entries[e].checksum = 0;
    checkpoint_place(entries, count);
    int error = disk->make_folder(disk->context, folder);
    bool done = !error || error == EEXIST || fail(err, "making", folder, error);
    done = done && write_file(disk, &arena, file_path(&arena, folder, rank), entries, count, get,
                              context, err);
    arena_free(&arena);
    return done;
}

void checkpoint_store_discard(const struct checkpoint_store *store, int64_t step, int rank)
{
    struct arena arena = {0};
    const struct disk *disk = store->disk;
    const char *folder = partial_path(&arena, store, step);
    // What stays is removed when the next run opens the folder.
    (void)disk->remove(disk->context, file_path(&arena, folder, rank));
    if (rank == 0) (void)disk->remove(disk->context, arena_print(&arena, "%s/%s", folder, INDEX));
    (void)disk->remove(disk->context, folder);
    arena_free(&arena);
}

static bool read_header(const struct disk *disk, struct arena *arena, const char *path,
                        struct checkpoint_index *index, struct err *err)
{
    struct disk_map map;
    int error = disk->map(disk->context, path, &map);
    if (error) return fail(err, "reading", path, error);
    bool done = checkpoint_header_read(arena, path, map.bytes, map.size, index, err);
    disk->unmap(disk->context, &map);
    return done;
}

static bool write_text(const struct disk *disk, const char *path, const char *text, struct err *err)
{
    struct disk_file *file;
    int error = disk->create(disk->context, path, &file);
    if (error) return fail(err, "writing", path, error);
    error = disk->write(disk->context, file, 0, text, (int64_t)strlen(text));
    int closed = disk->close(disk->context, file, !error);
    if (!error) error = closed;
    return !error || fail(err, "writing", path, error);
}

static bool commit(const struct checkpoint_store *store, struct arena *arena,
                   const struct checkpoint_facts *facts, int rank_count, struct err *err)
{
    assert(rank_count > 0);
    const struct disk *disk = store->disk;
    const char *folder = partial_path(arena, store, facts->step);
    const char *to = checkpoint_store_path(arena, store, facts->step);
    struct checkpoint_index index = {.facts = *facts};
    index.files = ARENA_NEW(arena, struct checkpoint_file, rank_count);
    for (int r = 0; r < rank_count; r++) {
        const char *path = file_path(arena, folder, r);
        if (!read_header(disk, arena, path, &index, err)) return false;
    }
    checkpoint_index_sort(&index);
    const char *path = arena_print(arena, "%s/%s", folder, INDEX);
    if (!write_text(disk, path, checkpoint_index_text(arena, &index), err)) return false;
    int error = disk->sync_folder(disk->context, folder);
    if (error) return fail(err, "syncing", folder, error);
    error = disk->rename(disk->context, folder, to);
    if (error) return fail(err, "renaming to", to, error);
    error = disk->sync_folder(disk->context, store->folder);
    return !error || fail(err, "syncing", store->folder, error);
}

bool checkpoint_store_commit(const struct checkpoint_store *store,
                             const struct checkpoint_facts *facts, int rank_count, struct err *err)
{
    struct arena arena = {0};
    bool done = commit(store, &arena, facts, rank_count, err);
    arena_free(&arena);
    return done;
}

// First it loses its name, at once: half of one is never taken for one.
static bool remove_step(const struct checkpoint_store *store, struct arena *arena, int64_t step,
                        struct err *err)
{
    const struct disk *disk = store->disk;
    const char *path = checkpoint_store_path(arena, store, step);
    const char *away = named(arena, store, AWAY, step, "");
    if (!remove_folder(disk, arena, away, err)) return false;
    int error = disk->rename(disk->context, path, away);
    if (error) return fail(err, "renaming", path, error);
    // Else its files might be gone and its name be back.
    error = disk->sync_folder(disk->context, store->folder);
    if (error) return fail(err, "syncing", store->folder, error);
    return remove_folder(disk, arena, away, err);
}

bool checkpoint_store_keep(const struct checkpoint_store *store, int keep, struct err *err)
{
    struct arena arena = {0};
    int64_t *steps;
    int count;
    assert(keep >= 0);
    bool done = checkpoint_store_steps(store, &arena, &steps, &count, err);
    // The oldest first, so that what is left when this is cut short are the last ones.
    for (int i = count - 1; i >= keep && done; i--)
        done = remove_step(store, &arena, steps[i], err);
    arena_free(&arena);
    return done;
}

bool checkpoint_store_set_aside(const struct checkpoint_store *store, int64_t step, struct err *err)
{
    struct arena arena = {0};
    const struct disk *disk = store->disk;
    const char *path = checkpoint_store_path(&arena, store, step);
    const char *to = named(&arena, store, DAMAGED, step, "");
    bool done = remove_folder(disk, &arena, to, err);
    int error = done ? disk->rename(disk->context, path, to) : 0;
    if (error) done = fail(err, "renaming", path, error);
    arena_free(&arena);
    return done;
}
