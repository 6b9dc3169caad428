#include "executor/data/corpus.h"

#include "core/file.h"
#include "core/units.h"

#include <assert.h>
#include <string.h>
#include <sys/stat.h>

enum { SOURCES_MAX = 4096 };

struct opening {
    struct arena *arena;
    const struct corpus_request *request;
    struct corpus *corpus;
    int weighted_count;
};

// The model's vocabulary may be larger than the file's, never smaller.
static bool add_file(struct opening *opening, const char *path, double weight, struct err *err)
{
    struct corpus *corpus = opening->corpus;
    if (corpus->source_count == SOURCES_MAX)
        return err_set(err, ERR_USAGE, "--data: more than %d files", SOURCES_MAX);
    struct corpus_source *source = &corpus->sources[corpus->source_count];
    if (!tokens_open(opening->arena, path, &source->tokens, err)) return false;
    corpus->source_count++;
    source->weight = weight;
    if (corpus->document_end == DOCUMENTS_OF_FILES && !tokens_know_documents(&source->tokens))
        return err_set(
            err, ERR_INPUT,
            "%s: where documents end is read of .tokens alone; --mask-documents ID takes "
            "the token that ends them",
            source->tokens.path);
    if (source->tokens.vocab <= corpus->vocab) return true;
    return err_set(err, ERR_INPUT, "%s: made with a vocabulary of %lld, the model has %lld",
                   source->tokens.path, (long long)source->tokens.vocab, (long long)corpus->vocab);
}

static bool is_tokens(const char *name)
{
    static const char *const ENDS[] = {".tokens", ".npy", ".bin"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        size_t end = strlen(ENDS[i]);
        if (length > end && strcmp(name + length - end, ENDS[i]) == 0) return true;
    }
    return false;
}

// All files of tokens in a folder, by name. They share its weight by their tokens.
static bool add_folder(struct opening *opening, const char *path, double weight, struct err *err)
{
    const char **names;
    int count, error = file_list(opening->arena, path, is_tokens, &names, &count);
    if (error) return err_set(err, ERR_INPUT, "%s: %s", path, strerror(error));
    if (count == 0)
        return err_set(err, ERR_INPUT, "%s: found no file of tokens: .tokens, .npy or .bin", path);
    int first = opening->corpus->source_count;
    double tokens = 0;
    for (int i = 0; i < count; i++) {
        const char *file = arena_print(opening->arena, "%s/%s", path, names[i]);
        if (!add_file(opening, file, weight, err)) return false;
        tokens += (double)opening->corpus->sources[first + i].tokens.count;
    }
    for (int i = first; i < first + count && weight > 0; i++) {
        struct corpus_source *source = &opening->corpus->sources[i];
        source->weight = tokens > 0 ? weight * (double)source->tokens.count / tokens : 0;
    }
    return true;
}

// "FILE" or "FILE=0.7"; a file may have an = in its name.
static bool add_word(struct opening *opening, const char *word, struct err *err)
{
    char *path = arena_copy(opening->arena, word);
    char *equals = strrchr(path, '=');
    struct stat found;
    double weight = 0;
    if (equals && stat(path, &found) != 0) {
        *equals = '\0';
        if (!units_parse_f64(equals + 1, "--data FILE=WEIGHT", &weight, err)) return false;
        if (!(weight > 0 && weight < 1e15))
            return err_set(err, ERR_USAGE, "--data FILE=WEIGHT: found %s, wanted more than 0",
                           equals + 1);
        opening->weighted_count++;
    }
    bool is_folder = stat(path, &found) == 0 && S_ISDIR(found.st_mode);
    return is_folder ? add_folder(opening, path, weight, err)
                     : add_file(opening, path, weight, err);
}

// Samples of `count` ids from `first` on, with the ids behind the last that its labels look at.
static int64_t samples_of(const struct corpus *corpus, int64_t count)
{
    int64_t ahead = corpus->row_length - corpus->seq_len;
    return count > ahead ? (count - ahead) / corpus->seq_len : 0;
}

// The end of every file is held out, of whole samples.
static void split(struct corpus *corpus, struct corpus_source *source, double ratio)
{
    int64_t whole = samples_of(corpus, source->tokens.count);
    int64_t held = (int64_t)((double)whole * ratio);
    if (ratio > 0 && held == 0) held = 1;
    int64_t kept = (whole - held) * corpus->seq_len;
    source->sample_count[CORPUS_HELD_OUT] = held;
    source->first[CORPUS_HELD_OUT] = kept;
    // No label of one part is of the other.
    source->sample_count[CORPUS_TRAIN] = held ? samples_of(corpus, kept) : whole;
}

// Held out is the end of each file, or the file that is given for it.
static bool split_all(struct opening *opening, int train_count, struct err *err)
{
    struct corpus *corpus = opening->corpus;
    for (int s = 0; s < corpus->source_count; s++) {
        struct corpus_source *source = &corpus->sources[s];
        bool is_held = s >= train_count;
        double ratio = opening->request->held_out ? 0 : opening->request->held_out_ratio;
        split(corpus, source, ratio);
        if (is_held) {
            source->sample_count[CORPUS_HELD_OUT] = source->sample_count[CORPUS_TRAIN];
            source->sample_count[CORPUS_TRAIN] = 0;
            source->first[CORPUS_HELD_OUT] = 0;  // all of the file, not its end
        }
        int64_t wanted = corpus->row_length * (ratio > 0 ? 2 : 1);
        if (source->sample_count[is_held ? CORPUS_HELD_OUT : CORPUS_TRAIN] == 0)
            return err_set(err, ERR_INPUT, "%s: found %lld tokens, wanted %lld for a sequence%s",
                           source->tokens.path, (long long)source->tokens.count, (long long)wanted,
                           ratio > 0 ? " and one that is held out" : "");
        for (int part = 0; part < CORPUS_PART_COUNT; part++) {
            int64_t count = source->sample_count[part],
                    ahead = corpus->row_length - corpus->seq_len;
            assert(count == 0 ||
                   source->first[part] + count * corpus->seq_len + ahead <= source->tokens.count);
            corpus->sample_count[part] += count;
        }
    }
    return true;
}

// Files are drawn from by weight, or each token of all as often as any other.
static bool weigh(struct opening *opening, int train_count, struct err *err)
{
    struct corpus *corpus = opening->corpus;
    double sum = 0;
    if (opening->weighted_count > 0 && opening->weighted_count < opening->request->word_count)
        return err_set(err, ERR_USAGE, "--data: a weight for each file or for none");
    for (int s = 0; s < corpus->source_count; s++) {
        struct corpus_source *source = &corpus->sources[s];
        bool is_weighted = opening->weighted_count > 0 && s < train_count;
        if (!is_weighted) source->weight = (double)source->tokens.count;
        if (s < train_count) sum += source->weight;
    }
    for (int s = 0; s < train_count; s++)
        corpus->sources[s].weight /= sum;
    return true;
}

struct corpus corpus_shape(const struct corpus_request *request)
{
    bool is_joined = request->document_end == DOCUMENTS_JOINED;
    assert(request->seq_len > 0 && request->ahead >= 0);
    return (struct corpus){
        .seq_len = request->seq_len,
        .row_length = request->seq_len + request->ahead,
        .row_stride = request->seq_len + request->ahead + (is_joined ? 0 : request->seq_len),
        .document_end = request->document_end,
        .vocab = request->vocab,
        .seed = request->seed,
    };
}

bool corpus_open(struct arena *arena, const struct corpus_request *request, struct corpus *corpus,
                 struct err *err)
{
    struct opening opening = {arena, request, corpus, 0};
    *corpus = corpus_shape(request);
    corpus->sources = ARENA_NEW(arena, struct corpus_source, SOURCES_MAX);
    bool done = true;
    for (int i = 0; done && i < request->word_count; i++)
        done = add_word(&opening, request->words[i], err);
    int train_count = corpus->source_count;
    done = done && (!request->held_out || add_file(&opening, request->held_out, 0, err)) &&
           weigh(&opening, train_count, err) && split_all(&opening, train_count, err);
    if (!done) corpus_close(corpus);
    return done;
}

void corpus_close(struct corpus *corpus)
{
    for (int s = 0; s < corpus->source_count; s++)
        tokens_close(&corpus->sources[s].tokens);
    corpus->source_count = 0;
}
