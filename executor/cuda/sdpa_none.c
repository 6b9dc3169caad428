#include "executor/cuda/cuda.h"

// In place of sdpa.c where there is no cuDNN: attention takes the other way.

const char *sdpa_open(struct cuda_device *device)
{
    (void)device;
    return NULL;
}
const char *sdpa_missing(const struct cuda_device *device)
{
    (void)device;
    return "built without cuDNN";
}
void sdpa_close(struct cuda_device *device)
{
    (void)device;
}
int64_t sdpa_library_version(void)
{
    return 0;
}
bool sdpa_reads_strides(void)
{
    return true;
}
const char *sdpa_prepare(struct cuda_device *device, const struct sdpa_shape *shape)
{
    (void)device, (void)shape;
    return "built without cuDNN";
}
const char *sdpa_run(struct cuda_device *device, enum stream stream, const struct sdpa_shape *shape,
                     const struct sdpa_tensors *tensors)
{
    (void)device, (void)stream, (void)shape, (void)tensors;
    return "built without cuDNN";
}
