#include "executor/launcher/launch.h"
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

// Guards of ranks that another launcher started: what a rank comes to, what its guard says of it,
// and with which code it ends. Each case is a process that enters, and so becomes a guard and its
// rank, which acts; the guard sends what it says through a pipe.

struct guard_said {
    int exit_code;
    char text[200];
};

struct rank {
    struct heartbeat_page *page;
    int rank;
};

static void finish(const struct rank *of, int code)
{
    atomic_store(&heartbeat_of(of->page, of->rank)->state, HEARTBEAT_DONE);
    _exit(code);
}

static void tell(const struct rank *of, enum launch_standing standing, enum err_kind kind,
                 const char *text)
{
    struct err err = {0};
    (void)err_set(&err, kind, "%s", text);
    launch_tell(of->page, of->rank, standing, &err);
    if (err.kind) _exit(99);  // it is said: nobody says it again
}

static void ends_well(const struct rank *of)
{
    finish(of, 0);
}
static void ends_well_with_a_code(const struct rank *of)
{
    finish(of, 5);
}
static void ends_early(const struct rank *of)
{
    (void)of;
    _exit(3);
}
static void is_killed(const struct rank *of)
{
    (void)of;
    raise(SIGKILL);
}
static void fails_first(const struct rank *of)
{
    tell(of, LAUNCH_FIRST, ERR_SYSTEM, "no link");
    _exit(4);
}
static void fails_by_usage(const struct rank *of)
{
    tell(of, LAUNCH_FIRST, ERR_USAGE, "--bad: no");
    _exit(2);
}
static void fails_by_input(const struct rank *of)
{
    tell(of, LAUNCH_FIRST, ERR_INPUT, "x.json: no");
    _exit(3);
}
static void fails_alone(const struct rank *of)
{
    tell(of, LAUNCH_ALONE, ERR_USAGE, "--alone: no");
    _exit(2);
}
// The job ends meanwhile.
static void fails_alone_and_is_ended(const struct rank *of)
{
    tell(of, LAUNCH_ALONE, ERR_USAGE, "--alone: no");
    kill(getppid(), SIGTERM);
    pause();
}
static void was_told_and_is_ended(const struct rank *of)
{
    tell(of, LAUNCH_TOLD, ERR_USAGE, "--told: no");
    kill(getppid(), SIGTERM);
    pause();
}
static void fails_first_and_is_ended(const struct rank *of)
{
    tell(of, LAUNCH_FIRST, ERR_USAGE, "--first: no");
    kill(getppid(), SIGTERM);
    pause();
}
static void works_and_is_ended(const struct rank *of)
{
    (void)of;
    kill(getppid(), SIGTERM);
    pause();
}
static void works_and_the_job_ends(const struct rank *of)
{
    heartbeat_page_end_job(of->page);
    pause();
}

static const struct rank *saving;
static void save(int signal)
{
    (void)signal;
    finish(saving, 7);
}
static void saves_and_ends(const struct rank *of)
{
    saving = of;
    signal(SIGTERM, save);
    atomic_store(&heartbeat_of(of->page, of->rank)->saves, 1);
    kill(getppid(), SIGTERM);
    pause();
    pause();
}
// Asked twice it is ended.
static void saves_for_ever(const struct rank *of)
{
    signal(SIGTERM, SIG_IGN);
    atomic_store(&heartbeat_of(of->page, of->rank)->saves, 1);
    kill(getppid(), SIGTERM);
    usleep(200000);
    kill(getppid(), SIGTERM);
    pause();
}

static struct guard_said said_of(int rank, void (*acts)(const struct rank *of))
{
    struct guard_said said = {.exit_code = -1};
    int ends[2];
    assert_return_code(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        const struct launch_place place = {.is_launched = true, .rank = rank, .rank_count = 3};
        struct rank of = {.rank = rank};
        struct err err = {0};
        alarm(20);
        if (launch_enter(&place, &of.page, &said.exit_code, &err)) acts(&of);
        (void)snprintf(said.text, sizeof said.text, "%.*s", (int)sizeof said.text - 1, err.text);
        _exit(write(ends[1], &said, sizeof said) != sizeof said);
    }
    close(ends[1]);
    ssize_t count = read(ends[0], &said, sizeof said);
    close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(count, sizeof said);
    return said;
}

struct guarded {
    int rank;
    void (*acts)(const struct rank *of);
    int exit_code;
    const char *text;  // how it begins
};

static const struct guarded GUARDED[] = {
    {0, ends_well, 0, ""},
    {1, ends_well_with_a_code, 5, ""},
    {1, ends_early, ERR_SYSTEM, "rank 1 ended with status 3"},
    {2, is_killed, ERR_SYSTEM, "rank 2 was killed (signal 9)"},
    {1, fails_first, ERR_SYSTEM, "rank 1 failed"},
    {1, fails_by_usage, ERR_USAGE, "--bad: no"},
    {2, fails_by_input, ERR_INPUT, "x.json: no"},
    {0, fails_alone, ERR_USAGE, "--alone: no"},
    {1, fails_alone_and_is_ended, ERR_SYSTEM, ""},
    {0, was_told_and_is_ended, ERR_SYSTEM, ""},
    {1, fails_first_and_is_ended, ERR_USAGE, "--first: no"},
    {0, works_and_is_ended, ERR_SYSTEM, ""},
    {1, works_and_the_job_ends, ERR_SYSTEM, ""},
    {1, saves_and_ends, 7, ""},
    {0, saves_for_ever, ERR_SYSTEM, ""},
};

static void guards_say_what_their_ranks_came_to(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof GUARDED / sizeof *GUARDED; i++) {
        const struct guarded *of = &GUARDED[i];
        const struct guard_said said = said_of(of->rank, of->acts);
        size_t length = strlen(of->text);
        bool is_it = said.exit_code == of->exit_code && strncmp(said.text, of->text, length) == 0 &&
                     (length > 0 || said.text[0] == '\0');
        if (!is_it) fail_msg("case %zu: code %d, \"%s\"", i, said.exit_code, said.text);
    }
}

static void who_was_not_launched_has_no_guard(void **state)
{
    const struct launch_place place = {.is_launched = false};
    struct heartbeat_page *page = (void *)state;
    struct err err = {0};
    int exit_code = -1;
    assert_true(launch_enter(&place, &page, &exit_code, &err));
    assert_null(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guards_say_what_their_ranks_came_to),
        cmocka_unit_test(who_was_not_launched_has_no_guard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
