#pragma once
#include "exchange/target.h"

// A file that another program is started with as a plan as far as it says one: model, workload,
// pins; and every option of it that says none.

struct imported {
    const char *path;
    const struct exchange_target *target;
    const struct exchange_syntax *syntax;  // of the file
    const struct stack *stack;             // of the target
    struct settings settings;
    struct facts *facts;
    struct said said;
    const char *model;   // a shipped model that it is; NULL
    const char *config;  // else config.json of what it says; NULL
    const char *lacks;   // else what it does not say
    bool is_completed;   // what the file leaves out is that of the shipped model
    bool is_beside;      // the model is that of config.json in the same folder
    bool has_other;      // which is there, and is not the model that the file says
};

// `target` NULL: that with the most keys of its own in the file. ERR_INPUT where none has any.
MUST_CHECK struct imported *import_file(struct arena *arena, const char *path,
                                        const struct exchange_target *target, struct err *err);
// pins.json, exchange/pins.schema.json.
char *import_json(struct arena *arena, const struct imported *imported);
// The same for people.
char *import_text(struct arena *arena, const struct imported *imported);
