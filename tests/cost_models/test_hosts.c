#include "cost_models/hosts.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

// The fullest host, rank by rank over all hosts of drawn clusters and pipelines.

enum { CASES = 400, GROUPS = 2, STAGES = 4 };

struct drawn {
    struct node_group groups[GROUPS];
    struct cluster cluster;
    struct program program;
    struct memory_parts stages[STAGES];
    int stage_ranks[STAGES];
};

static int stage_of(const struct drawn *drawn, int rank)
{
    const struct mesh *mesh = &drawn->program.mesh;
    if (!mesh->stage_ranks) return rank / mesh->axes[1].stride % mesh->axes[1].size;
    int stage = 0;
    for (int end = mesh->stage_ranks[0]; rank >= end; end += mesh->stage_ranks[stage])
        stage++;
    return stage;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t lack(const struct host_need *need)
{
    return larger(need->host_bytes - need->host_limit_bytes,
                  need->nvme_bytes - need->nvme_limit_bytes);
}

// Every host there is, the first of those that lack as much.
static struct host_need fullest(const struct drawn *drawn)
{
    struct host_need worst = {0};
    int rank = 0, hosts = 0;
    for (int g = 0; g < drawn->cluster.node_group_count; g++) {
        const struct node_group *group = &drawn->groups[g];
        for (int i = 0; i < group->count * group->gpus / group->gpus_per_host; i++) {
            struct host_need need = {.host_limit_bytes = group->host.memory_bytes,
                                     .nvme_limit_bytes = group->host.nvme_bytes};
            int ranks = 0;
            for (int gpu = 0; gpu < group->gpus_per_host; gpu++, rank++) {
                if (rank >= drawn->cluster.rank_count) continue;
                const struct memory_parts *parts = &drawn->stages[stage_of(drawn, rank)];
                need.host_bytes += parts->host_bytes;
                need.nvme_bytes += parts->nvme_bytes;
                ranks++;
            }
            if (ranks == 0) continue;
            if (hosts++ == 0 || lack(&need) > lack(&worst)) worst = need;
        }
    }
    return worst;
}

// A pipeline of so many stages, with `stride` ranks of a stage side by side; or stages of so many
// ranks each, one behind the other.
static void draw_case(struct draw *draw, struct drawn *drawn)
{
    *drawn = (struct drawn){0};
    struct mesh *mesh = &drawn->program.mesh;
    int stages = 1 << draw_int(draw, 0, 2), stride = 1 << draw_int(draw, 0, 3);
    int groups = draw_int(draw, 1, GROUPS), all = 0;
    for (int g = 0; g < groups; g++) {
        int per_host = 1 << draw_int(draw, 0, 3), each = draw_int(draw, 1, 2);
        drawn->groups[g] = (struct node_group){
            .gpus = per_host * each,
            .gpus_per_host = per_host,
            .count = draw_int(draw, 1, 6),
            .host = {.memory_bytes = draw_int(draw, 1, 60), .nvme_bytes = draw_int(draw, 1, 60)}};
        all += drawn->groups[g].gpus * drawn->groups[g].count;
    }
    int period = stages * stride;
    if (all < period) stages = stride = period = 1;
    all = all / period * period;
    for (int s = 0; s < stages; s++) {
        drawn->stages[s].host_bytes = draw_int(draw, 0, 9);
        drawn->stages[s].nvme_bytes = draw_int(draw, 0, 9);
    }
    drawn->cluster =
        (struct cluster){.nodes = drawn->groups, .node_group_count = groups, .rank_count = all};
    mesh->rank_count = all;
    drawn->program.cluster = &drawn->cluster;
    drawn->program.shape.stage_count = stages;
    if (stages > 1 && draw_int(draw, 0, 2) == 0) {
        for (int s = 0; s < stages; s++)
            drawn->stage_ranks[s] = s + 1 < stages ? 1 : all - stages + 1;
        mesh->stage_ranks = drawn->stage_ranks;
        mesh->stage_count = stages;
        return;
    }
    mesh->axis_count = 2;
    mesh->axes[0] = (struct mesh_axis){.parent = AXIS_TP, .size = stride, .stride = 1};
    mesh->axes[1] = (struct mesh_axis){.parent = AXIS_PP, .size = stages, .stride = stride};
}

static void the_fullest_host_is_that_of_all(void **state)
{
    (void)state;
    struct draw draw = draw_start("hosts", 1);
    int lacking = 0, roomy = 0;
    for (int i = 0; i < CASES; i++) {
        struct drawn drawn;
        draw_case(&draw, &drawn);
        struct host_need found = hosts_need(&drawn.program, drawn.stages);
        struct host_need wanted = fullest(&drawn);
        assert_int_equal(found.host_bytes, wanted.host_bytes);
        assert_int_equal(found.nvme_bytes, wanted.nvme_bytes);
        assert_int_equal(found.host_limit_bytes, wanted.host_limit_bytes);
        assert_int_equal(found.nvme_limit_bytes, wanted.nvme_limit_bytes);
        assert_int_equal(hosts_shortfall(&found), larger(lack(&wanted), 0));
        lacking += lack(&wanted) > 0;
        roomy += lack(&wanted) <= 0;
    }
    assert_true(lacking > CASES / 5 && roomy > CASES / 5);
}

static void what_lacks_most_is_named(void **state)
{
    (void)state;
    static const struct host_need HOST = {12, 15, 10, 14}, DRIVE = {12, 17, 10, 14};
    static const struct host_need BOTH = {12, 16, 10, 14}, BYTE = {11, 0, 10, 14};
    assert_string_equal(hosts_lack(&HOST), "host memory");
    assert_string_equal(hosts_lack(&DRIVE), "NVMe");
    assert_string_equal(hosts_lack(&BOTH), "host memory");
    assert_int_equal(hosts_shortfall(&HOST), 2);
    assert_int_equal(hosts_shortfall(&DRIVE), 3);
    assert_int_equal(hosts_shortfall(&BYTE), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fullest_host_is_that_of_all),
        cmocka_unit_test(what_lacks_most_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
