#include "core/sort.h"
#include "executor/calibrate/calibrate.h"

#include "core/progress.h"
#include "executor/nvme.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

// What a plan moves at a time, layer by layer and unit by unit, is some megabytes; all of it
// together is more than a drive's own memory takes.
enum { PIECE_BYTES = 16 << 20, PIECES = 16, ROUNDS = 5 };
enum { WAYS = 2 };  // each has a half of the file, and of the memory

static void start_piece(struct nvme *nvme, enum nvme_way way, char *memory, int64_t piece)
{
    int64_t half = way == NVME_WRITE;
    assert(piece >= 0 && piece < PIECES);
    nvme_start(nvme, way, memory + half * PIECE_BYTES, PIECE_BYTES,
               (half * PIECES + piece) * PIECE_BYTES);
}

// Waits for what was asked for both ways.
static bool settle(struct nvme *nvme, char *memory, struct err *err)
{
    int64_t written = nvme_start(nvme, NVME_SYNC, NULL, 0, 0);
    int64_t read = nvme_start(nvme, NVME_READ, memory, 1, 0);
    const char *fault = nvme_wait(nvme, written);
    if (!fault) fault = nvme_wait(nvme, read);
    return !fault || err_set(err, ERR_SYSTEM, "%s", fault);
}

// So much is written as is read, one behind the other or at once.
static bool measure(struct nvme *nvme, char *memory, bool at_once, double *took_s, struct err *err)
{
    double began_s = clock_s();
    for (int64_t i = 0; i < PIECES; i++) {
        start_piece(nvme, NVME_WRITE, memory, i);
        if (at_once) start_piece(nvme, NVME_READ, memory, i);
    }
    if (!at_once && !settle(nvme, memory, err)) return false;
    for (int64_t i = 0; i < PIECES && !at_once; i++)
        start_piece(nvme, NVME_READ, memory, i);
    if (!settle(nvme, memory, err)) return false;
    *took_s = clock_s() - began_s;
    return true;
}

// Both at once take at most as long as one behind the other, and at least half of it.
bool calibrate_drive(struct arena *arena, const char *folder, struct drive *drive, struct err *err)
{
    struct statvfs room;
    if (statvfs(folder, &room) != 0)
        return err_set(err, ERR_SYSTEM, "the room in %.300s: %s", folder, strerror(errno));
    drive->bytes = (int64_t)room.f_bavail * (int64_t)room.f_frsize;
    const int64_t all_bytes = (int64_t)WAYS * PIECES * PIECE_BYTES;
    struct nvme *nvme = nvme_open(arena, folder, all_bytes, err);
    if (!nvme) return false;
    char *memory = memory_get((size_t)WAYS * PIECE_BYTES);
    memset(memory, 1, (size_t)WAYS * PIECE_BYTES);
    double turn_s[ROUNDS], once_s[ROUNDS], none_s;
    // What is read was written once.
    for (int64_t i = 0; i < PIECES; i++)
        nvme_start(nvme, NVME_WRITE, memory, PIECE_BYTES, i * PIECE_BYTES);
    bool done = measure(nvme, memory, false, &none_s, err);
    for (int i = 0; i < ROUNDS && done; i++)
        done = measure(nvme, memory, false, &turn_s[i], err) &&
               measure(nvme, memory, true, &once_s[i], err);
    nvme_close(nvme);
    free(memory);
    if (!done) return false;
    double in_turn_s = sort_median(turn_s, ROUNDS), at_once_s = sort_median(once_s, ROUNDS);
    drive->bytes_per_s = (double)all_bytes / in_turn_s;
    assert(in_turn_s > 0 && at_once_s > 0);
    drive->duplex_ratio = fmin(fmax(in_turn_s / at_once_s, 1), 2);
    return true;
}
