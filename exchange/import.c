#include "exchange/import.h"

#include "core/file.h"
#include "core/json_write.h"
#include "core/plain.h"
#include "core/table.h"
#include "exchange/model_facts.h"
#include "exchange/python_part.h"
#include "exchange/shell.h"
#include "exchange/syntax.h"
#include "exchange/values.h"

#include <assert.h>
#include <string.h>

static const struct exchange_syntax *const SYNTAXES[] = {&JSON_SYNTAX, &TOML_SYNTAX, &YAML_SYNTAX,
                                                         &PYTHON_SYNTAX};

// By the end of the file's name.
static const struct exchange_syntax *syntax_of(const char *path)
{
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof SYNTAXES / sizeof *SYNTAXES; i++) {
        for (const char *at = SYNTAXES[i]->suffixes; *at;) {
            size_t suffix = strcspn(at, " ");
            if (suffix < length && strncmp(path + length - suffix, at, suffix) == 0)
                return SYNTAXES[i];
            at += suffix + (at[suffix] == ' ');
        }
    }
    return &ARGUMENTS_SYNTAX;
}

// How many of the keys that only this target has are there.
static int keys_there(const struct exchange_target *target, const struct settings *settings)
{
    int count = 0;
    char key[128];
    for (const char *at = target->known_by; *at;) {
        size_t length = strcspn(at, " ");
        assert(length < sizeof key);
        snprintf(key, sizeof key, "%.*s", (int)length, at);
        count += settings_find(settings, key) != NULL;
        at += length + (at[length] == ' ');
    }
    return count;
}

static bool takes(const struct exchange_target *target, const struct exchange_syntax *syntax)
{
    return target->syntax == syntax || (target->has_recipes && syntax == &PYTHON_SYNTAX);
}

static const struct exchange_target *guess(const struct exchange_syntax *syntax,
                                           const struct settings *settings)
{
    const struct exchange_target *best = NULL;
    int most = 0;
    for (const struct exchange_target *const *at = TARGETS; *at; at++) {
        int count = takes(*at, syntax) ? keys_there(*at, settings) : 0;
        if (count <= most) continue;
        most = count;
        best = *at;
    }
    return best;
}

static const char *config_text(struct arena *arena, const struct json *config)
{
    struct json_writer writer = {.arena = arena};
    json_put_copy(&writer, NULL, config);
    return writer.text;
}

// The shipped model with this very config: some differ in nothing that a plan hangs on.
static const char *shipped_as(struct arena *arena, const char *config)
{
    int count = 0;
    const char **names = file_list_data(arena, "models/zoo", &count);
    for (int i = 0; i < count; i++) {
        struct err unread = {0};
        const struct model_config *model = model_load(arena, names[i], NULL, NULL, &unread);
        if (model && strcmp(config_text(arena, &model->config), config) == 0) return names[i];
    }
    return NULL;
}

// Many programs name no model in their file; `export` writes config.json beside it, and so do
// trainers. One that is no model's is none; one that the file contradicts is not taken.
static bool find_beside(struct arena *arena, const char *path, struct imported *imported,
                        struct err *err)
{
    enum { BYTES_MAX = 16 << 20 };
    const char *slash = strrchr(path, '/');
    const char *beside =
        arena_print(arena, "%.*sconfig.json", slash ? (int)(slash - path + 1) : 0, path);
    struct err absent = {0};
    size_t bytes = 0;
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!file_exists(beside)) return true;
    const char *text = file_read(arena, beside, BYTES_MAX, &bytes, &absent);
    if (!text || !json_parse(arena, beside, text, bytes, document, &absent)) return true;
    const struct json root = json_root(document);
    const struct model_config *model = model_read(arena, "config", &root, NULL, NULL, &absent);
    bool is_same = false;
    if (!model) return true;
    if (!model_facts_agree(arena, imported->facts, model, &is_same, err)) return false;
    imported->is_beside = is_same;
    imported->has_other = !is_same;
    if (!is_same) return true;
    imported->config = config_text(arena, &root);
    imported->model = shipped_as(arena, imported->config);
    return true;
}

// A name of a shipped model is believed; else config.json beside the file, else the shapes it says.
static bool find_model(struct arena *arena, const char *path, struct imported *imported,
                       struct err *err)
{
    const char *name = facts_get(imported->facts, "model.name");
    int count = 0;
    const char **names = name ? file_list_data(arena, "models/zoo", &count) : NULL;
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) imported->model = names[i];
    }
    if (imported->model) return true;
    if (!find_beside(arena, path, imported, err)) return false;
    if (imported->is_beside) return true;
    imported->config = model_facts_config(arena, imported->facts, &imported->lacks);
    imported->model = model_facts_shipped(arena, imported->facts, err);
    imported->is_completed = imported->model && !imported->config;
    return !err->kind;
}

// The file that an option of the first one names. Often it is made when the program starts: then it
// is what the script writes to it. Where there is neither, what it would say stays open, and the
// option is listed.
static bool read_beside(struct arena *arena, const char *first, struct imported *imported,
                        struct err *err)
{
    enum { BYTES_MAX = 1 << 20 };
    const struct exchange_beside *beside = &imported->target->beside;
    const struct setting *named =
        beside->file ? settings_find(&imported->settings, beside->option) : NULL;
    if (!named || !*named->value) return true;
    const char *slash = strrchr(first, '/');
    const char *path = named->value;
    if (*path != '/' && slash)
        path = arena_print(arena, "%.*s/%s", (int)(slash - first), first, path);
    struct err absent = {0};
    size_t bytes = 0;
    const char *text = file_read(arena, path, BYTES_MAX, &bytes, &absent);
    const struct setting *document =
        settings_find(&imported->settings, arena_print(arena, SHELL_DOCUMENT "%s", named->value));
    if (document) text = document->value;
    if (!text) return true;
    struct settings settings = {.arena = arena};
    if (!beside->syntax->read(plain_copy(arena, path), text, &settings, err)) return false;
    for (int i = 0; i < settings.count && document; i++)
        settings.items[i].line += document->line;
    target_join(imported->target, &settings, &imported->settings);
    return true;
}

// "FILE:NAME" is a recipe of a file; `path` loses it. NULL: none is named.
static const char *split_name(struct arena *arena, const char **path)
{
    const char *colon = strrchr(*path, ':');
    if (!colon || !colon[1] || strchr(colon, '/') || file_exists(*path)) return NULL;
    const char *name = colon + 1;
    *path = arena_print(arena, "%.*s", (int)(colon - *path), *path);
    return name;
}

// A setting that no line of the file has.
static void put_own(struct settings *settings, const char *key, const char *value)
{
    settings_read(settings, key, value, 0);
    settings_find(settings, key)->is_used = true;
}

// The recipe of a Python file; other files are all of one.
static const char *read_part(struct arena *arena, const char *path, const char *text,
                             const char *name, struct imported *imported, struct err *err)
{
    bool is_python = imported->syntax == &PYTHON_SYNTAX;
    if (name && !is_python) {
        err_set(err, ERR_INPUT,
                "%s: only Python files have several recipes, of which \"%s\" is one", path, name);
        return NULL;
    }
    if (!is_python || (!name && !python_has_recipes(text))) return text;
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    const char *part = python_part(arena, path, text, &name, err);
    put_own(&imported->settings, "recipe.file",
            arena_print(arena, "%.*s", (int)strcspn(file, "."), file));
    if (name) put_own(&imported->settings, "recipe.function", name);
    return part;
}

struct imported *import_file(struct arena *arena, const char *path,
                             const struct exchange_target *target, struct err *err)
{
    enum { BYTES_MAX = 1 << 20 };
    struct imported *imported = ARENA_NEW(arena, struct imported, 1);
    size_t bytes = 0;
    const char *name = split_name(arena, &path);
    const char *text = file_read(arena, path, BYTES_MAX, &bytes, err);
    if (!text) return NULL;
    const char *shown = plain_copy(arena, path);
    if (strlen(text) != bytes) {
        err_set(err, ERR_INPUT, "%s: holds a byte of zero, which no text does", shown);
        return NULL;
    }
    const struct exchange_syntax *syntax = syntax_of(path);
    imported->syntax = target && !takes(target, syntax) ? target->syntax : syntax;
    imported->path = shown;
    imported->settings.arena = arena;
    text = read_part(arena, shown, text, name, imported, err);
    if (!text || !imported->syntax->read(shown, text, &imported->settings, err)) return NULL;
    imported->target = target ? target : guess(imported->syntax, &imported->settings);
    if (!imported->target) {
        err_set(err, ERR_INPUT, "%s: has no option of a program that is known (%s)", shown,
                target_names(arena));
        return NULL;
    }
    if (!read_beside(arena, path, imported, err)) return NULL;
    imported->stack = stack_load(arena, imported->target->stack, err);
    if (!imported->stack) return NULL;
    imported->facts = ARENA_NEW(arena, struct facts, 1);
    imported->facts->arena = arena;
    target_import(imported->target, &imported->settings, imported->facts);
    facts_said(arena, imported->facts, imported->stack, &imported->said, NULL);
    return find_model(arena, path, imported, err) ? imported : NULL;
}

// Whether the target has the option, or takes anything below a key that it has.
static bool is_known(struct arena *arena, const struct exchange_target *target, const char *key)
{
    struct option_fact fact;
    for (; *key; key = key_group(arena, key)) {
        if (target_option(arena, target, key, &fact)) return true;
    }
    return false;
}

// Why an option says nothing of a plan.
static const char *import_unknown(struct arena *arena, const struct imported *imported,
                                  const struct setting *setting)
{
    assert(!setting->is_used && "what is used says something");
    const struct exchange_target *target = imported->target;
    static const char *const LAUNCHED[] = {"--node_rank",   "--node-rank",   "--master_addr",
                                           "--master-addr", "--master_port", "--master-port"};
    for (size_t i = 0; i < sizeof LAUNCHED / sizeof *LAUNCHED; i++) {
        if (strcmp(setting->key, LAUNCHED[i]) == 0) return "of the launcher, not of the plan";
    }
    if (setting->is_odd) return "no plan holds this value";
    if (target->beside.file && strcmp(setting->key, target->beside.option) == 0)
        return "not there: what it says stays open";
    if (!target->options) return "says nothing of a plan";
    if (is_known(arena, target, setting->key)) return "says nothing of a plan";
    return arena_print(arena, "no option of %s %s", target->program, target->version);
}

static void put_model(struct json_writer *writer, const struct imported *imported)
{
    struct err unread = {0};
    struct json_document document;
    if (imported->model) {
        json_put_text(writer, "model", imported->model);
    } else if (imported->config && json_parse(writer->arena, imported->path, imported->config,
                                              strlen(imported->config), &document, &unread)) {
        struct json root = json_root(&document);
        json_put_copy(writer, "model", &root);
    } else {
        json_put_null(writer, "model");
    }
}

static void put_workload(struct json_writer *writer, const struct said *said)
{
    const struct workload *workload = &said->workload;
    json_open(writer, "workload", '{');
    if (said->seq_len) json_put_i64(writer, "seq_len", workload->seq_len);
    if (said->global_batch) json_put_i64(writer, "global_batch", workload->global_batch);
    if (said->precision) json_put_text(writer, "precision", precision_name(workload->precision));
    if (said->optimizer) json_put_text(writer, "optimizer", optimizer_name(workload->optimizer));
    if (said->capacity) json_put_f64(writer, "capacity_factor", workload->capacity_factor);
    json_close(writer, '}');
}

static void put_choice(struct json_writer *writer, const struct parallel *parallel,
                       enum choice choice)
{
    assert(choice < CHOICE_COUNT);
    int64_t value = choice_value(parallel, choice);
    if (choice_is_number(choice)) {
        json_put_i64(writer, choice_name(choice), value);
    } else if (choice_kind(choice) == CHOICE_KIND_SWITCH) {
        json_put_bool(writer, choice_name(choice), value);
    } else {
        json_put_text(writer, choice_name(choice), choice_text(writer->arena, choice, value));
    }
}

static void put_parallel(struct json_writer *writer, const struct said *said)
{
    const struct parallel *parallel = &said->parallel;
    json_open(writer, "parallel", '{');
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
        if (said->choices[choice]) put_choice(writer, parallel, choice);
    }
    if (said->stages) {
        json_put_ints(writer, "stages", parallel->stage_layers, parallel->stage_layers_count);
    }
    if (said->order) {
        json_open_flat(writer, "order", '[');
        for (int i = 0; i < parallel->order_count; i++) {
            enum axis axis = parallel->order[i];
            bool is_told = parallel->degree[axis] > 1 || !choice_axis_may_be_absent(axis);
            if (is_told) json_put_text(writer, NULL, axis_name(axis));
        }
        json_close(writer, ']');
    }
    json_close(writer, '}');
}

char *import_json(struct arena *arena, const struct imported *imported)
{
    assert(imported->target && imported->facts);
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "version", 1);
    put_model(&writer, imported);
    put_workload(&writer, &imported->said);
    put_parallel(&writer, &imported->said);
    json_open(&writer, "target", '{');
    json_put_text(&writer, "name", imported->target->name);
    json_put_text(&writer, "program", imported->target->program);
    json_put_text(&writer, "version", imported->target->version);
    json_put_text(&writer, "stack", imported->target->stack);
    if (facts_get(imported->facts, "world"))
        json_put_i64(&writer, "gpus", facts_number(imported->facts, "world", 0));
    json_close(&writer, '}');
    json_open(&writer, "unknown", '[');
    for (int i = 0; i < imported->settings.count; i++) {
        const struct setting *setting = &imported->settings.items[i];
        if (setting->is_used) continue;
        json_open_flat(&writer, NULL, '{');
        json_put_text(&writer, "option", plain_copy(arena, setting->key));
        json_put_text(&writer, "value", plain_copy(arena, setting->value));
        json_put_i64(&writer, "line", setting->line);
        json_put_text(&writer, "why", import_unknown(arena, imported, setting));
        json_close(&writer, '}');
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    return arena_print(arena, "%s\n", writer.text);
}

static const char *model_text(struct arena *arena, const struct imported *imported)
{
    assert(imported->model || imported->config || imported->lacks);
    const char *model = imported->model;
    if (imported->is_beside)
        return model ? arena_print(arena, "%s, as config.json beside it says", model)
                     : "that of config.json beside it; not a shipped one";
    const char *other = imported->has_other ? "; config.json beside it is another" : "";
    if (imported->is_completed)
        return arena_print(arena, "%s, the only shipped model that has what the file says%s", model,
                           other);
    if (model) return arena_print(arena, "%s, as shipped%s", model, other);
    if (imported->config) return arena_print(arena, "its own; not a shipped one%s", other);
    return arena_print(arena, "not said in full: %s is missing%s", imported->lacks, other);
}

static const char *choices_text(struct arena *arena, const struct said *said)
{
    const char *text = "";
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
        int64_t value = choice_value(&said->parallel, choice);
        if (!said->choices[choice]) continue;
        text = arena_print(arena, "%s%s%s %s", text, *text ? ", " : "", choice_name(choice),
                           choice_text(arena, choice, value));
    }
    for (int i = 0; said->stages && i < said->parallel.stage_layers_count; i++)
        text = arena_print(arena, "%s%s%d", text, i ? "," : ", stages ",
                           said->parallel.stage_layers[i]);
    return *text ? text : "nothing";
}

static const char *workload_text(struct arena *arena, const struct said *said)
{
    const struct workload *workload = &said->workload;
    const char *text = "";
    if (said->seq_len) text = arena_print(arena, "seq %lld", (long long)workload->seq_len);
    if (said->global_batch)
        text = arena_print(arena, "%s%sbatch %lld", text, *text ? ", " : "",
                           (long long)workload->global_batch);
    if (said->precision)
        text = arena_print(arena, "%s%s%s", text, *text ? ", " : "",
                           precision_name(workload->precision));
    if (said->optimizer)
        text = arena_print(arena, "%s%s%s", text, *text ? ", " : "",
                           optimizer_name(workload->optimizer));
    return *text ? text : "nothing";
}

char *import_text(struct arena *arena, const struct imported *imported)
{
    const struct exchange_target *target = imported->target;
    const char *gpus = facts_get(imported->facts, "world");
    char *text =
        arena_print(arena, "target    %s %s (stack %s)%s%s\n", target->program, target->version,
                    target->stack, gpus ? ", GPUs: " : "", gpus ? gpus : "");
    text = arena_print(arena, "%smodel     %s\n", text, model_text(arena, imported));
    text = arena_print(arena, "%sworkload  %s\n", text, workload_text(arena, &imported->said));
    text = arena_print(arena, "%sparallel  %s\n", text, choices_text(arena, &imported->said));
    struct table table = table_new(arena, "lrll");
    int count = 0;
    table_row(&table, (const char *[]){"unknown", "line", "value", "why"});
    for (int i = 0; i < imported->settings.count; i++) {
        const struct setting *setting = &imported->settings.items[i];
        if (setting->is_used) continue;
        count++;
        table_row(&table,
                  (const char *[]){plain_copy(arena, setting->key),
                                   arena_print(arena, "%d", setting->line),
                                   *setting->value ? plain_copy(arena, setting->value) : "-",
                                   import_unknown(arena, imported, setting)});
    }
    if (count == 0) return arena_print(arena, "%sunknown   nothing\n", text);
    return arena_print(arena, "%s%s", text, table_text(&table));
}
