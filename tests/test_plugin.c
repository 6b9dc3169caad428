#include "executor/communicator_plugin.h"
#include "executor/plugin.h"
#include "tests/test.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

// Both plug-ins are mapped here at once, and both export the one name on purpose.
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_odr_violation=0";
}

// Plug-ins of transports beside a program of another version: what they export is as large as
// theirs was, so nothing of it may be called.

// The plug-in is mapped once, so that what is written here is what the program finds.
static bool set_version(const char *file, int version, int *before)
{
    bool is_there;
    void *library = plugin_open(file, RTLD_NOW | RTLD_GLOBAL, &is_there);
    if (!library) return false;
    struct communicator_plugin *plugin = dlsym(library, COMMUNICATOR_PLUGIN_SYMBOL);
    assert_non_null(plugin);
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t page = (uintptr_t)plugin / page_bytes * page_bytes;
    size_t bytes = (uintptr_t)plugin + sizeof *plugin - page;
    void *start = (char *)plugin - ((uintptr_t)plugin - page);
    assert_int_equal(mprotect(start, bytes, PROT_READ | PROT_WRITE), 0);
    *before = plugin->version;
    plugin->version = version;
    return true;
}

static void a_plug_in_of_another_version_is_not_called(void **state)
{
    (void)state;
    static const char *const FILES[] = {"exec_nccl_emulated.so", "exec_mpi.so"};
    static const int OTHERS[] = {COMMUNICATOR_VERSION - 1, COMMUNICATOR_VERSION + 1, 0};
    for (size_t i = 0; i < 2 * sizeof OTHERS / sizeof *OTHERS; i++) {
        const char *file = FILES[i % 2];
        struct communicator *communicator = NULL;
        const struct communicator_request request = {.rank_count = 2};
        struct err err = {0};
        char wanted[200];
        int own = 0, ignored;
        // No MPI here: that plug-in was not built.
        if (!set_version(file, OTHERS[i / 2], &own)) continue;
        assert_int_equal(own, COMMUNICATOR_VERSION);
        assert_null(communicator_plugin_open(file, "", "make", &request, &communicator, &err));
        snprintf(wanted, sizeof wanted,
                 "%s does not open: it is of another version of this program (make)", file);
        assert_string_equal(err.text, wanted);
        assert_int_equal(err.kind, ERR_SYSTEM);
        assert_true(set_version(file, own, &ignored));
    }
}

static void a_file_that_is_no_plug_in_of_ours_is_not_called(void **state)
{
    (void)state;
    struct communicator *communicator = NULL;
    const struct communicator_request request = {.rank_count = 2};
    struct err err = {0};
    assert_null(communicator_plugin_open("exec_cuda_emulated.so", "", "make", &request,
                                         &communicator, &err));
    assert_string_equal(err.text, "exec_cuda_emulated.so does not open: it is of another version "
                                  "of this program (make)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plug_in_of_another_version_is_not_called),
        cmocka_unit_test(a_file_that_is_no_plug_in_of_ours_is_not_called),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
