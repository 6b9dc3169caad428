#include "cost_models/input.h"

#include <assert.h>
#include <math.h>

// What ranks look at. Micro-batches are alike, so that sequences of one say all.
struct wants {
    const struct input_request *request;
    const struct program *seen;       // as the stage of the rank sees it
    int64_t batch;                    // sequences of a micro-batch of all ranks
    bool *has_any;                    // [block] whether a rank that runs it looks at any
    int *by_rank, *by_host, *by_all;  // [batch] the last rank or host, from 1, that wants it
    // Of one micro-batch: of the rank, of its host so far, of all so far.
    int64_t rank_count, host_count, all_count;
};

static bool is_attention(enum op_kind kind)
{
    return kind == OP_ATTENTION || kind == OP_ATTENTION_BACKWARD || kind == OP_SOFTMAX;
}

// Marks are of the last rank or host that wanted a sequence, so that none is counted twice by one.
static void want(int *marks, int mark, int64_t sequence, int64_t *count)
{
    if (marks[sequence] == mark) return;
    marks[sequence] = mark;
    ++*count;
}

static void want_buffer(struct wants *wants, const struct block_program *block, int buffer,
                        int rank, int host)
{
    const struct program *program = wants->seen;
    const struct buffer *of = &block->buffers[buffer];
    const struct tensor *tensor = &block->block->tensors[of->tensor];
    // Places in a sequence are of no sequence.
    if (tensor_find_dim(tensor, DIM_BATCH) < 0) return;
    struct slice slice = layout_slice(&of->layout, &program->mesh, DIM_BATCH, wants->batch, rank);
    assert(slice.first >= 0 && slice.count >= 0 && slice.first + slice.count <= wants->batch);
    for (int64_t i = slice.first; i < slice.first + slice.count; i++) {
        want(wants->by_rank, rank + 1, i, &wants->rank_count);
        want(wants->by_host, host + 1, i, &wants->host_count);
        want(wants->by_all, 1, i, &wants->all_count);
    }
}

static bool is_ids(const struct block_program *block, int buffer)
{
    int tensor = block->buffers[buffer].tensor;
    return tensor >= 0 && block->block->tensors[tensor].role == TENSOR_IDS;
}

static void want_block(struct wants *wants, const struct block_program *block, int rank, int host)
{
    for (int b = 0; b < block->buffer_count; b++) {
        if (is_ids(block, b)) want_buffer(wants, block, b, rank, host);
    }
    for (int i = 0; wants->request->are_masked && i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        if (instr->collective == COLLECTIVE_NONE && is_attention(instr->kind))
            want_buffer(wants, block, instr->inputs[0], rank, host);
    }
}

// A rank looks at what any chunk of its stage reads.
static void want_rank(struct wants *wants, int rank, int host)
{
    const struct program *program = wants->request->program;
    struct program room;
    int stage = mesh_stage_of(&program->mesh, rank);
    int chunks = program->shape.chunk_count, first = stage * chunks;
    wants->seen = program_at(program, stage, &room);
    wants->rank_count = 0;
    for (int i = first; i < first + chunks; i++) {
        const struct program_chunk *chunk = &program->chunks[program->class_of[i]];
        for (int u = 0; u < chunk->use_count; u++) {
            int block = chunk->uses[u].block_program;
            if (wants->has_any[block]) want_block(wants, program->blocks[block], rank, host);
        }
    }
}

static bool block_has_any(const struct block_program *block, bool are_masked)
{
    for (int b = 0; b < block->buffer_count; b++) {
        if (is_ids(block, b)) return true;
    }
    for (int i = 0; are_masked && i < block->instr_count; i++) {
        if (is_attention(block->instrs[i].kind)) return true;
    }
    return false;
}

static struct wants wants_new(struct arena *scratch, const struct input_request *request)
{
    const struct program *program = request->program;
    int64_t batch = program->workload.global_batch / program->shape.micro_batch_count;
    assert(batch > 0);
    bool *has_any = ARENA_NEW(scratch, bool, program->block_count);
    for (int b = 0; b < program->block_count; b++)
        has_any[b] = block_has_any(program->blocks[b], request->are_masked);
    return (struct wants){.request = request,
                          .batch = batch,
                          .has_any = has_any,
                          .by_rank = ARENA_NEW(scratch, int, batch),
                          .by_host = ARENA_NEW(scratch, int, batch),
                          .by_all = ARENA_NEW(scratch, int, batch)};
}

// Unknown beats any number: fmax would drop a NAN.
static double largest(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : fmax(a, b);
}

// No rate is unknown, not infinitely fast.
static double over(double bytes, double bytes_per_s)
{
    return bytes <= 0 ? 0 : bytes_per_s > 0 ? bytes / bytes_per_s : NAN;
}

static double id_bytes_of(const struct input_request *request)
{
    if (request->id_bytes > 0) return request->id_bytes;
    // executor/data/tokens_writer.c
    return request->program->graph->vocab <= 1 << 16 ? 2 : 4;
}

// Bytes of a sequence as a broadcast carries it.
static double carried_bytes(const struct input_request *request)
{
    int64_t seq_len = request->program->workload.seq_len;
    return 8.0 * (double)(seq_len + READERS_IDS_AHEAD + (request->are_masked ? seq_len : 0));
}

// `readers` of a host read so many sequences in all, `wanted` of them different ones.
static void add_reading(struct input_price *price, const struct input_request *request,
                        const struct host *host, int readers, double read, double wanted)
{
    double ids = (double)(request->program->workload.seq_len + READERS_IDS_AHEAD);
    double row_bytes = ids * id_bytes_of(request);
    price->reader_count += readers;
    price->read_bytes += read * row_bytes;
    price->host_read_bytes = fmax(price->host_read_bytes, read * row_bytes);
    price->drive_bytes = fmax(price->drive_bytes, wanted * row_bytes);
    price->read_s = largest(price->read_s, over(wanted * row_bytes, host->nvme_bytes_per_s));
}

// A host hands `wanted` sequences on to its ranks. Seconds.
static double add_sharing(struct input_price *price, const struct input_request *request,
                          const struct host *host, int ranks, double wanted)
{
    if (ranks == 1) return 0;
    double carried = wanted * carried_bytes(request);
    price->broadcast_bytes += carried * (ranks - 1);
    // Each of them reads and writes.
    return over(2 * carried * ranks, host->memory_bandwidth_bytes_per_s);
}

// All rows down the tree of hosts, round after round.
static void add_tree(struct input_price *price, const struct input_request *request, int hosts,
                     double wanted)
{
    assert(hosts >= 1 && wanted >= 0);
    const struct cluster *cluster = request->program->cluster;
    double carried = wanted * carried_bytes(request), slowest_s = 0;
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct node_group *group = &cluster->nodes[i];
        double rate = group->nics.count > 0 ? group->nics.bandwidth_bytes_per_s : 0;
        slowest_s = largest(slowest_s, over(carried, rate));
    }
    price->broadcast_bytes += carried * (hosts - 1);
    for (int reach = 1; reach < hosts; reach *= 2)
        price->broadcast_s += cluster->network.latency_s + slowest_s;
}

bool input_has_ids(const struct program *program)
{
    for (int b = 0; b < program->block_count; b++) {
        if (block_has_any(program->blocks[b], false)) return program->graph->vocab > 0;
    }
    return false;
}

// The hosts one after another. Returns how many there are.
static int add_hosts(struct input_price *price, struct wants *wants)
{
    const struct input_request *request = wants->request;
    const struct program *program = request->program;
    double steps = program->shape.micro_batch_count, share_s = 0;
    bool is_each = request->readers == READERS_RANK;
    int ranks = program->mesh.rank_count, hosts = 0;
    for (int rank = 0; rank < ranks; hosts++) {
        struct host_ranks of = readers_host(program->cluster, ranks, rank);
        assert(of.first == rank && of.end > rank && of.end <= ranks);
        const struct host *host = &of.group->host;
        int count = of.end - of.first;
        double each = 0;
        wants->host_count = 0;
        for (; rank < of.end; rank++) {
            want_rank(wants, rank, hosts);
            each += (double)wants->rank_count * steps;
        }
        double wanted = (double)wants->host_count * steps;
        if (request->readers != READERS_ONE)
            add_reading(price, request, host, is_each ? count : 1, is_each ? each : wanted, wanted);
        if (!is_each) share_s = largest(share_s, add_sharing(price, request, host, count, wanted));
    }
    price->broadcast_s += share_s;
    return hosts;
}

struct input_price input_price(struct arena *scratch, const struct input_request *request)
{
    const struct program *program = request->program;
    struct arena_mark mark = arena_mark(scratch);
    struct wants wants = wants_new(scratch, request);
    struct input_price price = {.readers = request->readers, .step_s = request->step_s};
    int hosts = add_hosts(&price, &wants);
    if (request->readers == READERS_ONE) {
        struct host_ranks root = readers_host(program->cluster, program->mesh.rank_count, 0);
        double all = (double)wants.all_count * program->shape.micro_batch_count;
        add_reading(&price, request, &root.group->host, 1, all, all);
        add_tree(&price, request, hosts, all);
    }
    bool is_known = !isnan(price.read_s) && !isnan(price.broadcast_s);
    price.wait_s = is_known ? fmax(0, price.read_s - price.step_s) + price.broadcast_s : NAN;
    assert(price.reader_count > 0 && price.reader_count <= program->mesh.rank_count);
    arena_reset(scratch, mark);
    return price;
}

bool input_is_bottleneck(const struct input_price *price)
{
    return price->wait_s > INPUT_WAIT_RATIO * (price->step_s + price->wait_s);
}
