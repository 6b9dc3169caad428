#include "tests/support/memory_graphs.h"
#include "tests/support/memory_net.h"

// A product with a weight and its bias.
static int linear(struct net *net, int64_t tokens, int64_t in, int64_t out, int x)
{
    int weight = net_parameter(net, "weight", in * out), bias = net_parameter(net, "bias", out);
    int y = net_op(net, "matmul", SAVES_OTHERS, tokens * out, x, weight);
    return net_op(net, "bias", SAVES_FLOW, tokens * out, y, bias);
}

static int layer_norm(struct net *net, int64_t tokens, int64_t width, int x)
{
    int scale = net_parameter(net, "scale", width), shift = net_parameter(net, "shift", width);
    int y = net_op(net, "normalise", SAVES_OUTPUT, tokens * width, x, -1);
    y = net_op(net, "scale", SAVES_OTHERS, tokens * width, y, scale);
    return net_op(net, "shift", SAVES_FLOW, tokens * width, y, shift);
}

enum { GPT_SEQ = 1024, GPT_HEAD = 64, GPT_VOCAB = 50257 };

static int attention(struct net *net, int64_t tokens, int64_t width, int x)
{
    int64_t scores = tokens * GPT_SEQ * (width / GPT_HEAD);
    int qkv = linear(net, tokens, width, 3 * width, x);
    int q = net_op(net, "slice_q", SAVES_NOTHING, tokens * width, qkv, -1);
    int k = net_op(net, "slice_k", SAVES_NOTHING, tokens * width, qkv, -1);
    int v = net_op(net, "slice_v", SAVES_NOTHING, tokens * width, qkv, -1);
    int y = net_op(net, "scores", SAVES_OTHERS, scores, q, k);
    y = net_op(net, "divide", SAVES_NOTHING, scores, y, -1);
    y = net_op(net, "mask", SAVES_NOTHING, scores, y, -1);
    y = net_op(net, "softmax", SAVES_OUTPUT, scores, y, -1);
    y = net_op(net, "dropout", SAVES_NOTHING, scores, y, -1);
    y = net_op(net, "context", SAVES_OTHERS, tokens * width, y, v);
    y = net_op(net, "merge", SAVES_NOTHING, tokens * width, y, -1);
    y = linear(net, tokens, width, width, y);
    return net_op(net, "dropout", SAVES_NOTHING, tokens * width, y, -1);
}

static int feed_forward(struct net *net, int64_t tokens, int64_t width, int x)
{
    int y = linear(net, tokens, width, 4 * width, x);
    y = net_op(net, "gelu", SAVES_INPUTS, 4 * tokens * width, y, -1);
    y = linear(net, tokens, 4 * width, width, y);
    return net_op(net, "dropout", SAVES_NOTHING, tokens * width, y, -1);
}

struct memory_graph *graph_gpt(struct arena *arena, int layer_count, int batch, int width)
{
    struct net net = {.arena = arena};
    int64_t tokens = (int64_t)batch * GPT_SEQ, size = tokens * width;
    int ids = net_data(&net, "ids", 8 * tokens), labels = net_data(&net, "labels", 8 * tokens);
    int words = net_parameter(&net, "words", (int64_t)GPT_VOCAB * width);
    int places = net_parameter(&net, "places", (int64_t)GPT_SEQ * width);
    int x = net_op(&net, "gather", SAVES_OTHERS, size, ids, words);
    x = net_op(&net, "add_places", SAVES_FLOW, size, x, places);
    x = net_op(&net, "dropout", SAVES_NOTHING, size, x, -1);
    for (int i = 0; i < layer_count; i++) {
        int y = attention(&net, tokens, width, layer_norm(&net, tokens, width, x));
        x = net_op(&net, "residual", SAVES_FLOW, size, x, y);
        y = feed_forward(&net, tokens, width, layer_norm(&net, tokens, width, x));
        x = net_op(&net, "residual", SAVES_FLOW, size, x, y);
    }
    x = layer_norm(&net, tokens, width, x);
    int64_t logits = tokens * GPT_VOCAB;
    x = net_op(&net, "head", SAVES_OTHERS, logits, x, words);
    x = net_op(&net, "log_softmax", SAVES_OUTPUT, logits, x, -1);
    x = net_op(&net, "loss", SAVES_OTHERS, 1, x, labels);
    return net_train(&net, "gpt", x);
}

// Convolution, batch norm, relu. The picture is `size` x `size` after it.
static int conv(struct net *net, int batch, int kernel, int in, int out, int size, int x)
{
    int64_t elements = (int64_t)batch * size * size * out;
    int weight = net_parameter(net, "filter", (int64_t)kernel * kernel * in * out);
    const int normed[] = {net_op(net, "conv", SAVES_OTHERS, elements, x, weight),
                          net_parameter(net, "scale", out), net_parameter(net, "shift", out)};
    int y = net_op_4(net, "norm", SAVES_INPUTS, elements, normed, 3);
    return net_op(net, "relu", SAVES_OUTPUT, elements, y, -1);
}

static int pool(struct net *net, int batch, int channels, int size, int x)
{
    return net_op(net, "pool", SAVES_INPUTS, (int64_t)batch * size * size * channels, x, -1);
}

static struct memory_graph *classify(struct net *net, const char *name, int batch, int channels,
                                     int x)
{
    enum { CLASSES = 1000 };
    int labels = net_data(net, "labels", 8 * (int64_t)batch);
    x = net_op(net, "mean", SAVES_NOTHING, (int64_t)batch * channels, x, -1);
    x = linear(net, batch, channels, CLASSES, x);
    x = net_op(net, "log_softmax", SAVES_OUTPUT, (int64_t)batch * CLASSES, x, -1);
    return net_train(net, name, net_op(net, "loss", SAVES_OTHERS, 1, x, labels));
}

static int stem(struct net *net, int batch)
{
    int picture = net_data(net, "picture", (int64_t)batch * 3 * 224 * 224 * 4);
    return pool(net, batch, 64, 56, conv(net, batch, 7, 3, 64, 112, picture));
}

static int inception_block(struct net *net, int batch, int in, int out, int size, int x)
{
    const int branches[] = {
        conv(net, batch, 1, in, out / 4, size, x),
        conv(net, batch, 3, out / 4, out / 2, size, conv(net, batch, 1, in, out / 4, size, x)),
        conv(net, batch, 5, out / 16, out / 8, size, conv(net, batch, 1, in, out / 16, size, x)),
        conv(net, batch, 1, in, out / 8, size, pool(net, batch, in, size, x)),
    };
    return net_op_4(net, "concat", SAVES_NOTHING, (int64_t)batch * size * size * out, branches, 4);
}

struct memory_graph *graph_inception(struct arena *arena, int block_count, int batch)
{
    struct net net = {.arena = arena};
    int channels = 192, size = 28;
    int x = conv(&net, batch, 3, 64, channels, 56, stem(&net, batch));
    x = pool(&net, batch, channels, size, x);
    for (int i = 0; i < block_count; i++) {
        bool is_smaller = i > 0 && i * 3 / block_count != (i - 1) * 3 / block_count;
        if (is_smaller) x = pool(&net, batch, channels, size /= 2, x);
        int out = 256 << (i * 3 / block_count);
        x = inception_block(&net, batch, channels, out, size, x);
        channels = out;
    }
    return classify(&net, "inception", batch, channels, x);
}

struct memory_graph *graph_resnet(struct arena *arena, int block_count, int batch)
{
    struct net net = {.arena = arena};
    int x = stem(&net, batch), channels = 64, size = 56;
    for (int i = 0; i < block_count; i++) {
        int stage = i * 4 / block_count, inner = 64 << stage, out = 4 * inner;
        if (i > 0 && stage != (i - 1) * 4 / block_count) size /= 2;
        int y = conv(&net, batch, 1, channels, inner, size, x);
        y = conv(&net, batch, 3, inner, inner, size, y);
        y = conv(&net, batch, 1, inner, out, size, y);
        if (channels != out) x = conv(&net, batch, 1, channels, out, size, x);
        int64_t elements = (int64_t)batch * size * size * out;
        x = net_op(&net, "residual", SAVES_FLOW, elements, x, y);
        x = net_op(&net, "relu", SAVES_OUTPUT, elements, x, -1);
        channels = out;
    }
    return classify(&net, "resnet", batch, channels, x);
}
