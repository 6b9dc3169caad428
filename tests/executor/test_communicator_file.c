#include "core/progress.h"
#include "executor/rendezvous_folder.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// Ranks that meet by files: what one tells the others get, once, of the right telling, and what is
// waited for in vain ends.

enum { RANK_COUNT = 4, WORDS = 16, ROUND_COUNT = 5 };

static struct rank_job job_of(const struct backend *backend, int rank_count)
{
    return (struct rank_job){
        .rank_count = rank_count,
        .meets_by_files = true,
        .request = {.backend = backend, .meet_s = 20},
        .open = communicator_file,
    };
}

static int64_t word_of(int rank, int round, int which, int word)
{
    return rank * 1000003 + round * 1009 + which * 101 + word;
}

// Three groups of the same ranks under one name, and a smaller one: what is gathered in one is
// never found in another, nor in the next round.
static bool gather(const struct transport *transport, struct communicator *communicator, int rank,
                   void *context)
{
    static const int ALL[RANK_COUNT] = {0, 1, 2, 3}, ODD[2] = {1, 3};
    struct group *groups[4] = {NULL};
    int group_count = rank % 2 ? 4 : 3;
    (void)context;
    for (int g = 0; g < group_count; g++)
        RANK_OK(transport->group(communicator, g < 3 ? ALL : ODD, g < 3 ? RANK_COUNT : 2, "all",
                                 &groups[g]));
    for (int round = 0; round < ROUND_COUNT; round++) {
        for (int g = 0; g < group_count; g++) {
            int64_t mine[WORDS], all[RANK_COUNT * WORDS] = {0};
            int count = g < 3 ? RANK_COUNT : 2;
            for (int i = 0; i < WORDS; i++)
                mine[i] = word_of(rank, round, g, i);
            RANK_OK(transport->host_gather(groups[g], mine, all, WORDS));
            for (int i = 0; i < count * WORDS; i++) {
                int member = g < 3 ? i / WORDS : ODD[i / WORDS];
                RANK_CHECK(all[i] == word_of(member, round, g, i % WORDS),
                           "round %d, group %d, word %d is %lld", round, g, i, (long long)all[i]);
            }
        }
    }
    return true;
}

static void members_gather_what_each_says(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, false);
    struct rank_job job = job_of(&backend, RANK_COUNT);
    job.body = gather;
    assert_true(rank_job_run(&job));
}

// Several on a channel, both ways, received in another order than the channels were sent in.
static bool exchange(const struct transport *transport, struct communicator *communicator, int rank,
                     void *context)
{
    float data[WORDS];
    (void)context;
    for (int message = 0; message < 6; message++) {
        for (int i = 0; i < WORDS; i++)
            data[i] = (float)(rank * 1000 + message * 100 + i);
        RANK_OK(transport->send(communicator, STREAM_PP, ELEMENT_FP32, 1 - rank, message % 2, data,
                                WORDS));
    }
    for (int turn = 0; turn < 6; turn++) {
        int channel = turn < 3 ? 1 : 0, message = channel + 2 * (turn % 3);
        RANK_OK(transport->receive(communicator, STREAM_PP, ELEMENT_FP32, 1 - rank, channel, data,
                                   WORDS));
        for (int i = 0; i < WORDS; i++)
            RANK_CHECK(data[i] == (float)((1 - rank) * 1000 + message * 100 + i), "%d: %g", turn,
                       (double)data[i]);
    }
    return true;
}

static void messages_of_a_channel_come_in_their_order(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, false);
    struct rank_job job = job_of(&backend, 2);
    job.body = exchange;
    assert_true(rank_job_run(&job));
}

static bool send_too_little(const struct transport *transport, struct communicator *communicator,
                            int rank, void *context)
{
    float numbers[4] = {0};
    (void)context;
    if (rank == 0) return !transport->send(communicator, STREAM_PP, ELEMENT_FP32, 1, 0, numbers, 4);
    const char *failure =
        transport->receive(communicator, STREAM_PP, ELEMENT_FP32, 0, 0, numbers, 2);
    RANK_CHECK(failure, "a message of another size");
    return true;
}

static bool wait_in_vain(const struct transport *transport, struct communicator *communicator,
                         int rank, void *context)
{
    struct group *group;
    int64_t mine = 1, all[2];
    (void)context;
    if (rank == 1) return true;
    RANK_OK(transport->group(communicator, (int[]){0, 1}, 2, "all", &group));
    const char *failure = transport->host_gather(group, &mine, all, 1);
    RANK_CHECK(failure && strncmp(failure, "rank 1 did not come to /tmp/", 28) == 0 &&
                   strstr(failure, " within 0 s"),
               "%s", failure ? failure : "nothing");
    RANK_CHECK(!transport->was_told(communicator), "it is its own failure");
    const char *later = transport->host_gather(group, &mine, all, 1);
    RANK_CHECK(later && strcmp(later, failure) == 0, "%s", later ? later : "nothing");
    return true;
}

static void a_wait_for_a_rank_that_does_not_come_ends(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, false);
    struct rank_job job = job_of(&backend, 2);
    job.request.meet_s = 0.3;
    job.body = wait_in_vain;
    assert_true(rank_job_run(&job));
    // The size is that of the file, which is there at once but cannot be read whole: in vain.
    job.body = send_too_little;
    assert_true(rank_job_run(&job));
}

static bool give_up(const struct transport *transport, struct communicator *communicator, int rank,
                    void *context)
{
    struct group *group;
    int64_t mine = 1, all[3];
    (void)context;
    RANK_OK(transport->group(communicator, (int[]){0, 1, 2}, 3, "all", &group));
    if (rank == 1) {
        transport->abort(communicator, "rank 1 has no memory");
        RANK_CHECK(!transport->was_told(communicator), "it is its own failure");
        return true;
    }
    double begin_s = clock_s();
    const char *failure = transport->host_gather(group, &mine, all, 1);
    RANK_CHECK(failure && strcmp(failure, "rank 1 has no memory") == 0, "%s",
               failure ? failure : "nothing");
    RANK_CHECK(transport->was_told(communicator), "it is rank 1's failure");
    RANK_CHECK(clock_s() - begin_s < 10, "it took %g s", clock_s() - begin_s);
    return true;
}

static void an_abort_ends_ranks_that_wait(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, false);
    struct rank_job job = job_of(&backend, 3);
    job.body = give_up;
    assert_true(rank_job_run(&job));
}

static bool lose_the_folder(const struct transport *transport, struct communicator *communicator,
                            int rank, void *context)
{
    struct group *group;
    int64_t mine = 1, all[2];
    (void)rank, (void)context;
    RANK_OK(transport->group(communicator, (int[]){0, 1}, 2, "all", &group));
    const char *failure = transport->host_gather(group, &mine, all, 1);
    RANK_CHECK(failure && strcmp(failure, "rank 1: cannot write in /nowhere: No such file or "
                                          "directory") == 0,
               "%s", failure ? failure : "nothing");
    return true;
}

static void a_folder_that_is_not_there_is_told(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, false);
    struct communicator *communicator;
    struct err err = {0};
    struct communicator_request request = {
        .backend = &backend, .rank = 1, .rank_count = 2, .meeting = "/nowhere", .meet_s = 0.2};
    const struct transport *transport = communicator_file(&request, &communicator, &err);
    assert_true(lose_the_folder(transport, communicator, 1, NULL));
    transport->close(communicator);
}

// Whole or not at all, the first of several for good, and nothing but the files stays.
static void files_are_whole_and_first_ones_stay(void **state)
{
    (void)state;
    struct err err = {0};
    char folder[] = "/tmp/meshwright-files-XXXXXX", data[8] = "";
    size_t bytes = 0;
    assert_non_null(mkdtemp(folder));
    assert_false(folder_get(folder, "a", data, sizeof data, &bytes));
    assert_true(folder_put(folder, "a", "one", 3, &err));
    assert_true(folder_put(folder, "a", "other", 5, &err));
    assert_true(folder_get(folder, "a", data, sizeof data, &bytes));
    assert_int_equal(bytes, 5);
    assert_memory_equal(data, "other", 5);
    assert_false(folder_get(folder, "a", data, 4, &bytes));
    assert_true(folder_get(folder, "a", data, 5, &bytes));
    assert_true(folder_put_first(folder, "b", "", 0, &err));
    assert_true(folder_put_first(folder, "b", "late", 4, &err));
    assert_true(folder_get(folder, "b", data, sizeof data, &bytes));
    assert_int_equal(bytes, 0);
    folder_remove(folder, "a");
    folder_remove(folder, "b");
    assert_int_equal(rmdir(folder), 0);
    assert_string_equal(err.text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_gather_what_each_says),
        cmocka_unit_test(messages_of_a_channel_come_in_their_order),
        cmocka_unit_test(a_wait_for_a_rank_that_does_not_come_ends),
        cmocka_unit_test(an_abort_ends_ranks_that_wait),
        cmocka_unit_test(a_folder_that_is_not_there_is_told),
        cmocka_unit_test(files_are_whole_and_first_ones_stay),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
