#include "executor/engine.h"

#include "executor/calibrate.h"
#include "executor/random.h"
#include "executor/spread.h"

// Weights at the start: normal with a deviation of 0.02 for matrices and tables (Radford et al.
// 2019, GPT-2), ones for what norms scale by, zeros for what is added. Drawn by (seed, name, index
// in the whole), so that every plan begins with the same.

static const double DEVIATION = 0.02;

enum start { START_NORMAL, START_ONE, START_ZERO };

// By the first operator that reads it.
static enum start start_of(const struct block *block, int tensor)
{
    for (int o = 0; o < block->op_count; o++) {
        const struct op *op = &block->ops[o];
        for (int i = 0; i < op->input_count; i++) {
            if (op->inputs[i] != tensor) continue;
            if (op->kind == OP_NORM) return i == 1 ? START_ONE : START_ZERO;
            if (op->kind == OP_CONTRACT || op->kind == OP_GATHER) return START_NORMAL;
            return START_ZERO;
        }
    }
    return START_ZERO;
}

struct filling {
    struct engine *engine;
    uint64_t key;
    enum start start;
    const struct tensor *tensor;
    struct held held;
    int64_t rows;  // of the unpadded vocabulary; those past it are zero
};

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
    for (int i = 0; i < held->rank; i++) {
        const struct extent *extent = &filling->tensor->extents[i];
        if (extent->dim != DIM_VOCAB) flat = flat * extent->size + index[i];
    }
    if (filling->start == START_ONE) return 1;
    if (filling->start == START_ZERO) return 0;
    return DEVIATION * random_normal(random_at(filling->key, (uint64_t)flat));
}

// Masters from reals that are on the device, and from them what kernels read.
static bool round_weights(struct engine *engine, int parameter, const double *values)
{
    const struct backend *backend = engine->backend;
    const struct state *state = &engine->state;
    struct state_part part = state_part_of(engine, parameter, STATE_WEIGHTS);
    struct state_part own = state_part_of(engine, parameter, STATE_MOMENTS);
    char *weights = state->weights + part.at * engine->compute_bytes;
    char *masters = state->masters + own.at * engine->real_bytes;
    void *reals = NULL;
    const char *fault =
        backend->allocate(engine->device, part.count * engine->real_bytes + 1, &reals);
    if (!engine_ok(engine, -1, fault)) return false;
    bool done = numbers_write(engine, -1, ELEMENT_FP32, reals, part.count, values);
    if (done) fault = backend->round(engine->device, STREAM_COMPUTE, weights, reals, part.count);
    // A rank updates no more than it keeps.
    const char *from = (char *)reals + (own.first - part.first) * engine->real_bytes;
    if (done && !fault && own.count > 0)
        fault = backend->copy(engine->device, STREAM_COMPUTE, COPY_DEVICE, masters, from,
                              own.count * engine->real_bytes);
    if (done && !fault) fault = backend->synchronize(engine->device, STREAM_COMPUTE);
    backend->release(engine->device, reals);
    return done && engine_ok(engine, -1, fault);
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

// The ranks share the cores, if they are on one host.
static int thread_count(const struct engine *engine)
{
    int cores = binding_core_count(), ranks = engine->program->mesh.rank_count;
    return cores > ranks ? cores / ranks : 1;
}

static bool fill(struct engine *engine, int parameter, int threads)
{
    const struct script_parameter *of = &engine->script->parameters[parameter];
    const struct block *block = engine->program->blocks[of->block]->block;
    const struct parameter *known = state_parameter(engine, parameter);
    struct state_part part = state_part_of(engine, parameter, STATE_WEIGHTS);
    if (part.count == 0) return true;
    struct filling filling = {
        .engine = engine,
        .key = random_key(engine->request->options->seed, 1),
        .start = start_of(block, known->tensor),
        .tensor = &block->tensors[known->tensor],
        .held = state_held(engine, parameter, engine->rank),
        .rows = engine->request->graph->vocab,
    };
    if (known->tie) {
        filling.key = random_key_text(filling.key, known->tie);
    } else {
        filling.key =
            random_key(random_key_text(filling.key, filling.tensor->name), (uint64_t)of->sequence);
    }
    struct arena scratch = {0};
    double *values = ARENA_NEW(&scratch, double, part.count);
    struct drawing drawing = {&filling, values, part.first};
    spread(part.count, threads, draw, &drawing);
    char *to = engine->state.weights + part.at * engine->compute_bytes;
    bool done = engine->state.masters
                    ? round_weights(engine, parameter, values)
                    : numbers_write(engine, -1, ELEMENT_COMPUTE, to, part.count, values);
    arena_free(&scratch);
    return done;
}

bool initial_weights(struct engine *engine)
{
    int threads = thread_count(engine);
    for (int p = 0; p < engine->script->parameter_count; p++) {
        if (engine->script->parameters[p].same_as >= 0) continue;
        if (!fill(engine, p, threads)) return false;
    }
    return true;
}
