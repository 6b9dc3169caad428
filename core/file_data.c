#include "core/file.h"
#include "core/units.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef PREFIX
#define PREFIX "/usr/local"
#endif

static const char SUFFIX[] = ".json";

static bool has_suffix(const char *name)
{
    size_t length = strlen(name), suffix = strlen(SUFFIX);
    return length > suffix && strcmp(name + length - suffix, SUFFIX) == 0;
}

// The source tree is the nearest parent of the binary that holds a Makefile and the folder or file:
// it is found from build/ and from build/tests/ alike, and never from an installed binary. Else its
// name where it is `installed`.
static const char *find_shared(struct arena *arena, const char *folder, const char *installed)
{
    char binary[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", binary, sizeof binary - 1);
    binary[length > 0 ? length : 0] = '\0';
    for (char *slash = strrchr(binary, '/'); slash; slash = strrchr(binary, '/')) {
        *slash = '\0';
        const char *candidate = arena_print(arena, "%s/%s", binary, folder);
        if (file_exists(candidate) && file_exists(arena_print(arena, "%s/Makefile", binary))) {
            return candidate;
        }
    }
    return arena_print(arena, "%s/share/meshwright/%s", PREFIX, installed);
}

static const char *find_folder(struct arena *arena, const char *folder)
{
    return find_shared(arena, folder, folder);
}

const char *file_find_built(struct arena *arena, const char *name)
{
    const char *path = find_shared(arena, arena_print(arena, "build/%s", name), name);
    return file_exists(path) ? path : NULL;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char **file_list_data(struct arena *arena, const char *folder, int *count)
{
    int capacity = 64;
    const char **names = ARENA_NEW(arena, const char *, capacity);
    *count = 0;
    DIR *stream = opendir(find_folder(arena, folder));
    if (!stream) return names;
    for (struct dirent *entry = readdir(stream); entry; entry = readdir(stream)) {
        if (entry->d_name[0] == '.' || !has_suffix(entry->d_name)) continue;
        if (*count == capacity - 1) {
            const char **grown = ARENA_NEW(arena, const char *, 2 * capacity);
            memcpy(grown, names, (size_t)*count * sizeof *names);
            names = grown;
            capacity *= 2;
        }
        char *name = arena_copy(arena, entry->d_name);
        name[strlen(name) - strlen(SUFFIX)] = '\0';
        names[(*count)++] = name;
    }
    closedir(stream);
    // The order of a folder is the file system's; the answer must be the same everywhere.
    qsort(names, (size_t)*count, sizeof *names, compare_names);
    return names;
}

static void fail_unknown(struct arena *arena, const char *folder, const char *name,
                         const char *what, struct err *err)
{
    int count = 0;
    const char **names = file_list_data(arena, folder, &count);
    struct units_guess guess = {.text = name};
    const char *list = "";
    for (int i = 0; i < count; i++) {
        units_guess_offer(&guess, names[i]);
        list = arena_print(arena, "%s%s%s", list, i ? ", " : "", names[i]);
    }
    if (count == 0) {
        err_set(err, ERR_INPUT, "no %s is called \"%s\", and there is no data in %s", what, name,
                find_folder(arena, folder));
    } else if (guess.best) {
        err_set(err, ERR_INPUT, "no %s is called \"%s\", did you mean \"%s\"? There are: %s", what,
                name, guess.best, list);
    } else {
        err_set(err, ERR_INPUT, "no %s is called \"%s\". There are: %s", what, name, list);
    }
}

const char *file_find_data(struct arena *arena, const char *folder, const char *name,
                           const char *what, struct err *err)
{
    if (strchr(name, '/') || has_suffix(name)) return name;
    const char *path = arena_print(arena, "%s/%s%s", find_folder(arena, folder), name, SUFFIX);
    if (file_exists(path)) return path;
    fail_unknown(arena, folder, name, what, err);
    return NULL;
}
