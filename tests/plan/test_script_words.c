#include "plan/script/check.h"
#include "tests/support/priced.h"
#include "tests/support/script_case.h"
#include "tests/support/script_change.h"
#include "tests/support/test.h"

// What is said of scripts that are wrong: in a script of GPT-2 on two stages one thing is changed
// at a time, and the words are those of that rule, not of another that is broken as well.

struct wrong {
    const char *words;
    bool (*fits)(const struct script *script, const struct script_task *task);
    void (*make)(struct arena *arena, struct script *script, int task);
};

static bool is_right(struct script_case *of, struct err *err)
{
    struct arena scratch = {0};
    bool right = script_check(&scratch, (const struct script *const *)of->scripts,
                              of->program->shape.stage_count, err);
    arena_free(&scratch);
    return right;
}

static const struct block_program *block_of(const struct script *script,
                                            const struct script_task *task)
{
    return script->program->blocks[task->block];
}

static const struct instr *instr_of(const struct script *script, const struct script_task *task)
{
    return task->kind == TASK_INSTR ? &block_of(script, task)->instrs[task->instr] : NULL;
}

static bool is_any(const struct script *script, const struct script_task *task)
{
    return script && task;
}

static bool is_instr(const struct script *script, const struct script_task *task)
{
    return script && task->kind == TASK_INSTR;
}

static bool reads_arena(const struct script *script, const struct script_task *task)
{
    return is_instr(script, task) && task->input_count > 0 && task->inputs[0].place == PLACE_ARENA;
}

static bool writes_arena(const struct script *script, const struct script_task *task)
{
    return is_instr(script, task) && task->output_count > 0 &&
           task->outputs[0].place == PLACE_ARENA && task->outputs[0].bytes > 0;
}

static int at_place(const struct script_task *task, enum script_place place)
{
    for (int i = 0; i < task->input_count; i++)
        if (task->inputs[i].place == place) return i;
    return -1;
}

static bool reads_weight(const struct script *script, const struct script_task *task)
{
    return is_instr(script, task) && at_place(task, PLACE_WEIGHT) >= 0;
}

static bool reads_ids(const struct script *script, const struct script_task *task)
{
    return is_instr(script, task) && at_place(task, PLACE_IDS) >= 0;
}

static bool reads_two(const struct script *script, const struct script_task *task)
{
    return reads_arena(script, task) && task->input_count > 1 &&
           task->inputs[1].place == PLACE_ARENA && task->inputs[0].bytes == task->inputs[1].bytes &&
           task->inputs[0].buffer != task->inputs[1].buffer;
}

static bool makes_gradient(const struct script *script, const struct script_task *task)
{
    return is_instr(script, task) && task->output_count > 0 &&
           task->outputs[0].place == PLACE_GRADIENT && !task->outputs[0].adds;
}

static bool adds_gradient(const struct script *script, const struct script_task *task)
{
    return is_instr(script, task) && task->output_count > 0 &&
           task->outputs[0].place == PLACE_GRADIENT && task->outputs[0].adds;
}

static bool waits(const struct script *script, const struct script_task *task)
{
    return script && task->wait_count > 0;
}

static bool is_send(const struct script *script, const struct script_task *task)
{
    return script && task->kind == TASK_SEND;
}

static bool is_receive(const struct script *script, const struct script_task *task)
{
    return script && task->kind == TASK_RECEIVE;
}

static bool is_norm(const struct script *script, const struct script_task *task)
{
    return script && task->kind == TASK_NORM;
}

static bool is_reduce(const struct script *script, const struct script_task *task)
{
    return script && task->kind == TASK_GRADIENT_REDUCE;
}

static bool is_update(const struct script *script, const struct script_task *task)
{
    return script && task->kind == TASK_UPDATE;
}

static bool is_tied(const struct script *script, const struct script_task *task)
{
    return script && task->kind == TASK_TIED_REDUCE;
}

static bool is_loss(const struct script *script, const struct script_task *task)
{
    const struct instr *instr = instr_of(script, task);
    return instr && instr->kind == OP_LOSS && instr->collective == COLLECTIVE_NONE;
}

#define CHANGE(name, ...)                                                \
    static void name(struct arena *arena, struct script *script, int at) \
    {                                                                    \
        struct script_task *task = &script->tasks[at];                   \
        (void)arena, (void)task;                                         \
        __VA_ARGS__;                                                     \
    }

CHANGE(no_stream, task->stream = STREAM_COUNT)
CHANGE(no_buffer, task->inputs[0].buffer = block_of(script, task)->buffer_count)
CHANGE(fewer_inputs, task->input_count--)
CHANGE(more_bytes, task->outputs[0].bytes += script->alignment)
CHANGE(other_input, task->inputs[0].buffer = task->inputs[1].buffer)
CHANGE(swap_inputs, struct script_operand first = task->inputs[0];
       task->inputs[0].offset = task->inputs[1].offset; task->inputs[1].offset = first.offset)
CHANGE(other_weight, struct script_operand *of = &task->inputs[at_place(task, PLACE_WEIGHT)];
       of->parameter += of->parameter > 0 ? -1 : 1)
CHANGE(weight_in_arena, task->inputs[at_place(task, PLACE_WEIGHT)].place = PLACE_ARENA)
CHANGE(weight_is_gradient, task->inputs[at_place(task, PLACE_WEIGHT)].place = PLACE_GRADIENT)
CHANGE(ids_are_weight, task->inputs[at_place(task, PLACE_IDS)].place = PLACE_WEIGHT)
CHANGE(input_is_weight, task->inputs[0].place = PLACE_WEIGHT)
CHANGE(output_is_gradient, task->outputs[0].place = PLACE_GRADIENT)
CHANGE(first_adds, task->outputs[0].adds = true)
CHANGE(later_adds_not, task->outputs[0].adds = false)
CHANGE(other_gradient, task->outputs[0].parameter += task->outputs[0].parameter > 0 ? -1 : 1)
CHANGE(gradient_in_arena, task->outputs[0].place = PLACE_ARENA)
CHANGE(no_wait, task->wait_count = 0)
CHANGE(wait_for_later, task->waits[0] = script->task_count - 1)
CHANGE(wait_for_none, task->waits[0] = -1)
CHANGE(twice, script_change_insert(arena, script, at + 1, *task))
CHANGE(dropped, script_change_drop(script, at))
CHANGE(other_peer, task->peer_stage = script->stage)
CHANGE(other_channel, task->channel ^= 1)
CHANGE(other_micro_batch, task->micro_batch ^= 1)
CHANGE(other_chunk, task->chunk++)
CHANGE(other_position, task->position++)
CHANGE(no_unit, task->unit = -1)
CHANGE(other_bucket, task->bucket++)

static const struct wrong WRONG[] = {
    {"stage 0, F0.0 0 embedding.token: is on no stream that there is", is_any, no_stream},
    {"stage 0, F0.0 0 embedding.positioned: has an operand that is no buffer of its block",
     reads_arena, no_buffer},
    {"stage 0, F0.0 0 embedding.positioned: has 1 inputs and 1 outputs, not 2 and 1", reads_arena,
     fewer_inputs},
    {"stage 0, F0.0 0 embedding.token: embedding.token has 786432 bytes, not 786496", writes_arena,
     more_bytes},
    {"stage 0, F0.0 0 embedding.positioned: input 0 is embedding.position, not embedding.token",
     reads_two, other_input},
    {"stage 0, F0.0 0 embedding.positioned: embedding.token is read at 786432 with 786432 bytes, "
     "but F0.0 0 embedding.token has it at 0 with 786432",
     reads_two, swap_inputs},
    {"stage 0, F0.0 0 embedding.token: embedding.token.weight is another parameter", reads_weight,
     other_weight},
    {"stage 0, F0.0 0 embedding.token: embedding.token.weight is not read from the state",
     reads_weight, weight_in_arena},
    {"stage 0, F0.0 0 embedding.token: embedding.token.weight is not read from the state",
     reads_weight, weight_is_gradient},
    {"stage 0, F0.0 0 embedding.token: token_ids is no data of the micro-batch", reads_ids,
     ids_are_weight},
    {"stage 0, F0.0 0 embedding.positioned: embedding.token is not in the arena", reads_arena,
     input_is_weight},
    {"stage 0, F0.0 0 embedding.token: embedding.token is not in the arena", writes_arena,
     output_is_gradient},
    {"stage 0, F0.0 0 embedding.token: embedding.token is added to what is there", writes_arena,
     first_adds},
    {"stage 0, W0.0 6 d_mlp.down.b: adds to the gradient of parameter 96, which nobody has written",
     makes_gradient, first_adds},
    {"stage 0, W0.0 6 d_mlp.down.b: d_mlp.down.weight is another parameter's", makes_gradient,
     other_gradient},
    {"stage 0, W0.0 6 d_mlp.down.b: d_mlp.down.weight is not in the state", makes_gradient,
     gradient_in_arena},
    {"stage 0, W1.0 6 d_mlp.down.b: writes over the gradient of parameter 96", adds_gradient,
     later_adds_not},
    {"stage 0, F0.0 6 send: does not wait for F0.0 6 mlp.residual, whose bytes it uses", waits,
     no_wait},
    {"stage 0, F0.0 6 send: waits for a task that has not begun", waits, wait_for_later},
    {"stage 0, F0.0 6 send: waits for a task that has not begun", waits, wait_for_none},
    {"stage 0, F0.0 0 embedding.token: is done a second time", is_instr, twice},
    {"stage 0, F0.0 0 embedding.positioned: reads embedding.token before it is written", is_instr,
     dropped},
    {"stage 0, F0.0 0 embedding.positioned: reads embedding.token before it is written", is_instr,
     other_micro_batch},
    {"stage 0, F0.1 0 embedding.token: is of no block of the stage", is_instr, other_chunk},
    {"stage 0, F0.0 1 embedding.token: is of no block of the stage", is_instr, other_position},
    {"stage 1, F0.0 6 loss: reads loss before it is written", is_loss, dropped},
    {"stage 0, F0.0 6 send: goes to or comes from chunk 0 of stage 0, which is no neighbour",
     is_send, other_peer},
    {"stage 0, F0.0 6 send: goes to or comes from chunk 0 of stage 1, which is no neighbour",
     is_send, other_channel},
    {"stage 0, F1.0 6 send: reads mlp.residual before it is written", is_send, other_micro_batch},
    {"stage 0, F0.0 6 send: lacks mlp.residual", is_send, fewer_inputs},
    {"stage 1, F0.0 0 receive: the next message from stage 0 is that of F1.0 6 send", is_send,
     dropped},
    {"stage 0, B1.0 6 receive: the next message from stage 1 is that of B0.0 0 send", is_receive,
     other_micro_batch},
    {"stage 0, W0.0 6 d_mlp.down.b: reads d_mlp.residual before it is written", is_receive,
     dropped},
    {"stage 0, update of 0.0 embedding.token.weight: comes before the gradient norm", is_norm,
     dropped},
    {"waiting for ever: stage 0 at norm", is_norm, twice},
    {"stage 0, norm: comes where bucket 1 is not reduced", is_reduce, dropped},
    {"stage 0, reduce gradients of 0.3 block and 3 more: was reduced before", is_reduce, twice},
    {"stage 0, reduce gradients: is of no bucket", is_reduce, no_unit},
    {"stage 0, reduce gradients of 0.3 block and 3 more: comes before the last gradient of its "
     "bucket",
     is_reduce, other_bucket},
    {"stage 0, update of 0.3 block and 3 more: does not wait for reduce gradients of 0.3 block and "
     "3 more, whose bytes it uses",
     is_update, dropped},
    {"stage 0, update of 0.0 embedding.token.weight: was updated before", is_update, twice},
    {"stage 0, update of 0.3 block and 3 more: was updated before", is_update, other_bucket},
    {"waiting for ever: stage 0 at norm, stage 1 at tied gradients of 0.6 head.lm.weight", is_tied,
     dropped},
    {"waiting for ever: stage 0 at tied gradients of 0.0 embedding.token.weight, stage 1 at norm",
     is_tied, twice},
};

static bool moves_units(const struct script *script, const struct script_task *task,
                        enum collective collective)
{
    const struct instr *instr = instr_of(script, task);
    return instr && instr->collective == collective && instr->parameter;
}

static bool is_gather(const struct script *script, const struct script_task *task)
{
    return moves_units(script, task, COLLECTIVE_ALL_GATHER);
}

static bool is_scatter(const struct script *script, const struct script_task *task)
{
    return moves_units(script, task, COLLECTIVE_REDUCE_SCATTER);
}

static bool reads_gathered(const struct script *script, const struct script_task *task)
{
    return is_instr(script, task) && !is_gather(script, task) && task->input_count > 1 &&
           task->inputs[1].place == PLACE_ARENA && task->inputs[1].parameter >= 0;
}

static bool fills_room(const struct script *script, const struct script_task *task)
{
    return is_instr(script, task) && !is_gather(script, task) && task->output_count > 0 &&
           task->outputs[0].place == PLACE_ARENA && task->outputs[0].parameter >= 0;
}

CHANGE(no_units, task->unit_count = 0)
CHANGE(next_unit, task->unit++)
CHANGE(more_units, task->unit_count++)
CHANGE(fewer_units, task->unit_count--)
CHANGE(more_read, task->inputs[0].bytes += script->alignment)
CHANGE(fewer_written, task->outputs[0].bytes -= script->alignment)
CHANGE(written_to_state, task->outputs[0].place = PLACE_WEIGHT)
CHANGE(read_from_gradient, task->inputs[0].place = PLACE_GRADIENT)
CHANGE(read_from_weight, task->inputs[0].place = PLACE_WEIGHT)
CHANGE(next_parameter, task->inputs[0].parameter++)
CHANGE(next_parameter_made, task->outputs[0].parameter++)
CHANGE(gathered_of_other, task->inputs[1].parameter++)
CHANGE(gathered_elsewhere, task->inputs[1].offset += script->alignment)
CHANGE(room_elsewhere, task->outputs[0].offset += script->alignment)
CHANGE(added, task->outputs[0].adds = !task->outputs[0].adds)

static const struct wrong SHARDS[] = {
    {"stage 0, F0.0 0 all-gather parameters: covers no unit", is_gather, no_units},
    {"stage 0, F0.0 0 all-gather parameters: covers a unit that is not its own", is_gather,
     next_unit},
    {"stage 0, F0.0 0 all-gather parameters: covers a unit that is not its own", is_gather,
     more_units},
    {"stage 0, F0.0 0 all-gather parameters: moves 78767616 bytes, but its units have 1572864",
     is_gather, fewer_units},
    {"stage 0, F0.0 0 all-gather parameters: has not its units in the state", is_gather,
     fewer_inputs},
    {"stage 0, F0.0 0 all-gather parameters: does not make 78767616 bytes", is_gather,
     fewer_written},
    {"stage 0, F0.0 0 all-gather parameters: a flat buffer is not in the arena", is_gather,
     written_to_state},
    {"stage 0, F0.0 0 all-gather parameters: has not its units in the state", is_gather,
     read_from_gradient},
    {"stage 0, F0.0 0 all-gather parameters: has not its units in the state", is_gather,
     next_parameter},
    {"stage 0, F0.0 0 all-gather parameters: is done a second time", is_gather, twice},
    {"stage 0, F0.0 0 embedding.token: reads embedding.token.weight before it is written",
     is_gather, dropped},
    {"stage 0, F0.0 0 embedding.token: embedding.token.weight is another parameter", reads_gathered,
     gathered_of_other},
    {"stage 0, F0.0 0 embedding.token: embedding.token.weight is read at 71278144 with 77194752 "
     "bytes, but F0.0 0 all-gather parameters has it at 71278080 with 77194752",
     reads_gathered, gathered_elsewhere},
    {"stage 0, W0.0 6 d_mlp.down.b: d_mlp.down.weight is another parameter's", fills_room,
     next_parameter_made},
    {"stage 0, W0.0 6 reduce-scatter gradients: a flat buffer is read at 115749888 with 4718592 "
     "bytes, but W0.0 6 d_mlp.down.b has it at 115749952 with 4718592",
     fills_room, room_elsewhere},
    {"stage 0, W0.0 6 d_mlp.down.b: d_mlp.down.weight is added to a room that has nothing of it",
     fills_room, added},
    {"stage 0, W0.0 6 d_mlp.down.biased: does not wait for B0.0 6 receive, whose bytes it uses",
     fills_room, dropped},
    {"stage 0, W0.0 6 reduce-scatter gradients: covers no unit", is_scatter, no_units},
    {"stage 0, W0.0 6 reduce-scatter gradients: covers no unit", is_scatter, next_unit},
    {"stage 0, W0.0 6 reduce-scatter gradients: covers no unit", is_scatter, more_units},
    {"stage 0, W0.0 6 reduce-scatter gradients: does not take its room of 14175744 bytes and 0 "
     "more",
     is_scatter, fewer_inputs},
    {"stage 0, W0.0 6 reduce-scatter gradients: does not take its room of 14175744 bytes and 0 "
     "more",
     is_scatter, more_read},
    {"stage 0, W0.0 6 reduce-scatter gradients: has no room in the arena", is_scatter,
     read_from_weight},
    {"stage 0, W0.0 6 reduce-scatter gradients: has not its units in the state", is_scatter,
     next_parameter_made},
    {"stage 0, W0.0 6 reduce-scatter gradients: adds to the gradient of parameter 82, which nobody "
     "has written",
     is_scatter, added},
    {"stage 0, W0.0 6 reduce-scatter gradients: is done a second time", is_scatter, twice},
    {"stage 0, B0.0 4 all-gather parameters: does not wait for B0.0 6 d_attention.norm, whose "
     "bytes it uses",
     is_scatter, dropped},
};

// The script as it was, task by task.
static struct script *copy_of(struct arena *arena, const struct script *script)
{
    struct script *copy = ARENA_NEW(arena, struct script, 1);
    *copy = *script;
    copy->tasks = ARENA_NEW(arena, struct script_task, script->task_count);
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        struct script_task *own = &copy->tasks[t];
        *own = *task;
        own->inputs = ARENA_NEW(arena, struct script_operand, task->input_count);
        own->outputs = ARENA_NEW(arena, struct script_operand, task->output_count);
        own->waits = ARENA_NEW(arena, int, task->wait_count);
        for (int i = 0; i < task->input_count; i++)
            own->inputs[i] = task->inputs[i];
        for (int i = 0; i < task->output_count; i++)
            own->outputs[i] = task->outputs[i];
        for (int i = 0; i < task->wait_count; i++)
            own->waits[i] = task->waits[i];
    }
    return copy;
}

// One by one in right scripts of two stages.
static void check_words(struct arena *arena, struct script_case *of, const struct wrong *rows,
                        size_t count)
{
    struct err err = {0};
    script_case_write(of);
    assert_true(is_right(of, &err));
    struct script *right[] = {of->scripts[0], of->scripts[1]};
    for (size_t i = 0; i < count; i++) {
        struct arena_mark mark = arena_mark(arena);
        int stage = 0, task = 0;
        while (!rows[i].fits(right[stage], &right[stage]->tasks[task])) {
            if (++task < right[stage]->task_count) continue;
            assert_int_equal(stage++, 0);
            task = 0;
        }
        of->scripts[stage] = copy_of(arena, right[stage]);
        rows[i].make(arena, of->scripts[stage], task);
        err = (struct err){0};
        assert_false(is_right(of, &err));
        assert_string_equal(err.text, rows[i].words);
        of->scripts[stage] = right[stage];
        arena_reset(arena, mark);
    }
}

static void every_rule_has_its_words(void **state)
{
    struct script_case of;
    script_case_gpt2(*state, 2, 2, &of);
    check_words(*state, &of, WRONG, sizeof WRONG / sizeof *WRONG);
}

// Parameters are gathered for use, gradients made in rooms and scattered.
static void shards_have_their_words(void **state)
{
    struct priced priced = priced_start(*state, "gpt2", "dgx-a100-80g-x16", "meshwright");
    struct script_case of = {.arena = *state, .model = -1};
    priced.parallel.degree[AXIS_PP] = 2;
    priced.parallel.zero = 3;
    priced.workload.seq_len = 256;
    priced_finish(&priced);
    of.program = priced.program;
    script_case_keep(&priced, &of);
    check_words(*state, &of, SHARDS, sizeof SHARDS / sizeof *SHARDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_has_its_words),
        cmocka_unit_test(shards_have_their_words),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
