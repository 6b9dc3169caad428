#pragma once
#include "executor/checkpoint/disk.h"
#include "executor/checkpoint/index.h"

// The folder of a run's checkpoints. One is a folder "step-00000010" of a file a rank and its
// index; it comes about as ".step-00000010.partial", in this order: every rank writes its file and
// syncs it; when all have, one rank writes the index, syncs it and the folder, renames the folder
// and syncs the one above. So whatever has the name is whole, and whoever is killed in between
// leaves the ones before as they were. Errors are ERR_SYSTEM with path and reason, but for what is
// damaged, which is ERR_INPUT.

struct checkpoint_store {
    const struct disk *disk;
    const char *folder;
};

// By one rank, before any other call: makes the folder where it is missing, removes what a killed
// run left half done, and tries whether it can be written. What it then holds lasts.
MUST_CHECK bool checkpoint_store_open(const struct checkpoint_store *store, struct err *err);
// Steps of which there are checkpoints, the last one first; in the arena. None where there is no
// folder.
MUST_CHECK bool checkpoint_store_steps(const struct checkpoint_store *store, struct arena *arena,
                                       int64_t **steps, int *count, struct err *err);
char *checkpoint_store_path(struct arena *arena, const struct checkpoint_store *store,
                            int64_t step);

// A rank's file. `get` gives the bytes of an entry, good until its next call; NULL with `err` set
// when it cannot. The entries get their places and checksums.
typedef const void *(*checkpoint_get)(void *context, int entry, struct err *err);
MUST_CHECK bool checkpoint_store_write(const struct checkpoint_store *store, int64_t step, int rank,
                                       struct checkpoint_entry *entries, int count,
                                       checkpoint_get get, void *context, struct err *err);
// Gives up what this rank has written of a checkpoint that will not be; best effort.
void checkpoint_store_discard(const struct checkpoint_store *store, int64_t step, int rank);
// When every rank's file is there.
MUST_CHECK bool checkpoint_store_commit(const struct checkpoint_store *store,
                                        const struct checkpoint_facts *facts, int rank_count,
                                        struct err *err);
// Removes all but the last `keep` of them; 0: none.
MUST_CHECK bool checkpoint_store_keep(const struct checkpoint_store *store, int keep,
                                      struct err *err);
// A checkpoint that is damaged is not to be in the way of a new one of its step: it becomes
// "damaged-00000010".
MUST_CHECK bool checkpoint_store_set_aside(const struct checkpoint_store *store, int64_t step,
                                           struct err *err);

// Reads the index of a checkpoint, a folder.
MUST_CHECK bool checkpoint_load(const struct disk *disk, struct arena *arena, const char *path,
                                struct checkpoint_index *index, struct err *err);
// Whether one of its files is as it was written: size, header and all arrays. ERR_INPUT with what
// is wrong where; ERR_SYSTEM where it cannot be read, which says nothing of it.
MUST_CHECK bool checkpoint_verify(const struct disk *disk, const char *path,
                                  const struct checkpoint_index *index, int file, struct err *err);
