#include "tests/support/test.h"

#include "tests/support/emulated.h"

#include "core/progress.h"
#include "executor/communicators/communicator.h"
#include "memory/plan_script.h"
#include "models/import.h"
#include "plan/script/script.h"
#include "reports/comparison/replay.h"

// One rank alone: what exchanges are said to take passes, no less, and messages are there when they
// are said to be and not before.

enum { COUNT = 6 };

struct asked {
    int calls, collective, first_rank, count;
    int64_t bytes;
    double s;
};

static double say(void *context, int collective, const int *ranks, int count, int64_t bytes)
{
    struct asked *asked = context;
    asked->calls++;
    asked->collective = collective;
    asked->first_rank = ranks[0];
    asked->count = count;
    asked->bytes = bytes;
    return asked->s;
}

struct alone {
    const struct backend *backend;
    struct device *device;
    const struct transport *transport;
    struct communicator *communicator;
    struct group *group;
    void *memory;
    struct asked asked;
    struct communicator_delays delays;
};

static const double ARRIVALS[] = {0.002, 0.004};
static const int RANKS[] = {1, 3};

static void open_alone(struct alone *alone, const struct backend *backend)
{
    struct err err = {0};
    alone->backend = backend;
    alone->asked.s = 0.003;
    alone->delays = (struct communicator_delays){.exchange_s = say,
                                                 .context = &alone->asked,
                                                 .arrival_s = ARRIVALS,
                                                 .arrival_count = 2,
                                                 .multiprocessors = 4};
    assert_non_null(backend);
    assert_null(backend->open(0, &alone->device));
    assert_null(backend->allocate(alone->device, 2 * COUNT * backend->real_bytes, &alone->memory));
    assert_null(backend->fill(alone->device, STREAM_COMPUTE, alone->memory, 0,
                              2 * COUNT * backend->real_bytes));
    const struct communicator_request request = {.backend = backend,
                                                 .device = alone->device,
                                                 .rank = 3,
                                                 .rank_count = 4,
                                                 .delays = &alone->delays};
    alone->transport = communicator_mock(&request, &alone->communicator, &err);
    assert_non_null(alone->transport);
    assert_null(alone->transport->group(alone->communicator, RANKS, 2, "tp", &alone->group));
}

static void close_alone(struct alone *alone)
{
    alone->transport->close(alone->communicator);
    alone->backend->release(alone->device, alone->memory);
    alone->backend->close(alone->device);
}

static const struct backend *cpu(void)
{
    struct err err = {0};
    return backend_open("cpu", &err);
}

static void check_asked(const struct alone *alone, enum collective collective, int64_t numbers)
{
    assert_int_equal(alone->asked.collective, collective);
    assert_int_equal(alone->asked.count, 2);
    assert_int_equal(alone->asked.first_rank, 1);
    assert_int_equal(alone->asked.bytes, numbers * alone->backend->real_bytes);
}

static void check_exchanges(const struct backend *backend)
{
    struct alone alone = {0};
    open_alone(&alone, backend);
    const struct transport *transport = alone.transport;
    const int64_t counts[] = {4, 2};
    double begin_s = clock_s();
    assert_null(transport->all_reduce(alone.group, STREAM_TP, ELEMENT_FP32, alone.memory, COUNT,
                                      COMBINE_SUM));
    check_asked(&alone, COLLECTIVE_ALL_REDUCE, COUNT);
    char *other = (char *)alone.memory + COUNT * backend->real_bytes;
    assert_null(
        transport->all_gather(alone.group, STREAM_DP, ELEMENT_FP32, other, alone.memory, counts));
    check_asked(&alone, COLLECTIVE_ALL_GATHER, COUNT);
    assert_null(transport->reduce_scatter(alone.group, STREAM_DP, ELEMENT_FP32, alone.memory, other,
                                          counts));
    check_asked(&alone, COLLECTIVE_REDUCE_SCATTER, COUNT);
    assert_null(transport->all_to_all(alone.group, STREAM_EP, ELEMENT_FP32, alone.memory, counts,
                                      other, counts));
    check_asked(&alone, COLLECTIVE_ALL_TO_ALL, COUNT);
    assert_null(
        transport->receive(alone.communicator, STREAM_CP, ELEMENT_FP32, 2, 0, alone.memory, COUNT));
    assert_int_equal(alone.asked.collective, COLLECTIVE_SEND_RECV);
    assert_int_equal(alone.asked.count, 1);
    assert_int_equal(alone.asked.first_rank, 2);
    for (int s = 0; s < STREAM_COUNT; s++)
        assert_null(backend->synchronize(alone.device, (enum stream)s));
    assert_int_equal(alone.asked.calls, 5);
    assert_true(clock_s() - begin_s >= 0.003);  // on streams of a device they may go beside
    if (backend->is_host) assert_true(clock_s() - begin_s >= 5 * 0.003);
    close_alone(&alone);
}

static void exchanges_take_what_they_are_said_to(void **state)
{
    (void)state;
    check_exchanges(cpu());
    check_exchanges(emulated_backend(PRECISION_FP32));
}

static void check_messages(const struct backend *backend)
{
    struct alone alone = {0};
    open_alone(&alone, backend);
    const struct transport *transport = alone.transport;
    for (int step = 0; step < 2; step++) {
        double begin_s = clock_s();
        assert_null(transport->barrier(alone.communicator));
        for (int i = 0; i < 2; i++) {
            assert_null(transport->receive(alone.communicator, STREAM_PP, ELEMENT_FP32, 1, 0,
                                           alone.memory, COUNT));
            assert_null(backend->synchronize(alone.device, STREAM_PP));
            assert_true(clock_s() - begin_s >= ARRIVALS[i]);
        }
        assert_string_equal(transport->receive(alone.communicator, STREAM_PP, ELEMENT_FP32, 1, 0,
                                               alone.memory, COUNT),
                            "a message too many");
    }
    assert_int_equal(alone.asked.calls, 0);
    close_alone(&alone);
}

static void messages_arrive_when_they_are_said_to(void **state)
{
    (void)state;
    check_messages(cpu());
    check_messages(emulated_backend(PRECISION_FP32));
}

// A pipeline of two: what arrives at a stage is what the other has sent, in the simulated step.
static void arrivals_are_those_of_the_simulated_step(void **state)
{
    struct arena *arena = *state;
    struct arena scratch = {0};
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, "dgx-h100", &err);
    assert_true(cluster && cluster_take_gpus(cluster, 4, &err));
    struct evaluation_request request = {.model = model_load(arena, "gpt2", NULL, NULL, &err),
                                         .cluster = cluster,
                                         .stack = stack_load(arena, "meshwright", &err),
                                         .fabrics = fabrics_load(arena, &err),
                                         .workload = {.seq_len = 128,
                                                      .global_batch = 8,
                                                      .precision = PRECISION_BF16,
                                                      .optimizer = OPTIMIZER_ADAMW},
                                         .engine = {.want_trace = true}};
    struct evaluation evaluation;
    for (int a = 0; a < AXIS_COUNT; a++)
        request.parallel.degree[a] = 1;
    request.parallel.degree[AXIS_PP] = 2;
    request.parallel.degree[AXIS_TP] = 2;
    request.parallel.vpp = 1;
    request.parallel.micro_batch = 1;
    request.parallel.schedule = SCHEDULE_1F1B;
    parallel_default_order(&request.parallel);
    bool done = evaluate(arena, &scratch, &request, &evaluation, &err);
    assert_string_equal(err.text, "");
    assert_true(done);
    const struct memory_options options = {.method = MEMORY_GREEDY, .alignment = 512};
    bool is_planned = false;
    struct script **scripts = plan_scripts_make(arena, &scratch, evaluation.program, request.stack,
                                                NULL, &options, &is_planned, &err);
    assert_string_equal(err.text, "");
    for (int stage = 0; stage < 2; stage++) {
        const struct replay replay = {&request, &evaluation, scripts[stage], 2 * stage};
        const struct communicator_delays *delays = replay_delays(arena, &replay);
        assert_int_equal(delays->arrival_count, 8);
        for (int i = 0; i < 8; i++) {
            assert_true(delays->arrival_s[i] > (i > 0 ? delays->arrival_s[i - 1] : 0));
            assert_true(delays->arrival_s[i] < evaluation.prediction.step_s);
        }
        const int group[] = {2 * stage, 2 * stage + 1}, peer[] = {2 - 2 * stage};
        double few_s = delays->exchange_s(delays->context, COLLECTIVE_ALL_REDUCE, group, 2, 1024);
        double many_s =
            delays->exchange_s(delays->context, COLLECTIVE_ALL_REDUCE, group, 2, 1 << 30);
        assert_true(few_s > 0 && many_s > 100 * few_s);
        assert_true(delays->exchange_s(delays->context, COLLECTIVE_SEND_RECV, peer, 1, 1024) > 0);
    }
    arena_free(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exchanges_take_what_they_are_said_to),
        cmocka_unit_test(messages_arrive_when_they_are_said_to),
        cmocka_unit_test(arrivals_are_those_of_the_simulated_step),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
