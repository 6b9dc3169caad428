#include "core/file.h"
#include "core/sort.h"
#include "core/units.h"

#include <assert.h>
#include <ctype.h>
#include <dlfcn.h>
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

// The folder that the binary stands in, links on the way resolved; "" where it cannot be told.
static void find_binary(char folder[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash) *slash = '\0';
}

// The folder of the library that this is a part of, links resolved; "" where it is in no library.
static void find_library(char folder[PATH_MAX])
{
    Dl_info own;
    folder[0] = '\0';
    if (!dladdr(SUFFIX, &own) || !own.dli_fname || !realpath(own.dli_fname, folder))
        folder[0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash) *slash = '\0';
}

// The data beside a folder of this name; NULL where there is none.
static const char *beside(struct arena *arena, char *folder, const char *name)
{
    char *slash = strrchr(folder, '/');
    if (!slash || strcmp(slash, name) != 0) return NULL;
    *slash = '\0';
    const char *data = arena_print(arena, "%s/share/meshwright", folder);
    return file_exists(data) ? data : NULL;
}

// Beside PREFIX/bin, or PREFIX/lib of the library in another program, wherever the tree was moved
// to; PREFIX as it was built for where only the binary was.
static const char *find_installed(struct arena *arena)
{
    char folder[PATH_MAX];
    find_binary(folder);
    const char *data = beside(arena, folder, "/bin");
    if (data) return data;
    find_library(folder);
    data = beside(arena, folder, "/lib");
    return data ? data : PREFIX "/share/meshwright";
}

// Where MESHWRIGHT_DATA says, whoever runs it; else in the source tree, the nearest parent of the
// binary that holds a Makefile and the folder or file: it is found from build/ and from
// build/tests/ alike, and never from an installed binary. Else its name where it is `installed`.
static const char *find_shared(struct arena *arena, const char *folder, const char *installed)
{
    const char *said = secure_getenv("MESHWRIGHT_DATA");
    if (said && *said) return arena_print(arena, "%s/%s", said, installed);
    char binary[PATH_MAX];
    find_binary(binary);
    for (char *end = binary + strlen(binary); end; end = strrchr(binary, '/')) {
        *end = '\0';
        const char *candidate = arena_print(arena, "%s/%s", binary, folder);
        if (file_exists(candidate) && file_exists(arena_print(arena, "%s/Makefile", binary))) {
            return candidate;
        }
    }
    return arena_print(arena, "%s/%s", find_installed(arena), installed);
}

static const char *find_folder(struct arena *arena, const char *folder)
{
    return find_shared(arena, folder, folder);
}

const char *file_find_built(struct arena *arena, const char *name)
{
    assert(name && *name);
    const char *path = find_shared(arena, arena_print(arena, "build/%s", name), name);
    return file_exists(path) ? path : NULL;
}

static bool is_data(const char *name)
{
    return name[0] != '.' && has_suffix(name);
}

const char **file_list_data(struct arena *arena, const char *folder, int *count)
{
    assert(folder && count);
    const char **names;
    (void)file_list(arena, find_folder(arena, folder), is_data, &names, count);
    for (int i = 0; i < *count; i++)
        names[i] = arena_print(arena, "%.*s", (int)(strlen(names[i]) - strlen(SUFFIX)), names[i]);
    sort_texts(names, (size_t)*count);  // "a-b.json" stands before "a.json"
    return names;
}

// Letters and digits alone, in small: what is left of "H100 SXM5" and "h100-sxm5-80g" alike.
static char *letters_of(struct arena *arena, const char *text)
{
    char *letters = arena_copy(arena, text), *end = letters;
    for (; *text; text++) {
        if (isalnum((unsigned char)*text)) *end++ = (char)tolower((unsigned char)*text);
    }
    *end = '\0';
    return letters;
}

// The names that hold what was written, or else, word by word, most of it: "h100" and "NVIDIA H100"
// are three devices. Those that hold most, joined; NULL where none holds anything.
static const char *names_like(struct arena *arena, const char *name, const char *const *names,
                              int count)
{
    enum { LIKE_MOST = 6 };
    const char *text = "", *last = NULL;
    int best = 0, like_count = 0;
    for (int i = 0; i < count; i++) {
        char *letters = letters_of(arena, names[i]), *copy = arena_copy(arena, name);
        char *place = NULL;
        const char *whole = letters_of(arena, name);
        int score = strlen(whole) > 1 && strstr(letters, whole) ? INT_MAX : 0;
        for (char *word = strtok_r(copy, " -_", &place); word && score < INT_MAX;
             word = strtok_r(NULL, " -_", &place)) {
            const char *part = letters_of(arena, word);
            if (strlen(part) > 2 && strstr(letters, part)) score += (int)strlen(part);
        }
        if (score == 0 || score < best) continue;
        if (score > best) text = "", like_count = 0, last = NULL;
        best = score;
        if (like_count++ >= LIKE_MOST) continue;
        if (last) text = arena_print(arena, "%s%s\"%s\"", text, *text ? ", " : "", last);
        last = names[i];
    }
    return last ? arena_print(arena, "%s%s\"%s\"", text, *text ? " or " : "", last) : NULL;
}

// So many names are read at a glance; of more, their command shows what each is.
enum { LISTED_MOST = 40 };

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
        return;
    }
    const char *like = guess.best ? arena_print(arena, "\"%s\"", guess.best)
                                  : names_like(arena, name, names, count);
    const char *all = count > LISTED_MOST
                          ? arena_print(arena, "`meshwright %ss` lists all %d", what, count)
                          : arena_print(arena, "There are: %s", list);
    if (like) {
        err_set(err, ERR_INPUT, "no %s is called \"%s\", did you mean %s? %s", what, name, like,
                all);
    } else {
        err_set(err, ERR_INPUT, "no %s is called \"%s\". %s", what, name, all);
    }
}

const char *file_find_data(struct arena *arena, const char *folder, const char *name,
                           const char *what, struct err *err)
{
    assert(folder && name && what);
    if (strchr(name, '/') || has_suffix(name)) return name;
    const char *path = arena_print(arena, "%s/%s%s", find_folder(arena, folder), name, SUFFIX);
    if (file_exists(path)) return path;
    fail_unknown(arena, folder, name, what, err);
    return NULL;
}
