#include "validation/rows.h"

#include "core/file.h"
#include "cost_models/band.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const size_t ROWS_BYTES_MAX = (size_t)256 << 20;

struct header {
    const char *id, *family, *source, *tier, *device, *stack, *stack_then, *peak_mem_kind;
    const char *refused;
    bool failed;
};

static const struct json_field HEADER_FIELDS[] = {
    {JSON_TEXT(struct header, id)},
    {JSON_TEXT(struct header, family)},
    {JSON_OPT_TEXT(struct header, source)},
    {JSON_TEXT(struct header, tier)},
    {JSON_TEXT(struct header, device)},
    {JSON_TEXT(struct header, stack)},
    {JSON_OPT_TEXT(struct header, stack_then)},
    {JSON_OPT_TEXT(struct header, peak_mem_kind)},
    {JSON_OPT_BOOL(struct header, failed)},
    {JSON_OPT_TEXT(struct header, refused)},
    {0},
};

struct measured {
    double iter_s, tokens_per_s_per_gpu, samples_per_s, peak_mem_gb, tflops_per_gpu;
};

static const struct json_field MEASURED_FIELDS[] = {
    {JSON_OPT_F64(struct measured, iter_s, 0, 1e9)},
    {JSON_OPT_F64(struct measured, tokens_per_s_per_gpu, 0, 1e12)},
    {JSON_OPT_F64(struct measured, samples_per_s, 0, 1e12)},
    {JSON_OPT_F64(struct measured, peak_mem_gb, 0, 1e6)},
    {JSON_OPT_F64(struct measured, tflops_per_gpu, 0, 1e6)},
    {0},
};

// What sources call their number formats, the more particular word first: "mxfp8" holds "fp8".
static const struct {
    const char *word;
    enum precision precision;
} PRECISIONS[] = {
    {"nvfp4", PRECISION_FP4},
    {"fp8", PRECISION_FP8},
    {"bf16", PRECISION_BF16},
    {"fp16", PRECISION_FP16},
};

const char *row_kind_name(enum row_kind kind)
{
    return band_kind(kind == ROW_KIND_MIXTURE, kind == ROW_KIND_DENSE_LOW_PRECISION);
}

// Rows that say nothing ran in bf16, as nearly all published runs.
static enum precision precision_of(const char *words)
{
    for (size_t i = 0; words && i < sizeof PRECISIONS / sizeof *PRECISIONS; i++) {
        if (strcasestr(words, PRECISIONS[i].word)) return PRECISIONS[i].precision;
    }
    return PRECISION_BF16;
}

static void read_header(struct row *row, const struct json *root, struct err *err)
{
    struct header header = {0};
    json_read_lenient(root, HEADER_FIELDS, &header, NULL, NULL, err);
    if (err->kind) return;
    if (strlen(header.tier) != 1 || !strchr("ABC", *header.tier)) {
        struct json tier = json_get(root, "tier", err);
        json_fail(&tier, err, "expected A, B or C, found \"%s\"", header.tier);
        return;
    }
    const char *kind = header.peak_mem_kind;
    row->allocated = kind && strcmp(kind, "allocated") == 0;
    if (kind && !row->allocated && strcmp(kind, "reserved") != 0) {
        struct json at = json_get(root, "peak_mem_kind", err);
        json_fail(&at, err, "expected allocated or reserved, found \"%s\"", kind);
    }
    row->id = header.id;
    row->family = header.family;
    row->source = header.source ? header.source : "";
    row->tier = *header.tier;
    row->device = header.device;
    row->stack = header.stack;
    row->stack_then = header.stack_then;
    row->gave_nothing = header.failed;
    row->refused = header.refused;
    if (!header.refused || header.failed) return;
    struct json at = json_get(root, "refused", err);
    json_fail(&at, err, "expected a run that failed");
}

// A time is taken as it was published; else tokens or samples a second are turned into it; else
// what the row's collector derived.
static void read_measured(struct row *row, const struct json *root, struct err *err)
{
    struct measured measured = {0}, derived = {0};
    struct json at = json_get(root, "measured", err);
    json_read_lenient(&at, MEASURED_FIELDS, &measured, NULL, NULL, err);
    if (err->kind) return;
    if (json_has(root, "derived")) {
        struct json also = json_get(root, "derived", err);
        json_read_lenient(&also, MEASURED_FIELDS, &derived, NULL, NULL, err);
    }
    double sequences = (double)row->facts.global_batch;
    if (measured.iter_s > 0) {
        row->step_s = measured.iter_s;
    } else if (measured.tokens_per_s_per_gpu > 0) {
        row->step_s = sequences * (double)row->facts.seq_len /
                      (measured.tokens_per_s_per_gpu * row->facts.gpus);
    } else if (measured.samples_per_s > 0) {
        row->step_s = sequences / measured.samples_per_s;
    } else {
        row->step_s = derived.iter_s;
    }
    assert(isfinite(row->step_s) && row->step_s >= 0);
    row->peak_bytes = measured.peak_mem_gb * 1e9;
    row->flop_per_s_per_gpu = measured.tflops_per_gpu * 1e12;
}

static bool read_row(struct arena *arena, const char *path, int line, const char *text,
                     size_t bytes, struct row *row, struct err *err)
{
    row->line = line;
    row->document = ARENA_NEW(arena, struct json_document, 1);
    if (!json_parse_from(arena, path, line, text, bytes, row->document, err)) return false;
    struct json root = json_root(row->document);
    read_header(row, &root, err);
    facts_read(&root, &row->facts, err);
    read_measured(row, &root, err);
    if (err->kind) return false;
    row->model_name = row->facts.model.name ? row->facts.model.name : row->id;
    row->network_stated = row->facts.nic_bytes_per_s > 0;
    row->precision = precision_of(row->facts.precision);
    int base_bits = row->facts.lora.base_bits;
    row->has_narrow_base = base_bits > 0 && base_bits < 16;
    bool narrow = precision_bytes(row->precision) < 2;
    row->kind = row->facts.model.experts ? ROW_KIND_MIXTURE
                : narrow                 ? ROW_KIND_DENSE_LOW_PRECISION
                                         : ROW_KIND_DENSE;
    return true;
}

// Lines of one id in the order of the file.
static int compare_ids(const void *a, const void *b)
{
    const struct row *const *left = a, *const *right = b;
    int order = strcmp((*left)->id, (*right)->id);
    return order ? order : (*left)->line - (*right)->line;
}

// The first line that repeats an id is the one that is named.
static void check_ids(const struct rows *rows, struct err *err)
{
    struct arena scratch = {0};
    const struct row **sorted = ARENA_NEW(&scratch, const struct row *, rows->count);
    for (int i = 0; i < rows->count; i++) {
        sorted[i] = &rows->items[i];
    }
    qsort(sorted, (size_t)rows->count, sizeof *sorted, compare_ids);
    const struct row *twin = NULL;
    int first_line = 0;
    for (int i = 1; i < rows->count; i++) {
        if (strcmp(sorted[i - 1]->id, sorted[i]->id) != 0) continue;
        if (twin && twin->line < sorted[i]->line) continue;
        twin = sorted[i];
        first_line = sorted[i - 1]->line;
    }
    arena_free(&scratch);
    if (!twin) return;
    struct json root = json_root(twin->document);
    struct json id = json_get(&root, "id", err);
    json_fail(&id, err, "\"%s\" is already the id of line %d", twin->id, first_line);
}

static bool is_blank(const char *text, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r'))
        i++;
    return i == bytes;
}

bool rows_parse(struct arena *arena, const char *path, const char *text, size_t bytes,
                struct rows *rows, struct err *err)
{
    *rows = (struct rows){0};
    int line_count = 1;
    for (size_t i = 0; i < bytes; i++) {
        line_count += text[i] == '\n';
    }
    rows->items = ARENA_NEW(arena, struct row, line_count);
    const char *at = text, *end = text + bytes;
    for (int line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop ? stop : end) - at);
        if (!is_blank(at, length)) {
            struct row *row = &rows->items[rows->count++];
            assert(rows->count <= line_count);
            if (!read_row(arena, path, line, at, length, row, err)) return false;
        }
        at += length + (stop != NULL);
    }
    if (rows->count == 0) return err_set(err, ERR_INPUT, "%s: holds no row", path);
    check_ids(rows, err);
    return err->kind == ERR_NONE;
}

bool rows_read(struct arena *arena, const char *path, struct rows *rows, struct err *err)
{
    size_t bytes = 0;
    const char *text = file_read(arena, path, ROWS_BYTES_MAX, &bytes, err);
    return text && rows_parse(arena, path, text, bytes, rows, err);
}

bool rows_check_tiers(const char *tiers, struct err *err)
{
    if (*tiers && strspn(tiers, "ABC") == strlen(tiers)) return true;
    return err_set(err, ERR_USAGE, "--tiers: expected letters of A, B and C, found \"%s\"", tiers);
}

static bool is_kept(const struct row *row, const struct row_filter *filter)
{
    const char *family = filter->family ? filter->family : "";
    return (!filter->tiers || strchr(filter->tiers, row->tier)) &&
           strncmp(row->family, family, strlen(family)) == 0 &&
           row->facts.gpus >= filter->gpus_least &&
           (!filter->device || strcmp(row->device, filter->device) == 0) &&
           (!filter->stack || strcmp(row->stack, filter->stack) == 0);
}

// In place, in the order of the file.
void rows_keep(struct rows *rows, const struct row_filter *filter)
{
    int count = 0;
    for (int i = 0; i < rows->count; i++) {
        if (is_kept(&rows->items[i], filter)) rows->items[count++] = rows->items[i];
    }
    assert(count <= rows->count);
    rows->count = count;
}

// The rules by which software refuses plans stay those of its own stack.
void rows_as_they_came(struct rows *rows)
{
    for (int i = 0; i < rows->count; i++) {
        struct row *row = &rows->items[i];
        if (!row->stack_then) continue;
        row->rules_of = row->stack;
        row->stack = row->stack_then;
    }
}
