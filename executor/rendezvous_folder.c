#include "executor/rendezvous_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool name_path(char path[PATH_MAX], const char *folder, const char *name)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return length > 0 && length < PATH_MAX;
}

static bool write_all(int file, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t written = write(file, (const char *)data + done, bytes - done);
        if (written < 0 && errno != EINTR) return false;
        if (written > 0) done += (size_t)written;
    }
    // Before it gets its name: a rename may reach other hosts earlier than the bytes do.
    return fsync(file) == 0;
}

// A file that nobody looks for yet. Hosts may have processes of one number.
static bool write_unnamed(char path[PATH_MAX], const char *folder, const char *name,
                          const void *data, size_t bytes, struct err *err)
{
    char host[64] = "", draft[NAME_MAX];
    gethostname(host, sizeof host - 1);
    snprintf(draft, sizeof draft, ".%.120s.%s.%d", name, host, (int)getpid());
    if (!name_path(path, folder, draft))
        return err_set(err, ERR_SYSTEM, "%.200s: the path is too long", folder);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool is_well = file >= 0 && write_all(file, data, bytes);
    int reason = errno;
    if (file >= 0 && close(file) != 0 && is_well) {
        is_well = false;
        reason = errno;
    }
    if (is_well) return true;
    if (file >= 0) unlink(path);
    return err_set(err, ERR_SYSTEM, "cannot write in %.300s: %s", folder, strerror(reason));
}

bool folder_put(const char *folder, const char *name, const void *data, size_t bytes,
                struct err *err)
{
    char draft[PATH_MAX], path[PATH_MAX];
    if (!write_unnamed(draft, folder, name, data, bytes, err)) return false;
    if (name_path(path, folder, name) && rename(draft, path) == 0) return true;
    int reason = errno;
    unlink(draft);
    return err_set(err, ERR_SYSTEM, "cannot write in %.300s: %s", folder, strerror(reason));
}

bool folder_put_first(const char *folder, const char *name, const void *data, size_t bytes,
                      struct err *err)
{
    char draft[PATH_MAX], path[PATH_MAX];
    if (!write_unnamed(draft, folder, name, data, bytes, err)) return false;
    bool is_well = name_path(path, folder, name) && (link(draft, path) == 0 || errno == EEXIST);
    int reason = errno;
    unlink(draft);
    if (is_well) return true;
    return err_set(err, ERR_SYSTEM, "cannot write in %.300s: %s", folder, strerror(reason));
}

// NFS remembers for half a minute that there was no file; opening its folder asks the server.
static int open_again(const char *folder, const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 || errno != ENOENT) return file;
    DIR *opened = opendir(folder);
    if (!opened) return -1;
    closedir(opened);
    return open(path, O_RDONLY | O_CLOEXEC);
}

bool folder_get(const char *folder, const char *name, void *data, size_t room, size_t *bytes)
{
    char path[PATH_MAX], more;
    int file = name_path(path, folder, name) ? open_again(folder, path) : -1;
    if (file < 0) return false;
    ssize_t got = 1;
    for (*bytes = 0; got > 0 && *bytes < room;) {
        got = read(file, (char *)data + *bytes, room - *bytes);
        if (got > 0) *bytes += (size_t)got;
    }
    bool is_whole = got == 0 || (got > 0 && read(file, &more, 1) == 0);
    close(file);
    return is_whole;
}

void folder_remove(const char *folder, const char *name)
{
    char path[PATH_MAX];
    if (name_path(path, folder, name)) unlink(path);
}

void folder_remove_all(const char *folder)
{
    DIR *opened = opendir(folder);
    for (struct dirent *entry; opened && (entry = readdir(opened));)
        folder_remove(folder, entry->d_name);  // "." and ".." are no files
    if (opened) closedir(opened);
    rmdir(folder);
}
