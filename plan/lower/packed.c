#include "plan/lower/packed.h"

#include <assert.h>

static int add_buffer(struct arena *arena, struct block_program *program,
                      const struct packed_part *parts, int count, struct packed_room *room)
{
    ARENA_GROW(arena, program->buffers, program->buffer_count, room->buffers);
    struct buffer packed = program->buffers[parts[0].buffers[0]];
    packed.bytes = 0;
    packed.packed = true;
    for (int p = 0; p < count; p++)
        packed.bytes += program->buffers[parts[p].buffers[0]].bytes;
    program->buffers[program->buffer_count] = packed;
    return program->buffer_count++;
}

// `views`: by buffer, 1 + the view to show; 0.
static void show(struct block_program *program, const int8_t *views)
{
    for (int i = 0; i < program->instr_count; i++) {
        struct instr *instr = &program->instrs[i];
        for (int k = 0; k < instr->input_count; k++) {
            if (views[instr->inputs[k]]) instr->input_views[k] = views[instr->inputs[k]];
        }
        for (int k = 0; k < instr->output_count; k++) {
            if (views[instr->outputs[k]]) instr->output_views[k] = views[instr->outputs[k]];
        }
    }
}

void packed_add(struct arena *arena, struct block_program *program, const struct packed_part *parts,
                int count, struct packed_room *room)
{
    assert(count > 1 && parts[0].count > 0 && "one part alone is packed already");
    int whole = add_buffer(arena, program, parts, count, room);
    int8_t *views = ARENA_NEW(arena, int8_t, program->buffer_count);
    int64_t row = 0, first = 0;
    for (int p = 0; p < count; p++)
        row += parts[p].columns;
    for (int p = 0; p < count; p++) {
        for (int k = 0; k < parts[p].count; k++) {
            ARENA_GROW(arena, program->views, program->view_count, room->views);
            assert(program->view_count < INT8_MAX);
            int buffer = parts[p].buffers[k];
            program->views[program->view_count] = (struct packed_view){buffer, whole, first, row};
            views[buffer] = (int8_t)++program->view_count;
        }
        first += parts[p].columns;
    }
    show(program, views);
}

static void finish(const struct block_program *program, int view, int *buffer)
{
    if (view > 0) *buffer = program->views[view - 1].whole;
}

void packed_finish(struct block_program *program)
{
    for (int i = 0; i < program->instr_count; i++) {
        struct instr *instr = &program->instrs[i];
        for (int k = 0; k < instr->input_count; k++)
            finish(program, instr->input_views[k], &instr->inputs[k]);
        for (int k = 0; k < instr->output_count; k++) {
            finish(program, instr->output_views[k], &instr->outputs[k]);
            // In its place the next one reads it.
            if (instr->output_views[k]) instr->passing &= ~(1u << k);
        }
    }
}
