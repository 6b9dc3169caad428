#include "executor/data/tokens.h"

#include "core/file.h"
#include "core/hash.h"
#include "executor/data/tokens_format.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

// Ids go straight to the file; what stands behind them is kept until the end. The header holds
// counts and a checksum that are known last: it is written last, into its place.

struct words {
    uint64_t *at;
    int count, capacity;
};

struct tokens_writer {
    struct arena *arena;
    struct file_writer file;
    struct tokens_header header;
    struct words ends, sums;
    uint64_t sum;  // of the piece that is being filled
    int64_t piece_bytes;
};

static void add_word(struct tokens_writer *writer, struct words *words, uint64_t word)
{
    ARENA_GROW(writer->arena, words->at, words->count, words->capacity);
    words->at[words->count++] = word;
}

struct tokens_writer *tokens_writer_open(struct arena *arena, const char *path, int64_t vocab,
                                         struct err *err)
{
    struct tokens_writer *writer = ARENA_NEW(arena, struct tokens_writer, 1);
    writer->arena = arena;
    writer->header = (struct tokens_header){.magic = TOKENS_MAGIC,
                                            .version = TOKENS_VERSION,
                                            .id_bytes = vocab <= 1 << 16 ? 2 : 4,
                                            .vocab = (uint64_t)vocab};
    writer->sum = HASH_START;
    if (!file_open(&writer->file, path, err)) return NULL;
    file_put(&writer->file, (const char *)&writer->header, sizeof writer->header);
    return writer;
}

// A last piece may be short; an empty one has no checksum.
static void end_piece(struct tokens_writer *writer)
{
    if (writer->piece_bytes == 0) return;
    add_word(writer, &writer->sums, writer->sum);
    writer->sum = HASH_START;
    writer->piece_bytes = 0;
}

void tokens_writer_put(struct tokens_writer *writer, const int32_t *ids, int64_t count)
{
    size_t id_bytes = writer->header.id_bytes;
    for (int64_t i = 0; i < count; i++) {
        assert(ids[i] >= 0 && (uint64_t)ids[i] < writer->header.vocab);
        uint32_t id = (uint32_t)ids[i];  // its first two bytes are it where they are enough
        file_put(&writer->file, (const char *)&id, id_bytes);
        writer->sum = hash_bytes(writer->sum, &id, id_bytes);
        writer->piece_bytes += (int64_t)id_bytes;
        if (writer->piece_bytes == TOKENS_PIECE_BYTES) end_piece(writer);
    }
    writer->header.count += (uint64_t)count;
}

// An empty document ends where the one before it does.
void tokens_writer_end_document(struct tokens_writer *writer)
{
    add_word(writer, &writer->ends, writer->header.count);
}

void tokens_writer_abort(struct tokens_writer *writer)
{
    file_abort(&writer->file);
}

bool tokens_writer_commit(struct tokens_writer *writer, struct err *err)
{
    static const char ZEROS[8];
    end_piece(writer);
    struct tokens_header *header = &writer->header;
    int64_t bytes = (int64_t)(header->count * header->id_bytes);
    file_put(&writer->file, ZEROS, (size_t)(tokens_padded_bytes(bytes) - bytes));
    header->document_count = (uint64_t)writer->ends.count;
    assert(writer->sums.count == (bytes + TOKENS_PIECE_BYTES - 1) / TOKENS_PIECE_BYTES);
    uint64_t sum = hash_bytes(HASH_START, header, sizeof *header);
    const struct words parts[] = {writer->ends, writer->sums};
    for (int i = 0; i < 2; i++) {
        if (parts[i].count == 0) continue;
        size_t size = (size_t)parts[i].count * sizeof *parts[i].at;
        file_put(&writer->file, (const char *)parts[i].at, size);
        sum = hash_bytes(sum, parts[i].at, size);
    }
    header->checksum = sum;
    int error = fseek(writer->file.stream, 0, SEEK_SET) == 0 ? 0 : errno;
    if (error == ESPIPE) {
        err_set(err, ERR_USAGE, "%s: tokens go to a file alone", writer->file.path);
        file_abort(&writer->file);
        return false;
    }
    // Else it is what stood in the stream's buffer that could not be written.
    if (error) writer->file.error = error;
    file_put(&writer->file, (const char *)header, sizeof *header);
    return file_commit(&writer->file, err);
}
