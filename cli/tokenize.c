#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "core/console.h"
#include "core/json.h"
#include "core/plain.h"
#include "executor/data/tokenizer.h"
#include "executor/data/tokens.h"

#include <stdio.h>
#include <string.h>

// Texts to a file of tokens. A file is one document; of one called .jsonl every line is, its text
// under "text".

struct tokenizing {
    const char *tokenizer_name, *output, *end_of_document;
    struct text_list texts;
    struct tokenizer *tokenizer;
    struct tokens_writer *writer;
    int32_t end_id;  // -1: none
    int64_t token_count, document_count, byte_count;
};

static void put(void *context, const int32_t *ids, int64_t count)
{
    struct tokenizing *of = context;
    tokens_writer_put(of->writer, ids, count);
    of->token_count += count;
}

static bool put_document(struct tokenizing *of, const char *path, const char *text, int64_t bytes,
                         struct err *err)
{
    int64_t fault = 0;
    if (!tokenizer_encode(of->tokenizer, text, bytes, (struct tokenizer_sink){put, of}, &fault))
        return err_set(err, ERR_INPUT, "%s: byte %lld is no UTF-8", path, (long long)fault);
    if (of->end_id >= 0) put(of, &of->end_id, 1);
    tokens_writer_end_document(of->writer);
    of->document_count++;
    of->byte_count += bytes;
    return true;
}

static bool put_line(struct tokenizing *of, const char *path, int number, const char *line,
                     size_t bytes, struct err *err)
{
    struct arena scratch = {0};
    struct json_document document;
    if (memmem(line, bytes, "\\u0000", 6))
        return err_set(err, ERR_INPUT, "%s:%d: a text with the character 0", path, number);
    if (json_parse_from(&scratch, path, number, line, bytes, &document, err)) {
        struct json root = json_root(&document), member = json_get(&root, "text", err);
        const char *text = json_data_text(&member, err);
        if (text) (void)!put_document(of, path, text, (int64_t)strlen(text), err);
    }
    arena_free(&scratch);
    return !err->kind;
}

static bool put_lines(struct tokenizing *of, const struct tokens *file, struct err *err)
{
    const char *text = file->map, *end = text + file->map_bytes;
    for (int number = 1; text < end; number++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t bytes = (size_t)((stop ? stop : end) - text);
        if (bytes > 0 && !put_line(of, file->path, number, text, bytes, err)) return false;
        text += bytes + 1;
    }
    return true;
}

static bool put_file(struct arena *arena, struct tokenizing *of, const char *path, struct err *err)
{
    struct tokens file = {.path = plain_copy(arena, path)};
    size_t length = strlen(path);
    bool has_lines = length > 6 && strcmp(path + length - 6, ".jsonl") == 0;
    if (!tokens_map(&file, err)) return false;
    bool done = has_lines ? put_lines(of, &file, err)
                          : put_document(of, file.path, file.map, (int64_t)file.map_bytes, err);
    tokens_close(&file);
    return done;
}

static bool find_end(struct tokenizing *of, struct err *err)
{
    of->end_id = -1;
    if (!of->end_of_document) return true;
    of->end_id = tokenizer_added(of->tokenizer, of->end_of_document);
    return of->end_id >= 0 ||
           err_set(err, ERR_USAGE, "--append-eod: %s has no added token \"%.80s\"",
                   of->tokenizer_name, of->end_of_document);
}

static bool run(struct arena *arena, struct tokenizing *of, struct err *err)
{
    of->tokenizer = tokenizer_open(arena, of->tokenizer_name, err);
    if (!of->tokenizer || !find_end(of, err)) return false;
    of->writer = tokens_writer_open(arena, of->output, tokenizer_vocab(of->tokenizer), err);
    if (!of->writer) return false;
    bool done = true;
    for (int i = 0; done && i < of->texts.count; i++)
        done = put_file(arena, of, of->texts.items[i], err);
    if (!done) tokens_writer_abort(of->writer);
    const char *said = output_said(arena, of->output);
    if (!done || !tokens_writer_commit(of->writer, err)) return false;
    console_printf(stdout,
                   "%s: %lld tokens of %lld document%s, %.2f bytes a token, vocabulary %d\n", said,
                   (long long)of->token_count, (long long)of->document_count,
                   of->document_count == 1 ? "" : "s",
                   (double)of->byte_count / (double)(of->token_count ? of->token_count : 1),
                   tokenizer_vocab(of->tokenizer));
    return true;
}

int tokenize_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct tokenizing of = {.tokenizer_name = "bytes", .output = "data.tokens"};
    const struct option options[] = {
        {"--tokenizer", OPTION_TEXT, &of.tokenizer_name,
         "a tokenizer.json of Hugging Face (BPE), or bytes: a token a byte (the "
         "default)",
         "FILE", 0, 0},
        {"--append-eod", OPTION_TEXT, &of.end_of_document,
         "the added token that ends every document: <|endoftext|>", "TOKEN", 0, 0},
        {"-o", OPTION_OUTPUT, &of.output, "write the tokens here (default data.tokens)", "FILE", 0,
         0},
        OPTION_FORCE_ROW,
        {"TEXT...", OPTION_TEXTS, &of.texts,
         "a document each, or of NAME.jsonl every line one, under \"text\"", NULL, 0, 0},
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    return run(arena, &of, err) ? 0 : exit_status(err);
}
