#include "executor/checkpoint/index.h"

#include "core/hash.h"
#include "core/json.h"
#include "core/json_write.h"
#include "executor/checkpoint/parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { INDEX_VERSION = 1 };
static const char CHECKSUM_KEY[] = "\"checksum\":";

uint64_t checkpoint_checksum(const void *bytes, int64_t count)
{
    assert(count >= 0);
    const char *at = bytes;
    uint64_t hash = hash_word(HASH_START, (uint64_t)count), word = 0;
    for (; count >= (int64_t)sizeof word; count -= (int64_t)sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = hash_word(hash, word);
    }
    if (count == 0) return hash;
    word = 0;
    memcpy(&word, at, (size_t)count);
    return hash_word(hash, word);
}

static const char *hex(struct arena *arena, uint64_t value)
{
    return arena_print(arena, "%016" PRIx64, value);
}

static bool hex_read(const struct json *value, uint64_t *into, struct err *err)
{
    const char *text = json_text(value, err);
    if (!text) return false;
    if (!checkpoint_hex_read(text, into))
        return json_fail(value, err, "expected 16 hexadecimal digits, found \"%.40s\"", text);
    return true;
}

// One line an entry.
static void put_entry(struct json_writer *writer, const struct checkpoint_entry *entry)
{
    assert(entry->piece.rank > 0 && entry->bytes >= 0 && entry->at_bytes >= 0);
    json_open_flat(writer, NULL, '{');
    json_put_text(writer, "name", entry->piece.name);
    json_put_text(writer, "kind", checkpoint_kind_name(entry->kind));
    json_put_text(writer, "slice", checkpoint_slice_text(writer->arena, &entry->piece));
    json_put_i64(writer, "vocab_dim", entry->piece.vocab_dim);
    json_put_text(writer, "dtype", checkpoint_number_name(entry->number));
    json_put_i64(writer, "file", entry->file);
    json_put_i64(writer, "at_bytes", entry->at_bytes);
    json_put_i64(writer, "bytes", entry->bytes);
    json_put_text(writer, "checksum", hex(writer->arena, entry->checksum));
    json_close(writer, '}');
}

// An index but for its lists, as it is written and read.
struct index_head {
    int64_t version;
    struct checkpoint_facts facts;
    const char *checksum;
};
#define FACT(key, type, member, low, high)                                                 \
    {                                                                                      \
        key, JSON_TYPE_##type, offsetof(struct index_head, facts.member), low, high, false \
    }
static const struct json_field HEAD_FIELDS[] = {
    {JSON_I64(struct index_head, version, INDEX_VERSION, INDEX_VERSION)},
    FACT("step", I64, step, 0, 1e15),
    FACT("updates", I64, updates, 0, 1e15),
    FACT("sequences", I64, sequences, 0, 1e15),
    FACT("seed", I64, seed, 0, 1e15),
    FACT("loss_scale", F64, loss_scale, 0, 1e30),
    FACT("good_steps", INT, good_steps, 0, 1e9),
    FACT("norm_mean", F64, norms.mean, 0, 1e300),
    FACT("norm_variance", F64, norms.variance, 0, 1e300),
    FACT("norm_count", I64, norms.count, 0, 1e15),
    FACT("model", TEXT, model, 0, 0),
    FACT("family", TEXT, family, 0, 0),
    FACT("optimizer", TEXT, optimizer, 0, 0),
    FACT("plan_hash", TEXT, plan_hash, 0, 0),
    FACT("vocab", I64, vocab, 0, 1e12),
    {JSON_ANY("files")},
    {JSON_ANY("entries")},
    {JSON_TEXT(struct index_head, checksum)},
    {0},
};

char *checkpoint_index_text(struct arena *arena, const struct checkpoint_index *index)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    const struct index_head head = {.version = INDEX_VERSION, .facts = index->facts};
    json_put_fields(&writer, HEAD_FIELDS, &head);
    json_open(&writer, "files", '[');
    for (int f = 0; f < index->file_count; f++) {
        const struct checkpoint_file *file = &index->files[f];
        json_open_flat(&writer, NULL, '{');
        json_put_text(&writer, "name", file->name);
        json_put_i64(&writer, "bytes", file->bytes);
        json_put_i64(&writer, "header_bytes", file->header_bytes);
        json_put_text(&writer, "checksum", hex(arena, file->checksum));
        json_close(&writer, '}');
    }
    json_close(&writer, ']');
    json_open(&writer, "entries", '[');
    for (int e = 0; e < index->entry_count; e++)
        put_entry(&writer, &index->entries[e]);
    json_close(&writer, ']');
    json_put_text(&writer, "checksum", "0000000000000000");
    json_close(&writer, '}');
    char *value = strstr(writer.text, "0000000000000000\"\n}");
    assert(value && "it was written just now");
    for (char *next = value; (next = strstr(next + 1, "0000000000000000\"\n}"));)
        value = next;
    const char *sum = hex(arena, checkpoint_checksum(writer.text, value - writer.text));
    memcpy(value, sum, 16);
    return writer.text;
}

static bool read_file(const struct json *item, struct checkpoint_file *file, struct err *err)
{
    static const struct json_field FIELDS[] = {
        {JSON_TEXT(struct checkpoint_file, name)},
        {JSON_I64(struct checkpoint_file, bytes, 8, 1e18)},
        {JSON_I64(struct checkpoint_file, header_bytes, 8, 1e12)},
        {JSON_ANY("checksum")},
        {0},
    };
    json_read(item, FIELDS, file, err);
    if (err->kind) return false;
    if (strchr(file->name, '/'))
        return json_fail(item, err, "expected the name of a file, found \"%.80s\"", file->name);
    struct json sum = json_get(item, "checksum", err);
    return hex_read(&sum, &file->checksum, err);
}

static bool read_entry(struct arena *arena, const struct json *item,
                       const struct checkpoint_index *index, struct checkpoint_entry *entry,
                       struct err *err)
{
    struct row {
        const char *name, *kind, *slice, *dtype;
        int vocab_dim, file;
        int64_t at_bytes, bytes;
    } row = {0};
    static const struct json_field FIELDS[] = {
        {JSON_TEXT(struct row, name)},
        {JSON_TEXT(struct row, kind)},
        {JSON_TEXT(struct row, slice)},
        {JSON_INT(struct row, vocab_dim, -1, TENSOR_RANK_MAX - 1)},
        {JSON_TEXT(struct row, dtype)},
        {JSON_INT(struct row, file, 0, 1e9)},
        {JSON_I64(struct row, at_bytes, 0, 1e18)},
        {JSON_I64(struct row, bytes, 0, 1e18)},
        {JSON_ANY("checksum")},
        {0},
    };
    json_read(item, FIELDS, &row, err);
    struct json sum = json_get(item, "checksum", err);
    if (err->kind || !hex_read(&sum, &entry->checksum, err)) return false;
    if (!checkpoint_kind_find(row.kind, &entry->kind) ||
        !checkpoint_number_find(row.dtype, &entry->number))
        return json_fail(item, err,
                         "expected a kind and a dtype that are known, found %.40s, %.40s", row.kind,
                         row.dtype);
    if (!checkpoint_slice_read(row.slice, &entry->piece))
        return json_fail(item, err, "expected a slice, found \"%.80s\"", row.slice);
    entry->piece.name = arena_copy(arena, row.name);
    entry->piece.vocab_dim = row.vocab_dim;
    entry->piece.parameter = -1;
    entry->file = row.file;
    entry->at_bytes = row.at_bytes;
    entry->bytes = row.bytes;
    bool is_inside = row.file < index->file_count &&
                     row.bytes == entry->piece.elements * checkpoint_number_bytes(entry->number) &&
                     row.at_bytes + row.bytes + index->files[row.file].header_bytes <=
                         index->files[row.file].bytes;
    if (!is_inside) return json_fail(item, err, "expected bytes inside of the file");
    return true;
}

// What is said of the text in its last member; a change before or in it shows.
static bool check_sum(const char *path, const char *text, int64_t bytes, const char *said,
                      struct err *err)
{
    uint64_t wanted = 0;
    int64_t tail = (int64_t)strlen("0123456789abcdef\"\n}\n");
    // With or without the newline at the end.
    while (tail > 0 && (bytes < tail || strncmp(text + bytes - tail, said, 16) != 0))
        tail--;
    bool is_right = tail >= 18 && checkpoint_hex_read(said, &wanted) &&
                    checkpoint_checksum(text, bytes - tail) == wanted;
    if (!is_right)
        return err_set(err, ERR_INPUT, "%s: the text is not that of its %.10s \"%.40s\"", path,
                       CHECKSUM_KEY + 1, said);
    return true;
}

bool checkpoint_index_read(struct arena *arena, const char *path, const char *text, int64_t bytes,
                           struct checkpoint_index *index, struct err *err)
{
    assert(bytes >= 0);
    struct json_document document;
    struct index_head head = {0};
    *index = (struct checkpoint_index){0};
    if (!json_parse(arena, path, text, (size_t)bytes, &document, err)) return false;
    struct json root = json_root(&document);
    json_read(&root, HEAD_FIELDS, &head, err);
    if (err->kind || !check_sum(path, text, bytes, head.checksum, err)) return false;
    index->facts = head.facts;
    struct json files = json_get(&root, "files", err), entries = json_get(&root, "entries", err);
    index->file_count = json_count(&files, err);
    int count = json_count(&entries, err);
    if (err->kind) return false;
    index->files = ARENA_NEW(arena, struct checkpoint_file, index->file_count + 1);
    index->entries = ARENA_NEW(arena, struct checkpoint_entry, count + 1);
    for (int f = 0; f < index->file_count; f++) {
        struct json item = json_item(&files, f);
        if (!read_file(&item, &index->files[f], err)) return false;
    }
    for (; index->entry_count < count; index->entry_count++) {
        struct json item = json_item(&entries, index->entry_count);
        if (!read_entry(arena, &item, index, &index->entries[index->entry_count], err))
            return false;
    }
    checkpoint_index_sort(index);
    return true;
}

static int by_key(const struct checkpoint_entry *entry, const char *name, enum checkpoint_kind kind)
{
    int order = strcmp(entry->piece.name, name);
    return order ? order : (entry->kind > kind) - (entry->kind < kind);
}

static int by_place(const void *left, const void *right)
{
    const struct checkpoint_entry *a = left, *b = right;
    int order = by_key(a, b->piece.name, b->kind);
    if (order) return order;
    if (a->file != b->file) return a->file < b->file ? -1 : 1;
    return (a->at_bytes > b->at_bytes) - (a->at_bytes < b->at_bytes);
}

void checkpoint_index_sort(struct checkpoint_index *index)
{
    if (index->entry_count > 1)
        qsort(index->entries, (size_t)index->entry_count, sizeof *index->entries, by_place);
}

const struct checkpoint_entry *checkpoint_index_find(const struct checkpoint_index *index,
                                                     const char *name, enum checkpoint_kind kind,
                                                     int *count)
{
    int low = 0, high = index->entry_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (by_key(&index->entries[middle], name, kind) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    int end = low;
    while (end < index->entry_count && by_key(&index->entries[end], name, kind) == 0)
        end++;
    assert(low <= end && end <= index->entry_count);
    *count = end - low;
    return *count > 0 ? &index->entries[low] : NULL;
}
