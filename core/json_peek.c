#include "core/json_peek.h"
#include "core/file.h"
#include "core/json.h"

#include <string.h>
#include <sys/stat.h>

enum { PEEK_BYTES_MAX = 64 << 20 };

static bool holds_one(const char *text, const char *const *words)
{
    for (; *words; words++) {
        if (strstr(text, *words)) return true;
    }
    return false;
}

static const char *word_of(const struct json_document *document, const char *key,
                           const char *const *words)
{
    struct json root = json_root(document), value = json_find(&root, key);
    if (!json_is_text(&value)) return NULL;
    struct err none = {0};
    const char *text = json_data_text(&value, &none);
    while (*words && strcmp(*words, text) != 0)
        words++;
    return *words;
}

const char *json_peek(const char *path, const char *key, const char *const *words, struct err *err)
{
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return NULL;
    struct arena arena = {0};
    struct err wrong = {0};
    struct json_document document = {0};
    size_t bytes = 0;
    const char *text = file_read(&arena, path, PEEK_BYTES_MAX, &bytes, &wrong), *word = NULL;
    if (wrong.kind == ERR_SYSTEM) err_set(err, wrong.kind, "%s", wrong.text);
    if (text && holds_one(text, words) && json_parse(&arena, path, text, bytes, &document, &wrong))
        word = word_of(&document, key, words);
    arena_free(&arena);
    return word;
}
