#include "exchange/shell.h"
#include "tests/support/test.h"

// What scripts say as they are really written: blocks, defaults that are assigned, files that they
// write, arguments of their own, and where output goes.

static struct settings *read(struct arena *arena, const char *text)
{
    struct settings *settings = ARENA_NEW(arena, struct settings, 1);
    settings->arena = arena;
    struct shell shell = {.arena = arena, .path = "train.sh", .text = text, .settings = settings};
    shell_read(&shell);
    return settings;
}

static void expect(struct arena *arena, const char *text, const char *key, const char *value)
{
    const struct setting *found = settings_find(read(arena, text), key);
    if (!value) {
        assert_null(found);
        return;
    }
    assert_non_null(found);
    assert_string_equal(found->value, value);
}

static void one_branch_of_a_block_is_read(void **state)
{
    static const char *const IF = "if [ %s -eq 1 ]; then A=one\nelif [ %s -gt 1 ]; then A=more\n"
                                  "elif [ %s -gt 2 ]; then A=most\nelse A=none\nfi\n"
                                  "run --a $A\n";
    static const char *const VALUES[][2] = {
        {"1", "one"}, {"2", "more"}, {"3", "more"}, {"0", "none"}};
    for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++) {
        const char *at = VALUES[i][0];
        expect(*state, arena_print(*state, IF, at, at, at), "--a", VALUES[i][1]);
    }
}

static void a_case_takes_its_first_pattern(void **state)
{
    static const char *const CASE =
        "case ${SIZE:-%s} in\n  7b|\"7B\") LAYERS=32 ;;\n  (70*) LAYERS=80\n    HEADS=64 ;;\n"
        "  7*) LAYERS=1 ;;\n  *) LAYERS=2\nesac\nHEADS=${HEADS:-8}\n"
        "run --num-layers $LAYERS --heads $HEADS\n";
    static const char *const VALUES[][3] = {{"7b", "32", "8"},
                                            {"7B", "32", "8"},
                                            {"70b", "80", "64"},
                                            {"7c", "1", "8"},
                                            {"x", "2", "8"}};
    for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++) {
        const char *text = arena_print(*state, CASE, VALUES[i][0]);
        expect(*state, text, "--num-layers", VALUES[i][1]);
        expect(*state, text, "--heads", VALUES[i][2]);
    }
    // Where the word is not known, what is done of all others.
    expect(*state, "case $1 in a) B=1 ;; *) B=2 ;; esac\nrun --b $B\n", "--b", "2");
    expect(*state, "if [ 1 -eq 2 ]; then case a in a) B=1 ;; esac; B=3; fi\nrun --b ${B:-4}\n",
           "--b", "4");
}

static void declarations_assign(void **state)
{
    static const char *const WORDS[] = {"export", "readonly", "declare -ri", "local", "typeset -x"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        const char *text = arena_print(*state, "%s A=1 B=${C:-2}\nrun --b $B\n", WORDS[i]);
        expect(*state, text, "--b", "2");
    }
    expect(*state, "declare -a A=(--x 1\n --y 2)\nrun ${A[@]}\n", "--y", "2");
}

static void defaults_are_assigned_where_there_is_no_value(void **state)
{
    expect(*state, ": ${TP:=4}\nrun --tp $TP\n", "--tp", "4");
    expect(*state, ": \"${TP:=4}\" \"${PP:=$((TP*2))}\"\nrun --pp $PP\n", "--pp", "8");
    expect(*state, "TP=2\n: ${TP:=4}\nrun --tp $TP\n", "--tp", "2");
    expect(*state, ": ${GPUS_PER_NODE:=8}\n: ${NNODES:=$SLURM_NNODES}\nNNODES=2\nrun --a 1\n",
           "nnodes*nproc", "16");
}

static void output_and_arguments_are_no_values(void **state)
{
    expect(*state, "run --backend nccl \"$@\" 2>&1 | tee log\n", "--backend", "nccl");
    expect(*state, "run --backend nccl ${@:2} >log 2>err\n", "--backend", "nccl");
    expect(*state, "run --ids 1 2 > log\n", "--ids", "1 2");
    expect(*state, "run --data $1 &\n", "--data", "$1");
}

static void what_a_script_writes_is_kept(void **state)
{
    static const char *const TEXT =
        "Z=1\ncat <<EOT > cfg_$RANDOM.json\n{\"a\": $Z, \"b\": \"${Y:-x}\"}\nEOT\n"
        "cat > raw.json <<'END'\n{\"a\": \"$Z\"}\nEND\n"
        "python - <<-END\n\tprint('--no 1')\n\tEND\nrun --yes 1\n";
    expect(*state, TEXT, SHELL_DOCUMENT "cfg_$RANDOM.json", "{\"a\": 1, \"b\": \"x\"}\n");
    expect(*state, TEXT, SHELL_DOCUMENT "raw.json", "{\"a\": \"$Z\"}\n");
    expect(*state, TEXT, "--yes", "1");
    expect(*state, TEXT, "--no", NULL);
    assert_int_equal(settings_find(read(*state, TEXT), "--yes")->line, 11);
    // One that does not end, and one that is not run.
    expect(*state, "cat <<EOT > a\nrun --a 1\n", SHELL_DOCUMENT "a", "run --a 1\n");
    expect(*state, "if [ 1 -eq 2 ]; then\ncat <<E > a\nx\nE\nfi\nrun --a 1\n", SHELL_DOCUMENT "a",
           NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_branch_of_a_block_is_read),
        cmocka_unit_test(a_case_takes_its_first_pattern),
        cmocka_unit_test(declarations_assign),
        cmocka_unit_test(defaults_are_assigned_where_there_is_no_value),
        cmocka_unit_test(output_and_arguments_are_no_values),
        cmocka_unit_test(what_a_script_writes_is_kept),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
