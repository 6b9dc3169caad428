#include "core/sort.h"
#include "executor/calibrate/calibrate.h"

#include "core/progress.h"
#include "executor/checkpoint/store.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// So much that what a file costs beside its bytes does not count, and little enough to wait for.
enum { DISK_BYTES = 64 << 20, DISK_ROUNDS = 3 };

static const void *give(void *context, int entry, struct err *err)
{
    (void)entry;
    (void)err;
    return context;
}

// A checkpoint of one rank, from its first byte until it has its name; then it is removed.
static bool store_one(const struct checkpoint_store *store, int64_t step, float *numbers,
                      double *took_s, struct err *err)
{
    int64_t elements = DISK_BYTES / (int64_t)sizeof *numbers;
    struct checkpoint_entry entry = {.piece = {.name = "weight.1",
                                               .rank = 1,
                                               .count = {elements},
                                               .whole = {elements},
                                               .vocab_dim = -1,
                                               .elements = elements},
                                     .number = CHECKPOINT_F32};
    const struct checkpoint_facts facts = {.step = step,
                                           .loss_scale = 1,
                                           .model = "disk",
                                           .family = "disk",
                                           .optimizer = "none",
                                           .plan_hash = "none"};
    double began_s = clock_s();
    bool done = checkpoint_store_write(store, step, 0, &entry, 1, give, numbers, err) &&
                checkpoint_store_commit(store, &facts, 1, err);
    *took_s = clock_s() - began_s;
    return checkpoint_store_keep(store, 0, err) && done;
}

bool calibrate_disk(const char *folder, double *bytes_per_s, struct err *err)
{
    char path[PATH_MAX];
    double took_s[DISK_ROUNDS];
    snprintf(path, sizeof path, "%.*s/meshwright-disk-XXXXXX", PATH_MAX - 64, folder);
    if (!mkdtemp(path))
        return err_set(err, ERR_SYSTEM, "cannot write in %.300s: %s", folder, strerror(errno));
    const struct checkpoint_store store = {&DISK_REAL, path};
    float *numbers = memory_get(DISK_BYTES);
    memset(numbers, 1, DISK_BYTES);
    bool done = checkpoint_store_open(&store, err);
    for (int i = 0; i < DISK_ROUNDS && done; i++)
        done = store_one(&store, i + 1, numbers, &took_s[i], err);
    free(numbers);
    // What is left of one that failed goes as well.
    struct err ignored = {0};
    (void)!checkpoint_store_open(&store, &ignored);
    (void)!checkpoint_store_keep(&store, 0, &ignored);
    (void)rmdir(path);
    if (!done) return false;
    double middle_s = sort_median(took_s, DISK_ROUNDS);
    assert(middle_s > 0);
    *bytes_per_s = DISK_BYTES / middle_s;
    return true;
}
