#include "executor/checkpoint/disk.h"
#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct disk_file {
    int descriptor;
};

bool disk_fail_read(const char *path, int error, struct err *err)
{
    bool is_wrong = error == ENOENT || error == ENOTDIR || error == EISDIR || error == EINVAL ||
                    error == ENAMETOOLONG || error == ELOOP;
    return err_set(err, is_wrong ? ERR_INPUT : ERR_SYSTEM, "%s: %s", path, strerror(error));
}

static int make_folder(void *context, const char *path)
{
    (void)context;
    return mkdir(path, 0777) == 0 ? 0 : errno;
}

static int create(void *context, const char *path, struct disk_file **file)
{
    (void)context;
    *file = NULL;
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0) return errno;
    *file = memory_get(sizeof **file);
    (*file)->descriptor = descriptor;
    return 0;
}

// The system may move less than it is asked for.
static int put(void *context, struct disk_file *file, int64_t at, const void *bytes, int64_t count)
{
    (void)context;
    const char *from = bytes;
    for (int64_t moved = 0; moved < count;) {
        ssize_t got = pwrite(file->descriptor, from + moved, (size_t)(count - moved), at + moved);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got < 0 ? errno : EIO;
        moved += got;
    }
    return 0;
}

static int finish(void *context, struct disk_file *file, int is_kept)
{
    (void)context;
    int error = is_kept && fsync(file->descriptor) != 0 ? errno : 0;
    if (close(file->descriptor) != 0 && is_kept && !error) error = errno;
    free(file);
    return error;
}

static int sync_folder(void *context, const char *path)
{
    (void)context;
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return errno;
    int error = fsync(descriptor) == 0 ? 0 : errno;
    close(descriptor);
    return error;
}

static int rename_path(void *context, const char *from, const char *to)
{
    (void)context;
    return rename(from, to) == 0 ? 0 : errno;
}

static int remove_path(void *context, const char *path)
{
    (void)context;
    if (unlink(path) == 0) return 0;
    if (errno != EISDIR && errno != EPERM) return errno;
    return rmdir(path) == 0 ? 0 : errno;
}

static int list(void *context, struct arena *arena, const char *path, const char ***names,
                int *count)
{
    (void)context;
    return file_list(arena, path, NULL, names, count);
}

static int map_file(void *context, const char *path, struct disk_map *map)
{
    (void)context;
    struct stat found;
    *map = (struct disk_map){.bytes = ""};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return errno;
    int error = fstat(descriptor, &found) == 0 ? 0 : errno;
    if (!error && !S_ISREG(found.st_mode)) error = EINVAL;
    if (!error && found.st_size > 0) {
        void *memory = mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (memory == MAP_FAILED)
            error = errno;
        else
            *map = (struct disk_map){memory, found.st_size, memory};
    }
    close(descriptor);
    return error;
}

static void unmap_file(void *context, struct disk_map *map)
{
    (void)context;
    if (map->own) munmap(map->own, (size_t)map->size);
    *map = (struct disk_map){.bytes = ""};
}

static void rest_file(void *context, const struct disk_map *map)
{
    (void)context;
    if (map->own) madvise(map->own, (size_t)map->size, MADV_DONTNEED);
}

const struct disk DISK_REAL = {.make_folder = make_folder,
                               .create = create,
                               .write = put,
                               .close = finish,
                               .sync_folder = sync_folder,
                               .rename = rename_path,
                               .remove = remove_path,
                               .list = list,
                               .map = map_file,
                               .unmap = unmap_file,
                               .rest = rest_file};
