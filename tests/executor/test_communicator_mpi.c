#include "executor/launcher/launch.h"
#include "executor/launcher/shared_memory.h"
#include "executor/plugin.h"
#include "tests/support/rank_sequence.h"
#include "tests/support/test.h"

#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

// The program starts itself under mpirun, with a number of ranks and of ranks that are treated as
// being on one host. Skips where there is no MPI.

static int run_mpirun(const char *ranks, const char *ranks_a_host, const char *what)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char binary[4096] = "";
        ssize_t length = readlink("/proc/self/exe", binary, sizeof binary - 1);
        setenv("MESHWRIGHT_RANKS_PER_HOST", ranks_a_host, 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
        // What MPI says about ranks that fail on purpose is no part of the test's output.
        if (strncmp(what, "seq", 3) != 0 && !freopen("/dev/null", "w", stderr)) _exit(99);
        if (length > 0)
            execlp("mpirun", "mpirun", "--oversubscribe", "--bind-to", "none", "-n", ranks, binary,
                   what, (char *)NULL);
        _exit(99);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256;
}

static bool open_here(const struct backend *backend, const struct transport **transport,
                      struct communicator **communicator, struct launch_place *place)
{
    struct err err = {0};
    *place = launch_place_find();
    struct communicator_request request = {.backend = backend,
                                           .rank = place->rank,
                                           .rank_count = place->rank_count,
                                           .window_bytes = 3000,
                                           .message_bytes = 256};
    *transport = communicator_open(&request, communicator, &err);
    RANK_CHECK(*transport, "rank %d: %s", place->rank, err.text);
    return true;
}

static int sequence_main(int real_bytes, enum precision compute, int longest, int operations,
                         bool is_host)
{
    struct backend backend = rank_backend_at(real_bytes, compute, is_host);
    const struct transport *transport;
    struct communicator *communicator;
    struct launch_place place;
    if (!open_here(&backend, &transport, &communicator, &place)) return 1;
    struct sequence sequence = {.real_bytes = real_bytes,
                                .compute = compute,
                                .rank_count = place.rank_count,
                                .group_count = 6,
                                .operation_count = operations,
                                .longest = longest,
                                .seed = 21};
    bool is_well = sequence_run(transport, communicator, place.rank, &sequence);
    if (is_well) transport->close(communicator);
    // Libraries that MPI has loaded leak; a sanitizer's word on them is not asked for.
    fflush(NULL);
    _exit(is_well ? 0 : 1);
}

// Ranks that found what they should; the test made the counter and reads it.
static _Atomic int *well_counter(const char *name)
{
    struct err err = {0};
    return shared_memory_map(name, 0, sizeof(_Atomic int), &err);
}

// Rank 1 gives up while the others wait for a message, between hosts and inside one. mpirun ends
// all as soon as one has ended without a farewell to MPI: they stay until all have had their say.
static int abort_main(void)
{
    struct backend backend = rank_backend(4, true);
    const struct transport *transport;
    struct communicator *communicator;
    struct launch_place place;
    float number = 0;
    _Atomic int *counter = well_counter(getenv("TEST_COUNTER"));
    if (!counter || !open_here(&backend, &transport, &communicator, &place)) return 1;
    const char *failure = NULL, *reason = "rank 1 has no memory";
    int peer = place.rank == 0 ? 1 : place.rank ^ 1;
    if (place.rank == 1)
        transport->abort(communicator, reason);
    else
        failure = transport->receive(communicator, STREAM_PP, ELEMENT_COMPUTE, peer, 3, &number, 1);
    if (place.rank == 1 || (failure && strcmp(failure, reason) == 0)) atomic_fetch_add(counter, 1);
    for (int i = 0; i < 2000 && atomic_load(counter) < place.rank_count; i++) {
        transport->abort(communicator, "another reason");
        usleep(10000);
    }
    _exit(0);
}

// A message of another size, between ranks that do not share a host.
static int size_main(void)
{
    struct backend backend = rank_backend(4, true);
    const struct transport *transport;
    struct communicator *communicator;
    struct launch_place place;
    float numbers[4] = {0};
    if (!open_here(&backend, &transport, &communicator, &place)) return 1;
    if (place.rank == 0) {
        const char *failure =
            transport->send(communicator, STREAM_PP, ELEMENT_COMPUTE, 1, 0, numbers, 2);
        usleep(500000);
        _exit(failure ? 1 : 0);
    }
    const char *failure =
        transport->receive(communicator, STREAM_PP, ELEMENT_COMPUTE, 0, 0, numbers, 4);
    const char *wanted = "rank 0 sent 8 bytes where rank 1 expects 16";
    _exit(failure && strcmp(failure, wanted) == 0 ? 42 : 1);
}

static int rank_main(const char *what)
{
    if (strcmp(what, "sequence") == 0) return sequence_main(4, PRECISION_BF16, 700, 150, true);
    if (strcmp(what, "sequence-wide") == 0)
        return sequence_main(8, PRECISION_FP32, 3000, 150, true);
    if (strcmp(what, "sequence-device") == 0)
        return sequence_main(4, PRECISION_FP16, 300, 150, false);
    // More than what connections hold by themselves, in both directions at once.
    if (strcmp(what, "sequence-long") == 0)
        return sequence_main(8, PRECISION_FP32, 200000, 12, true);
    return strcmp(what, "abort") == 0 ? abort_main() : size_main();
}

static void operations_between_hosts_have_the_bits_of_plain_sums(void **state)
{
    (void)state;
    assert_int_equal(run_mpirun("3", "1", "sequence"), 0);
    assert_int_equal(run_mpirun("4", "2", "sequence-wide"), 0);
    assert_int_equal(run_mpirun("5", "2", "sequence-device"), 0);
    assert_int_equal(run_mpirun("8", "3", "sequence"), 0);
}

static void long_exchanges_do_not_wait_for_each_other(void **state)
{
    (void)state;
    assert_int_equal(run_mpirun("3", "2", "sequence-long"), 0);
}

static void ranks_of_one_host_need_mpi_only_to_meet(void **state)
{
    (void)state;
    assert_int_equal(run_mpirun("4", "0", "sequence"), 0);
}

static void an_abort_reaches_ranks_of_other_hosts(void **state)
{
    (void)state;
    struct shared_memory memory;
    struct err err = {0};
    assert_true(shared_memory_create(&memory, &err));
    setenv("TEST_COUNTER", memory.name, 1);
    _Atomic int *counter = well_counter(memory.name);
    assert_non_null(counter);
    run_mpirun("4", "2", "abort");
    assert_int_equal(atomic_load(counter), 4);
    shared_memory_close(&memory);
}

static void messages_of_another_size_are_told(void **state)
{
    (void)state;
    assert_int_equal(run_mpirun("2", "1", "size"), 42);
}

int main(int argc, char **argv)
{
    bool is_there;
    if (argc == 2 && launch_place_find().is_launched) return rank_main(argv[1]);
    void *library = plugin_open("exec_mpi.so", RTLD_LAZY | RTLD_GLOBAL, &is_there);
    if (!library || !launch_finds_mpirun()) {
        printf("1..0 # SKIP no MPI\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_between_hosts_have_the_bits_of_plain_sums),
        cmocka_unit_test(long_exchanges_do_not_wait_for_each_other),
        cmocka_unit_test(ranks_of_one_host_need_mpi_only_to_meet),
        cmocka_unit_test(an_abort_reaches_ranks_of_other_hosts),
        cmocka_unit_test(messages_of_another_size_are_told),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
