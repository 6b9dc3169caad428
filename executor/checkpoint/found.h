#pragma once
#include "executor/checkpoint/foreign.h"
#include "executor/checkpoint/source.h"

// What is found in a folder of another's.

// An array of theirs.
struct foreign_array {
    const char *name;
    enum checkpoint_number number;
    bool is_code;  // words of 32 bits, of which `number` says nothing
    int file;
    int64_t at_bytes, bytes;
    int rank;
    int64_t shape[2];
    struct foreign_chunk *chunks;  // NULL: it is all in `file`
    int chunk_count;
};

struct folder {
    struct arena *arena;
    const char *path;
    struct foreign_array *arrays;
    int count, capacity;
    bool has_codes;  // some are is_code
    enum foreign_names names;
};

// PyTorch's distributed checkpoints (torch.distributed.checkpoint, FileSystemWriter): ".metadata",
// a pickle that says of every tensor its chunks and where they lie, and files of chunks, each as
// torch.save writes it: a zip that holds a pickle and the numbers, not packed. No code of theirs is
// run. Other values than tensors of one or two dims of floating point are left out, and so is the
// optimizer's state.
//
// Megatron-Core (dist_checkpointing, `torch_dist`) writes the same files. Its tensors are whole
// across tensor parallel ranks; all layers of a kind are one tensor, whose first dim counts them,
// and all experts of a layer one, whose next dim does: "decoder.layers.mlp.router.weight". Here
// each is an array with the numbers in its name, as Megatron itself calls layers that are not all
// alike: "decoder.layers.3.mlp.router.weight".
bool dcp_is(const struct disk *disk, const char *path);
MUST_CHECK bool dcp_read(struct folder *folder, struct checkpoint_source *source, struct err *err);
