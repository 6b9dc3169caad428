#include "executor/launcher/parts.h"
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// Memory that ran out, in the words of launch_memory.c: what a rank says, how its process ended,
// and that it stands still with nothing left to map.

static const struct rusage USED = {.ru_maxrss = 1 << 20};  // KiB: 1 GiB
enum { EXITED_4 = 4 << 8 };                                // as waitpid gives it

static struct heartbeat *heartbeat_at_work(void)
{
    static struct heartbeat heartbeat;
    memset(&heartbeat, 0, sizeof heartbeat);
    atomic_store(&heartbeat.pid, (int)getpid());
    atomic_store(&heartbeat.state, HEARTBEAT_WORKING);
    return &heartbeat;
}

static void check_told(const char *text, const char *start)
{
    assert_memory_equal(text, start, strlen(start));
    assert_true(launch_memory_is_told(text));
}

static void a_fault_of_memory_is_put_as_that_with_its_place(void **state)
{
    (void)state;
    struct err err = {0};
    err_set(&err, ERR_SYSTEM, "rank 3, step 2, at F0.0 1 mlp.up: no memory left on this host");
    launch_memory_explain(3, &err);
    check_told(err.text, "rank 3 ran out of memory (");
    assert_non_null(strstr(err.text, ") in step 2, at F0.0 1 mlp.up"));
    assert_int_equal(err.kind, ERR_SYSTEM);
    char once[sizeof err.text];
    strcpy(once, err.text);
    launch_memory_explain(3, &err);
    assert_string_equal(err.text, once);
}

static void what_the_system_refuses_is_one_too(void **state)
{
    (void)state;
    struct err err = {0};
    err_set(&err, ERR_SYSTEM, "shared memory of the ranks (x): Cannot allocate memory");
    launch_memory_explain(1, &err);
    check_told(err.text, "rank 1 ran out of memory (");
}

static void other_faults_stay_as_they_are(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "rank 3, step 2, at F0.0 1 mlp.up: no kernel for it",
        "rank 1 failed in step 0: opening the device: no memory left on this host",
    };
    for (int i = 0; i < 2; i++) {
        struct err err = {0};
        err_set(&err, ERR_SYSTEM, "%s", TEXTS[i]);
        launch_memory_explain(-1, &err);
        assert_string_equal(err.text, TEXTS[i]);
    }
}

static void a_process_that_the_kernel_ended_for_memory_is_told(void **state)
{
    (void)state;
    struct heartbeat *heartbeat = heartbeat_at_work();
    launch_memory_note_end(heartbeat, 2, SIGKILL, &USED, launch_memory_kills() - 1);
    check_told(heartbeat->reason, "rank 2 ran out of memory (1.00 GiB allocated of ");
}

static void one_that_somebody_killed_is_not(void **state)
{
    (void)state;
    struct heartbeat *heartbeat = heartbeat_at_work();
    launch_memory_note_end(heartbeat, 2, SIGKILL, &USED, launch_memory_kills() + 1);
    launch_memory_note_end(heartbeat, 2, SIGSEGV, &USED, launch_memory_kills() - 1);
    assert_string_equal(heartbeat->reason, "");
}

static void a_rank_that_gave_up_in_the_middle_wanted_memory(void **state)
{
    (void)state;
    struct heartbeat *heartbeat = heartbeat_at_work();
    launch_memory_note_end(heartbeat, 0, EXITED_4, &USED, launch_memory_kills());
    check_told(heartbeat->reason, "rank 0 ran out of memory (1.00 GiB allocated of ");
    // One that has said why it failed ends with 4 as well.
    heartbeat = heartbeat_at_work();
    atomic_store(&heartbeat->state, HEARTBEAT_FAILED);
    launch_memory_note_end(heartbeat, 0, EXITED_4, &USED, launch_memory_kills());
    assert_string_equal(heartbeat->reason, "");
}

// A child that may map little more than it has.
static void a_rank_that_stands_still_with_no_room_left_is_told(void **state)
{
    (void)state;
    char text[256] = "";
    pid_t child = fork();
    if (child == 0) {
        for (;;)
            pause();
    }
    assert_true(child > 0);
    assert_false(launch_memory_is_full(child, 1, text, sizeof text));
    struct rlimit limit = {(rlim_t)1 << 28, (rlim_t)1 << 28};
    bool is_limited = prlimit(child, RLIMIT_AS, &limit, NULL) == 0;
    bool is_full = launch_memory_is_full(child, 1, text, sizeof text);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (!is_limited) return;
    assert_true(is_full);
    check_told(text, "rank 1 ran out of memory (");
    assert_non_null(strstr(text, " of 256 MiB, its limit of address space)"));
}

// Memory that a process is in, which the kernel counts in /proc/self/statm, too: 64 MiB more are
// held when they have been written. Tests may run within a limit of address space, of which another
// amount is told: only one who may lift it sees this one.
static double told_mib(void)
{
    struct err err = {0};
    char unit[8] = "";
    double amount = -1;
    err_set(&err, ERR_SYSTEM, "rank 3, step 2, at F0.0 1 mlp.up: no memory left on this host");
    launch_memory_explain(3, &err);
    const char *told = strchr(err.text, '(');
    assert_true(told && sscanf(told, "(%lf %7s allocated of ", &amount, unit) == 2);
    return amount * (strcmp(unit, "GiB") == 0 ? 1024 : strcmp(unit, "KiB") == 0 ? 1.0 / 1024 : 1);
}

static void what_a_rank_holds_is_what_it_is_in(void **state)
{
    (void)state;
    enum { MIB = 1 << 20, HELD = 64 };
    struct rlimit before, none = {RLIM_INFINITY, RLIM_INFINITY};
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    if (setrlimit(RLIMIT_AS, &none) != 0) return;
    double first_mib = told_mib();
    char *held =
        mmap(NULL, (size_t)HELD * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(held != MAP_FAILED);
    double mapped_mib = told_mib();
    memset(held, 1, (size_t)HELD * MIB);
    double written_mib = told_mib();
    munmap(held, (size_t)HELD * MIB);
    setrlimit(RLIMIT_AS, &before);
    assert_true(first_mib > 0 && mapped_mib < first_mib + 8);
    assert_true(written_mib > mapped_mib + HELD - 4 && written_mib < mapped_mib + HELD + 8);
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

// Groups of both versions, in folders like those of the system: "a" in "" and "a/b" in it, which
// are of version 2, "c" of version 1, and "d" of a version 1 that holds no memory.
static void the_lowest_limit_of_all_groups_above_counts(void **state)
{
    static const struct {
        const char *groups, *top, *a, *b, *c;
        int64_t limit_bytes;
    } CASES[] = {
        {"0::/a/b\n", "max\n", "5000\n", "7000\n", "1\n", 5000},
        {"0::/a/b\n", "max\n", "max\n", "7000\n", "1\n", 7000},
        {"0::/a/b\n", "300\n", "5000\n", "max\n", "1\n", 300},
        {"0::/a\n", "max\n", "5000\n", "1\n", "1\n", 5000},
        {"0::/a/b\n", "max\n", "max\n", "max\n", "1\n", INT64_MAX},
        {"4:cpuset:/d\n3:memory:/c\n", "1\n", "1\n", "1\n", "9000\n", 9000},
        {"4:cpuset:/d\n3:memory:/c\n0::/a\n", "max\n", "8000\n", "1\n", "9000\n", 8000},
        {"4:cpuset:/a\n", "1\n", "1\n", "1\n", "1\n", INT64_MAX},
        {"no group\n", "1\n", "1\n", "1\n", "1\n", INT64_MAX},
    };
    char root[] = "/tmp/groups.XXXXXX", list[64];
    (void)state;
    assert_non_null(mkdtemp(root));
    static const char *const FOLDERS[] = {"a", "a/b", "memory", "memory/c"};
    for (int i = 0; i < 4; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", root, FOLDERS[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    snprintf(list, sizeof list, "%s/list", root);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        write_file(root, "list", CASES[i].groups);
        write_file(root, "memory.max", CASES[i].top);
        write_file(root, "a/memory.max", CASES[i].a);
        write_file(root, "a/b/memory.max", CASES[i].b);
        write_file(root, "memory/c/memory.limit_in_bytes", CASES[i].c);
        int64_t found_bytes = launch_memory_group_limit(list, root);
        if (found_bytes != CASES[i].limit_bytes)
            fail_msg("case %zu: %lld for %lld", i, (long long)found_bytes,
                     (long long)CASES[i].limit_bytes);
    }
    assert_true(launch_memory_group_limit("/tmp/groups.none", root) == INT64_MAX);
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

// The kernel's counts stand among others, in a group or, where that has none, in one above it.
static void ended_for_memory_counts_the_own_group(void **state)
{
    static const struct {
        const char *groups;
        int64_t kills;
    } CASES[] = {{"0::/a/b\n", 3},           {"0::/a/other/c\n", 5},       {"0::/elsewhere\n", -1},
                 {"3:memory:/c\n", 7},       {"3:memory:/outside/c\n", 2}, {"4:cpuset:/a\n", -1},
                 {"3:memory:/c\n0::/a\n", 7}};
    char root[] = "/tmp/groups.XXXXXX", list[64], command[160];
    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(command, sizeof command, "cd %s && mkdir -p a/b a/other memory/c", root);
    assert_int_equal(system(command), 0);
    write_file(root, "a/memory.events", "low 0\noom 9\noom_kill 5\n");
    write_file(root, "a/b/memory.events", "oom 4\noom_kill 3\n");
    write_file(root, "memory/memory.oom_control", "oom_kill_disable 8\noom_kill 2\n");
    write_file(root, "memory/c/memory.oom_control",
               "oom_kill_disable 1\nunder_oom 0\noom_kill 7\n");
    snprintf(list, sizeof list, "%s/list", root);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        write_file(root, "list", CASES[i].groups);
        int64_t found = launch_memory_group_kills(list, root);
        if (found != CASES[i].kills) fail_msg("case %zu: %lld", i, (long long)found);
    }
    assert_int_equal(launch_memory_group_kills("/tmp/groups.none", root), -1);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fault_of_memory_is_put_as_that_with_its_place),
        cmocka_unit_test(what_the_system_refuses_is_one_too),
        cmocka_unit_test(other_faults_stay_as_they_are),
        cmocka_unit_test(a_process_that_the_kernel_ended_for_memory_is_told),
        cmocka_unit_test(one_that_somebody_killed_is_not),
        cmocka_unit_test(a_rank_that_gave_up_in_the_middle_wanted_memory),
        cmocka_unit_test(a_rank_that_stands_still_with_no_room_left_is_told),
        cmocka_unit_test(what_a_rank_holds_is_what_it_is_in),
        cmocka_unit_test(the_lowest_limit_of_all_groups_above_counts),
        cmocka_unit_test(ended_for_memory_counts_the_own_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
