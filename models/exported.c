#include "models/exported.h"

#include "models/onnx/blocks.h"
#include "models/onnx/stack.h"

#include <string.h>

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

bool exported_is(const char *path)
{
    return ends_with(path, ".onnx") || ends_with(path, ".pt2") || ends_with(path, ".mlir");
}

// An exported model and the config it was recognised as must agree to the last parameter.
static bool check_count(struct arena *arena, const char *path, const struct model_config *config,
                        const struct onnx_stack *stack, struct err *err)
{
    const struct import_options options = {.flash = true};
    int64_t own = model_graph(arena, config, &options)->parameter_count;
    int64_t apart = own - stack->parameter_elements;
    int64_t whole = stack->parameter_elements + stack->head_elements;
    if (apart == 0 || apart == stack->head_elements) return true;
    return err_set(err, ERR_INPUT, "%s: recognised as %s with %lld parameters, the file has %lld",
                   path, config->model_type, (long long)own, (long long)whole);
}

// What a model of tokens lost: why it is no stack, in front of what else is said of it.
static void note_blocks(struct arena *arena, struct model_config *config, const char *why)
{
    model_note_first(
        arena, config,
        arena_print(arena,
                    "%s; planned as blocks of its operators, a sample as one sequence: tensor "
                    "and context parallel have nothing to split",
                    why));
}

// The graph is read for training, because there its weights are no constants. Of dimensions
// without value a stack of layers has the length of sequences, which none of its weights depends
// on; for any other model they are an error.
static struct onnx_graph *read_graph(struct arena *arena, const char *path,
                                     struct onnx_stack **stack, struct err *no_stack,
                                     struct err *err)
{
    enum { ANY_LENGTH = 16 };
    struct onnx_options options = {.batch = 1, .training = true};
    struct onnx_graph *graph = onnx_load(arena, path, &options, err);
    if (graph) {
        *stack = onnx_stack_find(arena, path, graph, no_stack);
        return graph;
    }
    if (err->kind != ERR_INPUT) return NULL;
    options.length = ANY_LENGTH;
    graph = onnx_load(arena, path, &options, no_stack);
    *stack = graph ? onnx_stack_find(arena, path, graph, no_stack) : NULL;
    if (!*stack) return NULL;
    *err = (struct err){0};
    return graph;
}

// What is no stack of layers is planned as blocks of its operators. Of a model of tokens that
// cannot be either, the line says why its layers are unknown.
struct model_config *exported_load(struct arena *arena, const char *path, const char *name,
                                   void (*warn)(void *context, const char *line), void *context,
                                   struct err *err)
{
    struct err no_stack = {0};
    struct onnx_stack *stack = NULL;
    struct onnx_graph *graph = read_graph(arena, path, &stack, &no_stack, err);
    if (!graph) return NULL;
    bool has_tokens = onnx_reads_tokens(graph);
    const char *text = stack ? stack->config : onnx_blocks(arena, path, graph, err);
    if (!text && has_tokens) {
        const char *why = arena_copy(arena, err->text);
        *err = (struct err){0};
        err_set(err, ERR_INPUT, "%s; nor are there blocks: %s", no_stack.text, why);
    }
    struct json_document document = {0};
    if (!text || !json_parse(arena, path, text, strlen(text), &document, err)) return NULL;
    struct json root = json_root(&document);
    struct model_config *config = model_read(arena, name, &root, warn, context, err);
    if (config && stack && !check_count(arena, path, config, stack, err)) return NULL;
    if (config && !stack && has_tokens) note_blocks(arena, config, no_stack.text);
    if (config && stack && stack->note) model_note_first(arena, config, stack->note);
    return config;
}
