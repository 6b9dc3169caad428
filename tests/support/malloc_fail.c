// A library to preload: the MALLOC_FAIL-th allocation of the process, counted from 1, and every
// later one fails. Only the process itself is hit, not what it starts. A line to stderr takes 2 ms,
// so that another thread that lacks memory too has the time to write one of its own.
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t bytes);

static long left = -1;  // -1: the environment was not asked yet, 0: none left

static bool fails(void)
{
    if (left < 0) {
        const char *text = getenv("MALLOC_FAIL");
        left = text ? strtol(text, NULL, 10) : 1L << 60;
    }
    if (left > 0) left--;
    if (left > 0) return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes)
{
    return fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t bytes)
{
    return fails() ? NULL : __libc_realloc(memory, bytes);
}

ssize_t write(int file, const void *bytes, size_t count)
{
    if (file == STDERR_FILENO) usleep(2000);
    return syscall(SYS_write, file, bytes, count);
}
