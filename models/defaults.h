#pragma once
#include "core/json.h"

struct arena;

// What the classes of transformers take where a config says nothing, as they write it themselves:
// models/defaults/TYPE.json, each with its transformers_version, made by
// tests/fixtures/make_default_counts.py.

// A config that has no number: its flags and names over the defaults of its model_type, and in
// `note` the numbers that were taken. NULL, and `note` as it was, where the config has a number,
// a part or a key that its class does not know, or where no defaults are shipped: then what it
// lacks has to be given. NULL and `err` where they are shipped and cannot be read.
const struct json *defaults_under(struct arena *arena, const struct json *object, const char **note,
                                  struct err *err);
