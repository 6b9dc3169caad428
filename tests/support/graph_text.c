#include "tests/support/graph_text.h"

#include <stdio.h>
#include <stdlib.h>

static void put_tensor(FILE *out, const struct tensor *t)
{
    fprintf(out, "tensor %s %d %d %.17g %d %d %s", t->name, t->role, t->element, t->density,
            t->producer, t->gradient_of, t->tie ? t->tie : "-");
    for (int i = 0; i < t->rank; i++)
        fprintf(out, " %d:%lld", t->extents[i].dim, (long long)t->extents[i].size);
    fprintf(out, "\n");
}

static void put_op(FILE *out, const struct op *op)
{
    fprintf(out, "op %s %d %d %.17g %.17g %.17g %lld %lld %.17g %d %lld %lld %d %d %d %d %d %d %d",
            op->name, op->kind, op->function, op->scalar, op->softcap, op->dropout_ratio,
            (long long)op->rotary_dims, (long long)op->rotary_first, op->alibi, op->causal,
            (long long)op->window, (long long)op->prefix, op->chunked, op->merge, op->top_k,
            op->group_count, op->open_groups, op->class, op->chooses);
    for (int i = 0; i < op->input_count; i++)
        fprintf(out, " %d", op->inputs[i]);
    fprintf(out, " ->");
    for (int i = 0; i < op->output_count; i++)
        fprintf(out, " %d", op->outputs[i]);
    fprintf(out, "\n");
}

static void put_graph(FILE *out, const struct graph *g)
{
    fprintf(out, "%d %lld %lld %lld %lld %lld %lld %lld %.17g\n", g->layer_count,
            (long long)g->hidden, (long long)g->head_count, (long long)g->kv_head_count,
            (long long)g->head_dim, (long long)g->ffn, (long long)g->vocab,
            (long long)g->seq_len_max, g->dropout_ratio);
    for (int i = 0; i < g->sequence_count; i++)
        fprintf(out, "%d ", g->sequence[i]);
    for (int b = 0; b < g->block_count; b++) {
        const struct block *block = &g->blocks[b];
        fprintf(out, "\nblock %s %d %d\n", block->name, block->role, block->mtp);
        for (int t = 0; t < block->tensor_count; t++)
            put_tensor(out, &block->tensors[t]);
        for (int o = 0; o < block->op_count; o++)
            put_op(out, &block->ops[o]);
    }
}

const char *graph_text(struct arena *arena, const struct graph *graph)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) abort();
    put_graph(out, graph);
    if (fclose(out) != 0) abort();
    const char *kept = arena_copy(arena, text);
    free(text);
    return kept;
}
