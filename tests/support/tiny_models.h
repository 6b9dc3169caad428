#pragma once
#include "models/import.h"

// Configs so small that every gradient can be checked, one or more for each family and option that
// changes the graph. NULL ends the list.

extern const char TINY_LLAMA[], TINY_GPT2[], TINY_MIXTRAL[], TINY_QWEN2_MOE[];
extern const char TINY_DEEPSEEK_DENSE[], TINY_DEEPSEEK[], TINY_DEEPSEEK_MTP[];
extern const char *const TINY_MODELS[];

// Fails the test when the config is wrong.
struct graph *tiny_graph(struct arena *arena, const char *text,
                         const struct import_options *options);
