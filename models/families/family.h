#pragma once
#include "models/families/decoder.h"

// What a family of models gives to models/import.c: a row, listed in families.inc.
// `read` turns a config into the family's own record (NULL and a set error when it is wrong),
// `build` turns the record into a graph and cannot fail.

// What a config leaves out, gathered while it is read: dimensions are an error, all of them at
// once, and for other keys the published default is taken and said (models/families/absent.c).
struct family_ledger {
    const char *missing;  // "\"hidden_size\", \"vocab_size\""; NULL = nothing
    const char *taken;    // "rope_theta 10000, head_dim 128 (hidden_size / num_attention_heads)"
    const char *assumed;  // "num_attention_heads 8": the dimensions among them
    const char *off;      // "attention_bias, mlp_bias": what the default leaves out of the model
    const char *remark;   // where the model read computes otherwise, at the same shapes and work
};

struct family_reader {
    struct arena *arena;
    const struct json *object;
    const char *prefix;  // path of `object` in the config, "ffn_config."; NULL at its root
    struct family_ledger *ledger;
    bool is_tie_given;  // tie_word_embeddings stands around the object that is read
    void (*warn)(void *context, const char *line);
    void *context;
    struct err *err;
};

// What is said of temperatures of attention (models/families/mistral.c).
extern const char family_no_temperature[];

struct model_family {
    const char *model_type;
    const void *(*read)(struct family_reader *reader);
    struct graph *(*build)(struct arena *arena, const void *fields,
                           const struct import_options *options);
    const char *config_class;  // of transformers (or of the release), whose defaults are taken
};

// Sorted by model_type; ends with NULL.
extern const struct model_family *const MODEL_FAMILIES[];

// Limits of what a config may say: far past any model, and small enough that no product of sizes
// overflows 63 bits.
enum {
    WIDTH_MAX = 1000000,  // hidden, ffn
    HEADS_MAX = 4096,     // also head_dim
    LAYERS_MAX = 10000,
    EXPERTS_MAX = 4096,
    VOCAB_MAX = 100000000,
    POSITIONS_MAX = 100000000,
};
static const double DROPOUT_MAX = 0.99;

// What a family heeds of its keys, as words. A key counts as there under each name that has its
// place in the record, and inside rope_parameters, where transformers 5 keeps some.
struct family_keys {
    const char *dimensions;          // must be given (where the record has no default): not null
    const char *dimensions_or_null;  // must be given; null has a meaning of its own
    const char *optional;            // absent or null: what the record holds is taken, and said
    const char *optional_or_null;    // the same when absent; null has a meaning of its own
};
// Enters what the config lacks of them into the ledger; `fields` and `record` are those it was read
// with.
void family_absent(struct family_reader *reader, const struct json_field *fields,
                   const void *record, const struct family_keys *keys);
// Enters a dimension, or what was taken for a key: "n_inner", "3072 (4 * n_embd)".
void family_missing(struct family_reader *reader, const struct json_field *fields, const char *key);
void family_taken(struct family_reader *reader, const char *key, const char *format, ...)
    PRINTF_LIKE(3, 4);
// The end of reading and the start of checking: false after an error, or with one that names every
// missing dimension.
bool family_complete(struct family_reader *reader);
// An error for what a config says that its family is not built with (models/families/refused.c).
void family_refuse(struct family_reader *reader, const char *model_type);
// Warnings for keys of parts that the model read does not have.
void family_tell(struct family_reader *reader, const struct decoder *decoder);

// Rows of keys that are read into the decoder itself: the record is one, or begins with one.
#define DECODER_I64(key, member, low, high) \
    key, JSON_TYPE_I64, offsetof(struct decoder, member), low, high, true
#define DECODER_F64(key, member, low, high) \
    key, JSON_TYPE_F64, offsetof(struct decoder, member), low, high, true
#define DECODER_BOOL(key, member) key, JSON_TYPE_BOOL, offsetof(struct decoder, member), 0, 0, true

// json_read_lenient with the reader's error and warnings.
void family_read(struct family_reader *reader, const struct json_field *fields, void *record);
// What transformers 5 keeps in rope_parameters, where there are any, without warnings.
void family_read_rope(struct family_reader *reader, const struct json_field *fields, void *record);
// Whether the key is there and holds null, which for some keys is not the same as absent.
bool family_is_null(const struct family_reader *reader, const char *key);
// The alias that the config uses: `key` unless only `alias` is there.
const char *family_key(const struct family_reader *reader, const char *key, const char *alias);
// Whether the name is one of "a|b|c".
bool family_is_among(const char *names, const char *name);
// An error at the value of `key`, or at the object when it is absent. Returns false.
bool family_fail(struct family_reader *reader, const char *key, const char *format, ...)
    PRINTF_LIKE(3, 4);
// The activation that transformers calls `name`; an error at `key` when there is none.
enum function family_activation(struct family_reader *reader, const char *key, const char *name);
// Sets head_dim to hidden / heads when it is 0, kv_head_count to heads likewise, and checks that
// they divide. The keys are those that errors point at.
void family_check_heads(struct family_reader *reader, struct decoder *decoder, const char *head_key,
                        const char *kv_head_key);
// Checks that a token can go to top_k of the experts and that all of them together can be counted.
void family_check_experts(struct family_reader *reader, const struct decoder *decoder,
                          const char *count_key, const char *top_k_key);
// What each layer consists of, by its name in the list of `key`, which has one for each layer;
// `types` ends with an empty row.
struct family_layer_type {
    const char *name;
    unsigned parts;  // enum layer_part
};
const uint8_t *family_layer_parts(struct family_reader *reader, const char *key,
                                  int64_t layer_count, const struct family_layer_type *types);
// Layers that all have these parts (enum layer_part).
const uint8_t *family_alike(struct family_reader *reader, int64_t layer_count, unsigned parts);
// Reads between what steps of a scan are held, and checks that its heads are a multiple of its
// groups: models/families/scan_keys.c.
void family_check_scan(struct family_reader *reader, struct decoder *decoder, const char *head_key,
                       const char *group_key);
// By way of how many numbers steps of Mamba-1 are made: what `key` says, or where that is "auto" or
// absent a sixteenth of the model's width, rounded up.
int64_t family_step_rank(struct family_reader *reader, const char *key, int64_t hidden);
// models/families/clip.c: the object under `key`; where there is none, an empty one in its place,
// for classes that have defaults for all of it. And the tower of pictures that vision_config says,
// whose parts are tokens of a text.
struct family_reader family_part(const struct family_reader *reader, const char *key);
void family_siglip_tower(const struct family_reader *reader, struct decoder *tower);
// The decoder, or NULL after an error: the end of every `read`.
const void *family_decoder(struct family_reader *reader, const struct decoder *decoder);
