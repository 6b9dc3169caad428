#include "executor/engine/away.h"
#include "executor/engine/checkpoint.h"
#include "executor/engine/host_state.h"

#include "executor/calibrate/calibrate.h"
#include "executor/launcher/spread.h"
#include "executor/number.h"
#include "executor/random.h"
#include "models/op_scan.h"

#include <assert.h>
#include <math.h>

// Weights at the start: normal with a deviation of 0.02 for matrices and tables (Radford et al.
// 2019, GPT-2) and taps, another for those of imported products (deviation_of), ones for what norms
// and the skips of scans scale by, zeros for what is added and for the logarithms of a scan's
// rates, and rates that are not trained as the model says. Drawn by (seed, name, index in the
// whole), so that every plan begins with the same.

static const double DEVIATION = 0.02;

enum start { START_NORMAL, START_ONE, START_ZERO, START_RATE };

// By the first operator that reads it.
static enum start start_of(const struct block *block, int tensor)
{
    for (int o = 0; o < block->op_count; o++) {
        const struct op *op = &block->ops[o];
        for (int i = 0; i < op->input_count; i++) {
            if (op->inputs[i] != tensor) continue;
            if (op->kind == OP_NORM) return i == 1 ? START_ONE : START_ZERO;
            if (op_has_product(op->kind) || op->kind == OP_GATHER) return START_NORMAL;
            if (op->kind == OP_PRODUCT) return START_NORMAL;
            if (op->kind == OP_OPERATOR && op->work.strided)
                return op->work.type == IMPORTED_MULTIPLY ? START_ONE : START_ZERO;
            if (op->kind == OP_OPERATOR) return i == 1 ? START_ONE : START_ZERO;
            if (op->kind == OP_CONV) return i == 1 ? START_NORMAL : START_ZERO;
            if (op_scan_is_steady(op)) return START_RATE;
            if (op->kind == OP_SCAN) return i == 5 ? START_ONE : START_ZERO;
            return START_ZERO;
        }
    }
    return START_ZERO;
}

// Where the index in the whole begins: what the first GEMM that reads a weight sums over stands
// outermost, also where it is stored innermost, so that numbers do not depend on the storage.
static int first_extent_of(const struct block *block, int tensor)
{
    int last = block->tensors[tensor].rank - 1;
    for (int o = 0; o < block->op_count && last > 0; o++) {
        const struct op *op = &block->ops[o];
        if (!op_has_product(op->kind) || op->inputs[1] != tensor) continue;
        enum dim dim = block->tensors[tensor].extents[last].dim;
        int depth = tensor_find_dim(&block->tensors[op->inputs[0]], dim);
        return depth >= 0 && tensor_find_dim(&block->tensors[op->outputs[0]], dim) < 0 ? last : 0;
    }
    return 0;
}

// Behind a function that is zero for half of its numbers an imported product keeps how far they
// spread (He et al. 2015, section 2.2).
static double deviation_of(const struct block *block, int tensor)
{
    for (int o = 0; o < block->op_count; o++) {
        const struct op *op = &block->ops[o];
        bool reads = op->kind == OP_PRODUCT && op->inputs[1] == tensor;
        assert(!reads || op->work.depth > 0);
        if (reads) return sqrt(2 / (double)op->work.depth);
    }
    return DEVIATION;
}

struct filling {
    struct engine *engine;
    uint64_t key;
    enum start start;
    double deviation;
    const struct tensor *tensor;
    int first_extent;
    struct held held;
    int64_t rows;  // of the unpadded vocabulary; those past it are zero
    int layer, layer_count;
};

// Of a head, the slopes of alibi (Press et al. 2022, section 3), and ever less of them in later
// layers (transformers' MiniMaxLightningAttention).
static double steady_rate(const struct filling *filling, int64_t head)
{
    double heads = (double)filling->tensor->extents[0].size, last = filling->layer_count - 1;
    double share = 1 - filling->layer / (last + 1e-5) + 1e-5;
    return share * exp2(-8 * (double)(head + 1) / heads);
}

static double value_at(const struct filling *filling, int64_t element)
{
    const struct held *held = &filling->held;
    int64_t index[TENSOR_RANK_MAX], flat = 0;
    if (element >= held->elements) return 0;  // shares are counted rounded up
    for (int i = held->rank - 1; i >= 0; i--) {
        index[i] = held->first[i] + element % held->count[i];
        element /= held->count[i];
    }
    // The padded size of the vocabulary depends on the plan: it stands outermost in the index.
    for (int i = 0; i < held->rank; i++) {
        if (filling->tensor->extents[i].dim != DIM_VOCAB) continue;
        if (index[i] >= filling->rows) return 0;
        flat = index[i];
    }
    for (int k = 0; k < held->rank; k++) {
        int i = (filling->first_extent + k) % held->rank;
        const struct extent *extent = &filling->tensor->extents[i];
        if (extent->dim != DIM_VOCAB) flat = flat * extent->size + index[i];
    }
    if (filling->start == START_RATE) return steady_rate(filling, flat);
    if (filling->start == START_ONE) return 1;
    if (filling->start == START_ZERO) return 0;
    return filling->deviation * random_normal(random_at(filling->key, (uint64_t)flat));
}

// Weights that are on the host or below, rounded there.
static bool put_away(struct engine *engine, int64_t at, int64_t count, const double *values)
{
    enum number number = number_of(engine->backend, ELEMENT_COMPUTE);
    int64_t bytes = count * engine->compute_bytes, at_bytes = at * engine->compute_bytes;
    struct arena scratch = {0};
    char *to =
        engine->away ? ARENA_NEW(&scratch, char, bytes) : engine->state.away_weights + at_bytes;
    for (int64_t i = 0; i < count; i++)
        number_put(number, to, i, values[i]);
    bool done = !engine->away || away_put(engine, -1, to, at_bytes, bytes);
    arena_free(&scratch);
    return done;
}

// Elements [first, first + count) of a parameter's part here. Where kernels read rounded weights
// they are made on the device from reals, which become masters where this rank has those: it
// updates no more than it keeps.
bool initial_put(struct engine *engine, int parameter, int64_t first, int64_t count,
                 const double *values, char *reals)
{
    const struct backend *backend = engine->backend;
    const struct state *state = &engine->state;
    struct state_part part = state_part_of(engine, parameter, STATE_WEIGHTS);
    struct state_part own = state_part_of(engine, parameter, STATE_MOMENTS);
    assert(first >= 0 && count >= 0 && first + count <= part.count && "within the part here");
    bool is_away = host_state_is_of(engine, parameter);
    if (is_away && !host_state_put(engine, parameter, part.first + first, count, values))
        return false;
    if (state_unit_leaves(engine, engine->script->parameters[parameter].unit))
        return put_away(engine, part.at + first, count, values);
    char *weights = state->weights + (part.at + first) * engine->compute_bytes;
    if (!reals) return numbers_write(engine, -1, ELEMENT_COMPUTE, weights, count, values);
    if (!numbers_write(engine, -1, ELEMENT_FP32, reals, count, values)) return false;
    const char *fault = backend->round(engine->device, STREAM_COMPUTE, weights, reals, count);
    int64_t begin = part.first + first, end = begin + count, own_end = own.first + own.count;
    int64_t from = begin > own.first ? begin : own.first, to = end < own_end ? end : own_end;
    if (!fault && from < to && state->masters && !is_away)
        fault = backend->copy(engine->device, STREAM_COMPUTE, COPY_DEVICE,
                              state->masters + (own.at + from - own.first) * engine->real_bytes,
                              reals + (from - begin) * engine->real_bytes,
                              (to - from) * engine->real_bytes);
    if (!fault) fault = backend->synchronize(engine->device, STREAM_COMPUTE);
    return engine_ok(engine, -1, fault);
}

struct drawing {
    const struct filling *filling;
    double *values;
    int64_t first;
};

static void draw(void *context, int64_t first, int64_t end)
{
    const struct drawing *drawing = context;
    for (int64_t i = first; i < end; i++)
        drawing->values[i] = value_at(drawing->filling, drawing->first + i);
}

static int64_t longest_part(struct engine *engine)
{
    int64_t longest = 0;
    for (int p = 0; p < engine->script->parameter_count; p++) {
        int64_t count = state_part_of(engine, p, STATE_WEIGHTS).count;
        if (count > longest) longest = count;
    }
    return longest;
}

// The ranks share the cores, if they are on one host. To count cores takes hwloc milliseconds, all
// ranks at once: longer than a small model is drawn by one thread.
static int thread_count(const struct engine *engine, int64_t longest)
{
    if (longest < SPREAD_LEAST) return 1;
    int cores = binding_core_count(), ranks = engine->program->mesh.rank_count;
    return cores > ranks ? cores / ranks : 1;
}

static bool fill(struct engine *engine, int parameter, int threads, double *values, char *reals)
{
    const struct script_parameter *of = &engine->script->parameters[parameter];
    const struct block *block = engine->program->blocks[of->block]->block;
    const struct parameter *known = state_parameter(engine, parameter);
    struct state_part part = state_part_of(engine, parameter, STATE_WEIGHTS);
    struct filling filling = {
        .engine = engine,
        .key = random_key(engine->request->options->seed, 1),
        .start = start_of(block, known->tensor),
        .deviation = deviation_of(block, known->tensor),
        .tensor = &block->tensors[known->tensor],
        .first_extent = first_extent_of(block, known->tensor),
        .held = state_held(engine, parameter, engine->rank),
        .rows = engine->request->graph->vocab,
        .layer = of->sequence - 1,  // behind the table
        .layer_count = engine->request->graph->layer_count,
    };
    assert(filling.start != START_RATE ||
           (filling.layer >= 0 && filling.layer < filling.layer_count));
    if (known->tie) {
        filling.key = random_key_text(filling.key, known->tie);
    } else {
        filling.key =
            random_key(random_key_text(filling.key, filling.tensor->name), (uint64_t)of->sequence);
    }
    assert(part.count >= 0 && threads > 0 && known->tensor < block->tensor_count);
    for (int64_t first = 0; first < part.count; first += INITIAL_PIECE) {
        int64_t count = part.count - first < INITIAL_PIECE ? part.count - first : INITIAL_PIECE;
        struct drawing drawing = {&filling, values, part.first + first};
        spread(count, threads, draw, &drawing);
        if (!initial_put(engine, parameter, first, count, values, reals)) return false;
    }
    return true;
}

bool initial_reals(struct engine *engine, char **reals)
{
    void *memory = NULL;
    int64_t bytes = INITIAL_PIECE * engine->real_bytes;
    *reals = NULL;
    if (engine->compute_bytes == engine->real_bytes) return true;
    engine->beside_bytes += bytes;
    if (!engine_ok(engine, -1, engine->backend->allocate(engine->device, bytes, &memory)))
        return false;
    *reals = memory;
    return true;
}

bool initial_weights(struct engine *engine)
{
    int64_t longest = longest_part(engine);
    int threads = thread_count(engine, longest);
    struct arena scratch = {0};
    double *values = ARENA_NEW(&scratch, double, longest < INITIAL_PIECE ? longest : INITIAL_PIECE);
    char *reals;
    bool done = initial_reals(engine, &reals);
    for (int p = 0; p < engine->script->parameter_count && done; p++) {
        if (engine->script->parameters[p].same_as < 0)
            done = fill(engine, p, threads, values, reals);
    }
    if (reals) engine->backend->release(engine->device, reals);
    arena_free(&scratch);
    return done;
}
