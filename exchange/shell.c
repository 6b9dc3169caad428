#include "exchange/shell.h"

#include "core/file.h"
#include "reports/page/markup.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_active(const struct shell *shell)
{
    for (int i = 0; i < shell->depth; i++) {
        if (!shell->active[i]) return false;
    }
    return true;
}

static void skip_blanks(struct shell *shell, bool lines)
{
    for (;; shell->at++) {
        if (shell->at[0] == '\\' && shell->at[1] == '\n') {
            shell->at++;
            shell->line++;
        } else if (*shell->at == '#') {
            shell->at += strcspn(shell->at, "\n");
            shell->at--;
        } else if (*shell->at == '\n' && lines) {
            shell->line++;
        } else if (*shell->at != ' ' && *shell->at != '\t' && *shell->at != '\r') {
            return;
        }
    }
}

// The length of a quoted text with both its quotes, or of a bracket behind a dollar.
static size_t piece_length(struct shell *shell, const char *at)
{
    char close = *at == '{' ? '}' : *at == '(' ? ')' : *at, open = *at;
    size_t i = 1;
    for (int depth = 1; at[i] && depth; i++) {
        if (at[i] == '\\' && open != '\'' && at[i + 1]) {
            shell->line += at[++i] == '\n';
            continue;
        }
        shell->line += at[i] == '\n';
        if (at[i] == close) {
            depth--;
        } else if (at[i] == open && open != close) {
            depth++;
        }
    }
    return i;
}

// A word with its quotes; NULL at the end of a line or of the command.
static const char *raw_word(struct shell *shell)
{
    const char *start = shell->at;
    while (*shell->at && !strchr(" \t\r\n;&|<>)", *shell->at)) {
        char c = *shell->at;
        if (c == '\\' && shell->at[1]) {
            if (shell->at[1] == '\n') break;
            shell->at += 2;
        } else if (c == '"' || c == '\'' || c == '`') {
            shell->at += piece_length(shell, shell->at);
        } else if (c == '$' && (shell->at[1] == '{' || shell->at[1] == '(')) {
            shell->at++;
            shell->at += piece_length(shell, shell->at);
        } else if (c == '(') {
            break;
        } else {
            shell->at++;
        }
    }
    if (shell->at == start) return NULL;
    return arena_print(shell->arena, "%.*s", (int)(shell->at - start), start);
}

// A word as its program sees it: lines that go on in quotes are blanks.
static const char *expanded(struct shell *shell, const char *raw)
{
    if (*raw == '\'') return arena_print(shell->arena, "%.*s", (int)strlen(raw) - 2, raw + 1);
    char *text = arena_copy(shell->arena, shell_expand(shell, raw, strlen(raw)));
    for (char *at = text; *at; at++) {
        if (*at == '\\' && at[1] == '\n') *at = ' ';
        if (*at == '\n') *at = ' ';
    }
    return text;
}

// Where output goes is no value.
static bool is_output(const char *word)
{
    static const char *const SIGNS[] = {">", "&>", "1>", "2>", "|"};
    for (size_t i = 0; i < sizeof SIGNS / sizeof *SIGNS; i++) {
        if (strncmp(word, SIGNS[i], strlen(SIGNS[i])) == 0) return true;
    }
    return false;
}

void shell_options(struct shell *shell, const char *words, int line)
{
    struct arena *arena = shell->arena;
    const char *key = NULL, *value = "";
    for (const char *at = words;;) {
        at += strspn(at, " \t\r\n");
        size_t length = strcspn(at, " \t\r\n");
        const char *word = arena_print(arena, "%.*s", (int)length, at);
        bool is_option = strncmp(word, "--", 2) == 0 && word[2];
        bool is_end = is_output(word);
        is_end = is_end || (length > 3 && strcmp(word + length - 3, ".py") == 0);
        if ((!length || is_option || is_end) && key)
            settings_read(shell->settings, key, value, line);
        if (!length) return;
        if (is_option || is_end) {
            const char *equals = strchr(word, '=');
            key = is_end   ? NULL
                  : equals ? arena_print(arena, "%.*s", (int)(equals - word), word)
                           : word;
            value = equals ? equals + 1 : "";
        } else if (key) {
            value = *value ? arena_print(arena, "%s %s", value, word) : word;
        }
        at += length;
    }
}

// NAME=VALUE, NAME+=VALUE or NAME=( ... ); false: the word is none.
static bool assignment(struct shell *shell, const char *raw)
{
    size_t name = 0;
    while (isalnum((unsigned char)raw[name]) || raw[name] == '_')
        name++;
    bool appends = raw[name] == '+';
    const char *equals = raw + name + appends;
    if (name == 0 || isdigit((unsigned char)*raw) || *equals != '=') return false;
    const char *key = arena_print(shell->arena, "%.*s", (int)name, raw), *value;
    if (equals[1] || *shell->at != '(') {
        value = expanded(shell, equals + 1);
    } else {
        struct markup words = {.arena = shell->arena};
        shell->at++;
        for (;;) {
            skip_blanks(shell, true);
            const char *word = raw_word(shell);
            if (!word) break;
            if (words.length) markup_put(&words, " ");
            markup_put(&words, expanded(shell, word));
        }
        value = words.text ? words.text : "";
        if (*shell->at == ')') shell->at++;
    }
    if (is_active(shell)) shell_assign(shell, key, value, appends);
    return true;
}

// Whether a test of shell holds: 1, 0, or -1 where it cannot be told.
static int test_of(const char *const *words, int count)
{
    if (count == 2 && strcmp(words[0], "-n") == 0)
        return strchr(words[1], '$') ? 0 : *words[1] != '\0';
    if (count == 2 && strcmp(words[0], "-z") == 0)
        return strchr(words[1], '$') ? 1 : *words[1] == '\0';
    if (count != 3 || strchr(words[0], '$') || strchr(words[2], '$')) return -1;
    const char *sign = words[1];
    if (strcmp(sign, "=") == 0 || strcmp(sign, "==") == 0) return !strcmp(words[0], words[2]);
    if (strcmp(sign, "!=") == 0) return strcmp(words[0], words[2]) != 0;
    double a = strtod(words[0], NULL), b = strtod(words[2], NULL);
    if (strcmp(sign, "-gt") == 0) return a > b;
    if (strcmp(sign, "-ge") == 0) return a >= b;
    if (strcmp(sign, "-lt") == 0) return a < b;
    if (strcmp(sign, "-le") == 0) return a <= b;
    if (strcmp(sign, "-eq") == 0) return a == b;
    return strcmp(sign, "-ne") == 0 ? a != b : -1;
}

static bool begin_branch(struct shell *shell, const char *const *words, int count)
{
    enum { MOST = sizeof shell->active / sizeof *shell->active };
    bool has_bracket = count > 1 && (!strcmp(words[0], "[") || !strcmp(words[0], "[["));
    if (shell->depth == MOST) return false;
    shell->active[shell->depth++] = has_bracket && test_of(words + 1, count - 2) == 1;
    return true;
}

// Words of the shell itself at the front of a command; returns whether there was one.
static bool take_keyword(struct shell *shell, const char *const **words, int *count)
{
    if (*count == 0) return false;
    const char *word = (*words)[0];
    bool *top = shell->depth ? &shell->active[shell->depth - 1] : NULL;
    if (strcmp(word, "if") == 0) {
        begin_branch(shell, *words + 1, *count - 1);
        *count = 0;
    } else if (strcmp(word, "elif") == 0 && top) {
        bool was = *top;
        shell->depth--;
        begin_branch(shell, *words + 1, *count - 1);
        if (was) *top = false;
        *count = 0;
    } else if (strcmp(word, "else") == 0 && top) {
        *top = !*top;
    } else if (strcmp(word, "fi") == 0 && top) {
        shell->depth--;
    } else if (strcmp(word, "then") != 0 && strcmp(word, "do") != 0 &&
               strcmp(word, "export") != 0) {
        return false;
    }
    if (*count > 0) {
        ++*words;
        --*count;
    }
    return true;
}

static void read_commands(struct shell *shell);

// What a script reads, where it lies beside it: its variables are the script's.
static void read_other(struct shell *shell, const char *name)
{
    enum { BYTES_MAX = 1 << 20, NESTED_MAX = 8 };
    const char *slash = strrchr(shell->path, '/');
    int folder = slash ? (int)(slash - shell->path) + 1 : 0;
    size_t bytes = 0;
    struct err unread = {0};
    const struct shell was = *shell;
    const char *path = arena_print(shell->arena, "%.*s%s", folder, shell->path, name);
    const char *text = *name == '/' || strchr(name, '$') || shell->nested == NESTED_MAX
                           ? NULL
                           : file_read(shell->arena, path, BYTES_MAX, &bytes, &unread);
    if (!text || strlen(text) != bytes) return;
    shell->text = shell->at = text;
    shell->line = 1;
    shell->nested++;
    read_commands(shell);
    shell->text = was.text;
    shell->at = was.at;
    shell->line = was.line;
    shell->nested--;
}

// One command up to the end of its line.
static void read_command(struct shell *shell)
{
    enum { WORD_MAX = 4096 };
    const char **words = ARENA_NEW(shell->arena, const char *, WORD_MAX);
    int count = 0, line = shell->line;
    bool may_assign = true;
    for (;;) {
        skip_blanks(shell, false);
        const char *raw = raw_word(shell);
        if (!raw) break;
        if (count == 0) line = shell->line;
        if (may_assign && assignment(shell, raw)) continue;
        if (count < WORD_MAX) words[count++] = expanded(shell, raw);
        const char *const *front = words;
        int one = count;
        static const char *const OPEN[] = {"then", "else", "do", "export", "fi"};
        may_assign = false;
        for (size_t i = 0; one == 1 && i < sizeof OPEN / sizeof *OPEN; i++) {
            if (strcmp(words[0], OPEN[i]) != 0) continue;
            take_keyword(shell, &front, &one);
            may_assign = true;
            count = 0;
            break;
        }
    }
    const char *const *front = words;
    while (take_keyword(shell, &front, &count))
        continue;
    struct markup joined = {.arena = shell->arena};
    for (int i = 0; i < count; i++)
        markup_print(&joined, "%s%s", i ? " " : "", front[i]);
    const char *all = joined.text ? joined.text : "";
    if (!is_active(shell)) return;
    bool is_other = count == 2 && (!strcmp(front[0], "source") || !strcmp(front[0], "."));
    if (is_other) {
        read_other(shell, front[1]);
    } else {
        shell_options(shell, all, line);
    }
}

// GPUs by what starts the program, or by the names that scripts have for them.
static void find_world(struct shell *shell)
{
    static const char *const NODES[] = {"--nnodes", "--num_nodes", "NNODES", "NUM_NODES"};
    static const char *const EACH[] = {"--nproc_per_node", "--nproc-per-node", "--num_gpus",
                                       "GPUS_PER_NODE", "NPROC_PER_NODE"};
    const char *found[2] = {NULL, NULL};
    for (size_t i = 0; i < 9; i++) {
        const char *name = i < 4 ? NODES[i] : EACH[i - 4], **into = &found[i >= 4];
        struct setting *setting = settings_find(shell->settings, name);
        if (setting) setting->is_used = true;
        if (!*into) *into = setting ? setting->value : shell_value(shell, name);
    }
    int64_t nodes = found[0] ? atoll(found[0]) : 0, each = found[1] ? atoll(found[1]) : 0;
    int64_t world = nodes * each;
    if (nodes > 0 && each > 0)
        settings_read(shell->settings, "nnodes*nproc",
                      arena_print(shell->arena, "%lld", (long long)world), 0);
}

static void read_commands(struct shell *shell)
{
    while (*shell->at) {
        read_command(shell);
        // What ends a command, or what no command begins with.
        shell->line += *shell->at == '\n';
        if (*shell->at) shell->at++;
    }
}

void shell_read(struct shell *shell)
{
    shell->at = shell->text;
    shell->line = 1;
    read_commands(shell);
    // Options that nothing starts: a list of them alone.
    bool is_empty = shell->settings->count == 0;
    for (int i = 0; is_empty && i < shell->variable_count; i++)
        shell_options(shell, shell->variables[i].value, shell->variables[i].line);
    find_world(shell);
}
