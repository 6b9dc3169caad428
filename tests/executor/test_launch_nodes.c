#include "executor/launcher/launch.h"
#include "executor/rendezvous.h"
#include "executor/rendezvous_folder.h"
#include "tests/support/emulated.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Launchers of two nodes, both on this machine, each with two ranks, that meet by files; the ranks
// exchange over the emulation of NCCL. Whatever befalls a rank or a launcher ends both, with the
// rank, its step and its operator. The program is its own job.

enum { NODE_COUNT = 2, RANK_COUNT = 4, VICTIM_STEP = 2, STEP_COUNT = 3 };
static const double LONG_S = 25, STUCK_S = 1, SILENT_S = 0.7;

static void enter(struct heartbeat *heartbeat, enum heartbeat_state state, int step, int task,
                  const char *name)
{
    atomic_store(&heartbeat->step, step);
    atomic_store(&heartbeat->task, task);
    snprintf(heartbeat->task_name, sizeof heartbeat->task_name, "%s", name);
    atomic_store(&heartbeat->state, state);
    atomic_fetch_add(&heartbeat->beat, 1);
}

// argv: program, rank that suffers, what, where, token.
static void suffer(char **argv, struct heartbeat_page *page, int rank, const char *here)
{
    if (atoi(argv[1]) != rank || strcmp(argv[3], here) != 0) return;
    if (strcmp(argv[2], "killed") == 0) raise(SIGKILL);
    if (strcmp(argv[2], "stopped") == 0) raise(SIGSTOP);
    if (strcmp(argv[2], "exited") == 0) _exit(1);
    if (strcmp(argv[2], "failed") == 0) {
        heartbeat_fail(page, rank, "no kernel for a prime number");
        _exit(4);
    }
    if (strcmp(argv[2], "launcher-killed") == 0) kill(getppid(), SIGKILL);
    if (strcmp(argv[2], "launcher-stopped") == 0) kill(getppid(), SIGSTOP);
    if (strcmp(argv[2], "launcher-told") == 0) kill(getppid(), SIGTERM);
    if (strncmp(argv[2], "launcher", 8) == 0) sleep(60);
}

static int run_steps(char **argv, const struct transport *transport,
                     struct communicator *communicator, struct heartbeat_page *page, int rank)
{
    static const int ALL[RANK_COUNT] = {0, 1, 2, 3};
    struct heartbeat *heartbeat = heartbeat_of(page, rank);
    struct group *group = NULL;
    const char *failure = transport->group(communicator, ALL, RANK_COUNT, "all", &group);
    for (int step = 1; step <= STEP_COUNT && !failure; step++) {
        double sum = rank;
        enter(heartbeat, HEARTBEAT_WORKING, step, 0, "F0.0 1 attn.q");
        if (step == VICTIM_STEP) suffer(argv, page, rank, "working");
        enter(heartbeat, HEARTBEAT_WAITING, step, 1, "F0.0 1 attn.out sum");
        if (step == VICTIM_STEP) suffer(argv, page, rank, "waiting");
        failure = transport->host_sum(group, &sum, 1);
        if (!failure && sum != 6) failure = "a wrong sum";
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
    struct launch_place place = launch_place_find();
    struct heartbeat_page *page;
    struct err err = {0};
    int exit_code = 0;
    if (!launch_enter(&place, &page, &exit_code, &err)) return exit_code;
    suffer(argv, page, place.rank, "starting");
    struct backend backend = rank_backend(4, false);
    struct communicator_request request = {.backend = &backend,
                                           .rank = place.rank,
                                           .rank_count = place.rank_count,
                                           .local_rank = place.local_rank,
                                           .meeting = place.meeting,
                                           .message_count = 2,
                                           .heartbeat = heartbeat_of(page, place.rank)};
    struct communicator *communicator;
    const struct transport *transport = nccl_emulated(&request, &communicator, &err);
    if (!transport) {
        heartbeat_fail(page, place.rank, err.text);
        return 4;
    }
    exit_code = run_steps(argv, transport, communicator, page, place.rank);
    transport->close(communicator);
    heartbeat_page_close(page);
    return exit_code;
}

struct outcome {
    bool is_well;
    int exit_code;
    struct err err;
};

struct launch_trial {
    const char *victim, *fault, *point;
    double stuck_s, silent_s, timeout_s;
    uint64_t plan_keys[NODE_COUNT], options_keys[NODE_COUNT];
    int nodes[NODE_COUNT], node_counts[NODE_COUNT];
};

static struct launch_trial trial_of(const char *victim, const char *fault, const char *point)
{
    return (struct launch_trial){.victim = victim,
                                 .fault = fault,
                                 .point = point,
                                 .stuck_s = LONG_S,
                                 .silent_s = LONG_S,
                                 .timeout_s = LONG_S,
                                 .nodes = {0, 1},
                                 .node_counts = {NODE_COUNT, NODE_COUNT}};
}

static void be_launcher(const struct launch_trial *trial, int node, const char *folder, char *token,
                        struct outcome *outcome)
{
    char *argv[] = {"test", (char *)(uintptr_t)trial->victim, (char *)(uintptr_t)trial->fault,
                    (char *)(uintptr_t)trial->point, token};
    const struct rendezvous_request nodes = {.folder = folder,
                                             .job = "nodes",
                                             .node = trial->nodes[node],
                                             .node_count = trial->node_counts[node],
                                             .rank_count = RANK_COUNT,
                                             .plan_key = trial->plan_keys[node],
                                             .options_key = trial->options_keys[node],
                                             .timeout_s = trial->timeout_s};
    const struct launch_request request = {.rank_count = RANK_COUNT,
                                           .argv = argv,
                                           .argc = 5,
                                           .stuck_s = trial->stuck_s,
                                           .silent_s = trial->silent_s,
                                           .rendezvous = &nodes};
    outcome->is_well = launch_job(&request, &outcome->exit_code, &outcome->err);
}

// A trial under way: several go side by side, where most of the time is waiting.
struct running {
    const struct launch_trial *trial;
    char token[96], folder[64];
    pid_t launchers[NODE_COUNT];
    struct outcome *shared;
    struct timespec start;
};

static struct running begin(const struct launch_trial *trial)
{
    struct running running = {.trial = trial};
    snprintf(running.folder, sizeof running.folder, "/tmp/meshwright-nodes-XXXXXX");
    assert_non_null(mkdtemp(running.folder));
    snprintf(running.token, sizeof running.token, "nodes-%d-%s-%s-%s", (int)getpid(), trial->victim,
             trial->fault, trial->point);
    running.shared = mmap(NULL, NODE_COUNT * sizeof(struct outcome), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(running.shared != MAP_FAILED);
    fflush(NULL);
    clock_gettime(CLOCK_MONOTONIC, &running.start);
    for (int node = 0; node < NODE_COUNT; node++) {
        running.launchers[node] = fork();
        assert_true(running.launchers[node] >= 0);
        if (running.launchers[node] > 0) continue;
        be_launcher(trial, node, running.folder, running.token, &running.shared[node]);
        _exit(0);
    }
    return running;
}

// A folder that a killed launcher has left is one of those of the meeting.
static void remove_folders(const char *folder)
{
    DIR *opened = opendir(folder);
    for (struct dirent *entry; opened && (entry = readdir(opened));) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.' && entry->d_type == DT_DIR) folder_remove_all(path);
    }
    if (opened) closedir(opened);
    folder_remove_all(folder);
}

// A launcher that was stopped is continued when the other has ended.
static void finish(struct running *running, struct outcome *outcomes)
{
    struct timespec pause = {0, 20000000}, end;
    int victim = atoi(running->trial->victim) / 2, other = 1 - victim, status;
    waitpid(running->launchers[other], &status, 0);
    kill(running->launchers[victim], SIGCONT);
    waitpid(running->launchers[victim], &status, 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_in_range(end.tv_sec - running->start.tv_sec, 0, 30);
    // A launcher that was killed leaves it to the kernel to end the others.
    for (int i = 0; i < 500 && count_processes(running->token) > 0; i++)
        nanosleep(&pause, NULL);
    assert_int_equal(count_processes(running->token), 0);
    remove_folders(running->folder);
    memcpy(outcomes, running->shared, NODE_COUNT * sizeof *outcomes);
    munmap(running->shared, NODE_COUNT * sizeof *outcomes);
}

static void check_finish(struct running *running, const char *line)
{
    struct outcome outcomes[NODE_COUNT];
    const struct launch_trial *trial = running->trial;
    finish(running, outcomes);
    for (int node = 0; node < NODE_COUNT; node++) {
        if (!strstr(outcomes[node].err.text, line))
            fail_msg("rank %s %s %s: node %d says '%s', wanted '%s'", trial->victim, trial->fault,
                     trial->point, node, outcomes[node].err.text, line);
        assert_false(outcomes[node].is_well);
        assert_int_equal(outcomes[node].exit_code, 4);
    }
}

static void check_line(const struct launch_trial *trial, const char *line)
{
    struct running running = begin(trial);
    check_finish(&running, line);
}

static const char *const VICTIMS[] = {"1", "2"};  // on node 0, on node 1

static void a_rank_that_dies_ends_all_nodes(void **state)
{
    (void)state;
    static const char *const POINTS[] = {"starting", "working", "waiting"};
    static const char *const PLACES[] = {" while starting", " in step 2, at F0.0 1 attn.q",
                                         " in step 2, waiting at F0.0 1 attn.out sum"};
    for (int v = 0; v < 2; v++) {
        for (int p = 0; p < 3; p++) {
            char line[160];
            struct launch_trial trial = trial_of(VICTIMS[v], "killed", POINTS[p]);
            snprintf(line, sizeof line, "rank %s was killed (signal 9)%s", VICTIMS[v], PLACES[p]);
            check_line(&trial, line);
        }
    }
}

static void a_rank_that_fails_or_ends_is_told_on_all_nodes(void **state)
{
    (void)state;
    struct launch_trial failed = trial_of("3", "failed", "working");
    check_line(&failed, "rank 3 failed in step 2, at F0.0 1 attn.q: no kernel for a prime number");
    struct launch_trial exited = trial_of("2", "exited", "waiting");
    check_line(&exited, "rank 2 ended with status 1 in step 2, waiting at F0.0 1 attn.out sum");
}

static void a_rank_that_is_stopped_ends_all_nodes(void **state)
{
    (void)state;
    static const struct {
        const char *victim, *point, *line;
    } CASES[] = {
        {"3", "starting", "rank 3 was stopped for 1 s while starting"},
        {"1", "waiting", "rank 1 was stopped for 1 s in step 2, waiting at F0.0 1 attn.out sum"},
        {"2", "working", "rank 2 was stopped for 1 s in step 2, at F0.0 1 attn.q"},
    };
    struct launch_trial trials[3];
    struct running running[3];
    for (int i = 0; i < 3; i++) {
        trials[i] = trial_of(CASES[i].victim, "stopped", CASES[i].point);
        trials[i].stuck_s = STUCK_S;
        running[i] = begin(&trials[i]);
    }
    for (int i = 0; i < 3; i++)
        check_finish(&running[i], CASES[i].line);
}

// What the node says whose launcher lives: with the launcher its ranks are gone, which NCCL
// notices.
static void a_launcher_that_is_gone_ends_the_other_nodes(void **state)
{
    (void)state;
    static const struct {
        const char *victim, *fault, *line;
    } CASES[] = {
        {"1", "launcher-killed", "remote process exited"},
        {"2", "launcher-killed", "remote process exited"},
        {"1", "launcher-stopped", "node 0 has said nothing for 1 s"},
        {"2", "launcher-stopped", ") has said nothing for 1 s"},
    };
    struct launch_trial trials[4];
    struct running running[4];
    for (int i = 0; i < 4; i++) {
        trials[i] = trial_of(CASES[i].victim, CASES[i].fault, "working");
        // Only silence is to end those.
        if (i >= 2) trials[i].silent_s = SILENT_S;
        running[i] = begin(&trials[i]);
    }
    for (int i = 0; i < 4; i++) {
        struct outcome outcomes[NODE_COUNT];
        finish(&running[i], outcomes);
        int victim = atoi(CASES[i].victim) / 2;
        const struct outcome *other = &outcomes[1 - victim];
        if (!strstr(other->err.text, CASES[i].line))
            fail_msg("'%s', wanted '%s'", other->err.text, CASES[i].line);
        assert_int_equal(other->exit_code, 4);
        // One that was stopped reads later what the others have said.
        if (i >= 2) assert_string_equal(outcomes[victim].err.text, other->err.text);
    }
}

static void a_signal_to_one_launcher_ends_all_nodes(void **state)
{
    (void)state;
    for (int v = 0; v < 2; v++) {
        struct launch_trial trial = trial_of(VICTIMS[v], "launcher-told", "working");
        check_line(&trial, "the job was ended by signal 15");
    }
}

static void a_job_that_ends_well_has_the_exit_code_of_rank_0_everywhere(void **state)
{
    (void)state;
    struct outcome outcomes[NODE_COUNT];
    struct launch_trial trial = trial_of("0", "nothing", "nowhere");
    struct running running = begin(&trial);
    finish(&running, outcomes);
    for (int node = 0; node < NODE_COUNT; node++) {
        assert_string_equal(outcomes[node].err.text, "");
        assert_true(outcomes[node].is_well);
        assert_int_equal(outcomes[node].exit_code, 5);
    }
}

static void nodes_that_do_not_agree_do_not_start(void **state)
{
    (void)state;
    struct launch_trial plan = trial_of("0", "nothing", "nowhere");
    plan.plan_keys[1] = 7;
    check_line(&plan, ") has another plan than node 0");
    struct launch_trial options = trial_of("0", "nothing", "nowhere");
    options.options_keys[0] = 7;
    check_line(&options, ") was started with other options than node 0");
    struct launch_trial count = trial_of("0", "nothing", "nowhere");
    count.node_counts[1] = 3;
    check_line(&count, ") was started with --node-count 3, node 0 with 2");
}

int main(int argc, char **argv)
{
    if (argc == 5 && launch_place_find().is_launched) return rank_main(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_ends_well_has_the_exit_code_of_rank_0_everywhere),
        cmocka_unit_test(a_rank_that_dies_ends_all_nodes),
        cmocka_unit_test(a_rank_that_fails_or_ends_is_told_on_all_nodes),
        cmocka_unit_test(a_rank_that_is_stopped_ends_all_nodes),
        cmocka_unit_test(a_launcher_that_is_gone_ends_the_other_nodes),
        cmocka_unit_test(a_signal_to_one_launcher_ends_all_nodes),
        cmocka_unit_test(nodes_that_do_not_agree_do_not_start),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
