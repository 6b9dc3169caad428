#include "plan/token_routing.h"
#include "core/file.h"
#include "core/random.h"
#include "core/real.h"
#include "core/units.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_LIMIT_BYTES = 1 << 20, EXPERTS_MAX = 4096 };

static void normalise(struct token_routing *routing)
{
    double sum = 0;
    for (int i = 0; i < routing->expert_count; i++)
        sum += routing->share[i];
    for (int i = 0; i < routing->expert_count; i++)
        routing->share[i] /= sum;
}

static bool read_zipf(const char *text, struct token_routing *routing, struct err *err)
{
    double exponent = 0;
    if (!units_parse_f64(text, "zipf:S", &exponent, err)) return false;
    if (!(exponent >= 0 && exponent <= 10))
        return err_set(err, ERR_USAGE, "zipf:S: expected 0 to 10, found %s", text);
    for (int i = 0; i < routing->expert_count; i++)
        routing->share[i] = real_power(i + 1, -exponent);
    routing->is_shuffled = true;
    return true;
}

static bool read_file(struct arena *arena, const char *path, struct token_routing *routing,
                      struct err *err)
{
    size_t bytes = 0;
    char *text = file_read(arena, path, FILE_LIMIT_BYTES, &bytes, err);
    if (!text) return false;
    int count = 0;
    double sum = 0;
    for (char *word = strtok(text, " \t\r\n,"); word; word = strtok(NULL, " \t\r\n,")) {
        double value = 0;
        bool is_number = units_parse_f64(word, path, &value, err);
        if (is_number && !(value >= 0 && value <= 1e18))
            err_set(err, ERR_INPUT, "%s: expected 0 to 1e18, found %s", path, word);
        if (err->kind) {
            err->kind = ERR_INPUT;
            return false;
        }
        if (count < routing->expert_count) routing->share[count] = value;
        sum += value;
        count++;
    }
    if (count != routing->expert_count)
        return err_set(err, ERR_INPUT, "%s: expected a number for each of %d experts, found %d",
                       path, routing->expert_count, count);
    if (sum > 0) return true;
    return err_set(err, ERR_INPUT, "%s: expected a number above 0, found none", path);
}

bool token_routing_read(struct arena *arena, const char *text, int expert_count, int top_k,
                        struct token_routing *routing, struct err *err)
{
    *routing = (struct token_routing){
        .expert_count = expert_count,
        .top_k = top_k,
        .name = text,
        .share = ARENA_NEW(arena, double, expert_count),
    };
    if (expert_count > EXPERTS_MAX)
        return err_set(err, ERR_USAGE, "expected at most %d experts, found %d", EXPERTS_MAX,
                       expert_count);
    for (int i = 0; i < TOKEN_WORKLOAD_COUNT; i++) {
        const char *name = token_routing_workload_name(i);
        bool is_short = strlen(text) == 2 && strncmp(text, name, 2) == 0;
        if (!is_short && strcmp(text, name) != 0) continue;
        routing->kind = TOKEN_ROUTING_WORKLOAD;
        routing->workload = i;
        routing->name = name;
        return true;
    }
    if (text[0] == 'W' && strlen(text) == 2)
        return err_set(err, ERR_USAGE, "expected W0 to W7, zipf:S or a file, found %s", text);
    bool is_zipf = strncmp(text, "zipf:", 5) == 0;
    bool is_read =
        is_zipf ? read_zipf(text + 5, routing, err) : read_file(arena, text, routing, err);
    if (is_read) normalise(routing);
    return is_read;
}

static void shuffle(int *order, int count, uint64_t *state)
{
    for (int i = count - 1; i > 0; i--) {
        int other = (int)(random_uniform(state) * (i + 1)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

static void draw_shares(struct arena *scratch, const struct token_routing *routing, double tokens,
                        uint64_t *state, double *rows)
{
    int count = routing->expert_count;
    int *order = ARENA_NEW(scratch, int, count);
    for (int i = 0; i < count; i++)
        order[i] = i;
    if (routing->is_shuffled) shuffle(order, count, state);
    double sum = 0;
    for (int i = 0; i < count; i++) {
        // A token goes to an expert once at the most.
        double chance = fmin(routing->top_k * routing->share[i], 1);
        double deviation = sqrt(tokens * chance * (1 - chance));
        double drawn = tokens * chance + deviation * random_normal(state);
        rows[order[i]] = fmin(fmax(drawn, 0), tokens);
        sum += rows[order[i]];
    }
    // As many rows in all as tokens make; what a full expert cannot take the others do.
    for (int i = 0; i < count && sum > 0; i++)
        rows[i] *= tokens * routing->top_k / sum;
}

void token_routing_draw(struct arena *scratch, const struct token_routing *routing, double tokens,
                        int64_t step, uint64_t *state, double *rows)
{
    assert(tokens >= 0 && routing->top_k >= 1);
    int count = routing->expert_count;
    struct arena_mark mark = arena_mark(scratch);
    if (routing->kind == TOKEN_ROUTING_WORKLOAD) {
        int64_t *counts = ARENA_NEW(scratch, int64_t, count);
        token_routing_workload_rows(routing->workload, count, routing->top_k, (int64_t)tokens, step,
                                    (int64_t)(*state >> 1), counts);
        for (int i = 0; i < count; i++)
            rows[i] = (double)counts[i];
    } else {
        draw_shares(scratch, routing, tokens, state, rows);
    }
    arena_reset(scratch, mark);
}

double token_routing_imbalance(const double *rows, int expert_count, int ranks)
{
    assert(ranks >= 1 && expert_count % ranks == 0);
    int each = expert_count / ranks;
    double most = 0, sum = 0;
    for (int rank = 0; rank < ranks; rank++) {
        double load = 0;
        for (int i = rank * each; i < (rank + 1) * each; i++)
            load += rows[i];
        most = fmax(most, load);
        sum += load;
    }
    return sum > 0 ? most * ranks / sum : 1;
}

struct weighed {
    double rows;
    int expert;
};

static int by_weight(const void *a, const void *b)
{
    const struct weighed *left = a, *right = b;
    if (left->rows != right->rows) return left->rows < right->rows ? 1 : -1;
    return left->expert - right->expert;
}

double token_routing_replaced(struct arena *scratch, const double *rows, int expert_count,
                              int ranks, int replicas)
{
    struct arena_mark mark = arena_mark(scratch);
    struct weighed *experts = ARENA_NEW(scratch, struct weighed, expert_count);
    double *load = ARENA_NEW(scratch, double, ranks), sum = 0, shared = 0, most = 0;
    int *held = ARENA_NEW(scratch, int, ranks), room = (expert_count + ranks - 1) / ranks;
    for (int i = 0; i < expert_count; i++) {
        experts[i] = (struct weighed){rows[i], i};
        sum += rows[i];
    }
    qsort(experts, (size_t)expert_count, sizeof *experts, by_weight);
    for (int i = 0; i < expert_count; i++) {
        if (i < replicas) {
            shared += experts[i].rows / ranks;
            continue;
        }
        int best = -1;
        for (int rank = 0; rank < ranks; rank++)
            if (held[rank] < room && (best < 0 || load[rank] < load[best])) best = rank;
        assert(best >= 0 && "ranks have room for all experts");
        load[best] += experts[i].rows;
        held[best]++;
    }
    for (int rank = 0; rank < ranks; rank++)
        most = fmax(most, load[rank] + shared);
    arena_reset(scratch, mark);
    return sum > 0 ? most * ranks / sum : 1;
}

double token_routing_dropped(const double *rows, int expert_count, double factor)
{
    double sum = 0, dropped = 0;
    for (int i = 0; i < expert_count; i++)
        sum += rows[i];
    for (int i = 0; i < expert_count; i++)
        dropped += fmax(rows[i] - factor * sum / expert_count, 0);
    return sum > 0 ? dropped / sum : 0;
}
