#pragma once
#include "core/err.h"

#include <stddef.h>
#include <stdint.h>

// Small files by which processes of several hosts tell each other something, in a folder of a file
// system that all of them have. A file is written under another name, flushed and renamed: who
// reads it reads all of it or nothing. What is to be told fresh needs a folder or a name of its
// own: nothing here says how old a file is.

// Takes the place of one of that name. ERR_SYSTEM.
MUST_CHECK bool folder_put(const char *folder, const char *name, const void *data, size_t bytes,
                           struct err *err);
// The same where there is none yet, of all hosts one alone; a later one changes nothing.
MUST_CHECK bool folder_put_first(const char *folder, const char *name, const void *data,
                                 size_t bytes, struct err *err);
// False where there is no such file, or one of more than `room` bytes.
bool folder_get(const char *folder, const char *name, void *data, size_t room, size_t *bytes);
void folder_remove(const char *folder, const char *name);
// With all that is in it.
void folder_remove_all(const char *folder);
