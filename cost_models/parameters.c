#include "cost_models/parameters.h"

#include <assert.h>
#include <string.h>

enum { TIE_MAX = 16 };

struct ties {
    const char *names[TIE_MAX];
    int count;
};

// True the first time, and for what is not tied.
static bool is_new(struct ties *ties, const char *tie)
{
    if (!tie) return true;
    for (int i = 0; i < ties->count; i++) {
        if (strcmp(ties->names[i], tie) == 0) return false;
    }
    assert(ties->count < TIE_MAX);
    ties->names[ties->count++] = tie;
    return true;
}

static void add_partial(struct parameter_sums *sums, const struct parameter *parameter, int count)
{
    enum parameter_kind kind = parameter->kind;
    unsigned axes = parameter->gradient_partial_axes;
    int i = 0;
    while (i < sums->partial_count &&
           (sums->partial[i].axes != axes || sums->partial[i].kind != kind))
        i++;
    if (i == sums->partial_count) {
        assert(i < PARTIAL_MAX);
        sums->partial[i].kind = kind;
        sums->partial[i].axes = axes;
        sums->partial[i].elements = 0;
        sums->partial[i].tensor_count = 0;
        sums->partial_count++;
    }
    sums->partial[i].elements += (double)parameter->elements * count;
    sums->partial[i].tensor_count += parameter->tensor_count * count;
}

struct parameter_sums parameter_sums(const struct program *program,
                                     const struct program_chunk *chunk)
{
    struct parameter_sums sums = {0};
    struct ties ties = {0};
    for (int u = 0; u < chunk->use_count; u++) {
        const struct block_use *use = &chunk->uses[u];
        const struct block_program *block = program->blocks[use->block_program];
        for (int i = 0; i < block->parameter_count; i++) {
            const struct parameter *parameter = &block->parameters[i];
            if (!is_new(&ties, parameter->tie)) continue;
            // What repeats is tied to itself.
            int count = parameter->tie ? 1 : use->count;
            sums.elements[parameter->kind] += (double)parameter->elements * count;
            sums.tensor_count[parameter->kind] += parameter->tensor_count * count;
            add_partial(&sums, parameter, count);
        }
    }
    return sums;
}

double parameter_stored(const struct program *program, const struct parameter_sums *sums,
                        size_t axes)
{
    double elements = 0;
    for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++) {
        const char *storage = (const char *)&program->storage[kind];
        elements += sums->elements[kind] /
                    mesh_size(&program->mesh, *(const unsigned *)(const void *)(storage + axes));
    }
    return elements;
}

double parameter_weight_bytes(enum precision precision)
{
    double bytes = precision_bytes(precision);
    return bytes < 2 ? 2 : bytes;
}
