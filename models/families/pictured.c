#include "models/families/family.h"

#include <assert.h>
#include <string.h>

// Pictures that stand in the text that is read: a tower makes tokens of each, which see each other
// both ways (Gemma 3 Technical Report 2025, section 2.1; Beyer et al. 2024, section 3.2). Of many
// ways to mix them with text the common one is planned: a picture for each sequence, at its front.

struct pictured {
    int64_t mm_tokens_per_image;  // of gemma3
    int64_t projection_dim;       // of paligemma
    bool tie_word_embeddings;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct pictured, mm_tokens_per_image, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct pictured, projection_dim, 1, WIDTH_MAX)},
    {JSON_OPT_BOOL(struct pictured, tie_word_embeddings)},
    {JSON_OPT_ANY("text_config")},
    {JSON_OPT_ANY("vision_config")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

// The family among these that text_config is of; the first where it does not say.
static const struct model_family *text_family(struct family_reader *own,
                                              const struct model_family *const *families)
{
    if (own->err->kind) return families[0];
    if (!json_has(own->object, "model_type")) {
        family_taken(own, "model_type", "%s", families[0]->model_type);
        return families[0];
    }
    struct json value = json_get(own->object, "model_type", own->err);
    const char *found = json_text(&value, own->err), *known = "";
    for (int i = 0; families[i] && found; i++) {
        if (strcmp(found, families[i]->model_type) == 0) return families[i];
        known = arena_print(own->arena, "%s%s%s", known, i ? ", " : "", families[i]->model_type);
    }
    json_fail(&value, own->err, "a text of \"%s\" is not supported here; known: %s", found, known);
    return families[0];
}

static const struct decoder *read_text(struct family_reader *reader, const char *model_type,
                                       const struct model_family *const *families,
                                       struct decoder *tower)
{
    // Both have to be there: what their classes have by default is no release.
    json_get(reader->object, "vision_config", reader->err);
    json_get(reader->object, "text_config", reader->err);
    family_siglip_tower(reader, tower);
    struct family_reader own = family_part(reader, "text_config");
    const struct model_family *family = text_family(&own, families);
    own.is_tie_given = true;
    if (!own.err->kind) family_refuse(&own, model_type);
    const struct decoder *text = own.err->kind ? NULL : family->read(&own);
    if (text) family_tell(&own, text);
    return text;
}

static const void *join(struct family_reader *reader, const char *model_type,
                        const struct pictured *record, const struct decoder *text,
                        struct decoder *tower)
{
    assert(tower->picture.token_count > 0 && text->layer_count > 0);
    struct decoder decoder = *text;
    decoder.model_type = tower->model_type = model_type;
    decoder.tied = record->tie_word_embeddings;
    decoder.prefix = tower->picture.token_count;
    decoder.encoder = tower;
    const char *of_tower = reader->ledger->remark;
    reader->ledger->remark = arena_print(
        reader->arena,
        "each sequence begins with a picture, whose %lld tokens are part of its length%s%s",
        (long long)decoder.prefix, of_tower ? "; " : "", of_tower ? of_tower : "");
    return family_decoder(reader, &decoder);
}

static int64_t root_of(int64_t square)
{
    int64_t root = 1;
    while (root * root < square)
        root++;
    return root * root == square ? root : 0;
}

// Tokens are means over squares of patches.
static void check_tokens(struct family_reader *reader, int64_t tokens, int64_t patches)
{
    int64_t side = root_of(tokens);
    if (side == 0 || root_of(patches) % side != 0)
        family_fail(reader, "mm_tokens_per_image",
                    "%lld tokens are no square whose side divides that of %lld patches",
                    (long long)tokens, (long long)patches);
}

extern const struct model_family FAMILY_GEMMA, FAMILY_GEMMA2, FAMILY_GEMMA3;

static const void *read_gemma3(struct family_reader *reader)
{
    static const struct family_keys KEYS = {.optional = "mm_tokens_per_image tie_word_embeddings"};
    static const struct model_family *const TEXTS[] = {&FAMILY_GEMMA3, NULL};
    struct pictured record = {.mm_tokens_per_image = 256, .tie_word_embeddings = true};
    struct decoder *tower = ARENA_NEW(reader->arena, struct decoder, 1);
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    const struct decoder *text = read_text(reader, "gemma3", TEXTS, tower);
    if (!text) return NULL;
    check_tokens(reader, record.mm_tokens_per_image, tower->picture.patch_count);
    tower->picture.token_count = record.mm_tokens_per_image;
    tower->picture.token_norm = true;
    return join(reader, "gemma3", &record, text, tower);
}

// Each patch is a token. What a prompt would be, which is seen both ways as well, is text here.
static const void *read_paligemma(struct family_reader *reader)
{
    static const struct family_keys KEYS = {.optional = "projection_dim tie_word_embeddings"};
    static const struct model_family *const TEXTS[] = {&FAMILY_GEMMA, &FAMILY_GEMMA2, NULL};
    struct pictured record = {.projection_dim = 2048, .tie_word_embeddings = true};
    struct decoder *tower = ARENA_NEW(reader->arena, struct decoder, 1);
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    const struct decoder *text = read_text(reader, "paligemma", TEXTS, tower);
    if (!text) return NULL;
    if (record.projection_dim != text->hidden)
        family_fail(reader, "projection_dim", "pictures of %lld numbers in a text of %lld",
                    (long long)record.projection_dim, (long long)text->hidden);
    tower->picture.token_count = tower->picture.patch_count;
    tower->picture.token_bias = true;
    if (text->window > 0 && text->window < tower->picture.token_count)
        family_fail(reader, "text_config", "windows of %lld are shorter than a picture of %lld",
                    (long long)text->window, (long long)tower->picture.token_count);
    return join(reader, "paligemma", &record, text, tower);
}

const struct model_family FAMILY_GEMMA3_PICTURES = {"gemma3", read_gemma3, towers_graph,
                                                    "Gemma3Config"};
const struct model_family FAMILY_PALIGEMMA = {"paligemma", read_paligemma, towers_graph,
                                              "PaliGemmaConfig"};
