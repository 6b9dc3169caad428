#include "executor/engine/engine.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The scores behind the last step, of its sequences, by the weights as they are then and without
// dropout: a file of safetensors with "tokens" [sequence, place] and "logits" [sequence, place,
// vocabulary], for comparisons with other programs. Its place is known before any of it is
// computed, so each rank writes what it holds where it belongs, and none holds the whole.

static const char HEAD[] = "{\"__metadata__\":{\"step\":\"%d\"},\"tokens\":{\"dtype\":\"I64\","
                           "\"shape\":[%" PRId64 ",%" PRId64 "],\"data_offsets\":[0,%" PRId64 "]},"
                           "\"logits\":{\"dtype\":\"%s\",\"shape\":[%" PRId64 ",%" PRId64
                           ",%" PRId64 "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}}";

struct logits {
    char *partial;  // the file until it is whole
    int fd;
    int64_t batch, seq_len, vocab, number_bytes;
    int64_t tokens_at, at;  // bytes into the file
    int64_t written;        // scores, by this rank
};

// The loss of the next token, whose scores are those of the head: a prediction module's is another.
static const struct op *loss_of(const struct block *head)
{
    for (int o = 0; o < head->op_count; o++) {
        const struct op *op = &head->ops[o];
        if (op->kind != OP_LOSS || op->outputs[0] != head->outputs[0]) continue;
        const struct tensor *scores = &head->tensors[op->inputs[0]];
        bool is_known = scores->rank == 3 && scores->extents[0].dim == DIM_BATCH &&
                        scores->extents[1].dim == DIM_SEQ && scores->extents[2].dim == DIM_VOCAB;
        if (is_known) return op;
    }
    return NULL;
}

bool run_check_logits(const struct graph *graph, struct err *err)
{
    const struct block *head = &graph->blocks[graph->sequence[graph->sequence_count - 1]];
    for (int o = 0; o < head->op_count; o++)
        if (head->ops[o].kind == OP_LINEAR_LOSS)
            return err_set(err, ERR_USAGE, "--logits: this plan makes them in parts (loss_chunks)");
    return loss_of(head) ||
           err_set(err, ERR_USAGE,
                   "--logits: what this model answers is no scores of a vocabulary");
}

static bool fail(struct engine *engine, const struct logits *logits)
{
    return err_set(engine->err, ERR_SYSTEM, "cannot write %s: %s", logits->partial,
                   strerror(errno));
}

static bool put(struct engine *engine, const struct logits *logits, const void *from, int64_t bytes,
                int64_t at)
{
    assert(at >= 0 && bytes >= 0 && "the place is known before the scores");
    for (int64_t done = 0; done < bytes;) {
        ssize_t count = pwrite(logits->fd, (const char *)from + done, (size_t)(bytes - done),
                               (off_t)(at + done));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return fail(engine, logits);
        done += count;
    }
    return true;
}

// The header; the first rank writes it, all know how long it is.
static bool put_head(struct engine *engine, struct logits *logits)
{
    enum { WORD = 8 };
    int64_t rows = logits->batch * logits->seq_len, tokens_bytes = rows * (int64_t)sizeof(int64_t);
    int64_t bytes = rows * logits->vocab * logits->number_bytes;
    const char *text = arena_print(
        engine->scratch, HEAD, engine->step + 1, logits->batch, logits->seq_len, tokens_bytes,
        logits->number_bytes == sizeof(double) ? "F64" : "F32", logits->batch, logits->seq_len,
        logits->vocab, tokens_bytes, tokens_bytes + bytes);
    uint64_t length = (strlen(text) + WORD - 1) / WORD * WORD;
    logits->tokens_at = WORD + (int64_t)length;
    logits->at = logits->tokens_at + tokens_bytes;
    if (engine->rank > 0) return true;
    logits->fd = open(logits->partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (logits->fd < 0 || ftruncate(logits->fd, (off_t)(logits->at + bytes)) != 0)
        return fail(engine, logits);
    text = arena_print(engine->scratch, "%-*s", (int)length, text);
    return put(engine, logits, &length, WORD, 0) &&
           put(engine, logits, text, (int64_t)length, WORD);
}

// A row of scores as the file has them, of which the padded vocabulary's end is left out.
static bool put_row(struct engine *engine, struct logits *logits, int task,
                    const struct kernel_array *array, int64_t row, int64_t place)
{
    assert(place >= 0 && place < logits->batch * logits->seq_len && array->rank == 3);
    int64_t stride = array->row_stride ? array->row_stride : array->sizes[2];
    int64_t count = array->sizes[2], first = array->first[2];
    if (first + count > logits->vocab) count = logits->vocab - first;
    if (count <= 0) return true;
    logits->written += count;
    struct arena_mark mark = arena_mark(engine->scratch);
    double *values = ARENA_NEW(engine->scratch, double, count);
    const char *from =
        (const char *)array->data + row * stride * engine_element_bytes(engine, array->element);
    bool done = numbers_read(engine, task, array->element, from, count, values);
    float *narrow = (float *)(void *)values;
    for (int64_t i = 0; i < count && logits->number_bytes == sizeof *narrow; i++)
        narrow[i] = (float)values[i];
    done = done && put(engine, logits, values, count * logits->number_bytes,
                       logits->at + (place * logits->vocab + first) * logits->number_bytes);
    arena_reset(engine->scratch, mark);
    return done;
}

// Before the loss of a micro-batch looks at them.
static bool see(struct engine *engine, int task, void *context)
{
    struct logits *logits = context;
    const struct script_task *of = &engine->script->tasks[task];
    if (of->kind != TASK_INSTR) return true;
    const struct block_program *block = engine_block(engine, of);
    const struct instr *instr = &block->instrs[of->instr];
    bool is_it = instr->collective == COLLECTIVE_NONE && instr->inner == 0 &&
                 block->block->role == BLOCK_HEAD &&
                 &block->block->ops[instr->op] == loss_of(block->block);
    struct kernel_call call;
    if (!is_it) return true;
    if (!call_make(engine, task, &call)) return false;
    const struct kernel_array *array = &call.inputs[0];
    const struct layout *layout = &block->buffers[of->inputs[0].buffer].layout;
    if (!task_counts_tokens(engine, layout)) return true;
    if (logits->fd < 0) logits->fd = open(logits->partial, O_WRONLY | O_CLOEXEC);
    if (logits->fd < 0) return fail(engine, logits);
    for (int64_t b = 0; b < array->sizes[0]; b++) {
        int64_t sequence = array->first[0] + b, begin = sequence * logits->seq_len;
        const int64_t *tokens = data_row(engine, sequence);
        for (int64_t s = 0; s < array->sizes[1]; s++) {
            int64_t place = sequence_place(&call.order, array->first[1] + s);
            if (!put(engine, logits, tokens + place, (int64_t)sizeof *tokens,
                     logits->tokens_at + (begin + place) * (int64_t)sizeof *tokens))
                return false;
            int64_t row = b * array->sizes[1] + s;
            if (!put_row(engine, logits, task, array, row, begin + place)) return false;
        }
    }
    return true;
}

// The others open the file that the first rank makes.
static bool settle(struct engine *engine)
{
    return engine_ok(engine, -1, engine->transport->barrier(engine->request->communicator));
}

// Whether the ranks have written every score once.
static bool is_whole(struct engine *engine, const struct logits *logits)
{
    double written = (double)logits->written;
    const char *fault = engine->transport->host_sum(engine->world, &written, 1);
    double wanted = (double)logits->batch * (double)logits->seq_len * (double)logits->vocab;
    if (!engine_ok(engine, -1, fault)) return false;
    return written == wanted ||
           err_set(engine->err, ERR_SYSTEM, "%s: %.0f of %.0f scores were written", logits->partial,
                   written, wanted);
}

static bool finish(struct engine *engine, const struct logits *logits, const char *path)
{
    if (engine->rank > 0) return true;
    return (fsync(logits->fd) == 0 && rename(logits->partial, path) == 0) || fail(engine, logits);
}

bool logits_write(struct engine *engine)
{
    const char *path = engine->request->options->logits_path;
    const struct workload *workload = &engine->program->workload;
    struct logits logits = {
        .partial = arena_print(engine->arena, "%s.partial", path),
        .fd = -1,
        .batch = workload->global_batch,
        .seq_len = workload->seq_len,
        .vocab = engine->request->graph->vocab,
        .number_bytes = engine->real_bytes,
    };
    assert(logits.vocab > 0 && logits.batch > 0 && logits.seq_len > 0);
    bool done = put_head(engine, &logits) && settle(engine) && forward_run(engine, see, &logits) &&
                is_whole(engine, &logits) && finish(engine, &logits, path);
    if (logits.fd >= 0) close(logits.fd);
    if (!done && engine->rank == 0) unlink(logits.partial);
    return done;
}
