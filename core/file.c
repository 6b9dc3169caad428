#include "core/file.h"
#include "core/sort.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

int file_list(struct arena *arena, const char *folder, bool (*is_wanted)(const char *name),
              const char ***names, int *count)
{
    int capacity = 0;
    *names = NULL;
    *count = 0;
    DIR *stream = opendir(folder);
    if (!stream) return errno;
    for (const struct dirent *entry; (entry = readdir(stream)) != NULL;) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        if (is_wanted && !is_wanted(name)) continue;
        ARENA_GROW(arena, *names, *count, capacity);
        (*names)[(*count)++] = arena_copy(arena, name);
    }
    closedir(stream);
    // The order of a folder is the file system's; the answer must be the same everywhere.
    sort_texts(*names, (size_t)*count);
    return 0;
}

// The size is only a hint: /proc and pipes have none, and a file may grow while it is read.
static char *read_all(struct arena *arena, FILE *stream, size_t limit_bytes, size_t *bytes)
{
    struct stat status;
    size_t capacity = 1 << 16;
    if (fstat(fileno(stream), &status) == 0 && status.st_size > 0) {
        capacity = (size_t)status.st_size + 2;
    }
    if (capacity > limit_bytes + 2) capacity = limit_bytes + 2;
    char *text = ARENA_NEW(arena, char, capacity);
    size_t length = 0;
    while (length <= limit_bytes) {
        size_t count = fread(text + length, 1, capacity - 1 - length, stream);
        length += count;
        if (count == 0) break;
        if (length < capacity - 1) continue;
        char *grown = ARENA_NEW(arena, char, 2 * capacity);
        memcpy(grown, text, length);
        text = grown;
        capacity *= 2;
    }
    text[length] = '\0';
    *bytes = length;
    return text;
}

bool file_fail_read(const char *path, int error, struct err *err)
{
    assert(error != 0 && "an errno says what failed");
    bool is_path_wrong = error == ENOENT || error == ENOTDIR || error == EISDIR ||
                         error == EACCES || error == EPERM || error == ENAMETOOLONG ||
                         error == ELOOP;
    enum err_kind kind = is_path_wrong ? ERR_INPUT : ERR_SYSTEM;
    return err_set(err, kind, "cannot read %s: %s", path, strerror(error));
}

char *file_read(struct arena *arena, const char *path, size_t limit_bytes, size_t *bytes,
                struct err *err)
{
    assert(path);
    FILE *stream = fopen(path, "rb");
    if (!stream) {
        file_fail_read(path, errno, err);
        return NULL;
    }
    errno = 0;
    char *text = read_all(arena, stream, limit_bytes, bytes);
    if (ferror(stream)) {
        file_fail_read(path, errno, err);
        text = NULL;
    } else if (*bytes > limit_bytes) {
        err_set(err, ERR_INPUT, "cannot read %s: it is larger than %zu bytes", path, limit_bytes);
        text = NULL;
    }
    fclose(stream);
    return text;
}

static char *copy_path(const char *path, const char *tail)
{
    size_t path_bytes = strlen(path), tail_bytes = strlen(tail) + 1;
    char *copy = memory_get(path_bytes + tail_bytes);
    memcpy(copy, path, path_bytes);
    memcpy(copy + path_bytes, tail, tail_bytes);
    return copy;
}

// The folder of the target, as a path that can be opened.
static char *folder_of(const char *target)
{
    char *folder = copy_path(target, "");
    char *slash = strrchr(folder, '/');
    if (!slash) {
        free(folder);
        return copy_path(".", "");
    }
    slash[slash == folder] = '\0';
    return folder;
}

// O_TMPFILE makes a file without a name; where the file system has none, a named one is made.
static int open_temporary(struct file_writer *writer)
{
    int fd = open(writer->folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (fd >= 0) return fd;
    fd = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    writer->has_name = fd >= 0;
    return fd;
}

static int open_target(struct file_writer *writer)
{
    struct stat status;
    bool exists = stat(writer->target, &status) == 0;
    if (exists && !S_ISREG(status.st_mode)) {
        writer->in_place = true;
        return open(writer->target, O_WRONLY | O_CLOEXEC);
    }
    int fd = open_temporary(writer);
    if (fd >= 0 && exists && fchmod(fd, status.st_mode & 07777) != 0) writer->error = errno;
    return fd;
}

static void close_writer(struct file_writer *writer)
{
    if (writer->stream) fclose(writer->stream);
    if (writer->has_name) unlink(writer->temporary);
    free(writer->target);
    free(writer->folder);
    free(writer->temporary);
    *writer = (struct file_writer){0};
}

// What "-", standard output, and "/dev/fd/N" name: open already, and written where it stands.
static int descriptor_of(const char *path)
{
    static const char FOLDER[] = "/dev/fd/";
    if (strcmp(path, "-") == 0) return STDOUT_FILENO;
    if (strncmp(path, FOLDER, strlen(FOLDER)) != 0) return -1;
    char *end;
    long fd = strtol(path + strlen(FOLDER), &end, 10);
    return *end || end == path + strlen(FOLDER) || fd < 0 || fd > INT_MAX ? -1 : (int)fd;
}

bool file_open(struct file_writer *writer, const char *path, struct err *err)
{
    assert(path && writer);
    char resolved[PATH_MAX], tail[32];
    *writer = (struct file_writer){.path = path};
    int open_fd = descriptor_of(path);
    writer->target = copy_path(realpath(path, resolved) ? resolved : path, "");
    writer->folder = folder_of(writer->target);
    snprintf(tail, sizeof tail, ".%ld.tmp", (long)getpid());
    writer->temporary = copy_path(writer->target, tail);

    int fd = open_fd >= 0 ? dup(open_fd) : open_target(writer);
    if (open_fd >= 0) writer->in_place = true;
    if (fd >= 0) writer->stream = fdopen(fd, "wb");
    if (writer->stream) return true;
    err_set(err, ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    close_writer(writer);
    return false;
}

void file_put(struct file_writer *writer, const char *text, size_t bytes)
{
    assert(text || bytes == 0);
    if (writer->error) return;
    errno = 0;
    if (fwrite(text, 1, bytes, writer->stream) != bytes) writer->error = errno ? errno : EIO;
}

// A file without a name gets the temporary one, because only a rename can replace a file.
static bool give_name(struct file_writer *writer)
{
    if (writer->has_name) return true;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fileno(writer->stream));
    unlink(writer->temporary);
    writer->has_name = linkat(AT_FDCWD, link, AT_FDCWD, writer->temporary, AT_SYMLINK_FOLLOW) == 0;
    return writer->has_name;
}

// The rename itself is on disk only once its folder is.
static bool sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return true;  // a folder that cannot be read was still written to
    bool ok = fsync(fd) == 0 || errno == EINVAL;
    close(fd);
    return ok;
}

static bool flush(struct file_writer *writer)
{
    if (fflush(writer->stream) != 0) return false;
    return writer->in_place || fsync(fileno(writer->stream)) == 0;
}

static bool finish(struct file_writer *writer)
{
    if (!flush(writer)) return false;
    if (writer->in_place) return true;
    if (!give_name(writer)) return false;
    if (rename(writer->temporary, writer->target) != 0) return false;
    writer->has_name = false;
    return sync_folder(writer->folder);
}

bool file_commit(struct file_writer *writer, struct err *err)
{
    assert(writer->path && "a writer is committed once");
    assert(writer->stream);
    if (!writer->error && !finish(writer)) writer->error = errno;
    if (writer->error) {
        err_set(err, ERR_SYSTEM, "cannot write %s: %s", writer->path, strerror(writer->error));
    }
    bool ok = !writer->error;
    close_writer(writer);
    return ok;
}

void file_abort(struct file_writer *writer)
{
    close_writer(writer);
}

bool file_write(const char *path, const char *text, size_t bytes, struct err *err)
{
    struct file_writer writer;
    if (!file_open(&writer, path, err)) return false;
    file_put(&writer, text, bytes);
    return file_commit(&writer, err);
}

// Makes the folder that `path` stands in, and those above it, where they are missing.
static bool make_folders(const char *path, struct err *err)
{
    struct arena arena = {0};
    char *folder = arena_copy(&arena, path);
    bool made = true;
    for (char *end = folder + 1; made && (end = strchr(end, '/')); end++) {
        *end = '\0';
        if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
            made = err_set(err, ERR_SYSTEM, "cannot make folder %s: %s", folder, strerror(errno));
        }
        *end = '/';
    }
    arena_free(&arena);
    return made;
}

static bool prepare(struct file_writer *writer, const struct file_text *file, struct err *err)
{
    if (!make_folders(file->path, err) || !file_open(writer, file->path, err)) return false;
    file_put(writer, file->text, strlen(file->text));
    if (!writer->error && !flush(writer)) writer->error = errno;
    if (!writer->error) return true;
    return file_commit(writer, err);  // says what failed, and closes
}

bool file_write_all(const struct file_text *files, int count, struct err *err)
{
    struct arena arena = {0};
    struct file_writer *writers = ARENA_NEW(&arena, struct file_writer, count);
    int ready = 0;
    while (ready < count && prepare(&writers[ready], &files[ready], err))
        ready++;
    bool done = ready == count;
    for (int i = 0; i < ready; i++) {
        if (done) {
            done = file_commit(&writers[i], err);
        } else {
            file_abort(&writers[i]);
        }
    }
    arena_free(&arena);
    return done;
}
