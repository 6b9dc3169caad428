#include "core/json.h"
#include "core/json_write.h"
#include "executor/checkpoint/parts.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Headers of safetensors.

enum { LENGTH_BYTES = 8, HEADER_BYTES_MAX = 1 << 28 };

char *checkpoint_slice_text(struct arena *arena, const struct checkpoint_piece *piece)
{
    assert(piece->rank > 0 && piece->rank <= TENSOR_RANK_MAX);
    char *text = arena_copy(arena, "");
    for (int i = 0; i < piece->rank; i++)
        text = arena_print(arena, "%s%" PRId64 ":%" PRId64 "/%" PRId64 " ", text, piece->first[i],
                           piece->count[i], piece->whole[i]);
    return arena_print(arena, "%s| %" PRId64 ":%" PRId64, text, piece->from, piece->elements);
}

// A whole number that is not negative, and what has to stand behind it.
static bool take(const char **text, char behind, int64_t *value)
{
    char *end;
    if (!isdigit((unsigned char)**text)) return false;
    *value = strtoll(*text, &end, 10);
    if (*end != behind) return false;
    *text = behind ? end + 1 : end;
    return *value < (int64_t)1 << 50;
}

bool checkpoint_slice_read(const char *text, struct checkpoint_piece *piece)
{
    int64_t elements = 1;
    *piece = (struct checkpoint_piece){.vocab_dim = -1, .parameter = -1};
    while (*text != '|') {
        int i = piece->rank++;
        if (i == TENSOR_RANK_MAX || !take(&text, ':', &piece->first[i]) ||
            !take(&text, '/', &piece->count[i]) || !take(&text, ' ', &piece->whole[i]))
            return false;
        if (piece->first[i] + piece->count[i] > piece->whole[i]) return false;
        if (elements > ((int64_t)1 << 50) / (piece->count[i] + 1)) return false;
        elements *= piece->count[i];
    }
    if (*++text != ' ') return false;
    text++;
    if (piece->rank == 0 || !take(&text, ':', &piece->from)) return false;
    char *end;
    if (!isdigit((unsigned char)*text)) return false;
    piece->elements = strtoll(text, &end, 10);
    if (*end && *end != ' ') return false;
    return piece->elements >= 0 && piece->from <= elements &&
           piece->elements <= elements - piece->from;
}

bool checkpoint_hex_read(const char *text, uint64_t *value)
{
    *value = 0;
    for (int i = 0; i < 16; i++) {
        char c = text[i];
        bool is_digit = c >= '0' && c <= '9', is_letter = c >= 'a' && c <= 'f';
        if (!is_digit && !is_letter) return false;
        *value = *value << 4 | (uint64_t)(is_digit ? c - '0' : c - 'a' + 10);
    }
    return text[16] == '\0';
}

int64_t checkpoint_place(struct checkpoint_entry *entries, int count)
{
    int64_t at = 0;
    for (int e = 0; e < count; e++) {
        entries[e].at_bytes = at;
        entries[e].bytes = entries[e].piece.elements * checkpoint_number_bytes(entries[e].number);
        at += entries[e].bytes;
    }
    return at;
}

static const char *key_of(struct arena *arena, const struct checkpoint_entry *entry)
{
    if (entry->kind == CHECKPOINT_WEIGHT) return entry->piece.name;
    return arena_print(arena, "%s.%s", entry->piece.name, checkpoint_kind_name(entry->kind));
}

static void put_array(struct json_writer *writer, const struct checkpoint_entry *entry)
{
    const struct checkpoint_piece *piece = &entry->piece;
    bool is_box = piece->from == 0 && piece->elements == checkpoint_box_elements(piece);
    json_open_flat(writer, key_of(writer->arena, entry), '{');
    json_put_text(writer, "dtype", checkpoint_number_name(entry->number));
    json_open_flat(writer, "shape", '[');
    for (int i = 0; i < piece->rank && is_box; i++)
        json_put_i64(writer, NULL, piece->count[i]);
    if (!is_box) json_put_i64(writer, NULL, piece->elements);
    json_close(writer, ']');
    json_open_flat(writer, "data_offsets", '[');
    json_put_i64(writer, NULL, entry->at_bytes);
    json_put_i64(writer, NULL, entry->at_bytes + entry->bytes);
    json_close(writer, ']');
    json_close(writer, '}');
}

// The arrays begin at a multiple of 8.
char *checkpoint_header_pack(struct arena *arena, const char *text, int64_t length, int64_t *bytes)
{
    assert(length > 0 && text[0] == '{');
    int64_t padded = (length + 7) / 8 * 8;
    char *header = arena_alloc(arena, (size_t)(LENGTH_BYTES + padded + 1), 1);
    for (int i = 0; i < LENGTH_BYTES; i++)
        header[i] = (char)(unsigned char)((uint64_t)padded >> 8 * i & 0xff);
    memcpy(header + LENGTH_BYTES, text, (size_t)length);
    memset(header + LENGTH_BYTES + length, ' ', (size_t)(padded - length));
    *bytes = LENGTH_BYTES + padded;
    return header;
}

char *checkpoint_header(struct arena *arena, const struct checkpoint_entry *entries, int count,
                        int64_t *bytes)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_open(&writer, "__metadata__", '{');
    for (int e = 0; e < count; e++) {
        const struct checkpoint_piece *piece = &entries[e].piece;
        json_put_text(&writer, key_of(arena, &entries[e]),
                      arena_print(arena, "%s | %d | %016" PRIx64,
                                  checkpoint_slice_text(arena, piece), piece->vocab_dim,
                                  entries[e].checksum));
    }
    json_close(&writer, '}');
    for (int e = 0; e < count; e++)
        put_array(&writer, &entries[e]);
    json_close(&writer, '}');
    return checkpoint_header_pack(arena, writer.text, (int64_t)writer.length, bytes);
}

// What "__metadata__" says of an array: slice, padded dim, checksum.
static bool read_words(const char *text, struct checkpoint_entry *entry)
{
    const char *bar = strstr(text, " | "), *second = bar ? strstr(bar + 3, " | ") : NULL;
    const char *third = second ? strstr(second + 3, " | ") : NULL;
    if (!third || !checkpoint_slice_read(text, &entry->piece)) return false;
    entry->piece.vocab_dim = atoi(second + 3);
    return entry->piece.vocab_dim < entry->piece.rank &&
           checkpoint_hex_read(third + 3, &entry->checksum);
}

// "NAME.first_moment" is of another kind than "NAME".
static const char *split_key(struct arena *arena, const char *key, enum checkpoint_kind *kind)
{
    *kind = CHECKPOINT_WEIGHT;
    const char *dot = strrchr(key, '.');
    if (!dot || !checkpoint_kind_find(dot + 1, kind) || *kind == CHECKPOINT_WEIGHT) {
        *kind = CHECKPOINT_WEIGHT;
        return arena_copy(arena, key);
    }
    return arena_print(arena, "%.*s", (int)(dot - key), key);
}

static bool read_array(struct arena *arena, const struct json *array, const struct json *metadata,
                       struct checkpoint_entry *entry, struct err *err)
{
    const char *key = json_key(array);
    struct json words = json_get(metadata, key, err), dtype = json_get(array, "dtype", err);
    struct json offsets = json_get(array, "data_offsets", err);
    const char *said = json_text(&words, err), *name = json_text(&dtype, err);
    if (err->kind || json_count(&offsets, err) != 2)
        return json_fail(array, err, "expected two data_offsets");
    struct json first = json_item(&offsets, 0), end = json_item(&offsets, 1);
    int64_t at = json_i64(&first, 0, 1e18, err), after = json_i64(&end, 0, 1e18, err);
    if (err->kind) return false;
    if (!read_words(said, entry)) return json_fail(&words, err, "expected slice and checksum");
    if (!checkpoint_number_find(name, &entry->number))
        return json_fail(&dtype, err, "expected F64, F32, BF16 or F16, found %.20s", name);
    entry->piece.name = split_key(arena, key, &entry->kind);
    entry->at_bytes = at;
    entry->bytes = entry->piece.elements * checkpoint_number_bytes(entry->number);
    if (after - at != entry->bytes) return json_fail(array, err, "expected other data_offsets");
    return true;
}

bool checkpoint_header_length(const char *path, const char *bytes, int64_t count, int64_t *length,
                              struct err *err)
{
    uint64_t said = 0;
    for (int i = 0; i < LENGTH_BYTES && count >= LENGTH_BYTES; i++)
        said |= (uint64_t)(unsigned char)bytes[i] << 8 * i;
    if (count < LENGTH_BYTES || said > HEADER_BYTES_MAX || (int64_t)said > count - LENGTH_BYTES)
        return err_set(err, ERR_INPUT, "%s: no file of safetensors, or cut off", path);
    *length = (int64_t)said;
    return true;
}

bool checkpoint_header_read(struct arena *arena, const char *path, const char *bytes, int64_t count,
                            struct checkpoint_index *index, struct err *err)
{
    assert(count >= 0 && index->file_count >= 0);
    int64_t length = 0;
    struct json_document document;
    if (!checkpoint_header_length(path, bytes, count, &length, err) ||
        !json_parse(arena, path, bytes + LENGTH_BYTES, (size_t)length, &document, err))
        return false;
    struct json root = json_root(&document), metadata = json_get(&root, "__metadata__", err);
    int arrays = json_member_count(&root, err);
    int64_t end = 0;
    for (int i = 0; i < arrays && !err->kind; i++) {
        struct json array = json_item(&root, i);
        if (strcmp(json_key(&array), "__metadata__") == 0) continue;
        ARENA_GROW(arena, index->entries, index->entry_count, index->entry_capacity);
        struct checkpoint_entry *entry = &index->entries[index->entry_count++];
        *entry = (struct checkpoint_entry){.file = index->file_count};
        if (!read_array(arena, &array, &metadata, entry, err)) return false;
        if (entry->at_bytes + entry->bytes > end) end = entry->at_bytes + entry->bytes;
    }
    if (err->kind) return false;
    int64_t header_bytes = LENGTH_BYTES + length;
    if (header_bytes + end != count)
        return err_set(err, ERR_INPUT, "%s: %" PRId64 " bytes, expected %" PRId64, path, count,
                       header_bytes + end);
    const char *slash = strrchr(path, '/');
    index->files[index->file_count++] = (struct checkpoint_file){
        .name = arena_copy(arena, slash ? slash + 1 : path),
        .bytes = count,
        .header_bytes = header_bytes,
        .checksum = checkpoint_checksum(bytes, header_bytes),
    };
    return true;
}
