#include "exchange/shell.h"

#include "core/file.h"
#include "reports/page/markup.h"

#include <assert.h>
#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static bool is_active(const struct shell *shell)
{
    for (int i = 0; i < shell->depth; i++) {
        if (!shell->blocks[i].is_active) return false;
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
    assert(*at && strchr("\"'`{(", *at));
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

// Words of a command line as settings: "--key", "--key=value", "--key value ...".
static void shell_options(struct shell *shell, const char *words, int line)
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

// A branch, where none before it was taken.
static void set_branch(struct shell_block *block, bool holds)
{
    assert(block);
    block->is_active = holds && !block->is_taken;
    block->is_taken = block->is_taken || holds;
}

static bool holds(const char *const *words, int count)
{
    bool has_bracket = count > 1 && (!strcmp(words[0], "[") || !strcmp(words[0], "[["));
    return has_bracket && test_of(words + 1, count - 2) == 1;
}

static struct shell_block *open_block(struct shell *shell, const char *word)
{
    enum { MOST = sizeof shell->blocks / sizeof *shell->blocks };
    if (shell->depth == MOST) return NULL;
    shell->blocks[shell->depth] = (struct shell_block){.word = word};
    return &shell->blocks[shell->depth++];
}

static struct shell_block *top_block(struct shell *shell)
{
    assert(shell->depth >= 0 &&
           (size_t)shell->depth <= sizeof shell->blocks / sizeof *shell->blocks);
    return shell->depth ? &shell->blocks[shell->depth - 1] : NULL;
}

// "a|b)" in front of a branch of a case. Where "esac" stands there is none.
static void read_patterns(struct shell *shell)
{
    assert(top_block(shell) && top_block(shell)->word && "patterns are those of a case");
    struct shell_block *block = top_block(shell);
    bool is_one = false;
    skip_blanks(shell, true);
    block->is_active = false;
    if (strncmp(shell->at, "esac", 4) == 0) return;
    if (*shell->at == '(') shell->at++;
    for (;;) {
        skip_blanks(shell, false);
        const char *raw = raw_word(shell);
        is_one = is_one || (raw && fnmatch(expanded(shell, raw), block->word, 0) == 0);
        skip_blanks(shell, false);
        if (*shell->at != '|') break;
        shell->at++;
    }
    if (*shell->at == ')') shell->at++;
    set_branch(block, is_one);
}

// Words that open, change and close a block, with all words of the command.
static bool take_block(struct shell *shell, const char *const *words, int count)
{
    struct shell_block *top = top_block(shell), *opened;
    const char *word = words[0];
    if (strcmp(word, "if") == 0) {
        opened = open_block(shell, NULL);
        if (opened) set_branch(opened, holds(words + 1, count - 1));
    } else if (strcmp(word, "case") == 0 && count == 3 && strcmp(words[2], "in") == 0) {
        if (open_block(shell, words[1])) read_patterns(shell);
    } else if (strcmp(word, "elif") == 0 && top) {
        set_branch(top, holds(words + 1, count - 1));
    } else {
        return false;
    }
    return true;
}

// What may stand in front of an assignment.
static bool is_declaration(const char *word)
{
    static const char *const WORDS[] = {"export", "readonly", "declare", "local", "typeset"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        if (strcmp(word, WORDS[i]) == 0) return true;
    }
    return false;
}

// Words of the shell itself at the front of a command; returns whether there was one.
static bool take_keyword(struct shell *shell, const char *const **words, int *count)
{
    if (*count == 0) return false;
    const char *word = (*words)[0];
    struct shell_block *top = top_block(shell);
    if (take_block(shell, *words, *count)) {
        *count = 0;
        return true;
    }
    if (strcmp(word, "else") == 0 && top) {
        set_branch(top, true);
    } else if ((strcmp(word, "fi") == 0 || strcmp(word, "esac") == 0) && top) {
        shell->depth--;
    } else if (strcmp(word, "then") != 0 && strcmp(word, "do") != 0 && !is_declaration(word)) {
        return false;
    }
    ++*words;
    --*count;
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

// Arguments that the script itself is started with, "$@" and "${@:2}".
static bool is_arguments(const char *raw)
{
    raw += *raw == '"';
    if (*raw++ != '$') return false;
    raw += *raw == '{';
    return *raw == '@' || *raw == '*';
}

// "2>": which output goes elsewhere.
static bool is_stream(const struct shell *shell, const char *raw)
{
    return strspn(raw, "0123456789") == strlen(raw) && (*shell->at == '>' || *shell->at == '<');
}

// Where the line that holds `end` alone begins, behind tabs where these are left out; the end of
// the text where there is none.
static const char *document_end(struct shell *shell, const char *end, bool has_tabs)
{
    for (const char *at = shell->at; *at;) {
        const char *line = at + (has_tabs ? strspn(at, "\t") : 0);
        size_t length = strcspn(line, "\n");
        if (length == strlen(end) && strncmp(line, end, length) == 0) return at;
        at = line + length + (line[length] == '\n');
    }
    return shell->at + strlen(shell->at);
}

// "<<END > FILE" and the lines up to END, which are no commands.
static void read_document(struct shell *shell)
{
    enum { MOST = sizeof shell->documents / sizeof *shell->documents };
    const char *start = shell->at;
    while (start > shell->text && start[-1] != '\n')
        start--;
    shell->at += 2;
    bool has_tabs = *shell->at == '-', is_plain;
    shell->at += has_tabs;
    skip_blanks(shell, false);
    is_plain = *shell->at == '"' || *shell->at == '\'' || *shell->at == '\\';
    const char *raw = raw_word(shell), *file = NULL;
    const char *end = raw ? expanded(shell, raw + (*raw == '\\')) : "";
    struct shell line = *shell;
    line.at = memchr(start, '>', strcspn(start, "\n"));
    if (line.at) {
        line.at += strspn(line.at, "> ");
        file = raw_word(&line);
    }
    shell->at += strcspn(shell->at, "\n");
    shell->at += *shell->at == '\n';
    const char *last = document_end(shell, end, has_tabs);
    size_t length = (size_t)(last - shell->at);
    if (file && is_active(shell) && shell->document_count < MOST)
        shell->documents[shell->document_count++] = (struct shell_variable){
            expanded(shell, file),
            is_plain ? arena_print(shell->arena, "%.*s", (int)length, shell->at)
                     : shell_expand_text(shell, shell->at, length),
            shell->line};
    for (shell->line++; shell->at < last; shell->at++)
        shell->line += *shell->at == '\n';
    shell->at += strcspn(shell->at, "\n");
}

// One command up to the end of its line.
static void read_command(struct shell *shell)
{
    enum { WORD_MAX = 4096 };
    const char **words = ARENA_NEW(shell->arena, const char *, WORD_MAX);
    int count = 0, line = shell->line;
    bool may_assign = true, declares = false;
    for (;;) {
        skip_blanks(shell, false);
        const char *raw = raw_word(shell);
        if (!raw) break;
        if (declares && *raw == '-') continue;  // "declare -i"
        if (is_stream(shell, raw)) break;
        if (is_arguments(raw)) continue;
        if (is_active(shell)) shell_assign_defaults(shell, raw);
        if (count == 0) line = shell->line;
        if (may_assign && assignment(shell, raw)) continue;
        if (count < WORD_MAX) words[count++] = expanded(shell, raw);
        // What follows is patterns.
        if (count == 3 && strcmp(words[0], "case") == 0) break;
        const char *const *front = words;
        int one = count;
        static const char *const OPEN[] = {"then", "else", "do", "fi"};
        declares = one == 1 && is_declaration(words[0]);
        may_assign = declares;
        for (size_t i = 0; one == 1 && i < sizeof OPEN / sizeof *OPEN; i++)
            may_assign = may_assign || strcmp(words[0], OPEN[i]) == 0;
        if (!may_assign) continue;
        take_keyword(shell, &front, &one);
        count = 0;
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
        struct shell_block *top = top_block(shell);
        if (strncmp(shell->at, "<<", 2) == 0 && shell->at[2] != '<') read_document(shell);
        if (strncmp(shell->at, ";;", 2) == 0 && top && top->word) {
            shell->at += 2;
            read_patterns(shell);
            continue;
        }
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
    for (int i = 0; i < shell->document_count; i++) {
        const struct shell_variable *document = &shell->documents[i];
        const char *key = arena_print(shell->arena, SHELL_DOCUMENT "%s", document->name);
        settings_read(shell->settings, key, document->value, document->line);
        settings_find(shell->settings, key)->is_used = true;
    }
}
