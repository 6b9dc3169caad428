#include "executor/rendezvous.h"
#include "executor/rendezvous_folder.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Launchers that meet by files, or find out why not. Guests are forked; what they say comes back in
// a pipe. What earlier jobs have left in the folder changes nothing.

enum { TEXT_BYTES = 1024, FOLDER_BYTES = 64 };

static const char *folder_make(char folder[FOLDER_BYTES])
{
    snprintf(folder, FOLDER_BYTES, "/tmp/meshwright-meet-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return folder;
}

static int count_files(const char *folder)
{
    int count = 0;
    DIR *opened = opendir(folder);
    for (struct dirent *entry; opened && (entry = readdir(opened));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (opened) closedir(opened);
    return count;
}

static struct rendezvous_request request_of(const char *folder, int node, int node_count)
{
    return (struct rendezvous_request){.folder = folder,
                                       .job = "job",
                                       .node = node,
                                       .node_count = node_count,
                                       .rank_count = 7,
                                       .plan_key = 3,
                                       .options_key = 4,
                                       .timeout_s = 20};
}

struct guest {
    pid_t process;
    int answer;
};

// What comes of it: the error, or where they have met and with which ranks.
static void describe(const struct rendezvous *met, const struct err *err, char *text)
{
    snprintf(text, TEXT_BYTES, "%.1023s", err->text);
    if (!err->kind)
        snprintf(text, TEXT_BYTES, "%.900s %d+%d", met->folder, met->first_rank, met->own_count);
}

static struct guest guest_start(const struct rendezvous_request *request)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    struct guest guest = {.process = fork(), .answer = ends[0]};
    assert_true(guest.process >= 0);
    if (guest.process == 0) {
        struct err err = {0};
        struct rendezvous met;
        char text[TEXT_BYTES] = "";
        alarm(60);
        bool is_well = rendezvous_meet(request, &met, &err);
        describe(&met, &err, text);
        rendezvous_close(&met);
        _exit(write(ends[1], text, sizeof text) == sizeof text && is_well ? 0 : 1);
    }
    close(ends[1]);
    return guest;
}

static bool guest_end(struct guest *guest, char *text)
{
    int status = 0;
    text[0] = '\0';
    for (ssize_t length = 0, got; length < TEXT_BYTES; length += got) {
        got = read(guest->answer, text + length, (size_t)(TEXT_BYTES - length));
        if (got <= 0) break;
    }
    close(guest->answer);
    waitpid(guest->process, &status, 0);
    return status == 0;
}

static void all_nodes_meet_in_one_folder_that_goes_at_the_end(void **state)
{
    (void)state;
    char folder[FOLDER_BYTES], expected[TEXT_BYTES], found[TEXT_BYTES];
    struct rendezvous met;
    struct err err = {0};
    struct guest guests[2];
    folder_make(folder);
    for (int node = 1; node < 3; node++) {
        struct rendezvous_request request = request_of(folder, node, 3);
        guests[node - 1] = guest_start(&request);
    }
    struct rendezvous_request request = request_of(folder, 0, 3);
    bool is_well = rendezvous_meet(&request, &met, &err);
    assert_string_equal(err.text, "");
    assert_true(is_well);
    // Of seven ranks two, two and three.
    assert_int_equal(met.own_count, 2);
    for (int i = 0; i < 2; i++) {
        snprintf(expected, sizeof expected, "%.900s %s", met.folder, i == 0 ? "2+2" : "4+3");
        assert_true(guest_end(&guests[i], found));
        assert_string_equal(found, expected);
    }
    assert_int_equal(strncmp(met.folder, folder, strlen(folder)), 0);
    assert_true(folder_put(met.folder, "something", "here", 4, &err));
    rendezvous_close(&met);
    assert_int_equal(count_files(folder), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void ranks_are_divided_as_evenly_as_can_be(void **state)
{
    (void)state;
    for (int nodes = 1; nodes <= 9; nodes++) {
        for (int ranks = nodes; ranks < 40; ranks++) {
            assert_int_equal(rendezvous_first_rank(ranks, nodes, 0), 0);
            assert_int_equal(rendezvous_first_rank(ranks, nodes, nodes), ranks);
            for (int node = 0; node < nodes; node++) {
                int own = rendezvous_first_rank(ranks, nodes, node + 1) -
                          rendezvous_first_rank(ranks, nodes, node);
                assert_in_range(own, ranks / nodes, (ranks + nodes - 1) / nodes);
            }
        }
    }
}

static void check_alone(const struct rendezvous_request *request, const char *line)
{
    struct rendezvous met;
    struct err err = {0};
    assert_false(rendezvous_meet(request, &met, &err));
    rendezvous_close(&met);
    assert_string_equal(err.text, line);
    assert_int_equal(err.kind, ERR_SYSTEM);
}

static void who_does_not_come_is_named(void **state)
{
    (void)state;
    char folder[FOLDER_BYTES], line[200];
    struct rendezvous_request request = request_of(folder_make(folder), 0, 2);
    request.timeout_s = 0.2;
    snprintf(line, sizeof line, "node 1 did not come to %s within 0 s (job job)", folder);
    check_alone(&request, line);
    request.node = 1;
    request.timeout_s = -4.8;  // a guest waits 5 s longer
    snprintf(line, sizeof line, "node 0 did not come to %s within -5 s (job job)", folder);
    check_alone(&request, line);
    request.folder = "/nowhere";
    check_alone(&request, "cannot write in /nowhere: No such file or directory");
    request.node = 0;
    check_alone(&request, "cannot write in /nowhere: No such file or directory");
    folder_remove_all(folder);
}

// One that comes with something else; it and node 0 are told the same.
static void check_refused(struct rendezvous_request odd, const char *line)
{
    char folder[FOLDER_BYTES], text[TEXT_BYTES];
    struct rendezvous met;
    struct err err = {0};
    odd.folder = folder_make(folder);
    struct rendezvous_request host = request_of(folder, 0, 3);
    struct guest guest = guest_start(&odd);
    assert_false(rendezvous_meet(&host, &met, &err));
    rendezvous_close(&met);
    if (!strstr(err.text, line)) fail_msg("'%s', wanted '%s'", err.text, line);
    assert_false(guest_end(&guest, text));
    assert_string_equal(text, err.text);
    folder_remove_all(folder);
}

static void nodes_with_something_else_are_named(void **state)
{
    (void)state;
    char name[64] = "", line[160];
    gethostname(name, sizeof name - 1);
    struct rendezvous_request odd = request_of(NULL, 2, 3);
    odd.plan_key = 9;
    snprintf(line, sizeof line, "node 2 (%s) has another plan than node 0", name);
    check_refused(odd, line);
    odd = request_of(NULL, 2, 3);
    odd.rank_count = 8;
    check_refused(odd, line);
    odd = request_of(NULL, 1, 3);
    odd.options_key = 9;
    check_refused(odd, "was started with other options than node 0");
    odd = request_of(NULL, 2, 4);
    check_refused(odd, "was started with --node-count 4, node 0 with 3");
}

// One of the two ends, whichever of them is not the one that the others know.
static void a_node_that_is_there_twice_is_named(void **state)
{
    (void)state;
    char folder[FOLDER_BYTES], texts[2][TEXT_BYTES];
    struct rendezvous_request twice = request_of(folder_make(folder), 1, 2);
    twice.timeout_s = -3;  // a guest waits 5 s longer
    struct guest guests[2] = {guest_start(&twice), guest_start(&twice)};
    int named = 0;
    for (int i = 0; i < 2; i++) {
        assert_false(guest_end(&guests[i], texts[i]));
        named += strstr(texts[i], "node 1 is there twice in ") != NULL;
    }
    assert_true(named >= 1);
    folder_remove_all(folder);
}

// Files as they stay when processes are killed: what node 0 of an earlier job has said, its
// verdict, and a guest's answer to it.
static void leave_stale_files(const char *folder)
{
    struct rendezvous_request host = request_of(folder, 0, 2), guest = request_of(folder, 1, 2);
    struct rendezvous met;
    struct err err = {0};
    char name[FOLDER_BYTES], text[TEXT_BYTES];
    struct guest come = guest_start(&guest);
    assert_true(rendezvous_meet(&host, &met, &err));
    assert_true(guest_end(&come, text));
    free(met.names);  // and no close: it was killed
    struct guest late = guest_start(&guest);
    snprintf(name, sizeof name, "%s/job.1", folder);
    for (int i = 0; i < 500 && access(name, F_OK) != 0; i++)
        usleep(10000);
    usleep(300000);
    kill(late.process, SIGKILL);
    guest_end(&late, text);
    static const char *const NAMES[] = {"job.0", "job.1", "job.go"};
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s/%s", folder, NAMES[i]);
        assert_int_equal(access(name, F_OK), 0);
    }
}

static void what_an_earlier_job_has_left_is_never_taken(void **state)
{
    (void)state;
    char folder[FOLDER_BYTES], line[200], text[TEXT_BYTES], first[PATH_MAX];
    struct rendezvous met;
    struct err err = {0};
    leave_stale_files(folder_make(folder));
    struct rendezvous_request guest = request_of(folder, 1, 2), host = request_of(folder, 0, 2);
    guest.timeout_s = -4.5;
    snprintf(line, sizeof line, "node 0 did not come to %s within -4 s (job job)", folder);
    check_alone(&guest, line);
    leave_stale_files(folder);
    host.timeout_s = 0.5;
    snprintf(line, sizeof line, "node 1 did not come to %s within 0 s (job job)", folder);
    check_alone(&host, line);
    // Those that come now meet all the same, in either order, and somewhere else than before.
    for (int turn = 0; turn < 4; turn++) {
        leave_stale_files(folder);
        host = request_of(folder, 0, 2);
        guest = request_of(folder, 1, 2);
        struct guest come = {0};
        if (turn % 2) come = guest_start(&guest);
        if (turn % 2) usleep(200000);
        struct guest other = turn % 2 ? (struct guest){0} : guest_start(&guest);
        if (!(turn % 2)) come = other;
        bool is_well = rendezvous_meet(&host, &met, &err);
        assert_string_equal(err.text, "");
        assert_true(is_well);
        assert_true(guest_end(&come, text));
        assert_int_equal(strncmp(text, met.folder, strlen(met.folder)), 0);
        if (turn > 0) assert_string_not_equal(met.folder, first);
        snprintf(first, sizeof first, "%s", met.folder);
        rendezvous_close(&met);
    }
    folder_remove_all(folder);
}

static void jobs_of_two_names_meet_in_one_folder(void **state)
{
    (void)state;
    char folder[FOLDER_BYTES], texts[2][2][TEXT_BYTES];
    static const char *const JOBS[] = {"a", "slurm-77.0"};
    struct guest nodes[2][2];
    folder_make(folder);
    for (int node = 1; node >= 0; node--) {
        for (int job = 0; job < 2; job++) {
            struct rendezvous_request request = request_of(folder, node, 2);
            request.job = JOBS[job];
            request.plan_key = (uint64_t)job;
            nodes[job][node] = guest_start(&request);
        }
    }
    for (int job = 0; job < 2; job++) {
        for (int node = 0; node < 2; node++)
            assert_true(guest_end(&nodes[job][node], texts[job][node]));
        size_t length = strcspn(texts[job][0], " ");
        assert_int_equal(strncmp(texts[job][0], texts[job][1], length + 1), 0);
    }
    assert_string_not_equal(texts[0][0], texts[1][0]);
    assert_int_equal(count_files(folder), 0);
    folder_remove_all(folder);
}

// The head of what a node says, alike in all versions; here of the next one.
struct note_head {
    char magic[8];
    int32_t version, node;
    unsigned char own[16], echo[16];
};

static void another_version_is_told_apart(void **state)
{
    (void)state;
    char folder[FOLDER_BYTES], text[TEXT_BYTES];
    struct rendezvous_request request = request_of(folder_make(folder), 0, 2);
    struct guest host = guest_start(&request);
    struct note_head head = {0}, mine = {"meshwri", RENDEZVOUS_VERSION + 1, 1, {1, 2, 3}, {0}};
    unsigned char said[4096];
    size_t bytes = 0;
    struct err err = {0};
    for (int i = 0; i < 500 && !folder_get(folder, "job.0", said, sizeof said, &bytes); i++)
        usleep(10000);
    assert_true(bytes > sizeof head);
    memcpy(&head, said, sizeof head);
    memcpy(mine.echo, head.own, sizeof mine.echo);
    assert_true(folder_put(folder, "job.1", &mine, sizeof mine, &err));
    assert_false(guest_end(&host, text));
    assert_string_equal(text, "node 1 is of another version of this program than node 0");
    folder_remove_all(folder);
}

static void what_is_no_answer_is_not_taken_for_one(void **state)
{
    (void)state;
    char folder[FOLDER_BYTES], text[TEXT_BYTES];
    struct rendezvous_request request = request_of(folder_make(folder), 0, 2), late = request;
    struct err err = {0};
    assert_true(folder_put(folder, "job.0", "short", 5, &err));
    assert_true(folder_put(folder, "job.1", "", 0, &err));
    assert_true(folder_put(folder, "job.go", folder, sizeof folder, &err));
    struct guest host = guest_start(&request);
    late.node = 1;
    struct guest guest = guest_start(&late);
    assert_true(guest_end(&guest, text));
    assert_true(guest_end(&host, text));
    folder_remove_all(folder);
}

static void a_signal_ends_the_wait(void **state)
{
    (void)state;
    char folder[FOLDER_BYTES];
    struct rendezvous_request request = request_of(folder_make(folder), 0, 2);
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &before);
    raise(SIGTERM);
    check_alone(&request, "ended by a signal before all nodes had come");
    const struct timespec none = {0, 0};
    assert_int_equal(sigtimedwait(&signals, NULL, &none), SIGTERM);
    sigprocmask(SIG_SETMASK, &before, NULL);
    folder_remove_all(folder);
}

static void names_of_jobs_are_names_of_files(void **state)
{
    (void)state;
    static const char *const RIGHT[] = {"a", "slurm-12.0", "A_b-9."};
    static const char *const WRONG[] = {"", ".a", "a/b", "a b", "ä"};
    char longest[JOB_NAME_MAX + 2];
    for (size_t i = 0; i < sizeof RIGHT / sizeof *RIGHT; i++)
        assert_true(rendezvous_job_is_valid(RIGHT[i]));
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
        assert_false(rendezvous_job_is_valid(WRONG[i]));
    memset(longest, 'x', sizeof longest);
    longest[JOB_NAME_MAX + 1] = '\0';
    assert_false(rendezvous_job_is_valid(longest));
    longest[JOB_NAME_MAX] = '\0';
    assert_true(rendezvous_job_is_valid(longest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_nodes_meet_in_one_folder_that_goes_at_the_end),
        cmocka_unit_test(ranks_are_divided_as_evenly_as_can_be),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(nodes_with_something_else_are_named),
        cmocka_unit_test(a_node_that_is_there_twice_is_named),
        cmocka_unit_test(what_an_earlier_job_has_left_is_never_taken),
        cmocka_unit_test(jobs_of_two_names_meet_in_one_folder),
        cmocka_unit_test(another_version_is_told_apart),
        cmocka_unit_test(what_is_no_answer_is_not_taken_for_one),
        cmocka_unit_test(a_signal_ends_the_wait),
        cmocka_unit_test(names_of_jobs_are_names_of_files),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
