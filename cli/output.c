#include "cli/output.h"
#include "core/file.h"
#include "core/plain.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// What each kind of file begins with. A file of these words was written by us, or can be told from
// ours by nobody; the user's own cluster files and configs begin otherwise.
static const char *const BEGINNINGS[] = {
    "{\"step\": ",         // metrics of a training
    "MWTOKENS",            // tokens
    "{\n  \"version\": ",  // plan, run, what-if, bands, schedule
    "{\n  \"bands\": [",
    "{\n  \"dense_mape\": ",
    "{\n  \"capacity\": ",  // memory of a graph
    "{\n  \"traceEvents\": [",
    "{\"traceEvents\":[",  // timelines
    "{\"displayTimeUnit\":",
    "[\n{\"name\":\"process_name\"",
    "\x1f\x8b",  // and packed ones
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n<meta name=\"viewport\"",
    "cluster,nodes,gpus,seq_len,global_batch,precision,",                   // what-if
    "<?xml version=\"1.0\" encoding=\"utf-8\"  standalone=\"no\"?>\n<svg",  // gnuplot's pictures
};
enum { BEGINNING_BYTES = 256, MARKED_BYTES_MAX = 16 << 20 };
static const char STDOUT_FOLDER[] = "/dev/fd/";

static bool is_ours(const char *path)
{
    char text[BEGINNING_BYTES + 1] = {0};
    FILE *stream = fopen(path, "rb");
    if (!stream) return errno == ENOENT;
    size_t bytes = fread(text, 1, BEGINNING_BYTES, stream);
    bool failed = ferror(stream) != 0;
    fclose(stream);
    if (bytes == 0) return !failed;
    for (size_t i = 0; i < sizeof BEGINNINGS / sizeof *BEGINNINGS; i++) {
        if (strncmp(text, BEGINNINGS[i], strlen(BEGINNINGS[i])) == 0) return true;
    }
    static const char SCORES[] = "{\"__metadata__\":{\"step\":\"";  // behind a length
    if (strncmp(text + sizeof(uint64_t), SCORES, sizeof SCORES - 1) == 0) return true;
    // Schedules as CSV have a column that no input needs.
    const char *offset = strstr(text, "offset");
    return offset && offset < text + strcspn(text, "\n");
}

// What the files of `fit` and `calibrate` hold of where their numbers come from.
static bool names_us(const char *path)
{
    static const char *const MARKS[] = {"\"source\": \"fit of ", ", meshwright "};
    struct arena arena = {0};
    struct err err = {0};
    size_t bytes = 0;
    const char *text = file_read(&arena, path, MARKED_BYTES_MAX, &bytes, &err);
    bool is_there = text && (strstr(text, MARKS[0]) || strstr(text, MARKS[1]));
    arena_free(&arena);
    return is_there;
}

static bool is_empty(const char *folder)
{
    DIR *stream = opendir(folder);
    if (!stream) return true;  // who writes into it says why it cannot
    bool empty = true;
    for (struct dirent *entry = readdir(stream); entry; entry = readdir(stream))
        empty = empty && entry->d_name[0] == '.';
    closedir(stream);
    return empty;
}

bool output_check(const char *path, struct err *err)
{
    struct arena arena = {0};
    struct stat status;
    const char *shown = plain_copy(&arena, path);
    bool is_there = strcmp(path, "-") != 0 && stat(path, &status) == 0;
    if (is_there && S_ISDIR(status.st_mode)) {
        const char *page = arena_print(&arena, "%s/index.html", path);
        // An export has its plan beside it.
        if (!file_exists(page)) page = arena_print(&arena, "%s/plan.json", path);
        bool is_free = file_exists(page) ? is_ours(page) : is_empty(path);
        if (!is_free) {
            err_set(err, ERR_USAGE,
                    "%s holds files and no page of meshwright: --force writes among them", shown);
        }
    } else if (is_there && S_ISREG(status.st_mode) && !is_ours(path)) {
        err_set(err, ERR_USAGE,
                "%s is there and is not what a run of meshwright leaves: --force replaces it",
                shown);
    }
    arena_free(&arena);
    return !err->kind;
}

bool output_check_files(const char *const *paths, int count, struct err *err)
{
    struct arena arena = {0};
    for (int i = 0; i < count && !err->kind; i++) {
        if (file_exists(paths[i]) && !is_ours(paths[i]) && !names_us(paths[i])) {
            err_set(err, ERR_USAGE,
                    "%s is there and is not what a run of meshwright leaves: --force replaces it",
                    plain_copy(&arena, paths[i]));
        }
    }
    arena_free(&arena);
    return !err->kind;
}

bool output_check_folder(const char *folder, struct err *err)
{
    return !folder || strcmp(folder, "-") != 0 ||
           err_set(err, ERR_USAGE, "-o: several files are written, - is one: name a folder");
}

bool output_take_stdout(const char **path, struct err *err)
{
    static const char *const PATHS[] = {"/dev/fd/3", "/dev/fd/4", "/dev/fd/5", "/dev/fd/6",
                                        "/dev/fd/7", "/dev/fd/8", "/dev/fd/9"};
    enum { FIRST = 3, COUNT = sizeof PATHS / sizeof *PATHS };
    if (!*path || strcmp(*path, "-") != 0) return true;
    int answer = dup(STDOUT_FILENO);
    if (answer < FIRST || answer >= FIRST + COUNT ||
        dup2(STDERR_FILENO, STDOUT_FILENO) != STDOUT_FILENO) {
        return err_set(err, ERR_SYSTEM, "cannot use standard output: %s", strerror(errno));
    }
    *path = PATHS[answer - FIRST];
    return true;
}

static bool is_stdout(const char *path)
{
    return strcmp(path, "-") == 0 || strncmp(path, STDOUT_FOLDER, strlen(STDOUT_FOLDER)) == 0;
}

static bool replaces(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
}

const char *output_said(struct arena *arena, const char *path)
{
    if (is_stdout(path)) return "";
    return arena_print(arena, "%s %s", replaces(path) ? "Replaced" : "Wrote",
                       plain_copy(arena, path));
}

// "a.json, b.json and c.json": those of the paths that are there, or are not.
static const char *list_of(struct arena *arena, const char *const *paths, int count, bool is_there)
{
    const char *text = "", *last = NULL;
    for (int i = 0; i < count; i++) {
        if (replaces(paths[i]) != is_there) continue;
        if (last) text = arena_print(arena, "%s%s%s", text, *text ? ", " : "", last);
        last = plain_copy(arena, paths[i]);
    }
    if (!last) return "";
    return *text ? arena_print(arena, "%s and %s", text, last) : last;
}

const char *output_said_files(struct arena *arena, const char *const *paths, int count)
{
    const char *new = list_of(arena, paths, count, false);
    const char *old = list_of(arena, paths, count, true);
    if (!*old) return arena_print(arena, "Wrote %s", new);
    if (!*new) return arena_print(arena, "Replaced %s", old);
    return arena_print(arena, "Wrote %s; replaced %s", new, old);
}

const char *output_noted(struct arena *arena, const char *path)
{
    if (is_stdout(path) || !replaces(path)) return "";
    return arena_print(arena, "note: replaced %s\n", plain_copy(arena, path));
}
