#include "core/names.h"
#include "executor/checkpoint/found.h"

#include "core/zip.h"
#include "executor/checkpoint/pickle.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char METADATA[] = ".metadata";

// Of a tensor: two that count layers and experts, and the two of one of them.
enum { DIMS_MOST = 4 };

bool dcp_is(const struct disk *disk, const char *path)
{
    struct arena arena = {0};
    struct disk_map map;
    bool is_there =
        disk->map(disk->context, arena_print(&arena, "%s/%s", path, METADATA), &map) == 0;
    if (is_there) disk->unmap(disk->context, &map);
    arena_free(&arena);
    return is_there;
}

// Where a chunk lies, by its tensor and first element.
struct chunk_place {
    const char *name;
    int rank;
    int64_t first[DIMS_MOST];
    const char *file;
    int64_t at, size;
};

struct dcp {
    struct folder *folder;
    struct checkpoint_source *source;
    const char *path;  // of .metadata
    struct chunk_place *places;
    int place_count;
    struct err *err;
};

static int by_place(const void *a, const void *b)
{
    const struct chunk_place *left = a, *right = b;
    int order = strcmp(left->name, right->name);
    for (int i = 0; i < DIMS_MOST && !order; i++)
        order = (left->first[i] > right->first[i]) - (left->first[i] < right->first[i]);
    return order;
}

static bool fail(struct dcp *dcp, const char *what, const char *of)
{
    return err_set(dcp->err, ERR_INPUT, "%s: %s %.200s", dcp->path, what, of);
}

// What is none of a tensor of few dims has no place.
static bool read_places(struct dcp *dcp, const struct pickle *storage)
{
    dcp->places = ARENA_NEW(dcp->folder->arena, struct chunk_place, storage->count / 2 + 1);
    for (int i = 0; i < storage->count; i += 2) {
        const struct pickle *key = storage->items[i], *info = storage->items[i + 1];
        const struct pickle *name = pickle_find(key, "fqn"), *at = pickle_find(info, "offset");
        const struct pickle *file = pickle_find(info, "relative_path");
        const struct pickle *size = pickle_find(info, "length");
        bool is_right = name && name->kind == PICKLE_TEXT && file && file->kind == PICKLE_TEXT &&
                        at && at->kind == PICKLE_NUMBER && size && size->kind == PICKLE_NUMBER;
        if (!is_right) return fail(dcp, "no place of a chunk in", "storage_data");
        if (strchr(file->text, '/')) return fail(dcp, "another folder is not read:", file->text);
        struct chunk_place place = {name->text, 0, {0}, file->text, at->number, size->number};
        place.rank = pickle_numbers(pickle_find(key, "offset"), place.first, DIMS_MOST);
        if (place.rank >= 0) dcp->places[dcp->place_count++] = place;
    }
    qsort(dcp->places, (size_t)dcp->place_count, sizeof *dcp->places, by_place);
    return true;
}

// The number of a file, which is mapped; -1 and `err` set.
static int open_file(struct dcp *dcp, const char *name)
{
    assert(!strchr(name, '/') && "chunks of another folder were refused");
    struct checkpoint_source *source = dcp->source;
    struct checkpoint_index *index = &source->index;
    for (int f = 0; f < index->file_count; f++)
        if (strcmp(index->files[f].name, name) == 0) return f;
    const char *path = arena_print(dcp->folder->arena, "%s/%s", dcp->folder->path, name);
    int f = index->file_count;
    int error = source->disk->map(source->disk->context, path, &source->maps[f]);
    if (error) {
        disk_fail_read(path, error, dcp->err);
        return -1;
    }
    source->is_open[f] = true;
    index->files[f] = (struct checkpoint_file){.name = name, .bytes = source->maps[f].size};
    index->file_count++;
    return f;
}

// The member whose name ends so, which is not packed. False: there is none.
static bool find_stored(const struct zip *zip, const char *end, struct zip *member)
{
    return zip_find(zip, end, member) && member->method == ZIP_STORED;
}

// A tensor as it is written: which of its dims count layers and experts, and a part of it.
struct dcp_tensor {
    const char *name;
    int rank, counting;
    int64_t shape[DIMS_MOST];
    enum checkpoint_number number;
};
struct dcp_part {
    int file;
    int64_t at_bytes;
    int64_t first[DIMS_MOST], count[DIMS_MOST], stride[DIMS_MOST];
};

// torch._utils._rebuild_tensor_v2(storage, first element, size, stride, ...).
static bool read_layout(struct dcp *dcp, const struct zip *pickle, int rank, int64_t *first,
                        int64_t *stride)
{
    const struct pickle *tensor =
        pickle_read(dcp->folder->arena, dcp->path, pickle->bytes, pickle->size, dcp->err);
    const struct pickle *with = tensor && tensor->kind == PICKLE_MADE ? tensor->items[1] : NULL;
    if (!with || with->kind != PICKLE_LIST || with->count < 4) return false;
    *first = with->items[1]->number;
    return with->items[1]->kind == PICKLE_NUMBER &&
           pickle_numbers(with->items[3], stride, DIMS_MOST) == rank;
}

// Of a chunk's numbers, from element `first` on, those that it names; that lie in its tensor.
static bool is_inside(const struct dcp_tensor *tensor, const struct dcp_part *part, int64_t first,
                      int64_t data_bytes)
{
    assert(tensor->rank > 0 && tensor->rank <= DIMS_MOST && data_bytes >= 0);
    int64_t last = first, bytes = checkpoint_number_bytes(tensor->number);
    if (first < 0 || first > data_bytes) return false;
    for (int i = 0; i < tensor->rank; i++) {
        int64_t steps = part->count[i] - 1, stride = part->stride[i];
        bool is_right = part->first[i] >= 0 && steps >= 0 && stride >= 0 &&
                        part->count[i] <= tensor->shape[i] - part->first[i];
        if (!is_right || (stride > 0 && steps > data_bytes / stride)) return false;
        last += steps * stride;
        if (last > data_bytes) return false;
    }
    return last < data_bytes / bytes;
}

static bool read_part(struct dcp *dcp, const struct dcp_tensor *tensor, const struct pickle *of,
                      struct dcp_part *part)
{
    struct chunk_place wanted = {.name = tensor->name};
    int rank = pickle_numbers(pickle_find(of, "offsets"), wanted.first, DIMS_MOST);
    if (rank != tensor->rank ||
        pickle_numbers(pickle_find(of, "sizes"), part->count, DIMS_MOST) != rank)
        return fail(dcp, "no chunk of", tensor->name);
    memcpy(part->first, wanted.first, sizeof part->first);
    const struct chunk_place *place =
        bsearch(&wanted, dcp->places, (size_t)dcp->place_count, sizeof *dcp->places, by_place);
    if (!place) return fail(dcp, "no place of a chunk of", tensor->name);
    part->file = open_file(dcp, place->file);
    if (part->file < 0) return false;
    const struct disk_map *map = &dcp->source->maps[part->file];
    struct zip zip = {.bytes = map->bytes, .size = map->size}, pickle, data;
    bool is_there = place->at >= 0 && place->size >= 0 &&
                    zip_has(&zip, (uint64_t)place->at, (uint64_t)place->size);
    zip = (struct zip){.bytes = map->bytes + (is_there ? place->at : 0),
                       .size = is_there ? place->size : 0};
    int64_t first = 0;
    if (!find_stored(&zip, "/data.pkl", &pickle) || !find_stored(&zip, "/data/0", &data) ||
        !read_layout(dcp, &pickle, rank, &first, part->stride))
        return dcp->err->kind ? false : fail(dcp, "cut off or unknown: a chunk of", tensor->name);
    if (!is_inside(tensor, part, first, data.size))
        return fail(dcp, "a chunk that is not inside of", tensor->name);
    part->at_bytes = data.bytes - map->bytes + first * checkpoint_number_bytes(tensor->number);
    return true;
}

// Chunks that are apart and as many elements as the array cover it.
static bool check_cover(struct dcp *dcp, const struct foreign_array *array)
{
    assert(array->rank == 1 || array->rank == 2);
    int64_t elements = 0, all = array->shape[0] * (array->rank > 1 ? array->shape[1] : 1);
    for (int i = 0; i < array->chunk_count; i++) {
        const struct foreign_chunk *a = &array->chunks[i];
        elements += a->count[0] * a->count[1];
        for (int k = 0; k < i; k++) {
            const struct foreign_chunk *b = &array->chunks[k];
            bool is_apart = false;
            for (int d = 0; d < 2; d++)
                is_apart = is_apart || a->first[d] >= b->first[d] + b->count[d] ||
                           b->first[d] >= a->first[d] + a->count[d];
            if (!is_apart) return fail(dcp, "chunks that overlap, of", array->name);
        }
    }
    return elements == all || fail(dcp, "chunks are missing of", array->name);
}

// "torch.float32" as safetensors calls it.
static bool find_number(const char *name, enum checkpoint_number *number)
{
    static const char *const NAMES[CHECKPOINT_NUMBER_COUNT] = {"torch.float64", "torch.float32",
                                                               "torch.bfloat16", "torch.float16"};
    int found = NAME_INDEX(NAMES, name);
    if (found >= 0) *number = (enum checkpoint_number)found;
    return found >= 0;
}

// Where the number of a layer, or of an expert, is missing in a name because a dim counts them.
static const char *missing_number(const char *name, const char *behind)
{
    const char *at = strstr(name, behind);
    if (at) at += strlen(behind);
    return at && (*at < '0' || *at > '9') ? at : NULL;
}
static const char LAYERS[] = "decoder.layers.", EXPERTS[] = "experts.experts.";

static int count_counting(const char *name)
{
    return !!missing_number(name, LAYERS) + !!missing_number(name, EXPERTS);
}

static const char *put_number(struct dcp *dcp, const char *name, const char *behind, int64_t number)
{
    const char *at = missing_number(name, behind);
    if (!at) return name;
    return arena_print(dcp->folder->arena, "%.*s%" PRId64 ".%s", (int)(at - name), name, number,
                       at);
}

// The array of one index of the counting dims: number `n` of them all.
static const char *array_name(struct dcp *dcp, const struct dcp_tensor *tensor, int64_t n)
{
    bool has_layers = missing_number(tensor->name, LAYERS) != NULL;
    int64_t inner = tensor->counting > 1 ? tensor->shape[1] : 1;
    const char *name = tensor->name;
    if (has_layers) name = put_number(dcp, name, LAYERS, n / inner);
    return put_number(dcp, name, EXPERTS, has_layers ? n % inner : n);
}

// What of a part is of one index of the counting dims.
static struct foreign_chunk chunk_of(const struct dcp_tensor *tensor, const struct dcp_part *part,
                                     const int64_t *index)
{
    assert(tensor->rank - tensor->counting >= 1 && tensor->rank - tensor->counting <= 2);
    int64_t bytes = checkpoint_number_bytes(tensor->number);
    struct foreign_chunk chunk = {
        .file = part->file, .at_bytes = part->at_bytes, .count = {1, 1}, .stride = {1, 1}};
    for (int i = 0; i < tensor->counting; i++)
        chunk.at_bytes += (index[i] - part->first[i]) * part->stride[i] * bytes;
    for (int i = tensor->counting; i < tensor->rank; i++) {
        chunk.first[i - tensor->counting] = part->first[i];
        chunk.count[i - tensor->counting] = part->count[i];
        chunk.stride[i - tensor->counting] = part->stride[i];
    }
    return chunk;
}

// Adds a part to the arrays that it has something of.
static void deal_part(struct dcp *dcp, const struct dcp_tensor *tensor, const struct dcp_part *part,
                      struct foreign_array *arrays, int *capacities)
{
    int64_t first[2] = {0, 0}, end[2] = {1, 1}, inner = tensor->counting > 1 ? tensor->shape[1] : 1;
    for (int i = 0; i < tensor->counting; i++) {
        first[i] = part->first[i];
        end[i] = part->first[i] + part->count[i];
    }
    for (int64_t a = first[0]; a < end[0]; a++) {
        for (int64_t b = first[1]; b < end[1]; b++) {
            struct foreign_array *array = &arrays[a * inner + b];
            ARENA_GROW(dcp->folder->arena, array->chunks, array->chunk_count,
                       capacities[a * inner + b]);
            array->chunks[array->chunk_count++] = chunk_of(tensor, part, (int64_t[]){a, b});
        }
    }
}

static bool add_arrays(struct dcp *dcp, const struct dcp_tensor *tensor,
                       const struct pickle *chunks)
{
    struct folder *folder = dcp->folder;
    int64_t count = 1;
    for (int i = 0; i < tensor->counting; i++)
        count *= tensor->shape[i];
    struct foreign_array *arrays = ARENA_NEW(folder->arena, struct foreign_array, count + 1);
    int *capacities = ARENA_NEW(folder->arena, int, count + 1);
    for (int i = 0; i < chunks->count; i++) {
        struct dcp_part part = {0};
        if (!read_part(dcp, tensor, chunks->items[i], &part)) return false;
        deal_part(dcp, tensor, &part, arrays, capacities);
    }
    for (int64_t n = 0; n < count; n++) {
        struct foreign_array *array = &arrays[n];
        array->name = array_name(dcp, tensor, n);
        array->number = tensor->number;
        array->rank = tensor->rank - tensor->counting;
        memcpy(array->shape, tensor->shape + tensor->counting, sizeof array->shape);
        if (!check_cover(dcp, array)) return false;
        array->file = array->chunks[0].file;
        ARENA_GROW(folder->arena, folder->arrays, folder->count, folder->capacity);
        folder->arrays[folder->count++] = *array;
    }
    return true;
}

static bool read_tensor(struct dcp *dcp, const char *name, const struct pickle *of)
{
    enum { SIZE_MOST = 1 << 30, COUNTED_MOST = 1 << 20 };
    struct dcp_tensor tensor = {.name = name, .counting = count_counting(name)};
    const struct pickle *properties = pickle_find(of, "properties");
    const struct pickle *chunks = pickle_find(of, "chunks");
    bool is_state = strncmp(name, "optimizer.", strlen("optimizer.")) == 0;
    if (is_state || !properties || !chunks || chunks->kind != PICKLE_LIST) return true;
    const struct pickle *state = properties->kind == PICKLE_MADE ? properties->state : NULL;
    bool has_type = state && state->kind == PICKLE_LIST && state->count > 0 &&
                    state->items[0]->kind == PICKLE_NAME;
    tensor.rank = pickle_numbers(pickle_find(of, "size"), tensor.shape, DIMS_MOST);
    int own = tensor.rank - tensor.counting;
    if (!has_type || own < 1 || own > 2 || !find_number(state->items[0]->text, &tensor.number))
        return true;
    if (strstr(name, "self_attention.linear_")) dcp->folder->names = NAMES_MEGATRON;
    int64_t counted = 1;
    for (int i = 0; i < tensor.rank; i++) {
        if (tensor.shape[i] < 1 || tensor.shape[i] > SIZE_MOST) return true;
        if (i < tensor.counting) counted *= tensor.shape[i];
    }
    if (counted > COUNTED_MOST) return fail(dcp, "too many layers and experts in", name);
    return add_arrays(dcp, &tensor, chunks);
}

bool dcp_read(struct folder *folder, struct checkpoint_source *source, struct err *err)
{
    struct disk_map map;
    const struct disk *disk = source->disk;
    struct dcp dcp = {.folder = folder, .source = source, .err = err};
    dcp.path = arena_print(folder->arena, "%s/%s", folder->path, METADATA);
    int error = disk->map(disk->context, dcp.path, &map);
    if (error) return disk_fail_read(dcp.path, error, err);
    const struct pickle *top = pickle_read(folder->arena, dcp.path, map.bytes, map.size, err);
    disk->unmap(disk->context, &map);
    if (!top) return false;
    const struct pickle *tensors = pickle_find(top, "state_dict_metadata");
    const struct pickle *storage = pickle_find(top, "storage_data");
    if (!tensors || tensors->kind != PICKLE_DICT || !storage || storage->kind != PICKLE_DICT)
        return fail(&dcp, "no metadata of", "torch.distributed.checkpoint");
    int most = storage->count / 2 + 1;
    source->index.files = ARENA_NEW(folder->arena, struct checkpoint_file, most);
    source->maps = ARENA_NEW(folder->arena, struct disk_map, most);
    source->is_open = ARENA_NEW(folder->arena, bool, most);
    if (!read_places(&dcp, storage)) return false;
    for (int i = 0; i < tensors->count; i += 2) {
        const struct pickle *name = tensors->items[i];
        if (name->kind == PICKLE_TEXT && !read_tensor(&dcp, name->text, tensors->items[i + 1]))
            return false;
    }
    return true;
}
