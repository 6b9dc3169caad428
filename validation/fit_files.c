#include "validation/fit_files.h"
#include "core/json_write.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char PRIOR_MARK[] = "; prior: ";

// Replaces `bytes` of the text at `offset`; 0 bytes: an insertion.
struct edit {
    size_t offset, bytes;
    const char *text;
    int ordinal;  // of edits at one place
};

struct editor {
    struct arena *arena;
    struct json object;
    const char *source;
    struct edit *edits;
    int count;
};

static void add_edit(struct editor *editor, size_t offset, size_t bytes, const char *text)
{
    assert(offset + bytes <= editor->object.document->text_bytes);
    editor->edits[editor->count] = (struct edit){offset, bytes, text, editor->count};
    editor->count++;
}

// More digits than a fit can tell would only make differences of files.
static double round_digits(double value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.4g", value);
    return strtod(digits, NULL);
}

// The member at a dotted key. Cursors point at their parents, hence the arena.
static const struct json *find_member(struct arena *arena, const struct json *object,
                                      const char *key, struct err *err)
{
    char *name = arena_copy(arena, key), *dot = strchr(name, '.');
    if (dot) *dot = '\0';
    struct json *member = ARENA_NEW(arena, struct json, 1);
    *member = json_get(object, name, err);
    if (err->kind) return NULL;
    return dot ? find_member(arena, member, dot + 1, err) : member;
}

// What the entry says of the value before any run.
static const char *prior_text(struct arena *arena, const struct json *entry, struct err *err)
{
    struct json kind = json_get(entry, "kind", err), source = json_get(entry, "source", err);
    const char *kind_text = json_text(&kind, err), *text = json_text(&source, err);
    if (err->kind) return NULL;
    const char *mark = strstr(text, PRIOR_MARK);
    if (strcmp(kind_text, provenance_kind_name(PROVENANCE_FITTED)) == 0 && mark) {
        return mark + strlen(PRIOR_MARK);
    }
    return arena_print(arena, "%s, %s", kind_text, text);
}

static const char *entry_text(struct editor *editor, const struct fit_constant *constant,
                              const char *prior)
{
    const struct provenance entry = {
        .key = constant->key,
        .kind = PROVENANCE_FITTED,
        .source = arena_print(editor->arena, "%s%s%s", editor->source, PRIOR_MARK, prior),
        .prior = constant->prior,
        .spread = round_digits(constant->spread),
    };
    struct json_writer writer = {.arena = editor->arena};
    json_open_flat(&writer, NULL, '{');
    provenance_put(&writer, &entry);
    json_close(&writer, '}');
    return arena_print(editor->arena, "%.*s", (int)strcspn(writer.text, "\n"), writer.text);
}

// The entry of this key, or of the nearest object around it.
static const struct json *find_entry(struct editor *editor, const char *key, bool *is_exact,
                                     struct err *err)
{
    const struct json *list = find_member(editor->arena, &editor->object, "provenance", err);
    struct json *nearest = NULL;
    size_t nearest_length = 0;
    int count = err->kind ? 0 : json_count(list, err);
    for (int i = 0; i < count; i++) {
        struct json *entry = ARENA_NEW(editor->arena, struct json, 1);
        *entry = json_item(list, i);
        struct json at = json_get(entry, "key", err);
        const char *of = json_text(&at, err);
        if (err->kind) return NULL;
        size_t length = strlen(of);
        bool covers = strncmp(of, key, length) == 0 && (key[length] == '.' || !key[length]);
        if (!covers || (nearest && length <= nearest_length)) continue;
        nearest = entry;
        nearest_length = length;
    }
    assert(nearest && "every number has its provenance");
    *is_exact = nearest_length == strlen(key);
    return nearest;
}

// Edits the text, so that order and layout of a file stay as they are.
static void edit_constant(struct editor *editor, const struct fit_constant *constant,
                          struct err *err)
{
    const struct json *number = find_member(editor->arena, &editor->object, constant->key, err);
    bool is_exact = false;
    const struct json *entry = err->kind ? NULL : find_entry(editor, constant->key, &is_exact, err);
    const char *prior = entry ? prior_text(editor->arena, entry, err) : NULL;
    if (!prior) return;
    char digits[UNITS_NUMBER_BYTES];
    struct json_span at = json_span_of(number);
    add_edit(editor, at.offset, at.bytes,
             arena_copy(editor->arena, units_number(digits, round_digits(constant->value))));
    const char *text = entry_text(editor, constant, prior);
    at = json_span_of(entry);
    if (is_exact) {
        add_edit(editor, at.offset, at.bytes, text);
        return;
    }
    // Behind the entry that spoke for it, on a line of its own.
    const char *file = entry->document->text;
    size_t line = at.offset;
    while (line > 0 && file[line - 1] != '\n')
        line--;
    int indent = (int)strspn(file + line, " ");
    add_edit(editor, at.offset + at.bytes, 0,
             arena_print(editor->arena, ",\n%*s%s", indent, "", text));
}

static int compare_edits(const void *a, const void *b)
{
    const struct edit *left = a, *right = b;
    if (left->offset != right->offset) return left->offset < right->offset ? -1 : 1;
    return left->ordinal - right->ordinal;
}

static char *apply(struct editor *editor)
{
    const struct json_document *document = editor->object.document;
    qsort(editor->edits, (size_t)editor->count, sizeof *editor->edits, compare_edits);
    size_t bytes = document->text_bytes + 1;
    for (int i = 0; i < editor->count; i++) {
        bytes += strlen(editor->edits[i].text);
    }
    char *text = ARENA_NEW(editor->arena, char, bytes), *end = text;
    size_t from = 0;
    for (int i = 0; i < editor->count; i++) {
        const struct edit *edit = &editor->edits[i];
        assert(edit->offset >= from && "edits do not overlap");
        memcpy(end, document->text + from, edit->offset - from);
        end = stpcpy(end + (edit->offset - from), edit->text);
        from = edit->offset + edit->bytes;
    }
    memcpy(end, document->text + from, document->text_bytes - from);
    return text;
}

char *fit_edit_text(struct arena *arena, const struct json *object, const struct fit_result *result,
                    enum constant_owner owner, const char *owner_name, const char *source,
                    struct err *err)
{
    struct editor editor = {
        .arena = arena,
        .object = *object,
        .source = source,
        .edits = ARENA_NEW(arena, struct edit, 2 * result->constant_count),
    };
    for (int i = 0; i < result->constant_count && !err->kind; i++) {
        const struct fit_constant *constant = &result->constants[i];
        if (constant->owner != owner || strcmp(constant->owner_name, owner_name) != 0) continue;
        edit_constant(&editor, constant, err);
    }
    return err->kind ? NULL : apply(&editor);
}

// Paths as from the repository's root, below another folder.
static struct file_text text_of(struct arena *arena, const char *folder, const char *path,
                                const char *text)
{
    return (struct file_text){arena_print(arena, "%s/%s", folder, path), text};
}

static bool put_owner(struct arena *arena, const struct fit_result *result,
                      const struct fit_constant *of, const char *folder, const char *source,
                      struct file_text *file, struct err *err)
{
    assert(of->owner != CONSTANT_FABRIC && "rows of fabrics share a file");
    bool is_device = of->owner == CONSTANT_DEVICE;
    const char *where = is_device ? "topologies/devices" : "cost_models/stacks";
    const char *path =
        file_find_data(arena, where, of->owner_name, constant_owner_name(of->owner), err);
    struct json_document document;
    if (!path || !json_load(arena, path, &document, err)) return false;
    struct json root = json_root(&document);
    const char *text = fit_edit_text(arena, &root, result, of->owner, of->owner_name, source, err);
    if (!text) return false;
    *file = text_of(arena, folder, arena_print(arena, "%s/%s.json", where, of->owner_name), text);
    return true;
}

// Row after row of one file: the text of each edit is parsed again for the next.
static bool put_fabrics(struct arena *arena, const struct fit_result *result, const char *folder,
                        const char *source, struct file_text *file, struct err *err)
{
    const char *path = file_find_data(arena, "cost_models", "fabrics", "table of fabrics", err);
    struct json_document document;
    if (!path || !json_load(arena, path, &document, err)) return false;
    for (int i = 0;; i++) {
        struct json root = json_root(&document);
        struct json rows = json_get(&root, "fabrics", err);
        if (err->kind || i == json_count(&rows, err)) break;
        struct json row = json_item(&rows, i);
        const struct fabrics *fabrics = fabrics_read(arena, &root, err);
        if (!fabrics) return false;
        const char *name = fabric_name(arena, &fabrics->rows[i]);
        const char *text = fit_edit_text(arena, &row, result, CONSTANT_FABRIC, name, source, err);
        if (!text || !json_parse(arena, path, text, strlen(text), &document, err)) return false;
    }
    *file = text_of(arena, folder, "cost_models/fabrics.json", document.text);
    return !err->kind;
}

struct file_text *fit_files_text(struct arena *arena, const struct fit_result *result,
                                 const char *folder, const char *source, int *count,
                                 struct err *err)
{
    struct file_text *files = ARENA_NEW(arena, struct file_text, result->constant_count + 1);
    bool has_fabrics = false;
    *count = 0;
    for (int i = 0; i < result->constant_count; i++) {
        const struct fit_constant *of = &result->constants[i];
        if (of->owner == CONSTANT_FABRIC) {
            has_fabrics = true;
            continue;
        }
        // Constants of one owner stand together.
        bool is_first = i == 0 || strcmp(of[-1].owner_name, of->owner_name) != 0;
        if (!is_first) continue;
        if (!put_owner(arena, result, of, folder, source, &files[(*count)++], err)) return NULL;
    }
    if (!has_fabrics) return files;
    return put_fabrics(arena, result, folder, source, &files[(*count)++], err) ? files : NULL;
}
