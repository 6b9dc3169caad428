#include "executor/cuda/cuda.h"

#include <assert.h>
#include <stdlib.h>

// Graphs of CUDA: what is put on a stream is recorded instead, and later launched as one. A graph
// holds the addresses of scratch memory, so one from before that grew is stale.

struct capture {
    cudaGraphExec_t graph;
    int64_t age;
};

// Of this thread alone: others may allocate meanwhile.
const char *cuda_capture_begin(struct device *device, enum stream stream)
{
    struct cuda_device *own = (struct cuda_device *)(void *)device;
    assert(!own->is_capturing);
    const char *fault =
        cuda_fault(cudaStreamBeginCapture(own->streams[stream], cudaStreamCaptureModeThreadLocal));
    own->is_capturing = !fault;
    return fault;
}

const char *cuda_capture_end(struct device *device, enum stream stream, struct capture **capture)
{
    struct cuda_device *own = (struct cuda_device *)(void *)device;
    cudaGraph_t graph = NULL;
    struct capture *made = calloc(1, sizeof *made);
    *capture = NULL;
    own->is_capturing = false;
    const char *fault = cuda_fault(cudaStreamEndCapture(own->streams[stream], &graph));
    if (!fault && !made) fault = "no memory left on this host";
    if (!fault) fault = cuda_fault(cudaGraphInstantiate(&made->graph, graph, 0));
    if (graph) cudaGraphDestroy(graph);
    if (fault) {
        cudaGetLastError();  // said, and no fault of what comes next
        free(made);
        return fault;
    }
    made->age = own->scratch_age;
    *capture = made;
    return NULL;
}

// A stale one is not launched: the caller records another.
const char *cuda_replay(struct device *device, enum stream stream, struct capture *capture,
                        bool *is_stale)
{
    struct cuda_device *own = (struct cuda_device *)(void *)device;
    *is_stale = capture->age != own->scratch_age;
    if (*is_stale) return NULL;
    return cuda_fault(cudaGraphLaunch(capture->graph, own->streams[stream]));
}

void cuda_capture_free(struct device *device, struct capture *capture)
{
    (void)device;
    cudaGraphExecDestroy(capture->graph);
    free(capture);
}
