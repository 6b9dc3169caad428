#include "executor/cuda/cuda.h"

#include "tests/gpu/emulate_streams.h"

#include <stdlib.h>
#include <string.h>

// cuDNN's attention for the emulation. MESHWRIGHT_EMULATED_SDPA says what there is of it: nothing,
// as on a machine without the library; "runs", plain loops over what its graph describes; or
// "refuses", a library without an engine for any shape.

static bool is_mode(const char *mode)
{
    const char *wanted = getenv("MESHWRIGHT_EMULATED_SDPA");
    return wanted && strcmp(wanted, mode) == 0;
}

const char *sdpa_open(struct cuda_device *device)
{
    (void)device;
    return NULL;
}
const char *sdpa_missing(const struct cuda_device *device)
{
    (void)device;
    return is_mode("runs") || is_mode("refuses") ? NULL : "the emulation is without cuDNN";
}
const char *sdpa_name(void)
{
    return "emulated";
}
void sdpa_close(struct cuda_device *device)
{
    (void)device;
}
int64_t sdpa_library_version(void)
{
    return 0;
}
const char *sdpa_prepare(struct cuda_device *device, const struct sdpa_shape *shape)
{
    (void)device, (void)shape;
    return is_mode("refuses") ? "no engine, as the emulation was told" : NULL;
}

struct sdpa_call {
    struct sdpa_shape shape;
    struct sdpa_tensors tensors;
};

// Of a head at a position: where its row begins.
struct place {
    int64_t batch, head, kv_head;
};

static int64_t query_at(const struct sdpa_shape *s, struct place p, int64_t i, int64_t stride,
                        int64_t width)
{
    return (p.batch * s->queries + i) * stride + p.head * width;
}
static int64_t key_at(const struct sdpa_shape *s, struct place p, int64_t j, int64_t stride,
                      int64_t width)
{
    return (p.batch * s->keys + j) * stride + p.kv_head * width;
}

static double dot(struct reals x, int64_t x_at, struct reals y, int64_t y_at, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += emulate_read(x, x_at + i) * emulate_read(y, y_at + i);
    return sum;
}

// Scores of one query; how many keys it sees.
static int64_t scores_of(const struct sdpa_call *a, struct place p, int64_t i, double *scores)
{
    const struct sdpa_shape *s = &a->shape;
    int64_t count = s->causal ? i + 1 : s->keys;
    for (int64_t j = 0; j < count; j++) {
        scores[j] = (double)s->scale * dot(a->tensors.q, query_at(s, p, i, s->strides[0], s->width),
                                           a->tensors.k, key_at(s, p, j, s->strides[1], s->width),
                                           s->width);
    }
    return count;
}

static int64_t lse_at(const struct sdpa_shape *s, struct place p, int64_t i)
{
    return (p.batch * s->queries + i) * s->heads + p.head;
}

static void attend(const struct sdpa_call *a, struct place p, int64_t i, double *scores)
{
    const struct sdpa_shape *s = &a->shape;
    int64_t count = scores_of(a, p, i, scores), width = s->value_width;
    double most = scores[0], total = 0;
    for (int64_t j = 1; j < count; j++)
        most = scores[j] > most ? scores[j] : most;
    for (int64_t j = 0; j < count; j++)
        total += exp(scores[j] - most);
    for (int64_t c = 0; c < width; c++) {
        double sum = 0;
        for (int64_t j = 0; j < count; j++) {
            sum += exp(scores[j] - most) / total *
                   emulate_read(a->tensors.v, key_at(s, p, j, s->strides[2], width) + c);
        }
        emulate_write(a->tensors.out, query_at(s, p, i, s->heads * width, width) + c, sum);
    }
    a->tensors.lse[lse_at(s, p, i)] = (float)(most + log(total));
}

// What the queries of one head add to the gradients of its keys, kept in doubles by key head.
struct sums {
    double *d_k, *d_v;  // [keys][width], [keys][value width]
};

static void attend_backward(const struct sdpa_call *a, struct place p, int64_t i, double *scores,
                            const struct sums *sums)
{
    const struct sdpa_shape *s = &a->shape;
    const struct sdpa_tensors *t = &a->tensors;
    int64_t count = scores_of(a, p, i, scores), row = s->heads * s->value_width;
    int64_t out = query_at(s, p, i, row, s->value_width);
    int64_t q = query_at(s, p, i, s->strides[0], s->width);
    double mean = dot(t->out, out, t->d, out, s->value_width);
    for (int64_t j = 0; j < count; j++) {
        double weight = exp(scores[j] - (double)t->lse[lse_at(s, p, i)]);
        double slope =
            dot(t->d, out, t->v, key_at(s, p, j, s->strides[2], s->value_width), s->value_width);
        scores[j] = weight * (slope - mean) * (double)s->scale;
        for (int64_t c = 0; c < s->value_width; c++)
            sums->d_v[j * s->value_width + c] += weight * emulate_read(t->d, out + c);
        for (int64_t c = 0; c < s->width; c++)
            sums->d_k[j * s->width + c] += scores[j] * emulate_read(t->q, q + c);
    }
    for (int64_t c = 0; c < s->width; c++) {
        double sum = 0;
        for (int64_t j = 0; j < count; j++)
            sum += scores[j] * emulate_read(t->k, key_at(s, p, j, s->strides[1], s->width) + c);
        emulate_write(t->d_q, query_at(s, p, i, s->gradient_strides[0], s->width) + c, sum);
    }
}

static void write_keys(const struct sdpa_call *a, struct place p, struct reals to, int which,
                       const double *sums, int64_t width)
{
    const struct sdpa_shape *s = &a->shape;
    for (int64_t j = 0; j < s->keys; j++) {
        for (int64_t c = 0; c < width; c++)
            emulate_write(to, key_at(s, p, j, s->gradient_strides[which], width) + c,
                          sums[j * width + c]);
    }
}

static void run_heads(const struct sdpa_call *a, int64_t batch, int64_t kv_head, double *room)
{
    const struct sdpa_shape *s = &a->shape;
    int64_t group = s->heads / s->kv_heads;
    double *scores = room;
    struct sums sums = {room + s->keys, room + s->keys * (1 + s->width)};
    struct place p = {batch, 0, kv_head};
    memset(room, 0, (size_t)(s->keys * (1 + s->width + s->value_width)) * sizeof *room);
    for (p.head = kv_head * group; p.head < (kv_head + 1) * group; p.head++) {
        for (int64_t i = 0; i < s->queries; i++) {
            if (s->is_backward)
                attend_backward(a, p, i, scores, &sums);
            else
                attend(a, p, i, scores);
        }
    }
    if (!s->is_backward) return;
    write_keys(a, p, a->tensors.d_k, 1, sums.d_k, s->width);
    write_keys(a, p, a->tensors.d_v, 2, sums.d_v, s->value_width);
}

static void run_attention(const void *args)
{
    const struct sdpa_call *a = args;
    const struct sdpa_shape *s = &a->shape;
    double *room = malloc((size_t)(s->keys * (1 + s->width + s->value_width)) * sizeof *room);
    if (!room) abort();
    emulate_launched("attention of cuDNN");
    for (int64_t batch = 0; batch < s->batch; batch++) {
        for (int64_t kv_head = 0; kv_head < s->kv_heads; kv_head++)
            run_heads(a, batch, kv_head, room);
    }
    free(room);
}

const char *sdpa_run(struct cuda_device *device, enum stream stream, const struct sdpa_shape *shape,
                     const struct sdpa_tensors *tensors)
{
    const struct sdpa_call call = {*shape, *tensors};
    emulate_put(device->streams[stream], run_attention, &call, sizeof call);
    return NULL;
}
