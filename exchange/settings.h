#pragma once
#include "core/arena.h"

#include <stdbool.h>

// The options of a program as a list of keys and values, whatever file they stand in: "--fp16" of a
// command line, "zero_optimization.stage" of JSON, "parallelism.tensor_parallel_degree" of TOML.

struct setting {
    const char *key;
    const char *value;  // "": a flag that is there
    const char *why;    // of one that is to be written: the reason
    int line;           // of one that was read, from 1
    bool is_used;       // it says a fact of the plan
    bool is_odd;        // it would, but no plan holds its value
};

struct settings {
    struct arena *arena;
    struct setting *items;
    int count, capacity;
};

// At the end. The same key with the same value is there once; with another value it is a bug.
void settings_add(struct settings *settings, const char *key, const char *value, const char *why);
// As read from line `line`: a key that is there already gets the new value, as programs have it.
void settings_read(struct settings *settings, const char *key, const char *value, int line);
struct setting *settings_find(const struct settings *settings, const char *key);
