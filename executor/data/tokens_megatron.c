#include "executor/data/tokens.h"

#include <assert.h>
#include <string.h>

// Megatron-LM's IndexedDataset (megatron/core/datasets/indexed_dataset.py): the .idx holds
// "MMIDIDX\0\0", u64 version 1, u8 type of the numbers, u64 sequences, u64 documents, then i32
// length of each sequence, i64 byte of the .bin where it begins, and i64 sequence where each
// document begins. Sequences follow each other in the .bin without a gap; the files of one are in
// the order in which they are read.

enum { HEAD_BYTES = 9 + 8 + 1 + 8 + 8 };

// By Megatron's code of the type.
static const struct {
    int bytes;
    bool is_signed;
} TYPES[] = {{0, false}, {1, false}, {1, true},  {2, true}, {4, true},
             {8, true},  {0, false}, {0, false}, {2, false}};

static int64_t number_at(const unsigned char *at, size_t bytes)
{
    int64_t number = 0;
    assert(bytes <= sizeof number);
    memcpy(&number, at, bytes);
    return number;
}

// Where sequences lie, against where they should: one behind another.
static bool add_lengths(struct tokens *tokens, const unsigned char *index, int64_t sequences,
                        struct err *err)
{
    const unsigned char *lengths = index + HEAD_BYTES, *firsts = lengths + 4 * sequences;
    for (int64_t i = 0; i < sequences; i++) {
        int64_t length = number_at(lengths + 4 * i, 4), first = number_at(firsts + 8 * i, 8);
        int64_t wanted = tokens->count * tokens->id_bytes;
        if (length > INT32_MAX || first != wanted)
            return err_set(err, ERR_INPUT,
                           "%s: sequence %lld begins at byte %lld of the .bin, wanted %lld: one "
                           "behind another",
                           tokens->path, (long long)i, (long long)first, (long long)wanted);
        tokens->count += length;
    }
    return true;
}

static bool read_index(struct tokens *tokens, struct err *err)
{
    const unsigned char *index = tokens->map;
    const char *path = tokens->path;
    if (tokens->map_bytes < HEAD_BYTES)
        return err_set(err, ERR_INPUT, "%s: an index that is cut off", path);
    int64_t version = number_at(index + 9, 8), type = index[17];
    int64_t sequences = number_at(index + 18, 8), documents = number_at(index + 26, 8);
    if (version != 1)
        return err_set(err, ERR_INPUT, "%s: found version %lld of an index, wanted 1", path,
                       (long long)version);
    int64_t types = (int64_t)(sizeof TYPES / sizeof *TYPES);
    if (type >= types || TYPES[type].bytes == 0)
        return err_set(err, ERR_INPUT, "%s: found type %lld of numbers, wanted whole ones", path,
                       (long long)type);
    tokens->id_bytes = TYPES[type].bytes;
    tokens->is_signed = TYPES[type].is_signed;
    int64_t most = (int64_t)(tokens->map_bytes - HEAD_BYTES);
    bool has_room = sequences >= 0 && documents >= 0 && sequences <= most / 12 &&
                    documents <= (most - 12 * sequences) / 8;
    if (!has_room)
        return err_set(err, ERR_INPUT, "%s: found %zu bytes, its header says more: it is cut off",
                       path, tokens->map_bytes);
    // Where documents begin, and behind the last of them where it ends: one more than there are.
    tokens->document_count = documents > 0 ? documents - 1 : 0;
    return add_lengths(tokens, index, sequences, err);
}

bool tokens_megatron(struct arena *arena, struct tokens *tokens, struct err *err)
{
    if (!read_index(tokens, err)) return false;
    size_t length = strlen(tokens->path);
    bool is_index = length > 4 && strcmp(tokens->path + length - 4, ".idx") == 0;
    if (!is_index)
        return err_set(err, ERR_INPUT, "%s: an index of Megatron's is called NAME.idx",
                       tokens->path);
    // The index has said what it had to: the .bin takes its place.
    tokens_close(tokens);
    tokens->path = arena_print(arena, "%.*s.bin", (int)(length - 4), tokens->path);
    if (!tokens_map(tokens, err)) return false;
    tokens->ids = tokens->map;
    int64_t wanted = tokens->count * tokens->id_bytes;
    if (wanted == (int64_t)tokens->map_bytes) return true;
    return err_set(err, ERR_INPUT, "%s: found %zu bytes, its .idx says %lld", tokens->path,
                   tokens->map_bytes, (long long)wanted);
}
