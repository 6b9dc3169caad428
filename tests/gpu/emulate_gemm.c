#include "tests/gpu/emulate_gemm.h"

#include "tests/gpu/emulate_streams.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// Products of the emulation, and groups of them.

// Of 8 bits: one transposed and one not, dims that are multiples of 16, not two of E5M2.
static const char *check_bytes(const struct cuda_gemm *g)
{
    bool is_type = number_is_byte(g->b.number) && !number_is_byte(g->c.number) &&
                   (g->a.number == NUMBER_E4M3 || g->b.number == NUMBER_E4M3);
    bool is_form = !g->is_a_turned && g->is_b_turned && g->batch == 1 && g->inner % 16 == 0 &&
                   g->columns % 16 == 0 && g->c_stride % 8 == 0 && g->epilogue == GEMM_PLAIN;
    return is_type && is_form && g->a_factor && g->b_factor ? NULL : "no product of 8 bits";
}

// What cuBLASLt refuses is refused here too.
const char *emulate_check_gemm(const struct cuda_gemm *g)
{
    int64_t a_width = g->is_a_turned ? g->rows : g->inner;
    int64_t b_width = g->is_b_turned ? g->inner : g->columns;
    bool fits = g->a_stride >= a_width && g->b_stride >= b_width && g->c_stride >= g->columns;
    if (!fits) return "a leading dimension is too small";
    bool is_type =
        g->a.number == g->b.number && (g->c.number == g->a.number || g->c.number == NUMBER_FP32);
    bool has_aux = g->epilogue == GEMM_BIAS_GELU || g->epilogue == GEMM_D_GELU;
    bool is_summed = g->epilogue == GEMM_SUM_A || g->epilogue == GEMM_SUM_B;
    if (g->epilogue != GEMM_PLAIN && (g->batch > 1 || (g->beta != 0 && !is_summed)))
        return "no such epilogue";
    if (is_summed && g->bias.number != g->c.number) return "sums of another type";
    if (has_aux && (g->aux_stride % 8 || (uintptr_t)g->aux.data % 16)) return "aux is not aligned";
    if (number_is_byte(g->a.number)) return check_bytes(g);
    return is_type ? NULL : "no product of these types";
}

static double gelu_slope(double x, double *value)
{
    double inner = 0.7978845608028654 * (x + 0.044715 * x * x * x), t = tanh(inner);
    *value = 0.5 * x * (1 + t);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

static double finish(const struct cuda_gemm *g, int64_t aux, int64_t column, double x)
{
    double value = x;
    if (g->epilogue == GEMM_D_GELU) return x * gelu_slope(emulate_read(g->aux, aux), &value);
    if (g->epilogue != GEMM_BIAS && g->epilogue != GEMM_BIAS_GELU) return value;
    value = x += emulate_read(g->bias, column);
    if (g->epilogue != GEMM_BIAS_GELU) return value;
    emulate_write(g->aux, aux, x);
    gelu_slope(x, &value);
    return value;
}

// The order of the tensor cores is another than that of the kernel which sums alone.
static void sum_operand(const struct cuda_gemm *g)
{
    bool is_second = g->epilogue == GEMM_SUM_B;
    // By its rows or its columns as they are stored.
    bool is_row = is_second ? g->is_b_turned : !g->is_a_turned;
    struct reals operand = is_second ? g->b : g->a;
    int64_t stride = is_second ? g->b_stride : g->a_stride;
    for (int64_t i = 0; i < (is_second ? g->columns : g->rows); i++) {
        double sum = 0;
        for (int64_t k = g->inner; k-- > 0;)
            sum += emulate_read(operand, is_row ? i * stride + k : k * stride + i);
        emulate_write(g->bias, i, sum);
    }
}

// The numbers of an operand, `inner` of them for each row or column of the product.
static double *read_operand(struct reals from, int64_t count, int64_t inner, int64_t step,
                            int64_t inner_step)
{
    double *numbers = calloc((size_t)(count * inner + 1), sizeof *numbers);
    assert(numbers);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < inner; k++)
            numbers[i * inner + k] = emulate_read(from, i * step + k * inner_step);
    }
    return numbers;
}

// One element of the product: of inner [first, end).
static double sum_part(const double *a, const double *b, int64_t first, int64_t end)
{
    double sum = 0;
    for (int64_t k = first; k < end; k++)
        sum += a[k] * b[k];
    return sum;
}

// Neighbours in a row, each summed in its own order: none waits for the additions of another.
enum { ABREAST = 4 };

static void sum_abreast(const double *a, const double *b, int64_t inner, double sums[ABREAST])
{
    double x = 0, y = 0, z = 0, w = 0;
    for (int64_t k = 0; k < inner; k++) {
        x += a[k] * b[k];
        y += a[k] * b[inner + k];
        z += a[k] * b[2 * inner + k];
        w += a[k] * b[3 * inner + k];
    }
    sums[0] = x;
    sums[1] = y;
    sums[2] = z;
    sums[3] = w;
}

static double sum_split(const double *a, const double *b, int64_t inner, struct emulate_split split)
{
    float sum = 0;
    for (int i = 0; i < split.parts; i++) {
        int part = split.is_falling ? split.parts - 1 - i : i;
        float of_part =
            (float)sum_part(a, b, inner * part / split.parts, inner * (part + 1) / split.parts);
        sum += of_part;
        if (split.is_narrow) sum = emulate_from_bf16(emulate_to_bf16(sum));
    }
    return (double)sum;
}

static struct reals from(struct reals x, int64_t first)
{
    x.data = (char *)x.data + first * number_bytes(x.number);
    return x;
}

static void multiply(const struct cuda_gemm *g, int64_t batch, struct emulate_split split)
{
    double *a = read_operand(from(g->a, batch * g->a_batch), g->rows, g->inner,
                             g->is_a_turned ? 1 : g->a_stride, g->is_a_turned ? g->a_stride : 1);
    double *b = read_operand(from(g->b, batch * g->b_batch), g->columns, g->inner,
                             g->is_b_turned ? g->b_stride : 1, g->is_b_turned ? 1 : g->b_stride);
    double sums[ABREAST] = {0};
    for (int64_t i = 0; i < g->rows * g->columns; i++) {
        int64_t row = i / g->columns, column = i % g->columns, at = column % ABREAST;
        bool is_abreast = split.parts <= 1 && column - at + ABREAST <= g->columns;
        int64_t c = batch * g->c_batch + row * g->c_stride + column;
        const double *of_row = a + row * g->inner;
        const double *of_column = b + column * g->inner;
        if (is_abreast && at == 0) sum_abreast(of_row, of_column, g->inner, sums);
        double sum = is_abreast        ? sums[at]
                     : split.parts > 1 ? sum_split(of_row, of_column, g->inner, split)
                                       : sum_part(of_row, of_column, 0, g->inner);
        double before =
            g->beta != 0 ? (double)g->beta * emulate_read(g->addend.data ? g->addend : g->c, c) : 0;
        if (g->a_factor) sum *= (double)g->a_factor[0] * (double)g->b_factor[0];
        sum = finish(g, row * g->aux_stride + column, column, (double)g->alpha * sum);
        emulate_write(g->c, c, sum + before);
    }
    free(a);
    free(b);
}

void emulate_gemm(const struct cuda_gemm *g, struct emulate_split split)
{
    if (g->epilogue == GEMM_SUM_A || g->epilogue == GEMM_SUM_B) sum_operand(g);
    for (int64_t batch = 0; batch < g->batch; batch++)
        multiply(g, batch, split);
}

// Groups of cublasGemmGroupedBatchedEx: what its documentation refuses is refused here too.
struct group {
    int count;
    void *const *table;
    struct cuda_gemm gemms[];
};

static void multiply_group(const void *args)
{
    const struct group *group = args;
    emulate_launched("group of GEMMs");
    for (int i = 0; i < group->count; i++) {
        struct cuda_gemm one = group->gemms[i];
        one.a.data = group->table[i];
        one.b.data = group->table[group->count + i];
        one.c.data = group->table[2 * group->count + i];
        emulate_gemm(&one, (struct emulate_split){.parts = 1});
    }
}

static const char *check_group(const struct cuda_gemm *g, const struct cuda_gemm *first)
{
    const struct reals *reals[3] = {&g->a, &g->b, &g->c};
    const char *fault = emulate_check_gemm(g);
    if (fault) return fault;
    if (g->a.number != first->a.number || g->c.number != first->c.number)
        return "a group of several types";
    if (g->batch != 1 || g->epilogue != GEMM_PLAIN) return "no such product in a group";
    for (int i = 0; i < 3; i++) {
        if (number_bytes(reals[i]->number) == 2 && (uintptr_t)reals[i]->data % GROUP_ALIGNMENT)
            return "a matrix of a group is not aligned";
    }
    return NULL;
}

// In memory that children share: ranks of tests are processes.
static _Atomic int64_t *group_count(void)
{
    static _Atomic int64_t *count;
    if (count) return count;
    void *shared =
        mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert(shared != MAP_FAILED);
    return count = shared;
}

// How many groups this process has put on streams, and what it has forked since it first asked.
__attribute__((visibility("default"))) int64_t emulated_group_count(void);
int64_t emulated_group_count(void)
{
    return *group_count();
}

const char *gemm_run_group(struct cuda_device *device, enum stream stream,
                           const struct cuda_gemm *gemms, int count, void *const *table,
                           bool *is_refused)
{
    *is_refused = gemms[0].c.number != gemms[0].a.number || number_is_byte(gemms[0].a.number);
    if (*is_refused) return NULL;
    for (int i = 0; i < count; i++) {
        const char *fault = check_group(&gemms[i], &gemms[0]);
        if (fault) return fault;
    }
    size_t bytes = sizeof(struct group) + (size_t)count * sizeof *gemms;
    struct group *group = malloc(bytes);
    if (!group) return "no memory left on this host";
    group->count = count, group->table = table;
    memcpy(group->gemms, gemms, (size_t)count * sizeof *gemms);
    // The addresses are those of the table alone.
    for (int i = 0; i < count; i++)
        group->gemms[i].a.data = group->gemms[i].b.data = group->gemms[i].c.data = NULL;
    emulate_put(device->streams[stream], multiply_group, group, bytes);
    free(group);
    ++*group_count();
    return NULL;
}
void gemm_group_close(struct cuda_device *device)
{
    (void)device;
}
