#include "core/file.h"
#include "core/json_write.h"
#include "core/plain.h"
#include "memory/formats.h"
#include "memory/graph_dialect.h"
#include "memory/graph_edges.h"
#include "memory/name_table.h"

#include <assert.h>
#include <string.h>

enum { ITEMS_MAX = 8000000 };

struct graph_head {
    int64_t version;
    const char *name;
};

static const struct json_field HEAD_FIELDS[] = {
    {JSON_I64(struct graph_head, version, 1, 1)},
    {JSON_OPT_TEXT(struct graph_head, name)},
    {JSON_ANY("tensors")},
    {JSON_ANY("operators")},
    {0},
};

struct tensor_row {
    const char *name, *alias_of, *overwrites;
    int64_t bytes;
    bool persistent, kept;
};

static const struct json_field TENSOR_FIELDS[] = {
    {JSON_TEXT(struct tensor_row, name)},
    {JSON_I64(struct tensor_row, bytes, 0, 9007199254740992)},
    {JSON_OPT_BOOL(struct tensor_row, persistent)},
    {JSON_OPT_BOOL(struct tensor_row, kept)},
    {JSON_OPT_TEXT(struct tensor_row, alias_of)},
    {JSON_OPT_TEXT(struct tensor_row, overwrites)},
    {0},
};

static const struct json_field OPERATOR_FIELDS[] = {
    {JSON_TEXT(struct memory_operator, name)},
    {JSON_OPT_ANY("inputs")},
    {JSON_OPT_ANY("outputs")},
    {JSON_OPT_ANY("after")},
    {JSON_OPT_I64(struct memory_operator, workspace_bytes, 0, 9007199254740992)},
    {JSON_OPT_F64(struct memory_operator, seconds, 0, 1e15)},
    {JSON_OPT_BOOL(struct memory_operator, update)},
    {0},
};

struct reader {
    struct arena *arena;
    struct err *err;
    struct memory_graph *graph;
    struct name_table tensors, operators;
};

// The nearest name is offered, as most unknown ones are slips.
static bool fail_unknown(const struct json *at, const struct name_table *names, const char *what,
                         const char *name, struct err *err)
{
    const char *guess = name_table_guess(names, name);
    if (!guess) return json_fail(at, err, "unknown %s \"%.99s\"", what, name);
    return json_fail(at, err, "unknown %s \"%.99s\", did you mean \"%.99s\"?", what, name, guess);
}

static void add_name(struct reader *reader, const struct json *at, struct name_table *names,
                     const char *what, const char *name, int index)
{
    if (reader->err->kind || name_table_add(names, name, index)) return;
    struct json value = json_get(at, "name", reader->err);
    json_fail(&value, reader->err, "a second %s \"%.99s\"", what, name);
}

// Sharing is read in a second round, when all names are known.
static void read_tensor(struct reader *reader, const struct json *at, int index)
{
    struct tensor_row row = {0};
    json_read(at, TENSOR_FIELDS, &row, reader->err);
    add_name(reader, at, &reader->tensors, "tensor", row.name, index);
    if (row.alias_of && row.overwrites) {
        json_fail(at, reader->err, "\"alias_of\" and \"overwrites\" exclude each other");
    }
    reader->graph->tensors[index] = (struct memory_tensor){
        .name = row.name,
        .bytes = row.bytes,
        .producer = -1,
        .shares = -1,
        .persistent = row.persistent,
        .kept = row.kept,
        .overwrites = row.overwrites != NULL,
    };
}

static void read_sharing(struct reader *reader, const struct json *at, int index)
{
    assert(index >= 0 && index < reader->graph->tensor_count);
    const char *key = reader->graph->tensors[index].overwrites ? "overwrites" : "alias_of";
    if (!json_has(at, key)) return;
    struct json value = json_get(at, key, reader->err);
    const char *name = json_text(&value, reader->err);
    if (reader->err->kind) return;
    int other = name_table_find(&reader->tensors, name);
    if (other < 0) fail_unknown(&value, &reader->tensors, "tensor", name, reader->err);
    reader->graph->tensors[index].shares = other;
}

static const int *read_list(struct reader *reader, const struct json *at, const char *key,
                            const struct name_table *names, const char *what, int *count)
{
    *count = 0;
    if (!json_has(at, key)) return NULL;
    struct json list = json_get(at, key, reader->err);
    *count = json_count(&list, reader->err);
    int *indices = ARENA_NEW(reader->arena, int, *count);
    for (int i = 0; i < *count && !reader->err->kind; i++) {
        struct json item = json_item(&list, i);
        const char *name = json_text(&item, reader->err);
        if (reader->err->kind) return NULL;
        indices[i] = name_table_find(names, name);
        if (indices[i] < 0) fail_unknown(&item, names, what, name, reader->err);
    }
    return indices;
}

// Behind the names of all operators, as one may stand after a later one.
static void read_operator(struct reader *reader, const struct json *at, int index)
{
    struct memory_operator *op = &reader->graph->operators[index];
    op->inputs = read_list(reader, at, "inputs", &reader->tensors, "tensor", &op->input_count);
    op->outputs = read_list(reader, at, "outputs", &reader->tensors, "tensor", &op->output_count);
    op->after = read_list(reader, at, "after", &reader->operators, "operator", &op->after_count);
}

static struct json read_array(struct reader *reader, const struct json *root, const char *key,
                              int *count)
{
    struct json list = json_get(root, key, reader->err);
    *count = json_count(&list, reader->err);
    if (*count > ITEMS_MAX) json_fail(&list, reader->err, "more than %d items", ITEMS_MAX);
    return list;
}

static struct memory_graph *read_graph(struct arena *arena, const struct json *root,
                                       struct err *err)
{
    struct memory_graph *graph = ARENA_NEW(arena, struct memory_graph, 1);
    struct reader reader = {.arena = arena, .err = err, .graph = graph};
    struct graph_head head = {0};
    json_read(root, HEAD_FIELDS, &head, err);
    if (err->kind) return NULL;
    struct json tensors = read_array(&reader, root, "tensors", &graph->tensor_count);
    struct json operators = read_array(&reader, root, "operators", &graph->operator_count);
    if (err->kind) return NULL;
    assert(graph->tensor_count >= 0 && graph->operator_count >= 0);
    graph->name = head.name;
    graph->tensors = ARENA_NEW(arena, struct memory_tensor, graph->tensor_count);
    graph->operators = ARENA_NEW(arena, struct memory_operator, graph->operator_count);
    reader.tensors = name_table_new(arena, graph->tensor_count);
    reader.operators = name_table_new(arena, graph->operator_count);
    for (int i = 0; i < graph->tensor_count && !err->kind; i++) {
        struct json at = json_item(&tensors, i);
        read_tensor(&reader, &at, i);
    }
    for (int i = 0; i < graph->tensor_count && !err->kind; i++) {
        struct json at = json_item(&tensors, i);
        read_sharing(&reader, &at, i);
    }
    for (int i = 0; i < graph->operator_count && !err->kind; i++) {
        struct json at = json_item(&operators, i);
        json_read(&at, OPERATOR_FIELDS, &graph->operators[i], err);
        add_name(&reader, &at, &reader.operators, "operator", graph->operators[i].name, i);
    }
    for (int i = 0; i < graph->operator_count && !err->kind; i++) {
        struct json at = json_item(&operators, i);
        read_operator(&reader, &at, i);
    }
    if (err->kind) return NULL;
    const struct graph_fault *fault = graph_finish(arena, graph);
    if (fault) {
        struct json at = json_item(fault->is_tensor ? &tensors : &operators, fault->index);
        json_fail(&at, err, "%s", fault->text);
    } else if (graph->operator_count < 1) {
        json_fail(&operators, err, "expected one operator or more");
    }
    return err->kind ? NULL : graph;
}

struct memory_graph *memory_graph_parse(struct arena *arena, const char *path, const char *text,
                                        size_t bytes, struct err *err)
{
    struct json_document document;
    if (!json_parse(arena, path, text, bytes, &document, err)) return NULL;
    struct json root = json_root(&document);
    bool is_dialect = json_is_object(&root) && json_has(&root, "nodes");
    struct memory_graph *graph =
        is_dialect ? partition_graph_read(arena, &root, err) : read_graph(arena, &root, err);
    if (!graph || graph->name) return graph;
    const char *slash = strrchr(path, '/');
    graph->name = plain_copy(arena, slash ? slash + 1 : path);
    return graph;
}

struct memory_graph *memory_graph_load(struct arena *arena, const char *path, struct err *err)
{
    enum { BYTES_MAX = 64 << 20 };
    size_t bytes = 0;
    const char *text = file_read(arena, path, BYTES_MAX, &bytes, err);
    return text ? memory_graph_parse(arena, path, text, bytes, err) : NULL;
}

static void write_tensor(struct json_writer *writer, const struct memory_graph *graph,
                         const struct memory_tensor *tensor)
{
    json_open_flat(writer, NULL, '{');
    json_put_text(writer, "name", tensor->name);
    json_put_i64(writer, "bytes", tensor->bytes);
    if (tensor->persistent) json_put_bool(writer, "persistent", true);
    if (tensor->kept) json_put_bool(writer, "kept", true);
    if (tensor->shares >= 0) {
        assert(tensor->shares < graph->tensor_count);
        json_put_text(writer, tensor->overwrites ? "overwrites" : "alias_of",
                      graph->tensors[tensor->shares].name);
    }
    json_close(writer, '}');
}

static void write_tensors(struct json_writer *writer, const struct memory_graph *graph,
                          const char *key, const int *tensors, int count)
{
    json_open_flat(writer, key, '[');
    for (int i = 0; i < count; i++) {
        json_put_text(writer, NULL, graph->tensors[tensors[i]].name);
    }
    json_close(writer, ']');
}

static void write_operator(struct json_writer *writer, const struct memory_graph *graph,
                           const struct memory_operator *op)
{
    assert(op->input_count >= 0 && op->output_count >= 0 && op->after_count >= 0);
    json_open_flat(writer, NULL, '{');
    json_put_text(writer, "name", op->name);
    write_tensors(writer, graph, "inputs", op->inputs, op->input_count);
    write_tensors(writer, graph, "outputs", op->outputs, op->output_count);
    if (op->after_count > 0) {
        json_open_flat(writer, "after", '[');
        for (int i = 0; i < op->after_count; i++) {
            json_put_text(writer, NULL, graph->operators[op->after[i]].name);
        }
        json_close(writer, ']');
    }
    if (op->workspace_bytes > 0) json_put_i64(writer, "workspace_bytes", op->workspace_bytes);
    if (op->seconds > 0) json_put_f64(writer, "seconds", op->seconds);
    if (op->update) json_put_bool(writer, "update", true);
    json_close(writer, '}');
}

char *memory_graph_text(struct arena *arena, const struct memory_graph *graph)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "version", 1);
    json_put_text(&writer, "name", graph->name);
    json_open(&writer, "tensors", '[');
    for (int i = 0; i < graph->tensor_count; i++) {
        write_tensor(&writer, graph, &graph->tensors[i]);
    }
    json_close(&writer, ']');
    json_open(&writer, "operators", '[');
    for (int i = 0; i < graph->operator_count; i++) {
        write_operator(&writer, graph, &graph->operators[i]);
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    return writer.text;
}
