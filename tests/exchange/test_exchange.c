#include "core/file.h"
#include "exchange/import.h"
#include "exchange/nearest.h"
#include "exchange/option_table.h"
#include "exchange/syntax.h"
#include "exchange/targets/forms.h"
#include "library/inquiry.h"
#include "planner/choice.h"
#include "tests/support/drawn_export.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>

// Drawn plans through each target: what can be exported is imported as it was, and every option
// that is written stands in the target's table of options, with a value of its type.

enum { DRAWN = 200, DRAWN_MOST = 2000, TARGET_MOST = 64 };

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
        bool is_right =
            target_option(arena, target, setting->key, &fact) && is_of_type(&fact, setting->value);
        if (!is_right) print_message("# %s: %s %s\n", target->name, setting->key, setting->value);
        assert_true(is_right);
    }
}

static long long number_of(const struct settings *settings, const char *key)
{
    const struct setting *setting = settings_find(settings, key);
    return setting ? strtoll(setting->value, NULL, 10) : 0;
}

// What validate_args of Megatron-LM asks of options together, as far as drawn plans were refused.
static void check_together(const struct settings *settings)
{
    long long positions = number_of(settings, "--max-position-embeddings");
    assert_true(positions == 0 || positions >= number_of(settings, "--seq-length"));
    bool waits = settings_find(settings, "--no-overlap-p2p-communication") != NULL;
    assert_true(!waits || number_of(settings, "--pipeline-model-parallel-size") > 2);
}

// Whether an option that the target is given is about it: of what none is, nothing can come back.
static bool tells(const struct exchange_target *target, const char *fact)
{
    for (const struct exchange_row *row = target->rows; row->fact; row++) {
        bool is_written = *row->options && (!row->form || row->form->to != READ_FORM.to);
        if (strcmp(row->fact, fact) == 0 && is_written) return true;
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
            check_together(&drawn.settings);
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
            bool is_there = target_option(*state, TARGETS[j], option, &fact);
            if (!is_there) print_message("# %s: %s\n", TARGETS[j]->name, option);
            assert_true(is_there);
            at += strlen(option);
        }
    }
    assert_true(checked > 0);
}

static void question_of(struct arena *arena, const struct exchange_target *target,
                        const char *model, struct search_request *request)
{
    struct err err = {0};
    struct inquiry inquiry = inquiry_start();
    bool is_npu = strcmp(target->name, "mindspore") == 0;
    inquiry.model = model;
    inquiry.cluster = is_npu ? "ascend-910b-x4" : "dgx-h100-x4";
    inquiry.stack = target->stack;
    inquiry.seq_len = 4096;
    inquiry.global_batch = 128;
    bool done = inquiry_request(arena, &inquiry, request, &err);
    assert_string_equal(err.text, "");
    assert_true(done);
    request->top = 1;
    request->nothing = SEARCH_FITS_ONLY;
}

// What a target is searched for can be exported as it is found, of experts as well, and none is
// given up without a plan.
static void what_is_searched_for_a_program_it_can_run(void **state)
{
    static const char *const MODELS[] = {"llama-2-7b", "mixtral-8x7b"};
    int found = 0;
    for (int j = 0; TARGETS[j]; j++) {
        for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
            struct search_request request = {0};
            struct search_result result;
            struct err err = {0};
            question_of(*state, TARGETS[j], MODELS[i], &request);
            bool done = nearest_search(*state, TARGETS[j], &request, &result, &err);
            assert_string_equal(err.text, "");
            assert_true(done);
            if (result.best_count == 0) print_message("# %s: %s\n", TARGETS[j]->name, MODELS[i]);
            if (result.best_count == 0) continue;
            const struct facts_request asked = {request.model, request.stack, &request.workload,
                                                &result.best[0].parallel, false};
            const struct facts *facts;
            struct settings settings;
            struct refusals refusals;
            assert_true(
                target_judge(*state, TARGETS[j], &asked, &facts, &settings, &refusals, &err));
            assert_int_equal(refusals.count, 0);
            found++;
        }
    }
    // Whole experts of Mixtral on every rank fit no device of 80 GB without sharded parameters.
    assert_true(found >= 17);
}

static void check_pinned(struct arena *arena, const char *name, const char *model, enum choice axis,
                         const char *expected)
{
    struct err err = {0};
    const struct exchange_target *target = target_find(name, &err);
    struct search_request request = {0};
    struct search_result result;
    assert_non_null(target);
    question_of(arena, target, model, &request);
    pins_set(&request.pins, axis, 4, 4);
    assert_false(nearest_search(arena, target, &request, &result, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, expected);
}

static void what_a_program_cannot_be_told_is_refused_by_its_name(void **state)
{
    check_pinned(*state, "deepspeed", "mixtral-8x7b", CHOICE_EP,
                 "DeepSpeed cannot split this model over ep");
    check_pinned(*state, "accelerate", "llama-2-7b", CHOICE_PP,
                 "accelerate cannot split this model over pp");
    check_pinned(*state, "megatron-deepspeed", "mixtral-8x7b", CHOICE_PP,
                 "Megatron-DeepSpeed cannot split this model over pp");
    // Its flavors have no multi-token prediction, so that its stages cannot be told.
    check_pinned(*state, "torchtitan", "deepseek-v3", CHOICE_PP,
                 "torchtitan cannot split this model over pp");
}

static void write_recipe(const char *path, const char *text)
{
    struct err err = {0};
    bool done = file_write(path, text, strlen(text), &err);
    assert_string_equal(err.text, "");
    assert_true(done);
}

static struct imported *imported_of(struct arena *arena, const char *name)
{
    struct err err = {0};
    struct imported *imported = import_file(arena, name, NULL, &err);
    assert_string_equal(err.text, "");
    assert_non_null(imported);
    return imported;
}

static void check_fact(const struct imported *imported, const char *name, const char *value)
{
    const char *found = facts_get(imported->facts, name);
    if (!found || strcmp(found, value) != 0)
        print_message("# %s is %s, not %s\n", name, found ? found : "(none)", value);
    assert_true(found && strcmp(found, value) == 0);
}

// Values of arguments, of names and of calls above; an argument that is False unless given leaves
// its block out, and what is set last counts.
static void recipes_in_python_are_read(void **state)
{
    char folder[] = "/tmp/meshwright-recipe-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *path = arena_print(*state, "%s/recipe.py", folder);
    write_recipe(path,
                 "LENGTH = 8192  # tokens\n"
                 "def trainer(tensor_parallelism: int = 2, stages=4, name='a, b'):\n"
                 "    return run.Config(nl.Trainer, devices=8, num_nodes=4,\n"
                 "        strategy=run.Config(\n"
                 "            nl.MegatronStrategy, tensor_model_parallel_size=tensor_parallelism,\n"
                 "            pipeline_model_parallel_size=stages,\n"
                 "            virtual_pipeline_model_parallel_size=None))\n"
                 "def fast(recipe):\n"
                 "    recipe.trainer.strategy.context_parallel_size = 4\n"
                 "def one(quick: bool = False):\n"
                 "    \"\"\"Says recipe.trainer.strategy.tensor_model_parallel_size = 99.\"\"\"\n"
                 "    recipe = llm.llama3_70b.pretrain_recipe(num_nodes=4)\n"
                 "    recipe.trainer = trainer(tensor_parallelism=8)\n"
                 "    recipe.data.seq_length = LENGTH\n"
                 "    recipe.data.global_batch_size = 256\n"
                 "    if quick:\n"
                 "        fast(recipe)\n"
                 "    return recipe\n"
                 "def two():\n"
                 "    recipe = llm.mixtral_8x7b.pretrain_recipe()\n"
                 "    recipe.model.config.cp_comm_type = 'p2p'\n");
    struct err err = {0};
    assert_null(import_file(*state, path, NULL, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    assert_non_null(strstr(err.text, "holds 2 recipes: give one as FILE:NAME, of one, two"));
    const struct imported *one = imported_of(*state, arena_print(*state, "%s:one", path));
    assert_string_equal(one->target->name, "nemo");
    assert_string_equal(one->model, "llama-3-70b");
    check_fact(one, "world", "32");
    check_fact(one, "tp", "8");
    check_fact(one, "pp", "4");
    check_fact(one, "vpp", "1");
    check_fact(one, "seq_len", "8192");
    check_fact(one, "global_batch", "256");
    assert_null(facts_get(one->facts, "cp"));
    err = (struct err){0};
    assert_null(import_file(*state, arena_print(*state, "%s:three", path), NULL, &err));
    assert_non_null(strstr(err.text, "has no recipe \"three\"; it has one, two"));
    remove(path);
    remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_exported_is_imported_as_it_was),
        cmocka_unit_test(what_starts_a_program_has_its_options),
        cmocka_unit_test(what_is_searched_for_a_program_it_can_run),
        cmocka_unit_test(what_a_program_cannot_be_told_is_refused_by_its_name),
        cmocka_unit_test(recipes_in_python_are_read),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
