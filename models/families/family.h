#pragma once
#include "models/families/decoder.h"

// What a family of models gives to models/import.c: a row, listed in models/families/families.c.
// `read` turns a config into the family's own record (NULL and a set error when it is wrong),
// `build` turns the record into a graph and cannot fail.

struct family_reader {
    struct arena *arena;
    const struct json *object;
    void (*warn)(void *context, const char *line);
    void *context;
    struct err *err;
};

struct model_family {
    const char *model_type;
    const void *(*read)(struct family_reader *reader);
    struct graph *(*build)(struct arena *arena, const void *fields,
                           const struct import_options *options);
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

// json_read_lenient with the reader's error and warnings.
void family_read(struct family_reader *reader, const struct json_field *fields, void *record);
// Whether the key is there and holds null, which for some keys is not the same as absent.
bool family_is_null(const struct family_reader *reader, const char *key);
// The alias that the config uses: `key` unless only `alias` is there.
const char *family_key(const struct family_reader *reader, const char *key, const char *alias);
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
// The decoder, or NULL after an error: the end of every `read`.
const void *family_decoder(struct family_reader *reader, const struct decoder *decoder);
