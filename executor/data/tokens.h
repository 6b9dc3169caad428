#pragma once
#include "core/err.h"

#include <stdatomic.h>
#include <stdint.h>

// Token ids of many documents, one behind another, in a file that is mapped: nothing is read before
// it is used. Three formats, told apart by what stands at their beginning:
//
//   ours        "MWTOKENS", see below
//   NumPy       NAME.npy, one dimension of whole numbers (NEP 1)
//   Megatron    NAME.bin or NAME.idx, both beside each other (Megatron-LM, IndexedDataset)
//
// Ours is little-endian: "MWTOKENS", u32 version 1, u32 bytes of an id (2 or 4), u64 ids, u64
// vocabulary (all ids are below it), u64 documents, u64 FNV-1a of the header with this field zero
// and of all that stands behind the ids, 16 bytes of zero; the ids, filled up to a multiple of 8;
// for each document u64 where it ends, in ids; for each 64 KiB of ids u64 FNV-1a of them.
//
// A piece of ours is checked when it is first read. The other formats have no checksums.

enum { TOKENS_VERSION = 1, TOKENS_PIECE_BYTES = 64 << 10 };

struct tokens {
    const char *path;
    int64_t count;           // ids
    int64_t vocab;           // all ids are below it; 0: the file does not say
    int64_t document_count;  // 0: the file does not say
    const unsigned char *ids;
    int id_bytes;  // 1, 2, 4 or 8
    bool is_signed;
    const unsigned char *checksums;  // [piece] u64; NULL: the format has none
    atomic_uchar *is_checked;        // [piece]
    void *map;                       // of the file
    size_t map_bytes;
};

// Opens a file of any of the formats. ERR_INPUT in one line where it is none, or is cut off.
// `tokens` lives in `arena`, the map until tokens_close.
MUST_CHECK bool tokens_open(struct arena *arena, const char *path, struct tokens *tokens,
                            struct err *err);
void tokens_close(struct tokens *tokens);

// Ids first .. first + count - 1, all there; ERR_INPUT names the first that is not below `vocab`
// with its place, or the piece that is damaged. Any number of threads may read.
MUST_CHECK bool tokens_read(const struct tokens *tokens, int64_t first, int64_t count,
                            int64_t vocab, int64_t *into, struct err *err);

// Whether the file says where documents end: one of ours that has any.
bool tokens_know_documents(const struct tokens *tokens);
// The ids of document `document` of ours: where it begins and, returned, where it ends.
int64_t tokens_document(const struct tokens *tokens, int64_t document, int64_t *first);

// Writes ours: ids put in one after another, a document ended now and then, the file in its place
// by the commit alone (core/file.h).
struct tokens_writer;
MUST_CHECK struct tokens_writer *tokens_writer_open(struct arena *arena, const char *path,
                                                    int64_t vocab, struct err *err);
void tokens_writer_put(struct tokens_writer *writer, const int32_t *ids, int64_t count);
void tokens_writer_end_document(struct tokens_writer *writer);
void tokens_writer_abort(struct tokens_writer *writer);
MUST_CHECK bool tokens_writer_commit(struct tokens_writer *writer, struct err *err);

// Of the formats: `map` holds the first `bytes` of the file.
MUST_CHECK bool tokens_numpy(struct tokens *tokens, struct err *err);
// Takes the place of a map of the .idx by that of the .bin.
MUST_CHECK bool tokens_megatron(struct arena *arena, struct tokens *tokens, struct err *err);
// Maps tokens->path. ERR_INPUT where it cannot be read or is empty.
MUST_CHECK bool tokens_map(struct tokens *tokens, struct err *err);
