#include "executor/launcher/launch.h"
#include "executor/mpi/transport.h"

#include <assert.h>
#include <sched.h>
#include <string.h>

// Ranks are often more than cores: a look at the control messages, then others run.
enum { CONTROL_TAG = 1 };

const char *mpi_check(struct communicator *communicator, int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS) return NULL;
    MPI_Error_string(code, text, &length);
    return between_fail(communicator, "%s: %.*s", what, length, text);
}

void mpi_idle(struct communicator *communicator)
{
    MPI_Status status;
    int is_there = 0;
    mpi_free_letters(communicator, false);
    if (communicator->host) communicator->host->progress(communicator->inside);
    if (communicator->has_aborted) return;
    int code =
        MPI_Iprobe(MPI_ANY_SOURCE, CONTROL_TAG, mpi_of(communicator)->control, &is_there, &status);
    if (code != MPI_SUCCESS || !is_there) return;
    char text[BETWEEN_TEXT_BYTES] = "";
    MPI_Recv(text, BETWEEN_TEXT_BYTES - 1, MPI_CHAR, status.MPI_SOURCE, CONTROL_TAG,
             mpi_of(communicator)->control, MPI_STATUS_IGNORE);
    between_fail(communicator, "%s", text);
    communicator->has_aborted = communicator->was_told = true;
    if (communicator->host) communicator->host->abort(communicator->inside, text);
}

const char *mpi_wait(struct communicator *communicator, MPI_Request *requests, int count,
                     MPI_Status *statuses, const char *what)
{
    int is_done = 0;
    assert(count > 0);
    for (;;) {
        int code = MPI_Testall(count, requests, &is_done, statuses);
        // The code says only that some failed; which words to use stands with one of them.
        for (int i = 0; code == MPI_ERR_IN_STATUS && i < count; i++) {
            if (statuses[i].MPI_ERROR == MPI_SUCCESS || statuses[i].MPI_ERROR == MPI_ERR_PENDING)
                continue;
            return mpi_check(communicator, statuses[i].MPI_ERROR, what);
        }
        if (code != MPI_SUCCESS) return mpi_check(communicator, code, what);
        if (is_done) break;
        mpi_idle(communicator);
        if (communicator->has_failed) return communicator->text;
        sched_yield();
    }
    // Who waits for long has not stopped: the launcher looks at the beat.
    if (communicator->heartbeat) atomic_fetch_add(&communicator->heartbeat->beat, 1);
    return NULL;
}

// To all ranks, as no rank knows which of them wait for it.
void mpi_abort(struct communicator *communicator, const char *reason)
{
    if (communicator->has_aborted) return;  // the first reason stays
    communicator->has_aborted = true;
    between_fail(communicator, "%s", reason);
    if (communicator->host) communicator->host->abort(communicator->inside, communicator->text);
    for (int rank = 0; rank < communicator->rank_count; rank++) {
        MPI_Request request;
        if (rank == communicator->rank) continue;
        // Short enough to be under way at once; who aborts is not to wait for anybody.
        MPI_Isend(communicator->text, (int)strlen(communicator->text), MPI_CHAR, rank, CONTROL_TAG,
                  mpi_of(communicator)->control, &request);
        MPI_Request_free(&request);
    }
}
