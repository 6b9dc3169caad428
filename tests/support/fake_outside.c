#include "tests/support/fake_outside.h"

#include "core/hash.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

enum { VERSIONS = 16, STRANGER = FAKE_NODES };

struct version {
    char *data;  // NULL: the file is gone
    size_t bytes;
    double seen_s[FAKE_NODES];
};

struct shared_file {
    const char *folder, *name;
    struct version versions[VERSIONS];  // the last so many, as a ring
    int count;
};

struct seen_by {
    struct fake_outside *fake;
    int node, failed_puts;
};

struct fake_outside {
    struct arena *arena;
    uint64_t seed, drawn;
    double now_s, latest_s;
    enum fake_fault fault;
    int fail_one_in;
    struct shared_file *files;
    int file_count, file_capacity;
    struct seen_by nodes[FAKE_NODES];
};

uint64_t fake_outside_draw(struct fake_outside *fake, uint64_t below)
{
    return hash_mix(fake->seed + HASH_STEP * ++fake->drawn) % below;
}

struct fake_outside *fake_outside_new(struct arena *arena, uint64_t seed, double latest_s)
{
    struct fake_outside *fake = ARENA_NEW(arena, struct fake_outside, 1);
    *fake =
        (struct fake_outside){.arena = arena, .seed = seed, .now_s = 1000, .latest_s = latest_s};
    for (int n = 0; n < FAKE_NODES; n++)
        fake->nodes[n] = (struct seen_by){fake, n, 0};
    return fake;
}

void fake_outside_set(struct fake_outside *fake, enum fake_fault fault, int fail_one_in)
{
    fake->fault = fault;
    fake->fail_one_in = fail_one_in;
}

double fake_outside_now_s(const struct fake_outside *fake)
{
    return fake->now_s;
}

void fake_outside_to(struct fake_outside *fake, double now_s)
{
    assert(now_s >= fake->now_s);
    fake->now_s = now_s;
}

int fake_outside_failed_puts(const struct fake_outside *fake, int node)
{
    return fake->nodes[node].failed_puts;
}

static struct shared_file *find(struct fake_outside *fake, const char *folder, const char *name)
{
    for (int i = 0; i < fake->file_count; i++) {
        struct shared_file *file = &fake->files[i];
        if (strcmp(file->name, name) == 0 && strcmp(file->folder, folder) == 0) return file;
    }
    return NULL;
}

static struct version *newest(struct shared_file *file)
{
    return file && file->count > 0 ? &file->versions[(file->count - 1) % VERSIONS] : NULL;
}

// data NULL: the file goes. Node `by` sees it at once.
static void add(struct fake_outside *fake, const char *folder, const char *name, const void *data,
                size_t bytes, int by)
{
    struct shared_file *file = find(fake, folder, name);
    if (!file) {
        ARENA_GROW(fake->arena, fake->files, fake->file_count, fake->file_capacity);
        file = &fake->files[fake->file_count++];
        *file = (struct shared_file){.folder = arena_copy(fake->arena, folder),
                                     .name = arena_copy(fake->arena, name)};
    }
    const struct version *before = newest(file);
    struct version version = {.bytes = bytes};
    if (data) {
        version.data = ARENA_NEW(fake->arena, char, (int64_t)bytes + 1);
        if (bytes) memcpy(version.data, data, bytes);
    }
    for (int n = 0; n < FAKE_NODES; n++) {
        double late_s = fake->latest_s * (double)fake_outside_draw(fake, 1000) / 1000;
        double seen_s = fake->now_s + (n == by ? 0 : late_s);
        if (before && before->seen_s[n] > seen_s) seen_s = before->seen_s[n];
        version.seen_s[n] = seen_s;
    }
    file->versions[file->count++ % VERSIONS] = version;
}

void fake_outside_litter(struct fake_outside *fake, const char *folder, const char *name)
{
    char junk[200];
    size_t bytes = (size_t)fake_outside_draw(fake, sizeof junk);
    for (size_t i = 0; i < bytes; i++)
        junk[i] = (char)fake_outside_draw(fake, 256);
    add(fake, folder, name, junk, bytes, STRANGER);
}

static double now_s(void *context)
{
    return ((struct seen_by *)context)->fake->now_s;
}

static void pause_for(void *context, double seconds)
{
    (void)context;
    (void)seconds;
    assert(0 && "who is simulated looks once and comes back");
}

static bool draw(void *context, void *bytes, size_t count)
{
    struct fake_outside *fake = ((struct seen_by *)context)->fake;
    unsigned char *to = bytes;
    for (size_t i = 0; i < count; i++)
        to[i] = fake->fault == FAKE_SAME_NUMBER ? 7 : (unsigned char)fake_outside_draw(fake, 256);
    return true;
}

static bool is_ended(void *context)
{
    (void)context;
    return false;
}

static bool make_folder(void *context, const char *path, struct err *err)
{
    (void)context;
    (void)path;
    (void)err;
    return true;
}

static bool fails(struct seen_by *by, const char *folder, struct err *err)
{
    struct fake_outside *fake = by->fake;
    if (!fake->fail_one_in || fake_outside_draw(fake, (uint64_t)fake->fail_one_in)) return false;
    by->failed_puts++;
    err_set(err, ERR_SYSTEM, "cannot write in %.300s: no room", folder);
    return true;
}

static bool put(void *context, const char *folder, const char *name, const void *data, size_t bytes,
                struct err *err)
{
    struct seen_by *by = context;
    if (fails(by, folder, err)) return false;
    bool is_lost = by->fake->fault == FAKE_LOST && fake_outside_draw(by->fake, 20) == 0;
    if (!is_lost) add(by->fake, folder, name, data, bytes, by->node);
    return true;
}

static bool put_first(void *context, const char *folder, const char *name, const void *data,
                      size_t bytes, struct err *err)
{
    struct seen_by *by = context;
    struct version *there = newest(find(by->fake, folder, name));
    if (fails(by, folder, err)) return false;
    if (there && there->data && by->fake->fault != FAKE_FIRST_TWICE) {
        // Who is told that there is one finds it.
        if (there->seen_s[by->node] > by->fake->now_s) there->seen_s[by->node] = by->fake->now_s;
        return true;
    }
    add(by->fake, folder, name, data, bytes, by->node);
    return true;
}

static bool get(void *context, const char *folder, const char *name, void *data, size_t room,
                size_t *bytes)
{
    struct seen_by *by = context;
    const struct shared_file *file = find(by->fake, folder, name);
    int oldest = file && file->count > VERSIONS ? file->count - VERSIONS : 0;
    for (int v = file ? file->count - 1 : -1; v >= oldest; v--) {
        const struct version *version = &file->versions[v % VERSIONS];
        if (version->seen_s[by->node] > by->fake->now_s) continue;
        if (!version->data || version->bytes > room) return false;
        *bytes = version->bytes;
        if (by->fake->fault == FAKE_TORN) *bytes = fake_outside_draw(by->fake, *bytes + 1);
        memcpy(data, version->data, *bytes);
        return true;
    }
    return false;
}

static void remove_file(void *context, const char *folder, const char *name)
{
    struct seen_by *by = context;
    if (find(by->fake, folder, name)) add(by->fake, folder, name, NULL, 0, by->node);
}

static void remove_all(void *context, const char *folder)
{
    struct seen_by *by = context;
    for (int i = 0; i < by->fake->file_count; i++) {
        const char *name = by->fake->files[i].name;
        if (strcmp(by->fake->files[i].folder, folder) == 0) remove_file(context, folder, name);
    }
}

struct outside fake_outside_of(struct fake_outside *fake, int node)
{
    return (struct outside){.context = &fake->nodes[node],
                            .now_s = now_s,
                            .pause = pause_for,
                            .draw = draw,
                            .is_ended = is_ended,
                            .make_folder = make_folder,
                            .put = put,
                            .put_first = put_first,
                            .get = get,
                            .remove = remove_file,
                            .remove_all = remove_all};
}
