#include "executor/checkpoint/source.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool checkpoint_source_open(struct arena *arena, const struct disk *disk, const char *path,
                            struct checkpoint_source *source, struct err *err)
{
    *source = (struct checkpoint_source){.disk = disk, .path = path};
    if (!checkpoint_load(disk, arena, path, &source->index, err)) return false;
    source->maps = ARENA_NEW(arena, struct disk_map, source->index.file_count + 1);
    source->is_open = ARENA_NEW(arena, bool, source->index.file_count + 1);
    return true;
}

void checkpoint_source_close(struct checkpoint_source *source)
{
    for (int f = 0; f < source->index.file_count && source->is_open; f++) {
        if (source->is_open[f]) source->disk->unmap(source->disk->context, &source->maps[f]);
        source->is_open[f] = false;
    }
}

bool checkpoint_source_has(const struct checkpoint_source *source, enum checkpoint_kind kind)
{
    for (int e = 0; e < source->index.entry_count; e++)
        if (source->index.entries[e].kind == kind) return true;
    return false;
}

static bool open_file(struct checkpoint_source *source, int number, struct err *err)
{
    const struct checkpoint_file *file = &source->index.files[number];
    if (source->is_open[number]) return true;
    struct arena arena = {0};
    const char *path = arena_print(&arena, "%s/%s", source->path, file->name);
    int error = source->disk->map(source->disk->context, path, &source->maps[number]);
    source->is_open[number] = error == 0;
    if (error)
        disk_fail_read(path, error, err);
    else if (source->maps[number].size != file->bytes)
        err_set(err, ERR_INPUT, "%s: %" PRId64 " bytes, its index says %" PRId64, path,
                source->maps[number].size, file->bytes);
    arena_free(&arena);
    return !err->kind;
}

struct reading {
    const char *arrays, *bytes;
    const struct checkpoint_entry *entry;
    double *values;
    const struct disk_map *maps;
    int chunk;  // that the last element was in
};

static double chunk_value(struct reading *reading, int64_t at)
{
    const struct checkpoint_entry *entry = reading->entry;
    int64_t columns = entry->view.rank > 1 ? entry->view.shape[1] : 1;
    int64_t row = at / columns, column = at % columns;
    // The next element is mostly in the same chunk.
    for (int tried = 0; tried < entry->chunk_count; tried++) {
        const struct foreign_chunk *chunk = &entry->chunks[reading->chunk];
        int64_t r = row - chunk->first[0], c = column - chunk->first[1];
        if (r >= 0 && r < chunk->count[0] && c >= 0 && c < chunk->count[1])
            return checkpoint_number_get(entry->number,
                                         reading->maps[chunk->file].bytes + chunk->at_bytes,
                                         r * chunk->stride[0] + c * chunk->stride[1]);
        reading->chunk = (reading->chunk + 1) % entry->chunk_count;
    }
    assert(false && "chunks cover their array");
    return 0;
}

static double value_of(struct reading *reading, int64_t at)
{
    const struct checkpoint_entry *entry = reading->entry;
    if (entry->chunks) return chunk_value(reading, at);
    if (entry->codes.bits) return quantized_get(&entry->codes, reading->arrays, reading->bytes, at);
    return checkpoint_number_get(entry->number, reading->bytes, at);
}

static void read_run(void *context, const struct checkpoint_run *run)
{
    struct reading *reading = context;
    const struct checkpoint_entry *entry = reading->entry;
    for (int64_t i = 0; i < run->count; i++) {
        int64_t at = foreign_view_place(&entry->view, run->from + i);
        reading->values[run->to + i] = value_of(reading, at);
    }
}

// All dims but the one that is padded are as long on both ends.
static bool is_same_whole(const struct checkpoint_piece *a, const struct checkpoint_piece *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->whole[i] != b->whole[i] && i != b->vocab_dim) return false;
    }
    return true;
}

static bool fail_shape(const struct checkpoint_source *source, const struct checkpoint_piece *there,
                       const struct checkpoint_piece *here, struct err *err)
{
    char shapes[2][128] = {"", ""};
    const struct checkpoint_piece *pieces[2] = {there, here};
    for (int p = 0; p < 2; p++) {
        size_t used = 0;
        for (int i = 0; i < pieces[p]->rank && used < sizeof shapes[p]; i++)
            used += (size_t)snprintf(shapes[p] + used, sizeof shapes[p] - used, "%s%" PRId64,
                                     i ? " x " : "", pieces[p]->whole[i]);
    }
    return err_set(err, ERR_INPUT, "%s: %.200s is %s there, and %s in the plan", source->path,
                   here->name, shapes[0], shapes[1]);
}

// Of a file, or of all that chunks of it are in.
static void count_read(struct checkpoint_source *source, int64_t bytes)
{
    source->read_bytes += bytes;
    if (source->read_bytes < DISK_REST_BYTES) return;
    for (int f = 0; f < source->index.file_count; f++) {
        if (source->is_open[f] && source->disk->rest)
            source->disk->rest(source->disk->context, &source->maps[f]);
    }
    source->read_bytes = 0;
}

bool checkpoint_source_read(struct checkpoint_source *source, const struct checkpoint_piece *piece,
                            enum checkpoint_kind kind, double *values, struct err *err)
{
    int count;
    const struct checkpoint_entry *entries =
        checkpoint_index_find(&source->index, piece->name, kind, &count);
    memset(values, 0, (size_t)piece->elements * sizeof *values);
    int64_t vocab = source->index.facts.vocab;
    int64_t found = 0, wanted = checkpoint_elements_wanted(piece, vocab);
    for (int e = 0; e < count; e++) {
        const struct checkpoint_entry *entry = &entries[e];
        if (!is_same_whole(&entry->piece, piece))
            return fail_shape(source, &entry->piece, piece, err);
        if (checkpoint_overlap(&entry->piece, piece, NULL, NULL) == 0) continue;
        if (!open_file(source, entry->file, err)) return false;
        const char *arrays =
            source->maps[entry->file].bytes + source->index.files[entry->file].header_bytes;
        struct reading reading = {arrays, arrays + entry->at_bytes, entry, values, source->maps, 0};
        int64_t read = checkpoint_overlap(&entry->piece, piece, read_run, &reading);
        count_read(source, read * checkpoint_number_bytes(entry->number));
        found += read;
    }
    // What pads the vocabulary may be there, too; nothing else is there twice.
    if (found < wanted)
        return err_set(err, ERR_INPUT,
                       "%s: %s of %.200s has %" PRId64 " of the %" PRId64 " elements wanted",
                       source->path, checkpoint_kind_name(kind), piece->name, found, wanted);
    return true;
}
