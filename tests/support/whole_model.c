#include "tests/support/whole_model.h"

#include "executor/random.h"
#include "tests/support/given.h"
#include "tests/support/interpreter.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

static const double PREDICTION_WEIGHT = 0.3;  // of the loss of a prediction module
enum { SEED = 7, AHEAD = 2 };  // of tests/support/run_case.c; labels of a module look 2 ahead

struct layer {
    struct differentiated facts;
    struct interpreter in;
};

struct whole_model {
    struct arena *arena;
    const struct run_case *of;
    const struct run_outcome *found;
    const struct graph *graph;
    struct layer *layers;  // by position of the sequence
    double *tokens;        // [sequence][seq + AHEAD]
};

// Synthetic data, by the rule of executor/engine/data.c.
static void draw_tokens(struct whole_model *model)
{
    int64_t length = model->of->seq_len + AHEAD, vocab = model->graph->vocab;
    model->tokens = ARENA_NEW(model->arena, double, model->of->global_batch *length);
    int octaves = 1;
    while (vocab >> octaves)
        octaves++;
    for (int64_t s = 0; s < model->of->global_batch; s++) {
        uint64_t key = random_key(random_key(SEED, 3), (uint64_t)s);
        double *row = model->tokens + s * length;
        for (int64_t i = 0; i < length; i++) {
            struct random_bits bits = random_at(key, (uint64_t)i);
            int64_t width = (int64_t)1 << bits.word[1] % (uint32_t)octaves;
            bool copies = i >= 2 && bits.word[0] % 2 == 0;
            row[i] =
                copies ? row[i - 2]
                       : (double)((width - 1 + (int64_t)(bits.word[2] % (uint64_t)width)) % vocab);
        }
    }
}

static double drawn_unit(uint64_t key, int64_t at)
{
    return random_at(key, (uint64_t)at).word[0] / 4294967296.0;
}

// Of pictures, by the same rule. Whether the tensor is of one.
static bool give_picture(struct whole_model *model, struct interpreter *in, int tensor)
{
    const struct tensor *of = &in->block->tensors[tensor];
    double *values = interpreter_array(in, tensor);
    bool is_first = strcmp(of->name, "first_place") == 0;
    bool is_kind = strcmp(of->name, "place_kinds") == 0;
    bool has_class = strcmp(of->name, "pixels") == 0;
    bool is_pixel = has_class || strcmp(of->name, "patches") == 0;
    int64_t places = of->extents[1].size, width = of->extents[2].size;
    int64_t front = model->graph->front_count;
    if (is_first || is_kind) given_places(in, tensor, is_first, front);
    for (int64_t i = 0; i < interpreter_elements(in, tensor) && is_pixel; i++) {
        int64_t picture = i / (places * width), at = i % (places * width);
        int64_t word = model->graph->prefix > 1 ? model->graph->prefix : 1;
        double label = model->tokens[picture * (model->of->seq_len + AHEAD) + word];
        uint64_t own = random_key(random_key(SEED, 4), (uint64_t)picture);
        uint64_t of_class = random_key(random_key(SEED, 5), (uint64_t)label);
        values[i] = has_class && at < front * width
                        ? 0
                        : drawn_unit(own, at) + drawn_unit(of_class, at) - 1;
    }
    return is_first || is_kind || is_pixel;
}

// A place takes three frames around its own, the second of each two; then a one. Whether the tensor
// is of sound.
static bool give_frames(struct interpreter *in, int tensor)
{
    const struct tensor *of = &in->block->tensors[tensor];
    static const char *const NAMES[] = {"frames_before", "frames_even", "frames_odd"};
    int which = 0;
    while (which < 3 && strcmp(of->name, NAMES[which]) != 0)
        which++;
    if (which == 3) return false;
    int64_t places = of->extents[1].size, width = of->extents[2].size, bands = width / 3;
    double *values = interpreter_array(in, tensor);
    for (int64_t i = 0; i < interpreter_elements(in, tensor); i++) {
        int64_t sample = i / width / places, place = i / width % places, number = i % width;
        int64_t middle = 2 * place + which - 1, frame = middle + number % 3 - 1;
        bool is_sound = number < 3 * bands && frame >= 0 && frame < 2 * places;
        uint64_t key = random_key(random_key(SEED, 6), (uint64_t)sample);
        values[i] = is_sound ? 2 * drawn_unit(key, frame * bands + number / 3) - 1 : 0;
        if (number == 3 * bands) values[i] = 1;
        if (middle < 0) values[i] = 0;
    }
    return true;
}

static void give_ids(struct whole_model *model, struct interpreter *in, int tensor)
{
    const char *name = in->block->tensors[tensor].name;
    if (give_picture(model, in, tensor) || give_frames(in, tensor)) return;
    if (given_means(in, tensor, model->graph->front_count)) return;
    if (given_pairs(in, tensor) || given_in_text(in, tensor) || given_waves(in, tensor)) return;
    if (strcmp(name, "relative_buckets") == 0) return given_buckets(in, tensor);
    if (strcmp(name, "distances") == 0) return given_distances(in, tensor);
    int64_t seq = model->of->seq_len, ahead = 0;
    if (strcmp(name, "token_experts") == 0)
        return given_experts(in, tensor, model->tokens, seq + AHEAD, model->graph->expert_count);
    if (strcmp(name, "labels") == 0 || strcmp(name, "next_token_ids") == 0) ahead = 1;
    if (strcmp(name, "mtp.labels") == 0) ahead = 2;
    bool is_position = strcmp(name, "position_ids") == 0;
    bool is_type = strcmp(name, "token_type_ids") == 0;
    double *ids = interpreter_array(in, tensor);
    for (int64_t i = 0; i < interpreter_elements(in, tensor); i++)
        ids[i] = is_position ? (double)i
                 : is_type   ? 0
                             : model->tokens[i / seq * (seq + AHEAD) + i % seq + ahead];
    // Tables of fewer rows have that of the first token for others.
    for (int64_t i = 0; strcmp(name, "layer_token_ids") == 0 && i < seq * in->sizes[tensor][0]; i++)
        if (ids[i] >= (double)in->block->vocab) ids[i] = 0;
    // No token is where a picture stands, and none of its places is predicted.
    for (int64_t i = 0; i < interpreter_elements(in, tensor) && !is_position; i++)
        if (i % seq + ahead < model->graph->prefix) ids[i] = -1;
}

static const struct run_tensor *find(const struct whole_model *model, const char *what,
                                     const struct tensor *tensor, int position)
{
    const char *key =
        arena_print(model->arena, "%s %s %d", what, tensor->tie ? tensor->tie : tensor->name,
                    tensor->tie ? -1 : position);
    for (int i = 0; i < model->found->tensor_count; i++) {
        if (strcmp(model->found->tensors[i].key, key) == 0) return &model->found->tensors[i];
    }
    fail_msg("the run has no %s", key);
    return NULL;
}

static void open_layer(struct whole_model *model, int position)
{
    struct layer *layer = &model->layers[position];
    const struct block *block = &model->graph->blocks[model->graph->sequence[position]];
    block_differentiate(model->arena, block, &layer->facts);
    layer->in = interpreter_new(model->arena, layer->facts.block, model->of->global_batch,
                                model->of->seq_len);
    if (model->of->capacity_factor > 0 && model->graph->expert_count > 0) {
        double mean =
            (double)(model->of->seq_len * model->graph->top_k) / (double)model->graph->expert_count;
        layer->in.capacity = (int64_t)ceil(model->of->capacity_factor * mean - 1e-9);
    }
    for (int t = 0; t < block->tensor_count; t++) {
        const struct tensor *tensor = &layer->facts.block->tensors[t];
        if (tensor->producer >= 0) continue;
        if (tensor->role == TENSOR_IDS) give_ids(model, &layer->in, t);
        if (tensor->role == TENSOR_PARAMETER)
            layer->in.values[t] = find(model, "weight", tensor, position)->values;
    }
}

// A loss of each token, or of each sample that is compared with others.
static int64_t count_losses(const struct whole_model *model)
{
    int64_t pictured = model->graph->prefix > 0 ? model->graph->prefix - 1 : 0;
    return model->of->global_batch * (model->graph->contrasts ? 1 : model->of->seq_len - pictured);
}

static double run_forward(struct whole_model *model)
{
    int count = model->graph->sequence_count;
    for (int p = 0; p < count; p++) {
        struct layer *layer = &model->layers[p];
        const struct block *block = layer->in.block;
        for (int i = 0; i < block->input_count && p > 0; i++) {
            const struct interpreter *before = &model->layers[p - 1].in;
            layer->in.values[block->inputs[i]] = before->values[before->block->outputs[i]];
        }
        interpreter_run(&layer->in, 0, layer->facts.forward_op_count);
    }
    struct interpreter *head = &model->layers[count - 1].in;
    double loss = 0;
    int64_t tokens = count_losses(model),
            places = interpreter_elements(head, head->block->outputs[0]);
    for (int64_t i = 0; i < places; i++)
        loss += head->values[head->block->outputs[0]][i] / (double)tokens;
    return loss;
}

static void run_backward(struct whole_model *model)
{
    int count = model->graph->sequence_count;
    int64_t tokens = count_losses(model);
    for (int p = count - 1; p >= 0; p--) {
        struct layer *layer = &model->layers[p];
        for (int i = 0; i < layer->in.block->output_count; i++) {
            int gradient = layer->facts.gradients.of_output[i];
            if (gradient < 0) continue;  // of keys that are chosen
            if (p + 1 < count) {
                const struct layer *next = &model->layers[p + 1];
                layer->in.values[gradient] = next->in.values[next->facts.gradients.of_input[i]];
                continue;
            }
            double *seed = interpreter_array(&layer->in, gradient);
            for (int64_t e = 0; e < interpreter_elements(&layer->in, gradient); e++)
                seed[e] = (i > 0 ? PREDICTION_WEIGHT : 1) / (double)tokens;
        }
        interpreter_run(&layer->in, layer->facts.forward_op_count, layer->in.block->op_count);
    }
}

// A tied parameter has the sum of what its blocks say.
static const char *check_parameter(struct whole_model *model, int position, int tensor,
                                   double tolerance)
{
    const struct layer *layer = &model->layers[position];
    const struct tensor *own = &layer->in.block->tensors[tensor];
    const struct run_tensor *run = find(model, "gradient", own, position);
    int64_t elements = interpreter_elements(&layer->in, tensor);
    double *expected = ARENA_NEW(model->arena, double, elements), most = 0;
    for (int p = 0; p < model->graph->sequence_count; p++) {
        const struct layer *other = &model->layers[p];
        for (int t = 0; t < other->in.block->tensor_count; t++) {
            const struct tensor *as = &other->in.block->tensors[t];
            bool is_tied = own->tie && as->tie && as->role == TENSOR_PARAMETER &&
                           strcmp(own->tie, as->tie) == 0;
            if (!is_tied && (p != position || t != tensor)) continue;
            const double *part = other->in.values[other->facts.gradients.of_parameter[t]];
            for (int64_t e = 0; e < elements; e++)
                expected[e] += part[e];
        }
    }
    for (int64_t e = 0; e < elements; e++)
        most = fmax(most, fabs(expected[e]));
    double allowed = tolerance * (most + RUN_CANCELLED) + 1e-15;
    for (int64_t e = 0; e < elements; e++) {
        if (fabs(expected[e] - run->values[e]) <= allowed) continue;
        return arena_print(model->arena, "%s, element %lld: %.17g, expected %.17g", run->key,
                           (long long)e, run->values[e], expected[e]);
    }
    return NULL;
}

const char *whole_model_difference(struct arena *arena, const struct run_case *of,
                                   const struct run_outcome *found, double tolerance)
{
    struct whole_model model = {
        .arena = arena, .of = of, .found = found, .graph = found->program->graph};
    int count = model.graph->sequence_count;
    assert_int_equal(model.graph->vocab, model.graph->vocab_padded);
    model.layers = ARENA_NEW(arena, struct layer, count);
    draw_tokens(&model);
    for (int p = 0; p < count; p++)
        open_layer(&model, p);
    double loss = run_forward(&model);
    if (fabs(loss - found->loss[0]) > tolerance * loss)
        return arena_print(arena, "loss: %.17g, expected %.17g", found->loss[0], loss);
    run_backward(&model);
    for (int p = 0; p < count; p++) {
        const struct layer *layer = &model.layers[p];
        for (int i = 0; i < layer->facts.parameter_count; i++) {
            const char *difference =
                check_parameter(&model, p, layer->facts.parameters[i], tolerance);
            if (difference) return difference;
        }
    }
    return NULL;
}
