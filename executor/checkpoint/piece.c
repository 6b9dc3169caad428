#include "executor/checkpoint/piece.h"

#include "core/names.h"
#include "plan/layout/shard.h"

#include <assert.h>

static const char *const KINDS[] = {"weight", "first_moment", "second_moment"};

const char *checkpoint_kind_name(enum checkpoint_kind kind)
{
    return KINDS[kind];
}

bool checkpoint_kind_find(const char *name, enum checkpoint_kind *kind)
{
    int found = NAME_INDEX(KINDS, name);
    if (found >= 0) *kind = (enum checkpoint_kind)found;
    return found >= 0;
}

int64_t checkpoint_box_elements(const struct checkpoint_piece *piece)
{
    int64_t elements = 1;
    for (int i = 0; i < piece->rank; i++)
        elements *= piece->count[i];
    return elements;
}

struct stretch {
    int64_t first, end;
};

static struct stretch both(struct stretch a, struct stretch b)
{
    struct stretch common = {a.first > b.first ? a.first : b.first, a.end < b.end ? a.end : b.end};
    if (common.end < common.first) common.end = common.first;
    return common;
}

static struct stretch part_of(const struct script *script, unsigned axes, int64_t elements,
                              int rank)
{
    struct slice part = shard_slice(&script->program->mesh, axes, elements, rank);
    return (struct stretch){part.first, part.first + part.count};
}

// The elements of a unit that a rank has; those of a bucket that is flat are cut as a whole.
static struct stretch unit_part(const struct script *script, int unit, unsigned axes, int rank)
{
    const struct script_unit *of = &script->units[unit];
    if (!axes) return (struct stretch){0, of->elements};
    const struct script_unit *stored = &script->units[of->same_as < 0 ? unit : of->same_as];
    const struct script_bucket *bucket = &script->buckets[stored->bucket];
    if (!script_bucket_is_flat(bucket)) return part_of(script, axes, of->elements, rank);
    struct stretch own = {stored->bucket_first, stored->bucket_first + stored->elements};
    struct stretch common = both(own, part_of(script, axes, bucket->elements, rank));
    return (struct stretch){common.first - own.first, common.end - own.first};
}

// What a rank has of a parameter: of the weights what it keeps for kernels (`is_kept`), else what
// it updates, which is what moments it has. No elements: nothing.
static struct checkpoint_piece checkpoint_piece_of(struct arena *arena, const struct script *script,
                                                   int rank, int parameter, bool is_kept)
{
    const struct program *program = script->program;
    const struct script_parameter *of = &script->parameters[parameter];
    const struct script_unit *unit = &script->units[of->unit];
    const struct block_program *block = program->blocks[of->block];
    const struct parameter *known = &block->parameters[of->index];
    const struct tensor *tensor = &block->block->tensors[known->tensor];
    struct held held = held_of(program, tensor, &known->layout, rank);
    struct checkpoint_piece piece = {
        .name = known->tie ? known->tie : arena_print(arena, "%s.%d", tensor->name, of->sequence),
        .rank = held.rank,
        .vocab_dim = tensor_find_dim(tensor, DIM_VOCAB),
        .parameter = parameter,
    };
    for (int i = 0; i < held.rank; i++) {
        piece.first[i] = held.first[i];
        piece.count[i] = held.count[i];
        piece.whole[i] = extent_size(&tensor->extents[i], 1, program->workload.seq_len);
    }
    unsigned axes = is_kept ? unit->storage.weight_axes : unit->storage.optimizer_axes;
    struct stretch own = {of->first, of->first + of->elements};
    struct stretch here = both(own, unit_part(script, of->unit, axes, rank));
    // Shares are counted rounded up: what is past the box is nobody's.
    struct stretch part = both((struct stretch){here.first - own.first, here.end - own.first},
                               (struct stretch){0, held.elements});
    piece.from = part.first;
    piece.elements = part.end - part.first;
    return piece;
}

// Whether two ranks have equal coordinates on these axes, and are of one stage: a piece is in the
// script of both.
static bool is_level(const struct mesh *mesh, unsigned axes, int a, int b)
{
    for (int i = 0; i < mesh->axis_count; i++) {
        bool must = axes >> i & 1 || mesh->axes[i].parent == AXIS_PP;
        if (must && mesh_coordinate(mesh, i, a) != mesh_coordinate(mesh, i, b)) return false;
    }
    return true;
}

// Which of the ranks that hold the piece alike writes it: those with the same box, and the same
// place among the ranks that share it in parts.
static bool is_writer(const struct script *script, int rank, const struct checkpoint_piece *piece)
{
    const struct program *program = script->program;
    const struct script_parameter *of = &script->parameters[piece->parameter];
    const struct block_program *block = program->blocks[of->block];
    const struct parameter *known = &block->parameters[of->index];
    const struct tensor *tensor = &block->block->tensors[known->tensor];
    unsigned axes = script->units[of->unit].storage.optimizer_axes;
    struct held own = held_of(program, tensor, &known->layout, rank);
    int count = 0, place = 0;
    for (int r = 0; r < program->mesh.rank_count; r++) {
        if (!mesh_has(&program->mesh, r) || !is_level(&program->mesh, axes, rank, r)) continue;
        struct held other = held_of(program, tensor, &known->layout, r);
        if (!held_equal(&own, &other)) continue;
        if (r < rank) place++;
        count++;
    }
    assert(count > 0);
    return piece->parameter % count == place;
}

struct checkpoint_pieces checkpoint_pieces_written(struct arena *arena, const struct script *script,
                                                   int rank)
{
    struct checkpoint_pieces pieces = {
        .items = ARENA_NEW(arena, struct checkpoint_piece, script->parameter_count + 1)};
    for (int p = 0; p < script->parameter_count; p++) {
        const struct script_parameter *of = &script->parameters[p];
        int tied = script->units[of->unit].tied;
        bool is_elsewhere = tied >= 0 && script->program->ties[tied].stages[0] < script->stage;
        if (of->same_as >= 0 || is_elsewhere) continue;
        struct checkpoint_piece piece = checkpoint_piece_of(arena, script, rank, p, false);
        if (piece.elements > 0 && is_writer(script, rank, &piece))
            pieces.items[pieces.count++] = piece;
    }
    return pieces;
}

struct checkpoint_pieces checkpoint_pieces_read(struct arena *arena, const struct script *script,
                                                int rank, bool is_kept)
{
    struct checkpoint_pieces pieces = {
        .items = ARENA_NEW(arena, struct checkpoint_piece, script->parameter_count + 1)};
    for (int p = 0; p < script->parameter_count; p++) {
        if (script->parameters[p].same_as >= 0) continue;
        struct checkpoint_piece piece = checkpoint_piece_of(arena, script, rank, p, is_kept);
        if (piece.elements > 0) pieces.items[pieces.count++] = piece;
    }
    return pieces;
}
