#include "exchange/python_part.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

enum { FUNCTIONS_MOST = 256 };

// A function that begins at the left margin: the offset of "def" and that of the first line behind
// it.
struct function {
    const char *name;
    size_t start, end;
    bool is_called, is_wanted;
};

struct file {
    struct arena *arena;
    char *text;
    struct function functions[FUNCTIONS_MOST];
    int count;
    bool calls[FUNCTIONS_MOST][FUNCTIONS_MOST];
};

static bool is_letter(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_';
}

static char *line_end(char *at)
{
    return at + strcspn(at, "\n");
}

static size_t margin(const char *line)
{
    return strspn(line, " \t");
}

// Where the block below a line ends: the first line that is not further right and not empty. A
// bracket that closes at the margin belongs to it.
static char *block_end(char *line)
{
    size_t left = margin(line);
    for (line = line_end(line); *line; line = line_end(line)) {
        line++;
        size_t here = margin(line);
        bool is_empty = line[here] == '\n' || line[here] == '#' || !line[here];
        if (!is_empty && here <= left && line[here] != ')') return line;
    }
    return line;
}

static void blank(char *from, const char *to)
{
    assert(from <= to && "lines stay where they were");
    for (; from < to; from++)
        *from = *from == '\n' ? '\n' : ' ';
}

// Whether the header of the function says "NAME = False", whatever stands for the type.
static bool is_false(const char *header, const char *name, size_t length)
{
    for (const char *at = header; *at; at++) {
        bool is_word = strncmp(at, name, length) == 0 && !is_letter(at[length]);
        if (!is_word || (at > header && is_letter(at[-1]))) continue;
        at += length;
        at += strcspn(at, "=,)");
        return *at == '=' && strncmp(at + 1 + strspn(at + 1, " "), "False", 5) == 0;
    }
    return false;
}

// Blocks under an argument that is False unless given.
static void blank_unasked(struct file *file, const struct function *function)
{
    assert(function->start <= function->end);
    char *start = file->text + function->start, *stop = file->text + function->end;
    const char *body = strstr(start, ":\n");
    if (!body || body > stop) return;
    const char *header = arena_print(file->arena, "%.*s", (int)(body - start), start);
    char *flat = arena_copy(file->arena, header);
    for (char *at = flat; *at; at++)
        *at = *at == '\n' ? ' ' : *at;
    for (char *line = start; line < stop && *line; line = line_end(line) + (*line_end(line) != 0)) {
        const char *at = line + margin(line);
        if (strncmp(at, "if ", 3) != 0) continue;
        size_t length = 0;
        while (is_letter(at[3 + length]))
            length++;
        if (length == 0 || at[3 + length] != ':' || !is_false(flat, at + 3, length)) continue;
        blank(line, block_end(line));
    }
}

// Functions past the most are read as a part of the last, and so never left out.
static void find_functions(struct file *file)
{
    for (char *line = file->text; *line && file->count < FUNCTIONS_MOST;) {
        char *end = line_end(line);
        if (strncmp(line, "def ", 4) == 0) {
            size_t length = 0;
            while (is_letter(line[4 + length]))
                length++;
            end = block_end(line);
            file->functions[file->count++] = (struct function){
                arena_print(file->arena, "%.*s", (int)length, line + 4),
                (size_t)(line - file->text), (size_t)(end - file->text), false, false};
            line = end;
        } else {
            line = end + (*end == '\n');
        }
    }
}

// Where a word stands in the function first, from an offset on; NULL: nowhere.
static const char *find_word(const struct file *file, const struct function *function, size_t from,
                             const char *word)
{
    assert(from <= function->end);
    return memmem(file->text + from, function->end - from, word, strlen(word));
}

static bool calls(const struct file *file, const struct function *function,
                  const struct function *other)
{
    const char *word = arena_print(file->arena, "%s(", other->name);
    const char *at = find_word(file, function, function->start + 4, word);
    for (; at && function != other;) {
        if (!is_letter(at[-1]) && at[-1] != '.') return true;
        at = find_word(file, function, (size_t)(at + 1 - file->text), word);
    }
    return false;
}

// Who calls whom, and whom somebody calls.
static void find_calls(struct file *file)
{
    for (int i = 0; i < file->count; i++) {
        for (int k = 0; k < file->count; k++)
            file->calls[i][k] = calls(file, &file->functions[i], &file->functions[k]);
    }
}

// Everything that it comes by, itself first.
static void want(struct file *file, struct function *function)
{
    assert(function >= file->functions && function < file->functions + file->count);
    const bool *called = file->calls[function - file->functions];
    function->is_wanted = true;
    for (int i = 0; i < file->count; i++) {
        if (called[i] && !file->functions[i].is_wanted) want(file, &file->functions[i]);
    }
}

// Whether it sets members of members, or makes what options are given to.
static bool has_options(const struct file *file, const struct function *function)
{
    const char *stop = file->text + function->end;
    for (const char *at = file->text + function->start; at < stop; at++) {
        size_t length = margin(at);
        const char *word = at + length;
        int dots = 0;
        while (is_letter(*word) || *word == '.')
            dots += *word++ == '.';
        word += strspn(word, " ");
        if (dots >= 2 && *word == '=' && word[1] != '=') return true;
        at = at + strcspn(at, "\n");
    }
    static const char *const WORDS[] = {"MegatronStrategy", "_parallelism="};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        if (find_word(file, function, function->start, WORDS[i])) return true;
    }
    return false;
}

// Whether the recipe comes by any options.
static bool is_recipe(struct file *file, struct function *function)
{
    bool is_one = false;
    want(file, function);
    for (int i = 0; i < file->count; i++) {
        is_one = is_one || (file->functions[i].is_wanted && has_options(file, &file->functions[i]));
        file->functions[i].is_wanted = false;
    }
    return is_one;
}

static struct function *choose(struct file *file, const char *path, const char *name,
                               struct err *err)
{
    struct function *found = NULL;
    const char *names = "";
    int count = 0;
    for (int i = 0; i < file->count; i++) {
        struct function *function = &file->functions[i];
        if (function->is_called || !is_recipe(file, function)) continue;
        names = arena_print(file->arena, "%s%s%s", names, *names ? ", " : "", function->name);
        count++;
        if (!name || strcmp(function->name, name) == 0) found = function;
    }
    if (count > 1 && !name) {
        err_set(err, ERR_INPUT, "%s: holds %d recipes: give one as FILE:NAME, of %s", path, count,
                names);
        return NULL;
    }
    if (name && !found)
        err_set(err, ERR_INPUT, "%s: has no recipe \"%s\"; it has %s", path, name,
                *names ? names : "none");
    return found;
}

bool python_has_recipes(const char *text)
{
    static const char *const WORDS[] = {"MegatronStrategy(",
                                        "MegatronStrategy,",
                                        ".trainer.strategy.",
                                        ".pretrain_recipe(",
                                        "_pretrain_config(",
                                        "trainer(tensor_parallelism=",
                                        ".model.tensor_model_parallel_size ="};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        if (strstr(text, WORDS[i])) return true;
    }
    return false;
}

const char *python_part(struct arena *arena, const char *path, const char *text, const char **name,
                        struct err *err)
{
    struct file *file = ARENA_NEW(arena, struct file, 1);
    file->arena = arena;
    file->text = arena_copy(arena, text);
    find_functions(file);
    find_calls(file);
    for (int i = 0; i < file->count; i++) {
        for (int k = 0; k < file->count; k++)
            file->functions[i].is_called |= file->calls[k][i];
    }
    for (int i = 0; i < file->count; i++)
        blank_unasked(file, &file->functions[i]);
    find_calls(file);  // that are left
    struct function *recipe = choose(file, path, *name, err);
    if (err->kind) return NULL;
    if (recipe) {
        want(file, recipe);
        *name = recipe->name;
    }
    for (int i = 0; recipe && i < file->count; i++) {
        const struct function *function = &file->functions[i];
        if (!function->is_wanted) blank(file->text + function->start, file->text + function->end);
    }
    return file->text;
}
