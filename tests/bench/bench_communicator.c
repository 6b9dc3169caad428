// Collectives of ranks on one host beside MPI's own, in the same run, turn by turn: the shortest
// and the middle time of many. Ranks may be more than cores.
#include "core/progress.h"
#include "executor/launcher/launch.h"
#include "executor/plugin.h"
#include "tests/support/mpi_peer.h"
#include "tests/support/ranks.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST = 4 << 20, TURN_MAX = 400, OPERATION_COUNT = 4, RANK_MAX = 64 };
static const char *const NAMES[OPERATION_COUNT] = {"all-reduce", "all-gather", "reduce-scatter",
                                                   "send"};
static const double SECONDS_A_CASE = 0.3;

struct communicator_bench {
    const struct transport *transport;
    struct communicator *communicator;
    struct group *group;
    const struct mpi_peer *peer;
    int rank, rank_count;
    float *data, *other;
};

// `count` reals in all; of each rank its part.
static const char *run_ours(struct communicator_bench *bench, int operation, int count)
{
    int64_t counts[RANK_MAX];
    int part = count / bench->rank_count, peer = bench->rank ^ 1;
    for (int i = 0; i < bench->rank_count; i++)
        counts[i] = part;
    switch (operation) {
    case 0:
        return bench->transport->all_reduce(bench->group, STREAM_DP, ELEMENT_FP32, bench->data,
                                            count, COMBINE_SUM);
    case 1:
        return bench->transport->all_gather(bench->group, STREAM_DP, ELEMENT_FP32, bench->other,
                                            bench->data, counts);
    case 2:
        return bench->transport->reduce_scatter(bench->group, STREAM_DP, ELEMENT_FP32, bench->data,
                                                bench->other, counts);
    default: {
        const char *failure = bench->transport->send(bench->communicator, STREAM_PP,
                                                     ELEMENT_COMPUTE, peer, 0, bench->data, count);
        return failure ? failure
                       : bench->transport->receive(bench->communicator, STREAM_PP, ELEMENT_COMPUTE,
                                                   peer, 0, bench->other, count);
    }
    }
}

static void run_theirs(struct communicator_bench *bench, int operation, int count)
{
    int part = count / bench->rank_count;
    switch (operation) {
    case 0:
        bench->peer->all_reduce(bench->data, count);
        break;
    case 1:
        bench->peer->all_gather(bench->other, bench->data, part);
        break;
    case 2:
        bench->peer->reduce_scatter(bench->data, bench->other, part);
        break;
    default:
        bench->peer->send_and_receive(bench->rank ^ 1, bench->data, bench->other, count);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct times {
    double least_s, middle_s;
};

static struct times sort_times(double *seconds, int count)
{
    qsort(seconds, (size_t)count, sizeof *seconds, compare);
    return (struct times){seconds[0], seconds[count / 2]};
}

// Every rank takes as many turns as rank 0 says.
static bool bench_case(struct communicator_bench *bench, int operation, int count)
{
    double ours_s[TURN_MAX], theirs_s[TURN_MAX], begin_s = clock_s();
    int turns = 0;
    for (int64_t goes_on = 1, all[RANK_MAX]; goes_on && turns < TURN_MAX; turns++) {
        RANK_OK(bench->transport->barrier(bench->communicator));
        double start_s = clock_s();
        RANK_OK(run_ours(bench, operation, count));
        ours_s[turns] = clock_s() - start_s;
        bench->peer->barrier();
        start_s = clock_s();
        run_theirs(bench, operation, count);
        theirs_s[turns] = clock_s() - start_s;
        goes_on = turns < 10 || clock_s() - begin_s < SECONDS_A_CASE;
        RANK_OK(bench->transport->host_gather(bench->group, &goes_on, all, 1));
        goes_on = all[0];
        memset(bench->data, 0, (size_t)count * sizeof *bench->data);
    }
    struct times ours = sort_times(ours_s, turns), theirs = sort_times(theirs_s, turns);
    if (bench->rank == 0)
        printf("%d ranks %-14s %9d B: least %10.1f us, Open MPI %10.1f us (%5.2f x); middle %10.1f "
               "us, %10.1f us (%5.2f x)\n",
               bench->rank_count, NAMES[operation], count * 4, ours.least_s * 1e6,
               theirs.least_s * 1e6, theirs.least_s / ours.least_s, ours.middle_s * 1e6,
               theirs.middle_s * 1e6, theirs.middle_s / ours.middle_s);
    fflush(stdout);
    return true;
}

static bool bench_ranks(struct communicator_bench *bench)
{
    static const int COUNTS[] = {64, 1 << 10, 16 << 10, 256 << 10, LONGEST};
    int ranks[RANK_MAX];
    for (int i = 0; i < bench->rank_count; i++)
        ranks[i] = i;
    RANK_OK(bench->transport->group(bench->communicator, ranks, bench->rank_count, "bench",
                                    &bench->group));
    bench->data = calloc(LONGEST, sizeof *bench->data);
    bench->other = calloc(LONGEST, sizeof *bench->other);
    bool is_well = bench->data && bench->other;
    for (int operation = 0; operation < OPERATION_COUNT && is_well; operation++) {
        for (int i = 0; i < 5 && is_well; i++)
            is_well = bench_case(bench, operation, COUNTS[i]);
    }
    free(bench->data);
    free(bench->other);
    return is_well;
}

static int rank_main(void)
{
    struct backend backend = rank_backend(4, true);
    struct launch_place place = launch_place_find();
    struct communicator_request request = {
        .backend = &backend, .rank = place.rank, .rank_count = place.rank_count};
    struct communicator_bench bench = {.rank = place.rank, .rank_count = place.rank_count};
    struct err err = {0};
    bool is_there;
    bench.transport = communicator_mpi(&request, &bench.communicator, &err);
    void *peer = plugin_open("mpi_peer.so", RTLD_NOW | RTLD_LOCAL, &is_there);
    bench.peer = peer ? dlsym(peer, "mpi_peer") : NULL;
    if (!bench.transport || !bench.peer) {
        fprintf(stderr, "%s\n", err.kind ? err.text : "no mpi_peer.so");
        return 1;
    }
    bool is_well = bench_ranks(&bench);
    bench.transport->close(bench.communicator);
    return is_well ? 0 : 1;
}

int main(void)
{
    static const char *const RANKS[] = {"2", "4", "8"};
    if (launch_place_find().is_launched) return rank_main();
    if (!launch_finds_mpirun()) {
        printf("no mpirun here: nothing to compare with\n");
        return 0;
    }
    for (int i = 0; i < 3; i++) {
        char binary[PATH_MAX] = "";
        ssize_t length = readlink("/proc/self/exe", binary, sizeof binary - 1);
        int status = 1;
        pid_t child = length > 0 ? fork() : -1;
        if (child == 0) {
            setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
            setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
            execlp("mpirun", "mpirun", "--oversubscribe", "--bind-to", "none", "-n", RANKS[i],
                   binary, (char *)NULL);
            _exit(1);
        }
        if (child > 0) waitpid(child, &status, 0);
        if (status != 0) return 1;
    }
    return 0;
}
