#include "core/sort.h"
#include "executor/calibrate/calibrate.h"

#include "core/progress.h"
#include "executor/nvme.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

// What a plan moves at a time, layer by layer and unit by unit, is some megabytes; all of it
// together is more than a drive's own memory takes.
enum { PIECE_BYTES = 16 << 20, PIECES = 16, ROUNDS = 3 };

static const char *one_way(struct nvme *nvme, enum nvme_way way, char *memory)
{
    int64_t last = 0;
    for (int64_t i = 0; i < PIECES; i++)
        last = nvme_start(nvme, way, memory, PIECE_BYTES, i * PIECE_BYTES);
    if (way == NVME_WRITE) last = nvme_start(nvme, NVME_SYNC, NULL, 0, 0);
    return nvme_wait(nvme, last);
}

static bool measure(struct nvme *nvme, char *memory, double *bytes_per_s, struct err *err)
{
    double took_s[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        double began_s = clock_s();
        const char *fault = one_way(nvme, NVME_WRITE, memory);
        if (!fault) fault = one_way(nvme, NVME_READ, memory);
        if (fault) return err_set(err, ERR_SYSTEM, "%s", fault);
        took_s[i] = clock_s() - began_s;
    }
    *bytes_per_s = 2.0 * PIECES * PIECE_BYTES / sort_median(took_s, ROUNDS);
    return true;
}

bool calibrate_drive(struct arena *arena, const char *folder, double *bytes_per_s, int64_t *bytes,
                     struct err *err)
{
    struct statvfs room;
    if (statvfs(folder, &room) != 0)
        return err_set(err, ERR_SYSTEM, "the room in %.300s: %s", folder, strerror(errno));
    *bytes = (int64_t)room.f_bavail * (int64_t)room.f_frsize;
    struct nvme *nvme = nvme_open(arena, folder, (int64_t)PIECES * PIECE_BYTES, err);
    if (!nvme) return false;
    char *memory = memory_get(PIECE_BYTES);
    memset(memory, 1, PIECE_BYTES);
    bool done = measure(nvme, memory, bytes_per_s, err);
    nvme_close(nvme);
    free(memory);
    return done;
}
