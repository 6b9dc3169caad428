#include "tests/support/fake_machine.h"

#include <stdlib.h>
#include <string.h>

const struct fake_machine FAKE_PROCESSOR = {
    .slowness = 1,
    .gemm_flop_per_s = 80e9,
    .gemm_k_ramp = 24,
    .attention_flop_per_s = 40e9,
    .memory_bytes_per_s = 10e9,
    .update_bytes_per_s = 25e9,
    .copy_bytes_per_s = 20e9,
    .call_s = 1e-7,
    .latency_s = 3e-6,
    .bus_bytes_per_s = 4e9,
    .rank_count = 1,
};

const struct fake_machine FAKE_DEVICE = {
    .slowness = 1,
    .gemm_flop_per_s = 50e12,
    .bf16_flop_per_s = 700e12,
    .gemm_k_ramp = 60,
    .attention_flop_per_s = 400e12,
    .memory_bytes_per_s = 3e12,
    .update_bytes_per_s = 3.5e12,
    .copy_bytes_per_s = 4e12,
    .pcie_bytes_per_s = 40e9,
    .call_s = 3e-6,
    .host_call_s = 5e-6,
    .latency_s = 8e-6,
    .bus_bytes_per_s = 300e9,
    .rank_count = 1,
};

static struct fake_machine *used;

void fake_machine_use(struct fake_machine *machine)
{
    used = machine;
}

static double busy_s(void *context)
{
    const struct fake_machine *machine = context;
    return machine->now_s;
}

static double wall_s(void *context)
{
    const struct fake_machine *machine = context;
    return machine->now_s * machine->slowness;
}

static const char *allocate(struct device *device, int64_t bytes, void **memory)
{
    (void)device;
    *memory = calloc(1, (size_t)bytes);
    return *memory ? NULL : "no memory";
}

static void release(struct device *device, void *memory)
{
    (void)device;
    free(memory);
}

static const char *copy(struct device *device, enum stream stream, enum copy_kind kind, void *to,
                        const void *from, int64_t bytes)
{
    (void)device, (void)stream, (void)kind, (void)to, (void)from;
    used->now_s += 2 * (double)bytes / used->copy_bytes_per_s;
    return NULL;
}

static const char *fill(struct device *device, enum stream stream, void *memory, int byte,
                        int64_t bytes)
{
    (void)device, (void)stream, (void)memory, (void)byte, (void)bytes;
    return NULL;
}

static double bytes_of(const struct kernel_array *array)
{
    double bytes = array->element == ELEMENT_INT64 ? 8 : array->element == ELEMENT_BYTE ? 1 : 4;
    for (int i = 0; i < array->rank; i++)
        bytes *= (double)array->sizes[i];
    return bytes;
}

// Every index of a product once; its depth is what the result has not.
static double product_s(const struct kernel_call *call)
{
    double all = 1, outer = 1;
    bool seen[DIM_COUNT] = {false};
    for (int a = 0; a < 2; a++) {
        for (int i = 0; i < call->inputs[a].rank; i++) {
            if (seen[call->inputs[a].dims[i]]) continue;
            seen[call->inputs[a].dims[i]] = true;
            all *= (double)call->inputs[a].sizes[i];
        }
    }
    for (int i = 0; i < call->outputs[0].rank; i++)
        outer *= (double)call->outputs[0].sizes[i];
    bool is_low_precision = used->is_low_precision && call->inputs[0].element == ELEMENT_COMPUTE;
    double rate = is_low_precision ? used->bf16_flop_per_s : used->gemm_flop_per_s;
    return 2 * outer * (all / outer + used->gemm_k_ramp) / rate;
}

static double attention_s(const struct kernel_call *call, double products)
{
    const struct kernel_array *query = &call->inputs[products > 2 ? 1 : 0];
    double work = products;
    for (int i = 0; i < query->rank; i++)
        work *= (double)query->sizes[i] * (query->dims[i] == DIM_SEQ ? (double)query->sizes[i] : 1);
    return work / used->attention_flop_per_s;
}

static const char *run(struct device *device, enum stream stream, const struct kernel_call *call)
{
    (void)device, (void)stream;
    used->run_count++;
    used->host_s += used->host_call_s;
    if (used->fails_at && strcmp(used->fails_at, call->op->name) == 0) return "it is broken";
    double s = used->call_s, bytes = 0;
    switch (call->op->kind) {
    case OP_CONTRACT:
        s += product_s(call);
        break;
    case OP_ATTENTION:
        s += attention_s(call, 2);
        break;
    case OP_ATTENTION_BACKWARD:
        s += attention_s(call, 5);
        break;
    default:
        for (int i = 0; i < call->input_count; i++)
            bytes += bytes_of(&call->inputs[i]);
        for (int i = 0; i < call->output_count; i++)
            bytes += bytes_of(&call->outputs[i]);
        s += bytes > 256 ? bytes / used->memory_bytes_per_s : 0;
    }
    used->now_s += s;
    return NULL;
}

static const char *update(struct device *device, enum stream stream, const struct update_call *call)
{
    (void)device, (void)stream;
    used->now_s += 32 * (double)call->count / used->update_bytes_per_s;
    return NULL;
}

static const char *sum_squares(struct device *device, enum stream stream, const void *reals,
                               int64_t count, double *sum)
{
    (void)device, (void)stream, (void)reals, (void)count;
    *sum = 1;
    return NULL;
}

static const char *synchronize(struct device *device, enum stream stream)
{
    (void)device, (void)stream;
    return NULL;
}

static const char *group(struct communicator *communicator, const int *ranks, int count,
                         const char *purpose, struct group **made)
{
    (void)communicator, (void)ranks, (void)count, (void)purpose;
    *made = NULL;
    return NULL;
}

static const char *pass(double steps, double bytes)
{
    double around = (double)(used->rank_count - 1);
    used->now_s += steps * used->latency_s * (steps > 0 && used->rank_count > 1 ? around : 1) +
                   steps * around / used->rank_count * bytes / used->bus_bytes_per_s;
    return NULL;
}

static double sum_of(const int64_t *counts)
{
    double bytes = 0;
    for (int r = 0; r < used->rank_count; r++)
        bytes += 4 * (double)counts[r];
    return bytes;
}

static const char *all_reduce(struct group *world, enum stream stream, enum element element,
                              void *data, int64_t count, enum combine combine)
{
    (void)world, (void)stream, (void)element, (void)data, (void)combine;
    return pass(2, 4 * (double)count);
}

static const char *all_gather(struct group *world, enum stream stream, enum element element,
                              const void *mine, void *all, const int64_t *counts)
{
    (void)world, (void)stream, (void)element, (void)mine, (void)all;
    return pass(1, sum_of(counts));
}

static const char *reduce_scatter(struct group *world, enum stream stream, enum element element,
                                  const void *all, void *mine, const int64_t *counts)
{
    (void)world, (void)stream, (void)element, (void)mine, (void)all;
    return pass(1, sum_of(counts));
}

static const char *all_to_all(struct group *world, enum stream stream, enum element element,
                              const void *from, const int64_t *sent, void *to,
                              const int64_t *received)
{
    (void)world, (void)stream, (void)element, (void)from, (void)to, (void)received;
    return pass(1, sum_of(sent));
}

// Every rank does as this one.
static const char *host_sum(struct group *world, double *values, int count)
{
    (void)world;
    for (int i = 0; i < count; i++)
        values[i] *= used->rank_count;
    return NULL;
}

static const char *message(struct communicator *communicator, enum stream stream,
                           enum element element, int rank, int channel, const void *data,
                           int64_t count)
{
    (void)communicator, (void)stream, (void)element, (void)rank, (void)channel, (void)data;
    used->now_s += used->latency_s + 4 * (double)count / used->bus_bytes_per_s;
    return NULL;
}

static const char *receive(struct communicator *communicator, enum stream stream,
                           enum element element, int rank, int channel, void *data, int64_t count)
{
    return message(communicator, stream, element, rank, channel, data, count);
}

static const char *barrier(struct communicator *communicator)
{
    (void)communicator;
    return NULL;
}

struct calibrate_request fake_machine_request(struct fake_machine *machine)
{
    static const struct backend BACKEND = {.version = BACKEND_VERSION,
                                           .name = "fake",
                                           .real_bytes = 4,
                                           .compute_bytes = 4,
                                           .is_host = false,
                                           .allocate = allocate,
                                           .release = release,
                                           .copy = copy,
                                           .fill = fill,
                                           .run = run,
                                           .update = update,
                                           .sum_squares = sum_squares,
                                           .synchronize = synchronize};
    static const struct transport TRANSPORT = {.version = COMMUNICATOR_VERSION,
                                               .name = "fake",
                                               .group = group,
                                               .all_reduce = all_reduce,
                                               .all_gather = all_gather,
                                               .reduce_scatter = reduce_scatter,
                                               .all_to_all = all_to_all,
                                               .host_sum = host_sum,
                                               .send = message,
                                               .receive = receive,
                                               .barrier = barrier};
    static const struct calibrate_side SIDE = {
        .precision = PRECISION_FP32, .backend = &BACKEND, .share = 1};
    return (struct calibrate_request){.sides = &SIDE,
                                      .side_count = 1,
                                      .transport = &TRANSPORT,
                                      .rank_count = machine->rank_count,
                                      .seconds = 15,
                                      .clock = {busy_s, wall_s, machine}};
}

// A device: a stream on which time passes by itself, marked by events.
struct event {
    double s;
};
static struct event *event_new(struct device *device)
{
    (void)device;
    return calloc(1, sizeof(struct event));
}
static void event_free(struct device *device, struct event *event)
{
    (void)device;
    free(event);
}
static const char *event_record(struct device *device, enum stream stream, struct event *event)
{
    (void)device, (void)stream;
    event->s = used->now_s;
    return NULL;
}
static double event_seconds(struct device *device, struct event *from, struct event *to)
{
    (void)device;
    return to->s - from->s;
}
static const char *delay(struct device *device, enum stream stream, double seconds, int units)
{
    (void)device, (void)stream, (void)units;
    used->now_s += seconds;
    return NULL;
}
static const char *round_reals(struct device *device, enum stream stream, void *rounded,
                               const void *reals, int64_t count)
{
    (void)device, (void)stream, (void)rounded, (void)reals, (void)count;
    return NULL;
}

// Nothing is ever read: one byte stands for all memory.
static const char *allocate_there(struct device *device, int64_t bytes, void **memory)
{
    static char nothing;
    (void)device;
    used->held_bytes += bytes;
    *memory = &nothing;
    return NULL;
}
static void release_there(struct device *device, void *memory)
{
    (void)device, (void)memory;
}
static const char *copy_there(struct device *device, enum stream stream, enum copy_kind kind,
                              void *to, const void *from, int64_t bytes)
{
    if (kind == COPY_DEVICE) return copy(device, stream, kind, to, from, bytes);
    used->host_s += (double)bytes / used->pcie_bytes_per_s;
    return NULL;
}
static double host_wall_s(void *context)
{
    const struct fake_machine *machine = context;
    return machine->now_s + machine->host_s;
}
static const char *run_narrow(struct device *device, enum stream stream,
                              const struct kernel_call *call)
{
    used->is_low_precision = true;
    const char *fault = run(device, stream, call);
    used->is_low_precision = false;
    return fault;
}

struct calibrate_request fake_device_request(struct fake_machine *machine)
{
#define DEVICE_TABLE(runs, bytes)                                                               \
    {                                                                                           \
        .version = BACKEND_VERSION, .name = "fake", .real_bytes = 4, .compute_bytes = (bytes),  \
        .allocate = allocate_there, .release = release_there, .copy = copy_there, .fill = fill, \
        .run = (runs), .update = update, .round = round_reals, .sum_squares = sum_squares,      \
        .synchronize = synchronize, .delay = delay, .event_new = event_new,                     \
        .event_free = event_free, .event_record = event_record, .event_seconds = event_seconds  \
    }
    static const struct backend BF16 = DEVICE_TABLE(run_narrow, 2), FP32 = DEVICE_TABLE(run, 4);
    static const struct calibrate_side SIDES[] = {
        {.precision = PRECISION_BF16, .backend = &BF16, .share = 0.6},
        {.precision = PRECISION_FP32, .backend = &FP32, .share = 0.4},
    };
    struct calibrate_request request = fake_machine_request(machine);
    request.sides = SIDES;
    request.side_count = 2;
    request.clock.wall_s = host_wall_s;
    return request;
}
