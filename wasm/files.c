#include "core/file.h"

// core/file.c of a page, which has no files: what a plan names instead of holding is not there.

char *file_read(struct arena *arena, const char *path, size_t limit_bytes, size_t *bytes,
                struct err *err)
{
    (void)arena;
    (void)limit_bytes;
    *bytes = 0;
    err_set(err, ERR_INPUT, "%s: a page reads no files", path);
    return NULL;
}

const char *file_find_data(struct arena *arena, const char *folder, const char *name,
                           const char *what, struct err *err)
{
    (void)arena;
    (void)folder;
    err_set(err, ERR_INPUT, "%s \"%s\" is named, and a page reads no files", what, name);
    return NULL;
}

bool file_exists(const char *path)
{
    (void)path;
    return false;
}

const char **file_list_data(struct arena *arena, const char *folder, int *count)
{
    (void)folder;
    *count = 0;
    return ARENA_NEW(arena, const char *, 1);
}
