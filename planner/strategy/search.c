#include "planner/strategy/search.h"
#include "core/hash.h"
#include "core/random.h"
#include "planner/strategy/dual.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct choice_search *search_new(struct arena *arena, const struct choice_model *model,
                                 struct choice_state *state, uint64_t seed)
{
    static const int SIZES[] = {16, 50, 120, 240}, CAPS[] = {1024, 8192, 65536};
    struct choice_search *search = ARENA_NEW(arena, struct choice_search, 1);
    *search = (struct choice_search){
        .model = model,
        .state = state,
        .window = window_new(arena, model),
        .random = seed,
        .allowed = ARENA_NEW(arena, unsigned char, model->choice_count),
        .repair_priced = ARENA_NEW(arena, double, model->choice_count),
        .is_taken = ARENA_NEW(arena, unsigned char, model->node_count),
        .front = ARENA_NEW(arena, int, model->node_count),
        .journal_nodes = ARENA_NEW(arena, int, model->node_count),
        .journal_choices = ARENA_NEW(arena, int, model->node_count),
        .hot_point = -1,
    };
    search->window->random = ~seed;
    for (int i = 0; i < SEARCH_ARMS; i++)
        search->arms[search->arm_count++] = (struct search_arm){
            .size = SIZES[i % 4], .table_cap = CAPS[i / 4 % 3], .from_pool = i >= SEARCH_ARMS / 2};
    return search;
}

int search_draw(struct choice_search *search, int count)
{
    assert(count > 0);
    return (int)(random_bits(&search->random) % (uint64_t)count);
}

int64_t search_work(const struct choice_search *search)
{
    return search->window->work + search->state->work + search->other_work;
}

void search_pool_put(struct choice_search *search, struct arena *arena, const int *choice)
{
    int at = search->pool_count++ % SEARCH_POOL;
    size_t bytes = (size_t)search->model->node_count * sizeof(int);
    if (!search->pool[at]) search->pool[at] = ARENA_NEW(arena, int, search->model->node_count);
    memcpy(search->pool[at], choice, bytes);
}

double search_merit(const struct choice_search *search, enum search_goal goal)
{
    const struct choice_state *state = search->state;
    if (goal != SEARCH_REPAIR) return state->cost;
    return state->cost + search->excess_price * state->excess;
}

// Of a few drawn arms the one whose steps take least, so that trying costs little.
static struct search_arm *draw_cheap(struct choice_search *search)
{
    enum { DRAWN = 3 };
    struct search_arm *best = NULL;
    for (int i = 0; i < DRAWN; i++) {
        struct search_arm *arm = &search->arms[search_draw(search, search->arm_count)];
        if (!best || arm->work * best->steps < best->work * arm->steps) best = arm;
    }
    return best;
}

// The arm that gained most for its work, or one in four times any.
static struct search_arm *draw_arm(struct choice_search *search)
{
    enum { ANY = 4 };
    struct search_arm *best = search_draw(search, 2) == 0
                                  ? draw_cheap(search)
                                  : &search->arms[search_draw(search, search->arm_count)];
    if (search_draw(search, ANY) == 0 || best->work == 0) return best;
    for (int i = 0; i < search->arm_count; i++) {
        struct search_arm *arm = &search->arms[i];
        if (arm->from_pool && search->pool_count == 0) continue;
        if (arm->gain * best->work > best->gain * arm->work) best = arm;
    }
    return best;
}

static void note_gain(struct choice_search *search, struct search_arm *arm, double gain,
                      int64_t work)
{
    assert(gain >= 0 && work >= 0);
    static const double FADES = 0.995;
    arm->gain += gain;
    arm->work += (double)work;
    arm->steps++;
    for (int i = 0; i < search->arm_count; i++) {
        search->arms[i].gain *= FADES;
        search->arms[i].work *= FADES;
        search->arms[i].steps *= FADES;
    }
}

// The point that is exceeded most, looked for now and then.
static void find_hot_point(struct choice_search *search)
{
    const struct choice_state *state = search->state;
    double worst = 0;
    search->hot_point = -1;
    bool any = search_draw(search, 2) == 0;
    int64_t seen = 0;
    for (int t = 0; t < search->model->point_count; t++) {
        double over = state->used[t] - search->model->room[t];
        if (over <= 0) continue;
        seen++;
        bool takes = any ? search_draw(search, (int)seen) == 0 : over > worst;
        if (takes) worst = over, search->hot_point = t;
    }
    search->other_work += search->model->point_count / 2;
}

int search_repair_steps(const struct choice_search *search)
{
    enum { LEAST = 8, MOST = 64, NODES = 128 };
    int steps = LEAST + search->model->node_count / NODES;
    return steps < MOST ? steps : MOST;
}

// What a choice uses where the limit is exceeded, at the price of excess; other points keep a share
// of their prices, so that the excess does not only move.
static void price_excess(struct choice_search *search)
{
    const struct choice_model *model = search->model;
    struct arena scratch = {0};
    double *prices = ARENA_NEW(&scratch, double, model->point_count);
    double share = search_draw(search, 3) / 2.0;
    for (int t = 0; t < model->point_count; t++) {
        bool is_over = search->state->used[t] > model->room[t];
        prices[t] = share * search->prices[t] + (is_over ? search->excess_price : 0);
    }
    dual_price_choices(model, &scratch, prices, search->repair_priced);
    search->other_work += 3 * model->choice_count + model->point_count;
    arena_free(&scratch);
}

void search_step(struct choice_search *search, enum search_goal goal)
{
    enum { CHAIN_EVERY = 8, STEP_WORK = 400 };
    search->steps++;
    search->other_work += STEP_WORK;
    if (goal == SEARCH_REPAIR && search->steps % search_repair_steps(search) == 0)
        price_excess(search);
    if (goal == SEARCH_REPAIR) find_hot_point(search);
    if (goal != SEARCH_PRICED && search->steps % CHAIN_EVERY == 0) {
        search->chains++;
        search->chain_gains += search_chain(search, goal);
        return;
    }
    struct search_arm *arm = draw_arm(search);
    int64_t before = search_work(search);
    int count = search_grow(search, arm->size, goal == SEARCH_REPAIR);
    double gain = search_window(search, goal, arm, count);
    search->gains += gain > 0;
    note_gain(search, arm, gain, search_work(search) - before);
}
