#include "models/onnx/blocks_graph.h"
#include "models/onnx/names.h"

// Behind which operators the graph may be cut: true at those where one activation alone goes on,
// but for the last one. A loss alone would be a block without scores.
static bool *find_narrow(const struct blocks_graph *b, int *carried)
{
    bool *is_narrow = ARENA_NEW(b->arena, bool, b->operator_count);
    int *ending = ARENA_NEW(b->arena, int, b->operator_count), live = 0;
    for (int t = 0; t < b->graph->tensor_count; t++) {
        if (b->maker[t] >= 0 && b->last_reader[t] > b->maker[t]) ending[b->last_reader[t]]++;
    }
    for (int at = 0; at < b->operator_count; at++) {
        int output = b->operators[at].node->outputs[0];
        live -= ending[at];
        bool goes_on = b->last_reader[output] > at;
        for (int o = 0; o < b->operators[at].node->output_count; o++)
            live += b->last_reader[b->operators[at].node->outputs[o]] > at;
        is_narrow[at] = goes_on && live == 1 && b->operators[at + 1].kind != BLOCKS_LOSS;
        carried[at] = output;
    }
    return is_narrow;
}

// What an operator is, with what its inputs are made by: the ends of blocks that are alike agree.
static const char *signature(const struct blocks_graph *b, int at)
{
    const struct blocks_operator *op = &b->operators[at];
    const char *text = op->node->type;
    for (int i = 0; i < op->input_count; i++) {
        int maker = b->maker[op->inputs[i]];
        if (maker >= 0) text = arena_print(b->arena, "%s<%s", text, b->operators[maker].node->type);
    }
    return text;
}

// Where none of that makes three blocks, every narrow place is a cut.
static bool *cut_all(const struct blocks_graph *b, bool *is_narrow, int *count)
{
    *count = 0;
    for (int at = 0; at < b->operator_count; at++)
        *count += is_narrow[at];
    return is_narrow;
}

static bool *find_cuts(const struct blocks_graph *b, int *count)
{
    int *carried = ARENA_NEW(b->arena, int, b->operator_count);
    bool *is_narrow = find_narrow(b, carried);
    bool *is_cut = ARENA_NEW(b->arena, bool, b->operator_count);
    struct names ends = {0};
    for (int at = 0; at < b->operator_count; at++) {
        if (is_narrow[at] && b->reader_count[carried[at]] > 1)
            names_put(b->arena, &ends, signature(b, at), at);
    }
    *count = 0;
    for (int at = 0; at + 1 < b->operator_count; at++) {
        bool is_end = names_find(&ends, signature(b, at)) >= 0;
        bool before_product = b->operators[at + 1].kind == BLOCKS_PRODUCT;
        // A cut in front of the first product would leave a block of nothing much.
        is_cut[at] = is_narrow[at] && (ends.key_count ? is_end : before_product && at > 0);
        *count += is_cut[at];
    }
    return *count < 2 ? cut_all(b, is_narrow, count) : is_cut;
}

static int weight_at(const struct blocks_graph *b, const struct blocks_operator *op, int i)
{
    int tensor = i < op->input_count ? op->inputs[i] : op->bias;
    // Exporters make one of vectors that are equal, as biases and the factors of norms are before
    // training: each block has its own.
    bool is_one = tensor >= 0 && b->is_trained[tensor] && b->graph->tensors[tensor].rank > 1;
    return is_one ? tensor : -1;
}

// A weight that two blocks read would be two, but for one that the first and the last share, as a
// table of tokens and a head do. What lies between other readers is one block: true where cuts
// went.
static bool join_readers(struct blocks_graph *b, bool *is_cut, int *cuts)
{
    int count = b->graph->tensor_count, segment = 0, last = *cuts;
    int *first = ARENA_NEW(b->arena, int, count);
    int *until = ARENA_NEW(b->arena, int, last + 1);  // of a segment: the last that is one with it
    for (int at = 0; at < b->operator_count; at++) {
        const struct blocks_operator *op = &b->operators[at];
        for (int i = 0; i <= op->input_count; i++) {
            int weight = weight_at(b, op, i);
            if (weight < 0) continue;
            bool is_begun = first[weight] > 0;
            if (!is_begun) first[weight] = segment + 1;
            // Beside the first block the others are one with the last.
            int start = first[weight] - 1;
            if (is_begun && segment > start) {
                b->is_tied[weight] = start == 0;
                int begin = start > 0 ? start : segment, end = start > 0 ? segment : last;
                until[begin] = until[begin] > end ? until[begin] : end;
            }
        }
        segment += is_cut[at];
    }
    int open = 0;
    segment = 0;
    for (int at = 0; at < b->operator_count; at++) {
        open = open > until[segment] ? open : until[segment];
        if (!is_cut[at]) continue;
        if (segment < open) {
            is_cut[at] = false;
            (*cuts)--;
        }
        segment++;
    }
    return *cuts < last;
}

void blocks_join(struct blocks_graph *b, bool *is_cut, int *count)
{
    bool goes = false;
    for (int at = 0; at < b->operator_count; at++) {
        if (!is_cut[at]) continue;
        is_cut[at] = !goes;
        *count -= goes;
        goes = !goes;
    }
}

bool *blocks_cut(struct blocks_graph *b, int *count)
{
    bool *is_cut = find_cuts(b, count);
    // Where blocks became one, what others share is to be looked at again.
    while (join_readers(b, is_cut, count))
        ;
    return is_cut;
}
