#include "core/file.h"
#include "exchange/import.h"
#include "exchange/nearest.h"
#include "exchange/option_table.h"
#include "exchange/syntax.h"
#include "tests/support/random_question.h"
#include "tests/support/test.h"

#include <stdio.h>

// Drawn plans through each target: what can be exported is imported as it was, and every option
// that is written stands in the target's table of options, with a value of its type.

enum { DRAWN = 200, DRAWN_MOST = 400, TARGET_MOST = 64 };

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
    const char *text = target->syntax->write(arena, settings, &head);
    assert_true(target->syntax->read("drawn", text, &read, &err));
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

// What a target refuses becomes something else that it may take: most drawn plans are for none of
// them as they are.
static void give_way(struct draw *draw, const struct refusal *refusal, struct parallel *parallel,
                     struct workload *workload)
{
    static const struct {
        const char *fact;
        enum choice choice;
        const char *values[4];
    } OTHERS[] = {
        {"attention", CHOICE_ATTENTION, {"flash", "flash", "unfused", "flash"}},
        {"recompute", CHOICE_RECOMPUTE, {"none", "full", "selective", "none"}},
        {"zero", CHOICE_ZERO, {"0", "1", "2", "3"}},
        {"zero_group", CHOICE_ZERO_GROUP, {"0", "0", "0", "0"}},
        {"cp_kind", CHOICE_CP_KIND, {"ring", "allgather", "ulysses", "ring"}},
        {"offload.optimizer", CHOICE_OFFLOAD, {"none", "none", "optimizer", "none"}},
        {"offload.activations", CHOICE_OFFLOAD, {"none", "none", "optimizer", "none"}},
        {"bucket_bytes", CHOICE_BUCKET_BYTES, {"0", "0", "0", "0"}},
        {"sp", CHOICE_SP, {"on", "off", "on", "off"}},
        {"etp", CHOICE_ETP, {"1", "1", "1", "1"}},
    };
    struct err err = {0};
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) {
        int64_t value;
        if (strcmp(OTHERS[i].fact, refusal->fact) != 0) continue;
        const char *text = OTHERS[i].values[draw_int(draw, 0, 3)];
        assert_true(choice_parse(OTHERS[i].choice, text, &value, &err));
        choice_put(parallel, OTHERS[i].choice, value);
        if (OTHERS[i].choice == CHOICE_RECOMPUTE) parallel->recompute_layers = -1;
    }
    unsigned bit;
    if (strncmp(refusal->fact, "overlap.", 8) == 0 && overlap_parse(refusal->fact + 8, &bit))
        parallel->overlap ^= bit;
    if (strcmp(refusal->fact, "precision") == 0) workload->precision = PRECISION_BF16;
    if (strcmp(refusal->fact, "optimizer") == 0) workload->optimizer = OPTIMIZER_ADAMW;
    if (strcmp(refusal->fact, "order") == 0) parallel_default_order(parallel);
    if (strcmp(refusal->fact, "schedule") == 0)
        parallel->schedule = parallel->vpp > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B;
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
    (void)state;
    for (int i = 0; i < DRAWN_MOST && (i < DRAWN || least(exported) < DRAWN); i++) {
        struct arena arena = {0};
        struct random_question question;
        random_question(&arena, &draw, &question);
        const struct evaluation_request *request = &question.request;
        for (int j = 0; TARGETS[j]; j++) {
            struct err err = {0};
            const struct stack *stack = stack_load(&arena, TARGETS[j]->stack, &err);
            assert_non_null(stack);
            struct parallel parallel = request->parallel;
            parallel.passes = stack->passes;
            struct workload workload = request->workload;
            const struct facts_request asked = {request->model, stack, &workload, &parallel};
            const struct facts *facts;
            struct settings settings;
            struct refusals refusals;
            for (int tries = 0; tries < 12; tries++) {
                assert_true(
                    target_judge(&arena, TARGETS[j], &asked, &facts, &settings, &refusals, &err));
                for (int k = 0; k < refusals.count; k++)
                    give_way(&draw, &refusals.items[k], &parallel, &workload);
                if (refusals.count == 0) break;
            }
            check_options(&arena, TARGETS[j], &settings);
            if (refusals.count > 0) continue;
            exported[j]++;
            check_round_trip(&arena, TARGETS[j], facts, &settings);
        }
        arena_free(&arena);
    }
    for (int j = 0; TARGETS[j]; j++)
        assert_in_range(exported[j], DRAWN, DRAWN_MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_exported_is_imported_as_it_was),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
