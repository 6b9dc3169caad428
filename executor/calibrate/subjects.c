#include "executor/calibrate/calibrate.h"

#include "models/import.h"
#include "plan/layout/mesh.h"

#include <assert.h>
#include <string.h>

// Two families, so that both kinds of norm and activation, biases, rotation and shared keys occur.
// On a host widths from such whose kernels are short to such that the memory bounds; on a device
// the layers of models that people train, of which even the smallest would take a host too long.
enum place { HOST = 1, DEVICE = 2 };
struct subject {
    const char *family;
    int64_t hidden, heads, kv_heads, ffn, vocab;
    int64_t batch, seq;
    unsigned places;
    bool is_small;  // measured where time is short, too; of devices what an emulation can do
};
static const struct subject SUBJECTS[] = {
    {"gpt2", 128, 4, 4, 512, 1024, 2, 32, HOST, true},
    {"llama", 256, 4, 2, 704, 2048, 1, 256, HOST, true},
    {"gpt2", 640, 10, 10, 2560, 8192, 4, 64, HOST, false},
    {"llama", 1024, 16, 8, 2752, 8192, 1, 256, HOST, false},
    {"gpt2", 512, 8, 8, 2048, 4096, 1, 1024, HOST, false},
    {"gpt2", 32, 4, 4, 64, 1024, 1, 16, DEVICE, true},
    {"llama", 64, 4, 2, 96, 1024, 1, 32, DEVICE, true},
    {"gpt2", 768, 12, 12, 3072, 50304, 8, 1024, DEVICE, false},
    {"llama", 4096, 32, 8, 14336, 32768, 1, 8192, DEVICE, false},
    {"gpt2", 1600, 25, 25, 6400, 50304, 4, 1024, DEVICE, false},
    {"llama", 4096, 32, 32, 11008, 32768, 1, 4096, DEVICE, false},
    {"llama", 8192, 64, 8, 28672, 32768, 1, 2048, DEVICE, false},
    {"gpt2", 1024, 16, 16, 4096, 50304, 2, 512, DEVICE, false},
};
enum { SUBJECT_COUNT = sizeof SUBJECTS / sizeof *SUBJECTS, BLOCKS_OF_SUBJECT = 3 };

// Ids are drawn below CALIBRATE_IDS: a table of places has room for each.
static long long positions_of(const struct subject *of)
{
    return of->seq > CALIBRATE_IDS ? of->seq : CALIBRATE_IDS;
}

static const char *config_text(struct arena *arena, const struct subject *of)
{
    if (strcmp(of->family, "gpt2") == 0) {
        return arena_print(arena,
                           "{\"model_type\": \"gpt2\", \"n_embd\": %lld, \"n_head\": %lld, "
                           "\"n_inner\": %lld, \"n_layer\": 1, \"n_positions\": %lld, "
                           "\"vocab_size\": %lld, \"activation_function\": \"gelu_new\"}",
                           (long long)of->hidden, (long long)of->heads, (long long)of->ffn,
                           positions_of(of), (long long)of->vocab);
    }
    return arena_print(arena,
                       "{\"model_type\": \"llama\", \"hidden_size\": %lld, "
                       "\"num_attention_heads\": %lld, \"num_key_value_heads\": %lld, "
                       "\"intermediate_size\": %lld, \"num_hidden_layers\": 1, "
                       "\"max_position_embeddings\": %lld, \"vocab_size\": %lld, "
                       "\"hidden_act\": \"silu\"}",
                       (long long)of->hidden, (long long)of->heads, (long long)of->kv_heads,
                       (long long)of->ffn, positions_of(of), (long long)of->vocab);
}

static struct graph *graph_of(struct arena *arena, const struct subject *subject, struct err *err)
{
    const char *text = config_text(arena, subject);
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!json_parse(arena, subject->family, text, strlen(text), document, err)) return NULL;
    struct json root = json_root(document);
    struct model_config *config = model_read(arena, subject->family, &root, NULL, NULL, err);
    if (!config) return NULL;
    assert(subject->hidden % subject->heads == 0 && subject->heads % subject->kv_heads == 0);
    return model_graph(arena, config, &(struct import_options){.flash = true});
}

// As the engine runs it, with the groups that the back end joins.
static struct block_program *lower_alone(struct arena *arena, const struct block *block,
                                         const struct subject *subject,
                                         const struct calibrate_side *side)
{
    struct parallel *parallel = ARENA_NEW(arena, struct parallel, 1);
    for (int i = 0; i < AXIS_COUNT; i++)
        parallel->degree[i] = 1;
    parallel->vpp = 1;
    parallel->passes = 1u << PASS_FUSION | 1u << PASS_COMBINE;
    parallel->micro_batch = (int)subject->batch;
    parallel_default_order(parallel);
    struct mesh *mesh = ARENA_NEW(arena, struct mesh, 1);
    *mesh = mesh_make(parallel, subject->kv_heads);
    const struct lower_request request = {.block = block,
                                          .mesh = mesh,
                                          .parallel = parallel,
                                          .seq_len = subject->seq,
                                          .precision = side->precision,
                                          .joins = side->backend->joins};
    return lower_block(arena, &request);
}

static struct calibrate_block block_of(struct arena *arena, const struct graph *graph, int block,
                                       const struct subject *subject,
                                       const struct calibrate_side *side)
{
    struct calibrate_block made = {
        .program = lower_alone(arena, &graph->blocks[block], subject, side),
        .batch = subject->batch,
        .seq = subject->seq,
        .vocab = graph->vocab,
        .head_count = graph->head_count,
        .begins_subject = block == 0,
    };
    calibrate_block_count(&made);
    return made;
}

struct calibrate_block *calibrate_blocks(struct arena *arena,
                                         const struct calibrate_request *request,
                                         const struct calibrate_side *side, int *count,
                                         struct err *err)
{
    unsigned place = calibrate_has_marks(side) ? DEVICE : HOST;
    int of_plan = request->plan ? request->plan->block_count : 0;
    int most = of_plan + SUBJECT_COUNT * BLOCKS_OF_SUBJECT;
    struct calibrate_block *blocks = ARENA_NEW(arena, struct calibrate_block, most);
    *count = calibrate_plan_blocks(request, side, blocks);
    for (int s = 0; s < SUBJECT_COUNT; s++) {
        const struct subject *subject = &SUBJECTS[s];
        if (!(subject->places & place) || (request->is_short && !subject->is_small)) continue;
        const struct graph *graph = graph_of(arena, subject, err);
        if (!graph) return NULL;
        for (int b = 0; b < graph->block_count && b < BLOCKS_OF_SUBJECT; b++)
            blocks[(*count)++] = block_of(arena, graph, b, subject, side);
    }
    assert(*count > 0 && *count <= most && "the smallest are measured in any case");
    return blocks;
}
