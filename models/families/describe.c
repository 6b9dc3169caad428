#include "core/divisor.h"
#include "models/families/layer_kinds.h"

#include <assert.h>
#include <math.h>

// What a graph says of its model as a whole, before it has blocks.

// Where nothing attends, heads are those of the scan.
static void describe_scan(struct graph *graph, const struct decoder *d)
{
    if (!layer_kind_any(d, LAYER_SCAN)) return;
    graph->scan_head_count = d->scan.head_count;
    graph->scan_group_count = d->scan.group_count;
    graph->has_group_norm = d->scan.norm_groups > 1;
    if (layer_kind_any(d, LAYER_ATTENTION)) return;
    graph->head_count = d->scan.head_count;
    graph->kv_head_count = d->scan.group_count;
    graph->head_dim = d->scan.head_dim;
}

struct graph *decoder_describe(struct arena *arena, const struct decoder *d,
                               const struct import_options *options)
{
    struct graph *graph = ARENA_NEW(arena, struct graph, 1);
    int64_t multiple = options->vocab_multiple > 1 ? options->vocab_multiple : 1;
    graph->model_type = d->model_type;
    graph->layer_count = (int)(d->layer_count + d->mtp_count);
    // The block that joins them counts as a layer.
    if (d->encoder) graph->layer_count += (int)d->encoder->layer_count + 1;
    // A pair of stages adds up what they have of a tied parameter that the first block reads, no
    // more: not what all layers read, nor what encoders of sound do not.
    bool has_table = d->relative.bucket_count > 0 && !d->relative.is_of_layer;
    bool is_one = has_table || (d->encoder && d->encoder->sound.place_count > 0);
    if (decoder_asks_encoder(d)) graph->stage_count_max = is_one ? 1 : 2;
    bool is_of_all = d->per_layer_width > 0 || d->disentangled.span > 0 || d->layers_are_one ||
                     (has_table && !d->encoder);
    if (is_of_all) graph->stage_count_max = 1;
    if (d->encoder && !d->tied && decoder_place_count(d->encoder) > 0) graph->stage_count_max = 0;
    // Nor is the first block one that reads tokens where pictures stand in the text.
    if (d->prefix > 0 && d->tied) graph->stage_count_max = 1;
    graph->ties_are_wide = graph->stage_count_max > 0;
    if (!options->ties_pairs) graph->stage_count_max = 0;
    graph->prefix = d->prefix;
    graph->front_count = decoder_front_count(d->encoder ? d->encoder : d);
    graph->contrasts = d->contrast.width > 0;
    graph->hidden = d->hidden;
    graph->head_count = d->head_count;
    graph->kv_head_count = d->kv_head_count;
    if (d->global.head_dim > 0)
        graph->kv_head_count = common_divisor(d->kv_head_count, d->global.kv_head_count);
    graph->head_dim = d->head_dim;
    graph->ffn = d->ffn;
    graph->vocab = d->vocab;
    graph->expert_count = d->experts.count;
    graph->top_k = d->experts.top_k;
    graph->expert_ffn = d->experts.ffn;
    graph->has_indexer = d->indexer.top_k > 0;
    graph->out_group_count = d->pooled.out_groups;
    graph->vocab_padded = (d->vocab + multiple - 1) / multiple * multiple;
    graph->seq_len_max = d->seq_len_max;
    if (options->dropout) {
        graph->dropout_ratio =
            fmax(d->hidden_dropout, fmax(d->attention_dropout, d->embedding_dropout));
    }
    describe_scan(graph, d);
    // Those with two towers or pictures in the text have an encoder.
    if (d->encoder && (graph->contrasts || d->prefix > 0))
        graph->head_count = common_divisor(d->head_count, d->encoder->head_count);
    if (graph->contrasts) graph->kv_head_count = graph->head_count;
    assert(graph->vocab_padded >= graph->vocab && graph->vocab_padded % multiple == 0);
    assert(graph->top_k <= graph->expert_count);
    return graph;
}
