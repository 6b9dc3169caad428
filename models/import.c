#include "models/import.h"

#include "core/file.h"
#include "models/families/family.h"

#include <assert.h>
#include <string.h>

typedef void warn_function(void *context, const char *line);

static const struct model_family *find_family(struct arena *arena, const struct json *object,
                                              struct err *err)
{
    struct json value = json_get(object, "model_type", err);
    const char *model_type = json_text(&value, err);
    if (err->kind) return NULL;
    const char *known = "";
    for (int i = 0; MODEL_FAMILIES[i]; i++) {
        const char *name = MODEL_FAMILIES[i]->model_type;
        if (strcmp(name, model_type) == 0) return MODEL_FAMILIES[i];
        known = arena_print(arena, "%s%s%s", known, i ? ", " : "", name);
    }
    json_fail(&value, err, "unknown \"%s\"; known: %s", model_type, known);
    return NULL;
}

// A cursor whose document and parents live in the arena: the caller's may be on its stack.
static struct json keep_cursor(struct arena *arena, const struct json *cursor,
                               const struct json_document *document)
{
    struct json kept = *cursor;
    kept.document = document;
    if (!cursor->parent) return kept;
    struct json *parent = ARENA_NEW(arena, struct json, 1);
    *parent = keep_cursor(arena, cursor->parent, document);
    kept.parent = parent;
    return kept;
}

struct model_config *model_read(struct arena *arena, const char *name, const struct json *object,
                                warn_function *warn, void *context, struct err *err)
{
    if (err->kind) return NULL;
    const struct model_family *family = find_family(arena, object, err);
    if (!family) return NULL;
    struct family_reader reader = {arena, object, warn, context, err};
    const void *fields = family->read(&reader);
    if (err->kind) return NULL;

    assert(fields);
    struct model_config *config = ARENA_NEW(arena, struct model_config, 1);
    config->name = arena_copy(arena, name);
    config->model_type = family->model_type;
    config->document = *object->document;
    config->config = keep_cursor(arena, object, &config->document);
    config->fields = fields;
    config->family = family;
    return config;
}

static const char *base_name(struct arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = arena_copy(arena, slash ? slash + 1 : path);
    char *suffix = strstr(name, ".json");
    if (suffix && suffix[strlen(".json")] == '\0') *suffix = '\0';
    return name;
}

struct model_config *model_load(struct arena *arena, const char *name, warn_function *warn,
                                void *context, struct err *err)
{
    const char *path = file_find_data(arena, "models/zoo", name, "model", err);
    if (!path) return NULL;
    struct json_document document = {0};
    if (!json_load(arena, path, &document, err)) return NULL;
    struct json root = json_root(&document);
    return model_read(arena, base_name(arena, path), &root, warn, context, err);
}

struct graph *model_graph(struct arena *arena, const struct model_config *config,
                          const struct import_options *options)
{
    struct graph *graph = config->family->build(arena, config->fields, options);
    graph->name = config->name;
    return graph;
}
