#include "executor/launcher/parts.h"
#include "tests/support/fake_outside.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Launchers of several nodes that start, meet, watch each other and end, in a world made of a seed:
// files come late, puts fail, launchers stand still or are killed at any look, ranks fail, one job
// follows another in the folder where the first has left what it had, and a stranger litters it.
// The code is the product's (rendezvous.c, launcher/nodes.c); what each node does between is what
// launcher/launch.c does. A failure prints its seed: `build/tests/test_nodes_simulated SEED` runs
// that one again, FIRST COUNT so many.

enum { JOBS = 2, EVENTS_MOST = 200000 };
static const double SILENT_S = 30, TIMEOUT_S = 40, LOOK_S = 0.25, LONGEST_S = 400;
static const char FOLDER[] = "/shared";

enum node_state { BEFORE, MEETING, RUNNING, FAILING, LEAVING, ENDED };

struct node_life {
    enum node_state state;
    struct outside outside;
    struct rendezvous_request request;
    struct meeting *meeting;
    struct launch_nodes nodes;
    struct err err;
    double next_s, ranks_end_s, ended_s;
    double killed_s;  // 0: it is not
    bool ranks_fail, may_follow, is_killed, has_met, is_well;
    double longest_s;  // that it stood still
    int exit_code;
    char folder[PATH_MAX];
    int first_rank, own_count;
};

struct node_trial {
    struct fake_outside *fake;
    struct node_life nodes[FAKE_NODES];
    int count, rank_count;
    double began_s;
    bool is_calm;  // nothing goes wrong: all must end well
    const char *wrong;
};

static double drawn_s(struct node_trial *trial, double most_s)
{
    return most_s * (double)fake_outside_draw(trial->fake, 10000) / 10000;
}

static bool one_in(struct node_trial *trial, uint64_t many)
{
    return fake_outside_draw(trial->fake, many) == 0;
}

static void draw_node(struct node_trial *trial, int n)
{
    struct node_life *node = &trial->nodes[n];
    *node = (struct node_life){.outside = fake_outside_of(trial->fake, n)};
    node->next_s = trial->began_s + drawn_s(trial, 4);
    node->ranks_end_s = trial->began_s + 10 + drawn_s(trial, 20);
    node->exit_code = n == 0 ? 1 : 0;
    if (!trial->is_calm && one_in(trial, 6)) {
        node->ranks_fail = true;
        node->may_follow = one_in(trial, 2);
        node->ranks_end_s = trial->began_s + 5 + drawn_s(trial, 20);
    }
    if (!trial->is_calm && one_in(trial, 6)) node->killed_s = trial->began_s + drawn_s(trial, 50);
    node->request = (struct rendezvous_request){.folder = FOLDER,
                                                .job = "job",
                                                .node = n,
                                                .node_count = trial->count,
                                                .rank_count = trial->rank_count,
                                                .plan_key = 3,
                                                .options_key = 4,
                                                .timeout_s = TIMEOUT_S,
                                                .outside = &node->outside};
}

static void free_node(struct node_life *node)
{
    rendezvous_end(node->meeting);
    free(node->nodes.met.names);
    free(node->nodes.heard);
    node->meeting = NULL;
    node->nodes = (struct launch_nodes){0};
}

static void end_node(struct node_trial *trial, struct node_life *node)
{
    node->state = ENDED;
    node->ended_s = fake_outside_now_s(trial->fake);
    free_node(node);
}

static void look_at_meeting(struct node_life *node)
{
    enum meeting_state state = rendezvous_look(node->meeting, &node->err);
    if (state == MEETING_WAITS) return;
    node->state = state == MEETING_MET ? RUNNING : LEAVING;
    if (state != MEETING_MET) return;
    const struct rendezvous *met = &node->nodes.met;
    node->has_met = true;
    snprintf(node->folder, sizeof node->folder, "%s", met->folder);
    node->first_rank = met->first_rank;
    node->own_count = met->own_count;
    launch_nodes_meet(&node->nodes);
}

// As `look` of launch.c.
static void look_at_job(struct node_trial *trial, struct node_life *node)
{
    double now_s = fake_outside_now_s(trial->fake);
    bool has_ended = now_s >= node->ranks_end_s;
    bool is_well = !(has_ended && node->ranks_fail);
    if (!is_well) err_set(&node->err, ERR_SYSTEM, "rank %d died", node->first_rank);
    is_well = is_well && launch_nodes_look(&node->nodes, now_s, has_ended,
                                           has_ended ? node->exit_code : 0, &node->err);
    if (!is_well) {
        node->state = FAILING;
    } else if (node->nodes.is_over) {
        node->is_well = true;
        node->exit_code = node->nodes.exit_code;
        node->state = LEAVING;
    }
}

static void start(struct node_life *node)
{
    launch_nodes_start(&node->nodes, &node->request, SILENT_S);
    node->meeting = rendezvous_begin(&node->request, &node->nodes.met, &node->err);
    node->state = node->meeting ? MEETING : LEAVING;
}

static void look(struct node_trial *trial, struct node_life *node)
{
    switch (node->state) {
    case BEFORE:
        start(node);
        break;
    case MEETING:
        look_at_meeting(node);
        break;
    case RUNNING:
        look_at_job(trial, node);
        break;
    case FAILING:
        if (!launch_nodes_fail_look(&node->nodes, node->may_follow, &node->err)) break;
        node->state = LEAVING;
        node->is_well = !node->err.kind;
        node->exit_code = node->nodes.exit_code;
        break;
    case LEAVING:
        if (rendezvous_leave(&node->nodes.met)) end_node(trial, node);
        break;
    case ENDED:
        break;
    }
}

// How long until the next look: mostly soon, now and then a launcher stands still.
static double pause_of(struct node_trial *trial, struct node_life *node)
{
    double pause_s = LOOK_S * (1 + drawn_s(trial, 1));
    if (one_in(trial, 200)) pause_s += drawn_s(trial, 5);
    if (!trial->is_calm && one_in(trial, 300)) pause_s += drawn_s(trial, 60);
    if (pause_s > node->longest_s) node->longest_s = pause_s;
    return pause_s;
}

// The node whose turn it is; of one time the first.
static struct node_life *whose_turn(struct node_trial *trial)
{
    struct node_life *next = NULL;
    for (int n = 0; n < trial->count; n++) {
        struct node_life *node = &trial->nodes[n];
        if (node->state == ENDED) continue;
        if (!next || node->next_s < next->next_s) next = node;
    }
    return next;
}

static void litter(struct node_trial *trial)
{
    static const char *const NAMES[] = {"job.0", "job.1", "job.go", "job.2"};
    if (trial->is_calm || !one_in(trial, 300)) return;
    fake_outside_litter(trial->fake, FOLDER, NAMES[fake_outside_draw(trial->fake, 4)]);
}

static void play(struct node_trial *trial)
{
    for (int event = 0; event < EVENTS_MOST; event++) {
        struct node_life *node = whose_turn(trial);
        if (!node) return;
        fake_outside_to(trial->fake, node->next_s);
        litter(trial);
        if (node->killed_s > 0 && node->next_s >= node->killed_s) {
            node->is_killed = true;
            end_node(trial, node);
            continue;
        }
        look(trial, node);
        node->next_s += pause_of(trial, node);
    }
    trial->wrong = "it does not end";
}

// Who has met has met the same ones, and shares the ranks with them.
static void check_meeting(struct node_trial *trial, const char *before)
{
    const struct node_life *first = NULL;
    int next_rank = 0;
    bool all = true;
    for (int n = 0; n < trial->count; n++) {
        const struct node_life *node = &trial->nodes[n];
        all = all && node->has_met;
        if (!node->has_met) continue;
        if (strcmp(node->folder, before) == 0) trial->wrong = "met in the folder of another job";
        if (first && strcmp(first->folder, node->folder) != 0) trial->wrong = "met in two folders";
        first = node;
        if (all && node->first_rank != next_rank) trial->wrong = "ranks are not shared";
        next_rank = node->first_rank + node->own_count;
    }
    if (all && next_rank != trial->rank_count) trial->wrong = "ranks are missing";
}

// One that is told of a good end is right, and so are all others but those whose own folder failed.
static void check_end(struct node_trial *trial)
{
    bool is_well = false;
    for (int n = 0; n < trial->count; n++)
        is_well |= trial->nodes[n].is_well;
    for (int n = 0; n < trial->count; n++) {
        const struct node_life *node = &trial->nodes[n];
        bool is_out = node->is_killed || fake_outside_failed_puts(trial->fake, n) > 0;
        if (!node->is_well && !node->err.kind && !node->is_killed)
            trial->wrong = "a node ends without an answer";
        if (!trial->is_calm && !is_well) continue;
        if (!node->has_met || node->ranks_fail) trial->wrong = "all is well, but for a node";
        if (!is_out && !node->is_well) trial->wrong = "nodes end with two answers";
        if (node->is_well && node->exit_code != 1) trial->wrong = "the answer is not rank 0's";
        if (trial->is_calm && !node->is_well) trial->wrong = "nothing went wrong, but the job";
    }
}

// Whoever fails lets the others know, so that nobody stays for long.
static void check_time(struct node_trial *trial)
{
    for (int n = 0; n < trial->count; n++) {
        const struct node_life *node = &trial->nodes[n];
        double took_s = node->ended_s - trial->began_s;
        if (took_s > LONGEST_S) trial->wrong = "a node stays for ever";
    }
}

static const char *live(struct arena *arena, uint64_t seed, enum fake_fault fault)
{
    static char before[PATH_MAX];
    struct node_trial trial = {.fake = fake_outside_new(arena, seed, (double)(seed % 4))};
    before[0] = '\0';
    trial.count = 2 + (int)fake_outside_draw(trial.fake, FAKE_NODES - 1);
    trial.rank_count = trial.count + (int)fake_outside_draw(trial.fake, 5);
    trial.is_calm = one_in(&trial, 4);
    bool puts_fail = !trial.is_calm && one_in(&trial, 4);
    fake_outside_set(trial.fake, fault, puts_fail ? 100 : 0);
    for (int job = 0; job < JOBS && !trial.wrong; job++) {
        trial.began_s = fake_outside_now_s(trial.fake) + 1;
        for (int n = 0; n < trial.count; n++)
            draw_node(&trial, n);
        play(&trial);
        check_meeting(&trial, before);
        check_end(&trial);
        check_time(&trial);
        for (int n = 0; n < trial.count; n++) {
            if (trial.nodes[n].has_met)
                snprintf(before, sizeof before, "%s", trial.nodes[n].folder);
            free_node(&trial.nodes[n]);
        }
    }
    return trial.wrong;
}

static int run_seeds(uint64_t first, uint64_t count, enum fake_fault fault, bool says)
{
    int wrong_count = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct arena arena = {0};
        const char *wrong = live(&arena, seed, fault);
        if (wrong && says) fprintf(stderr, "# seed %llu: %s\n", (unsigned long long)seed, wrong);
        wrong_count += wrong != NULL;
        arena_free(&arena);
    }
    return wrong_count;
}

static void nodes_agree_whatever_happens(void **state)
{
    (void)state;
    assert_int_equal(run_seeds(1, 1000, FAKE_SOUND, true), 0);
}

// What the folder must not do is noticed: else nothing above says anything.
static void planted_faults_are_found(void **state)
{
    enum { SEEDS_MOST = 10000 };
    (void)state;
    for (enum fake_fault fault = FAKE_SOUND + 1; fault < FAKE_FAULT_COUNT; fault++) {
        uint64_t seed = 1;
        while (seed <= SEEDS_MOST && run_seeds(seed, 1, fault, false) == 0)
            seed++;
        if (seed > SEEDS_MOST) fail_msg("fault %d is not found", (int)fault);
        printf("# fault %d is found by seed %llu\n", (int)fault, (unsigned long long)seed);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_agree_whatever_happens),
        cmocka_unit_test(planted_faults_are_found),
    };
    if (argc < 2) return cmocka_run_group_tests(tests, NULL, NULL);
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    return run_seeds(strtoull(argv[1], NULL, 10), count, FAKE_SOUND, true) != 0;
}
