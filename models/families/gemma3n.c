#include "core/real.h"
#include "models/families/gemma4.h"
#include "models/families/llama_like.h"

#include <assert.h>
#include <math.h>

// Gemma 3n, the language model: alternating updates (models/families/altup.c) around layers that
// are gemma4's with tables of their own and shared keys.
struct gemma3n {
    int64_t hidden_size_per_layer_input, vocab_size_per_layer_input, num_kv_shared_layers;
    int64_t altup_num_inputs, laurel_rank;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct gemma3n, hidden_size_per_layer_input, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct gemma3n, vocab_size_per_layer_input, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct gemma3n, num_kv_shared_layers, 0, LAYERS_MAX)},
    {JSON_OPT_I64(struct gemma3n, altup_num_inputs, 2, HEADS_MAX)},
    {JSON_OPT_I64(struct gemma3n, laurel_rank, 1, WIDTH_MAX)},
    {JSON_OPT_ANY("intermediate_size")},
    {JSON_OPT_ANY("activation_sparsity_pattern")},
    {0},
};

// A number for each layer, or one for all; false where there is none.
static bool read_numbers(struct family_reader *reader, const char *key, int64_t layer_count,
                         double least, double most, double *numbers)
{
    if (reader->err->kind || !json_has(reader->object, key)) return false;
    struct json value = json_get(reader->object, key, reader->err);
    bool is_list = json_is_array(&value);
    int count = is_list ? json_count(&value, reader->err) : (int)layer_count;
    if (!reader->err->kind && layer_count > 0 && count != layer_count)
        json_fail(&value, reader->err, "%d entries for %lld layers", count, (long long)layer_count);
    for (int i = 0; i < count && !reader->err->kind; i++) {
        struct json item = is_list ? json_item(&value, i) : value;
        numbers[i] = json_f64(&item, least, most, reader->err);
    }
    return !reader->err->kind;
}

static int64_t read_ffn(struct family_reader *reader, int64_t layer_count)
{
    static const char KEY[] = "intermediate_size";
    double *widths = ARENA_NEW(reader->arena, double, layer_count + 1);
    if (!read_numbers(reader, KEY, layer_count, 1, WIDTH_MAX, widths)) return 0;
    for (int64_t i = 0; i < layer_count && !reader->err->kind; i++) {
        if (widths[i] != widths[0] || widths[i] != floor(widths[i]))
            family_fail(reader, KEY, "mlps of one width, a whole number, are supported");
    }
    return (int64_t)widths[0];
}

// How many deviations above the mean so much of the normal distribution lies below; by halving.
static double deviations_below(double share)
{
    assert(share > 0 && share < 1);
    double low = -40, high = 40;
    while (true) {
        double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high) return low;
        if (real_normal_ratio(middle) < share)
            low = middle;
        else
            high = middle;
    }
}

// Without the key the first ten layers are sparse where there are more.
static void read_sparsity(struct family_reader *reader, struct decoder *decoder)
{
    enum { SPARSE_COUNT = 10 };
    static const char KEY[] = "activation_sparsity_pattern";
    static const double SHARE = 0.95, SHARE_MAX = 0.999999;
    int64_t count = decoder->layer_count;
    double *shares = ARENA_NEW(reader->arena, double, count), share = 0;
    bool *is_sparse = ARENA_NEW(reader->arena, bool, count);
    bool is_given = read_numbers(reader, KEY, count, 0, SHARE_MAX, shares);
    for (int64_t i = 0; i < count && !reader->err->kind; i++) {
        if (!is_given) shares[i] = count > SPARSE_COUNT && i < SPARSE_COUNT ? SHARE : 0;
        is_sparse[i] = shares[i] > 0;
        if (is_sparse[i] && share > 0 && shares[i] != share)
            family_fail(reader, KEY, "layers of two sparsities are not supported");
        if (is_sparse[i]) share = shares[i];
    }
    if (!is_given && !reader->err->kind)
        family_taken(reader, KEY, share > 0 ? "0.95 of the first 10 layers" : "0");
    decoder->altup.is_sparse = is_sparse;
    if (share > 0) decoder->altup.sparse_deviations = deviations_below(share);
}

static const void *read_gemma3n(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 32768,
                                .tie_word_embeddings = true, .has_own_ffn = true};
    struct gemma3n more = {.hidden_size_per_layer_input = 256,
                           .vocab_size_per_layer_input = 262144,
                           .num_kv_shared_layers = 15,
                           .altup_num_inputs = 4,
                           .laurel_rank = 64};
    record.hidden_activation = "gelu_pytorch_tanh";
    record.rope_theta = 1e6;
    record.rope_local_base_freq = 10000;
    record.final_logit_softcapping = 30;
    record.dimensions_or_null = "num_key_value_heads head_dim sliding_window";
    record.optional = "rms_norm_eps attention_bias hidden_activation";
    record.optional_or_null = "final_logit_softcapping";
    llama_like_read(reader, &record);
    family_read(reader, FIELDS, &more);
    family_absent(
        reader, FIELDS, &more,
        &(struct family_keys){.optional = "hidden_size_per_layer_input vocab_size_per_layer_input "
                                          "num_kv_shared_layers altup_num_inputs laurel_rank"});
    record.intermediate_size = read_ffn(reader, record.num_hidden_layers);
    struct decoder decoder = llama_like_decoder(reader, "gemma3n_text", &record);
    if (reader->err->kind) return NULL;
    decoder.activation = family_activation(reader, "hidden_activation", record.hidden_activation);
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.embedding_scale = sqrt((double)record.hidden_size);
    decoder.head_norms = decoder.value_norms = true;
    decoder.score_factor = 1;
    decoder.logit_softcap = record.final_logit_softcapping;
    decoder.rope_theta_local = record.rope_local_base_freq;
    decoder.window = record.sliding_window;
    decoder.has_window = llama_like_pattern(reader, &record, 5);
    decoder.kv_shared_count = more.num_kv_shared_layers;
    decoder.per_layer_width = more.hidden_size_per_layer_input;
    if (more.vocab_size_per_layer_input != decoder.vocab)
        decoder.per_layer_vocab = more.vocab_size_per_layer_input;
    assert(more.altup_num_inputs >= 2 && "one of them is the token's own");
    decoder.altup.stream_count = more.altup_num_inputs - 1;
    decoder.altup.residual_rank = more.laurel_rank;
    read_sparsity(reader, &decoder);
    if (!reader->err->kind) gemma_check_shared(reader, &decoder);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_GEMMA3N = {"gemma3n_text", read_gemma3n, decoder_graph,
                                            "Gemma3nTextConfig"};
