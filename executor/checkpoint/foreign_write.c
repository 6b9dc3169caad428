#include "executor/checkpoint/foreign.h"

#include "core/json.h"
#include "core/json_write.h"
#include "executor/checkpoint/parts.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A part of an array to write.
struct part_out {
    const char *name;  // theirs
    struct checkpoint_piece piece;
    struct foreign_view view;
    int64_t elements;  // of theirs
    bool is_linear;    // a matrix of a layer
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

// Not tables, heads, routers and what joins a prediction module: these are kept as they are.
static bool is_linear(const struct foreign_row *row)
{
    static const char *const OF[] = {"attention.", "mlp.", "experts.", "shared."};
    for (size_t i = 0; i < sizeof OF / sizeof *OF; i++)
        if (row->row_dims > 0 && strncmp(row->ours, OF[i], strlen(OF[i])) == 0) return true;
    return false;
}

static bool add_parts(struct outgoing_parts *parts, const struct checkpoint_source *source,
                      const struct checkpoint_piece *piece, const struct checkpoint_pieces *all,
                      struct err *err)
{
    int layer = 0;
    const struct checkpoint_facts *facts = &source->index.facts;
    struct checkpoint_piece whole = foreign_whole(piece, facts->vocab);
    const struct foreign_row *row =
        foreign_find(NAMES_HUGGINGFACE, facts->family, piece->name, NULL, &layer);
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
        if (!foreign_view_of(row, &part, all, &view)) return foreign_fail_beside(&part, err);
        int64_t elements = view.shape[0] * (view.rank > 1 ? view.shape[1] : 1);
        ARENA_GROW(parts->arena, parts->items, parts->count, parts->capacity);
        parts->items[parts->count++] = (struct part_out){foreign_name(parts->arena, row, layer, e),
                                                         part, view, elements, is_linear(row)};
    }
    return true;
}

static bool is_new(const struct outgoing_parts *parts, int i)
{
    return i == 0 || strcmp(parts->items[i].name, parts->items[i - 1].name) != 0;
}

// What one of theirs is in the file: numbers, or codes, scales and a shape.
enum role { ROLE_NUMBERS, ROLE_CODES, ROLE_SCALES, ROLE_SHAPE };
struct array_out {
    enum role role;
    int part;  // the first of it
    const char *name, *dtype;
    int rank, align_bytes;
    int64_t shape[2], bytes, at_bytes;
};

struct outgoing {
    struct arena *arena;
    struct checkpoint_source *source;
    struct outgoing_parts parts;
    struct foreign_format format;
    int64_t group;  // columns that have a scale; 0: a row has one
    struct array_out *arrays;
    int count, capacity;
    struct foreign_written *written;
};

static struct quantized codes_of(const struct outgoing *out, const struct part_out *part)
{
    assert(part->is_linear && part->view.rank == 2 && part->view.shape[1] > 0);
    int64_t columns = part->view.shape[1];
    return (struct quantized){
        .bits = out->format.bits, .columns = columns, .group = out->group ? out->group : columns};
}

static bool is_coded(const struct outgoing *out, const struct part_out *part)
{
    return out->format.bits && part->is_linear;
}

// Groups of 128 are usual, or of 32; all matrices have one size, or a scale a row.
static int64_t group_of(const struct outgoing *out)
{
    static const int64_t GROUPS[] = {128, 32};
    for (size_t g = 0; out->format.bits == 4 && g < sizeof GROUPS / sizeof *GROUPS; g++) {
        bool divides = true;
        for (int i = 0; i < out->parts.count; i++) {
            const struct part_out *part = &out->parts.items[i];
            divides = divides && (!part->is_linear || part->view.shape[1] % GROUPS[g] == 0);
        }
        if (divides) return GROUPS[g];
    }
    return 0;
}

static void add_array(struct outgoing *out, struct array_out array, int64_t element_bytes)
{
    array.bytes = element_bytes * array.shape[0] * (array.rank > 1 ? array.shape[1] : 1);
    array.align_bytes = (int)element_bytes;
    ARENA_GROW(out->arena, out->arrays, out->count, out->capacity);
    out->arrays[out->count++] = array;
}

static void add_codes(struct outgoing *out, int i)
{
    const struct part_out *part = &out->parts.items[i];
    const struct foreign_view *view = &part->view;
    struct quantized codes = codes_of(out, part);
    const int64_t rows = view->shape[0], word_bytes = 4;
    struct array_out array = {ROLE_CODES, i, NULL, "I32", 2, 0, {rows, 0}, 0, 0};
    array.name = arena_print(out->arena, "%s_packed", part->name);
    array.shape[1] = quantized_row_bytes(codes.bits, codes.columns) / word_bytes;
    add_array(out, array, word_bytes);
    array = (struct array_out){ROLE_SCALES, i, NULL, "F32", 2, 0, {rows, 0}, 0, 0};
    array.name = arena_print(out->arena, "%s_scale", part->name);
    array.shape[1] = codes.columns / codes.group;
    add_array(out, array, sizeof(float));
    array = (struct array_out){ROLE_SHAPE, i, NULL, "I64", 1, 0, {2, 0}, 0, 0};
    array.name = arena_print(out->arena, "%s_shape", part->name);
    add_array(out, array, sizeof(int64_t));
}

// Those of wide elements first, so that each begins where its elements may.
static void place_arrays(struct outgoing *out)
{
    for (int i = 0; i < out->parts.count; i++) {
        const struct part_out *part = &out->parts.items[i];
        if (!is_new(&out->parts, i)) continue;
        if (is_coded(out, part)) {
            add_codes(out, i);
            continue;
        }
        struct array_out array = {ROLE_NUMBERS, i, part->name, NULL, part->view.rank, 0, {0}, 0, 0};
        array.dtype = checkpoint_number_name(out->format.numbers);
        memcpy(array.shape, part->view.shape, sizeof array.shape);
        add_array(out, array, checkpoint_number_bytes(out->format.numbers));
    }
    int64_t at = 0;
    for (int width = 8; width > 0; width /= 2) {
        for (int i = 0; i < out->count; i++) {
            if (out->arrays[i].align_bytes != width) continue;
            out->arrays[i].at_bytes = at;
            at += out->arrays[i].bytes;
        }
    }
    assert(out->count >= (out->parts.count > 0) && at >= 0);
    out->written->count = out->count;
    out->written->bytes = at;
}

static char *foreign_header(const struct outgoing *out, int64_t *header_bytes)
{
    struct json_writer writer = {.arena = out->arena};
    json_open(&writer, NULL, '{');
    json_open_flat(&writer, "__metadata__", '{');
    json_put_text(&writer, "format", "pt");
    json_close(&writer, '}');
    for (int i = 0; i < out->count; i++) {
        const struct array_out *array = &out->arrays[i];
        json_open_flat(&writer, array->name, '{');
        json_put_text(&writer, "dtype", array->dtype);
        json_put_i64s(&writer, "shape", array->shape, array->rank);
        json_open_flat(&writer, "data_offsets", '[');
        json_put_i64(&writer, NULL, array->at_bytes);
        json_put_i64(&writer, NULL, array->at_bytes + array->bytes);
        json_close(&writer, ']');
        json_close(&writer, '}');
    }
    json_close(&writer, '}');
    return checkpoint_header_pack(out->arena, writer.text, (int64_t)writer.length, header_bytes);
}

// One of theirs, of all its parts.
static bool read_whole(const struct outgoing *out, struct arena *scratch, int i, double *whole,
                       struct err *err)
{
    assert(is_new(&out->parts, i) && "a part that begins an array of theirs");
    const struct outgoing_parts *parts = &out->parts;
    for (int next = i; next < parts->count && (next == i || !is_new(parts, next)); next++) {
        const struct part_out *part = &parts->items[next];
        double *values = ARENA_NEW(scratch, double, part->piece.elements + 1);
        if (!checkpoint_source_read(out->source, &part->piece, CHECKPOINT_WEIGHT, values, err))
            return false;
        for (int64_t e = 0; e < part->piece.elements; e++)
            whole[foreign_view_place(&part->view, e)] = values[e];
    }
    return true;
}

static void note_error(struct outgoing *out, const struct part_out *part,
                       const struct quantized_error *error)
{
    struct foreign_written *written = out->written;
    double ratio = error->whole > 0 ? sqrt(error->lost / error->whole) : 0;
    if (!written->worst || ratio > written->worst_ratio) {
        written->worst = part->name;
        written->worst_ratio = ratio;
    }
    written->error.lost += error->lost;
    written->error.whole += error->whole;
    written->error.elements += error->elements;
    if (error->most > written->error.most) written->error.most = error->most;
}

// The bytes of every array that is made of part `i`: `made` [role].
static void make_bytes(struct outgoing *out, struct arena *scratch, int i, const double *whole,
                       void *made[4])
{
    const struct part_out *part = &out->parts.items[i];
    int64_t rows = part->view.shape[0];
    if (!is_coded(out, part)) {
        int64_t bytes = part->elements * checkpoint_number_bytes(out->format.numbers);
        made[ROLE_NUMBERS] = ARENA_NEW(scratch, char, bytes + 1);
        for (int64_t e = 0; e < part->elements; e++)
            checkpoint_number_put(out->format.numbers, made[ROLE_NUMBERS], e, whole[e]);
        return;
    }
    struct quantized codes = codes_of(out, part);
    struct quantized_error error = {0};
    made[ROLE_CODES] =
        ARENA_NEW(scratch, char, rows *quantized_row_bytes(codes.bits, codes.columns) + 1);
    made[ROLE_SCALES] = ARENA_NEW(scratch, float, rows *codes.columns / codes.group + 1);
    quantized_put(&codes, rows, whole, made[ROLE_CODES], made[ROLE_SCALES], &error);
    int64_t *shape = made[ROLE_SHAPE] = ARENA_NEW(scratch, int64_t, 2);
    memcpy(shape, part->view.shape, 2 * sizeof *shape);
    note_error(out, part, &error);
}

static int put_arrays(struct outgoing *out, struct disk_file *file, int64_t header_bytes,
                      struct err *err)
{
    assert(out->count > 0 && header_bytes % 8 == 0 && "arrays begin at a multiple of 8");
    struct arena scratch = {0};
    const struct disk *disk = out->source->disk;
    int error = 0;
    for (int i = 0, next; i < out->count && !error && !err->kind; i = next) {
        int part = out->arrays[i].part;
        void *made[4] = {0};
        arena_free(&scratch);
        double *whole = ARENA_NEW(&scratch, double, out->parts.items[part].elements + 1);
        if (!read_whole(out, &scratch, part, whole, err)) break;
        make_bytes(out, &scratch, part, whole, made);
        for (next = i; next < out->count && out->arrays[next].part == part && !error; next++) {
            const struct array_out *array = &out->arrays[next];
            assert(made[array->role] && "made of the same part");
            error = disk->write(disk->context, file, header_bytes + array->at_bytes,
                                made[array->role], array->bytes);
        }
    }
    arena_free(&scratch);
    return error;
}

// A file of the folder, written aside, synced and renamed.
static bool write_file(struct outgoing *out, const char *folder, const char *name,
                       const char *begin, int64_t begin_bytes, bool has_arrays, struct err *err)
{
    assert(!err->kind && begin_bytes > 0 && !strchr(name, '/'));
    const struct disk *disk = out->source->disk;
    const char *path = arena_print(out->arena, "%s/%s", folder, name);
    const char *aside = arena_print(out->arena, "%s/.model.partial", folder);
    struct disk_file *file;
    int error = disk->make_folder(disk->context, folder);
    if (error == EEXIST) error = 0;
    if (!error) error = disk->create(disk->context, aside, &file);
    if (error) return err_set(err, ERR_SYSTEM, "writing %s: %s", path, strerror(error));
    error = disk->write(disk->context, file, 0, begin, begin_bytes);
    if (!error && has_arrays) error = put_arrays(out, file, begin_bytes, err);
    int closed = disk->close(disk->context, file, !error && !err->kind);
    if (!error) error = closed;
    if (!error && !err->kind) error = disk->rename(disk->context, aside, path);
    if (!error && !err->kind) error = disk->sync_folder(disk->context, folder);
    if (error || err->kind) (void)disk->remove(disk->context, aside);
    if (error) err_set(err, ERR_SYSTEM, "writing %s: %s", path, strerror(error));
    return !err->kind;
}

// The member "quantization_config" of a config.json, as compressed-tensors reads it.
static char *config_text(const struct outgoing *out)
{
    static const char *const KEPT[] = {"lm_head", "re:.*gate$", "re:.*eh_proj$"};
    struct json_writer writer = {.arena = out->arena};
    json_open(&writer, NULL, '{');
    json_put_text(&writer, "quant_method", "compressed-tensors");
    json_put_text(&writer, "format", "pack-quantized");
    json_put_text(&writer, "quantization_status", "compressed");
    json_open_flat(&writer, "ignore", '[');
    for (size_t i = 0; i < sizeof KEPT / sizeof *KEPT; i++)
        json_put_text(&writer, NULL, KEPT[i]);
    json_close(&writer, ']');
    json_open(&writer, "config_groups", '{');
    json_open(&writer, "group_0", '{');
    json_open_flat(&writer, "targets", '[');
    json_put_text(&writer, NULL, "Linear");
    json_close(&writer, ']');
    json_open(&writer, "weights", '{');
    json_put_i64(&writer, "num_bits", out->format.bits);
    json_put_text(&writer, "type", "int");
    json_put_bool(&writer, "symmetric", true);
    json_put_text(&writer, "strategy", out->group ? "group" : "channel");
    if (out->group) json_put_i64(&writer, "group_size", out->group);
    for (int i = 0; i < 4; i++)
        json_close(&writer, '}');
    return arena_print(out->arena, "%s\n", writer.text);
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

bool foreign_write(struct arena *arena, struct checkpoint_source *source, const char *folder,
                   const struct foreign_format *format, struct foreign_written *written,
                   struct err *err)
{
    const struct checkpoint_index *index = &source->index;
    struct outgoing out = {.arena = arena, .source = source, .format = *format, .written = written};
    out.parts.arena = arena;
    *written = (struct foreign_written){0};
    if (format->bits && strcmp(index->facts.family, "gpt2") == 0)
        return err_set(err, ERR_USAGE,
                       "--precision int%d: matrices of gpt2 are Conv1D's, those of "
                       "Linear alone are written in it",
                       format->bits);
    struct checkpoint_pieces all = weights_of(arena, index);
    for (int i = 0; i < all.count && !err->kind; i++)
        (void)add_parts(&out.parts, source, &all.items[i], &all, err);
    if (err->kind || out.parts.count == 0) return !err->kind;
    qsort(out.parts.items, (size_t)out.parts.count, sizeof *out.parts.items, by_name);
    if (out.format.numbers == CHECKPOINT_NUMBER_COUNT)
        out.format.numbers = index->entries[0].number;
    out.group = group_of(&out);
    place_arrays(&out);
    if (format->bits) {
        const char *text = config_text(&out);
        int64_t bytes = (int64_t)strlen(text);
        if (!write_file(&out, folder, "quantization.json", text, bytes, false, err)) return false;
    }
    int64_t header_bytes;
    const char *header = foreign_header(&out, &header_bytes);
    return write_file(&out, folder, "model.safetensors", header, header_bytes, true, err);
}
