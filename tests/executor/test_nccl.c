#include "executor/communicators/plugin.h"
#include "executor/launcher/launch.h"
#include "executor/plugin.h"
#include "tests/support/draw.h"
#include "tests/support/emulated.h"
#include "tests/support/rank_sequence.h"
#include "tests/support/test.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

// The transport `nccl` on an emulation of NCCL that is here without a GPU (tests/gpu): our calls,
// their groups and their order, unequal parts, what waits and what fails. Nothing of NCCL itself.

static const enum precision COMPUTES[] = {PRECISION_FP32, PRECISION_BF16, PRECISION_FP16};

static struct rank_job job_of(const struct backend *backend, int rank_count)
{
    return (struct rank_job){
        .rank_count = rank_count,
        .request = {.backend = backend, .message_count = 2},
        .open = nccl_emulated,
    };
}

static bool sequence_passes(struct sequence *sequence, bool meets_by_files)
{
    struct backend backend = rank_backend_at(sequence->real_bytes, sequence->compute, false);
    struct rank_job job = job_of(&backend, sequence->rank_count);
    job.meets_by_files = meets_by_files;
    job.body = sequence_run;
    job.context = sequence;
    sequence->is_whole = true;
    return rank_job_run(&job);
}

static void operations_equal_plain_sums_on_one_to_eight_ranks(void **state)
{
    (void)state;
    struct draw draw = draw_start("nccl", 41);
    for (int ranks = 1; ranks <= SEQUENCE_RANK_MAX; ranks += ranks < 4 ? 1 : 4) {
        struct sequence sequence = {.real_bytes = 4,
                                    .rank_count = ranks,
                                    .group_count = ranks < 8 ? 5 : 2,
                                    .operation_count = ranks < 8 ? 80 : 30,
                                    .compute = COMPUTES[ranks % 3],
                                    .longest = 700,
                                    .seed = draw_bits(&draw)};
        assert_true(sequence_passes(&sequence, false));
    }
}

// Ids by files, numbers of the host over NCCL.
static void ranks_of_several_hosts_meet_by_files(void **state)
{
    (void)state;
    struct draw draw = draw_start("nccl by files", 43);
    for (int ranks = 2; ranks <= 5; ranks++) {
        struct sequence sequence = {.real_bytes = 4,
                                    .rank_count = ranks,
                                    .group_count = 4,
                                    .operation_count = 60,
                                    .compute = COMPUTES[ranks % 3],
                                    .longest = 400,
                                    .seed = draw_bits(&draw)};
        assert_true(sequence_passes(&sequence, true));
    }
}

// The program starts itself under mpirun: ids by MPI, between ranks that are treated as being on
// hosts of two each.
static int mpi_main(void)
{
    struct backend backend = rank_backend_at(4, PRECISION_BF16, false);
    struct launch_place place = launch_place_find();
    struct communicator *communicator;
    struct err err = {0};
    struct communicator_request request = {.kind = TRANSPORT_MPI,
                                           .backend = &backend,
                                           .rank = place.rank,
                                           .rank_count = place.rank_count,
                                           .message_count = 2};
    struct sequence sequence = {.real_bytes = 4,
                                .rank_count = place.rank_count,
                                .group_count = 4,
                                .operation_count = 60,
                                .compute = PRECISION_BF16,
                                .longest = 400,
                                .seed = 9,
                                .is_whole = true};
    const struct transport *transport = nccl_emulated(&request, &communicator, &err);
    if (!transport) fprintf(stderr, "# %s\n", err.text);
    bool is_well = transport && sequence_run(transport, communicator, place.rank, &sequence);
    if (is_well) transport->close(communicator);
    // Libraries that MPI has loaded leak; a sanitizer's word on them is not asked for.
    fflush(NULL);
    _exit(is_well ? 0 : 1);
}

static void ranks_of_several_hosts_meet_by_mpi(void **state)
{
    (void)state;
    bool is_there;
    if (!plugin_open("exec_mpi.so", RTLD_LAZY | RTLD_GLOBAL, &is_there) || !launch_finds_mpirun()) {
        printf("# no MPI here\n");
        return;
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char binary[4096] = "";
        ssize_t length = readlink("/proc/self/exe", binary, sizeof binary - 1);
        setenv("MESHWRIGHT_RANKS_PER_HOST", "2", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
        if (length > 0)
            execlp("mpirun", "mpirun", "--oversubscribe", "--bind-to", "none", "-n", "4", binary,
                   "mpi", (char *)NULL);
        _exit(99);
    }
    int status = 0;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

enum { MESSAGES = 9, MESSAGE_REALS = 3000 };

// Both send all of theirs before either receives: more than there are slots would wait for each
// other for ever, as many as that must not. What was sent is overwritten at once.
static bool send_first(const struct transport *transport, struct communicator *communicator,
                       int rank, void *context)
{
    float data[MESSAGE_REALS];
    (void)context;
    for (int message = 0; message < 2; message++) {
        for (int i = 0; i < MESSAGE_REALS; i++)
            data[i] = (float)(rank * 100 + message * 10 + i);
        RANK_OK(transport->send(communicator, STREAM_PP, ELEMENT_FP32, 1 - rank, message, data,
                                MESSAGE_REALS));
        RANK_OK(transport->send(communicator, STREAM_PP, ELEMENT_FP32, 1 - rank, message, data, 5));
        memset(data, 0x55, sizeof data);
    }
    // Channels may be received in another order than they were sent in.
    for (int message = 1; message >= 0; message--) {
        RANK_OK(transport->receive(communicator, STREAM_PP, ELEMENT_FP32, 1 - rank, message, data,
                                   MESSAGE_REALS));
        for (int i = 0; i < MESSAGE_REALS; i++)
            RANK_CHECK(data[i] == (float)((1 - rank) * 100 + message * 10 + i), "%d is %g", i,
                       (double)data[i]);
        RANK_OK(
            transport->receive(communicator, STREAM_PP, ELEMENT_FP32, 1 - rank, message, data, 5));
        RANK_CHECK(data[4] == (float)((1 - rank) * 100 + message * 10 + 4), "the second message");
    }
    return true;
}

static void sending_does_not_wait_for_the_receiver(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, false);
    struct rank_job job = job_of(&backend, 2);
    job.body = send_first;
    assert_true(rank_job_run(&job));
}

// The slots take turns: a sender that is far ahead waits for them.
static bool send_many(const struct transport *transport, struct communicator *communicator,
                      int rank, void *context)
{
    float data[MESSAGE_REALS];
    (void)context;
    for (int message = 0; message < MESSAGES; message++) {
        for (int i = 0; i < MESSAGE_REALS && rank == 0; i++)
            data[i] = (float)(message * 10000 + i);
        if (rank == 0)
            RANK_OK(
                transport->send(communicator, STREAM_PP, ELEMENT_FP32, 1, 7, data, MESSAGE_REALS));
        else
            RANK_OK(transport->receive(communicator, STREAM_PP, ELEMENT_FP32, 0, 7, data,
                                       MESSAGE_REALS));
        for (int i = 0; i < MESSAGE_REALS; i++)
            RANK_CHECK(data[i] == (float)(message * 10000 + i), "message %d, %d", message, i);
    }
    return true;
}

static void slots_take_turns(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, false);
    struct rank_job job = job_of(&backend, 2);
    job.body = send_many;
    assert_true(rank_job_run(&job));
}

static bool adopt_memory(const struct transport *transport, struct communicator *communicator,
                         int rank, void *context)
{
    static float memory[64];
    struct group *before, *after;
    (void)context;
    RANK_OK(transport->group(communicator, (int[]){0, 1, 2}, 3, "before", &before));
    transport->adopt(communicator, memory, sizeof memory);
    RANK_OK(transport->group(communicator, (int[]){0, 1, 2}, 3, "after", &after));
    memory[0] = (float)rank;
    RANK_OK(transport->all_reduce(before, STREAM_DP, ELEMENT_FP32, memory, 1, COMBINE_SUM));
    RANK_OK(transport->all_reduce(after, STREAM_DP, ELEMENT_FP32, memory, 1, COMBINE_MAX));
    RANK_CHECK(memory[0] == 3, "%g", (double)memory[0]);
    return true;
}

static void memory_that_cannot_be_registered_is_used_as_it_is(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, false);
    struct rank_job job = job_of(&backend, 3);
    job.body = adopt_memory;
    assert_true(rank_job_run(&job));
}

// Rank 1 is another operation ahead: NCCL would hang or mix data up, the emulation says so.
static bool disagree(const struct transport *transport, struct communicator *communicator, int rank,
                     void *context)
{
    float data[8] = {0};
    struct group *group;
    (void)context;
    RANK_OK(transport->group(communicator, (int[]){0, 1}, 2, "tp", &group));
    const char *failure =
        transport->all_reduce(group, STREAM_TP, ELEMENT_FP32, data, rank == 0 ? 8 : 4, COMBINE_SUM);
    RANK_CHECK(failure && strstr(failure, "group 'tp'"), "%s", failure ? failure : "nothing");
    const char *later = transport->barrier(communicator);
    RANK_CHECK(later && strcmp(later, failure) == 0, "%s", later ? later : "nothing");
    return true;
}

static void a_failure_is_told_with_the_rank_and_the_group(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, false);
    struct rank_job job = job_of(&backend, 2);
    job.body = disagree;
    assert_true(rank_job_run(&job));
}

// The device is waited for, not NCCL: only the watcher can find out that rank 1 is gone.
static bool lose_a_rank(const struct transport *transport, struct communicator *communicator,
                        int rank, void *context)
{
    float data = 1;
    struct group *group;
    (void)context;
    RANK_OK(transport->group(communicator, (int[]){0, 1}, 2, "dp", &group));
    if (rank == 1) _exit(0);
    const char *failure = NULL;
    for (int i = 0; i < 500 && !failure; i++) {
        usleep(10000);
        failure = transport->send(communicator, STREAM_PP, ELEMENT_FP32, 1, 0, &data, 0);
    }
    RANK_CHECK(failure && strcmp(failure, "rank 0: NCCL, group 'dp': remote process exited or "
                                          "there was a network error") == 0,
               "%s", failure ? failure : "nothing");
    return true;
}

static void the_watcher_finds_a_rank_that_is_gone(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, false);
    struct rank_job job = job_of(&backend, 2);
    job.body = lose_a_rank;
    assert_true(rank_job_run(&job));
}

// Met by files, waiting for numbers of a rank that is gone.
static bool lose_a_member(const struct transport *transport, struct communicator *communicator,
                          int rank, void *context)
{
    double sum = rank;
    struct group *group;
    (void)context;
    RANK_OK(transport->group(communicator, (int[]){0, 1, 2}, 3, GROUP_OF_NUMBERS, &group));
    RANK_OK(transport->host_sum(group, &sum, 1));
    RANK_CHECK(sum == 3, "%g", sum);
    const char *failure = transport->barrier(communicator);
    if (rank == 1) _exit(failure != NULL);
    // Rank 1 may be gone before others have found out that all are there.
    if (!failure) failure = transport->host_sum(group, &sum, 1);
    RANK_CHECK(failure && strstr(failure, "remote process exited"), "%s",
               failure ? failure : "nothing");
    return true;
}

static void the_watcher_finds_a_rank_that_numbers_are_wanted_of(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, false);
    struct rank_job job = job_of(&backend, 3);
    job.meets_by_files = true;
    job.body = lose_a_member;
    assert_true(rank_job_run(&job));
}

static bool give_up(const struct transport *transport, struct communicator *communicator, int rank,
                    void *context)
{
    float data = 1;
    struct group *group;
    (void)context;
    const char *failure = transport->group(communicator, (int[]){0, 1, 2}, 3, "dp", &group);
    if (rank == 1) {
        transport->abort(communicator, "rank 1 has no memory");
        return true;
    }
    if (!failure)
        failure = transport->all_reduce(group, STREAM_DP, ELEMENT_FP32, &data, 1, COMBINE_SUM);
    RANK_CHECK(failure, "the others go on");
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

// Of communicators that do not block NCCL starts a thread for every call.
static bool reduce_often(const struct transport *transport, struct communicator *communicator,
                         int rank, void *context)
{
    int64_t (*threads)(void);
    struct group *group;
    bool is_there;
    (void)rank, (void)context;
    void *library = plugin_open("exec_nccl_emulated.so", RTLD_NOW | RTLD_LOCAL, &is_there);
    void *symbol = dlsym(library, "emulated_nccl_threads");
    RANK_CHECK(symbol, "%s", dlerror());
    memcpy(&threads, &symbol, sizeof threads);
    RANK_OK(transport->group(communicator, (int[]){0, 1}, 2, "tp", &group));
    for (int i = 0; i < 20; i++) {
        float data[4] = {1, 2, 3, 4};
        const int64_t counts[2] = {3, 1};
        float parts[4] = {0};
        RANK_OK(transport->all_reduce(group, STREAM_TP, ELEMENT_FP32, data, 4, COMBINE_SUM));
        RANK_CHECK(data[3] == 8, "%g", (double)data[3]);
        RANK_OK(transport->all_gather(group, STREAM_TP, ELEMENT_FP32, data, parts, counts));
    }
    RANK_CHECK(threads() == 0, "%lld threads", (long long)threads());
    return true;
}

static void collectives_cost_no_thread_each(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, false);
    struct rank_job job = job_of(&backend, 2);
    job.body = reduce_often;
    assert_true(rank_job_run(&job));
}

// Before NCCL is first called; what the user has set stays.
static bool find_environment(const struct transport *transport, struct communicator *communicator,
                             int rank, void *context)
{
    char id[16];
    struct group *group;
    float data = 1;
    snprintf(id, sizeof id, "r%d", rank);
    RANK_CHECK(strcmp(getenv("NCCL_HOSTID"), id) == 0, "%s", getenv("NCCL_HOSTID"));
    RANK_CHECK(strcmp(getenv("NCCL_MAX_CTAS"), "1") == 0, "%s", getenv("NCCL_MAX_CTAS"));
    RANK_CHECK(strcmp(getenv("NCCL_NVLS_ENABLE"), "0") == 0, "%s", getenv("NCCL_NVLS_ENABLE"));
    // NCCL's connections between hosts must not be confined to this machine's own.
    const char *interface = getenv("NCCL_SOCKET_IFNAME"), *wanted = context;
    RANK_CHECK(interface ? wanted && strcmp(interface, wanted) == 0 : !wanted, "%s", interface);
    RANK_OK(transport->group(communicator, (int[]){0, 1}, 2, "tp", &group));
    return !transport->all_reduce(group, STREAM_TP, ELEMENT_FP32, &data, 1, COMBINE_SUM);
}

static void ranks_on_one_device_say_that_they_are_on_several_hosts(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, false);
    struct rank_job job = job_of(&backend, 2);
    char loop_back[] = "lo";
    job.request.shares_device = true;
    job.body = find_environment;
    job.context = loop_back;
    setenv("NCCL_MAX_CTAS", "1", 1);
    unsetenv("NCCL_SOCKET_IFNAME");
    assert_true(rank_job_run(&job));
    job.meets_by_files = true;
    job.context = NULL;
    assert_true(rank_job_run(&job));
    unsetenv("NCCL_MAX_CTAS");
}

// The plug-in of the machine: opens with no GPU, and what needs none works.
static void the_real_library_opens_without_a_device(void **state)
{
    (void)state;
    bool is_there;
    void *library = plugin_open("exec_nccl.so", RTLD_NOW | RTLD_LOCAL, &is_there);
    if (!is_there) {
        printf("# no exec_nccl.so: no nvcc or no nccl.h here\n");
        return;
    }
    if (!library) fail_msg("%s", dlerror());
    assert_non_null(dlsym(library, COMMUNICATOR_PLUGIN_SYMBOL));
    int (*get_id)(void *id);
    void *symbol = dlsym(library, "ncclGetUniqueId");
    assert_non_null(symbol);
    memcpy(&get_id, &symbol, sizeof get_id);
    char id[128] = {0}, none[128] = {0};
    assert_int_equal(get_id(id), 0);
    assert_memory_not_equal(id, none, sizeof id);
}

static bool find_no_driver(const struct transport *transport, struct communicator *communicator,
                           int rank, void *context)
{
    struct group *group;
    char start[80];
    (void)context;
    const char *failure = transport->group(communicator, (int[]){0, 1}, 2, "tp", &group);
    snprintf(start, sizeof start, "rank %d: NCCL, making the communicator of group 'tp': ", rank);
    RANK_CHECK(failure && strncmp(failure, start, strlen(start)) == 0 && !strchr(failure, '\n'),
               "%s", failure ? failure : "nothing");
    return true;
}

static int two_devices(void)
{
    return 2;
}

// NCCL itself as far as it goes here: ids are made and passed, and it says why it goes no further.
static void nccl_without_a_driver_is_told_in_one_line(void **state)
{
    (void)state;
    bool is_there, has_gpu = access("/dev/nvidiactl", F_OK) == 0;
    void *library = plugin_open("exec_nccl.so", RTLD_NOW | RTLD_LOCAL, &is_there);
    if (!library || has_gpu) {
        printf("# no exec_nccl.so, or a GPU here\n");
        return;
    }
    struct backend backend = rank_backend(4, false);
    backend.device_count = two_devices;
    struct rank_job job = job_of(&backend, 2);
    job.open = communicator_open;
    job.body = find_no_driver;
    assert_true(rank_job_run(&job));
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "mpi") == 0 && launch_place_find().is_launched)
        return mpi_main();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_equal_plain_sums_on_one_to_eight_ranks),
        cmocka_unit_test(ranks_of_several_hosts_meet_by_files),
        cmocka_unit_test(ranks_of_several_hosts_meet_by_mpi),
        cmocka_unit_test(the_watcher_finds_a_rank_that_numbers_are_wanted_of),
        cmocka_unit_test(sending_does_not_wait_for_the_receiver),
        cmocka_unit_test(slots_take_turns),
        cmocka_unit_test(memory_that_cannot_be_registered_is_used_as_it_is),
        cmocka_unit_test(a_failure_is_told_with_the_rank_and_the_group),
        cmocka_unit_test(the_watcher_finds_a_rank_that_is_gone),
        cmocka_unit_test(collectives_cost_no_thread_each),
        cmocka_unit_test(an_abort_ends_ranks_that_wait),
        cmocka_unit_test(ranks_on_one_device_say_that_they_are_on_several_hosts),
        cmocka_unit_test(the_real_library_opens_without_a_device),
        cmocka_unit_test(nccl_without_a_driver_is_told_in_one_line),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
