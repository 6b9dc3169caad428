#pragma once
#include "exchange/facts.h"

// A model as facts: "model.layers", "model.hidden", ... and back to a config that models/import.h
// reads. One table of keys a family; how a family differs from others is told as facts too
// ("model.norm" is "rms" or "layer").

// Adds the facts of the model. Of a family that no table here knows only "model.family" and what
// the graph says is told, and "model.other" names it, which no program has a row for.
MUST_CHECK bool model_facts_put(struct facts *facts, const struct model_config *model,
                                const struct graph *graph, struct err *err);

// The facts as the text of a config.json. NULL where they are those of no family, or some that it
// needs are not said: `lacks` then names the first ("model.hidden").
const char *model_facts_config(struct arena *arena, const struct facts *facts, const char **lacks);

// The shipped model that has all of these facts: of several that with as many positions, else the
// first by name. NULL: none.
const char *model_facts_shipped(struct arena *arena, const struct facts *facts, struct err *err);

// Whether `model` has everything that the facts say of one, beside what software settles for
// itself.
MUST_CHECK bool model_facts_agree(struct arena *arena, const struct facts *facts,
                                  const struct model_config *model, bool *is_same, struct err *err);
