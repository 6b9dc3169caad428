#include "core/file.h"
#include "exchange/import.h"
#include "exchange/nearest.h"
#include "exchange/option_table.h"
#include "exchange/syntax.h"
#include "tests/support/drawn_export.h"
#include "tests/support/test.h"

#include <stdio.h>

// Drawn plans through each target: what can be exported is imported as it was, and every option
// that is written stands in the target's table of options, with a value of its type.

enum { DRAWN = 200, DRAWN_MOST = 1000, TARGET_MOST = 64 };

static const struct syntax_head HEAD = {.nodes = 1, .gpus_per_node = 1};

static bool is_of_type(const struct option_fact *fact, const char *value)
{
    char *end = NULL;
    if (strcmp(fact->type, "flag") == 0) return !*value;
    if (*fact->choices) {
        const char *at = strstr(fact->choices, value);
        size_t length = strlen(value);
        return at && (at == fact->choices || at[-1] == '|') && (!at[length] || at[length] == '|');
    }
    if (strcmp(fact->type, "bool") == 0)
        return strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
    if (strcmp(fact->type, "list") == 0) return *value == '[';
    if (strcmp(fact->type, "int") == 0) return strtol(value, &end, 10), *value && !*end;
    if (strcmp(fact->type, "float") == 0) return strtod(value, &end), *value && !*end;
    return *value != '\0';
}

static void check_options(struct arena *arena, const struct exchange_target *target,
                          const struct settings *settings)
{
    for (int i = 0; target->options && i < settings->count; i++) {
        const struct setting *setting = &settings->items[i];
        struct option_fact fact;
        bool is_right = option_table_find(arena, target->options, setting->key, &fact) &&
                        is_of_type(&fact, setting->value);
        if (!is_right) print_message("# %s: %s %s\n", target->name, setting->key, setting->value);
        assert_true(is_right);
    }
}

// Whether an option of the target is about it: of what none is, nothing can come back.
static bool tells(const struct exchange_target *target, const char *fact)
{
    for (const struct exchange_row *row = target->rows; row->fact; row++) {
        if (strcmp(row->fact, fact) == 0 && *row->options) return true;
    }
    return false;
}

// What comes back of the facts that were written.
static void check_round_trip(struct arena *arena, const struct exchange_target *target,
                             const struct facts *facts, const struct settings *settings)
{
    struct err err = {0};
    struct syntax_head head = HEAD;
    struct settings read = {.arena = arena};
    struct facts back = {.arena = arena};
    head.nodes = facts_number(facts, "world", 1);
    const struct settings own = target_part(arena, target, settings, false);
    const char *text = target->syntax->write(arena, &own, &head);
    assert_true(target->syntax->read("drawn", text, &read, &err));
    if (target->beside.file) {
        const struct settings other = target_part(arena, target, settings, true);
        struct settings beside = {.arena = arena};
        const char *more = target->beside.syntax->write(arena, &other, &head);
        assert_true(target->beside.syntax->read("beside", more, &beside, &err));
        target_join(target, &beside, &read);
    }
    assert_string_equal(err.text, "");
    target_import(target, &read, &back);
    const char *difference = NULL;
    for (int i = 0; i < facts->count && !difference; i++) {
        const char *name = facts->items[i].name, *value = facts_get(&back, name);
        bool is_name = strcmp(name, "model.name") == 0 || strcmp(name, "model.family") == 0;
        bool is_asked = target->has_model || strncmp(name, "model.", 6) != 0;
        if (is_name || !is_asked || (!value && facts_is_neutral(facts, name))) continue;
        if (!value && !tells(target, name)) continue;
        if (!value || strcmp(value, facts->items[i].value) != 0) difference = name;
    }
    if (difference)
        print_message("# %s: %s was %s and is %s\n%s\n", target->name, difference,
                      facts_get(facts, difference), facts_get(&back, difference), text);
    assert_null(difference);
    for (int i = 0; i < read.count; i++) {
        if (!read.items[i].is_used) print_message("# unread: %s\n", read.items[i].key);
        assert_true(read.items[i].is_used);
    }
}

// For the targets' own parsers (tests/judges/judges.sh): DIR/TARGET-NUMBER-WORLD-FILE.
static void keep(struct arena *arena, const struct exchange_target *target, int number,
                 const struct drawn_export *drawn, const char *folder)
{
    const char *world = facts_get(drawn->facts, "world");
    const struct syntax_head head = {.nodes = atoi(world), .gpus_per_node = 1};
    const char *text = target->syntax->write(arena, &drawn->settings, &head);
    const char *path =
        arena_print(arena, "%s/%s-%d-%s-%s", folder, target->name, number, world, target->file);
    struct err err = {0};
    bool done = file_write(path, text, strlen(text), &err);
    assert_string_equal(err.text, "");
    assert_true(done);
}

static int least(const int *exported)
{
    int count = exported[0];
    for (int i = 0; TARGETS[i]; i++)
        count = exported[i] < count ? exported[i] : count;
    return count;
}

static void what_is_exported_is_imported_as_it_was(void **state)
{
    struct draw draw = draw_start("plans", 20);
    int exported[TARGET_MOST] = {0};
    const char *folder = getenv("MESHWRIGHT_EXPORTS");
    (void)state;
    for (int i = 0; i < DRAWN_MOST && (i < DRAWN || least(exported) < DRAWN); i++) {
        struct arena arena = {0};
        struct random_question question;
        random_question(&arena, &draw, &question);
        for (int j = 0; TARGETS[j]; j++) {
            struct drawn_export drawn;
            if (exported[j] == DRAWN || !drawn_export(&arena, &draw, TARGETS[j], &question, &drawn))
                continue;
            exported[j]++;
            check_options(&arena, TARGETS[j], &drawn.settings);
            check_round_trip(&arena, TARGETS[j], drawn.facts, &drawn.settings);
            if (folder) keep(&arena, TARGETS[j], exported[j], &drawn, folder);
        }
        arena_free(&arena);
    }
    for (int j = 0; TARGETS[j]; j++)
        assert_int_equal(exported[j], DRAWN);
}

// Options of what starts a node's processes stand in the same table: "accelerate launch", "msrun".
static void what_starts_a_program_has_its_options(void **state)
{
    int checked = 0;
    for (int j = 0; TARGETS[j]; j++) {
        const char *at = TARGETS[j]->starter && TARGETS[j]->options ? TARGETS[j]->starter : "";
        for (; (at = strstr(at, "--")); checked++) {
            const char *option = arena_print(*state, "%.*s", (int)strcspn(at, " \\\n"), at);
            struct option_fact fact;
            bool is_there = option_table_find(*state, TARGETS[j]->options, option, &fact);
            if (!is_there) print_message("# %s: %s\n", TARGETS[j]->name, option);
            assert_true(is_there);
            at += strlen(option);
        }
    }
    assert_true(checked > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_exported_is_imported_as_it_was),
        cmocka_unit_test(what_starts_a_program_has_its_options),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
