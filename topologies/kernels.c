#include "topologies/kernels.h"
#include "core/file.h"
#include "core/hash.h"
#include "topologies/provenance.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const char *const KIND_NAMES[KERNEL_KIND_COUNT] = {"gemm", "grouped-gemm", "attention"};
static const char *const PHASE_NAMES[KERNEL_PHASE_COUNT] = {"forward", "backward", "weight"};

static const struct json_field TABLE_FIELDS[] = {
    {JSON_TEXT(struct kernel_table, name)},
    {JSON_TEXT(struct kernel_table, device)},
    {JSON_TEXT(struct kernel_table, date)},
    {JSON_TEXT(struct kernel_table, software)},
    {JSON_ANY("rows")},
    {JSON_OPT_ANY("choices")},
    {JSON_ANY("provenance")},
    {0},
};

#define SIZE_MOST 1e12
#define SECONDS_LEAST 1e-9
#define SECONDS_MOST 1e3

// The first rows of both tables are words.
enum { FIELDS_BY_HAND = 3 };
static const struct json_field GEMM_FIELDS[] = {
    {JSON_ANY("kind")},
    {JSON_ANY("phase")},
    {JSON_ANY("precision")},
    {JSON_I64(struct kernel, batch, 1, SIZE_MOST)},
    {JSON_I64(struct kernel, m, 1, SIZE_MOST)},
    {JSON_I64(struct kernel, n, 1, SIZE_MOST)},
    {JSON_I64(struct kernel, k, 1, SIZE_MOST)},
    {JSON_BOOL(struct kernel, accumulate_fp32)},
    {JSON_F64(struct kernel, s, SECONDS_LEAST, SECONDS_MOST)},
    {0},
};

static const struct json_field ATTENTION_FIELDS[] = {
    {JSON_ANY("kind")},
    {JSON_ANY("phase")},
    {JSON_ANY("precision")},
    {JSON_I64(struct kernel, batch, 1, SIZE_MOST)},
    {JSON_I64(struct kernel, heads, 1, SIZE_MOST)},
    {JSON_I64(struct kernel, kv_heads, 1, SIZE_MOST)},
    {JSON_I64(struct kernel, head_dim, 1, SIZE_MOST)},
    {JSON_I64(struct kernel, value_dim, 1, SIZE_MOST)},
    {JSON_I64(struct kernel, seq, 1, SIZE_MOST)},
    {JSON_BOOL(struct kernel, causal)},
    {JSON_F64(struct kernel, s, SECONDS_LEAST, SECONDS_MOST)},
    {0},
};

static const struct json_field CHOICE_FIELDS[] = {
    {JSON_TEXT(struct kernel_choice, shape)},
    {JSON_TEXT(struct kernel_choice, algorithm)},
    {JSON_F64(struct kernel_choice, s, SECONDS_LEAST, SECONDS_MOST)},
    {0},
};

// One word of a row; -1 and a set `err` if it is none of `names`.
static int read_word(const struct json *row, const char *key, const char *const *names, int count,
                     struct err *err)
{
    struct json at = json_get(row, key, err);
    const char *word = json_text(&at, err);
    if (err->kind) return -1;
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], word) == 0) return i;
    }
    const char *list = "";
    struct arena spare = {0};
    for (int i = 0; i < count; i++) {
        const char *before = i == 0 ? "" : i == count - 1 ? " or " : ", ";
        list = arena_print(&spare, "%s%s%s", list, before, names[i]);
    }
    json_fail(&at, err, "expected %s, found \"%s\"", list, word);
    arena_free(&spare);
    return -1;
}

static void read_row(const struct json *at, struct kernel *row, struct err *err)
{
    const char *precisions[PRECISION_COUNT];
    for (int i = 0; i < PRECISION_COUNT; i++) {
        precisions[i] = precision_name((enum precision)i);
    }
    int kind = read_word(at, "kind", KIND_NAMES, KERNEL_KIND_COUNT, err);
    bool attends = kind == KERNEL_ATTENTION;
    int phase_count = attends ? KERNEL_WEIGHT : KERNEL_PHASE_COUNT;
    int phase = read_word(at, "phase", PHASE_NAMES, phase_count, err);
    int precision = read_word(at, "precision", precisions, PRECISION_COUNT, err);
    json_read(at, attends ? ATTENTION_FIELDS : GEMM_FIELDS, row, err);
    if (err->kind) return;
    row->kind = (enum kernel_kind)kind;
    row->phase = (enum kernel_phase)phase;
    row->precision = (enum precision)precision;
}

bool kernel_same_shape(const struct kernel *a, const struct kernel *b)
{
    return a->kind == b->kind && a->phase == b->phase && a->precision == b->precision &&
           a->batch == b->batch && a->m == b->m && a->n == b->n && a->k == b->k &&
           a->accumulate_fp32 == b->accumulate_fp32 && a->heads == b->heads &&
           a->kv_heads == b->kv_heads && a->head_dim == b->head_dim &&
           a->value_dim == b->value_dim && a->seq == b->seq && a->causal == b->causal;
}

static uint64_t hash_of(const struct kernel *kernel)
{
    const int64_t parts[] = {
        kernel->kind,  kernel->phase,    kernel->precision, kernel->batch,
        kernel->m,     kernel->n,        kernel->k,         kernel->accumulate_fp32,
        kernel->heads, kernel->kv_heads, kernel->head_dim,  kernel->value_dim,
        kernel->seq,   kernel->causal,
    };
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash = hash_word(hash, (uint64_t)parts[i]);
    return hash;
}

// The slot of this shape, or the free one where it belongs.
static int slot_of(const struct kernel_table *table, const struct kernel *kernel)
{
    assert(table->slot_count > table->row_count);  // a search ends at a free slot
    uint64_t last = (uint64_t)table->slot_count - 1, at = hash_of(kernel) & last;
    while (table->slots[at] && !kernel_same_shape(&table->rows[table->slots[at] - 1], kernel)) {
        at = (at + 1) & last;
    }
    return (int)at;
}

const struct kernel *kernels_find(const struct kernel_table *table, const struct kernel *wanted)
{
    assert(table && (table->slot_count & (table->slot_count - 1)) == 0);
    int row = table->slots[slot_of(table, wanted)];
    return row ? &table->rows[row - 1] : NULL;
}

static double flop_of(const struct kernel *row)
{
    double batch = (double)row->batch;
    if (row->kind != KERNEL_ATTENTION) {
        return 2 * batch * (double)row->m * (double)row->n * (double)row->k;
    }
    // Forward: the scores and their product with the values. Backward: the scores again, the
    // gradients of queries and keys, and those of values and probabilities.
    double pairs = (double)row->seq * (double)row->seq / (row->causal ? 2 : 1);
    bool is_forward = row->phase == KERNEL_FORWARD;
    double width = (is_forward ? 1 : 3) * (double)row->head_dim +
                   (is_forward ? 1 : 2) * (double)row->value_dim;
    return 2 * batch * (double)row->heads * pairs * width;
}

int kernels_index(struct arena *arena, struct kernel_table *table)
{
    table->flop_per_s_most = 0;
    table->slot_count = 2;
    while (table->slot_count < 2 * table->row_count)
        table->slot_count *= 2;
    table->slots = ARENA_NEW(arena, int, table->slot_count);
    for (int i = 0; i < table->row_count; i++) {
        const struct kernel *row = &table->rows[i];
        int *slot = &table->slots[slot_of(table, row)];
        if (*slot) return i;
        *slot = i + 1;
        table->flop_per_s_most = fmax(table->flop_per_s_most, flop_of(row) / row->s);
    }
    return -1;
}

static void read_choices(struct arena *arena, const struct json *object, struct kernel_table *table,
                         struct err *err)
{
    if (err->kind || !json_has(object, "choices")) return;
    struct json list = json_get(object, "choices", err);
    int count = json_count(&list, err);
    table->choices = ARENA_NEW(arena, struct kernel_choice, count);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json at = json_item(&list, i);
        struct kernel_choice *choice = &table->choices[table->choice_count++];
        json_read(&at, CHOICE_FIELDS, choice, err);
        for (int other = 0; other < i && !err->kind; other++) {
            if (strcmp(table->choices[other].shape, choice->shape) == 0)
                json_fail(&at, err, "a choice for this shape stands before");
        }
    }
}

static struct kernel_table *read_object(struct arena *arena, const struct json *object,
                                        struct err *err)
{
    struct kernel_table *table = ARENA_NEW(arena, struct kernel_table, 1);
    json_read(object, TABLE_FIELDS, table, err);
    struct json rows = json_get(object, "rows", err);
    table->row_count = json_count(&rows, err);
    table->rows = ARENA_NEW(arena, struct kernel, table->row_count);
    if (!err->kind && table->row_count == 0) json_fail(&rows, err, "expected a row, found none");
    for (int i = 0; i < table->row_count && !err->kind; i++) {
        struct json at = json_item(&rows, i);
        read_row(&at, &table->rows[i], err);
    }
    if (err->kind) return NULL;
    int twice = kernels_index(arena, table);
    if (twice >= 0) {
        struct json at = json_item(&rows, twice);
        json_fail(&at, err, "a row of this shape stands before");
    }
    read_choices(arena, object, table, err);
    struct provenance_list list = provenance_read(arena, object, "kernel table", err);
    table->provenance = list.entries;
    table->provenance_count = list.count;
    return err->kind ? NULL : table;
}

static struct kernel_table *load_path(struct arena *arena, const char *path, struct err *err)
{
    struct json_document document;
    if (!json_load(arena, path, &document, err)) return NULL;
    struct json root = json_root(&document);
    return read_object(arena, &root, err);
}

struct kernel_table *kernels_load(struct arena *arena, const char *name, struct err *err)
{
    const char *path = file_find_data(arena, "topologies/kernels", name, "kernel table", err);
    return path ? load_path(arena, path, err) : NULL;
}

struct kernel_table *kernels_read(struct arena *arena, const struct json *value, struct err *err)
{
    if (err->kind) return NULL;
    if (json_is_object(value)) return read_object(arena, value, err);
    if (!json_is_text(value)) {
        json_fail(value, err, "expected the name of a kernel table or an object");
        return NULL;
    }
    struct err unknown = {0};
    const char *path = file_find_data(arena, "topologies/kernels", json_text(value, err),
                                      "kernel table", &unknown);
    if (path) return load_path(arena, path, err);
    json_fail(value, err, "%s", unknown.text);
    return NULL;
}

static void write_row(struct json_writer *writer, const struct kernel *row)
{
    const struct json_field *fields =
        row->kind == KERNEL_ATTENTION ? ATTENTION_FIELDS : GEMM_FIELDS;
    json_open_flat(writer, NULL, '{');
    json_put_text(writer, "kind", KIND_NAMES[row->kind]);
    json_put_text(writer, "phase", PHASE_NAMES[row->phase]);
    json_put_text(writer, "precision", precision_name(row->precision));
    json_put_fields(writer, fields + FIELDS_BY_HAND, row);
    json_close(writer, '}');
}

static void write_choices(struct json_writer *writer, const struct kernel_table *table)
{
    json_open(writer, "choices", '[');
    for (int i = 0; i < table->choice_count; i++) {
        json_open_flat(writer, NULL, '{');
        json_put_fields(writer, CHOICE_FIELDS, &table->choices[i]);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

void kernels_write(struct json_writer *writer, const char *key, const struct kernel_table *table)
{
    json_open(writer, key, '{');
    json_put_fields(writer, TABLE_FIELDS, table);
    json_open(writer, "rows", '[');
    for (int i = 0; i < table->row_count; i++) {
        write_row(writer, &table->rows[i]);
    }
    json_close(writer, ']');
    if (table->choice_count > 0) write_choices(writer, table);
    provenance_write(writer, table->provenance, table->provenance_count);
    json_close(writer, '}');
}

// With what is said of where they come from.
static void drop_choices(struct arena *arena, struct kernel_table *table)
{
    const struct provenance *all = table->provenance;
    int count = table->provenance_count;
    table->provenance = ARENA_NEW(arena, struct provenance, count);
    table->provenance_count = 0;
    for (int i = 0; i < count; i++) {
        if (strcmp(all[i].key, "choices") != 0)
            table->provenance[table->provenance_count++] = all[i];
    }
    table->choices = NULL;
    table->choice_count = 0;
}

struct kernel_table *kernels_select(struct arena *arena, const struct kernel_table *table,
                                    const bool *used)
{
    assert(used && table->row_count >= 0);
    struct kernel_table *selected = ARENA_NEW(arena, struct kernel_table, 1);
    *selected = *table;
    selected->rows = ARENA_NEW(arena, struct kernel, table->row_count);
    selected->row_count = 0;
    drop_choices(arena, selected);
    for (int i = 0; i < table->row_count; i++) {
        if (used[i]) selected->rows[selected->row_count++] = table->rows[i];
    }
    int twice = kernels_index(arena, selected);
    assert(twice < 0);  // no two in the table are alike
    (void)twice;
    return selected;
}
