#include "topologies/xml.h"

#include "core/plain.h"

#include <ctype.h>
#include <string.h>

static bool fail(struct xml *xml, const char *why)
{
    return err_set(xml->err, ERR_INPUT, "%s:%d: %s", xml->path, xml->line, why);
}

// Up to and with the next of this text; false: there is none.
static bool skip_behind(struct xml *xml, const char *end)
{
    const char *found = strstr(xml->text + xml->at, end);
    if (!found) return false;
    size_t to = (size_t)(found - xml->text) + strlen(end);
    for (; xml->at < to; xml->at++)
        xml->line += xml->text[xml->at] == '\n';
    return true;
}

// To the '<' of the next element. False at the end.
static bool find_tag(struct xml *xml, struct xml_tag *tag)
{
    tag->text = xml->text + xml->at;
    while (skip_behind(xml, "<")) {
        tag->text_bytes = (size_t)(xml->text + xml->at - 1 - tag->text);
        const char *at = xml->text + xml->at;
        bool is_comment = strncmp(at, "!--", 3) == 0;
        if (*at != '?' && *at != '!') return true;
        if (!skip_behind(xml, is_comment ? "-->" : ">")) return fail(xml, "a tag does not end");
    }
    const char *rest = xml->text + xml->at;
    if (rest[strspn(rest, " \t\r\n")]) return fail(xml, "text behind the last element");
    if (xml->depth > 0) return fail(xml, "the file ends inside an element");
    return false;
}

// The end of a tag, past quotes. NULL: there is none.
static const char *end_of(const char *at)
{
    char quote = '\0';
    for (; *at; at++) {
        if (quote)
            quote = *at == quote ? '\0' : quote;
        else if (*at == '"' || *at == '\'')
            quote = *at;
        else if (*at == '>')
            return at;
    }
    return NULL;
}

static bool nest(struct xml *xml, const struct xml_tag *tag)
{
    if (tag->opens) {
        if (xml->depth == XML_DEPTH_MAX) return fail(xml, "more than 64 levels");
        strcpy(xml->names[xml->depth++], tag->name);
    }
    if (!tag->closes) return true;
    bool matches = xml->depth > 0 && strcmp(xml->names[xml->depth - 1], tag->name) == 0;
    if (!matches) return fail(xml, "an element ends that is not open");
    xml->depth--;
    return true;
}

bool xml_next(struct xml *xml, struct xml_tag *tag)
{
    *tag = (struct xml_tag){0};
    if (xml->err->kind || !find_tag(xml, tag)) return false;
    const char *at = xml->text + xml->at, *end = end_of(at);
    if (!end) return fail(xml, "a tag does not end");
    tag->closes = *at == '/';
    at += tag->closes;
    tag->opens = !tag->closes;
    size_t length = strcspn(at, " \t\r\n/>");
    if (length == 0 || length >= XML_NAME_BYTES) return fail(xml, "a tag without a name");
    memcpy(tag->name, at, length);
    tag->attributes = at + length;
    tag->attribute_bytes = (size_t)(end - tag->attributes);
    if (end[-1] == '/') tag->closes = true;
    for (size_t to = (size_t)(end + 1 - xml->text); xml->at < to; xml->at++)
        xml->line += xml->text[xml->at] == '\n';
    return nest(xml, tag);
}

const char *xml_attribute(struct arena *arena, const struct xml_tag *tag, const char *name)
{
    const char *at = tag->attributes, *end = at + tag->attribute_bytes;
    size_t length = strlen(name);
    while (at < end) {
        while (at < end && isspace((unsigned char)*at))
            at++;
        const char *key = at;
        while (at < end && *at != '=')
            at++;
        size_t key_bytes = (size_t)(at - key);
        if (at + 1 >= end || (at[1] != '"' && at[1] != '\'')) return NULL;
        const char *value = at + 2, *stop = memchr(value, at[1], (size_t)(end - value));
        if (!stop) return NULL;
        if (key_bytes == length && memcmp(key, name, length) == 0) {
            char *text = arena_print(arena, "%.*s", (int)(stop - value), value);
            plain_make(text);
            return text;
        }
        at = stop + 1;
    }
    return NULL;
}
