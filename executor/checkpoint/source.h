#pragma once
#include "executor/checkpoint/store.h"

// A checkpoint to read pieces from, whatever their cut. Its files are mapped, not read: what a
// process holds is what it asks for.

struct checkpoint_source {
    const struct disk *disk;
    const char *path;
    struct checkpoint_index index;
    struct disk_map *maps;  // [file]; without bytes: not opened yet
    bool *is_open;
    int64_t read_bytes;  // since the files rested
};

// The files have been verified, or a file that is not as long as the index says is ERR_INPUT.
MUST_CHECK bool checkpoint_source_open(struct arena *arena, const struct disk *disk,
                                       const char *path, struct checkpoint_source *source,
                                       struct err *err);
void checkpoint_source_close(struct checkpoint_source *source);
// Whether it holds moments of the kind.
bool checkpoint_source_has(const struct checkpoint_source *source, enum checkpoint_kind kind);
// Elements of an array as doubles; those that pad the vocabulary of the target are zero. ERR_INPUT
// when some are not there, or the array has another shape.
MUST_CHECK bool checkpoint_source_read(struct checkpoint_source *source,
                                       const struct checkpoint_piece *piece,
                                       enum checkpoint_kind kind, double *values, struct err *err);
