// Messages between ranks of two nodes that are both this machine, beside the same bytes over one
// plain connection, in the same run, turn by turn: there, back, and a word that it has come; the
// middle time of many.
#include "core/progress.h"
#include "executor/rendezvous.h"
#include "tests/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TURN_MAX = 200, SIZE_COUNT = 5 };
static const int SIZES[SIZE_COUNT] = {64, 4 << 10, 64 << 10, 1 << 20, 16 << 20};
static const double SECONDS_A_CASE = 0.3;

struct plain {
    int ends[2];  // of a connection over the loop back
};

static bool plain_open(struct plain *plain)
{
    struct err err = {0};
    int listener = socket_listen("127.0.0.1", 0, &err);
    plain->ends[0] = socket_connect("127.0.0.1", socket_port(listener), socket_now_s() + 5, &err);
    plain->ends[1] = socket_accept(listener, socket_now_s() + 5, &err);
    close(listener);
    if (err.kind) fprintf(stderr, "%s\n", err.text);
    return !err.kind;
}

static bool plain_there_and_back(int end, bool begins, char *data, size_t bytes)
{
    struct err err = {0};
    for (int turn = 0; turn < 3; turn++) {
        bool sends = begins == (turn != 1);
        if (turn == 2) bytes = 4;
        double until_s = socket_now_s() + 20;
        bool is_well = sends ? socket_write(end, data, bytes, until_s, "the other", &err)
                             : socket_read(end, data, bytes, until_s, "the other", &err);
        if (!is_well) return false;
    }
    return true;
}

static const char *there_and_back(const struct transport *transport,
                                  struct communicator *communicator, int rank, float *data,
                                  int64_t count)
{
    const char *failure = NULL;
    for (int turn = 0; turn < 3 && !failure; turn++) {
        bool sends = (rank == 0) == (turn != 1);
        if (turn == 2) count = 1;
        failure =
            sends ? transport->send(communicator, STREAM_PP, ELEMENT_FP32, 1 - rank, 0, data, count)
                  : transport->receive(communicator, STREAM_PP, ELEMENT_FP32, 1 - rank, 0, data,
                                       count);
    }
    return failure;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle(double *seconds, int count)
{
    qsort(seconds, (size_t)count, sizeof *seconds, compare);
    return seconds[count / 2];
}

static bool bench_size(const struct transport *transport, struct communicator *communicator,
                       int rank, struct plain *plain, int bytes)
{
    double ours_s[TURN_MAX], plain_s[TURN_MAX], begin_s = clock_s(), goes_on = 1;
    float *data = calloc((size_t)bytes, 1);
    int turns = 0;
    while (goes_on > 0 && turns < TURN_MAX) {
        double start_s = clock_s();
        RANK_OK(there_and_back(transport, communicator, rank, data, bytes / 4));
        ours_s[turns] = clock_s() - start_s;
        start_s = clock_s();
        RANK_CHECK(plain_there_and_back(plain->ends[rank], rank == 0, (char *)data, (size_t)bytes),
                   "the plain connection");
        plain_s[turns++] = clock_s() - start_s;
        // Both take as many turns as rank 0 says.
        goes_on = rank == 0 && (turns < 10 || clock_s() - begin_s < SECONDS_A_CASE);
        float word = (float)goes_on;
        RANK_OK(there_and_back(transport, communicator, rank, &word, 1));
        goes_on = (double)word;
    }
    double ours = middle(ours_s, turns), theirs = middle(plain_s, turns);
    if (rank == 0)
        printf("%9d B there and back: %10.1f us, plain connection %10.1f us (%5.2f x)\n", bytes,
               ours * 1e6, theirs * 1e6, theirs / ours);
    fflush(stdout);
    free(data);
    return true;
}

static bool bench_rank(const struct transport *transport, struct communicator *communicator,
                       int rank, void *context)
{
    for (int i = 0; i < SIZE_COUNT; i++) {
        if (!bench_size(transport, communicator, rank, context, SIZES[i])) return false;
    }
    return true;
}

int main(void)
{
    struct plain plain;
    struct backend backend = rank_backend(4, true);
    if (!plain_open(&plain)) return 1;
    struct rank_job job = {.rank_count = 2,
                           .ranks_a_node = 1,
                           .request = {.backend = &backend},
                           .open = communicator_open,
                           .body = bench_rank,
                           .context = &plain};
    return rank_job_run(&job) ? 0 : 1;
}
