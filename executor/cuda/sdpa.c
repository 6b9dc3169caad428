#include "executor/cuda/sdpa_graph.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Attention by cuDNN: execution plans by shape, made once (a second or two each) and kept. The
// gradient of queries is summed by its kernels in no fixed order: who needs equal bits from run to
// run has to take the other way.

enum { PLANS = 64, GRAIN = 256 };

struct sdpa_plan {
    struct sdpa_shape shape;
    const char *fault;  // why there is none; static
    struct sdpa_made made;
};
struct sdpa_cache {
    cudnnHandle_t handle;
    struct sdpa_plan plans[PLANS];
    int count;
};

static const char *fault_of(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? NULL : cudnn()->GetErrorString(status);
}

int64_t sdpa_library_version(void)
{
    return cudnn_open() ? 0 : (int64_t)cudnn()->GetVersion();
}

bool sdpa_reads_strides(void)
{
    return sdpa_library_version() >= SDPA_STRIDED;
}

const char *sdpa_open(struct cuda_device *device)
{
    if (cudnn_open()) return NULL;  // a machine without it: sdpa_missing says so
    device->sdpa = calloc(1, sizeof *device->sdpa);
    if (!device->sdpa) return "no memory left on this host";
    return fault_of(cudnn()->Create(&device->sdpa->handle));
}

const char *sdpa_missing(const struct cuda_device *device)
{
    return device->sdpa ? NULL : cudnn_open();
}

void sdpa_close(struct cuda_device *device)
{
    struct sdpa_cache *cache = device->sdpa;
    if (!cache) return;
    for (int i = 0; i < cache->count; i++)
        sdpa_plan_free(&cache->plans[i].made);
    if (cache->handle) cudnn()->Destroy(cache->handle);
    free(cache);
    device->sdpa = NULL;
}

// What is by value in its graph is an argument of the plan.
static bool is_same(const struct sdpa_shape *a, const struct sdpa_shape *b)
{
    return a->number == b->number && a->is_backward == b->is_backward && a->has_end == b->has_end &&
           a->has_start == b->has_start && a->has_sinks == b->has_sinks &&
           a->has_slopes == b->has_slopes && a->has_choice == b->has_choice &&
           a->choice_stride == b->choice_stride && a->turns_lse == b->turns_lse &&
           (a->ahead != 0) == (b->ahead != 0) && (a->first_key != 0) == (b->first_key != 0) &&
           (a->softcap > 0) == (b->softcap > 0) && a->batch == b->batch && a->heads == b->heads &&
           a->kv_heads == b->kv_heads && a->queries == b->queries && a->keys == b->keys &&
           a->width == b->width && a->value_width == b->value_width &&
           memcmp(a->strides, b->strides, sizeof a->strides) == 0 &&
           memcmp(a->gradient_strides, b->gradient_strides, sizeof a->gradient_strides) == 0;
}

static struct sdpa_plan *find(struct sdpa_cache *cache, const struct sdpa_shape *shape)
{
    for (int i = 0; i < cache->count; i++) {
        if (is_same(&cache->plans[i].shape, shape)) return &cache->plans[i];
    }
    return NULL;
}

// What NVIDIA's cudnn-frontend (1.32) keeps from versions that get it wrong, or gives them
// otherwise.
static const char *known_fault(const struct sdpa_shape *shape)
{
    int64_t version = sdpa_library_version();
    bool is_causal = shape->has_end && shape->ahead == 0;
    if (version == 91400 && shape->has_start && !is_causal && shape->keys > 1024)
        return "cuDNN 9.14.0 gets windows both ways wrong";
    if (!shape->is_backward) return NULL;
    if (version == 91000 || version == 91001) return "cuDNN 9.10.0 and 9.10.1 get gradients wrong";
    if (version <= 91500 && shape->keys % 128 != 0)
        return "cuDNN up to 9.15 gets gradients of keys that 128 does not divide wrong";
    return NULL;
}

const char *sdpa_prepare(struct cuda_device *device, const struct sdpa_shape *shape)
{
    struct sdpa_cache *cache = device->sdpa;
    struct sdpa_plan *plan = find(cache, shape);
    if (plan) return plan->fault;
    if (cache->count == PLANS) return "too many shapes of attention";
    plan = &cache->plans[cache->count++];
    plan->shape = *shape;
    plan->fault = known_fault(shape);
    if (!plan->fault) plan->fault = sdpa_plan_make(shape, cache->handle, NULL, &plan->made);
    return plan->fault;
}

static int64_t rounded(int64_t bytes)
{
    return (bytes + GRAIN - 1) / GRAIN * GRAIN;
}

struct pack {
    int64_t ids[SDPA_TENSORS];
    void *pointers[SDPA_TENSORS];
    int64_t count;
};
static void put(struct pack *pack, enum sdpa_tensor tensor, const void *data)
{
    assert(pack->count < SDPA_TENSORS && data);
    pack->ids[pack->count] = tensor;
    pack->pointers[pack->count++] = (void *)data;
}

static cudnnStatus_t execute(struct sdpa_cache *cache, const struct sdpa_plan *plan,
                             struct pack *pack, void *workspace)
{
    cudnnBackendDescriptor_t variant;
    cudnnStatus_t status =
        cudnn()->BackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &variant);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    status = cudnn()->BackendSetAttribute(variant, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                          CUDNN_TYPE_INT64, pack->count, pack->ids);
    if (status == CUDNN_STATUS_SUCCESS) {
        status = cudnn()->BackendSetAttribute(variant, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                              CUDNN_TYPE_VOID_PTR, pack->count, pack->pointers);
    }
    if (status == CUDNN_STATUS_SUCCESS) {
        status = cudnn()->BackendSetAttribute(variant, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                              CUDNN_TYPE_VOID_PTR, 1, &workspace);
    }
    if (status == CUDNN_STATUS_SUCCESS) status = cudnn()->BackendFinalize(variant);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnn()->BackendExecute(cache->handle, plan->made.plan, variant);
    cudnn()->BackendDestroyDescriptor(variant);
    return status;
}

static void put_arguments(struct pack *pack, const struct sdpa_shape *shape,
                          const struct sdpa_tensors *tensors)
{
    put(pack, SDPA_Q, tensors->q.data);
    put(pack, SDPA_K, tensors->k.data);
    put(pack, SDPA_V, tensors->v.data);
    put(pack, SDPA_OUT, tensors->out.data);
    put(pack, SDPA_LSE, tensors->lse);
    if (shape->has_slopes) put(pack, SDPA_SLOPES, tensors->slopes);
    if (shape->has_choice) put(pack, SDPA_CHOSEN, tensors->chosen.data);
    if (shape->has_sinks && !shape->is_backward) put(pack, SDPA_SINKS, tensors->sinks);
    if (!shape->is_backward) return;
    put(pack, SDPA_D, tensors->d.data);
    put(pack, SDPA_D_Q, tensors->d_q.data);
    put(pack, SDPA_D_K, tensors->d_k.data);
    put(pack, SDPA_D_V, tensors->d_v.data);
}

// What the graph has by value, where cuDNN finds it.
struct values {
    float scale, lowest, one, softcap, back;
    int32_t ahead, first_key;
};

static void put_values(struct pack *pack, const struct sdpa_shape *shape, struct values *values)
{
    *values = (struct values){shape->scale,
                              -INFINITY,
                              1,
                              shape->softcap,
                              (float)shape->back,
                              (int32_t)shape->ahead,
                              (int32_t)shape->first_key};
    put(pack, SDPA_SCALE, &values->scale);
    if (shape->has_end || shape->has_start) put(pack, SDPA_LOWEST, &values->lowest);
    if (shape->is_backward) put(pack, SDPA_ONE, &values->one);
    if (shape->softcap > 0) put(pack, SDPA_SOFTCAP, &values->softcap);
    if (shape->has_start) put(pack, SDPA_BACK, &values->back);
    if (shape->has_end && shape->ahead != 0) put(pack, SDPA_AHEAD, &values->ahead);
    if (shape->has_slopes && shape->first_key != 0) put(pack, SDPA_FIRST_KEY, &values->first_key);
}

const char *sdpa_run(struct cuda_device *device, enum stream stream, const struct sdpa_shape *shape,
                     const struct sdpa_tensors *tensors)
{
    static const enum sdpa_tensor TEMPORARIES[] = {SDPA_MEANS, SDPA_D_Q_SUM, SDPA_D_K_WIDE,
                                                   SDPA_D_V_WIDE};
    struct sdpa_plan *plan = find(device->sdpa, shape);
    struct pack pack = {.count = 0};
    assert(plan && !plan->fault && "the shape has been prepared");
    struct values values;
    int64_t bytes = rounded(plan->made.workspace_bytes);
    for (int i = 0; i < 4; i++)
        bytes += rounded(sdpa_temporary_bytes(shape, TEMPORARIES[i]));
    char *room = cuda_scratch(device, stream, SCRATCH_SDPA, bytes), *at = room;
    if (!room) return CUDA_NO_MEMORY;
    put_arguments(&pack, shape, tensors);
    put_values(&pack, shape, &values);
    at += rounded(plan->made.workspace_bytes);
    for (int i = 0; i < 4; i++) {
        int64_t size = sdpa_temporary_bytes(shape, TEMPORARIES[i]);
        if (size > 0) put(&pack, TEMPORARIES[i], at);
        // Sums begin at zero.
        cudaError_t error = cudaSuccess;
        if (TEMPORARIES[i] == SDPA_D_Q_SUM && size > 0)
            error = cudaMemsetAsync(at, 0, (size_t)size, device->streams[stream]);
        if (error != cudaSuccess) return cuda_fault(error);
        at += rounded(size);
    }
    assert(at == room + bytes);
    cudnnStatus_t status = cudnn()->SetStream(device->sdpa->handle, device->streams[stream]);
    if (status == CUDNN_STATUS_SUCCESS) status = execute(device->sdpa, plan, &pack, room);
    return fault_of(status);
}
