#include "executor/data/tokens.h"

#include "core/hash.h"
#include "core/plain.h"
#include "executor/data/tokens_format.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool tokens_map(struct tokens *tokens, struct err *err)
{
    int file = open(tokens->path, O_RDONLY | O_CLOEXEC);
    struct stat found;
    bool is_open = file >= 0 && fstat(file, &found) == 0;
    if (!is_open) {
        err_set(err, ERR_INPUT, "%s: %s", tokens->path, strerror(errno));
    } else if (!S_ISREG(found.st_mode)) {
        err_set(err, ERR_INPUT, "%s: no file of tokens", tokens->path);
    } else if (found.st_size == 0) {
        err_set(err, ERR_INPUT, "%s: found an empty file, wanted tokens", tokens->path);
    } else {
        tokens->map_bytes = (size_t)found.st_size;
        tokens->map = mmap(NULL, tokens->map_bytes, PROT_READ, MAP_SHARED, file, 0);
        if (tokens->map == MAP_FAILED) {
            tokens->map = NULL;
            err_set(err, ERR_SYSTEM, "%s: mapping it: %s", tokens->path, strerror(errno));
        }
    }
    if (file >= 0) close(file);
    return !err->kind;
}

void tokens_close(struct tokens *tokens)
{
    if (tokens->map) munmap(tokens->map, tokens->map_bytes);
    tokens->map = NULL;
}

static uint64_t word_at(const unsigned char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static int64_t piece_count(const struct tokens *tokens)
{
    int64_t bytes = tokens->count * tokens->id_bytes;
    return (bytes + TOKENS_PIECE_BYTES - 1) / TOKENS_PIECE_BYTES;
}

// The ends of the documents of ours.
static const unsigned char *ends_of(const struct tokens *tokens)
{
    return tokens->ids + tokens_padded_bytes(tokens->count * tokens->id_bytes);
}

static bool check_header(const struct tokens *tokens, const struct tokens_header *header,
                         struct err *err)
{
    if (tokens->map_bytes < sizeof *header)
        return err_set(err, ERR_INPUT, "%s: found %zu bytes, a header of tokens has %zu",
                       tokens->path, tokens->map_bytes, sizeof *header);
    if (header->version != TOKENS_VERSION)
        return err_set(err, ERR_INPUT, "%s: found version %u of files of tokens, wanted %d",
                       tokens->path, header->version, TOKENS_VERSION);
    if (header->id_bytes != 2 && header->id_bytes != 4)
        return err_set(err, ERR_INPUT, "%s: found ids of %u bytes, wanted 2 or 4", tokens->path,
                       header->id_bytes);
    // Products of what is below 2^48 have room.
    const uint64_t most = (uint64_t)1 << 48;
    if (header->count > most || header->document_count > most || header->vocab > most)
        return err_set(err, ERR_INPUT, "%s: its header is damaged", tokens->path);
    int64_t ids_bytes = (int64_t)header->count * (int)header->id_bytes;
    int64_t pieces = (ids_bytes + TOKENS_PIECE_BYTES - 1) / TOKENS_PIECE_BYTES;
    int64_t wanted = (int64_t)sizeof *header + tokens_padded_bytes(ids_bytes) +
                     8 * ((int64_t)header->document_count + pieces);
    if (wanted != (int64_t)tokens->map_bytes)
        return err_set(err, ERR_INPUT, "%s: found %zu bytes, its header says %lld: it is cut off",
                       tokens->path, tokens->map_bytes, (long long)wanted);
    return true;
}

static bool open_own(struct arena *arena, struct tokens *tokens, struct err *err)
{
    struct tokens_header header = {0};
    size_t bytes = tokens->map_bytes < sizeof header ? tokens->map_bytes : sizeof header;
    memcpy(&header, tokens->map, bytes);
    if (!check_header(tokens, &header, err)) return false;
    tokens->count = (int64_t)header.count;
    tokens->vocab = (int64_t)header.vocab;
    tokens->document_count = (int64_t)header.document_count;
    tokens->id_bytes = (int)header.id_bytes;
    tokens->ids = (const unsigned char *)tokens->map + sizeof header;
    tokens->checksums = ends_of(tokens) + 8 * tokens->document_count;
    tokens->is_checked = ARENA_NEW(arena, atomic_uchar, piece_count(tokens));
    uint64_t said = header.checksum;
    header.checksum = 0;
    uint64_t found = hash_bytes(HASH_START, &header, sizeof header);
    size_t rest = (size_t)(8 * (tokens->document_count + piece_count(tokens)));
    found = hash_bytes(found, ends_of(tokens), rest);
    if (found != said)
        return err_set(err, ERR_INPUT,
                       "%s: its header is damaged: checksum %016llx, it says %016llx", tokens->path,
                       (unsigned long long)found, (unsigned long long)said);
    return true;
}

bool tokens_open(struct arena *arena, const char *path, struct tokens *tokens, struct err *err)
{
    static const char INDEX[] = "MMIDIDX";
    *tokens = (struct tokens){.path = plain_copy(arena, path)};
    size_t length = strlen(path);
    bool is_bin = length > 4 && strcmp(path + length - 4, ".bin") == 0;
    // Megatron's numbers say nothing of themselves.
    if (is_bin) tokens->path = arena_print(arena, "%.*s.idx", (int)(length - 4), tokens->path);
    if (!tokens_map(tokens, err)) return false;
    const char *map = tokens->map;
    bool done = false;
    assert(map);
    if (tokens->map_bytes >= 8 && memcmp(map, TOKENS_MAGIC, 8) == 0) {
        done = open_own(arena, tokens, err);
    } else if (tokens->map_bytes >= 9 && memcmp(map, INDEX, sizeof INDEX) == 0) {
        done = tokens_megatron(arena, tokens, err);
    } else if (tokens->map_bytes >= 10 && memcmp(map, "\x93NUMPY", 6) == 0) {
        done = tokens_numpy(tokens, err);
    } else {
        err_set(err, ERR_INPUT,
                "%s: found no file of tokens, wanted one of `meshwright tokenize`, NumPy's .npy or "
                "Megatron's .bin and .idx",
                tokens->path);
    }
    if (!done) tokens_close(tokens);
    return done;
}

// Signed ids below zero come out above every vocabulary.
static uint64_t id_at(const struct tokens *tokens, int64_t index)
{
    const unsigned char *at = tokens->ids + index * tokens->id_bytes;  // little-endian
    uint64_t id = 0;
    memcpy(&id, at, (size_t)tokens->id_bytes);
    bool is_negative = tokens->is_signed && id >> (8 * tokens->id_bytes - 1);
    return is_negative ? UINT64_MAX : id;
}

// Threads may check one piece twice, and find the same.
static bool check_piece(const struct tokens *tokens, int64_t piece, struct err *err)
{
    if (atomic_load_explicit(&tokens->is_checked[piece], memory_order_relaxed)) return true;
    int64_t all = tokens->count * tokens->id_bytes, first = piece * TOKENS_PIECE_BYTES;
    int64_t bytes = all - first < TOKENS_PIECE_BYTES ? all - first : TOKENS_PIECE_BYTES;
    uint64_t found = hash_bytes(HASH_START, tokens->ids + first, (size_t)bytes);
    uint64_t said = word_at(tokens->checksums + 8 * piece);
    if (found != said)
        return err_set(err, ERR_INPUT,
                       "%s: tokens %lld to %lld are damaged: checksum %016llx, the file says "
                       "%016llx",
                       tokens->path, (long long)(first / tokens->id_bytes),
                       (long long)((first + bytes) / tokens->id_bytes - 1),
                       (unsigned long long)found, (unsigned long long)said);
    atomic_store_explicit(&tokens->is_checked[piece], 1, memory_order_relaxed);
    return true;
}

static bool refuse_id(const struct tokens *tokens, int64_t index, uint64_t id, int64_t vocab,
                      struct err *err)
{
    char number[32] = "below 0";
    if (id != UINT64_MAX) snprintf(number, sizeof number, "%llu", (unsigned long long)id);
    int64_t at = tokens->ids - (const unsigned char *)tokens->map + index * tokens->id_bytes;
    return err_set(err, ERR_INPUT,
                   "%s: token %lld, at byte %lld, is %s: the model's vocabulary has %lld",
                   tokens->path, (long long)index, (long long)at, number, (long long)vocab);
}

bool tokens_read(const struct tokens *tokens, int64_t first, int64_t count, int64_t vocab,
                 int64_t *into, struct err *err)
{
    assert(first >= 0 && count > 0 && first + count <= tokens->count);
    int64_t last_piece = ((first + count) * tokens->id_bytes - 1) / TOKENS_PIECE_BYTES;
    int64_t piece = first * tokens->id_bytes / TOKENS_PIECE_BYTES;
    for (; tokens->checksums && piece <= last_piece; piece++) {
        if (!check_piece(tokens, piece, err)) return false;
    }
    for (int64_t i = 0; i < count; i++) {
        uint64_t id = id_at(tokens, first + i);
        if (id >= (uint64_t)vocab) return refuse_id(tokens, first + i, id, vocab, err);
        into[i] = (int64_t)id;
    }
    return true;
}

bool tokens_know_documents(const struct tokens *tokens)
{
    return tokens->checksums && tokens->document_count > 0;
}

int64_t tokens_document(const struct tokens *tokens, int64_t document, int64_t *first)
{
    assert(tokens->checksums && document >= 0 && document < tokens->document_count);
    const unsigned char *ends = ends_of(tokens);
    *first = document ? (int64_t)word_at(ends + 8 * (document - 1)) : 0;
    return (int64_t)word_at(ends + 8 * document);
}
