#include "models/recommender.h"

#include "core/file.h"
#include "core/json_peek.h"
#include "core/plain.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// Far past any model, and small enough that no product of sizes overflows 63 bits.
#define ROWS_MAX 1e12
#define IDS_MAX 1e6
#define WIDTH_HIGH 1e6

static const char FOLDER[] = "models/recommenders";
static const char *const TYPES[] = {"dlrm", "wide_deep", NULL};

static const char *interaction_name(enum interaction interaction)
{
    assert(interaction >= 0 && interaction < INTERACTION_COUNT);
    static const char *const NAMES[INTERACTION_COUNT] = {"dot", "dcn", "cat"};
    return NAMES[interaction];
}

static const struct json_field FIELDS[] = {
    {JSON_TEXT(struct recommender, model_type)},
    {JSON_I64(struct recommender, dense_features, 0, WIDTH_HIGH)},
    {JSON_I64(struct recommender, embedding_dim, 1, WIDTH_HIGH)},
    {JSON_ANY("tables")},
    {JSON_ANY("bottom_mlp")},
    {JSON_ANY("interaction")},
    {JSON_ANY("top_mlp")},
    {JSON_OPT_BOOL(struct recommender, wide)},
    {JSON_F64(struct recommender, zipf_exponent, 0, 4)},
    {JSON_TEXT(struct recommender, zipf_source)},
    {0},
};

// One object may stand for several equal tables.
struct table_entry {
    const char *name;
    int64_t count, rows, ids;
};
static const struct json_field TABLE_FIELDS[] = {
    {JSON_OPT_TEXT(struct table_entry, name)},
    {JSON_OPT_I64(struct table_entry, count, 1, TABLE_COUNT_MAX)},
    {JSON_I64(struct table_entry, rows, 1, ROWS_MAX)},
    {JSON_I64(struct table_entry, ids, 1, IDS_MAX)},
    {0},
};

struct interaction_entry {
    const char *kind;
    int64_t layers, rank;
};
static const struct json_field INTERACTION_FIELDS[] = {
    {JSON_TEXT(struct interaction_entry, kind)},
    {JSON_OPT_I64(struct interaction_entry, layers, 1, 64)},
    {JSON_OPT_I64(struct interaction_entry, rank, 1, WIDTH_HIGH)},
    {0},
};

static void read_tower(const struct json *root, const char *key, struct tower *tower,
                       struct err *err)
{
    struct json list = json_get(root, key, err);
    int count = json_count(&list, err);
    if (err->kind) return;
    if (count > TOWER_LAYERS_MAX) {
        json_fail(&list, err, "expected at most %d layers, found %d", TOWER_LAYERS_MAX, count);
        return;
    }
    tower->layer_count = count;
    for (int i = 0; i < count; i++) {
        struct json width = json_item(&list, i);
        tower->widths[i] = json_i64(&width, 1, WIDTH_HIGH, err);
    }
}

static void read_interaction(const struct json *root, struct recommender *model, struct err *err)
{
    struct json object = json_get(root, "interaction", err);
    struct interaction_entry entry = {0};
    if (err->kind) return;
    json_read(&object, INTERACTION_FIELDS, &entry, err);
    if (err->kind) return;
    int kind = 0;
    while (kind < INTERACTION_COUNT &&
           strcmp(interaction_name((enum interaction)kind), entry.kind) != 0)
        kind++;
    if (kind == INTERACTION_COUNT) {
        struct json at = json_get(&object, "kind", err);
        json_fail(&at, err, "unknown \"%s\"; known: dot, dcn, cat", entry.kind);
        return;
    }
    bool is_cross = kind == INTERACTION_DCN;
    if (is_cross != (entry.layers > 0) || is_cross != (entry.rank > 0)) {
        json_fail(&object, err,
                  is_cross ? "dcn needs \"layers\" and \"rank\"" : "only dcn has layers and rank");
        return;
    }
    model->interaction = (enum interaction)kind;
    model->cross_layers = entry.layers;
    model->cross_rank = entry.rank;
}

static void read_tables(struct arena *arena, const struct json *root, struct recommender *model,
                        struct err *err)
{
    struct json list = json_get(root, "tables", err);
    int entries = json_count(&list, err);
    if (err->kind) return;
    if (entries == 0) {
        json_fail(&list, err, "expected one table or more");
        return;
    }
    model->tables = ARENA_NEW(arena, struct table_shape, TABLE_COUNT_MAX);
    for (int i = 0; i < entries; i++) {
        struct json at = json_item(&list, i);
        struct table_entry entry = {.count = 1};
        json_read(&at, TABLE_FIELDS, &entry, err);
        if (err->kind) return;
        if (model->table_count + entry.count > TABLE_COUNT_MAX) {
            json_fail(&at, err, "more than %d tables", TABLE_COUNT_MAX);
            return;
        }
        for (int64_t k = 0; k < entry.count; k++) {
            int table = model->table_count++;
            const char *name = !entry.name       ? arena_print(arena, "t%d", table)
                               : entry.count > 1 ? arena_print(arena, "%s.%d", entry.name, (int)k)
                                                 : arena_copy(arena, entry.name);
            model->tables[table] = (struct table_shape){name, entry.rows, entry.ids};
        }
    }
}

static bool is_known_type(const char *type)
{
    for (size_t i = 0; TYPES[i]; i++) {
        if (strcmp(TYPES[i], type) == 0) return true;
    }
    return false;
}

// What the parts say of each other.
static bool check(const struct json *root, const struct recommender *model, struct err *err)
{
    const struct tower *bottom = &model->bottom, *top = &model->top;
    struct json at = json_find(root, "model_type");
    if (!is_known_type(model->model_type))
        return json_fail(&at, err, "unknown \"%s\"; known: dlrm, wide_deep", model->model_type);
    at = json_find(root, "bottom_mlp");
    int layers = bottom->layer_count;
    int64_t width = layers > 0 ? bottom->widths[layers - 1] : model->dense_features;
    if (model->dense_features == 0 && layers > 0)
        return json_fail(&at, err, "%d layers for no dense features", layers);
    if (model->interaction != INTERACTION_CAT && width > 0 && width != model->embedding_dim)
        return json_fail(&at, err, "it gives %lld numbers, and %s needs as many as a row has: %lld",
                         (long long)width, interaction_name(model->interaction),
                         (long long)model->embedding_dim);
    at = json_find(root, "top_mlp");
    if (top->layer_count == 0 || top->widths[top->layer_count - 1] != 1)
        return json_fail(&at, err, "expected widths that end with 1, the click's logit");
    double most = 0;
    for (int i = 0; i < model->table_count; i++)
        most += (double)model->tables[i].row_count * (double)(model->embedding_dim + 1);
    at = json_find(root, "tables");
    return most < 1e18 || json_fail(&at, err, "more than 1e18 parameters");
}

struct recommender *recommender_read(struct arena *arena, const char *name,
                                     const struct json *object, struct err *err)
{
    struct recommender *model = ARENA_NEW(arena, struct recommender, 1);
    json_read(object, FIELDS, model, err);
    if (err->kind) return NULL;
    read_tower(object, "bottom_mlp", &model->bottom, err);
    read_tower(object, "top_mlp", &model->top, err);
    read_interaction(object, model, err);
    read_tables(arena, object, model, err);
    if (err->kind || !check(object, model, err)) return NULL;
    assert(model->table_count > 0 && model->table_count <= TABLE_COUNT_MAX);
    assert(recommender_top_inputs(model) >= 0);
    // Texts of the file end with its document: the model outlives it.
    model->name = arena_copy(arena, name);
    model->model_type = arena_copy(arena, model->model_type);
    model->zipf_source = arena_copy(arena, model->zipf_source);
    model->document = *object->document;
    model->config = *object;
    model->config.parent = NULL;
    model->config.document = &model->document;
    return model;
}

static const char *base_name(struct arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = arena_copy(arena, slash ? slash + 1 : path);
    size_t length = strlen(name), tail = strlen(".json");
    if (length > tail && strcmp(name + length - tail, ".json") == 0) name[length - tail] = '\0';
    plain_make(name);
    return name;
}

struct recommender *recommender_load(struct arena *arena, const char *name, struct err *err)
{
    const char *path = file_find_data(arena, FOLDER, name, "recommendation model", err);
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!path || !json_load(arena, path, document, err)) return NULL;
    struct json root = json_root(document);
    return recommender_read(arena, base_name(arena, path), &root, err);
}

bool recommender_is(const char *name, struct err *err)
{
    // What is no such model another reader will say: errors of the search for it are dropped.
    struct arena arena = {0};
    struct err none = {0};
    const char *path = file_find_data(&arena, FOLDER, name, "recommendation model", &none);
    bool is = path && strstr(path, ".json") && json_peek(path, "model_type", TYPES, err);
    arena_free(&arena);
    return is;
}
