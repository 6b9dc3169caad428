#include "memory/graph_dialect.h"
#include "memory/graph_edges.h"
#include "memory/name_table.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Nodes are operators. All edges out of a node carry the one tensor that it makes, as large as the
// largest `size` among them. Weights are nodes too: no edge in, no time, and a name that says so;
// their tensor is persistent and no operator makes it. Other keys (costs, CPU times, colours) say
// nothing about memory.

struct node_row {
    const char *name;
    int64_t id;
    double size, seconds;
    bool is_backward;
};

struct edge_row {
    int64_t source, dest;
    double size;
};

struct reader {
    struct arena *arena;
    struct err *err;
    struct json nodes, edges;
    struct node_row *rows;
    struct edge_row *links;  // source and dest are indices of nodes
    int node_count, edge_count;
    int *in_count;
    int *operator_of, *tensor_of;  // -1: none
};

static const double BYTES_MAX = 9007199254740992;  // 2^53
enum { ITEMS_MAX = 8000000 };

static bool flag(const struct json *object, const char *key, struct err *err)
{
    if (!json_has(object, key)) return false;
    struct json value = json_get(object, key, err);
    // Written true or 1.
    return json_is_number(&value) ? json_f64(&value, 0, 1, err) > 0 : json_bool(&value, err);
}

static double number(const struct json *object, const char *key, double otherwise, double low,
                     double high, struct err *err)
{
    if (!json_has(object, key)) return otherwise;
    struct json value = json_get(object, key, err);
    return json_f64(&value, low, high, err);
}

static int64_t whole(const struct json *object, const char *key, struct err *err)
{
    struct json value = json_get(object, key, err);
    return err->kind ? 0 : json_i64(&value, -BYTES_MAX, BYTES_MAX, err);
}

static struct json list_of(const struct json *root, const char *key, int *count, struct err *err)
{
    struct json list = json_get(root, key, err);
    *count = json_count(&list, err);
    if (*count > ITEMS_MAX) json_fail(&list, err, "more than %d items", ITEMS_MAX);
    return list;
}

static const char *id_text(struct arena *arena, int64_t id)
{
    return arena_print(arena, "%lld", (long long)id);
}

static void read_nodes(struct reader *reader, struct name_table *ids)
{
    struct err *err = reader->err;
    for (int i = 0; i < reader->node_count && !err->kind; i++) {
        struct json at = json_item(&reader->nodes, i);
        struct node_row *row = &reader->rows[i];
        row->id = whole(&at, "id", err);
        row->size = number(&at, "size", 0, 0, BYTES_MAX, err);
        // Times of this size can only be milliseconds: 1.2 for a layer of ResNet-50.
        row->seconds = number(&at, "fpgaLatency", 0, 0, 1e15, err) / 1000;
        row->is_backward = flag(&at, "isBackwardNode", err);
        row->name = id_text(reader->arena, row->id);
        if (!err->kind && !name_table_add(ids, row->name, i)) {
            struct json value = json_get(&at, "id", err);
            json_fail(&value, err, "a second node with id %lld", (long long)row->id);
        }
        if (err->kind || !json_has(&at, "name")) continue;
        struct json name = json_get(&at, "name", err);
        const char *text = json_text(&name, err);
        if (!err->kind) row->name = text;
    }
}

// Ids are any numbers: they are found as names.
static int node_of(struct reader *reader, const struct json *edge, const char *key,
                   const struct name_table *ids)
{
    int64_t id = whole(edge, key, reader->err);
    int node = name_table_find(ids, id_text(reader->arena, id));
    if (reader->err->kind || node >= 0) return node;
    struct json value = json_get(edge, key, reader->err);
    json_fail(&value, reader->err, "unknown node %lld", (long long)id);
    return -1;
}

static void read_edges(struct reader *reader, const struct name_table *ids)
{
    struct err *err = reader->err;
    for (int i = 0; i < reader->edge_count && !err->kind; i++) {
        struct json at = json_item(&reader->edges, i);
        struct edge_row *link = &reader->links[i];
        link->source = node_of(reader, &at, "sourceId", ids);
        if (!err->kind) link->dest = node_of(reader, &at, "destId", ids);
        if (err->kind) return;
        // Where edges have no size, the node's own is what there is.
        double otherwise = reader->rows[link->source].size;
        link->size = number(&at, "size", otherwise, 0, BYTES_MAX, err);
        reader->in_count[link->dest]++;
    }
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

// The format does not mark them: nothing comes in, they take no time, and a name says so.
static bool is_parameter(const struct reader *reader, int node)
{
    static const char *const ENDS[] = {"weight", "weight_transposed", "bias", "parameter"};
    const struct node_row *row = &reader->rows[node];
    if (reader->in_count[node] > 0 || row->seconds > 0) return false;
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        if (ends_with(row->name, ENDS[i])) return true;
    }
    return false;
}

// Operators and tensors of all nodes; two with one name get their number behind it.
// Names tell operators apart in files and messages: two of one name are no fault of this format.
static struct memory_graph *make_graph(struct reader *reader)
{
    struct memory_graph *graph = ARENA_NEW(reader->arena, struct memory_graph, 1);
    int count = reader->node_count;
    struct name_table names = name_table_new(reader->arena, count);
    graph->operators = ARENA_NEW(reader->arena, struct memory_operator, count);
    graph->tensors = ARENA_NEW(reader->arena, struct memory_tensor, count);
    graph->tensor_count = count;
    for (int i = 0; i < count; i++) {
        const struct node_row *row = &reader->rows[i];
        const char *name = row->name;
        bool persistent = is_parameter(reader, i);
        if (!name_table_add(&names, name, i)) {
            name = arena_print(reader->arena, "%s#%lld", name, (long long)row->id);
        }
        graph->tensors[i] = (struct memory_tensor){
            .name = name,
            .bytes = persistent ? (int64_t)ceil(row->size) : 0,
            .shares = -1,
            .persistent = persistent,
        };
        int op = reader->operator_of[i] = persistent ? -1 : graph->operator_count++;
        assert(op < graph->operator_count && graph->operator_count <= i + 1);
        if (persistent) continue;
        reader->tensor_of[op] = i;
        graph->operators[op] = (struct memory_operator){
            .name = name,
            .outputs = &reader->tensor_of[op],
            .output_count = 1,
            .seconds = row->seconds,
            .update = row->is_backward && strstr(name, "Optimizer"),
        };
    }
    return graph;
}

// Inputs of each operator from the edges, each once.
static void fill_inputs(struct reader *reader, struct memory_graph *graph)
{
    int *first = ARENA_NEW(reader->arena, int, reader->node_count + 1);
    int *inputs = ARENA_NEW(reader->arena, int, reader->edge_count);
    int *last = ARENA_NEW(reader->arena, int, reader->node_count);
    for (int i = 0; i < reader->node_count; i++) {
        first[i + 1] = first[i] + reader->in_count[i];
        reader->in_count[i] = 0;
    }
    for (int i = 0; i < reader->edge_count; i++) {
        const struct edge_row *link = &reader->links[i];
        assert(link->source >= 0 && link->source < reader->node_count);
        struct memory_tensor *tensor = &graph->tensors[link->source];
        int64_t bytes = (int64_t)ceil(link->size);
        if (bytes > tensor->bytes) tensor->bytes = bytes;
        assert(first[link->dest] + reader->in_count[link->dest] < first[link->dest + 1]);
        inputs[first[link->dest] + reader->in_count[link->dest]++] = (int)link->source;
    }
    for (int i = 0; i < reader->node_count; i++) {
        struct memory_operator *op = &graph->operators[reader->operator_of[i]];
        if (reader->operator_of[i] < 0) continue;
        op->inputs = inputs + first[i];
        for (int j = first[i]; j < first[i + 1]; j++) {
            if (last[inputs[j]] == i + 1) continue;
            last[inputs[j]] = i + 1;
            inputs[first[i] + op->input_count++] = inputs[j];
        }
    }
}

struct memory_graph *partition_graph_read(struct arena *arena, const struct json *root,
                                          struct err *err)
{
    struct reader reader = {.arena = arena, .err = err};
    reader.nodes = list_of(root, "nodes", &reader.node_count, err);
    reader.edges = list_of(root, "edges", &reader.edge_count, err);
    if (err->kind) return NULL;
    assert(reader.node_count <= ITEMS_MAX && reader.edge_count <= ITEMS_MAX);
    reader.rows = ARENA_NEW(arena, struct node_row, reader.node_count);
    reader.links = ARENA_NEW(arena, struct edge_row, reader.edge_count);
    reader.in_count = ARENA_NEW(arena, int, reader.node_count);
    reader.operator_of = ARENA_NEW(arena, int, reader.node_count);
    reader.tensor_of = ARENA_NEW(arena, int, reader.node_count);
    struct name_table ids = name_table_new(arena, reader.node_count);
    read_nodes(&reader, &ids);
    read_edges(&reader, &ids);
    if (err->kind) return NULL;
    struct memory_graph *graph = make_graph(&reader);
    fill_inputs(&reader, graph);
    const struct graph_fault *fault = graph_finish(arena, graph);
    if (fault) {
        int node = fault->is_tensor ? fault->index : reader.tensor_of[fault->index];
        struct json at = json_item(&reader.nodes, node);
        json_fail(&at, err, "%s", fault->text);
    } else if (graph->operator_count < 1) {
        json_fail(&reader.nodes, err, "expected one node or more that is no parameter");
    }
    return err->kind ? NULL : graph;
}
