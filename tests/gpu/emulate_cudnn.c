#include "tests/gpu/emulate_cudnn.h"

#include "executor/cuda/cudnn_library.h"
#include "tests/gpu/emulate_streams.h"

#include <stdlib.h>
#include <string.h>

// The backend interface of cuDNN for the emulation: descriptors with attributes, which are copied
// when they are finalized. MESHWRIGHT_EMULATED_SDPA says what there is of the library: nothing, as
// on a machine without it; "runs"; the number of a version before 9.26; or "refuses", one without
// an engine for any graph.

enum { ATTRIBUTES = 12, WORDS = EMULATED_OPERATIONS, WORKSPACE = 256 };
static const uint64_t MAGIC = 0x656D75636C6E6E;

struct attribute {
    cudnnBackendAttributeName_t name;
    int64_t count, words[WORDS];
};
struct descriptor {
    uint64_t magic;
    cudnnBackendDescriptorType_t type;
    bool is_final;
    struct attribute attributes[ATTRIBUTES];
    int attribute_count;
    // By type, once it is final.
    struct emulated_tensor tensor;
    struct emulated_operation operation;
    struct emulated_graph graph;  // of a graph, and of heuristics, a configuration, a plan
};
struct cudnn_handle {
    cudaStream_t stream;
};

static bool is_mode(const char *mode)
{
    const char *wanted = getenv("MESHWRIGHT_EMULATED_SDPA");
    return wanted && strcmp(wanted, mode) == 0;
}

// 0: no older one.
static int older_version(void)
{
    const char *wanted = getenv("MESHWRIGHT_EMULATED_SDPA");
    return wanted ? atoi(wanted) : 0;
}

const char *cudnn_open(void)
{
    return is_mode("runs") || older_version() || is_mode("refuses")
               ? NULL
               : "the emulation is without cuDNN";
}

const struct cudnn_functions *cudnn(void)
{
    static const struct cudnn_functions FUNCTIONS = {
#define EMULATED_MEMBER(name) .name = cudnn##name,
        CUDNN_FUNCTIONS(EMULATED_MEMBER)
#undef EMULATED_MEMBER
    };
    return &FUNCTIONS;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = calloc(1, sizeof **handle);
    return *handle ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}
size_t cudnnGetVersion(void)
{
    return older_version() ? (size_t)older_version() : 92600;
}
const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS         ? "CUDNN_STATUS_SUCCESS"
           : status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                                  : "CUDNN_STATUS_BAD_PARAM";
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

static struct descriptor *known(cudnnBackendDescriptor_t descriptor)
{
    struct descriptor *own = descriptor;
    if (!own || own->magic != MAGIC) abort();
    return own;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *descriptor)
{
    struct descriptor *own = calloc(1, sizeof *own);
    if (!own) return CUDNN_STATUS_INTERNAL_ERROR;
    own->magic = MAGIC;
    own->type = type;
    *descriptor = own;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    known(descriptor)->magic = 0;
    free(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

static size_t bytes_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN:
        return sizeof(bool);
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_POINTWISE_MODE:
    case CUDNN_TYPE_REDUCTION_OPERATOR_TYPE:
        return sizeof(int);
    default:
        return sizeof(int64_t);
    }
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values)
{
    struct descriptor *own = known(descriptor);
    if (own->is_final || count > WORDS) return CUDNN_STATUS_BAD_PARAM;
    if (own->attribute_count == ATTRIBUTES) abort();
    struct attribute *attribute = &own->attributes[own->attribute_count++];
    attribute->name = name;
    attribute->count = count;
    size_t bytes = bytes_of(type);
    for (int64_t i = 0; i < count; i++) {
        memcpy(&attribute->words[i], (const char *)values + (size_t)i * bytes, bytes);
        if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
        cudnnBackendDescriptor_t of;
        memcpy(&of, &attribute->words[i], sizeof of);
        if (!known(of)->is_final) return CUDNN_STATUS_BAD_PARAM;
    }
    return CUDNN_STATUS_SUCCESS;
}

static const struct attribute *find(const struct descriptor *own, cudnnBackendAttributeName_t name)
{
    for (int i = 0; i < own->attribute_count; i++) {
        if (own->attributes[i].name == name) return &own->attributes[i];
    }
    return NULL;
}
static int64_t word(const struct descriptor *own, cudnnBackendAttributeName_t name)
{
    const struct attribute *attribute = find(own, name);
    return attribute ? attribute->words[0] : 0;
}
static const struct descriptor *pointed(const struct descriptor *own,
                                        cudnnBackendAttributeName_t name, int64_t i)
{
    const struct attribute *attribute = find(own, name);
    cudnnBackendDescriptor_t of = NULL;
    if (attribute && i < attribute->count) memcpy(&of, &attribute->words[i], sizeof of);
    return of ? known(of) : NULL;
}
static bool take_tensor(const struct descriptor *own, cudnnBackendAttributeName_t name,
                        struct emulated_tensor *tensor)
{
    const struct descriptor *of = pointed(own, name, 0);
    if (of) *tensor = of->tensor;
    return of != NULL;
}

static bool end_tensor(struct descriptor *own)
{
    const struct attribute *size = find(own, CUDNN_ATTR_TENSOR_DIMENSIONS);
    const struct attribute *stride = find(own, CUDNN_ATTR_TENSOR_STRIDES);
    if (!size || !stride || size->count != 4 || stride->count != 4) return false;
    memcpy(own->tensor.size, size->words, sizeof own->tensor.size);
    memcpy(own->tensor.stride, stride->words, sizeof own->tensor.stride);
    own->tensor.uid = word(own, CUDNN_ATTR_TENSOR_UNIQUE_ID);
    own->tensor.alignment_bytes = word(own, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    own->tensor.type = (cudnnDataType_t)word(own, CUDNN_ATTR_TENSOR_DATA_TYPE);
    own->tensor.is_virtual = word(own, CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0;
    own->tensor.is_value = word(own, CUDNN_ATTR_TENSOR_IS_BY_VALUE) != 0;
    return own->tensor.uid > 0;
}

static bool end_pointwise(struct descriptor *own)
{
    struct emulated_operation *op = &own->operation;
    const struct descriptor *mode = pointed(own, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    if (!mode) return false;
    op->mode = (int)word(mode, CUDNN_ATTR_POINTWISE_MODE);
    op->axis = word(mode, CUDNN_ATTR_POINTWISE_AXIS);
    op->has_b = take_tensor(own, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, &op->b);
    op->has_c = take_tensor(own, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, &op->c);
    op->is_gradient = take_tensor(own, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, &op->c);
    return take_tensor(own, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &op->x) &&
           take_tensor(own,
                       op->is_gradient ? CUDNN_ATTR_OPERATION_POINTWISE_DXDESC
                                       : CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
                       &op->y);
}

static bool end_product(struct descriptor *own)
{
    struct emulated_operation *op = &own->operation;
    op->has_b = take_tensor(own, CUDNN_ATTR_OPERATION_MATMUL_BDESC, &op->b);
    return op->has_b && pointed(own, CUDNN_ATTR_OPERATION_MATMUL_DESC, 0) &&
           take_tensor(own, CUDNN_ATTR_OPERATION_MATMUL_ADESC, &op->x) &&
           take_tensor(own, CUDNN_ATTR_OPERATION_MATMUL_CDESC, &op->y);
}

static bool end_reduction(struct descriptor *own)
{
    const struct descriptor *mode = pointed(own, CUDNN_ATTR_OPERATION_REDUCTION_DESC, 0);
    if (mode) own->operation.mode = (int)word(mode, CUDNN_ATTR_REDUCTION_OPERATOR);
    return mode && take_tensor(own, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, &own->operation.x) &&
           take_tensor(own, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, &own->operation.y);
}

static bool end_reshape(struct descriptor *own)
{
    return take_tensor(own, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, &own->operation.x) &&
           take_tensor(own, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, &own->operation.y);
}

static bool end_graph(struct descriptor *own)
{
    const struct attribute *operations = find(own, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    if (!operations || operations->count > EMULATED_OPERATIONS) return false;
    for (int64_t i = 0; i < operations->count; i++)
        own->graph.operations[i] = pointed(own, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)->operation;
    own->graph.count = (int)operations->count;
    return true;
}

static bool end_from(struct descriptor *own, cudnnBackendAttributeName_t name)
{
    const struct descriptor *from = pointed(own, name, 0);
    if (from) own->graph = from->graph;
    return from != NULL;
}

static bool end(struct descriptor *own)
{
    own->operation.type = own->type;
    switch (own->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        return end_tensor(own);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return end_pointwise(own);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return end_product(own);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return end_reduction(own);
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        return end_reshape(own);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return end_graph(own);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return end_from(own, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return end_from(own, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    default:
        return true;
    }
}

// What is final is not made so again.
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    struct descriptor *own = known(descriptor);
    if (own->is_final || !end(own)) return CUDNN_STATUS_BAD_PARAM;
    own->is_final = true;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room,
                                       int64_t *count, void *values)
{
    const struct descriptor *own = known(descriptor);
    if (!own->is_final || room < 1) return CUDNN_STATUS_BAD_PARAM;
    *count = 1;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64) {
        *(int64_t *)values = WORKSPACE;
        return CUDNN_STATUS_SUCCESS;
    }
    if (name != CUDNN_ATTR_ENGINEHEUR_RESULTS || type != CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return CUDNN_STATUS_BAD_PARAM;
    *count = older_version() ? emulate_reads_dense_rows(&own->graph) : is_mode("runs");
    if (*count == 0) return CUDNN_STATUS_SUCCESS;
    struct descriptor *config = known(*(cudnnBackendDescriptor_t *)values);
    config->graph = own->graph;
    config->is_final = true;
    return CUDNN_STATUS_SUCCESS;
}

struct execution {
    const struct emulated_graph *graph;
    struct emulated_argument arguments[EMULATED_ARGUMENTS];
    int count;
};

static void run(const void *args)
{
    const struct execution *execution = args;
    emulate_launched("attention of cuDNN");
    emulate_run_graph(execution->graph, execution->arguments, execution->count);
}

static const struct emulated_tensor *find_tensor(const struct emulated_graph *graph, int64_t uid)
{
    for (int i = 0; i < graph->count; i++) {
        const struct emulated_operation *op = &graph->operations[i];
        const struct emulated_tensor *tensors[] = {&op->x, &op->b, &op->c, &op->y};
        for (int t = 0; t < 4; t++) {
            if (tensors[t]->uid == uid) return tensors[t];
        }
    }
    return NULL;
}

// Numbers by value are read when it is called, memory when it runs.
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant)
{
    const struct descriptor *of = known(plan), *own = known(variant);
    const struct attribute *ids = find(own, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const struct attribute *pointers = find(own, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    if (!own->is_final || ids->count != pointers->count || ids->count > EMULATED_ARGUMENTS)
        return CUDNN_STATUS_BAD_PARAM;
    struct execution execution = {.graph = &of->graph, .count = (int)ids->count};
    for (int64_t i = 0; i < ids->count; i++) {
        struct emulated_argument *to = &execution.arguments[i];
        const struct emulated_tensor *tensor = find_tensor(&of->graph, ids->words[i]);
        to->uid = ids->words[i];
        memcpy(&to->data, &pointers->words[i], sizeof to->data);
        if (!tensor || !to->data) return CUDNN_STATUS_BAD_PARAM;
        if (!tensor->is_value && (uintptr_t)to->data % (uintptr_t)tensor->alignment_bytes != 0)
            return CUDNN_STATUS_BAD_PARAM;
        if (tensor->is_value) {
            to->value = tensor->type == CUDNN_DATA_INT32 ? (double)*(const int32_t *)to->data
                                                         : (double)*(const float *)to->data;
        }
    }
    emulate_put(handle->stream, run, &execution, sizeof execution);
    return CUDNN_STATUS_SUCCESS;
}
