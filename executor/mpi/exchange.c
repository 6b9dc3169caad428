#include "executor/mpi/transport.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// MPI counts in ints: longer parts go in passes.
enum { PASS_BYTES = 1 << 30, EXCHANGE_TAG = 2 };

static int pass_bytes(int64_t bytes, int64_t pass)
{
    int64_t rest = bytes - pass * PASS_BYTES;
    assert(bytes >= 0 && pass >= 0);
    return rest <= 0 ? 0 : rest < PASS_BYTES ? (int)rest : PASS_BYTES;
}

// Of the longest part; never none.
static int64_t pass_count(const struct group *group, const struct piece *pieces)
{
    int64_t longest = 0;
    for (int member = 0; member < group->count; member++)
        longest = pieces[member].bytes > longest ? pieces[member].bytes : longest;
    return longest / PASS_BYTES + 1;
}

// Starts a pass: what has nothing in it is sent as well, so that ends that do not agree find out.
static const char *start_pass(struct group *group, const struct piece *out, const struct piece *in,
                              int64_t pass, MPI_Request *requests, const char *what)
{
    const char *failure = NULL;
    for (int member = 0; member < group->count; member++) {
        requests[member] = requests[group->count + member] = MPI_REQUEST_NULL;
        // What has nothing in this pass stays null, which MPI_Testall takes as ended.
        if (member == group->me || failure) continue;
        if (pass == 0 || pass * PASS_BYTES < in[member].bytes)
            failure =
                mpi_check(group->communicator,
                          MPI_Irecv((char *)in[member].data + pass * PASS_BYTES,
                                    pass_bytes(in[member].bytes, pass), MPI_BYTE, member,
                                    EXCHANGE_TAG, *(MPI_Comm *)group->of_wire, &requests[member]),
                          what);
        if (!failure && (pass == 0 || pass * PASS_BYTES < out[member].bytes))
            failure = mpi_check(group->communicator,
                                MPI_Isend((char *)out[member].data + pass * PASS_BYTES,
                                          pass_bytes(out[member].bytes, pass), MPI_BYTE, member,
                                          EXCHANGE_TAG, *(MPI_Comm *)group->of_wire,
                                          &requests[group->count + member]),
                                what);
    }
    return failure;
}

static const char *check_pass(struct group *group, const struct piece *in, int64_t pass,
                              const MPI_Status *statuses, const char *what)
{
    for (int member = 0; member < group->count; member++) {
        int came = 0, wanted = pass_bytes(in[member].bytes, pass);
        if (member == group->me || (pass > 0 && wanted == 0)) continue;
        // A message that is too short is no error of MPI's: it fills the start of the buffer.
        MPI_Get_count(&statuses[member], MPI_BYTE, &came);
        if (came != wanted)
            return between_fail(group->communicator,
                                "group %s: %s: member %d sent %d bytes where member %d expects %d",
                                group->purpose, what, member, came, group->me, wanted);
    }
    return NULL;
}

static const char *run_passes(struct group *group, const struct piece *out, const struct piece *in,
                              MPI_Request *requests, MPI_Status *statuses, const char *what)
{
    int64_t in_passes = pass_count(group, in), out_passes = pass_count(group, out);
    int64_t passes = in_passes > out_passes ? in_passes : out_passes;
    const char *failure = NULL;
    for (int64_t pass = 0; pass < passes && !failure; pass++) {
        failure = start_pass(group, out, in, pass, requests, what);
        if (!failure)
            failure = mpi_wait(group->communicator, requests, 2 * group->count, statuses, what);
        if (!failure) failure = check_pass(group, in, pass, statuses, what);
    }
    return failure;
}

const char *mpi_exchange(struct group *group, const struct piece *out, const struct piece *in,
                         const char *what)
{
    size_t count = (size_t)group->count * 2;  // to and from each member
    assert(group->me >= 0 && group->me < group->count);
    MPI_Request *requests = malloc(count * sizeof *requests);
    MPI_Status *statuses = malloc(count * sizeof *statuses);
    const char *failure = requests && statuses
                              ? run_passes(group, out, in, requests, statuses, what)
                              : between_fail(group->communicator, "out of memory");
    free(requests);
    free(statuses);
    return failure;
}

// Frees letters that have arrived, or all of them: what is still under way then is nobody's.
void mpi_free_letters(struct communicator *communicator, bool all)
{
    for (struct letter **at = &mpi_of(communicator)->letters; *at;) {
        struct letter *letter = *at;
        int is_done = 0;
        bool has_failed = MPI_Test(&letter->request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS;
        if (!is_done && !has_failed && !all) {
            at = &letter->next;
            continue;
        }
        *at = letter->next;
        free(letter);
    }
}

// Copied, so that the sender need not wait for who receives.
static const char *send_letter(struct communicator *communicator, int rank, int channel,
                               const unsigned char *data, int bytes)
{
    struct letter *letter = malloc(sizeof *letter + (size_t)bytes);
    if (!letter) return between_fail(communicator, "out of memory for a message to rank %d", rank);
    memcpy(letter->bytes, data, (size_t)bytes);
    int code = MPI_Isend(letter->bytes, bytes, MPI_BYTE, rank, channel,
                         mpi_of(communicator)->messages, &letter->request);
    if (code != MPI_SUCCESS) {
        free(letter);
        return mpi_check(communicator, code, "send");
    }
    letter->next = mpi_of(communicator)->letters;
    mpi_of(communicator)->letters = letter;
    return NULL;
}

const char *mpi_post(struct communicator *communicator, int rank, int channel, const void *data,
                     int64_t bytes)
{
    int64_t first = 0;
    const char *failure = NULL;
    assert(bytes >= 0 && rank >= 0 && rank < communicator->rank_count);
    // At least one, so that a message of no bytes is waited for like any other.
    do {
        int64_t rest = bytes - first;
        int piece = rest < PASS_BYTES ? (int)rest : PASS_BYTES;
        failure = send_letter(communicator, rank, channel, bytes_at(data, first), piece);
        first += piece;
    } while (first < bytes && !failure);
    return failure;
}

// MPI takes a message that is too short: sizes are compared here.
static const char *receive_letter(struct communicator *communicator, int rank, int channel,
                                  unsigned char *data, int bytes)
{
    MPI_Request request;
    MPI_Status status;
    int came = 0, code = MPI_Irecv(data, bytes, MPI_BYTE, rank, channel,
                                   mpi_of(communicator)->messages, &request);
    const char *failure = mpi_check(communicator, code, "receive");
    if (!failure) failure = mpi_wait(communicator, &request, 1, &status, "receive");
    if (failure) return failure;
    MPI_Get_count(&status, MPI_BYTE, &came);
    if (came == bytes) return NULL;
    return between_fail(communicator, "rank %d sent %d bytes where rank %d expects %d", rank, came,
                        communicator->rank, bytes);
}

const char *mpi_take(struct communicator *communicator, int rank, int channel, void *data,
                     int64_t bytes)
{
    int64_t first = 0;
    const char *failure = NULL;
    assert(bytes >= 0 && rank >= 0 && rank < communicator->rank_count);
    do {
        int64_t rest = bytes - first;
        int piece = rest < PASS_BYTES ? (int)rest : PASS_BYTES;
        failure = receive_letter(communicator, rank, channel, bytes_at(data, first), piece);
        first += piece;
    } while (first < bytes && !failure);
    return failure;
}
