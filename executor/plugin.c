#include "executor/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

// Of BASE/bin/meshwright the folder BASE/lib/meshwright, wherever the tree was moved to.
static void take_installed(char folder[PLUGIN_FOLDER_BYTES])
{
    static const char BIN[] = "/bin", LIBRARY[] = "/lib/meshwright";
    size_t length = strlen(folder);
    if (length < strlen(BIN) || strcmp(folder + length - strlen(BIN), BIN) != 0) return;
    char library[PLUGIN_FOLDER_BYTES];
    int bytes =
        snprintf(library, sizeof library, "%.*s%s", (int)(length - strlen(BIN)), folder, LIBRARY);
    if (bytes < 0 || (size_t)bytes >= sizeof library || !is_folder(library)) return;
    memcpy(folder, library, (size_t)bytes + 1);
}

bool plugin_folder(char folder[PLUGIN_FOLDER_BYTES])
{
    // Not where the binary runs with rights that who runs it has not.
    const char *said = secure_getenv("MESHWRIGHT_PLUGINS");
    if (said && *said) {
        int bytes = snprintf(folder, PLUGIN_FOLDER_BYTES, "%s", said);
        return said[0] == '/' && bytes > 0 && bytes < PLUGIN_FOLDER_BYTES;
    }
    // The kernel has resolved all links on the way to the binary.
    ssize_t length = readlink("/proc/self/exe", folder, PLUGIN_FOLDER_BYTES - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (folder[0] != '/' || !slash) return false;
    slash[slash == folder] = '\0';
    take_installed(folder);
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
