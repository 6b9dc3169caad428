#include "tests/gpu/emulate_streams.h"

#include "tests/gpu/emulate_shadow.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Queues of work. A wait for an event is for the record that was put before it, as in CUDA: events
// count their records, those put and those passed.

struct work {
    struct work *next;
    void (*run)(const void *args);
    struct CUevent_st *records, *waits;
    uint64_t record;           // of the event: to be passed, or waited for
    struct shadow_clock host;  // what the host had seen when it put this
    _Alignas(16) unsigned char args[];
};

struct queue {
    struct work *first, *last;
};

struct CUstream_st {
    struct CUstream_st *next;
    struct queue queue;
    struct CUgraph_st *capture;  // NULL: what is put is to run
    int priority;                // less is sooner
    int number;                  // among those that are there
    struct shadow_clock clock;
};

struct CUevent_st {
    uint64_t put, passed;
    struct timespec time;
    struct shadow_clock clock;  // of the last that has passed
};

struct CUgraph_st {
    struct queue queue;
    int is_broken;
};
struct CUgraphExec_st {
    struct queue queue;
};

static struct CUstream_st *streams;
static uint64_t draws;
static struct shadow_clock host;

static uint64_t order(void)
{
    const char *text = getenv("MESHWRIGHT_EMULATED_ORDER");
    return text ? strtoull(text, NULL, 10) : 0;
}

// splitmix64 (Steele et al. 2014).
static uint64_t draw(void)
{
    uint64_t x = order() + 0x9E3779B97F4A7C15u * ++draws;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static void append(struct queue *queue, struct work *work)
{
    if (queue->last) {
        queue->last->next = work;
    } else {
        queue->first = work;
    }
    queue->last = work;
}

static struct work *work_new(void (*run)(const void *), const void *args, size_t size)
{
    struct work *work = calloc(1, sizeof *work + size);
    assert(work);
    work->run = run;
    work->host = host;
    if (size > 0) memcpy(work->args, args, size);
    return work;
}

static void queue_free(struct queue *queue)
{
    while (queue->first) {
        struct work *work = queue->first;
        queue->first = work->next;
        free(work);
    }
    queue->last = NULL;
}

static int can_run(const struct work *work)
{
    return !work->waits || work->waits->passed >= work->record;
}

static void run_first(cudaStream_t stream)
{
    struct work *work = stream->queue.first;
    stream->queue.first = work->next;
    if (!work->next) stream->queue.last = NULL;
    shadow_join(&stream->clock, &work->host);
    if (work->waits) shadow_join(&stream->clock, &work->waits->clock);
    bool is_told = stream->number < SHADOW_STREAMS;
    if (is_told) stream->clock.seen[stream->number]++;
    shadow_begin_work(stream->number, is_told ? &stream->clock : NULL);
    if (work->run) work->run(work->args);
    shadow_begin_work(0, NULL);
    if (work->records) {
        work->records->clock = stream->clock;
        clock_gettime(CLOCK_MONOTONIC, &work->records->time);
        if (work->records->passed < work->record) work->records->passed = work->record;
    }
    free(work);
}

// Any stream that can go on; NULL: none can.
static cudaStream_t draw_stream(void)
{
    int count = 0;
    for (cudaStream_t s = streams; s; s = s->next)
        count += s->queue.first && can_run(s->queue.first);
    if (count == 0) return NULL;
    int chosen = (int)(draw() % (uint64_t)count);
    for (cudaStream_t s = streams; s; s = s->next) {
        if (s->queue.first && can_run(s->queue.first) && chosen-- == 0) return s;
    }
    return NULL;
}

// The stream whose next record of the event is to come.
static cudaStream_t recorder_of(const struct work *wait)
{
    for (cudaStream_t s = streams; s; s = s->next) {
        for (const struct work *work = s->queue.first; work; work = work->next) {
            if (work->records == wait->waits && work->record == wait->record) return s;
        }
    }
    return NULL;
}

// What `stream` is waiting for first of all.
static cudaStream_t first_needed(cudaStream_t stream)
{
    while (stream && !can_run(stream->queue.first))
        stream = recorder_of(stream->queue.first);
    return stream;
}

static void finish(cudaStream_t stream)
{
    while (stream->queue.first) {
        int is_late = draw() % 2 == 0;
        cudaStream_t next = is_late ? first_needed(stream) : draw_stream();
        assert(next && "streams wait for each other");
        run_first(next);
    }
}

void emulate_finish(void)
{
    for (cudaStream_t s = streams; s; s = s->next)
        finish(s);
}

int emulate_is_capturing(void)
{
    for (cudaStream_t s = streams; s; s = s->next) {
        if (s->capture) return 1;
    }
    return 0;
}

static void put_work(cudaStream_t stream, struct work *work)
{
    if (stream->capture) {
        append(&stream->capture->queue, work);
        return;
    }
    append(&stream->queue, work);
    if (order() == 0) finish(stream);
}

void emulate_put(cudaStream_t stream, void (*run)(const void *args), const void *args, size_t size)
{
    put_work(stream, work_new(run, args, size));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}
// Of a stream of the back end.
__attribute__((visibility("default"))) int emulated_stream_priority(cudaStream_t stream);
int emulated_stream_priority(cudaStream_t stream)
{
    return stream->priority;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    (void)flags;
    struct CUstream_st *made = *stream = calloc(1, sizeof *made);
    if (!made) return cudaErrorMemoryAllocation;
    made->priority = priority;
    for (cudaStream_t s = streams; s; s = s->next)
        made->number = s->number >= made->number ? s->number + 1 : made->number;
    made->clock = host;
    made->next = streams;
    streams = made;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    finish(stream);
    shadow_join(&host, &stream->clock);
    for (struct CUstream_st **at = &streams; *at; at = &(*at)->next) {
        if (*at != stream) continue;
        *at = stream->next;
        break;
    }
    free(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (stream->capture) {
        stream->capture->is_broken = 1;
        return cudaErrorStreamCaptureUnsupported;
    }
    finish(stream);
    shadow_join(&host, &stream->clock);
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void)
{
    if (emulate_is_capturing()) return cudaErrorStreamCaptureUnsupported;
    emulate_finish();
    for (cudaStream_t s = streams; s; s = s->next)
        shadow_join(&host, &s->clock);
    return cudaSuccess;
}

// Planted: "NAME=N", every N-th of what is counted in `count`.
static int is_planted(const char *name, long *count)
{
    const char *fault = getenv("MESHWRIGHT_EMULATED_FAULT");
    size_t length = strlen(name);
    bool is_it = fault && strncmp(fault, name, length) == 0 && fault[length] == '=';
    long each = is_it ? atol(fault + length + 1) : 0;
    return each > 0 && ++*count % each == 0;
}

// "wait=N": it is forgotten.
static int is_forgotten(void)
{
    static long waits;
    return is_planted("wait", &waits);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    if (is_forgotten()) return cudaSuccess;
    if (stream->capture) {
        stream->capture->is_broken = 1;
        return cudaErrorStreamCaptureIsolation;
    }
    struct work *work = work_new(NULL, NULL, 0);
    work->waits = event;
    work->record = event->put;
    put_work(stream, work);
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = calloc(1, sizeof **event);
    return *event ? cudaSuccess : cudaErrorMemoryAllocation;
}
// Waits that are still to pass hold on to it.
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    emulate_finish();
    free(event);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (stream->capture) {
        stream->capture->is_broken = 1;
        return cudaErrorStreamCaptureIsolation;
    }
    struct work *work = work_new(NULL, NULL, 0);
    work->records = event;
    work->record = ++event->put;
    put_work(stream, work);
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    assert(from->passed == from->put && to->passed == to->put);  // cudaErrorNotReady
    *milliseconds = (float)(1e3 * (double)(to->time.tv_sec - from->time.tv_sec) +
                            1e-6 * (double)(to->time.tv_nsec - from->time.tv_nsec));
    return cudaSuccess;
}

// Planted: "begin=N", it is refused; "capture=N", it breaks before its end.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    static long begins, captures;
    (void)mode;
    assert(!stream->capture);
    if (is_planted("begin", &begins)) return cudaErrorStreamCaptureUnsupported;
    stream->capture = calloc(1, sizeof *stream->capture);
    if (!stream->capture) return cudaErrorMemoryAllocation;
    stream->capture->is_broken = is_planted("capture", &captures);
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    assert(stream->capture);
    *graph = stream->capture;
    stream->capture = NULL;
    if (!(*graph)->is_broken) return cudaSuccess;
    cudaGraphDestroy(*graph);
    *graph = NULL;
    return cudaErrorStreamCaptureInvalidated;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    struct CUgraphExec_st *made = *exec = calloc(1, sizeof *made);
    if (!made) return cudaErrorMemoryAllocation;
    made->queue = graph->queue;
    graph->queue = (struct queue){0};
    return cudaSuccess;
}
static void run_graph(const void *args)
{
    const struct CUgraphExec_st *exec = *(struct CUgraphExec_st *const *)args;
    for (const struct work *work = exec->queue.first; work; work = work->next)
        work->run(work->args);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    emulate_put(stream, run_graph, &exec, sizeof exec);
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    queue_free(&graph->queue);
    free(graph);
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    emulate_finish();
    queue_free(&exec->queue);
    free(exec);
    return cudaSuccess;
}
