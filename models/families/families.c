#include "models/families/family.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define FAMILY(id) extern const struct model_family FAMILY_##id;
#include "models/families/families.inc"

const struct model_family *const MODEL_FAMILIES[] = {
#define FAMILY(id) &FAMILY_##id,
#include "models/families/families.inc"
    NULL,
};

void family_read(struct family_reader *reader, const struct json_field *fields, void *record)
{
    json_read_lenient(reader->object, fields, record, reader->warn, reader->context, reader->err);
}

void family_read_rope(struct family_reader *reader, const struct json_field *fields, void *record)
{
    static const char KEY[] = "rope_parameters";
    if (reader->err->kind || !json_has(reader->object, KEY) || family_is_null(reader, KEY)) return;
    struct json rope = json_get(reader->object, KEY, reader->err);
    json_read_lenient(&rope, fields, record, NULL, NULL, reader->err);
}

static bool find_member(const struct family_reader *reader, const char *key, struct json *member)
{
    int count = json_member_count(reader->object, reader->err);
    for (int i = 0; i < count; i++) {
        *member = json_item(reader->object, i);
        if (strcmp(json_key(member), key) == 0) return true;
    }
    return false;
}

bool family_is_null(const struct family_reader *reader, const char *key)
{
    struct json member;
    return find_member(reader, key, &member) && !json_has(reader->object, key);
}

const char *family_key(const struct family_reader *reader, const char *key, const char *alias)
{
    return !json_has(reader->object, key) && json_has(reader->object, alias) ? alias : key;
}

bool family_fail(struct family_reader *reader, const char *key, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *why = arena_vprint(reader->arena, format, args);
    va_end(args);
    struct json member;
    if (find_member(reader, key, &member)) return json_fail(&member, reader->err, "%s", why);
    return json_fail(reader->object, reader->err, "%s: %s", key, why);
}

static const struct {
    const char *names;  // "silu|swish"
    enum function function;
} ACTIVATIONS[] = {
#define FUNCTION(id, names) {names, FUNCTION_##id},
#include "models/functions.inc"
};

bool family_is_among(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = names; *at && length > 0; at += *at == '|') {
        size_t word = strcspn(at, "|");
        if (word == length && strncmp(at, name, length) == 0) return true;
        at += word;
    }
    return false;
}

enum function family_activation(struct family_reader *reader, const char *key, const char *name)
{
    char *known = arena_copy(reader->arena, "");
    for (size_t i = 0; i < sizeof ACTIVATIONS / sizeof *ACTIVATIONS; i++) {
        const char *names = ACTIVATIONS[i].names;
        if (family_is_among(names, name)) return ACTIVATIONS[i].function;
        if (*names) known = arena_print(reader->arena, "%s%s%s", known, *known ? "|" : "", names);
    }
    const char *list = "";
    for (const char *at = known; *at; at += *at == '|') {
        size_t word = strcspn(at, "|");
        list = arena_print(reader->arena, "%s%s%.*s", list, *list ? ", " : "", (int)word, at);
        at += word;
    }
    family_fail(reader, key, "unknown activation \"%s\"; known: %s", name, list);
    return FUNCTION_NONE;
}

void family_check_heads(struct family_reader *reader, struct decoder *decoder, const char *head_key,
                        const char *kv_head_key)
{
    if (reader->err->kind) return;
    long long hidden = decoder->hidden, heads = decoder->head_count;
    if (decoder->kv_head_count == 0) decoder->kv_head_count = heads;
    if (decoder->head_dim == 0 && hidden % heads != 0) {
        family_fail(reader, head_key, "%lld heads do not divide a hidden size of %lld", heads,
                    hidden);
    } else if (decoder->head_dim == 0) {
        decoder->head_dim = hidden / heads;
    }
    long long kv_heads = decoder->kv_head_count;
    if (heads % kv_heads != 0) {
        family_fail(reader, kv_head_key, "%lld key-value heads do not divide %lld head%s", kv_heads,
                    heads, heads == 1 ? "" : "s");
    }
}

// Past this no parameter count fits; the largest models are a millionth of it.
static const double EXPERT_PARAMETERS_MAX = 1e18;

void family_check_experts(struct family_reader *reader, const struct decoder *decoder,
                          const char *count_key, const char *top_k_key)
{
    const struct experts *experts = &decoder->experts;
    if (reader->err->kind) return;
    if (experts->top_k > experts->count) {
        family_fail(reader, top_k_key, "a token cannot go to %lld of %lld experts",
                    (long long)experts->top_k, (long long)experts->count);
        return;
    }
    double parameters = 3.0 * (double)experts->count * (double)experts->ffn *
                        (double)decoder->hidden * (double)decoder->layer_count;
    if (parameters > EXPERT_PARAMETERS_MAX) {
        family_fail(reader, count_key, "%lld experts of this size have more than 1e18 parameters",
                    (long long)experts->count);
    }
}

// What a graph is built from without another look: it holds for every config that was read.
const void *family_decoder(struct family_reader *reader, const struct decoder *decoder)
{
    if (reader->err->kind) return NULL;
    assert(decoder->layer_count > 0 && decoder->hidden > 0 && decoder->vocab > 0);
    assert(decoder->kv_head_count == 0 || decoder->head_count % decoder->kv_head_count == 0);
    assert(decoder->experts.top_k <= decoder->experts.count);
    assert(decoder->rotary_dims >= 0 && decoder->norm_epsilon >= 0);
    assert(decoder->hidden_dropout < 1 && decoder->attention_dropout < 1);
    struct decoder *kept = ARENA_NEW(reader->arena, struct decoder, 1);
    *kept = *decoder;
    return kept;
}
