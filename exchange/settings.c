#include "exchange/settings.h"

#include <assert.h>
#include <string.h>

struct setting *settings_find(const struct settings *settings, const char *key)
{
    for (int i = 0; i < settings->count; i++) {
        if (strcmp(settings->items[i].key, key) == 0) return &settings->items[i];
    }
    return NULL;
}

static struct setting *append(struct settings *settings, const char *key)
{
    assert(*key && !settings_find(settings, key));
    ARENA_GROW(settings->arena, settings->items, settings->count, settings->capacity);
    struct setting *setting = &settings->items[settings->count++];
    *setting = (struct setting){.key = key};
    return setting;
}

void settings_add(struct settings *settings, const char *key, const char *value, const char *why)
{
    struct setting *setting = settings_find(settings, key);
    if (setting) {
        assert(strcmp(setting->value, value) == 0 && "two rows of a target disagree");
        return;
    }
    setting = append(settings, key);
    setting->value = value;
    setting->why = why;
}

void settings_read(struct settings *settings, const char *key, const char *value, int line)
{
    assert(value && line >= 0);
    struct setting *setting = settings_find(settings, key);
    if (!setting) setting = append(settings, key);
    setting->value = value;
    setting->line = line;
}
