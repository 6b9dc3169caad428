#include "executor/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef PREFIX
#define PREFIX "/usr/local"
#endif

static bool is_same_folder(const char *a, const char *b)
{
    char left[PATH_MAX], right[PATH_MAX];
    return realpath(a, left) && realpath(b, right) && strcmp(left, right) == 0;
}

bool plugin_folder(char folder[PLUGIN_FOLDER_BYTES])
{
    // The kernel has resolved all links on the way to the binary.
    ssize_t length = readlink("/proc/self/exe", folder, PLUGIN_FOLDER_BYTES - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (folder[0] != '/' || !slash) return false;
    slash[slash == folder] = '\0';
    if (is_same_folder(folder, PREFIX "/bin"))
        snprintf(folder, PLUGIN_FOLDER_BYTES, "%s", PREFIX "/lib/meshwright");
    return true;
}

void *plugin_open(const char *file, int flags, bool *is_there)
{
    char folder[PLUGIN_FOLDER_BYTES], path[PLUGIN_FOLDER_BYTES + 128];
    *is_there = false;
    if (!plugin_folder(folder)) return NULL;
    int length = snprintf(path, sizeof path, "%s/%s", folder, file);
    if (length < 0 || (size_t)length >= sizeof path || access(path, R_OK) != 0) return NULL;
    *is_there = true;
    return dlopen(path, flags);
}
