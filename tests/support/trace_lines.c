// What a library compiled with -fsanitize-coverage=trace-pc calls at the start of every basic
// block: marks the block's place in the library, one byte each, in the file that TRACE_LINES names.
// It is mapped and shared, so that processes that fork, or die, leave their marks as well. To
// preload, also without such a library: of a program of tests only the function TEST_FUNCTION runs.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LIBRARY_BYTES = 1 << 25 };

void __sanitizer_cov_trace_pc(void);
void cmocka_set_test_filter(const char *pattern) __attribute__((weak));

__attribute__((constructor)) static void pick_function(void)
{
    const char *name = getenv("TEST_FUNCTION");
    if (name && cmocka_set_test_filter) cmocka_set_test_filter(name);
}

static uint8_t *map_marks(void)
{
    static uint8_t unread[LIBRARY_BYTES];
    const char *path = getenv("TRACE_LINES");
    int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (file < 0 || ftruncate(file, LIBRARY_BYTES) != 0) return unread;
    void *marks = mmap(NULL, LIBRARY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return marks == MAP_FAILED ? unread : marks;
}

void __sanitizer_cov_trace_pc(void)
{
    static uint8_t *marks;
    static const char *begin;
    const char *here = __builtin_return_address(0);
    uint8_t *known = __atomic_load_n(&marks, __ATOMIC_ACQUIRE);
    if (!known) {
        Dl_info library;
        if (dladdr(here, &library)) begin = library.dli_fbase;
        __atomic_store_n(&marks, known = map_marks(), __ATOMIC_RELEASE);
    }
    intptr_t place = here - begin;
    if (place >= 0 && place < LIBRARY_BYTES) known[place] = 1;
}
