#include "executor/communicators/plugin.h"
#include "executor/plugin.h"
#include "tests/support/test.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

// Where a plug-in of another name was planted, `file` under `folder`. What it is does not matter:
// it must not be looked at.
static void check_planted(const char *folder, const char *file)
{
    char path[PLUGIN_FOLDER_BYTES + 64];
    bool is_there = true;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *planted = fopen(path, "w");
    assert_non_null(planted);
    fclose(planted);
    assert_null(plugin_open(file, RTLD_NOW | RTLD_LOCAL, &is_there));
    unlink(path);
    assert_false(is_there);
}

static void a_plug_in_of_another_folder_is_not_looked_at(void **state)
{
    (void)state;
    static const char FILE_NAME[] = "exec_planted_by_test_plugin.so";
    char folder[PLUGIN_FOLDER_BYTES], name[PLUGIN_FOLDER_BYTES];
    assert_true(plugin_folder(folder));
    assert_int_equal(folder[0], '/');
    // The parent of the binary's folder, the working directory, and one that the loader is told of.
    snprintf(name, sizeof name, "%.4000s/..", folder);
    check_planted(name, FILE_NAME);
    check_planted(".", FILE_NAME);
    setenv("LD_LIBRARY_PATH", "/tmp", 1);
    check_planted("/tmp", FILE_NAME);
    unsetenv("LD_LIBRARY_PATH");
    // In the binary's own folder it is seen, though nothing that could be opened.
    bool is_there = false;
    snprintf(name, sizeof name, "%.3000s/%s", folder, FILE_NAME);
    FILE *own = fopen(name, "w");
    assert_non_null(own);
    fclose(own);
    assert_null(plugin_open(FILE_NAME, RTLD_NOW | RTLD_LOCAL, &is_there));
    unlink(name);
    assert_true(is_there);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plug_in_of_another_version_is_not_called),
        cmocka_unit_test(a_file_that_is_no_plug_in_of_ours_is_not_called),
        cmocka_unit_test(a_plug_in_of_another_folder_is_not_looked_at),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
