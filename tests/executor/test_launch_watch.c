#include "executor/launcher/parts.h"
#include "executor/rendezvous.h"
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

// What the launcher makes of the heartbeats, on a clock of the test's own.

enum { RANK_COUNT = 3, STUCK_S = 10 };

struct launch_watch_bench {
    struct heartbeat_page *page;
    struct launch_watch watch;
    double now_s;
};

// `first_rank`: ranks before it are on other nodes.
static void bench_open_at(struct launch_watch_bench *bench, int first_rank,
                          const struct rendezvous_request *met)
{
    struct launch_request request = {
        .rank_count = RANK_COUNT, .stuck_s = STUCK_S, .rendezvous = met};
    struct launch_started started = {.first_rank = first_rank,
                                     .child_count = RANK_COUNT - first_rank};
    struct err err = {0};
    *bench =
        (struct launch_watch_bench){.page = heartbeat_page_create(RANK_COUNT, &err), .now_s = 1e6};
    assert_non_null(bench->page);
    launch_watch_begin(&bench->watch, &request, &started, bench->page, bench->now_s);
}

static void bench_open(struct launch_watch_bench *bench)
{
    bench_open_at(bench, 0, NULL);
}

static void bench_close(struct launch_watch_bench *bench)
{
    launch_watch_free(&bench->watch);
    heartbeat_page_close(bench->page);
}

static void set(struct launch_watch_bench *bench, int rank, enum heartbeat_state state, int step,
                int task)
{
    struct heartbeat *heartbeat = heartbeat_of(bench->page, rank);
    atomic_store(&heartbeat->state, state);
    atomic_store(&heartbeat->step, step);
    atomic_store(&heartbeat->task, task);
    snprintf(heartbeat->task_name, sizeof heartbeat->task_name, "task %d", task);
    atomic_fetch_add(&heartbeat->beat, 1);
}

// Looks ten times a second; true when nothing was found.
static bool pass(struct launch_watch_bench *bench, double seconds, int moving_rank, struct err *err)
{
    bool is_well = true;
    for (int i = 0; i < (int)(seconds * 10 + 0.5) && is_well; i++) {
        bench->now_s += 0.1;
        if (moving_rank >= 0) atomic_fetch_add(&heartbeat_of(bench->page, moving_rank)->beat, 1);
        is_well = launch_watch_look(&bench->watch, bench->now_s, err);
    }
    return is_well;
}

static void who_moves_may_take_any_time(void **state)
{
    (void)state;
    struct launch_watch_bench bench;
    struct err err = {0};
    bench_open(&bench);
    set(&bench, 0, HEARTBEAT_WAITING, 1, 4);
    set(&bench, 1, HEARTBEAT_WORKING, 1, 3);
    set(&bench, 2, HEARTBEAT_WAITING, 1, 4);
    assert_true(pass(&bench, 100 * STUCK_S, 1, &err));
    bench_close(&bench);
}

static void who_stands_still_while_others_wait_is_stuck(void **state)
{
    (void)state;
    struct launch_watch_bench bench;
    struct err err = {0};
    bench_open(&bench);
    set(&bench, 0, HEARTBEAT_WAITING, 7, 4);
    set(&bench, 1, HEARTBEAT_WORKING, 7, 3);
    set(&bench, 2, HEARTBEAT_WORKING, 7, 4);
    assert_true(pass(&bench, STUCK_S - 0.5, 2, &err));
    assert_false(pass(&bench, 1, 2, &err));
    assert_string_equal(err.text, "rank 1 stood still for 10 s in step 7, at task 3");
    bench_close(&bench);
}

static void who_works_long_while_nobody_waits_is_not_stuck(void **state)
{
    (void)state;
    struct launch_watch_bench bench;
    struct err err = {0};
    bench_open(&bench);
    set(&bench, 0, HEARTBEAT_WORKING, 7, 4);
    set(&bench, 1, HEARTBEAT_WORKING, 7, 3);
    set(&bench, 2, HEARTBEAT_WORKING, 7, 4);
    assert_true(pass(&bench, 3 * STUCK_S, 2, &err));
    // Until nobody moves at all.
    assert_false(pass(&bench, STUCK_S + 1, -1, &err));
    assert_non_null(strstr(err.text, "stood still for 40 s in step 7, at task "));
    bench_close(&bench);
}

static void ranks_that_all_wait_are_told_from_each_other(void **state)
{
    (void)state;
    struct launch_watch_bench bench;
    struct err err = {0};
    bench_open(&bench);
    set(&bench, 0, HEARTBEAT_WAITING, 7, 4);
    set(&bench, 1, HEARTBEAT_WAITING, 6, 9);
    set(&bench, 2, HEARTBEAT_WAITING, 7, 3);
    assert_true(pass(&bench, STUCK_S - 1, -1, &err));
    assert_false(pass(&bench, 2, -1, &err));
    assert_string_equal(err.text, "all ranks have waited for each other for 10 s; rank 1 has come "
                                  "least far: in step 6, waiting at task 9");
    bench_close(&bench);
}

static void who_was_stopped_while_waiting_is_named(void **state)
{
    (void)state;
    struct launch_watch_bench bench;
    struct err err = {0};
    bench_open(&bench);
    for (int rank = 0; rank < RANK_COUNT; rank++)
        set(&bench, rank, HEARTBEAT_WAITING, 7, 4);
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    kill(child, SIGSTOP);
    waitpid(child, NULL, WUNTRACED);
    atomic_store(&heartbeat_of(bench.page, 2)->pid, child);
    assert_false(pass(&bench, STUCK_S + 1, -1, &err));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_string_equal(err.text, "rank 2 was stopped for 10 s in step 7, waiting at task 4");
    bench_close(&bench);
}

static char told_state(void *context, pid_t pid)
{
    (void)pid;
    return *(const char *)context;
}

static void who_was_stopped_for_a_moment_may_go_on(void **state)
{
    (void)state;
    struct launch_watch_bench bench;
    struct err err = {0};
    char letter = 'S';
    bench_open(&bench);
    bench.watch.processes.state = told_state;
    bench.watch.processes.context = &letter;
    set(&bench, 0, HEARTBEAT_WORKING, 7, 4);
    set(&bench, 1, HEARTBEAT_WAITING, 7, 4);
    set(&bench, 2, HEARTBEAT_WAITING, 7, 4);
    atomic_store(&heartbeat_of(bench.page, 2)->pid, 1);
    // It has waited long for one that moves.
    assert_true(pass(&bench, 2 * STUCK_S, 0, &err));
    letter = 'T';
    assert_true(pass(&bench, STUCK_S - 1, 0, &err));
    letter = 'S';
    assert_true(pass(&bench, 1, 0, &err));
    letter = 'T';
    assert_true(pass(&bench, STUCK_S - 1, 0, &err));
    assert_false(pass(&bench, 2, 0, &err));
    assert_string_equal(err.text, "rank 2 was stopped for 10 s in step 7, waiting at task 4");
    bench_close(&bench);
}

struct told_process {
    char state;
    int ticks_a_look;
    int64_t ticks;
};

static char state_told(void *context, pid_t pid)
{
    return pid == 2 ? ((struct told_process *)context)->state : 'S';
}

static int64_t ticks_told(void *context, pid_t pid)
{
    struct told_process *told = context;
    return pid == 2 ? told->ticks += told->ticks_a_look : 0;
}

// A rank in one task while others wait for it, and the seconds until it is stuck.
static double seconds_of(struct told_process told)
{
    struct launch_watch_bench bench;
    struct err err = {0};
    bench_open(&bench);
    bench.watch.processes = (struct launch_processes){state_told, ticks_told, &told};
    set(&bench, 0, HEARTBEAT_WAITING, 7, 4);
    set(&bench, 1, HEARTBEAT_WORKING, 7, 3);
    set(&bench, 2, HEARTBEAT_WAITING, 7, 4);
    for (int rank = 0; rank < RANK_COUNT; rank++)
        atomic_store(&heartbeat_of(bench.page, rank)->pid, rank + 1);
    int tenths = 0;
    while (tenths < 1000 * STUCK_S && pass(&bench, 0.1, -1, &err))
        tenths++;
    assert_string_equal(err.text, "rank 1 stood still for 10 s in step 7, at task 3");
    bench_close(&bench);
    return tenths / 10.0;
}

// Of what a rank computes the seconds of the processor count: eight ranks on one core take eight
// times as long for a product, and each of them still is no loop.
static void who_computes_on_a_busy_host_gets_the_time(void **state)
{
    (void)state;
    int looks_ticks = (int)sysconf(_SC_CLK_TCK) / 10;
    assert_in_range((int)seconds_of((struct told_process){'S', 0, 0}), STUCK_S - 1, STUCK_S + 1);
    assert_in_range((int)seconds_of((struct told_process){'R', looks_ticks, 0}), STUCK_S - 1,
                    STUCK_S + 1);
    assert_in_range((int)seconds_of((struct told_process){'R', looks_ticks / 5, 0}),
                    5 * STUCK_S - 2, 5 * STUCK_S + 2);
    // One that sleeps has stood still, whatever it used before.
    assert_in_range((int)seconds_of((struct told_process){'S', looks_ticks, 0}), STUCK_S - 1,
                    STUCK_S + 1);
}

// Those of this node may wait for one of another, whose launcher looks after it.
static void ranks_of_one_node_of_several_wait_longer(void **state)
{
    (void)state;
    struct launch_watch_bench bench;
    struct err err = {0};
    const struct rendezvous_request met = {.node = 1, .node_count = 2};
    bench_open_at(&bench, 1, &met);
    set(&bench, 1, HEARTBEAT_WAITING, 7, 4);
    set(&bench, 2, HEARTBEAT_WAITING, 8, 4);
    assert_true(pass(&bench, 2.5 * STUCK_S, -1, &err));
    assert_false(pass(&bench, STUCK_S, -1, &err));
    assert_string_equal(err.text, "all ranks have waited for each other for 30 s; rank 1 has come "
                                  "least far: in step 7, waiting at task 4");
    bench_close(&bench);
    // One that works and stands still while another waits is not waited for longer.
    err = (struct err){0};
    bench_open_at(&bench, 1, &met);
    set(&bench, 1, HEARTBEAT_WAITING, 7, 4);
    set(&bench, 2, HEARTBEAT_WORKING, 7, 3);
    assert_false(pass(&bench, 1.5 * STUCK_S, -1, &err));
    assert_string_equal(err.text, "rank 2 stood still for 10 s in step 7, at task 3");
    bench_close(&bench);
}

static void who_was_stopped_is_named_though_others_move(void **state)
{
    (void)state;
    struct launch_watch_bench bench;
    struct err err = {0};
    bench_open(&bench);
    pid_t stopped = fork();
    if (stopped == 0) {
        for (;;)
            pause();
    }
    kill(stopped, SIGSTOP);
    int status;
    waitpid(stopped, &status, WUNTRACED);
    for (int rank = 0; rank < RANK_COUNT; rank++)
        set(&bench, rank, HEARTBEAT_WORKING, 7, 3);
    atomic_store(&heartbeat_of(bench.page, 2)->pid, (int)stopped);
    assert_false(pass(&bench, 1.5 * STUCK_S, 0, &err));
    assert_string_equal(err.text, "rank 2 was stopped for 10 s in step 7, at task 3");
    kill(stopped, SIGKILL);
    waitpid(stopped, NULL, 0);
    bench_close(&bench);
}

// The launcher was stopped itself, with all its job: nobody stood still for its sake.
static void a_late_look_blames_nobody(void **state)
{
    (void)state;
    struct launch_watch_bench bench;
    struct err err = {0};
    bench_open(&bench);
    set(&bench, 0, HEARTBEAT_WAITING, 1, 4);
    assert_true(pass(&bench, STUCK_S - 2, -1, &err));
    bench.now_s += 1000;
    assert_true(pass(&bench, 1, -1, &err));
    bench_close(&bench);
}

static void who_ended_well_is_not_waited_for(void **state)
{
    (void)state;
    struct launch_watch_bench bench;
    struct err err = {0};
    bench_open(&bench);
    set(&bench, 0, HEARTBEAT_DONE, 8, 9);
    set(&bench, 1, HEARTBEAT_WORKING, 8, 9);
    set(&bench, 2, HEARTBEAT_DONE, 8, 9);
    heartbeat_end(bench.page, 0, 0, false);
    assert_true(pass(&bench, 5 * STUCK_S, 1, &err));
    assert_false(launch_watch_all_ended(&bench.watch));
    bench_close(&bench);
}

// The first event is reported, whatever comes of it on the others.
static void the_first_that_fails_is_reported(void **state)
{
    (void)state;
    struct launch_watch_bench bench;
    struct err err = {0};
    bench_open(&bench);
    for (int rank = 0; rank < RANK_COUNT; rank++)
        set(&bench, rank, HEARTBEAT_WORKING, 3, 5);
    heartbeat_end(bench.page, 2, SIGSEGV, false);
    heartbeat_fail(bench.page, 0, "rank 2 is gone");
    heartbeat_end(bench.page, 0, 4 << 8, false);
    heartbeat_end(bench.page, 1, SIGKILL, true);
    assert_false(pass(&bench, 0.1, -1, &err));
    assert_string_equal(err.text, "rank 2 was killed (signal 11) in step 3, at task 5");
    bench_close(&bench);
}

// A rank that misses another says so before that one's end has come round.
static void a_killed_rank_explains_others_that_fail(void **state)
{
    (void)state;
    struct launch_watch_bench bench;
    struct err err = {0};
    bench_open(&bench);
    for (int rank = 0; rank < RANK_COUNT; rank++)
        set(&bench, rank, HEARTBEAT_WORKING, 3, 5);
    heartbeat_fail(bench.page, 0, "rank 2 is gone");
    assert_true(pass(&bench, 0.3, -1, &err));
    heartbeat_end(bench.page, 2, SIGKILL, false);
    assert_false(pass(&bench, 0.1, -1, &err));
    assert_string_equal(err.text, "rank 2 was killed (signal 9) in step 3, at task 5");
    bench_close(&bench);
}

// Others that were ended for it explain nothing, and nobody is waited for longer than a second.
static void a_rank_that_fails_by_itself_is_reported(void **state)
{
    (void)state;
    for (int with_end = 0; with_end < 2; with_end++) {
        struct launch_watch_bench bench;
        struct err err = {0};
        bench_open(&bench);
        for (int rank = 0; rank < RANK_COUNT; rank++)
            set(&bench, rank, HEARTBEAT_WORKING, 3, 5);
        heartbeat_fail(bench.page, 0, "no memory");
        if (with_end) {
            heartbeat_end(bench.page, 0, 4 << 8, false);
            heartbeat_end(bench.page, 1, SIGTERM, false);
        }
        assert_int_equal(pass(&bench, 0.5, -1, &err), !with_end);
        if (!with_end) assert_false(pass(&bench, 1, -1, &err));
        assert_string_equal(err.text, "rank 0 failed in step 3, at task 5: no memory");
        bench_close(&bench);
    }
}

// What a rank did last, what it said, how it ended.
static void failures_say_where_and_why(void **state)
{
    (void)state;
    static const struct {
        enum heartbeat_state state;
        int step, status;
        const char *task, *reason, *expected;
        enum err_kind failed;  // of the rank that said so
        bool is_input;         // so is the line
    } CASES[] = {
        // Of every rank: the command's own line. Once it trains it is this rank's.
        {HEARTBEAT_STARTING, 0, 0, "weights", "--resume: no checkpoint in there",
         "--resume: no checkpoint in there", ERR_INPUT, true},
        {HEARTBEAT_WORKING, 0, 0, "", "--steps 3: nothing is left", "--steps 3: nothing is left",
         ERR_USAGE, true},
        {HEARTBEAT_WORKING, 0, 0, "", "it broke", "rank 1 failed in step 0: it broke", ERR_SYSTEM,
         false},
        {HEARTBEAT_WORKING, 1, 0, "read", "a: damaged",
         "rank 1 failed in step 1, at read: a: damaged", ERR_INPUT, false},
        {HEARTBEAT_STARTING, 0, 3 << 8, "", "a: damaged",
         "rank 1 ended with status 3 while starting", ERR_INPUT, false},
        {HEARTBEAT_STARTING, 0, SIGBUS, "", "", "rank 1 was killed (signal 7) while starting",
         ERR_SYSTEM, false},
        {HEARTBEAT_STARTING, 0, 3 << 8, "weights", "",
         "rank 1 ended with status 3 in step 0, at weights", ERR_SYSTEM, false},
        {HEARTBEAT_DONE, 9, 1 << 8, "update", "", "rank 1 ended with status 1 after its last step",
         ERR_SYSTEM, false},
        {HEARTBEAT_WORKING, 2, SIGFPE, "", "", "rank 1 was killed (signal 8) in step 2", ERR_SYSTEM,
         false},
        {HEARTBEAT_WAITING, 2, 5 << 8, "send", "",
         "rank 1 ended with status 5 in step 2, waiting at send", ERR_SYSTEM, false},
        {HEARTBEAT_WORKING, 2, 0, "send", "no such file",
         "rank 1 failed in step 2, at send: no such file", ERR_SYSTEM, false},
        {HEARTBEAT_WORKING, 2, SIGKILL, "send", "rank 1 ran out of memory (1 GiB of 2)",
         "rank 1 ran out of memory (1 GiB of 2) in step 2, at send", ERR_SYSTEM, false},
        {HEARTBEAT_WORKING, 2, 0, "send", "rank 1 ran out of memory in step 2, at send",
         "rank 1 ran out of memory in step 2, at send", ERR_SYSTEM, false},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct launch_watch_bench bench;
        struct err err = {0};
        bench_open(&bench);
        struct heartbeat *heartbeat = heartbeat_of(bench.page, 1);
        set(&bench, 1, CASES[i].state, CASES[i].step, 0);
        snprintf(heartbeat->task_name, sizeof heartbeat->task_name, "%s", CASES[i].task);
        snprintf(heartbeat->reason, sizeof heartbeat->reason, "%s", CASES[i].reason);
        atomic_store(&heartbeat->end_status, CASES[i].status);
        atomic_store(&heartbeat->fail_kind, (int)CASES[i].failed);
        assert_false(launch_watch_report(heartbeat, 1, CASES[i].status != 0, &err));
        assert_string_equal(err.text, CASES[i].expected);
        assert_int_equal(err.kind, CASES[i].is_input ? CASES[i].failed : ERR_SYSTEM);
        bench_close(&bench);
    }
}

// Who said first that it failed is named, whatever its place; of one that said so and then ended,
// that it failed.
static void of_several_that_fail_the_first_is_named(void **state)
{
    (void)state;
    for (int first = 0; first < RANK_COUNT; first++) {
        struct launch_watch_bench bench;
        struct err err = {0};
        bench_open(&bench);
        for (int i = 0; i < RANK_COUNT; i++) {
            int rank = (first + i) % RANK_COUNT;
            set(&bench, rank, HEARTBEAT_WORKING, 3, 5);
            heartbeat_fail(bench.page, rank, "it broke");
            heartbeat_end(bench.page, rank, 4 << 8, false);
        }
        assert_false(pass(&bench, 0.1, -1, &err));
        char expected[80];
        snprintf(expected, sizeof expected, "rank %d failed in step 3, at task 5: it broke", first);
        assert_string_equal(err.text, expected);
        assert_true(bench.watch.may_follow);
        bench_close(&bench);
    }
}

static void a_rank_that_ends_by_itself_follows_from_nothing(void **state)
{
    (void)state;
    struct launch_watch_bench bench;
    struct err err = {0};
    bench_open(&bench);
    set(&bench, 2, HEARTBEAT_WORKING, 3, 5);
    heartbeat_end(bench.page, 2, 4 << 8, false);
    assert_false(pass(&bench, 0.1, -1, &err));
    assert_string_equal(err.text, "rank 2 ended with status 4 in step 3, at task 5");
    assert_false(bench.watch.may_follow);
    assert_false(launch_watch_all_ended(&bench.watch));
    heartbeat_end(bench.page, 0, 0, false);
    heartbeat_end(bench.page, 1, 0, false);
    assert_true(launch_watch_all_ended(&bench.watch));
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_moves_may_take_any_time),
        cmocka_unit_test(who_stands_still_while_others_wait_is_stuck),
        cmocka_unit_test(who_works_long_while_nobody_waits_is_not_stuck),
        cmocka_unit_test(ranks_that_all_wait_are_told_from_each_other),
        cmocka_unit_test(who_was_stopped_while_waiting_is_named),
        cmocka_unit_test(who_was_stopped_for_a_moment_may_go_on),
        cmocka_unit_test(who_computes_on_a_busy_host_gets_the_time),
        cmocka_unit_test(ranks_of_one_node_of_several_wait_longer),
        cmocka_unit_test(who_was_stopped_is_named_though_others_move),
        cmocka_unit_test(a_late_look_blames_nobody),
        cmocka_unit_test(who_ended_well_is_not_waited_for),
        cmocka_unit_test(the_first_that_fails_is_reported),
        cmocka_unit_test(a_killed_rank_explains_others_that_fail),
        cmocka_unit_test(a_rank_that_fails_by_itself_is_reported),
        cmocka_unit_test(failures_say_where_and_why),
        cmocka_unit_test(of_several_that_fail_the_first_is_named),
        cmocka_unit_test(a_rank_that_ends_by_itself_follows_from_nothing),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
