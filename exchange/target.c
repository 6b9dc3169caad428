#include "exchange/target.h"

#include <assert.h>
#include <string.h>

#define TARGET(id) extern const struct exchange_target id##_TARGET;
#include "exchange/targets/targets.inc"

const struct exchange_target *const TARGETS[] = {
#define TARGET(id) &id##_TARGET,
#include "exchange/targets/targets.inc"
    NULL};

bool target_runs_on(struct arena *arena, const struct exchange_target *target,
                    const struct stack *stack, const struct cluster *cluster, const char **why)
{
    assert(cluster->node_group_count > 0);
    const struct device *device = cluster->nodes[0].device;
    if (stack_is_for(stack, device->kind)) return true;
    *why = arena_print(arena, "%s %s does not run on %s (%s) of %s", target->program,
                       target->version, device->name, device->kind, cluster->name);
    return false;
}

const char *target_names(struct arena *arena)
{
    const char *names = "";
    for (const struct exchange_target *const *at = TARGETS; *at; at++)
        names = arena_print(arena, "%s%s%s", names, *names ? "|" : "", (*at)->name);
    return names;
}

const struct exchange_target *target_find(const char *name, struct err *err)
{
    struct arena spare = {0};
    for (const struct exchange_target *const *at = TARGETS; *at; at++) {
        if (strcmp((*at)->name, name) == 0) return *at;
    }
    err_set(err, ERR_USAGE, "--to: expected one of %s, found \"%s\"", target_names(&spare), name);
    arena_free(&spare);
    return NULL;
}

// First what no program could use, then what this one takes no notice of.
void target_clean(const struct exchange_target *target, struct facts *facts)
{
    int kept = 0;
    facts_clean(facts);
    for (int i = 0; i < facts->count && target->matters; i++) {
        if (target->matters(facts, facts->items[i].name)) facts->items[kept++] = facts->items[i];
    }
    if (target->matters) facts->count = kept;
}

void target_export(const struct exchange_target *target, const struct facts *facts,
                   struct settings *settings, struct refusals *refusals)
{
    rows_export(target->rows, facts, target->has_model, settings, refusals);
    if (target->finish) target->finish(facts, settings);
}

// Of the first file, or of the one beside it: then `key` loses its prefix.
static const char *table_of(const struct exchange_target *target, const char **key)
{
    const char *prefix = target->beside.file ? target->beside.prefix : NULL;
    if (!prefix || strncmp(*key, prefix, strlen(prefix)) != 0) return target->options;
    *key += strlen(prefix);
    return target->beside.options;
}

bool target_option(struct arena *arena, const struct exchange_target *target, const char *key,
                   struct option_fact *fact)
{
    const char *table = table_of(target, &key);
    return table && option_table_find(arena, table, key, fact);
}

struct settings target_part(struct arena *arena, const struct exchange_target *target,
                            const struct settings *settings, bool is_beside)
{
    assert(!is_beside || target->beside.file);
    struct settings part = {.arena = arena};
    const char *prefix = target->beside.file ? target->beside.prefix : NULL;
    size_t length = prefix ? strlen(prefix) : 0;
    for (int i = 0; i < settings->count; i++) {
        const struct setting *setting = &settings->items[i];
        bool is_there = prefix && strncmp(setting->key, prefix, length) == 0;
        if (is_there != is_beside) continue;
        settings_add(&part, setting->key + (is_beside ? length : 0), setting->value, setting->why);
    }
    return part;
}

void target_join(const struct exchange_target *target, const struct settings *beside,
                 struct settings *settings)
{
    assert(target->beside.prefix && "only a target with a second file joins it");
    for (int i = 0; i < beside->count; i++) {
        const struct setting *setting = &beside->items[i];
        const char *key = arena_print(settings->arena, "%s%s", target->beside.prefix, setting->key);
        settings_read(settings, key, setting->value, setting->line);
    }
}

// All GPUs, by the axes that they are the product of.
static void put_world(struct facts *facts)
{
    static const char *const AXES[] = {"dp", "tp", "cp", "pp"};
    int64_t world = 1;
    for (size_t i = 0; i < sizeof AXES / sizeof *AXES; i++)
        world *= facts_number(facts, AXES[i], i > 0);
    if (world > 0 && !facts_get(facts, "world"))
        facts_put(facts, "world", arena_print(facts->arena, "%lld", (long long)world));
}

void target_import(const struct exchange_target *target, struct settings *settings,
                   struct facts *facts)
{
    if (target->prepare) target->prepare(settings);
    rows_import(target->rows, settings, facts);
    put_world(facts);
    target_clean(target, facts);
}
