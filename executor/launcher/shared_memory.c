#include "executor/launcher/shared_memory.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool shared_memory_create(struct shared_memory *memory, struct err *err)
{
    memory->file = memfd_create("meshwright", MFD_CLOEXEC);
    if (memory->file < 0)
        return err_set(err, ERR_SYSTEM, "no shared memory for the ranks: %s", strerror(errno));
    snprintf(memory->name, sizeof memory->name, "/proc/%d/fd/%d", (int)getpid(), memory->file);
    return true;
}

void shared_memory_close(struct shared_memory *memory)
{
    if (memory->file >= 0) close(memory->file);
    memory->file = -1;
}

void *shared_memory_map(const char *name, int64_t first_byte, int64_t bytes, struct err *err)
{
    void *mapped = MAP_FAILED;
    assert(bytes > 0 && first_byte >= 0 && first_byte % sysconf(_SC_PAGESIZE) == 0);
    int file = open(name, O_RDWR | O_CLOEXEC);
    struct stat now;
    if (file >= 0 && fstat(file, &now) == 0) {
        // Several may grow the file at once: all to where the last region ends, never back.
        errno = now.st_size >= first_byte + bytes
                    ? 0
                    : posix_fallocate(file, first_byte + bytes - 1, 1);
        if (errno == 0)
            mapped = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                          (off_t)first_byte);
    }
    int reason = errno;
    if (file >= 0) close(file);
    if (mapped != MAP_FAILED) return mapped;
    err_set(err, ERR_SYSTEM, "shared memory of the ranks (%s): %s", name, strerror(reason));
    return NULL;
}

void shared_memory_unmap(void *memory, int64_t bytes)
{
    if (memory) munmap(memory, (size_t)bytes);
}
