#include "executor/communicators/communicator.h"
#include "executor/launcher/parts.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// The program is its own job: started with a place among ranks it works in steps, until the rank
// and the point come at which it was told to fail.

enum { RANK_COUNT = 3, VICTIM = 1, VICTIM_STEP = 2, STEP_COUNT = 4 };
enum { PATIENCE_S = 1, LONG_PATIENCE_S = 25 };
enum point { NOWHERE, STARTING, WORKING, WAITING };
static const char *const POINTS[] = {"nowhere", "starting", "working", "waiting"};
enum fault { NOTHING, KILLED, STOPPED, EXITED, LOOPING, FAILED, PARTING };
static const char *const FAULTS[] = {"nothing", "killed", "stopped", "exited",
                                     "looping", "failed", "parting"};

struct case_of {
    enum fault fault;
    enum point point;
};

static int find(const char *text, const char *const *names, int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) return i;
    }
    return 0;
}

// What befalls the victim; the others pass.
static void suffer(struct heartbeat_page *page, int rank, enum fault fault)
{
    if (rank != VICTIM) return;
    volatile bool goes_on = true;
    switch (fault) {
    case KILLED:
        raise(SIGKILL);
        break;
    case STOPPED:
        raise(SIGSTOP);
        break;
    case EXITED:
        _exit(1);
    case LOOPING:
        while (goes_on) {
        }
        break;
    case FAILED:
        heartbeat_fail(page, rank, "no kernel for a prime\nnumber");
        _exit(4);
    case PARTING:
        _exit(0);
    default:
        break;
    }
}

static void enter(struct heartbeat *heartbeat, enum heartbeat_state state, int step, int task,
                  const char *name)
{
    atomic_store(&heartbeat->step, step);
    atomic_store(&heartbeat->task, task);
    snprintf(heartbeat->task_name, sizeof heartbeat->task_name, "%s", name);
    atomic_store(&heartbeat->state, state);
    atomic_fetch_add(&heartbeat->beat, 1);
}

static int run_steps(const struct transport *transport, struct communicator *communicator,
                     struct heartbeat_page *page, int rank, struct case_of what)
{
    static const int ALL[RANK_COUNT] = {0, 1, 2};
    struct heartbeat *heartbeat = heartbeat_of(page, rank);
    struct group *group = NULL;
    const char *failure = transport->group(communicator, ALL, RANK_COUNT, "all", &group);
    for (int step = 1; step <= STEP_COUNT && !failure; step++) {
        double sum = 1;
        enter(heartbeat, HEARTBEAT_WORKING, step, 0, "F0.0 1 attn.q");
        if (step == VICTIM_STEP && what.point == WORKING) suffer(page, rank, what.fault);
        enter(heartbeat, HEARTBEAT_WAITING, step, 1, "F0.0 1 attn.out sum");
        if (step == VICTIM_STEP && what.point == WAITING) suffer(page, rank, what.fault);
        failure = transport->host_sum(group, &sum, 1);
        if (!failure && sum != RANK_COUNT) failure = "a wrong sum";
    }
    if (failure) {
        heartbeat_fail(page, rank, failure);
        return 4;
    }
    atomic_store(&heartbeat->state, HEARTBEAT_DONE);
    return rank == 0 ? 5 : 0;
}

static int rank_main(char **argv)
{
    struct case_of what = {(enum fault)find(argv[1], FAULTS, 7),
                           (enum point)find(argv[2], POINTS, 4)};
    struct launch_place place = launch_place_find();
    struct heartbeat_page *page;
    struct err err = {0};
    int exit_code = 0;
    if (!launch_enter(&place, &page, &exit_code, &err)) return exit_code;
    if (what.point == STARTING) suffer(page, place.rank, what.fault);
    struct backend backend = rank_backend(4, true);
    struct communicator_request request = {.backend = &backend,
                                           .rank = place.rank,
                                           .rank_count = place.rank_count,
                                           .host_name = place.memory_name};
    struct communicator *communicator;
    const struct transport *transport = communicator_host(&request, &communicator, &err);
    if (!transport) {
        heartbeat_fail(page, place.rank, err.text);
        return 4;
    }
    exit_code = run_steps(transport, communicator, page, place.rank, what);
    transport->close(communicator);
    heartbeat_page_close(page);
    return exit_code;
}

// Whether anything named after the job is left in /dev/shm.
static int count_stale(const char *token)
{
    int count = 0;
    DIR *folder = opendir("/dev/shm");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += strstr(entry->d_name, "meshwright") || strstr(entry->d_name, token);
    if (folder) closedir(folder);
    return count;
}

struct outcome {
    bool is_well;
    int exit_code;
    struct err err;
};

static struct outcome run_case(struct case_of what, bool spawns)
{
    char token[64];
    snprintf(token, sizeof token, "job-%d-%s-%s", (int)getpid(), FAULTS[what.fault],
             POINTS[what.point]);
    char *argv[] = {"test", (char *)(uintptr_t)FAULTS[what.fault],
                    (char *)(uintptr_t)POINTS[what.point], token};
    struct launch_request request = {
        .rank_count = RANK_COUNT, .argv = argv, .argc = 4, .stuck_s = PATIENCE_S, .spawns = spawns};
    // Who dies is found at once, however slow the machine is.
    if (what.fault != STOPPED && what.fault != LOOPING) request.stuck_s = LONG_PATIENCE_S;
    struct outcome outcome = {0};
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    outcome.is_well = launch_job(&request, &outcome.exit_code, &outcome.err);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_in_range(end.tv_sec - start.tv_sec, 0, 30);
    assert_int_equal(count_processes(token), 0);
    assert_int_equal(count_stale(token), 0);
    return outcome;
}

static void check_case(enum fault fault, enum point point, bool spawns, const char *line)
{
    struct outcome outcome = run_case((struct case_of){fault, point}, spawns);
    assert_string_equal(outcome.err.text, line);
    assert_false(outcome.is_well);
    assert_int_equal(outcome.err.kind, ERR_SYSTEM);
    assert_int_equal(outcome.exit_code, 4);
}

static const char *const PLACES[] = {"", " while starting", " in step 2, at F0.0 1 attn.q",
                                     " in step 2, waiting at F0.0 1 attn.out sum"};

static void check_faults(bool spawns)
{
    char line[256];
    for (enum point point = STARTING; point <= WAITING; point++) {
        const char *place = PLACES[point];
        snprintf(line, sizeof line, "rank 1 was killed (signal 9)%s", place);
        check_case(KILLED, point, spawns, line);
        snprintf(line, sizeof line, "rank 1 ended with status 1%s", place);
        check_case(EXITED, point, spawns, line);
        // Who is stopped is judged by the launcher alone, so mpirun need not be tried at each
        // point.
        if (!spawns && point != WAITING) continue;
        struct outcome outcome = run_case((struct case_of){STOPPED, point}, spawns);
        assert_int_equal(outcome.exit_code, 4);
        assert_non_null(strstr(outcome.err.text, "rank 1 was stopped for "));
        assert_non_null(strstr(outcome.err.text, place));
    }
}

static void a_rank_that_dies_or_stops_ends_spawned_ranks(void **state)
{
    (void)state;
    check_faults(true);
}

static void a_rank_that_dies_or_stops_ends_mpiruns_ranks(void **state)
{
    (void)state;
    if (launch_finds_mpirun())
        check_faults(false);
    else
        printf("# no mpirun here\n");
}

static void a_rank_that_fails_is_quoted(void **state)
{
    (void)state;
    check_case(FAILED, WORKING, true,
               "rank 1 failed in step 2, at F0.0 1 attn.q: no kernel for a prime?number");
    check_case(PARTING, WAITING, true,
               "rank 1 ended with status 0 in step 2, waiting at F0.0 1 attn.out sum");
}

static void a_rank_that_loops_is_stuck(void **state)
{
    (void)state;
    struct outcome outcome = run_case((struct case_of){LOOPING, WORKING}, true);
    assert_int_equal(outcome.exit_code, 4);
    assert_non_null(strstr(outcome.err.text, "rank 1 stood still for "));
    assert_non_null(strstr(outcome.err.text, " in step 2, at F0.0 1 attn.q"));
}

static void check_well(enum fault fault, bool spawns)
{
    struct outcome outcome = run_case((struct case_of){fault, NOWHERE}, spawns);
    assert_string_equal(outcome.err.text, "");
    assert_true(outcome.is_well);
    assert_int_equal(outcome.exit_code, 5);
}

static void a_job_that_ends_well_has_the_exit_code_of_rank_0(void **state)
{
    (void)state;
    check_well(NOTHING, true);
    if (launch_finds_mpirun()) check_well(NOTHING, false);
}

// Runs the job in a process of its own, gives it a signal while it stands still, and returns how it
// ended.
static int signal_launcher(int signal, bool spawns, const char *token, int *left)
{
    fflush(stdout);
    pid_t launcher = fork();
    if (launcher == 0) {
        char *argv[] = {"test", "looping", "working", (char *)(uintptr_t)token};
        struct launch_request request = {
            .rank_count = RANK_COUNT, .argv = argv, .argc = 4, .stuck_s = 100, .spawns = spawns};
        struct err err = {0};
        int exit_code = 0;
        bool is_well = launch_job(&request, &exit_code, &err);
        _exit(!is_well && strncmp(err.text, "the job was ended by signal ", 28) == 0 ? exit_code
                                                                                     : 77);
    }
    struct timespec pause = {0, 20000000};
    // The launcher has forked from us, so the token is not among its own arguments.
    for (int i = 0; i < 1000 && count_processes(token) < RANK_COUNT; i++)
        nanosleep(&pause, NULL);
    kill(launcher, signal);
    int status = 0;
    waitpid(launcher, &status, 0);
    // A launcher that was killed leaves it to the kernel to end the others.
    for (int i = 0; i < 500 && count_processes(token) > 0; i++)
        nanosleep(&pause, NULL);
    *left = count_processes(token);
    return status;
}

static void check_signals(bool spawns)
{
    static const int SIGNALS[] = {SIGTERM, SIGINT, SIGKILL};
    for (int i = 0; i < 3; i++) {
        char token[64];
        int left = 0;
        snprintf(token, sizeof token, "signal-%d-%d-%d", (int)getpid(), SIGNALS[i], spawns);
        int status = signal_launcher(SIGNALS[i], spawns, token, &left);
        assert_int_equal(left, 0);
        if (SIGNALS[i] == SIGKILL)
            assert_true(WIFSIGNALED(status));
        else
            assert_int_equal(status, 4 << 8);
    }
}

static void signals_to_the_launcher_end_the_job(void **state)
{
    (void)state;
    check_signals(true);
    if (launch_finds_mpirun()) check_signals(false);
}

static void a_missing_mpirun_says_what_to_install(void **state)
{
    (void)state;
    char *argv[] = {"test"};
    struct launch_request request = {.rank_count = 2, .argv = argv, .argc = 1, .stuck_s = 1};
    struct err err = {0};
    int exit_code = 0;
    const char *path = getenv("PATH");
    char *kept = strdup(path ? path : "");
    setenv("PATH", "/nowhere", 1);
    bool finds = launch_finds_mpirun();
    bool is_well = launch_job(&request, &exit_code, &err);
    setenv("PATH", kept, 1);
    free(kept);
    assert_false(finds);
    assert_false(is_well);
    assert_string_equal(err.text, "mpirun is not on the PATH: it comes with Open MPI (on Debian: "
                                  "apt-get install openmpi-bin)");
}

static void check_place(const char *const *variables, bool is_launched, int rank, int rank_count)
{
    for (int i = 0; variables[i]; i += 2)
        setenv(variables[i], variables[i + 1], 1);
    struct launch_place place = launch_place_find();
    for (int i = 0; variables[i]; i += 2)
        unsetenv(variables[i]);
    assert_int_equal(place.is_launched, is_launched);
    assert_int_equal(place.rank, rank);
    assert_int_equal(place.rank_count, rank_count);
    assert_null(place.memory_name);
}

static void a_rank_finds_its_place_under_any_launcher(void **state)
{
    (void)state;
    check_place((const char *[]){NULL}, false, 0, 1);
    check_place((const char *[]){"OMPI_COMM_WORLD_RANK", "2", "OMPI_COMM_WORLD_SIZE", "4", NULL},
                true, 2, 4);
    check_place((const char *[]){"PMI_RANK", "0", "PMI_SIZE", "2", NULL}, true, 0, 2);
    check_place((const char *[]){"SLURM_PROCID", "3", "SLURM_STEP_NUM_TASKS", "8", NULL}, true, 3,
                8);
    // A batch script is none of the ranks, nor is the only task of an interactive shell.
    check_place((const char *[]){"SLURM_PROCID", "0", "SLURM_NTASKS", "8", NULL}, false, 0, 1);
    check_place((const char *[]){"SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "1", NULL}, false, 0,
                1);
    check_place((const char *[]){"PMI_RANK", "2", "PMI_SIZE", "2", NULL}, false, 0, 1);
    check_place((const char *[]){"PMI_RANK", "x", "PMI_SIZE", "2", NULL}, false, 0, 1);
}

// Which device a rank takes follows from its place among those of its host.
static void a_rank_finds_its_place_on_its_host(void **state)
{
    (void)state;
    setenv("OMPI_COMM_WORLD_RANK", "5", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
    assert_int_equal(launch_place_find().local_rank, 5);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
    assert_int_equal(launch_place_find().local_rank, 1);
    assert_null(launch_place_find().meeting);
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("OMPI_COMM_WORLD_LOCAL_RANK");
}

// Places that our launcher leaves out are passed by, on the host as well; without our memory nobody
// has left any out.
static void ranks_pass_by_what_is_left_out(void **state)
{
    static const int HOMES[] = {0, 2, 4, 5};
    (void)state;
    setenv(LAUNCH_RANK_COUNT, "4", 1);
    setenv(LAUNCH_LEFT_OUT, "1,3", 1);
    for (int rank = 0; rank < 4; rank++) {
        char text[2] = {(char)('0' + rank)};
        setenv(LAUNCH_RANK, text, 1);
        setenv(LAUNCH_LOCAL_RANK, text, 1);
        setenv(LAUNCH_MEMORY, "/none", 1);
        struct launch_place place = launch_place_find();
        assert_true(place.rank == rank && place.home == HOMES[rank] && place.is_moved);
        assert_int_equal(place.local_rank, HOMES[rank]);
        unsetenv(LAUNCH_MEMORY);
        place = launch_place_find();
        assert_true(place.home == rank && place.local_rank == rank && !place.is_moved);
    }
    setenv(LAUNCH_MEMORY, "/none", 1);
    setenv(LAUNCH_LEFT_OUT, "", 1);
    assert_true(launch_place_find().home == 3 && !launch_place_find().is_moved);
    unsetenv(LAUNCH_LEFT_OUT);
    assert_true(launch_place_find().home == 3 && !launch_place_find().is_moved);
    unsetenv(LAUNCH_MEMORY);
    unsetenv(LAUNCH_RANK);
    unsetenv(LAUNCH_LOCAL_RANK);
    unsetenv(LAUNCH_RANK_COUNT);
}

int main(int argc, char **argv)
{
    if (argc == 4 && launch_place_find().is_launched) return rank_main(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_finds_its_place_under_any_launcher),
        cmocka_unit_test(a_rank_finds_its_place_on_its_host),
        cmocka_unit_test(ranks_pass_by_what_is_left_out),
        cmocka_unit_test(a_job_that_ends_well_has_the_exit_code_of_rank_0),
        cmocka_unit_test(a_rank_that_dies_or_stops_ends_spawned_ranks),
        cmocka_unit_test(a_rank_that_dies_or_stops_ends_mpiruns_ranks),
        cmocka_unit_test(a_rank_that_fails_is_quoted),
        cmocka_unit_test(a_rank_that_loops_is_stuck),
        cmocka_unit_test(signals_to_the_launcher_end_the_job),
        cmocka_unit_test(a_missing_mpirun_says_what_to_install),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
