#include "executor/checkpoint/store.h"

#include <inttypes.h>

bool checkpoint_load(const struct disk *disk, struct arena *arena, const char *path,
                     struct checkpoint_index *index, struct err *err)
{
    struct disk_map map;
    const char *name = arena_print(arena, "%s/checkpoint.json", path);
    int error = disk->map(disk->context, name, &map);
    if (error) return disk_fail_read(name, error, err);
    bool done = checkpoint_index_read(arena, name, map.bytes, map.size, index, err);
    disk->unmap(disk->context, &map);
    return done;
}

static bool check(const struct disk *disk, const struct checkpoint_index *index, int number,
                  const char *path, const struct disk_map *map, struct err *err)
{
    const struct checkpoint_file *file = &index->files[number];
    int64_t read_bytes = 0;
    if (map->size != file->bytes)
        return err_set(err, ERR_INPUT, "%s: %" PRId64 " bytes, its index says %" PRId64, path,
                       map->size, file->bytes);
    if (checkpoint_checksum(map->bytes, file->header_bytes) != file->checksum)
        return err_set(err, ERR_INPUT, "%s: its header is damaged", path);
    for (int e = 0; e < index->entry_count; e++) {
        const struct checkpoint_entry *entry = &index->entries[e];
        if (entry->file != number) continue;
        const char *bytes = map->bytes + file->header_bytes + entry->at_bytes;
        if (checkpoint_checksum(bytes, entry->bytes) != entry->checksum)
            return err_set(err, ERR_INPUT, "%s: %s of %.200s is damaged", path,
                           checkpoint_kind_name(entry->kind), entry->piece.name);
        read_bytes += entry->bytes;
        if (read_bytes < DISK_REST_BYTES) continue;
        if (disk->rest) disk->rest(disk->context, map);
        read_bytes = 0;
    }
    return true;
}

bool checkpoint_verify(const struct disk *disk, const char *path,
                       const struct checkpoint_index *index, int file, struct err *err)
{
    struct arena arena = {0};
    struct disk_map map;
    const char *name = arena_print(&arena, "%s/%s", path, index->files[file].name);
    int error = disk->map(disk->context, name, &map);
    bool done = false;
    if (error) {
        disk_fail_read(name, error, err);
    } else {
        done = check(disk, index, file, name, &map, err);
        disk->unmap(disk->context, &map);
    }
    arena_free(&arena);
    return done;
}
