#include "cli/training_options.h"
#include "core/names.h"

#include <assert.h>
#include <string.h>

// A run that says nothing: ten thousandths of a rate that stays, and no end held out.
const struct training_arguments TRAINING_DEFAULTS = {
    .held_out_ratio = 0.05,
    .readers = "rank",
    .validate_batches = 4,
    .rate_kind = "constant",
    .learning_rate = 3e-4,
    .cooldown_steps = -1,
    .weight_decay = 0.1,
    .clip_norm = -1,
};

int training_options(struct training_arguments *a, struct option options[TRAINING_OPTION_COUNT])
{
    const struct option rows[TRAINING_OPTION_COUNT] = {
        {"Data", OPTION_GROUP, NULL, "", NULL, 0, 0},
        {"--data", OPTION_TEXTS, &a->data,
         "files of tokens (of `meshwright tokenize`, .npy, Megatron's .bin with .idx) or a folder "
         "of them, may be repeated, with weights FILE=0.7; or synthetic: tokens by a rule (the "
         "default), or text: bytes of a small text",
         "FILE", 0, 0},
        {"--validate-every", OPTION_INT, &a->validate_every,
         "steps from one loss of the held-out part to the next", "N", 1, 1e9},
        {"--validate-batches", OPTION_INT, &a->validate_batches,
         "global batches that this loss is the mean of", NULL, 1, 1e6},
        {"--held-out", OPTION_F64, &a->held_out_ratio,
         "share of every file, at its end, that is validated with and not trained on", "RATIO",
         1e-9, 0.5},
        {"--validation-data", OPTION_TEXT, &a->validation_data,
         "a file to validate with instead; nothing of the others is held out", "FILE", 0, 0},
        {"--mask-documents", OPTION_TEXT, &a->mask_documents,
         "attention stays within a document: ends, as .tokens files say where they end, or the "
         "token that ends one; on CPUs",
         "ends|ID", 0, 0},
        {"--readers", OPTION_CHOICE, &a->readers,
         "who reads the files: every rank, one a host of the plan, or rank 0 for all; the others "
         "get their sequences by broadcast",
         READERS_WORDS, 0, 0},
        {"Training", OPTION_GROUP, NULL, "", NULL, 0, 0},
        {"--learning-rate", OPTION_F64, &a->learning_rate, "the highest of all steps", NULL, 0,
         1e3},
        {"--learning-rate-decay", OPTION_CHOICE, &a->rate_kind,
         "how it goes down to --min-learning-rate in the last step", "constant|cosine|linear|wsd",
         0, 0},
        {"--min-learning-rate", OPTION_F64, &a->least_rate, "(default 0)", NULL, 0, 1e3},
        {"--warmup", OPTION_INT, &a->warmup_steps, "first steps, in which it rises", "N", 0, 1e9},
        {"--cooldown", OPTION_INT, &a->cooldown_steps,
         "last steps, in which wsd goes down (default a fifth)", "N", 0, 1e9},
        {"--weight-decay", OPTION_F64, &a->weight_decay, "of matrices", NULL, 0, 1e3},
        {"--clip", OPTION_F64, &a->clip_norm,
         "global gradient norm to clip at, 0 = none: each bucket of gradients is updated as it "
         "comes (default 1, or as planned)",
         NULL, 0, 1e9},
        {"--skip-spikes", OPTION_F64, &a->spike_deviations,
         "leave out updates whose gradient norm is not finite or lies so many deviations above its "
         "mean (2.5 is usual)",
         "N", 0.1, 1e6},
        {"--roll-back", OPTION_INT, &a->roll_back,
         "after so many of them in a row go back to the weights of the last good checkpoint, and "
         "on "
         "with the data behind them",
         "N", 1, 1e6},
        {"Records", OPTION_GROUP, NULL, "", NULL, 0, 0},
        {"--metrics", OPTION_OUTPUT, &a->metrics, "a line of JSON a step", "FILE.jsonl", 0, 0},
        {"--tensorboard", OPTION_TEXT, &a->tensorboard, "event files for TensorBoard", "DIR", 0, 0},
        {"--plot", OPTION_OUTPUT, &a->plot, "draw the losses over the steps (needs gnuplot)",
         "FILE.svg", 0, 0},
    };
    memcpy(options, rows, sizeof rows);
    return TRAINING_OPTION_COUNT;
}

static enum rate_kind kind_of(const char *word)
{
    static const char *const WORDS[] = {"constant", "cosine", "linear", "wsd"};
    int kind = NAME_INDEX(WORDS, word);
    assert(kind >= 0);
    return (enum rate_kind)kind;
}

// Whether this word is among the data: it stands alone.
static bool says(const struct training_arguments *arguments, const char *word)
{
    return name_index(arguments->data.items, (size_t)arguments->data.count, word) >= 0;
}

enum run_data training_data(const struct training_arguments *arguments)
{
    if (says(arguments, "text")) return DATA_TEXT;
    bool has_files = arguments->data.count > 0 && !says(arguments, "synthetic");
    return has_files ? DATA_CORPUS : DATA_SYNTHETIC;
}

enum readers training_readers(const struct training_arguments *arguments)
{
    return readers_parse(arguments->readers);
}

static bool find_document_end(const struct training_arguments *arguments, int64_t *end,
                              struct err *err)
{
    const char *word = arguments->mask_documents;
    *end = !word ? DOCUMENTS_JOINED : DOCUMENTS_OF_FILES;
    if (!word || strcmp(word, "ends") == 0) return true;
    return units_parse_i64(word, "--mask-documents", 0, INT32_MAX, end, err);
}

bool training_check(const struct training_arguments *arguments, struct err *err)
{
    enum run_data data = training_data(arguments);
    enum rate_kind kind = kind_of(arguments->rate_kind);
    bool has_word = says(arguments, "text") || says(arguments, "synthetic");
    if (has_word && arguments->data.count > 1)
        return err_set(err, ERR_USAGE, "--data: synthetic and text stand alone");
    if (data != DATA_CORPUS && arguments->validate_every > 0)
        return err_set(err, ERR_USAGE, "--validate-every wants files: --data FILE");
    if (arguments->validation_data && arguments->validate_every == 0)
        return err_set(err, ERR_USAGE, "--validation-data wants --validate-every N");
    int64_t document_end;
    if (!find_document_end(arguments, &document_end, err)) return false;
    if (data != DATA_CORPUS && arguments->mask_documents)
        return err_set(err, ERR_USAGE, "--mask-documents wants files: --data FILE");
    if (data != DATA_CORPUS && training_readers(arguments) != READERS_RANK)
        return err_set(err, ERR_USAGE, "--readers wants files: --data FILE");
    if (arguments->least_rate > arguments->learning_rate)
        return err_set(err, ERR_USAGE, "--min-learning-rate %g is above --learning-rate %g",
                       arguments->least_rate, arguments->learning_rate);
    if (kind == RATE_CONSTANT && arguments->least_rate > 0)
        return err_set(err, ERR_USAGE,
                       "--min-learning-rate wants --learning-rate-decay cosine, linear or wsd");
    if (kind != RATE_WSD && arguments->cooldown_steps >= 0)
        return err_set(err, ERR_USAGE, "--cooldown wants --learning-rate-decay wsd");
    if (arguments->spike_deviations > 0 && arguments->clip_norm == 0)
        return err_set(err, ERR_USAGE,
                       "--skip-spikes looks at the norm, which --clip 0 leaves out");
    if (arguments->roll_back > 0 && arguments->spike_deviations == 0)
        return err_set(err, ERR_USAGE, "--roll-back needs --skip-spikes N");
    return true;
}

struct rate_course training_rate(const struct training_arguments *arguments, int64_t steps)
{
    enum { COOLDOWN_PART = 5 };
    int64_t cooldown = arguments->cooldown_steps;
    if (cooldown < 0) cooldown = steps / COOLDOWN_PART;
    return (struct rate_course){.kind = kind_of(arguments->rate_kind),
                                .peak = arguments->learning_rate,
                                .least = arguments->least_rate,
                                .steps = steps,
                                .warmup_steps = arguments->warmup_steps,
                                .cooldown_steps = cooldown};
}

bool training_open(struct arena *arena, const struct training_arguments *arguments,
                   const struct graph *graph, const struct workload *workload, int64_t seed,
                   bool reads, struct corpus *corpus, struct err *err)
{
    struct corpus_request request = {
        .words = arguments->data.items,
        .word_count = arguments->data.count,
        .held_out = arguments->validation_data,
        .held_out_ratio = arguments->validate_every > 0 ? arguments->held_out_ratio : 0,
        .seq_len = workload->seq_len,
        .ahead = RUN_IDS_AHEAD,
        .vocab = graph->vocab,
        .seed = (uint64_t)seed,
    };
    assert(training_data(arguments) == DATA_CORPUS);
    if (!find_document_end(arguments, &request.document_end, err)) return false;
    if (reads) return corpus_open(arena, &request, corpus, err);
    *corpus = corpus_shape(&request);
    return true;
}

const char *training_key(struct arena *arena, const struct training_arguments *a)
{
    const char *text = arena_print(
        arena, "%s %s %s %.17g %d %d %s %.17g %.17g %d %d %.17g %.17g %.17g %d",
        a->validation_data ? a->validation_data : "", a->mask_documents ? a->mask_documents : "",
        a->readers, a->held_out_ratio, a->validate_every, a->validate_batches, a->rate_kind,
        a->learning_rate, a->least_rate, a->warmup_steps, a->cooldown_steps, a->weight_decay,
        a->clip_norm, a->spike_deviations, a->roll_back);
    for (int i = 0; i < a->data.count; i++)
        text = arena_print(arena, "%s %s", text, a->data.items[i]);
    return text;
}
