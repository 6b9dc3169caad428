#include "executor/checkpoint/foreign.h"

#include "core/json.h"
#include "executor/checkpoint/found.h"
#include "executor/checkpoint/parts.h"

#include <assert.h>
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
    return (files > 0 || dcp_is(disk, path)) && !is_ours;
}

// Arrays of more dims, and of whole numbers, are none of the weights that rows name.
static bool read_array(struct folder *folder, const struct json *array, int file, struct err *err)
{
    struct json dtype = json_get(array, "dtype", err), shape = json_get(array, "shape", err);
    struct json offsets = json_get(array, "data_offsets", err);
    const char *name = json_text(&dtype, err);
    int rank = json_count(&shape, err);
    if (err->kind || json_count(&offsets, err) != 2) return json_fail(array, err, "no array");
    struct json first = json_item(&offsets, 0), end = json_item(&offsets, 1);
    struct foreign_array found = {.name = json_key(array), .file = file, .rank = rank};
    found.at_bytes = json_i64(&first, 0, 1e18, err);
    found.bytes = json_i64(&end, 0, 1e18, err) - found.at_bytes;
    int64_t elements = 1;
    for (int i = 0; i < rank && i < 2; i++) {
        struct json size = json_item(&shape, i);
        // Their product in bytes has to be a number, too.
        found.shape[i] = json_i64(&size, 0, 1e9, err);
        elements *= found.shape[i];
    }
    if (err->kind) return false;
    found.is_code = strcmp(name, "I32") == 0;
    bool is_number = checkpoint_number_find(name, &found.number);
    if (rank < 1 || rank > 2 || (!is_number && !found.is_code)) return true;
    int64_t wide = found.is_code ? 4 : checkpoint_number_bytes(found.number);
    if (elements * wide != found.bytes)
        return json_fail(array, err, "expected data_offsets of its shape");
    ARENA_GROW(folder->arena, folder->arrays, folder->count, folder->capacity);
    folder->arrays[folder->count++] = found;
    folder->has_codes = folder->has_codes || found.is_code;
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
    int count = json_member_count(&root, err);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json array = json_item(&root, i);
        if (strcmp(json_key(&array), "__metadata__") == 0) continue;
        if (!read_array(folder, &array, number, err)) return false;
    }
    file->bytes = map->size;
    file->header_bytes = LENGTH_BYTES + length;
    for (int i = 0; i < folder->count; i++) {
        const struct foreign_array *array = &folder->arrays[i];
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
    if (error) return disk_fail_read(folder->path, error, err);
    index->files = ARENA_NEW(folder->arena, struct checkpoint_file, count + 1);
    source->maps = ARENA_NEW(folder->arena, struct disk_map, count + 1);
    source->is_open = ARENA_NEW(folder->arena, bool, count + 1);
    for (int i = 0; i < count; i++) {
        if (!is_file(names[i])) continue;
        int f = index->file_count++;
        const char *path = arena_print(folder->arena, "%s/%s", folder->path, names[i]);
        index->files[f].name = names[i];
        error = disk->map(disk->context, path, &source->maps[f]);
        if (error) return disk_fail_read(path, error, err);
        source->is_open[f] = true;
        if (!read_file(folder, &source->maps[f], path, f, &index->files[f], err)) return false;
    }
    return true;
}

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), count = strlen(end);
    return length > count && name[length - count - 1] == '.' &&
           strcmp(name + length - count, end) == 0;
}

static int by_name(const void *a, const void *b)
{
    const struct foreign_array *left = a, *right = b;
    return strcmp(left->name, right->name);
}

static const struct foreign_array *find_exact(const struct folder *folder, const char *name)
{
    assert(name && *name);
    const struct foreign_array wanted = {.name = name};
    if (folder->count == 0) return NULL;
    return bsearch(&wanted, folder->arrays, (size_t)folder->count, sizeof wanted, by_name);
}

// With or without the model's own prefix, which files of the bare model lack, or, of a distributed
// checkpoint, behind the names of what the model was in; NULL where several are.
static const struct foreign_array *find_array(const struct folder *folder, const char *name)
{
    const char *dot = strchr(name, '.');
    const struct foreign_array *found = find_exact(folder, name);
    if (!found && dot) found = find_exact(folder, dot + 1);
    if (found) return found;
    int count = 0;
    for (int i = 0; i < folder->count; i++) {
        const struct foreign_array *other = &folder->arrays[i];
        if (!other->chunks || !ends_with(other->name, name)) continue;
        found = other;
        count++;
    }
    return count == 1 ? found : NULL;
}

// Codes of a matrix and their scales, in one file; NULL: it has none of this shape.
static const struct foreign_array *find_codes(const struct folder *folder, const char *name,
                                              const struct foreign_view *view,
                                              struct quantized *codes)
{
    if (!folder->has_codes) return NULL;
    const struct foreign_array *words =
        find_array(folder, arena_print(folder->arena, "%s_packed", name));
    const struct foreign_array *scales =
        find_array(folder, arena_print(folder->arena, "%s_scale", name));
    if (!words || !scales || !words->is_code || scales->is_code || view->rank != 2) return NULL;
    int64_t rows = view->shape[0], columns = view->shape[1];
    int64_t groups = scales->rank > 1 ? scales->shape[1] : 1;
    // How wide the codes are shows in how many words a row has.
    int64_t bytes = 4 * words->shape[1];
    bool is_wide = bytes == quantized_row_bytes(8, columns);
    bool is_narrow = bytes == quantized_row_bytes(4, columns);
    bool is_same = words->rank == 2 && words->shape[0] == rows && scales->shape[0] == rows;
    if (!is_same || is_wide == is_narrow || words->file != scales->file) return NULL;
    if (groups < 1 || columns % groups != 0) return NULL;
    *codes = (struct quantized){is_wide ? 8 : 4, columns, columns / groups, scales->at_bytes,
                                scales->number};
    return words;
}

bool foreign_fail_beside(const struct checkpoint_piece *piece, struct err *err)
{
    return err_set(err, ERR_INPUT, "%.200s: what stands in one array with it there is missing",
                   piece->name);
}

// One of ours, or its part of one expert, as an entry.
static bool add_entry(struct folder *folder, struct checkpoint_index *index,
                      const struct foreign_row *row, int layer, struct checkpoint_piece piece,
                      const struct checkpoint_pieces *all, struct err *err)
{
    assert(!err->kind);
    int expert = foreign_has_experts(row) ? (int)piece.first[0] : 0;
    const char *name = foreign_name(folder->arena, row, layer, expert);
    struct foreign_view view;
    struct quantized codes = {0};
    if (!foreign_view_of(row, &piece, all, &view)) return foreign_fail_beside(&piece, err);
    const struct foreign_array *found = find_codes(folder, name, &view, &codes);
    if (!found) found = find_array(folder, name);
    if (!found || (found->is_code && !codes.bits))
        return err_set(err, ERR_INPUT, "%s: no array %s for %s", folder->path, name, piece.name);
    // Megatron pads the vocabulary, to what its tensor parallel ranks can share.
    bool is_padded = folder->names == NAMES_MEGATRON && piece.vocab_dim == 0;
    bool is_same =
        found->rank == view.rank &&
        (found->shape[0] == view.shape[0] || (is_padded && found->shape[0] > view.shape[0])) &&
        (view.rank == 1 || found->shape[1] == view.shape[1]);
    if (!is_same && !codes.bits)
        return err_set(err, ERR_INPUT,
                       "%s: %s is %" PRId64 " x %" PRId64 ", expected %" PRId64 " x %" PRId64,
                       folder->path, name, found->shape[0], found->shape[1], view.shape[0],
                       view.rank > 1 ? view.shape[1] : 0);
    piece.from = 0;
    piece.elements = checkpoint_box_elements(&piece);
    ARENA_GROW(folder->arena, index->entries, index->entry_count, index->entry_capacity);
    index->entries[index->entry_count++] =
        (struct checkpoint_entry){.piece = piece,
                                  .kind = CHECKPOINT_WEIGHT,
                                  .number = codes.bits ? codes.scale_number : found->number,
                                  .file = found->file,
                                  .at_bytes = found->at_bytes,
                                  .bytes = found->bytes,
                                  .codes = codes,
                                  .chunks = found->chunks,
                                  .chunk_count = found->chunk_count,
                                  .view = view};
    return true;
}

struct checkpoint_piece foreign_whole(const struct checkpoint_piece *piece, int64_t vocab)
{
    assert(piece->rank > 0 && piece->vocab_dim < piece->rank);
    struct checkpoint_piece whole = *piece;
    for (int i = 0; i < piece->rank; i++) {
        whole.first[i] = 0;
        whole.count[i] = i == piece->vocab_dim ? vocab : piece->whole[i];
    }
    whole.from = 0;
    whole.elements = checkpoint_box_elements(&whole);
    return whole;
}

// Of the rows of an array the first whose array is there; else the first.
static const struct foreign_row *choose_row(const struct folder *folder, const char *family,
                                            const char *name, int *layer)
{
    const struct foreign_row *first = foreign_find(folder->names, family, name, NULL, layer);
    for (const struct foreign_row *row = first; row;
         row = foreign_find(folder->names, family, name, row, layer)) {
        if (find_array(folder, foreign_name(folder->arena, row, *layer, 0))) return row;
    }
    return first;
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
    bool is_dcp = dcp_is(disk, path);
    if (!(is_dcp ? dcp_read : read_folder)(&folder, source, err)) return false;
    if (folder.count > 0)
        qsort(folder.arrays, (size_t)folder.count, sizeof *folder.arrays, by_name);
    for (int i = 0; i < arrays->count; i++) {
        int layer = 0;
        struct checkpoint_piece whole = foreign_whole(&arrays->items[i], vocab);
        const struct foreign_row *row = choose_row(&folder, family, whole.name, &layer);
        if (!row)
            return err_set(
                err, ERR_USAGE, "no name is known for %s of family %s%s", whole.name, family,
                folder.names == NAMES_MEGATRON ? " in checkpoints of Megatron-Core" : "");
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
