#pragma once
#include "core/err.h"

#include <stdio.h>

// Whole-file reading and atomic writing: the text goes to a temporary file in the same folder, is
// flushed to disk and renamed over `path`; on failure `path` is as it was and no temporary file
// stays. The modes of an existing file are kept, a link is followed, and what is no regular file
// (/dev/stdout, a pipe) is written in place; "-" is standard output.
MUST_CHECK bool file_write(const char *path, const char *text, size_t bytes, struct err *err);
MUST_CHECK char *file_read(struct arena *arena, const char *path, size_t limit_bytes, size_t *bytes,
                           struct err *err);
bool file_exists(const char *path);
// The sorted names of what a folder holds, in the arena, of those that are wanted; NULL: of all.
// Returns 0 or an errno.
int file_list(struct arena *arena, const char *folder, bool (*is_wanted)(const char *name),
              const char ***names, int *count);
// Says that `path` cannot be read, of an errno: a path that is wrong is the user's (ERR_INPUT);
// anything else (no memory, a broken disk) the machine's. Always false.
bool file_fail_read(const char *path, int error, struct err *err);

// Files that belong together: folders are made, and none takes its place before all are on disk, so
// that a full disk or a folder that cannot be written leaves every one as it was.
struct file_text {
    const char *path, *text;
};
MUST_CHECK bool file_write_all(const struct file_text *files, int count, struct err *err);

// As file_write, for texts that are too long for memory: open, put any number of times, then
// commit. Failures stick and are reported by the commit; after a failed open or commit nothing is
// left to clean up. `file_abort` gives up an open writer. Where the file system can, the temporary
// file has no name until the commit, so that a killed process leaves nothing behind.
struct file_writer {
    const char *path;  // as given; must outlive the writer
    char *target;      // what the rename replaces
    char *folder;      // that it stands in
    char *temporary;   // the temporary file's name; has_name says whether it exists yet
    bool has_name;
    bool in_place;
    int error;  // errno of the first failure
    FILE *stream;
};
MUST_CHECK bool file_open(struct file_writer *writer, const char *path, struct err *err);
void file_put(struct file_writer *writer, const char *text, size_t bytes);
MUST_CHECK bool file_commit(struct file_writer *writer, struct err *err);
void file_abort(struct file_writer *writer);

// Finds a shipped data file `folder/name.json` ("topologies", "models/zoo", ...): in the folder
// that MESHWRIGHT_DATA names, else in the source tree when the binary runs from it, else in
// share/meshwright beside the binary's folder or in PREFIX. A `name` that holds a '/'
// or ends in ".json" is a path and is returned as it is. `what` ("cluster") is for the error:
// ERR_INPUT names the nearest shipped name and lists them all when there is none.
MUST_CHECK const char *file_find_data(struct arena *arena, const char *folder, const char *name,
                                      const char *what, struct err *err);
// What `make` builds as data: build/NAME in the source tree, else PREFIX/share/meshwright/NAME.
// NULL where there is none.
const char *file_find_built(struct arena *arena, const char *name);
// The sorted names (without ".json") in a data folder, in the arena.
const char **file_list_data(struct arena *arena, const char *folder, int *count);
