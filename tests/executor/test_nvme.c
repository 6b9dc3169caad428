#include "executor/nvme.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <stdlib.h>

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

// The file beside the work: what is read is what was written, in the order of the requests, and
// every failure is one line.

static void rooms_are_read_as_they_were_written(void **state)
{
    enum { ROOMS = 8, BYTES = 5000, REQUESTS = 400 };
    char folder[] = "/tmp/meshwright-nvme-XXXXXX", told[ROOMS][BYTES] = {{0}};
    char out[REQUESTS][BYTES], in[REQUESTS][BYTES], wanted[REQUESTS][BYTES];
    struct draw draw = draw_start("requests", 4);
    struct err err = {0};
    assert_non_null(mkdtemp(folder));
    struct nvme *nvme = nvme_open(*state, folder, ROOMS * BYTES, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rmdir(folder), 0);  // the file has no name
    bool is_read[REQUESTS] = {false};
    int64_t asked[REQUESTS];
    assert_true(nvme_moved(nvme).bytes == 0 && nvme_moved(nvme).s == 0);
    for (int n = 0; n < REQUESTS; n++) {
        int room = draw_int(&draw, 0, ROOMS - 1);
        is_read[n] = draw_int(&draw, 0, 1);
        memset(out[n], draw_int(&draw, 0, 255), BYTES);
        memcpy(is_read[n] ? wanted[n] : told[room], is_read[n] ? told[room] : out[n], BYTES);
        asked[n] = nvme_start(nvme, is_read[n] ? NVME_READ : NVME_WRITE,
                              is_read[n] ? in[n] : out[n], BYTES, (int64_t)room * BYTES);
        if (draw_int(&draw, 0, 9) == 0) nvme_start(nvme, NVME_SYNC, NULL, 0, 0);
    }
    for (int n = 0; n < REQUESTS; n++)
        assert_null(nvme_wait(nvme, asked[n]));
    assert_true(nvme_moved(nvme).bytes == REQUESTS * BYTES && nvme_moved(nvme).s > 0);
    for (int n = 0; n < REQUESTS; n++) {
        if (is_read[n]) assert_memory_equal(in[n], wanted[n], BYTES);
    }
    nvme_close(nvme);
}

// Memory that is written from is not read into before that is done, nor the other way round: what
// passes through one room from part to part of a file ends up in all of them.
static void what_passes_one_room_is_in_turn(void **state)
{
    enum { PARTS = 40, BYTES = 1 << 20 };
    struct err err = {0};
    char *room = malloc(BYTES), *in = malloc(BYTES);
    assert_true(room && in);
    struct nvme *nvme = nvme_open(*state, "/tmp", (int64_t)PARTS * BYTES, &err);
    assert_string_equal(err.text, "");
    memset(room, 7, BYTES);
    int64_t last = 0;
    for (int64_t part = 0; part + 1 < PARTS; part++) {
        nvme_start(nvme, NVME_WRITE, room, BYTES, part * BYTES);
        // Zeros, which the next read takes the place of.
        nvme_start(nvme, NVME_READ, room, BYTES, (part + 1) * BYTES);
        nvme_start(nvme, NVME_READ, room, BYTES, part * BYTES);
    }
    last = nvme_start(nvme, NVME_WRITE, room, BYTES, (int64_t)(PARTS - 1) * BYTES);
    for (int64_t part = 0; part < PARTS; part++) {
        last = nvme_start(nvme, NVME_READ, in, BYTES, part * BYTES);
        assert_null(nvme_wait(nvme, last));
        for (int i = 0; i < BYTES; i++)
            if (in[i] != 7) fail_msg("byte %d of part %lld is %d", i, (long long)part, in[i]);
    }
    nvme_close(nvme);
    free(room);
    free(in);
}

static void no_folder_and_no_room_are_said_at_once(void **state)
{
    struct err err = {0};
    assert_null(nvme_open(*state, "/nowhere/at/all", 10, &err));
    assert_int_equal(err.kind, ERR_SYSTEM);
    assert_string_equal(err.text, "making a file in /nowhere/at/all: No such file or directory");
    struct err other = {0};
    assert_null(nvme_open(*state, "/proc", 10, &other));
    assert_int_equal(other.kind, ERR_SYSTEM);
}

// A file that may not grow beyond 32 KiB.
static void what_fails_is_one_line_and_nothing_goes_on_behind_it(void **state)
{
    static char bytes[1 << 16];
    struct rlimit limit, less;
    struct err err = {0};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    less = limit;
    less.rlim_cur = 1 << 15;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    assert_null(nvme_open(*state, "/tmp", sizeof bytes, &err));
    assert_string_equal(err.text, "room for 65536 bytes in /tmp: File too large");
    struct err none = {0};
    struct nvme *nvme = nvme_open(*state, "/tmp", 0, &none);
    assert_string_equal(none.text, "");
    int64_t small = nvme_start(nvme, NVME_WRITE, bytes, 1 << 10, 0);
    assert_null(nvme_wait(nvme, small));
    nvme_start(nvme, NVME_WRITE, bytes, sizeof bytes, 0);
    int64_t behind = nvme_start(nvme, NVME_READ, bytes, 1 << 10, 0);
    assert_string_equal(nvme_wait(nvme, behind), "writing a file in /tmp: File too large");
    nvme_close(nvme);
    nvme = nvme_open(*state, "/tmp", 100, &none);
    int64_t beyond = nvme_start(nvme, NVME_READ, bytes, 200, 0);
    assert_string_equal(nvme_wait(nvme, beyond), "reading a file in /tmp: it ends too early");
    nvme_close(nvme);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, SIG_DFL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rooms_are_read_as_they_were_written),
        cmocka_unit_test(what_passes_one_room_is_in_turn),
        cmocka_unit_test(no_folder_and_no_room_are_said_at_once),
        cmocka_unit_test(what_fails_is_one_line_and_nothing_goes_on_behind_it),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
