#include "tests/support/fake_disk.h"

#include "core/hash.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct write {
    int64_t at, count;
    char *bytes;
};

struct node {
    bool is_folder;
    char *now, *lasting;  // bytes of a file
    int64_t now_size, lasting_size;
    struct write *writes;  // since it was synced
    int write_count, write_capacity;
};

struct name {
    int folder, node;  // node -1: removed
    char *text;
};

struct fake_change {  // of a folder since it was synced
    enum { ADDED, REMOVED, RENAMED } kind;
    int folder, node;
    char *text, *to;
};

struct fake_names {
    struct name *items;
    int count, capacity;
};

struct fake_disk {
    struct arena *arena;
    uint64_t seed, drawn;
    struct node *nodes;
    int node_count, node_capacity;
    struct fake_names now, lasting;
    struct fake_change *changes;
    int change_count, change_capacity;
    int operations, kill_at, fail_one_in;
};

struct disk_file {
    int node;
};

uint64_t fake_disk_draw(struct fake_disk *fake, uint64_t below)
{
    return hash_mix(fake->seed + HASH_STEP * ++fake->drawn) % below;
}

static int add_node(struct fake_disk *fake, bool is_folder)
{
    ARENA_GROW(fake->arena, fake->nodes, fake->node_count, fake->node_capacity);
    fake->nodes[fake->node_count] = (struct node){.is_folder = is_folder};
    return fake->node_count++;
}

struct fake_disk *fake_disk_new(struct arena *arena, uint64_t seed)
{
    struct fake_disk *fake = ARENA_NEW(arena, struct fake_disk, 1);
    fake->arena = arena;
    fake->seed = seed;
    add_node(fake, true);
    return fake;
}

void fake_disk_kill_at(struct fake_disk *fake, int operation)
{
    fake->kill_at = operation;
}

int fake_disk_operations(const struct fake_disk *fake)
{
    return fake->operations;
}

void fake_disk_fail_one_in(struct fake_disk *fake, int many)
{
    fake->fail_one_in = many;
}

// Whether an operation fails before it does anything.
static int fault(struct fake_disk *fake)
{
    fake->operations++;
    if (fake->kill_at && fake->operations >= fake->kill_at) return EIO;
    bool fails = fake->fail_one_in && fake_disk_draw(fake, (uint64_t)fake->fail_one_in) == 0;
    return fails ? ENOSPC : 0;
}

static struct name *find_in(struct fake_names *names, int folder, const char *text, size_t length)
{
    for (int i = 0; i < names->count; i++) {
        struct name *name = &names->items[i];
        if (name->node >= 0 && name->folder == folder && strlen(name->text) == length &&
            strncmp(name->text, text, length) == 0)
            return name;
    }
    return NULL;
}

// The folder that a path's last part stands in, and that part; -1: there is no such folder.
static int parent_of(struct fake_disk *fake, const char *path, const char **last)
{
    int folder = 0;
    *last = path;
    for (const char *slash; (slash = strchr(path, '/')); path = slash + 1) {
        const struct name *name = find_in(&fake->now, folder, path, (size_t)(slash - path));
        if (!name) return -1;
        folder = name->node;
    }
    *last = path;
    return folder;
}

static struct name *find(struct fake_disk *fake, const char *path)
{
    const char *last;
    int folder = parent_of(fake, path, &last);
    return folder < 0 ? NULL : find_in(&fake->now, folder, last, strlen(last));
}

static void apply(struct fake_disk *fake, struct fake_names *names,
                  const struct fake_change *change)
{
    struct name *name = find_in(names, change->folder, change->text, strlen(change->text));
    if (change->kind == ADDED) {
        ARENA_GROW(fake->arena, names->items, names->count, names->capacity);
        names->items[names->count++] = (struct name){change->folder, change->node, change->text};
    } else if (name && change->kind == REMOVED) {
        name->node = -1;
    } else if (name) {
        name->text = change->to;
    }
}

static void change(struct fake_disk *fake, struct fake_change made)
{
    ARENA_GROW(fake->arena, fake->changes, fake->change_count, fake->change_capacity);
    fake->changes[fake->change_count++] = made;
    apply(fake, &fake->now, &made);
}

static int add(struct fake_disk *fake, const char *path, bool is_folder, int *node)
{
    const char *last;
    int folder = parent_of(fake, path, &last);
    if (folder < 0) return ENOENT;
    *node = add_node(fake, is_folder);
    change(fake, (struct fake_change){ADDED, folder, *node, arena_copy(fake->arena, last), NULL});
    return 0;
}

static int make_folder(void *context, const char *path)
{
    struct fake_disk *fake = context;
    int node, error = fault(fake);
    if (error) return error;
    return find(fake, path) ? EEXIST : add(fake, path, true, &node);
}

static int create(void *context, const char *path, struct disk_file **file)
{
    struct fake_disk *fake = context;
    int node, error = fault(fake);
    if (error) return error;
    assert(!find(fake, path) && "no file of a checkpoint is written twice");
    error = add(fake, path, false, &node);
    if (error) return error;
    *file = ARENA_NEW(fake->arena, struct disk_file, 1);
    (*file)->node = node;
    return 0;
}

static void put(struct fake_disk *fake, char **bytes, int64_t *size, const struct write *write)
{
    int64_t end = write->at + write->count;
    if (end > *size) {
        char *grown = ARENA_NEW(fake->arena, char, end + 1);
        if (*size) memcpy(grown, *bytes, (size_t)*size);
        *bytes = grown;
        *size = end;
    }
    if (write->count > 0) memcpy(*bytes + write->at, write->bytes, (size_t)write->count);
}

static int write_bytes(void *context, struct disk_file *file, int64_t at, const void *bytes,
                       int64_t count)
{
    struct fake_disk *fake = context;
    struct node *node = &fake->nodes[file->node];
    int error = fault(fake);
    if (error) count = (int64_t)fake_disk_draw(fake, (uint64_t)count + 1);
    struct write write = {at, count, ARENA_NEW(fake->arena, char, count + 1)};
    memcpy(write.bytes, bytes, (size_t)count);
    ARENA_GROW(fake->arena, node->writes, node->write_count, node->write_capacity);
    node->writes[node->write_count++] = write;
    put(fake, &node->now, &node->now_size, &write);
    return error;
}

static void sync_node(struct fake_disk *fake, struct node *node)
{
    node->lasting = ARENA_NEW(fake->arena, char, node->now_size + 1);
    if (node->now_size) memcpy(node->lasting, node->now, (size_t)node->now_size);
    node->lasting_size = node->now_size;
    node->write_count = 0;
}

static int close_file(void *context, struct disk_file *file, int is_kept)
{
    struct fake_disk *fake = context;
    int error = is_kept ? fault(fake) : 0;
    if (is_kept && !error) sync_node(fake, &fake->nodes[file->node]);
    return error;
}

// The first `most` changes of a folder last; the others stay pending.
static void settle(struct fake_disk *fake, int folder, int most)
{
    int kept = 0;
    for (int c = 0; c < fake->change_count; c++) {
        const struct fake_change made = fake->changes[c];
        if (made.folder == folder && most-- > 0)
            apply(fake, &fake->lasting, &made);
        else
            fake->changes[kept++] = made;
    }
    fake->change_count = kept;
}

static int sync_folder(void *context, const char *path)
{
    struct fake_disk *fake = context;
    int error = fault(fake);
    const struct name *name = find(fake, path);
    bool is_root = strcmp(path, ".") == 0;
    if (error || (!name && !is_root)) return error ? error : ENOENT;
    settle(fake, is_root ? 0 : name->node, fake->change_count);
    return 0;
}

static int count_in(const struct fake_names *names, int folder)
{
    int count = 0;
    for (int i = 0; i < names->count; i++)
        count += names->items[i].node >= 0 && names->items[i].folder == folder;
    return count;
}

static int rename_path(void *context, const char *from, const char *to)
{
    struct fake_disk *fake = context;
    const char *from_last, *to_last;
    int error = fault(fake);
    if (error) return error;
    int folder = parent_of(fake, from, &from_last);
    if (folder < 0 || !find(fake, from)) return ENOENT;
    assert(parent_of(fake, to, &to_last) == folder);
    struct name *there = find(fake, to);
    if (there && count_in(&fake->now, there->node) > 0) return ENOTEMPTY;
    change(fake, (struct fake_change){RENAMED, folder, -1, arena_copy(fake->arena, from_last),
                                      arena_copy(fake->arena, to_last)});
    return 0;
}

static int remove_path(void *context, const char *path)
{
    struct fake_disk *fake = context;
    const char *last;
    int error = fault(fake);
    const struct name *name = find(fake, path);
    if (error || !name) return error ? error : ENOENT;
    if (count_in(&fake->now, name->node) > 0) return ENOTEMPTY;
    int folder = parent_of(fake, path, &last);
    change(fake, (struct fake_change){REMOVED, folder, -1, arena_copy(fake->arena, last), NULL});
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int list(void *context, struct arena *arena, const char *path, const char ***names,
                int *count)
{
    struct fake_disk *fake = context;
    int error = fault(fake);
    const struct name *name = find(fake, path);
    *count = 0;
    if (error || !name) return error ? error : ENOENT;
    *names = ARENA_NEW(arena, const char *, fake->now.count + 1);
    for (int i = 0; i < fake->now.count; i++) {
        const struct name *item = &fake->now.items[i];
        if (item->node >= 0 && item->folder == name->node)
            (*names)[(*count)++] = arena_copy(arena, item->text);
    }
    qsort((void *)*names, (size_t)*count, sizeof **names, by_name);
    return 0;
}

static int map_file(void *context, const char *path, struct disk_map *map)
{
    struct fake_disk *fake = context;
    int error = fault(fake);
    const struct name *name = find(fake, path);
    *map = (struct disk_map){.bytes = ""};
    if (error || !name) return error ? error : ENOENT;
    const struct node *node = &fake->nodes[name->node];
    if (node->now_size > 0) *map = (struct disk_map){node->now, node->now_size, NULL};
    return 0;
}

static void unmap_file(void *context, struct disk_map *map)
{
    (void)context;
    *map = (struct disk_map){.bytes = ""};
}

struct disk fake_disk_table(struct fake_disk *fake)
{
    return (struct disk){.context = fake,
                         .make_folder = make_folder,
                         .create = create,
                         .write = write_bytes,
                         .close = close_file,
                         .sync_folder = sync_folder,
                         .rename = rename_path,
                         .remove = remove_path,
                         .list = list,
                         .map = map_file,
                         .unmap = unmap_file};
}

// Of what was written since, some, and of each as much as there was time for.
static void tear(struct fake_disk *fake, struct node *node)
{
    for (int w = 0; w < node->write_count; w++) {
        struct write write = node->writes[w];
        if (fake_disk_draw(fake, 2)) continue;
        if (fake_disk_draw(fake, 2))
            write.count = (int64_t)fake_disk_draw(fake, (uint64_t)write.count + 1);
        put(fake, &node->lasting, &node->lasting_size, &write);
    }
    node->write_count = 0;
    node->now_size = node->lasting_size;
    node->now = ARENA_NEW(fake->arena, char, node->now_size + 1);
    if (node->now_size) memcpy(node->now, node->lasting, (size_t)node->now_size);
}

void fake_disk_crash(struct fake_disk *fake)
{
    for (int n = 0; n < fake->node_count; n++) {
        if (fake->nodes[n].is_folder)
            settle(fake, n, (int)fake_disk_draw(fake, (uint64_t)fake->change_count + 1));
        else
            tear(fake, &fake->nodes[n]);
    }
    fake->change_count = 0;
    fake->now.count = 0;
    for (int i = 0; i < fake->lasting.count; i++) {
        ARENA_GROW(fake->arena, fake->now.items, fake->now.count, fake->now.capacity);
        fake->now.items[fake->now.count++] = fake->lasting.items[i];
    }
    fake->kill_at = 0;
    fake->fail_one_in = 0;
}
