#include "memory/pack/pack.h"
#include "memory/stage_slots.h"
#include "tests/support/stage_case.h"
#include "tests/support/test.h"

// A graph with few micro-batches against the whole step: later ones in the places of earlier ones.

// Offsets of a graph's tensors under program order by first fit in order of birth, and when each
// root of a storage is alive.
struct placed {
    const struct stage_graph *stage;
    int64_t *offsets;    // [tensor], of its storage; -1 none
    int *birth, *death;  // [tensor], of its storage
    int64_t height;
};

static struct placed place(struct arena *arena, const struct stage_graph *stage, bool packs)
{
    const struct memory_graph *graph = stage->graph;
    const struct memory_problem *problem = memory_problem_make(arena, graph, 1);
    struct placed placed = {stage, ARENA_NEW(arena, int64_t, graph->tensor_count),
                            ARENA_NEW(arena, int, graph->tensor_count),
                            ARENA_NEW(arena, int, graph->tensor_count), 0};
    int *order = ARENA_NEW(arena, int, problem->operator_count);
    for (int o = 0; o < problem->operator_count; o++)
        order[o] = o;
    int *birth = ARENA_NEW(arena, int, problem->buffer_count);
    int *death = ARENA_NEW(arena, int, problem->buffer_count);
    memory_lifetimes(arena, problem, order, birth, death);
    struct pack_buffer *buffers = ARENA_NEW(arena, struct pack_buffer, problem->buffer_count);
    for (int b = 0; b < problem->buffer_count; b++) {
        buffers[b] = (struct pack_buffer){birth[b], death[b], problem->buffers[b].bytes, 1, -1};
    }
    struct pack_problem packing = {buffers, problem->buffer_count, 0};
    int64_t *offsets = ARENA_NEW(arena, int64_t, problem->buffer_count);
    if (packs) placed.height = pack_long_lived_best_fit(arena, &packing, offsets);
    for (int t = 0; t < graph->tensor_count; t++)
        placed.offsets[t] = -1;
    for (int b = 0; b < problem->buffer_count; b++) {
        int tensor = problem->buffers[b].tensor;
        placed.offsets[tensor] = offsets[b];
        placed.birth[tensor] = birth[b];
        placed.death[tensor] = death[b];
    }
    for (int t = 0; t < graph->tensor_count; t++) {
        int storage = graph->tensors[t].storage;
        placed.offsets[t] = placed.offsets[storage];
        placed.birth[t] = placed.birth[storage];
        placed.death[t] = placed.death[storage];
    }
    return placed;
}

static int key_of(const struct stage_graph *stage, int tensor, int positions, int buffers)
{
    int maker = stage->graph->tensors[tensor].producer;
    int key = (stage->chunk[maker] * positions + stage->position[maker]) * buffers;
    return 2 * (key + stage->buffer[tensor]) + (stage->kind[maker] == TASK_COPY_IN);
}

// Where the tensor of a graph with every micro-batch lies, by what the smaller graph says.
static int64_t place_in(const struct placed *small, const struct stage_graph *all, int tensor,
                        int **found, int positions, int buffers)
{
    int maker = all->graph->tensors[tensor].producer;
    int key = key_of(all, tensor, positions, buffers);
    int first = found[0][key];
    assert_true(first >= 0);
    int turns = small->stage->turns[first];
    int modulus = turns ? turns : small->stage->micro_batches;
    int like = found[all->micro_batch[maker] % modulus][key];
    assert_true(like >= 0);
    assert_int_equal(small->stage->turns[like], turns);
    return small->offsets[like];
}

static int most(const int *items, int count)
{
    int result = 0;
    for (int i = 0; i < count; i++)
        result = items[i] > result ? items[i] : result;
    return result;
}

// [micro_batch][key]: a tensor of that chunk, position and buffer.
static int **find_tensors(struct arena *arena, const struct stage_graph *small, int positions,
                          int buffers, int chunks)
{
    int **found = ARENA_NEW(arena, int *, small->micro_batches);
    for (int k = 0; k < small->micro_batches; k++) {
        found[k] = ARENA_NEW(arena, int, 2 * chunks * positions * buffers);
        for (int i = 0; i < 2 * chunks * positions * buffers; i++)
            found[k][i] = -1;
    }
    for (int t = 0; t < small->graph->tensor_count; t++) {
        int maker = small->graph->tensors[t].producer;
        if (small->buffer[t] < 0) continue;
        int key = key_of(small, t, positions, buffers);
        found[small->micro_batch[maker]][key] = t;
    }
    return found;
}

// No two tensors of the whole step that live at once overlap, each where the graph with fewer
// micro-batches has it.
static void check_turns(struct arena *arena, const struct stage_case *of, int stage)
{
    const struct stage_graph *small =
        stage_case_graph(arena, of, stage, stage_slots_cut(arena, of->program, stage));
    const struct stage_graph *all =
        stage_case_graph(arena, of, stage, of->program->shape.micro_batch_count);
    struct placed placed = place(arena, small, true), lives = place(arena, all, false);
    int positions = most(all->position, all->graph->operator_count) + 1;
    int buffers = most(all->buffer, all->graph->tensor_count) + 1;
    int chunks = most(all->chunk, all->graph->operator_count) + 1;
    int **found = find_tensors(arena, small, positions, buffers, chunks);
    int count = 0, *roots = ARENA_NEW(arena, int, all->graph->tensor_count);
    for (int t = 0; t < all->graph->tensor_count; t++) {
        const struct memory_tensor *tensor = &all->graph->tensors[t];
        if (tensor->storage == t && all->buffer[t] >= 0 && tensor->bytes > 0) roots[count++] = t;
    }
    int64_t *offsets = ARENA_NEW(arena, int64_t, count);
    for (int i = 0; i < count; i++)
        offsets[i] = place_in(&placed, all, roots[i], found, positions, buffers);
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < i; k++) {
            int a = roots[i], b = roots[k];
            if (lives.birth[a] >= lives.death[b] || lives.birth[b] >= lives.death[a]) continue;
            int64_t end_a = offsets[i] + all->graph->tensors[a].bytes;
            int64_t end_b = offsets[k] + all->graph->tensors[b].bytes;
            if (end_a <= offsets[k] || end_b <= offsets[i]) continue;
            stage_case_print(of, stage);
            print_error("# %s at %lld and %s at %lld\n", all->graph->tensors[a].name,
                        (long long)offsets[i], all->graph->tensors[b].name, (long long)offsets[k]);
            fail();
        }
    }
}

// So that an executor can run every micro-batch of a step in the arena of a few.
static void later_micro_batches_can_use_the_places_of_earlier_ones(void **state)
{
    (void)state;
    struct draw draw = draw_start("turns", 7);
    int done = 0, cut = 0, wanted = stage_case_count(40) / 4;
    for (int tries = 0; done < wanted; tries++) {
        struct arena arena = {0};
        struct stage_case of = {0};
        assert_true(tries < 1000 * wanted);
        bool is_drawn = stage_case_draw(&arena, &draw, &of);
        int stage = is_drawn ? draw_int(&draw, 0, of.program->shape.stage_count - 1) : 0;
        int count = is_drawn ? stage_slots_cut(&arena, of.program, stage) : 0;
        if (is_drawn && count < of.program->shape.micro_batch_count) {
            check_turns(&arena, &of, stage);
            cut += of.program->shape.stage_count > 1;
            done++;
        }
        arena_free(&arena);
    }
    assert_true(cut > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_micro_batches_can_use_the_places_of_earlier_ones),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
