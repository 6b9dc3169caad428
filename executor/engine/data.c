#include "executor/engine/engine.h"

#include "core/progress.h"
#include "executor/data/feed.h"
#include "executor/engine/apart.h"
#include "executor/engine/images.h"
#include "executor/engine/readers.h"
#include "executor/engine/reals.h"
#include "executor/number.h"
#include "executor/random.h"
#include "executor/text.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Ids of a step, drawn by (seed, sequence of the run): every plan trains on the same sequences in
// the same steps, wherever they lie.
//
// Synthetic tokens are rarer the larger they are, about as words are (Zipf 1935), and every other
// one repeats that two places before it, so that a model has something to learn soon and something
// later; text is cut from executor/text.c at random places, a token a byte; a corpus says itself
// which of its samples comes when.

// Ids, or reals, that some instruction of a micro-batch reads, in device memory for the whole step.
struct slot_ids {
    int micro_batch, block, buffer;
    int64_t first;  // of `memory`
};

struct data {
    int64_t *tokens;  // [sequence of the step][seq + AHEAD], made when asked for
    bool *is_made;
    struct slot_ids *slots;
    int slot_count, slot_capacity;
    int64_t *host, *memory;  // of all slots
    int64_t count;
    struct feed *feed;  // of a corpus; NULL: another rank reads
    struct rows_readers *readers;
    const int64_t *rows;  // of it, of the step
};

static int64_t row_length(const struct engine *engine)
{
    return engine->program->workload.seq_len + RUN_IDS_AHEAD;
}

static int64_t data_element_bytes(const struct engine *engine, enum element element)
{
    if (element == ELEMENT_INT64) return sizeof(int64_t);
    return number_bytes(number_of(engine->backend, element));
}

// What is of no sequence is the same in every micro-batch, and stands there once.
static int slot_micro_batch(const struct engine *engine, const struct script_task *task, int buffer)
{
    const struct block_program *block = engine_block(engine, task);
    const struct tensor *tensor = &block->block->tensors[block->buffers[buffer].tensor];
    return tensor_find_dim(tensor, DIM_BATCH) < 0 ? 0 : task->micro_batch;
}

static int find_slot(const struct engine *engine, const struct script_task *task, int buffer)
{
    const struct data *data = engine->data;
    int micro_batch = slot_micro_batch(engine, task, buffer);
    for (int i = 0; i < data->slot_count; i++) {
        const struct slot_ids *slot = &data->slots[i];
        bool is_it = slot->micro_batch == micro_batch && slot->block == task->block &&
                     slot->buffer == buffer;
        if (is_it) return i;
    }
    return -1;
}

static void add_slots(struct engine *engine, const struct script_task *task)
{
    struct data *data = engine->data;
    for (int i = 0; i < task->input_count; i++) {
        const struct script_operand *operand = &task->inputs[i];
        if (operand->place != PLACE_IDS || find_slot(engine, task, operand->buffer) >= 0) continue;
        ARENA_GROW(engine->arena, data->slots, data->slot_count, data->slot_capacity);
        const struct block_program *block = engine_block(engine, task);
        struct held held = held_of_buffer(engine->program, block, operand->buffer, engine->rank);
        data->slots[data->slot_count++] =
            (struct slot_ids){slot_micro_batch(engine, task, operand->buffer), task->block,
                              operand->buffer, data->count};
        enum element element =
            block->block->tensors[block->buffers[operand->buffer].tensor].element;
        int64_t bytes = held.elements * data_element_bytes(engine, element), word = sizeof(int64_t);
        data->count += (bytes + word - 1) / word;
        assert(bytes >= 0 && "ids and reals fill whole words");
    }
}

// The sequences of a micro-batch whose part of a buffer is here, of those of the step.
struct buffer_rows {
    int64_t first, count;
};

static struct buffer_rows rows_of(const struct engine *engine, int micro_batch, int of, int buffer)
{
    const struct block_program *block = engine->program->blocks[of];
    const struct tensor *tensor = &block->block->tensors[block->buffers[buffer].tensor];
    struct held held = held_of_buffer(engine->program, block, buffer, engine->rank);
    int64_t first = program_first_sequence(engine->program, engine->rank, micro_batch);
    int by_batch = tensor_find_dim(tensor, DIM_BATCH);
    // Places in a sequence are of none of them.
    if (by_batch < 0) return (struct buffer_rows){0, 0};
    return (struct buffer_rows){first + held.first[by_batch], held.count[by_batch]};
}

static void want(bool *is_wanted, struct buffer_rows rows)
{
    for (int64_t r = 0; r < rows.count; r++)
        is_wanted[rows.first + r] = true;
}

// Attention of every stage looks at where documents begin.
static void want_attended(const struct engine *engine, bool *is_wanted)
{
    for (int t = 0; t < engine->script->task_count; t++) {
        const struct script_task *task = &engine->script->tasks[t];
        if (task->kind != TASK_INSTR || task->micro_batch < 0) continue;
        const struct block_program *block = engine_block(engine, task);
        enum op_kind kind = block->block->ops[block->instrs[task->instr].op].kind;
        bool attends = kind == OP_ATTENTION || kind == OP_ATTENTION_BACKWARD || kind == OP_SOFTMAX;
        if (attends)
            want(is_wanted,
                 rows_of(engine, task->micro_batch, task->block, task->inputs[0].buffer));
    }
}

static bool open_feed(struct engine *engine)
{
    struct data *data = engine->data;
    int64_t batch = engine->program->workload.global_batch;
    bool *is_wanted = ARENA_NEW(engine->arena, bool, batch);
    for (int i = 0; i < data->slot_count; i++) {
        const struct slot_ids *slot = &data->slots[i];
        want(is_wanted, rows_of(engine, slot->micro_batch, slot->block, slot->buffer));
    }
    const struct corpus *corpus = engine->request->options->corpus;
    if (corpus->document_end != DOCUMENTS_JOINED) want_attended(engine, is_wanted);
    assert(corpus && corpus->row_length == row_length(engine));
    data->readers = readers_open(engine, is_wanted);
    if (!data->readers) return false;
    if (!readers_reads(engine->program->cluster, engine->request->options->readers, engine->rank))
        return true;
    data->feed = feed_open(engine->arena, corpus, batch, is_wanted, engine->err);
    return data->feed != NULL;
}

bool data_open(struct engine *engine)
{
    int64_t batch = engine->program->workload.global_batch;
    struct data *data = engine->data = ARENA_NEW(engine->arena, struct data, 1);
    data->tokens = ARENA_NEW(engine->arena, int64_t, batch * row_length(engine));
    data->is_made = ARENA_NEW(engine->arena, bool, batch);
    if (!run_check_data(engine->request->graph, engine->request->options->data, engine->err))
        return false;
    for (int t = 0; t < engine->script->task_count; t++)
        add_slots(engine, &engine->script->tasks[t]);
    data->host = ARENA_NEW(engine->arena, int64_t, data->count);
    void *memory = NULL;
    int64_t bytes = data->count * (int64_t)sizeof(int64_t) + 1;
    engine->beside_bytes += bytes;
    const char *fault = engine->backend->allocate(engine->device, bytes, &memory);
    data->memory = memory;
    if (!engine_ok(engine, -1, fault)) return false;
    return engine->request->options->data != DATA_CORPUS || open_feed(engine);
}

void data_close(struct engine *engine)
{
    struct data *data = engine->data;
    if (data && data->feed) feed_close(data->feed);
    if (data && data->memory) engine->backend->release(engine->device, data->memory);
}

// In whole numbers, so that every machine draws the same: of the octaves of the vocabulary one, and
// of its tokens one.
static int64_t draw_token(struct random_bits bits, int64_t vocab)
{
    assert(vocab > 0);
    int octaves = 1;
    while (vocab >> octaves)
        octaves++;
    int64_t width = (int64_t)1 << bits.word[1] % (uint32_t)octaves;
    return (width - 1 + (int64_t)(bits.word[2] % (uint64_t)width)) % vocab;
}

static void draw_synthetic(const struct engine *engine, uint64_t key, int64_t *row)
{
    for (int64_t i = 0; i < row_length(engine); i++) {
        struct random_bits bits = random_at(key, (uint64_t)i);
        bool copies = i >= 2 && bits.word[0] % 2 == 0;
        row[i] = copies ? row[i - 2] : draw_token(bits, engine->request->graph->vocab);
    }
}

static void draw_text(const struct engine *engine, uint64_t key, int64_t *row)
{
    uint64_t length = executor_text_bytes;
    uint64_t at = random_at(key, 0).word[0] % length;
    for (int64_t i = 0; i < row_length(engine); i++)
        row[i] = (unsigned char)executor_text[(at + (uint64_t)i) % length];
}

const int64_t *data_row(struct engine *engine, int64_t sequence)
{
    assert(sequence >= 0 && sequence < engine->program->workload.global_batch);
    struct data *data = engine->data;
    if (data->rows) return data->rows + sequence * engine->request->options->corpus->row_stride;
    int64_t *row = data->tokens + sequence * row_length(engine);
    if (data->is_made[sequence]) return row;
    data->is_made[sequence] = true;
    int64_t batch = engine->program->workload.global_batch;
    uint64_t key = random_key(engine->request->options->seed, 3);
    key = random_key(key, (uint64_t)(engine->step * batch + sequence));
    bool is_text = engine->request->options->data == DATA_TEXT;
    (is_text ? draw_text : draw_synthetic)(engine, key, row);
    return row;
}

// What a tensor of the data holds: a token so far ahead of its place, or what the rest says.
enum given {
    GIVEN_TOKEN,
    GIVEN_LAYER_TOKEN,
    GIVEN_PLACE,
    GIVEN_ZERO,
    GIVEN_KIND,
    GIVEN_PIXEL,
    GIVEN_FIRST,
    GIVEN_MEAN,
    GIVEN_PART,
    GIVEN_BUCKET,
    GIVEN_DISTANCE,
    GIVEN_WAVE,
    GIVEN_FRAME,
    GIVEN_LAST,
    GIVEN_PAIR,
    GIVEN_ONE,
    GIVEN_EXPERT,
};
static const struct given_row {
    const char *name;
    enum given given;
    int ahead;
} GIVEN[] = {
    {"token_ids", GIVEN_TOKEN, 0},
    {"layer_token_ids", GIVEN_LAYER_TOKEN, 0},
    {"labels", GIVEN_TOKEN, 1},
    {"decoder_token_ids", GIVEN_TOKEN, 0},
    {"relative_buckets", GIVEN_BUCKET, 0},
    {"sinusoids", GIVEN_WAVE, 0},
    {"shifted_sinusoids", GIVEN_WAVE, 2},
    {"distances", GIVEN_DISTANCE, 0},
    {"next_token_ids", GIVEN_TOKEN, 1},
    {"mtp.labels", GIVEN_TOKEN, 2},
    {"position_ids", GIVEN_PLACE, 0},
    {"token_type_ids", GIVEN_ZERO, 0},
    {"place_kinds", GIVEN_KIND, 0},
    {"pixels", GIVEN_PIXEL, 0},
    {"first_place", GIVEN_FIRST, 0},
    {"place_means", GIVEN_MEAN, 0},
    {"place_parts", GIVEN_PART, 0},
    {"frames_before", GIVEN_FRAME, -1},
    {"frames_even", GIVEN_FRAME, 0},
    {"frames_odd", GIVEN_FRAME, 1},
    {"patches", GIVEN_PIXEL, 1},
    {"last_place", GIVEN_LAST, 0},
    {"pair_ids", GIVEN_PAIR, 0},
    {"each_sample", GIVEN_ONE, 0},
    {"each_other", GIVEN_ONE, 0},
    {"each_stream", GIVEN_ONE, 0},
    {"each_channel", GIVEN_ONE, 0},
    {"token_experts", GIVEN_EXPERT, 0},
};

static const struct given_row *given_of(const char *name)
{
    for (size_t i = 0; i < sizeof GIVEN / sizeof *GIVEN; i++) {
        if (strcmp(name, GIVEN[i].name) == 0) return &GIVEN[i];
    }
    return NULL;
}

// A pixel of a picture is that of its class's pattern, or of the word that its text has at that
// place, or behind it where it stands in the text, with as much noise of its own. The places of
// class token and registers have none.
static double draw_pixel(struct engine *engine, int64_t sequence, const struct tensor *tensor,
                         bool has_class, const int64_t index[TENSOR_RANK_MAX])
{
    int64_t batch = engine->program->workload.global_batch,
            in_text = engine->request->graph->prefix;
    uint64_t seed = engine->request->options->seed, at = (uint64_t)index[1];
    if (has_class && index[1] < engine->request->graph->front_count) return 0;
    at = at * (uint64_t)tensor->extents[2].size + (uint64_t)index[2];
    uint64_t noise = random_key(seed, 4), pattern = random_key(seed, 5);
    noise = random_key(noise, (uint64_t)(engine->step * batch + sequence));
    pattern = random_key(pattern, (uint64_t)data_row(engine, sequence)[in_text > 1 ? in_text : 1]);
    return random_unit(random_at(noise, at)) + random_unit(random_at(pattern, at)) - 1;
}

// Sound is noise: numbers between -1 and 1 of each frame and band. A place takes three frames, band
// by band, around the frame that is `aside` of its own, which is each second one; then a one. Past
// the ends there is silence, and of a frame in front of the first nothing at all.
static double draw_frame(struct engine *engine, int64_t sequence, const struct tensor *tensor,
                         int aside, const int64_t index[TENSOR_RANK_MAX])
{
    enum { WINDOW = 3 };
    int64_t number = index[2], bands = (tensor->extents[2].size - 1) / WINDOW;
    int64_t middle = 2 * index[1] + aside, frame = middle + number % WINDOW - 1;
    if (middle < 0) return 0;
    if (number == WINDOW * bands) return 1;
    if (frame < 0 || frame >= 2 * tensor->extents[1].size) return 0;
    int64_t batch = engine->program->workload.global_batch;
    uint64_t key = random_key(engine->request->options->seed, 6);
    key = random_key(key, (uint64_t)(engine->step * batch + sequence));
    return 2 * random_unit(random_at(key, (uint64_t)(frame * bands + number / WINDOW))) - 1;
}

// The element of a tensor at an index in the whole, of a micro-batch that begins with `first`.
static double given_at(struct engine *engine, const struct block *block,
                       const struct tensor *tensor, const struct given_row *row, int64_t first,
                       const int64_t index[TENSOR_RANK_MAX])
{
    int by_batch = tensor_find_dim(tensor, DIM_BATCH), by_seq = tensor_find_dim(tensor, DIM_SEQ);
    int64_t place = by_seq < 0 ? 0 : index[by_seq], front = engine->request->graph->front_count;
    int64_t sequence = by_batch < 0 ? 0 : first + index[by_batch], token;
    switch (row->given) {
    case GIVEN_TOKEN:
        if (place + row->ahead < engine->request->graph->prefix) return -1;
        return (double)data_row(engine, sequence)[place + row->ahead];
    case GIVEN_LAYER_TOKEN:
        token = data_row(engine, sequence)[place];
        return (double)(token < block->vocab ? token : 0);
    case GIVEN_EXPERT:
        token = data_row(engine, sequence)[place];
        return (double)((token * tensor->extents[2].size + index[2]) %
                        engine->request->graph->expert_count);
    case GIVEN_PLACE:
        return (double)place;
    case GIVEN_ZERO:
        return 0;
    case GIVEN_KIND:
        return (double)(place < front ? place : front);
    case GIVEN_PIXEL:
        return draw_pixel(engine, sequence, tensor, row->ahead == 0, index);
    case GIVEN_FRAME:
        return draw_frame(engine, sequence, tensor, row->ahead, index);
    case GIVEN_BUCKET:
        return (double)apart_bucket(block, tensor, index[1] - index[0]);
    case GIVEN_DISTANCE:
        return (double)apart_distance(block, tensor, index[1] - index[0]);
    case GIVEN_WAVE:
        return apart_wave(index[0] + row->ahead, index[1], tensor->extents[1].size, row->ahead > 0);
    case GIVEN_LAST:
        return place + 1 == engine->program->workload.seq_len;
    case GIVEN_PAIR:
        return (double)index[by_batch];
    case GIVEN_ONE:
        return 1;
    case GIVEN_MEAN:
        if (index[1] == 1) return place < front ? 0 : 1 / (double)(tensor->extents[0].size - front);
        break;
    case GIVEN_PART:
        if (index[1] == 1) return place >= front;
        break;
    case GIVEN_FIRST:
        break;
    }
    return place == 0;
}

// The index in the whole of an element of what is held, with the place of its token.
static void index_of(const struct engine *engine, const struct tensor *tensor,
                     const struct held *held, int64_t element, int64_t index[TENSOR_RANK_MAX])
{
    for (int i = held->rank - 1; i >= 0; element /= held->count[i--]) {
        index[i] = held->first[i] + element % held->count[i];
        if (tensor->extents[i].dim == DIM_SEQ)
            index[i] = sequence_place(&engine->program->order, index[i]);
    }
}

// Reals as wide as kernels read them, in room for ids, which are as wide at least, or labels.
static void fill_reals(struct engine *engine, const struct slot_ids *slot,
                       const struct tensor *tensor, const struct held *held)
{
    uint64_t batch = (uint64_t)engine->program->workload.global_batch;
    uint64_t first =
        (uint64_t)program_first_sequence(engine->program, engine->rank, slot->micro_batch);
    bool is_label = tensor->element == ELEMENT_INT64;
    enum number number = is_label ? NUMBER_DOUBLE : number_of(engine->backend, tensor->element);
    int by_batch = tensor_find_dim(tensor, DIM_BATCH);
    for (int64_t e = 0; e < held->elements; e++) {
        int64_t index[TENSOR_RANK_MAX] = {0};
        index_of(engine, tensor, held, e, index);
        uint64_t sample = by_batch < 0 ? 0 : first + (uint64_t)index[by_batch];
        const struct graph *graph = engine->request->graph;
        double value = (images_are_read(graph) ? images_at : reals_at)(
            graph, engine->request->options->seed, (uint64_t)engine->step * batch + sample, tensor,
            index);
        if (is_label) engine->data->host[slot->first + e] = (int64_t)value;
        if (!is_label) number_put(number, engine->data->host + slot->first, e, value);
    }
}

static bool fill_slot(struct engine *engine, const struct slot_ids *slot)
{
    const struct block_program *block = engine->program->blocks[slot->block];
    const struct tensor *tensor = &block->block->tensors[block->buffers[slot->buffer].tensor];
    struct held held = held_of_buffer(engine->program, block, slot->buffer, engine->rank);
    int64_t first = program_first_sequence(engine->program, engine->rank, slot->micro_batch);
    if (images_are_read(engine->request->graph) || reals_are_known(tensor->name)) {
        fill_reals(engine, slot, tensor, &held);
        return true;
    }
    const struct given_row *row = given_of(tensor->name);
    if (!row) return err_set(engine->err, ERR_SYSTEM, "no data is called %s", tensor->name);
    int64_t *ids = engine->data->host + slot->first;
    for (int64_t e = 0; e < held.elements; e++) {
        int64_t index[TENSOR_RANK_MAX] = {0};
        index_of(engine, tensor, &held, e, index);
        double value = given_at(engine, block->block, tensor, row, first, index);
        if (tensor->element == ELEMENT_INT64)
            ids[e] = (int64_t)value;
        else
            number_put(number_of(engine->backend, tensor->element), ids, e, value);
    }
    return true;
}

static bool fill_slots(struct engine *engine)
{
    struct data *data = engine->data;
    for (int i = 0; i < data->slot_count; i++) {
        if (!fill_slot(engine, &data->slots[i])) return false;
    }
    const char *fault =
        engine->backend->copy(engine->device, STREAM_COMPUTE, COPY_FROM_HOST, data->memory,
                              data->host, data->count * (int64_t)sizeof(int64_t));
    return engine_ok(engine, -1, fault);
}

const int64_t *data_documents(const struct engine *engine, int64_t *stride)
{
    const struct data *data = engine->data;
    const struct corpus *corpus = engine->request->options->corpus;
    if (!data || !data->rows || corpus->document_end == DOCUMENTS_JOINED) return NULL;
    *stride = corpus->row_stride;
    return data->rows + corpus->row_length;
}

bool data_step(struct engine *engine, double *waited_s)
{
    struct data *data = engine->data;
    int64_t batch = engine->program->workload.global_batch;
    *waited_s = 0;
    if (!data->readers) {
        memset(data->is_made, 0, (size_t)batch * sizeof *data->is_made);
        return fill_slots(engine);
    }
    double began_s = clock_s();
    const int64_t *rows = NULL;
    struct feed_read read = {0};
    if (data->feed) {
        rows = feed_step(data->feed, engine->step, waited_s, engine->err);
        if (!rows) return false;
        read = feed_read_of_step(data->feed);
    }
    data->rows = readers_share(engine, data->readers, rows);
    if (!data->rows) return false;
    *waited_s = clock_s() - began_s;
    readers_count(engine, data->readers, read.bytes, read.s);
    return fill_slots(engine);
}

bool data_held_out(struct engine *engine, int batch)
{
    struct data *data = engine->data;
    assert(data->readers && "what is by rule has no end to hold out");
    const int64_t *rows = NULL;
    if (data->feed && !(rows = feed_held_out(data->feed, batch, engine->err))) return false;
    data->rows = readers_share(engine, data->readers, rows);
    return data->rows && fill_slots(engine);
}

bool data_finish(struct engine *engine, struct run_result *result)
{
    struct rows_readers *readers = engine->data->readers;
    return !readers || readers_finish(engine, readers, &result->input);
}

void *data_ids(const struct engine *engine, const struct script_task *task, int buffer)
{
    int slot = find_slot(engine, task, buffer);
    return slot < 0 ? NULL : engine->data->memory + engine->data->slots[slot].first;
}
