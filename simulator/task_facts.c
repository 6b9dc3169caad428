#include "simulator/task_facts.h"

#include <assert.h>
#include <math.h>

// Blocks of this kind in a chunk.
static int block_uses(const struct program_chunk *chunk, int block)
{
    int uses = 0;
    for (int i = 0; i < chunk->use_count; i++) {
        if (chunk->uses[i].block_program == block) uses += chunk->uses[i].count;
    }
    return uses;
}

static void add_once(struct once_facts *facts, const struct ledger_line *line)
{
    assert(line->bytes >= 0 && line->count >= 0);
    facts->bytes += line->bytes * (line->collective == COLLECTIVE_NONE ? 1 : line->count);
    if (line->rank_count > facts->rank_count) facts->rank_count = line->rank_count;
}

static void add_phase(struct phase_facts *facts, const struct ledger_line *line, double uses)
{
    assert(uses > 0 && "what no block of the chunk has is none of its facts");
    if (line->collective == COLLECTIVE_NONE) {
        bool is_copy = line->entry == ENTRY_COPY;
        if (is_copy) facts->message_bytes[PART_OFFLOAD] += line->bytes * line->count * uses;
        facts->flop += line->flop * uses;
        facts->bytes += is_copy ? 0 : line->bytes * uses;
        return;
    }
    facts->message_bytes[line->part] += line->bytes * line->count * uses;
    if (line->rank_count > facts->rank_count[line->part])
        facts->rank_count[line->part] = line->rank_count;
}

static void add_line(struct task_facts *facts, const struct ledger_line *line)
{
    for (int class = 0; line->block >= 0 && class < facts->program->chunk_class_count; class ++) {
        int uses = block_uses(&facts->program->chunks[class], line->block);
        if (uses > 0) add_phase(&facts->chunks[class].phases[line->phase], line, uses);
    }
    if (line->block >= 0) return;
    struct chunk_facts *chunk = line->chunk >= 0 ? &facts->chunks[line->chunk] : NULL;
    assert((chunk || line->entry >= ENTRY_HOP) && "only the whole step is of no chunk");
    switch (line->entry) {
    case ENTRY_TASK:
    case ENTRY_BEGIN:
    case ENTRY_COPY:
        add_phase(&chunk->phases[line->phase], line, 1);
        break;
    case ENTRY_REDUCE:
        add_once(&chunk->reduce, line);
        break;
    case ENTRY_GATHER:
        add_once(&chunk->gather, line);
        break;
    case ENTRY_SMALL:
        add_once(&chunk->small, line);
        break;
    case ENTRY_UPDATE:
    case ENTRY_SQUARES:
    case ENTRY_RATIOS:
        add_once(&chunk->update, line);
        break;
    case ENTRY_HOP:
        facts->hop_bytes = fmax(facts->hop_bytes, line->bytes);
        break;
    case ENTRY_TIED:
        assert(facts->tie_count < TIE_MAX && "each tie is a line");
        add_once(&facts->tied[facts->tie_count++], line);
        break;
    default:
        add_once(&facts->norm, line);
        break;
    }
}

struct task_facts task_facts_make(struct arena *arena, const struct ledger *ledger,
                                  const struct program *program)
{
    struct task_facts facts = {
        .ledger = ledger,
        .program = program,
        .chunks = ARENA_NEW(arena, struct chunk_facts, program->chunk_class_count),
    };
    for (int i = 0; i < ledger->count; i++)
        add_line(&facts, &ledger->lines[i]);
    return facts;
}

// What a rank computes, or waits for the host, in this phase of a block.
static bool is_part(const struct ledger_line *line, int block, enum phase phase)
{
    bool is_of_block = line->block == block && line->phase == phase;
    bool is_work = line->entry == ENTRY_OPERATOR || line->entry == ENTRY_CONTENTION ||
                   line->entry == ENTRY_HOST || line->entry == ENTRY_LOSS ||
                   line->entry == ENTRY_SEED || line->entry == ENTRY_BEGIN;
    return is_of_block && is_work && line->collective == COLLECTIVE_NONE && line->exposed_s > 0;
}

static double block_s(const struct task_facts *facts, int block, enum phase phase, int *count)
{
    double sum_s = 0;
    *count = 0;
    for (int i = 0; i < facts->ledger->count; i++) {
        const struct ledger_line *line = &facts->ledger->lines[i];
        if (!is_part(line, block, phase)) continue;
        sum_s += line->exposed_s;
        ++*count;
    }
    return sum_s;
}

int task_facts_part_count(const struct task_facts *facts, int class, enum phase phase)
{
    assert(class >= 0 && class < facts->program->chunk_class_count);
    const struct program_chunk *chunk = &facts->program->chunks[class];
    int sum = 0;
    for (int i = 0; i < chunk->use_count; i++) {
        int count;
        block_s(facts, chunk->uses[i].block_program, phase, &count);
        if (count > 0) sum += chunk->uses[i].count * (count + 1);
    }
    return sum;
}

// Places on the span: seconds of the prices from its start, in whole nanoseconds.
struct ruler {
    const struct span *span;
    double whole_s, now_s;
};

static int64_t mark_ns(const struct ruler *ruler)
{
    assert(ruler->whole_s > 0 && ruler->now_s >= 0);
    double share = fmin(ruler->now_s / ruler->whole_s, 1);
    return ruler->span->start_ns +
           llround(share * (double)(ruler->span->end_ns - ruler->span->start_ns));
}

static const char *part_name(struct arena *arena, const struct ledger_line *line)
{
    if (line->entry == ENTRY_CONTENTION) return "slowed by communication beside it";
    if (line->entry == ENTRY_HOST) return "waits for the host";
    return line->recompute ? arena_print(arena, "%s, again", line->what) : line->what;
}

// One block with its operators behind it; returns the part behind them.
static struct span_part *add_block(const struct task_facts *facts, struct arena *arena, int block,
                                   enum phase phase, const char *name, struct ruler *ruler,
                                   struct span_part *part)
{
    struct span_part *whole = part++;
    *whole = (struct span_part){.name = name, .start_ns = mark_ns(ruler)};
    for (int i = 0; i < facts->ledger->count; i++) {
        const struct ledger_line *line = &facts->ledger->lines[i];
        if (!is_part(line, block, phase)) continue;
        part->name = part_name(arena, line);
        part->start_ns = mark_ns(ruler);
        ruler->now_s += line->exposed_s;
        part->end_ns = mark_ns(ruler);
        part->flop = line->flop;
        part->bytes = line->bytes;
        whole->flop += line->flop;
        whole->bytes += line->bytes;
        part++;
    }
    whole->end_ns = mark_ns(ruler);
    return part;
}

int task_facts_parts(const struct task_facts *facts, struct arena *arena, int class,
                     enum phase phase, int first_layer, const struct span *span,
                     struct span_part **parts)
{
    const struct program *program = facts->program;
    const struct program_chunk *chunk = &program->chunks[class];
    int most = task_facts_part_count(facts, class, phase), blocks = 0, layer = first_layer;
    struct ruler ruler = {.span = span};
    for (int i = 0; i < chunk->use_count; i++) {
        int count;
        ruler.whole_s +=
            chunk->uses[i].count * block_s(facts, chunk->uses[i].block_program, phase, &count);
        blocks += chunk->uses[i].count;
    }
    if (most == 0 || ruler.whole_s <= 0) return 0;
    struct span_part *part = *parts = ARENA_NEW(arena, struct span_part, most);
    // Names in the order of the model, then parts in that of the phase.
    int *kinds = ARENA_NEW(arena, int, blocks);
    const char **names = ARENA_NEW(arena, const char *, blocks);
    for (int i = 0, at = 0; i < chunk->use_count; i++) {
        for (int k = 0; k < chunk->uses[i].count; k++, at++) {
            kinds[at] = chunk->uses[i].block_program;
            const struct block *block = program->blocks[kinds[at]]->block;
            bool is_layer = block->role == BLOCK_LAYER;
            names[at] = is_layer ? arena_print(arena, "layer %d", layer++) : block->name;
        }
    }
    for (int i = 0; i < blocks; i++) {
        int at = phase == PHASE_FORWARD ? i : blocks - 1 - i, count;
        if (block_s(facts, kinds[at], phase, &count) > 0)
            part = add_block(facts, arena, kinds[at], phase, names[at], &ruler, part);
    }
    return (int)(part - *parts);
}
