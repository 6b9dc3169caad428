#pragma once
#include "models/onnx.h"

// A stack of transformer layers in an ONNX graph, found by what its weights say: sizes of
// dimensions come from the table of tokens and from products with weights, heads from the scores,
// and layers are what repeats between them. What comes of it is the text of a config.json, so that
// the model goes on as if it had been given that way; keys that a graph does not have (theta,
// dropout) are absent from it and get the defaults of the class, which are said. So does
// whether the head is tied, unless it reads the table itself: exporters write it transposed.
//
// Read are the parts that gpt2, llama, qwen2, bert and vit consist of. Every operator must be one
// that these parts are exported to, and all layers must be alike; else the line names the operator.
// A mask on the scores is taken for the causal one, because its numbers may be in another file.

struct onnx_stack {
    const char *config;          // text of a config.json
    int64_t parameter_elements;  // of all weights that were recognised, but for the head's
    int64_t head_elements;
    const char *note;  // what was taken that the file does not say; NULL: nothing
};

// `graph` must have been read for training: there the weights are not folded into constants.
MUST_CHECK struct onnx_stack *onnx_stack_find(struct arena *arena, const char *path,
                                              const struct onnx_graph *graph, struct err *err);
