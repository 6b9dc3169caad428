#include "models/import.h"

#include "core/file.h"
#include "core/json_write.h"
#include "core/plain.h"
#include "core/units.h"
#include "models/defaults.h"
#include "models/exported.h"
#include "models/families/family.h"
#include "models/hub.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

typedef void warn_function(void *context, const char *line);

enum { NOTES_MAX = 5 };  // four kinds of notes, and the end

// Members that describe other parts of a multimodal model, and of one that it is inside:
// "vision_config, audio_config".
static const char *parts_left_out(struct arena *arena, const struct json *whole)
{
    static const char *const PARTS[] = {"vision_config",   "audio_config",          "speech_config",
                                        "qformer_config",  "speech_encoder_config", "talker_config",
                                        "code2wav_config", "token2wav_config"};
    const char *list = NULL;
    for (const struct json *at = whole; at; at = at->parent) {
        for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
            if (!json_is_object(at) || !json_has(at, PARTS[i])) continue;
            list = list ? arena_print(arena, "%s, %s", list, PARTS[i]) : PARTS[i];
        }
    }
    return list;
}

// Whether the type that stands beside text_config is one that reads all of the config.
static bool reads_parts(const struct json *object)
{
    struct err fault = {0};
    if (!json_has(object, "model_type")) return false;
    struct json value = json_get(object, "model_type", &fault);
    const char *model_type = json_text(&value, &fault);
    for (int i = 0; MODEL_FAMILIES[i] && model_type; i++)
        if (strcmp(MODEL_FAMILIES[i]->model_type, model_type) == 0)
            return MODEL_FAMILIES[i]->build == towers_graph;
    return false;
}

// How many letters the name begins with: what the versions of a model have in common.
static size_t stem_length(const char *name)
{
    size_t length = 0;
    while ((name[length] | 32) >= 'a' && (name[length] | 32) <= 'z')
        length++;
    return length;
}

// "bart, bert*": the known names, of which those of one stem are one word.
static const char *known_names(struct arena *arena)
{
    const char *known = "";
    int count = 1;
    for (int i = 0; MODEL_FAMILIES[i]; i += count) {
        const char *name = MODEL_FAMILIES[i]->model_type;
        size_t stem = stem_length(name);
        for (count = 1; MODEL_FAMILIES[i + count]; count++) {
            const char *next = MODEL_FAMILIES[i + count]->model_type;
            if (stem_length(next) != stem || strncmp(next, name, stem) != 0) break;
        }
        const char *comma = i ? ", " : "";
        known = count > 1 ? arena_print(arena, "%s%s%.*s*", known, comma, (int)stem, name)
                          : arena_print(arena, "%s%s%s", known, comma, name);
    }
    return known;
}

static const struct model_family *find_family(struct arena *arena, const struct json *object,
                                              struct err *err)
{
    static const int SLIPS_MAX = 2;
    // Configs of diffusers have no model_type.
    static const char CLASS[] = "_class_name";
    bool is_class = !json_has(object, "model_type") && json_has(object, CLASS);
    struct json value = json_get(object, is_class ? CLASS : "model_type", err);
    const char *model_type = json_text(&value, err);
    if (err->kind) return NULL;
    struct units_guess guess = {.text = model_type};
    for (int i = 0; MODEL_FAMILIES[i]; i++) {
        const char *name = MODEL_FAMILIES[i]->model_type;
        if (strcmp(name, model_type) == 0) return MODEL_FAMILIES[i];
        units_guess_offer(&guess, name);
    }
    const char *wanted = json_has(object, "talker_config") ? "thinker_config" : "text_config";
    const char *hint = parts_left_out(arena, object)
                           ? arena_print(arena, " (and there is no \"%s\")", wanted)
                           : "";
    if (guess.best && guess.distance <= SLIPS_MAX)
        hint = arena_print(arena, "%s, did you mean \"%s\"?", hint, guess.best);
    json_fail(&value, err, "unknown \"%s\"%s; known (a * is one of several): %s", model_type, hint,
              known_names(arena));
    return NULL;
}

// A cursor whose document and parents live in the arena: the caller's may be on its stack.
static struct json keep_cursor(struct arena *arena, const struct json *cursor,
                               const struct json_document *document)
{
    struct json kept = *cursor;
    kept.document = document;
    if (!cursor->parent) return kept;
    struct json *parent = ARENA_NEW(arena, struct json, 1);
    *parent = keep_cursor(arena, cursor->parent, document);
    kept.parent = parent;
    return kept;
}

// Warnings wait until the config is read: beside an error there is one line, the error.
struct waiting {
    struct arena *arena;
    const char *line;
    struct waiting *next, **last;
};

static void hold_back(void *context, const char *line)
{
    struct waiting *first = context;
    struct waiting *added = ARENA_NEW(first->arena, struct waiting, 1);
    added->line = arena_copy(first->arena, line);
    *first->last = added;
    first->last = &added->next;
}

static const char *note_of_parts(struct arena *arena, const struct json *whole,
                                 const struct family_reader *reader)
{
    if (reads_parts(whole)) return NULL;
    const char *parts = parts_left_out(arena, whole), *path = whole->document->path;
    bool is_nested = whole != reader->object;
    if (!parts && !is_nested) return NULL;
    return arena_print(arena, "%s: the language model alone is read%s%s%s%s%s", path,
                       is_nested ? ", from text_config" : "",
                       reader->is_tie_given ? " and tie_word_embeddings beside it" : "",
                       parts ? "; left out: " : "", parts ? parts : "",
                       parts ? " and what joins them" : "");
}

static const char *note_of_absent(struct arena *arena, const struct family_reader *reader,
                                  const struct model_family *family)
{
    const struct family_ledger *ledger = reader->ledger;
    if (!ledger->taken && !ledger->off) return NULL;
    const char *off = ledger->off ? arena_print(arena, "no %s", ledger->off) : "";
    return arena_print(arena, "%s: not given, taken from %s: %s%s%s",
                       reader->object->document->path, family->config_class,
                       ledger->taken ? ledger->taken : "", ledger->taken && ledger->off ? "; " : "",
                       off);
}

static const char **notes_of(struct arena *arena, const struct json *whole,
                             const struct family_reader *reader, const struct model_family *family)
{
    const char **notes = ARENA_NEW(arena, const char *, NOTES_MAX);
    const char *lines[] = {
        note_of_parts(arena, whole, reader),
        note_of_absent(arena, reader, family),
        reader->ledger->remark
            ? arena_print(arena, "%s: %s", whole->document->path, reader->ledger->remark)
            : NULL,
        json_has(whole, "quantization_config")
            ? arena_print(arena,
                          "%s: quantization_config is not heeded: training is in the precision of "
                          "the run",
                          whole->document->path)
            : NULL,
    };
    int count = 0;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (lines[i]) notes[count++] = lines[i];
    }
    assert(count < NOTES_MAX);
    return notes;
}

// Whether the embeddings are tied is said beside text_config by some, inside by others.
static bool tie_around(const struct json *whole, const struct json *text, bool *is_tied,
                       struct err *err)
{
    static const char KEY[] = "tie_word_embeddings";
    if (err->kind || whole == text || json_has(text, KEY) || !json_has(whole, KEY)) return false;
    struct json value = json_get(whole, KEY, err);
    *is_tied = json_bool(&value, err);
    return !err->kind;
}

static void remark_tie(const struct json *whole, const struct json *text,
                       struct family_ledger *ledger)
{
    static const char KEY[] = "tie_word_embeddings";
    struct err fault = {0};
    if (whole == text || !json_has(text, KEY) || !json_has(whole, KEY) || ledger->remark) return;
    struct json inside = json_get(text, KEY, &fault), around = json_get(whole, KEY, &fault);
    if (json_bool(&inside, &fault) == json_bool(&around, &fault) || fault.kind) return;
    ledger->remark = "tie_word_embeddings is taken from text_config; around it stands the opposite";
}

// The object that plans embed: text_config with what was said around it.
static void embed_tied(struct arena *arena, const struct json *text, bool is_tied,
                       struct model_config *config)
{
    struct json_writer writer = {.arena = arena};
    struct err fault = {0};
    int count = json_member_count(text, &fault);
    json_open(&writer, NULL, '{');
    for (int i = 0; i < count; i++) {
        struct json member = json_item(text, i);
        if (strcmp(json_key(&member), "tie_word_embeddings") == 0) continue;
        json_put_copy(&writer, json_key(&member), &member);
    }
    json_put_bool(&writer, "tie_word_embeddings", is_tied);
    json_close(&writer, '}');
    bool parsed = json_parse(arena, text->document->path, writer.text, writer.length,
                             &config->document, &fault);
    assert(parsed && "a copy of what was parsed");
    (void)parsed;
    config->config = json_root(&config->document);
}

static struct model_config *make_config(struct arena *arena, const char *name,
                                        const struct model_family *family,
                                        const struct family_reader *reader,
                                        const struct json *whole, const void *fields)
{
    struct model_config *config = ARENA_NEW(arena, struct model_config, 1);
    config->name = arena_copy(arena, name);
    config->model_type = family->model_type;
    config->document = *reader->object->document;
    config->config = keep_cursor(arena, reader->object, &config->document);
    config->fields = fields;
    config->family = family;
    config->notes = notes_of(arena, whole, reader, family);
    return config;
}

// An error beside dimensions that were not given may come from them.
static void *blame_assumed(const struct family_ledger *ledger, struct err *err)
{
    size_t length = strlen(err->text);
    if (ledger->assumed && !ledger->missing) {
        snprintf(err->text + length, sizeof err->text - length, " (not given, so taken: %s)",
                 ledger->assumed);
    }
    return NULL;
}

static struct model_config *read_config(struct arena *arena, const char *name,
                                        const struct json *object, warn_function *warn,
                                        void *context, struct err *err)
{
    struct waiting waiting = {.arena = arena, .last = &waiting.next};
    struct family_ledger ledger = {0};
    struct json text = *object;
    bool is_nested = json_is_object(object) && json_has(object, "text_config"), is_tied = false;
    is_nested = is_nested && !reads_parts(object);
    if (is_nested) text = json_get(object, "text_config", err);
    const struct model_family *family = find_family(arena, &text, err);
    if (!family) return NULL;
    struct family_reader reader = {.arena = arena,
                                   .object = is_nested ? &text : object,
                                   .ledger = &ledger,
                                   .warn = hold_back,
                                   .context = &waiting,
                                   .err = err};
    reader.is_tie_given = tie_around(object, reader.object, &is_tied, err);
    family_refuse(&reader, family->model_type);
    struct family_reader around = reader;
    around.object = object;
    if (is_nested) family_refuse(&around, "");
    const void *fields = err->kind ? NULL : family->read(&reader);
    if (err->kind) return blame_assumed(&ledger, err);

    assert(fields);
    if (family->build != decoder_graph)
        return make_config(arena, name, family, &reader, object, fields);
    struct decoder *decoder = ARENA_NEW(arena, struct decoder, 1);
    *decoder = *(const struct decoder *)fields;
    if (reader.is_tie_given) decoder->tied = is_tied;
    family_tell(&reader, decoder);
    remark_tie(object, reader.object, &ledger);
    struct model_config *config = make_config(arena, name, family, &reader, object, decoder);
    if (reader.is_tie_given) embed_tied(arena, reader.object, is_tied, config);
    for (const struct waiting *at = waiting.next; at && warn; at = at->next) {
        warn(context, at->line);
    }
    return config;
}

void model_note_first(struct arena *arena, struct model_config *config, const char *note)
{
    int count = 0;
    while (config->notes && config->notes[count])
        count++;
    const char **notes = ARENA_NEW(arena, const char *, count + 2);
    if (count) memcpy(notes + 1, config->notes, (size_t)count * sizeof *notes);
    notes[0] = note;
    config->notes = notes;
}

// Of a model that speaks what it thinks, the latter.
struct model_config *model_read(struct arena *arena, const char *name, const struct json *object,
                                warn_function *warn, void *context, struct err *err)
{
    assert(name && *name && "plans and messages call the model by it");
    static const char THINKER[] = "thinker_config";
    if (err->kind) return NULL;
    struct json thinker;
    if (json_is_object(object) && json_has(object, THINKER)) {
        thinker = json_get(object, THINKER, err);
        object = &thinker;
    }
    const char *note = NULL;
    struct err fault = {0};
    const struct json *whole = err->kind ? NULL : defaults_under(arena, object, &note, err);
    struct model_config *config =
        whole ? read_config(arena, name, whole, NULL, NULL, &fault) : NULL;
    // An error stands where the file has its cause.
    if (!config) return read_config(arena, name, object, warn, context, err);
    model_note_first(arena, config, note);
    return config;
}

// The file's name without .json, .onnx, .pt2 or .mlir; of a config.json, which is what the hub
// calls all of them, the folder's where the path has one.
static const char *base_name(struct arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = arena_copy(arena, slash ? slash + 1 : path);
    char *end = strrchr(name, '.');
    if (end && (strcmp(end, ".json") == 0 || exported_is(name))) *end = '\0';
    plain_make(name);
    if (!slash || slash == path || strcmp(name, "config") != 0) return name;
    const char *folder = arena_print(arena, "%.*s", (int)(slash - path), path);
    slash = strrchr(folder, '/');
    if (slash) folder = slash + 1;
    return *folder == '.' || !*folder ? name : folder;
}

// What has no bound Python writes as Infinity, which is no JSON (time_step_limit of mamba2): read
// as 1e300. Inside texts it is a word.
static void bound_numbers(char *text)
{
    static const char INFINITE[] = "Infinity", BOUND[] = "1e300   ";
    bool is_text = false;
    for (char *at = text; *at; at++) {
        if (is_text && *at == '\\' && at[1]) {
            at++;
        } else if (*at == '"') {
            is_text = !is_text;
        } else if (!is_text && strncmp(at, INFINITE, sizeof INFINITE - 1) == 0) {
            memcpy(at, BOUND, sizeof BOUND - 1);
        }
    }
}

static bool load_config(struct arena *arena, const char *path, struct json_document *document,
                        struct err *err)
{
    static const size_t BYTES_MOST = (size_t)64 << 20;
    size_t bytes = 0;
    char *text = file_read(arena, path, BYTES_MOST, &bytes, err);
    if (!text) return false;
    bound_numbers(text);
    return json_parse(arena, path, text, bytes, document, err);
}

struct model_config *model_load(struct arena *arena, const char *name, warn_function *warn,
                                void *context, struct err *err)
{
    if (exported_is(name))
        return exported_load(arena, name, base_name(arena, name), warn, context, err);
    const char *wanted = hub_model(arena, name, err);
    const char *path = wanted ? file_find_data(arena, "models/zoo", wanted, "model", err) : NULL;
    if (!path) return NULL;
    struct json_document document = {0};
    if (!load_config(arena, path, &document, err)) return NULL;
    struct json root = json_root(&document);
    struct model_config *config =
        model_read(arena, base_name(arena, path), &root, warn, context, err);
    // What a shipped file leaves out is as its model has it (tests/models/test_import.c counts it).
    bool is_shipped = strcmp(path, wanted) != 0;
    if (config && is_shipped) config->notes = ARENA_NEW(arena, const char *, 1);
    if (config && is_shipped && strcmp(wanted, name) != 0)
        model_note_first(arena, config, arena_print(arena, "%s is shipped as %s", name, wanted));
    return config;
}

// Operators stand behind those whose results they read, and links stay inside the block.
static void check_block(const struct block *block)
{
    assert(block->input_count <= BLOCK_EDGES && block->output_count <= BLOCK_EDGES);
    for (int o = 0; o < block->op_count; o++) {
        const struct op *op = &block->ops[o];
        assert(op->phase == PHASE_FORWARD && op->forward_op == o);
        for (int i = 0; i < op->input_count; i++) {
            assert(op->inputs[i] >= 0 && op->inputs[i] < block->tensor_count);
            assert(block->tensors[op->inputs[i]].producer < o);
        }
        for (int i = 0; i < op->output_count; i++)
            assert(block->tensors[op->outputs[i]].producer == o);
    }
}

// What the planner, lowering and every count take for granted of a graph.
static void check_graph(const struct graph *graph)
{
    int layers = 0;
    assert(graph->sequence_count > 0 && graph->block_count > 0);
    for (int i = 0; i < graph->sequence_count; i++) {
        assert(graph->sequence[i] >= 0 && graph->sequence[i] < graph->block_count);
        layers += graph->blocks[graph->sequence[i]].role == BLOCK_LAYER;
    }
    assert(graph->blocks[graph->sequence[0]].role == BLOCK_EMBEDDING);
    assert(graph->blocks[graph->sequence[graph->sequence_count - 1]].role == BLOCK_HEAD);
    assert(graph->layer_count == layers);
    assert(graph->parameter_count >= graph->active_parameter_count);
    for (int b = 0; b < graph->block_count; b++)
        check_block(&graph->blocks[b]);
}

struct graph *model_graph(struct arena *arena, const struct model_config *config,
                          const struct import_options *options)
{
    struct graph *graph = config->family->build(arena, config->fields, options);
    check_graph(graph);
    graph->name = config->name;
    return graph;
}
