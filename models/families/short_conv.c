#include "models/families/layers.h"

#include <assert.h>

// The mixer of LFM2 (transformers' Lfm2ShortConv): of three projections of a token one is
// multiplied with the first gate, passes through a causal convolution of a few taps and is
// multiplied with the second; no state goes from token to token. The one matrix that the published
// models have for all three is written as its parts, as those of models/families/scan.c.

int layers_short_conv(struct layers *layers, int input)
{
    assert(layers->decoder->scan.rule == SCAN_CONV);
    const struct decoder *d = layers->decoder;
    const struct scan_sizes *scan = &d->scan;
    struct shape heads = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_HEAD, scan->head_count},
                               {DIM_HEAD_DIM, scan->head_dim});
    int b = layers_scan_project(layers, input, "scan.b", heads);
    int c = layers_scan_project(layers, input, "scan.c", heads);
    int x = layers_scan_project(layers, input, "scan.x", heads);
    x = layers_gate(layers, "scan.in_gate", b, x, FUNCTION_SCALE, 1);
    x = layers_scan_convolve(layers, "scan.conv", x);
    x = layers_gate(layers, "scan.out_gate", c, x, FUNCTION_SCALE, 1);
    return layers_scan_out(layers, x);
}
