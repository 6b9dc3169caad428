#include "plan/script/checking.h"

#include <string.h>

// Streams run beside each other: what one task makes and another uses, or takes the place of, must
// be ordered by their stream or by waits, directly or through others. Every task has a clock of
// what has ended before it; of every place the last writer is known, and who has read it since
// (as race detectors do it: Flanagan and Freund 2009, FastTrack).

static bool knows(const struct check_stage *stage, int other)
{
    const struct script_task *task = &stage->script->tasks[other];
    return stage->clocks[stage->next][task->stream] > other;
}

bool check_follows(const struct checking *checking, const struct check_stage *stage, int other)
{
    if (other == stage->next || knows(stage, other)) return true;
    return check_fail(checking, stage, "does not wait for %s, whose bytes it uses",
                      script_task_name(checking->arena, stage->script, other));
}

static void learn(struct check_stage *stage, int other)
{
    int *clock = stage->clocks[stage->next];
    for (int s = 0; s < STREAM_COUNT; s++) {
        if (clock[s] < stage->clocks[other][s]) clock[s] = stage->clocks[other][s];
    }
}

static int count_outputs(const struct script *script)
{
    int count = 0;
    for (int t = 0; t < script->task_count; t++)
        count += script->tasks[t].output_count;
    return count;
}

bool check_begin(const struct checking *checking, struct check_stage *stage)
{
    const struct script *script = stage->script;
    const struct script_task *task = check_task(stage);
    if (!stage->clocks) {
        stage->clocks =
            arena_alloc(checking->arena, (size_t)script->task_count, sizeof *stage->clocks);
        stage->values = ARENA_NEW(checking->arena, struct check_value, count_outputs(script));
        stage->value_capacity = count_outputs(script);
        stage->uses.arena = checking->arena;
        int parameters = script->parameter_count + 1;
        stage->weight_uses = ARENA_NEW(checking->arena, struct check_use, parameters);
        stage->gradient_uses = ARENA_NEW(checking->arena, struct check_use, parameters);
    }
    if ((unsigned)task->stream >= STREAM_COUNT)
        return check_fail(checking, stage, "is on no stream that there is");
    if (stage->last[task->stream]) learn(stage, stage->last[task->stream] - 1);
    for (int i = 0; i < task->wait_count; i++) {
        if (task->waits[i] < 0 || task->waits[i] >= stage->next)
            return check_fail(checking, stage, "waits for a task that has not begun");
        learn(stage, task->waits[i]);
    }
    stage->clocks[stage->next][task->stream] = stage->last[task->stream] = 1 + stage->next;
    return true;
}

static bool use(const struct checking *checking, struct check_stage *stage, struct check_use *of,
                bool writes)
{
    if (of->writer && !check_follows(checking, stage, of->writer - 1)) return false;
    for (int s = 0; s < STREAM_COUNT && writes; s++) {
        if (of->readers[s] && !check_follows(checking, stage, of->readers[s] - 1)) return false;
    }
    if (writes) memset(of->readers, 0, sizeof of->readers);
    *(writes ? &of->writer : &of->readers[check_task(stage)->stream]) = 1 + stage->next;
    return true;
}

static void insert(struct check_uses *uses, int at, struct check_use use)
{
    ARENA_GROW(uses->arena, uses->uses, uses->count, uses->capacity);
    memmove(&uses->uses[at + 1], &uses->uses[at], (size_t)(uses->count - at) * sizeof *uses->uses);
    uses->uses[at] = use;
    uses->count++;
}

// The first that ends behind `offset`, cut there if it begins before it.
static int cut(struct check_uses *uses, int64_t offset)
{
    int low = 0, high = uses->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (uses->uses[middle].end <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == uses->count || uses->uses[low].first >= offset) return low;
    struct check_use behind = uses->uses[low];
    uses->uses[low].end = behind.first = offset;
    insert(uses, low + 1, behind);
    return low + 1;
}

bool check_use_bytes(const struct checking *checking, struct check_stage *stage, int64_t first,
                     int64_t end, bool writes)
{
    struct check_uses *uses = &stage->uses;
    if (first >= end) return true;
    cut(uses, end);
    int at = cut(uses, first), begin = at;
    for (int64_t offset = first; offset < end; at++) {
        int64_t next = at < uses->count ? uses->uses[at].first : end;
        if (next > end) next = end;
        if (next > offset) insert(uses, at, (struct check_use){.first = offset, .end = next});
        if (!use(checking, stage, &uses->uses[at], writes)) return false;
        offset = uses->uses[at].end;
    }
    if (!writes) return true;
    // What is written in one go is one again.
    uses->uses[begin].end = end;
    memmove(&uses->uses[begin + 1], &uses->uses[at],
            (size_t)(uses->count - at) * sizeof *uses->uses);
    uses->count -= at - begin - 1;
    return true;
}

bool check_use_parameter(const struct checking *checking, struct check_stage *stage,
                         struct check_use *uses, int parameter, bool writes)
{
    int same_as = stage->script->parameters[parameter].same_as;
    return use(checking, stage, &uses[same_as < 0 ? parameter : same_as], writes);
}

bool check_use_unit(const struct checking *checking, struct check_stage *stage,
                    struct check_use *uses, int unit, bool writes)
{
    const struct script_unit *of = &stage->script->units[unit];
    for (int i = 0; i < of->parameter_count; i++) {
        if (!check_use_parameter(checking, stage, uses, of->first_parameter + i, writes))
            return false;
    }
    return true;
}
