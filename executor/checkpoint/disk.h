#pragma once
#include "core/arena.h"
#include "core/err.h"

#include <stddef.h>
#include <stdint.h>

// All that checkpoints ask of a file system, behind one table, so that the same code runs against
// the real one and against one that a test makes of a seed (tests/support/fake_disk.h), which loses
// and tears what was not synced. Functions that can fail return 0 or an errno.

struct disk_file;  // one that is being written
struct disk_map {
    const char *bytes;
    int64_t size;
    void *own;  // of the disk
};

struct disk {
    void *context;
    int (*make_folder)(void *context, const char *path);  // EEXIST where it is there
    int (*create)(void *context, const char *path, struct disk_file **file);
    int (*write)(void *context, struct disk_file *file, int64_t at, const void *bytes,
                 int64_t count);
    // What was written lasts when it returns 0; the file is closed in any case. The name lasts when
    // the folder is synced, too.
    int (*close)(void *context, struct disk_file *file, int is_kept);
    int (*sync_folder)(void *context, const char *path);
    int (*rename)(void *context, const char *from, const char *to);
    int (*remove)(void *context, const char *path);  // a file or an empty folder
    // Names in a folder, sorted, without "." and ".."; in the arena.
    int (*list)(void *context, struct arena *arena, const char *path, const char ***names,
                int *count);
    // The whole of a file, to read; unmap in any case where it returned 0.
    int (*map)(void *context, const char *path, struct disk_map *map);
    void (*unmap)(void *context, struct disk_map *map);
    // What was read of it need not stay in memory: it is read again where it is wanted again. NULL:
    // it stays.
    void (*rest)(void *context, const struct disk_map *map);
};

// So many bytes are read between two rests, so that a process holds no file whole.
enum { DISK_REST_BYTES = 16 << 20 };

// Says that `path` cannot be read, of what `map` returned; false. One that is not there, or no
// file, is wrong (ERR_INPUT). Whatever else keeps it from being read, an error of the drive, a
// server that is away, no right to, says nothing of what it holds, and may pass (ERR_SYSTEM).
bool disk_fail_read(const char *path, int error, struct err *err);

// The machine's own.
extern const struct disk DISK_REAL;
