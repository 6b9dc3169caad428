#pragma once
#include "models/graph.h"

// Reads a Hugging Face config.json into a graph. One file a model family under models/families/
// gives a row {model_type, read, build}; adding a family is that file and its line in families.inc.

struct import_options {
    bool flash;              // one OP_ATTENTION, or the chain contract, softmax, dropout, contract
    bool dropout;            // honour the dropout of the config (a stack may train without)
    bool ties_pairs;         // software sums a tied gradient over a pair of stages (struct graph,
                             // stage_count_max), ours over any
    int64_t vocab_multiple;  // pad the vocabulary to a multiple of this (128 * tp); 0 or 1 = none
};

// MODEL of the command line: a path (of a config.json, or of a folder with one), a shipped name
// (models/zoo) or the id of a shipped model on the Hugging Face hub. NULL and a set `err` when the
// file is wrong; an unknown model_type lists the known ones, and missing dimensions are all named.
// Of a multimodal config the text_config is read. Near misses of known keys go to `warn`, which may
// be NULL.
// The result keeps what it read, so that a graph can be built again with other options and a plan
// can embed the config; it lives as long as the arenas of the document and of the call.
struct model_config {
    const char *name;  // file name without folder and .json
    const char *model_type;
    struct json_document document;  // the file that holds the config: its own, or a plan
    struct json config;             // the config object itself, to be embedded in plans
    const char **notes;             // what was taken for absent keys or left out; ends with NULL
    const void *fields;             // the family's own record of what it read
    const struct model_family *family;
};
MUST_CHECK struct model_config *model_load(struct arena *arena, const char *name,
                                           void (*warn)(void *context, const char *line),
                                           void *context, struct err *err);
// The same from a config object inside another file (a plan is self-contained); `name` names it.
MUST_CHECK struct model_config *model_read(struct arena *arena, const char *name,
                                           const struct json *object,
                                           void (*warn)(void *context, const char *line),
                                           void *context, struct err *err);
// Puts a line in front of what is said of a config.
void model_note_first(struct arena *arena, struct model_config *config, const char *note);
// Never fails: what can be wrong was checked by model_load.
struct graph *model_graph(struct arena *arena, const struct model_config *config,
                          const struct import_options *options);
