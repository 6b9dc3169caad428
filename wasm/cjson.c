#include "core/arena.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

// The part of cJSON that core/json.c uses, for a page: emscripten has no cJSON to link. What comes
// here has passed json_scan (core/json_scan.h), so that only a text that is JSON is read.

struct reader {
    const char *at;
};

static void skip_blanks(struct reader *reader)
{
    reader->at += strspn(reader->at, " \t\r\n");
}

static unsigned hex4(const char *digits)
{
    char text[5] = {digits[0], digits[1], digits[2], digits[3], '\0'};
    return (unsigned)strtoul(text, NULL, 16);
}

static char *put_utf8(char *out, unsigned code)
{
    if (code < 0x80) {
        *out++ = (char)code;
        return out;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char FIRST[] = {0, 0xc0, 0xe0, 0xf0};
    *out++ = (char)(FIRST[more] | code >> 6 * more);
    while (more-- > 0) {
        *out++ = (char)(0x80 | (code >> 6 * more & 0x3f));
    }
    return out;
}

static bool is_high_surrogate(unsigned code)
{
    return code >= 0xd800 && code < 0xdc00;
}

static bool is_low_surrogate(unsigned code)
{
    return code >= 0xdc00 && code < 0xe000;
}

// "\u0041" or a pair of them; NULL for half a pair, which is no character.
static char *read_unicode(struct reader *reader, char *out)
{
    if (strspn(reader->at, "0123456789abcdefABCDEF") < 4) return NULL;
    unsigned code = hex4(reader->at);
    reader->at += 4;
    if (is_low_surrogate(code)) return NULL;
    if (!is_high_surrogate(code)) return put_utf8(out, code);
    if (strncmp(reader->at, "\\u", 2) != 0) return NULL;
    if (strspn(reader->at + 2, "0123456789abcdefABCDEF") < 4) return NULL;
    unsigned low = hex4(reader->at + 2);
    if (!is_low_surrogate(low)) return NULL;
    reader->at += 6;
    return put_utf8(out, 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff)));
}

// What is read is never longer than it was written.
static char *read_string(struct reader *reader)
{
    static const char LETTERS[] = "\"\\/bfnrt", MEANT[] = "\"\\/\b\f\n\r\t";
    const char *end = ++reader->at;
    while (*end != '"') {
        end += *end == '\\' ? 2 : 1;
    }
    char *text = memory_get((size_t)(end - reader->at) + 1), *out = text;
    while (reader->at < end) {
        char letter = *reader->at++;
        if (letter != '\\') {
            *out++ = letter;
            continue;
        }
        letter = *reader->at++;
        out = letter == 'u' ? read_unicode(reader, out) : out;
        if (!out) {
            free(text);
            return NULL;
        }
        if (letter != 'u') *out++ = MEANT[strchr(LETTERS, letter) - LETTERS];
    }
    *out = '\0';
    reader->at = end + 1;
    return text;
}

static cJSON *read_value(struct reader *reader);

static bool read_members(struct reader *reader, cJSON *value, char close)
{
    cJSON *last = NULL;
    reader->at++;
    skip_blanks(reader);
    while (*reader->at != close) {
        char *key = NULL;
        if (close == '}') {
            key = read_string(reader);
            if (!key) return false;
            skip_blanks(reader);
            reader->at++;  // the colon
        }
        cJSON *child = read_value(reader);
        if (!child) {
            free(key);
            return false;
        }
        child->string = key;
        *(last ? &last->next : &value->child) = child;
        last = child;
        if (*reader->at != ',') continue;
        reader->at++;
        skip_blanks(reader);
    }
    reader->at++;
    return true;
}

// A number, or a word of which the first letter is enough.
static void read_plain(struct reader *reader, cJSON *value)
{
    char letter = *reader->at;
    if (letter == 't' || letter == 'f' || letter == 'n') {
        value->type = letter == 't' ? cJSON_True : letter == 'f' ? cJSON_False : cJSON_NULL;
        reader->at += letter == 'f' ? strlen("false") : strlen("true");
        return;
    }
    char *end = NULL;
    value->type = cJSON_Number;
    value->valuedouble = strtod(reader->at, &end);
    reader->at = end;
}

static cJSON *read_value(struct reader *reader)
{
    cJSON *value = memory_get(sizeof *value);
    bool done = true;
    *value = (cJSON){0};
    skip_blanks(reader);
    if (*reader->at == '{' || *reader->at == '[') {
        bool is_object = *reader->at == '{';
        value->type = is_object ? cJSON_Object : cJSON_Array;
        done = read_members(reader, value, is_object ? '}' : ']');
    } else if (*reader->at == '"') {
        value->type = cJSON_String;
        value->valuestring = read_string(reader);
        done = value->valuestring != NULL;
    } else {
        read_plain(reader, value);
    }
    skip_blanks(reader);
    if (done) return value;
    cJSON_Delete(value);
    return NULL;
}

void cJSON_InitHooks(cJSON_Hooks *hooks)
{
    (void)hooks;
}

cJSON *cJSON_ParseWithLengthOpts(const char *text, size_t bytes, const char **end,
                                 cJSON_bool wants_nul)
{
    (void)bytes;
    (void)wants_nul;
    struct reader reader = {text};
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0) reader.at += 3;
    cJSON *value = read_value(&reader);
    *end = reader.at;
    return value;
}

void cJSON_Delete(cJSON *value)
{
    while (value) {
        cJSON *next = value->next;
        cJSON_Delete(value->child);
        free(value->valuestring);
        free(value->string);
        free(value);
        value = next;
    }
}

cJSON_bool cJSON_IsString(const cJSON *value)
{
    return value && value->type == cJSON_String;
}

cJSON_bool cJSON_IsNumber(const cJSON *value)
{
    return value && value->type == cJSON_Number;
}

cJSON_bool cJSON_IsObject(const cJSON *value)
{
    return value && value->type == cJSON_Object;
}

cJSON_bool cJSON_IsArray(const cJSON *value)
{
    return value && value->type == cJSON_Array;
}

cJSON_bool cJSON_IsTrue(const cJSON *value)
{
    return value && value->type == cJSON_True;
}

cJSON_bool cJSON_IsFalse(const cJSON *value)
{
    return value && value->type == cJSON_False;
}

cJSON_bool cJSON_IsBool(const cJSON *value)
{
    return cJSON_IsTrue(value) || cJSON_IsFalse(value);
}

cJSON_bool cJSON_IsNull(const cJSON *value)
{
    return value && value->type == cJSON_NULL;
}
