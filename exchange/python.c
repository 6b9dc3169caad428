#include "exchange/syntax.h"
#include "exchange/values.h"
#include "reports/page/markup.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

// Python as far as it says options: the keyword arguments of calls. "Name(key=value)" is
// "Name.key", "name = dict(key=value)" is "name.key". Calls of names in small letters are passed
// by, what stands in them is read. Nothing is run: a value that is a name or a call stays as it is
// written, but for a name that a line above, or an argument that has a value, says.
//
// Recipes of NeMo and Megatron-Bridge: "run.Config(nl.Name, key=value)" is "Name.key",
// "recipe.model.key = value" is "model.key", and what makes the recipe that is changed
// ("llm.mixtral_8x7b.pretrain_recipe(", "llama3_70b_pretrain_config(") is "recipe".

// What a call is assigned to: the last word of its name, "plugin" of HybridParallelPlugin.
static const char *variable_of(struct arena *arena, const char *group)
{
    const char *word = group;
    for (const char *at = group; *at; at++)
        word = isupper((unsigned char)*at) ? at : word;
    char *text = arena_copy(arena, word);
    text[0] = (char)tolower((unsigned char)text[0]);
    return text;
}

static void put_value(struct markup *text, const char *value)
{
    bool is_true = strcmp(value, "true") == 0, is_false = strcmp(value, "false") == 0;
    const char *quote = value_is_bare(value) ? "" : "\"";
    const char *shown = is_true ? "True" : is_false ? "False" : value;
    markup_print(text, "%s%s%s", quote, shown, quote);
}

static void put_call(struct markup *text, const struct settings *settings, const char *group)
{
    bool is_class = isupper((unsigned char)*group);
    markup_print(text, "\n%s = %s(\n", variable_of(text->arena, group), is_class ? group : "dict");
    for (int i = 0; i < settings->count; i++) {
        const struct setting *setting = &settings->items[i];
        if (strcmp(key_group(text->arena, setting->key), group) != 0) continue;
        if (setting->why) markup_print(text, "    # %s\n", setting->why);
        markup_print(text, "    %s=", key_name(setting->key));
        put_value(text, setting->value);
        markup_print(text, ",\n");
    }
    markup_print(text, ")\n");
}

// Each group once, at its first setting.
static char *write_python(struct arena *arena, const struct settings *settings,
                          const struct syntax_head *head)
{
    struct markup text = {.arena = arena};
    for (int i = 0; i < head->line_count; i++)
        markup_print(&text, "# %s\n", head->lines[i]);
    if (head->opening) markup_print(&text, "%s", head->opening);
    for (int i = 0; i < settings->count; i++) {
        const char *group = key_group(arena, settings->items[i].key);
        bool is_first = true;
        for (int k = 0; k < i && is_first; k++)
            is_first = strcmp(key_group(arena, settings->items[k].key), group) != 0;
        if (is_first) put_call(&text, settings, group);
    }
    return text.text ? text.text : arena_copy(arena, "");
}

struct reader {
    struct arena *arena;
    const char *path;
    const char *at;
    int line;
    struct settings *settings;
    struct settings names;  // what names stand for
    int depth;              // of calls among arguments
};

static bool is_name(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_';
}

// Behind a text in quotes, one or three of them.
static void skip_text(struct reader *reader)
{
    assert(*reader->at == '"' || *reader->at == '\'');
    char quote = *reader->at;
    int width = reader->at[1] == quote && reader->at[2] == quote ? 3 : 1;
    for (reader->at += width; *reader->at; reader->at++) {
        reader->line += *reader->at == '\n';
        if (*reader->at == '\\' && reader->at[1]) {
            reader->at++;
            continue;
        }
        bool is_end = *reader->at == quote;
        if (width == 3) is_end = is_end && reader->at[1] == quote && reader->at[2] == quote;
        if (!is_end && !(width == 1 && *reader->at == '\n')) continue;
        reader->at += width;
        return;
    }
}

static void skip_comment(struct reader *reader)
{
    reader->at += strcspn(reader->at, "\n");
}

// Over blanks, lines and comments.
static void skip_blanks(struct reader *reader)
{
    for (;; reader->at++) {
        if (*reader->at == '#') skip_comment(reader);
        if (!*reader->at || !strchr(" \t\r\n\\", *reader->at)) return;
        reader->line += *reader->at == '\n';
    }
}

// One argument, up to the ',' or ')' behind it.
static const char *read_argument(struct reader *reader)
{
    const char *start = reader->at, *end = NULL;
    for (int depth = 0; *reader->at;) {
        char letter = *reader->at;
        if (depth == 0 && (letter == ',' || letter == ')')) break;
        if (letter == '\'' || letter == '"') {
            skip_text(reader);
            continue;
        }
        if (letter == '#') {
            end = end || depth ? end : reader->at;
            skip_comment(reader);
            continue;
        }
        depth += strchr("([{", letter) != NULL;
        depth -= strchr(")]}", letter) != NULL;
        reader->line += letter == '\n';
        reader->at++;
    }
    return arena_print(reader->arena, "%.*s", (int)((end ? end : reader->at) - start), start);
}

// Blanks and ends of lines in a row are one blank.
static const char *on_one_line(struct arena *arena, const char *value)
{
    if (!strchr(value, '\n')) return value;
    char *text = arena_copy(arena, value), *to = text;
    for (const char *at = text; *at; at++) {
        bool is_blank = isspace((unsigned char)*at);
        if (!is_blank) *to++ = *at;
        if (is_blank && to > text && to[-1] != ' ') *to++ = ' ';
    }
    *to = '\0';
    return text;
}

static const char *value_of(struct arena *arena, const char *text)
{
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    while (length > 0 && isspace((unsigned char)*text)) {
        text++;
        length--;
    }
    const char *value = on_one_line(arena, value_unquoted(arena, text, length));
    if (strcmp(value, "True") == 0) return "true";
    return strcmp(value, "False") == 0 ? "false" : value;
}

// What a name stands for, as far as it was said.
static const char *meaning(const struct reader *reader, const char *value)
{
    const struct setting *known = settings_find(&reader->names, value);
    return known ? known->value : value;
}

static bool ends_with(const char *from, const char *to, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(to - from) >= length && strncmp(to - length, word, length) == 0;
}

// Whether the text makes something of a class, "run.Config(nl.Name, ...": then its arguments are
// read as those of Name.
static bool makes(const char *text)
{
    const char *name = text + strspn(text, " \t\n"), *at = name;
    while (is_name(*at) || *at == '.')
        at++;
    return *at == '(' && (ends_with(name, at, "Config") || ends_with(name, at, "Partial"));
}

// Whether it calls what makes a trainer, "llama3_70b.trainer(", whose arguments have one name each
// in all recipes of NeMo.
static bool is_trainer(const char *text)
{
    const char *name = text + strspn(text, " \t\n"), *at = name;
    while (is_name(*at) || *at == '.')
        at++;
    return *at == '(' && ends_with(name, at, "trainer");
}

static bool read_text(struct reader *reader, const char *text, int line, struct err *err);

// "nl.MegatronStrategy": the class whose arguments follow.
static const char *class_of(struct arena *arena, const char *text)
{
    const char *dot = strrchr(text, '.'), *name = dot ? dot + 1 : text;
    size_t length = 0;
    while (is_name(name[length]))
        length++;
    bool is_class =
        isupper((unsigned char)*name) && name[length + strspn(name + length, " \n")] == 0;
    return is_class ? arena_print(arena, "%.*s", (int)length, name) : NULL;
}

// One argument: "key=value", or in front of all the class that is made.
static bool read_given(struct reader *reader, const char **group, const char *text, int line,
                       struct err *err)
{
    size_t name = 0;
    while (is_name(text[name]))
        name++;
    const char *equals = text + name + strspn(text + name, " \t");
    if (name == 0 || *equals != '=' || equals[1] == '=') {
        bool is_maker = strcmp(*group, "Config") == 0 || strcmp(*group, "Partial") == 0;
        const char *made = is_maker ? class_of(reader->arena, text) : NULL;
        if (made) *group = made;
        return true;
    }
    if (makes(equals + 1) || is_trainer(equals + 1))
        return read_text(reader, equals + 1, line, err);
    const char *key = arena_print(reader->arena, "%s.%.*s", *group, (int)name, text);
    settings_read(reader->settings, key, meaning(reader, value_of(reader->arena, equals + 1)),
                  line);
    return true;
}

// The arguments behind '('.
static bool read_call(struct reader *reader, const char *group, struct err *err)
{
    int first = reader->line;
    for (;;) {
        skip_blanks(reader);
        if (*reader->at == ')') return true;
        int line = reader->line;
        const char *text = read_argument(reader);
        if (!read_given(reader, &group, text, line, err)) return false;
        if (!*reader->at)
            return err_set(err, ERR_INPUT, "%s:%d: expected a ')' behind a call", reader->path,
                           first);
        reader->at += *reader->at == ',';
    }
}

// What a name is given, up to the end of its line.
static const char *read_value(struct reader *reader)
{
    const char *start = reader->at;
    for (int depth = 0; *reader->at;) {
        char letter = *reader->at;
        if (depth <= 0 && (letter == '\n' || letter == '#')) break;
        if (letter == '\'' || letter == '"') {
            skip_text(reader);
            continue;
        }
        depth += strchr("([{", letter) != NULL;
        depth -= strchr(")]}", letter) != NULL;
        reader->line += letter == '\n';
        reader->at++;
    }
    return arena_print(reader->arena, "%.*s", (int)(reader->at - start), start);
}

// Arguments of a function that have a value: what their names stand for in it.
static void read_header(struct reader *reader)
{
    reader->at += strcspn(reader->at, "(\n");
    while (*reader->at == '(' || *reader->at == ',') {
        reader->at++;
        skip_blanks(reader);
        const char *text = read_argument(reader), *equals = strchr(text, '=');
        size_t name = 0;
        while (is_name(text[name]))
            name++;
        if (name == 0 || !equals) continue;
        settings_read(&reader->names, arena_print(reader->arena, "%.*s", (int)name, text),
                      value_of(reader->arena, equals + 1), reader->line);
    }
}

// Who makes the recipe: "llm.mixtral_8x7b.pretrain_recipe", "llama3_70b_pretrain_config".
static bool take_recipe(struct reader *reader, const char *name)
{
    static const char *const ENDS[] = {".pretrain_recipe", ".finetune_recipe", "_pretrain_config",
                                       "_sft_config", "_finetune_config"};
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        size_t length = strlen(name), end = strlen(ENDS[i]);
        if (length <= end || strcmp(name + length - end, ENDS[i]) != 0) continue;
        const char *whole = arena_print(reader->arena, "%.*s", (int)(length - end), name);
        const char *dot = strrchr(whole, '.');
        settings_read(reader->settings, "recipe", dot ? dot + 1 : whole, reader->line);
        return true;
    }
    return false;
}

// A model by its name there, "meta-llama/Meta-Llama-3-70B".
static void take_hugging_face(struct reader *reader, const char *text)
{
    size_t length = *text == '"' || *text == '\'' ? strcspn(text + 1, "\"'\n") : 0;
    if (length == 0) return;
    settings_read(reader->settings, "recipe",
                  arena_print(reader->arena, "%.*s", (int)length, text + 1), reader->line);
}

// "recipe.trainer.strategy.key = value", "NAME = value".
static bool read_assignment(struct reader *reader, const char *name, struct err *err)
{
    int line = reader->line;
    const char *dot = strchr(name, '.'), *before = reader->at;
    const char *text = read_value(reader);
    if (!dot) {
        const char *value = value_of(reader->arena, text);
        bool is_text = strchr("'\"", text[strspn(text, " \t")]) != NULL;
        if (is_text || value_is_bare(value) || strcmp(value, "None") == 0)
            settings_read(&reader->names, name, value, line);
        reader->at = before;  // what stands in it is read
        reader->line = line;
        return true;
    }
    bool is_deep = strchr(dot + 1, '.') && strncmp(name, "self.", 5) != 0;
    if (is_deep && makes(text)) return read_text(reader, text, line, err);
    if (is_deep)
        settings_read(reader->settings, dot + 1, meaning(reader, value_of(reader->arena, text)),
                      line);
    if (!is_deep) {
        reader->at = before;
        reader->line = line;
    }
    return true;
}

static bool read_word(struct reader *reader, const char **assigned, struct err *err)
{
    const char *start = reader->at, *last = start;
    for (; is_name(*reader->at) || (*reader->at == '.' && is_name(reader->at[1])); reader->at++)
        last = *reader->at == '.' ? reader->at + 1 : last;
    const char *name = arena_print(reader->arena, "%.*s", (int)(reader->at - start), start);
    const char *word = arena_print(reader->arena, "%.*s", (int)(reader->at - last), last);
    const char *next = reader->at + strspn(reader->at, " \t");
    if (strcmp(name, "def") == 0) return read_header(reader), true;
    if (*next == '=' && next[1] != '=') {
        *assigned = word;
        reader->at = next + 1;
        return read_assignment(reader, name, err);
    }
    if (*next != '(') return true;
    bool is_recipe = take_recipe(reader, name);
    if (strcmp(word, "from_hf_pretrained") == 0) take_hugging_face(reader, next + 1);
    bool is_dict = strcmp(word, "dict") == 0 && **assigned,
         makes_trainer = ends_with(word, word + strlen(word), "trainer");
    if (!is_dict && !makes_trainer && !is_recipe && !isupper((unsigned char)*word)) return true;
    const char *group = makes_trainer ? "trainer()" : is_recipe ? "recipe()" : word;
    reader->at = next + 1;
    return read_call(reader, is_dict ? *assigned : group, err);
}

static bool read_all(struct reader *reader, struct err *err)
{
    const char *assigned = "";
    while (*reader->at) {
        if (*reader->at == '#') {
            skip_comment(reader);
        } else if (*reader->at == '\'' || *reader->at == '"') {
            skip_text(reader);
        } else if (is_name(*reader->at)) {
            if (!read_word(reader, &assigned, err)) return false;
        } else {
            reader->line += *reader->at == '\n';
            reader->at++;
        }
    }
    return true;
}

// What stands in an argument, read for itself.
static bool read_text(struct reader *reader, const char *text, int line, struct err *err)
{
    struct reader inner = *reader;
    enum { DEPTH_MOST = 16 };
    if (++inner.depth > DEPTH_MOST)
        return err_set(err, ERR_INPUT, "%s:%d: calls among arguments stand more than %d deep",
                       reader->path, line, DEPTH_MOST);
    inner.at = text;
    inner.line = line;
    bool done = read_all(&inner, err);
    reader->names = inner.names;
    return done;
}

static bool read_python(const char *path, const char *text, struct settings *settings,
                        struct err *err)
{
    struct reader reader = {
        settings->arena, path, text, 1, settings, {.arena = settings->arena}, 0};
    return read_all(&reader, err);
}

const struct exchange_syntax PYTHON_SYNTAX = {".py", write_python, read_python};
