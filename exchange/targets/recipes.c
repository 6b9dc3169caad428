#include "exchange/targets/recipes.h"

#include "core/file.h"
#include "exchange/targets/forms.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *renamed(struct arena *arena, const struct recipe_section *sections,
                           const char *key)
{
    for (; sections->class; sections++) {
        size_t length = strlen(sections->class);
        if (strncmp(key, sections->class, length) == 0)
            return arena_print(arena, "%s%s", sections->section, key + length);
    }
    return key;
}

static bool is_none_read(const char *key)
{
    static const char *const KEYS[] = {".virtual_pipeline_model_parallel_size",
                                       ".recompute_granularity", ".attention_backend"};
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        size_t length = strlen(key), end = strlen(KEYS[i]);
        if (length > end && strcmp(key + length - end, KEYS[i]) == 0) return true;
    }
    return false;
}

// A size that is no number, as a name of Python, says nothing.
static int64_t number_of(const struct settings *settings, const char *key, bool *is_there)
{
    struct setting *setting = settings_find(settings, key);
    int64_t value = setting ? strtoll(setting->value, NULL, 10) : 0;
    *is_there = *is_there && value > 0;
    return value;
}

static void put_world(struct settings *settings)
{
    bool is_there = true;
    int64_t nodes = number_of(settings, "trainer.num_nodes", &is_there);
    int64_t each = number_of(settings, "trainer.devices", &is_there);
    if (!is_there) return;
    settings_find(settings, "trainer.num_nodes")->is_used = true;
    settings_find(settings, "trainer.devices")->is_used = true;
    settings_read(settings, "mesh.world",
                  arena_print(settings->arena, "%lld", (long long)nodes * each), 0);
    settings_find(settings, "mesh.world")->is_used = true;
}

void recipe_prepare(const struct recipe_section *sections, struct settings *settings)
{
    struct settings kept = {.arena = settings->arena};
    for (int i = 0; i < settings->count; i++) {
        const struct setting *setting = &settings->items[i];
        const char *key = renamed(settings->arena, sections, setting->key);
        bool is_none = strcmp(setting->value, "None") == 0 && !is_none_read(key);
        if (is_none && !settings_find(&kept, key)) continue;
        // Taken back: as if it had not been said.
        if (is_none) settings_find(&kept, key)->is_used = true;
        settings_read(&kept, key, setting->value, setting->line);
        settings_find(&kept, key)->is_used = setting->is_used || is_none;
    }
    assert(kept.count <= settings->count && "keys of two classes may be one");
    *settings = kept;
    put_world(settings);
    for (int i = 0; i < settings->count; i++) {
        if (strstr(settings->items[i].key, "recompute_modules")) return;
    }
    settings_read(settings, "recompute.bare", "", 0);
    settings_find(settings, "recompute.bare")->is_used = true;
}

// Letters and digits alone, small; what comes before '/' and "meta" in front go.
static const char *plain(struct arena *arena, const char *name)
{
    const char *slash = strrchr(name, '/');
    if (slash) name = slash + 1;
    char *text = arena_copy(arena, name), *to = text;
    for (const char *at = text; *at; at++) {
        if (isalnum((unsigned char)*at)) *to++ = (char)tolower((unsigned char)*at);
    }
    *to = '\0';
    return strncmp(text, "meta", 4) == 0 ? text + 4 : text;
}

// What recipes have behind the name of a model: "_16k" is a length, not another model.
static bool is_name_of(const char *recipe, const char *model)
{
    static const char *const MORE[] = {"", "16k", "64k", "128k", "pretrainconfig"};
    size_t length = strlen(model);
    if (strncmp(recipe, model, length) != 0) return false;
    for (size_t i = 0; i < sizeof MORE / sizeof *MORE; i++) {
        if (strcmp(recipe + length, MORE[i]) == 0) return true;
    }
    return false;
}

static const char *shipped(struct arena *arena, const struct facts *facts, const char *text)
{
    int count = 0;
    const char **names = file_list_data(arena, "models/zoo", &count);
    const char *recipe = plain(arena, text);
    (void)facts;
    for (int i = 0; i < count; i++) {
        if (is_name_of(recipe, plain(arena, names[i]))) return names[i];
    }
    return NULL;
}

const struct exchange_form RECIPE_FORM = {form_never, shipped};

static const char *classes(struct arena *arena, const struct facts *facts, const char *text)
{
    if (*text != '[') return NULL;
    char *words = arena_copy(arena, text), *to = words;
    for (const char *at = text; *at; at++) {
        if (!strchr("[]\"' ", *at)) *to++ = *at;
    }
    *to = '\0';
    return CLASSES_FORM.from(arena, facts, words);
}
const struct exchange_form MODULES_FORM = {form_never, classes};
