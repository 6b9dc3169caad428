#include "planner/rank_split.h"

#include <assert.h>
#include <math.h>

// Most layers that the stages from one on have within the seconds asked about, if it begins at a
// place; -1: they cannot be.
struct reach {
    int layers;
    int option;  // of the first of them
};

static bool is_allowed(const struct rank_question *question, const struct rank_option *option,
                       int stage)
{
    bool is_end = stage == 0 || stage == question->stages - 1;
    if (question->ranks && option->ranks != question->ranks[stage]) return false;
    if (question->tp && option->tp != question->tp[stage]) return false;
    if (!is_end || question->ends_ranks == 0) return true;
    return option->ranks == question->ends_ranks && option->tp == question->ends_tp;
}

static double layer_s_at(const struct rank_question *question, const struct rank_option *option,
                         int stage)
{
    return option->layer_s * (question->stage_ratio ? question->stage_ratio[stage] : 1);
}

double rank_option_s(const struct rank_question *question, const struct rank_option *option,
                     int stage, int layers)
{
    return option->base_s + layers * layer_s_at(question, option, stage) +
           (stage == 0 ? option->first_s : 0) +
           (stage == question->stages - 1 ? option->last_s : 0);
}

int rank_option_layers(const struct rank_question *question, const struct rank_option *option,
                       int stage, double limit_s)
{
    bool is_first = stage == 0, is_last = stage == question->stages - 1;
    int behind = question->stages - stage, most = question->layers;
    double left_s = limit_s - rank_option_s(question, option, stage, 0);
    int flying = behind < question->micro_batches ? behind : question->micro_batches;
    double left_bytes = option->room_bytes - option->base_bytes -
                        (is_first ? option->first_bytes : 0) - (is_last ? option->last_bytes : 0);
    double each_bytes = option->layer_bytes + flying * option->flight_bytes;
    if (left_s < 0 || left_bytes < 0 || !is_allowed(question, option, stage)) return -1;
    // Rounding takes no layer from a stage that is as busy as the limit says.
    double layer_s = layer_s_at(question, option, stage);
    if (left_s < most * layer_s) most = (int)(left_s / layer_s * (1 + 1e-12));
    if (left_bytes < most * each_bytes) most = (int)(left_bytes / each_bytes);
    int least = is_first || is_last ? 0 : 1;
    if (question->stage_layers) {
        int wanted = question->stage_layers[stage];
        return wanted <= most ? wanted : -1;
    }
    return most >= least ? most : -1;
}

// table[stage * (rank_count + 1) + place], from the last stage to the first.
static struct reach *reach_all(struct arena *arena, const struct rank_question *question,
                               double limit_s)
{
    const struct rank_places *places = question->places;
    int width = places->rank_count + 1, stages = question->stages;
    struct reach *table = ARENA_NEW(arena, struct reach, (size_t)(stages + 1) * (size_t)width);
    for (int at = 0; at < width; at++)
        table[stages * width + at].layers = at == places->rank_count ? 0 : -1;
    for (int stage = stages - 1; stage >= 0; stage--) {
        for (int at = 0; at < width; at++) {
            struct reach *best = &table[stage * width + at];
            best->layers = -1;
            bool is_dead = at == places->rank_count || (stage == 0 && at > 0);
            for (int i = places->first_option[at]; !is_dead && i < places->first_option[at + 1];
                 i++) {
                const struct rank_option *option = &places->options[i];
                int behind = table[(stage + 1) * width + at + option->ranks].layers;
                int own = behind < 0 ? -1 : rank_option_layers(question, option, stage, limit_s);
                if (own < 0 || own + behind <= best->layers) continue;
                *best = (struct reach){own + behind, i};
            }
        }
    }
    return table;
}

// Each layer to the stage that would be done with its own first, up to what it may have.
static bool share_layers(const struct rank_question *question, const struct rank_option *const *of,
                         double limit_s, struct rank_split *split)
{
    int stages = question->stages, left = question->layers;
    for (int s = 0; s < stages; s++) {
        bool is_end = s == 0 || s == stages - 1;
        split->layers[s] = question->stage_layers ? question->stage_layers[s] : is_end ? 0 : 1;
        left -= split->layers[s];
    }
    if (left < 0 || (question->stage_layers && left != 0)) return false;
    for (; left > 0; left--) {
        int soonest = -1;
        double least_s = INFINITY;
        for (int s = 0; s < stages; s++) {
            int more = split->layers[s] + 1;
            double end_s = rank_option_s(question, of[s], s, more);
            if (end_s >= least_s || more > rank_option_layers(question, of[s], s, limit_s))
                continue;
            least_s = end_s;
            soonest = s;
        }
        if (soonest < 0) return false;
        split->layers[soonest]++;
    }
    return true;
}

static void add_up(const struct rank_question *question, const struct rank_option *const *of,
                   struct rank_split *split)
{
    split->worst_s = split->sum_s = split->end_s = 0;
    for (int s = 0; s < question->stages; s++) {
        double s_s = rank_option_s(question, of[s], s, split->layers[s]);
        split->ranks[s] = of[s]->ranks;
        split->tp[s] = of[s]->tp;
        split->worst_s = fmax(split->worst_s, s_s);
        split->sum_s += s_s;
        split->end_s = fmax(split->end_s, of[s]->end_s * split->layers[s]);
    }
}

bool rank_split_within(struct arena *arena, const struct rank_question *question, double limit_s,
                       struct rank_split *split)
{
    assert(question->stages >= 1 && question->layers >= 0 && question->micro_batches >= 1);
    struct arena work = {0};
    const struct reach *table = reach_all(&work, question, limit_s);
    int width = question->places->rank_count + 1, stages = question->stages;
    bool is_found = table[0].layers >= question->layers;
    if (is_found) {
        const struct rank_option **of = ARENA_NEW(&work, const struct rank_option *, stages);
        *split = (struct rank_split){ARENA_NEW(arena, int, stages),
                                     ARENA_NEW(arena, int, stages),
                                     ARENA_NEW(arena, int, stages),
                                     0,
                                     0,
                                     0};
        for (int s = 0, at = 0; s < stages; at += of[s++]->ranks)
            of[s] = &question->places->options[table[s * width + at].option];
        is_found = share_layers(question, of, limit_s, split);
        if (is_found) add_up(question, of, split);
    }
    // A layer's seconds are added up in another order than they were divided in.
    assert(!is_found || split->worst_s <= limit_s * (1 + 1e-9));
    arena_free(&work);
    return is_found;
}

bool rank_split_best(struct arena *arena, const struct rank_question *question, double limit_s,
                     struct rank_split *split)
{
    enum { ROUNDS_MOST = 40 };
    struct rank_split found;
    if (!rank_split_within(arena, question, limit_s, split)) return false;
    double low_s = 0;
    for (int i = 0; i < ROUNDS_MOST && low_s < split->worst_s * (1 - 1e-3); i++) {
        double middle_s = (low_s + split->worst_s) / 2;
        if (rank_split_within(arena, question, middle_s, &found))
            *split = found;
        else
            low_s = middle_s;
    }
    return true;
}
