#pragma once
#include "core/err.h"

// Names of models on the Hugging Face hub ("meta-llama/Llama-2-70b-hf", with or without the
// organisation, in any case) to those that are shipped in models/zoo.

// What to load for MODEL: `name` itself when it is a file or may be a shipped name, the config.json
// of a folder, or the shipped name that a hub id stands for. NULL and a set `err`, which says how
// to get the file, for the id of a model that is not shipped.
MUST_CHECK const char *hub_model(struct arena *arena, const char *name, struct err *err);
