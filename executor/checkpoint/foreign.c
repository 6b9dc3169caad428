#include "executor/checkpoint/foreign.h"

#include "core/json.h"
#include "core/json_write.h"
#include "executor/checkpoint/parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };
static const char ENDING[] = ".safetensors";

static bool is_file(const char *name)
{
    size_t length = strlen(name), end = strlen(ENDING);
    return length > end && strcmp(name + length - end, ENDING) == 0;
}

bool foreign_is(const struct disk *disk, const char *path)
{
    struct arena arena = {0};
    const char **names;
    int count, files = 0;
    bool is_ours = false;
    if (disk->list(disk->context, &arena, path, &names, &count) != 0) count = 0;
    for (int i = 0; i < count; i++) {
        files += is_file(names[i]);
        is_ours |= strcmp(names[i], "checkpoint.json") == 0;
    }
    arena_free(&arena);
    return files > 0 && !is_ours;
}

// An array of theirs.
struct found {
    const char *name;
    enum checkpoint_number number;
    int file;
    int64_t at_bytes, bytes;
    int rank;
    int64_t shape[2];
};

struct folder {
    struct arena *arena;
    const char *path;
    struct found *arrays;
    int count, capacity;
};

// Arrays of more dims, and of whole numbers, are none of the weights that rows name.
static bool read_array(struct folder *folder, const struct json *array, int file, struct err *err)
{
    struct json dtype = json_get(array, "dtype", err), shape = json_get(array, "shape", err);
    struct json offsets = json_get(array, "data_offsets", err);
    const char *name = json_text(&dtype, err);
    int rank = json_count(&shape, err);
    if (err->kind || json_count(&offsets, err) != 2) return json_fail(array, err, "no array");
    struct json first = json_item(&offsets, 0), end = json_item(&offsets, 1);
    struct found found = {.name = json_key(array), .file = file, .rank = rank};
    found.at_bytes = json_i64(&first, 0, 1e18, err);
    found.bytes = json_i64(&end, 0, 1e18, err) - found.at_bytes;
    int64_t elements = 1;
    for (int i = 0; i < rank && i < 2; i++) {
        struct json size = json_item(&shape, i);
        found.shape[i] = json_i64(&size, 0, 1e12, err);
        elements *= found.shape[i];
    }
    if (err->kind) return false;
    if (rank < 1 || rank > 2 || !checkpoint_number_find(name, &found.number)) return true;
    if (elements * checkpoint_number_bytes(found.number) != found.bytes)
        return json_fail(array, err, "expected data_offsets of its shape");
    ARENA_GROW(folder->arena, folder->arrays, folder->count, folder->capacity);
    folder->arrays[folder->count++] = found;
    return true;
}

static bool read_file(struct folder *folder, const struct disk_map *map, const char *path,
                      int number, struct checkpoint_file *file, struct err *err)
{
    struct json_document document;
    int64_t length = 0;
    if (!checkpoint_header_length(path, map->bytes, map->size, &length, err) ||
        !json_parse(folder->arena, path, map->bytes + LENGTH_BYTES, (size_t)length, &document, err))
        return false;
    struct json root = json_root(&document);
    int count = json_count(&root, err);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json array = json_item(&root, i);
        if (strcmp(json_key(&array), "__metadata__") == 0) continue;
        if (!read_array(folder, &array, number, err)) return false;
    }
    file->bytes = map->size;
    file->header_bytes = LENGTH_BYTES + length;
    for (int i = 0; i < folder->count; i++) {
        const struct found *array = &folder->arrays[i];
        if (array->file == number &&
            array->at_bytes + array->bytes > map->size - file->header_bytes)
            return err_set(err, ERR_INPUT, "%s: cut off inside of %.200s", path, array->name);
    }
    return !err->kind;
}

static bool read_folder(struct folder *folder, struct checkpoint_source *source, struct err *err)
{
    const struct disk *disk = source->disk;
    struct checkpoint_index *index = &source->index;
    const char **names;
    int count, error = disk->list(disk->context, folder->arena, folder->path, &names, &count);
    if (error) return err_set(err, ERR_INPUT, "%s: %s", folder->path, strerror(error));
    index->files = ARENA_NEW(folder->arena, struct checkpoint_file, count + 1);
    source->maps = ARENA_NEW(folder->arena, struct disk_map, count + 1);
    source->is_open = ARENA_NEW(folder->arena, bool, count + 1);
    for (int i = 0; i < count; i++) {
        if (!is_file(names[i])) continue;
        int f = index->file_count++;
        const char *path = arena_print(folder->arena, "%s/%s", folder->path, names[i]);
        index->files[f].name = names[i];
        error = disk->map(disk->context, path, &source->maps[f]);
        if (error) return err_set(err, ERR_INPUT, "%s: %s", path, strerror(error));
        source->is_open[f] = true;
        if (!read_file(folder, &source->maps[f], path, f, &index->files[f], err)) return false;
    }
    return true;
}

// With or without the model's own prefix, which files of the bare model lack.
static const struct found *find_array(const struct folder *folder, const char *name)
{
    const char *dot = strchr(name, '.');
    for (int pass = 0; pass < 2; pass++) {
        const char *wanted = pass ? dot ? dot + 1 : name : name;
        for (int i = 0; i < folder->count; i++)
            if (strcmp(folder->arrays[i].name, wanted) == 0) return &folder->arrays[i];
    }
    return NULL;
}

static bool fail_beside(const struct checkpoint_piece *piece, struct err *err)
{
    return err_set(err, ERR_INPUT, "%.200s: what stands in one array with it there is missing",
                   piece->name);
}

// One of ours, or its part of one expert, as an entry.
static bool add_entry(struct folder *folder, struct checkpoint_index *index,
                      const struct foreign_row *row, int layer, struct checkpoint_piece piece,
                      const struct checkpoint_pieces *all, struct err *err)
{
    int expert = foreign_has_experts(row) ? (int)piece.first[0] : 0;
    const char *name = foreign_name(folder->arena, row, layer, expert);
    const struct found *found = find_array(folder, name);
    if (!found)
        return err_set(err, ERR_INPUT, "%s: no array %s for %s", folder->path, name, piece.name);
    struct foreign_view view;
    if (!foreign_view_of(row, &piece, all, &view)) return fail_beside(&piece, err);
    bool is_same = found->rank == view.rank && found->shape[0] == view.shape[0] &&
                   (view.rank == 1 || found->shape[1] == view.shape[1]);
    if (!is_same)
        return err_set(err, ERR_INPUT,
                       "%s: %s is %" PRId64 " x %" PRId64 ", expected %" PRId64 " x %" PRId64,
                       folder->path, name, found->shape[0], found->shape[1], view.shape[0],
                       view.rank > 1 ? view.shape[1] : 0);
    piece.from = 0;
    piece.elements = checkpoint_box_elements(&piece);
    ARENA_GROW(folder->arena, index->entries, index->entry_count, index->entry_capacity);
    index->entries[index->entry_count++] = (struct checkpoint_entry){.piece = piece,
                                                                     .kind = CHECKPOINT_WEIGHT,
                                                                     .number = found->number,
                                                                     .file = found->file,
                                                                     .at_bytes = found->at_bytes,
                                                                     .bytes = found->bytes,
                                                                     .view = view};
    return true;
}

static struct checkpoint_piece whole_of(const struct checkpoint_piece *piece, int64_t vocab)
{
    struct checkpoint_piece whole = *piece;
    for (int i = 0; i < piece->rank; i++) {
        whole.first[i] = 0;
        whole.count[i] = i == piece->vocab_dim ? vocab : piece->whole[i];
    }
    whole.from = 0;
    whole.elements = checkpoint_box_elements(&whole);
    return whole;
}

bool foreign_open(struct arena *arena, const struct disk *disk, const char *path,
                  const char *family, const struct checkpoint_pieces *arrays, int64_t vocab,
                  struct checkpoint_source *source, struct err *err)
{
    struct folder folder = {.arena = arena, .path = path};
    *source = (struct checkpoint_source){.disk = disk, .path = path};
    struct checkpoint_index *index = &source->index;
    index->facts = (struct checkpoint_facts){.loss_scale = 1,
                                             .model = family,
                                             .family = family,
                                             .optimizer = "none",
                                             .plan_hash = "",
                                             .vocab = vocab};
    if (!read_folder(&folder, source, err)) return false;
    for (int i = 0; i < arrays->count; i++) {
        int layer = 0;
        struct checkpoint_piece whole = whole_of(&arrays->items[i], vocab);
        const struct foreign_row *row = foreign_find(family, whole.name, &layer);
        if (!row)
            return err_set(err, ERR_USAGE, "no name is known for %s of family %s", whole.name,
                           family);
        int experts = foreign_has_experts(row) ? (int)whole.whole[0] : 1;
        for (int e = 0; e < experts; e++) {
            struct checkpoint_piece part = whole;
            if (foreign_has_experts(row)) {
                part.first[0] = e;
                part.count[0] = 1;
            }
            if (!add_entry(&folder, index, row, layer, part, arrays, err)) return false;
        }
    }
    checkpoint_index_sort(index);
    return true;
}

// A part of an array to write.
struct part_out {
    const char *name;  // theirs
    struct checkpoint_piece piece;
    struct foreign_view view;
    int64_t elements;  // of theirs
};

static int by_name(const void *a, const void *b)
{
    const struct part_out *left = a, *right = b;
    int order = strcmp(left->name, right->name);
    return order ? order
                 : (left->view.base > right->view.base) - (left->view.base < right->view.base);
}

struct outgoing_parts {
    struct arena *arena;
    struct part_out *items;
    int count, capacity;
};

static bool add_parts(struct outgoing_parts *parts, const struct checkpoint_source *source,
                      const struct checkpoint_piece *piece, const struct checkpoint_pieces *all,
                      struct err *err)
{
    int layer = 0;
    const struct checkpoint_facts *facts = &source->index.facts;
    struct checkpoint_piece whole = whole_of(piece, facts->vocab);
    const struct foreign_row *row = foreign_find(facts->family, piece->name, &layer);
    if (!row)
        return err_set(err, ERR_USAGE, "no name is known for %.200s of family %s", piece->name,
                       facts->family);
    int experts = foreign_has_experts(row) ? (int)whole.whole[0] : 1;
    for (int e = 0; e < experts; e++) {
        struct checkpoint_piece part = whole;
        if (foreign_has_experts(row)) {
            part.first[0] = e;
            part.count[0] = 1;
            part.elements = checkpoint_box_elements(&part);
        }
        struct foreign_view view;
        if (!foreign_view_of(row, &part, all, &view)) return fail_beside(&part, err);
        int64_t elements = view.shape[0] * (view.rank > 1 ? view.shape[1] : 1);
        ARENA_GROW(parts->arena, parts->items, parts->count, parts->capacity);
        parts->items[parts->count++] =
            (struct part_out){foreign_name(parts->arena, row, layer, e), part, view, elements};
    }
    return true;
}

static bool is_new(const struct outgoing_parts *parts, int i)
{
    return i == 0 || strcmp(parts->items[i].name, parts->items[i - 1].name) != 0;
}

static char *foreign_header(struct arena *arena, const struct outgoing_parts *parts,
                            enum checkpoint_number numbers, int *count, int64_t *bytes,
                            int64_t *header_bytes)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_open_flat(&writer, "__metadata__", '{');
    json_put_text(&writer, "format", "pt");
    json_close(&writer, '}');
    for (int i = 0; i < parts->count; i++) {
        const struct part_out *part = &parts->items[i];
        if (!is_new(parts, i)) continue;
        json_open_flat(&writer, part->name, '{');
        json_put_text(&writer, "dtype", checkpoint_number_name(numbers));
        json_open_flat(&writer, "shape", '[');
        for (int d = 0; d < part->view.rank; d++)
            json_put_i64(&writer, NULL, part->view.shape[d]);
        json_close(&writer, ']');
        json_open_flat(&writer, "data_offsets", '[');
        json_put_i64(&writer, NULL, *bytes);
        *bytes += part->elements * checkpoint_number_bytes(numbers);
        json_put_i64(&writer, NULL, *bytes);
        json_close(&writer, ']');
        json_close(&writer, '}');
        ++*count;
    }
    json_close(&writer, '}');
    return checkpoint_header_pack(arena, writer.text, (int64_t)writer.length, header_bytes);
}

static int put_arrays(struct checkpoint_source *source, const struct outgoing_parts *parts,
                      enum checkpoint_number numbers, struct disk_file *file, int64_t at,
                      struct err *err)
{
    struct arena scratch = {0};
    const struct disk *disk = source->disk;
    int error = 0;
    for (int i = 0, next; i < parts->count && !error && !err->kind; i = next) {
        arena_free(&scratch);
        int64_t elements = parts->items[i].elements;
        int64_t bytes = elements * checkpoint_number_bytes(numbers);
        char *array = ARENA_NEW(&scratch, char, bytes + 1);
        for (next = i; next < parts->count && (next == i || !is_new(parts, next)); next++) {
            const struct part_out *part = &parts->items[next];
            double *values = ARENA_NEW(&scratch, double, part->piece.elements + 1);
            if (!checkpoint_source_read(source, &part->piece, CHECKPOINT_WEIGHT, values, err))
                break;
            for (int64_t e = 0; e < part->piece.elements; e++)
                checkpoint_number_put(numbers, array, foreign_view_place(&part->view, e),
                                      values[e]);
        }
        if (!err->kind) error = disk->write(disk->context, file, at, array, bytes);
        at += bytes;
    }
    arena_free(&scratch);
    return error;
}

static bool write_file(struct arena *arena, struct checkpoint_source *source, const char *folder,
                       const struct outgoing_parts *parts, enum checkpoint_number numbers,
                       int *count, int64_t *bytes, struct err *err)
{
    const struct disk *disk = source->disk;
    const char *path = arena_print(arena, "%s/model.safetensors", folder);
    const char *aside = arena_print(arena, "%s/.model.partial", folder);
    int64_t header_bytes;
    const char *header = foreign_header(arena, parts, numbers, count, bytes, &header_bytes);
    struct disk_file *file;
    int error = disk->make_folder(disk->context, folder);
    if (error == EEXIST) error = 0;
    if (!error) error = disk->create(disk->context, aside, &file);
    if (error) return err_set(err, ERR_SYSTEM, "writing %s: %s", path, strerror(error));
    error = disk->write(disk->context, file, 0, header, header_bytes);
    if (!error) error = put_arrays(source, parts, numbers, file, header_bytes, err);
    int closed = disk->close(disk->context, file, !error && !err->kind);
    if (!error) error = closed;
    if (!error && !err->kind) error = disk->rename(disk->context, aside, path);
    if (!error && !err->kind) error = disk->sync_folder(disk->context, folder);
    if (error || err->kind) (void)disk->remove(disk->context, aside);
    if (error) err_set(err, ERR_SYSTEM, "writing %s: %s", path, strerror(error));
    return !err->kind;
}

// A piece of each.
static struct checkpoint_pieces weights_of(struct arena *arena,
                                           const struct checkpoint_index *index)
{
    struct checkpoint_pieces all = {
        ARENA_NEW(arena, struct checkpoint_piece, index->entry_count + 1), 0};
    for (int e = 0; e < index->entry_count; e++) {
        const struct checkpoint_entry *entry = &index->entries[e];
        bool is_new =
            all.count == 0 || strcmp(entry->piece.name, all.items[all.count - 1].name) != 0;
        if (entry->kind == CHECKPOINT_WEIGHT && is_new) all.items[all.count++] = entry->piece;
    }
    return all;
}

bool foreign_write(struct checkpoint_source *source, const char *folder,
                   enum checkpoint_number numbers, int *count, int64_t *bytes, struct err *err)
{
    struct arena arena = {0};
    struct outgoing_parts parts = {.arena = &arena};
    const struct checkpoint_index *index = &source->index;
    *count = 0;
    *bytes = 0;
    struct checkpoint_pieces all = weights_of(&arena, index);
    for (int i = 0; i < all.count && !err->kind; i++)
        (void)add_parts(&parts, source, &all.items[i], &all, err);
    if (!err->kind && parts.count > 0) {
        qsort(parts.items, (size_t)parts.count, sizeof *parts.items, by_name);
        if (numbers == CHECKPOINT_NUMBER_COUNT) numbers = index->entries[0].number;
        (void)write_file(&arena, source, folder, &parts, numbers, count, bytes, err);
    }
    arena_free(&arena);
    return !err->kind;
}
