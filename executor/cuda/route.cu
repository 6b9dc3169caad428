#include "executor/cuda/device_code.h"

// The choice of experts, a warp a token, in double: there are as many numbers as experts, and what
// is chosen must be what the CPU chooses.

enum { LANES = 32 };

DEVICE bool is_sigmoid(int score)
{
    return score == ROUTE_SIGMOID || score == ROUTE_SIGMOID_SHARE;
}
DEVICE double score_of(int score, double logit, double most)
{
    return is_sigmoid(score) ? 1 / (1 + exp(-logit)) : exp(logit - most);
}
DEVICE bool is_in_sum(int score, bool is_chosen)
{
    return score != ROUTE_SIGMOID && (score == ROUTE_SOFTMAX || is_chosen);
}

DEVICE double lanes_max(double x)
{
    for (int mask = LANES / 2; mask > 0; mask /= 2)
        x = fmax(x, __shfl_xor_sync(0xFFFFFFFFu, x, mask));
    return x;
}
DEVICE double lanes_sum(double x)
{
    for (int mask = LANES / 2; mask > 0; mask /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, mask);
    return x;
}

// The best of those that are left; of equal ones the first. All lanes get it; `count` when none is.
DEVICE int best_of(const double *x, int count, int lane)
{
    double most = -INFINITY, least = (double)count;
    for (int i = lane; i < count; i += LANES)
        most = fmax(most, x[i]);
    most = lanes_max(most);
    for (int i = lane; i < count && least == (double)count; i += LANES) {
        if (x[i] == most && most > -INFINITY) least = (double)i;
    }
    return (int)-lanes_max(-least);
}

// A group is worth its best score, or with a bias to choose by the sum of its two best; those that
// are not open are taken out.
DEVICE void close_groups(const struct route_args *a, double *ranked, double *worth, int lane)
{
    int size = a->count / a->group_count;
    for (int g = lane; g < a->group_count; g += LANES) {
        double first = -INFINITY, second = -INFINITY;
        for (int i = 0; i < size; i++) {
            double x = ranked[g * size + i];
            second = fmax(second, fmin(x, first));
            first = fmax(first, x);
        }
        worth[g] = a->bias.data && size > 1 ? first + second : first;
    }
    __syncthreads();
    for (int n = 0; n < a->open_groups; n++) {
        int best = best_of(worth, a->group_count, lane);
        __syncthreads();
        if (lane == 0 && best < a->group_count) worth[best] = -INFINITY;
        __syncthreads();
    }
    for (int i = lane; i < a->count; i += LANES) {
        if (worth[i / size] > -INFINITY) ranked[i] = -INFINITY;
    }
    __syncthreads();
}

DEVICE double largest_of(const struct route_args *a, int64_t at, int lane)
{
    double most = -INFINITY;
    for (int i = lane; i < a->count; i += LANES)
        most = fmax(most, (double)load(a->logits, at + i));
    return lanes_max(most);
}

BLOCK_KERNEL(route, struct route_args, a)
{
    __shared__ double ranked[ROUTE_EXPERT_MAX], worth[ROUTE_GROUP_MAX];
    __shared__ unsigned char chosen[ROUTE_EXPERT_MAX];
    int lane = (int)threadIdx.x;
    for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
        int64_t at = token * a.count;
        double most = largest_of(&a, at, lane), sum = 0, whole = 0;
        for (int i = lane; i < a.count; i += LANES)
            whole += score_of(a.score, load(a.logits, at + i), most);
        // A bias is added to what the score is worth among all experts.
        whole = is_sigmoid(a.score) ? 1 : lanes_sum(whole);
        for (int i = lane; i < a.count; i += LANES) {
            double x = load(a.logits, at + i);
            double score = score_of(a.score, x, most) / whole;
            ranked[i] = a.bias.data ? score + (double)load(a.bias, i) : x;
            chosen[i] = 0;
        }
        __syncthreads();
        if (a.group_count > 1) close_groups(&a, ranked, worth, lane);
        for (int n = 0; n < a.top_k; n++) {
            int best = best_of(ranked, a.count, lane);
            __syncthreads();
            if (lane == 0 && best < a.count) {
                ranked[best] = -INFINITY;
                chosen[best] = 1;
            }
            __syncthreads();
        }
        for (int i = lane; i < a.count; i += LANES) {
            if (is_in_sum(a.score, chosen[i]))
                sum += score_of(a.score, load(a.logits, at + i), most);
        }
        sum = lanes_sum(sum);
        sum = a.score == ROUTE_SIGMOID ? 1 : sum + a.sum_epsilon;
        for (int i = lane; i < a.count; i += LANES) {
            double score = score_of(a.score, load(a.logits, at + i), most);
            store_sum(a.weights, at + i, a.adds, chosen[i] ? (float)(a.scalar * score / sum) : 0);
        }
        __syncthreads();
    }
}

void kernel_route(struct CUstream_st *stream, const struct route_args *args)
{
    LAUNCH(route, *args, blocks_for(args->tokens, 1), LANES, stream);
}

// With s the scores and S their sum, to which a number may be added, w_i = scalar s_i / S for the
// chosen:
// d_logit_j = s'_j / S * (scalar d_w_j, where chosen, - sum_i d_w_i w_i, where j is in S).
BLOCK_KERNEL(route_back, struct route_args, a)
{
    int lane = (int)threadIdx.x;
    for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
        int64_t at = token * a.count;
        double most = largest_of(&a, at, lane), sum = 0, mean = 0;
        for (int i = lane; i < a.count; i += LANES) {
            double weight = load(a.weights, at + i);
            if (is_in_sum(a.score, weight > 0))
                sum += score_of(a.score, load(a.logits, at + i), most);
            if (a.score != ROUTE_SIGMOID) mean += (double)load(a.d, at + i) * weight;
        }
        sum = lanes_sum(sum);
        mean = lanes_sum(mean);
        sum = a.score == ROUTE_SIGMOID ? 1 : sum + a.sum_epsilon;
        for (int i = lane; i < a.count; i += LANES) {
            bool is_chosen = load(a.weights, at + i) > 0;
            double s = score_of(a.score, load(a.logits, at + i), most);
            double slope = is_sigmoid(a.score) ? s * (1 - s) : s;
            double own = is_chosen ? a.scalar * (double)load(a.d, at + i) : 0;
            if (is_in_sum(a.score, is_chosen)) own -= mean;
            store_sum(a.d_logits, at + i, a.adds, (float)(slope / sum * own));
        }
    }
}

void kernel_route_backward(struct CUstream_st *stream, const struct route_args *args)
{
    LAUNCH(route_back, *args, blocks_for(args->tokens, 1), LANES, stream);
}

// Choices one behind the other, each a softmax over those left that are near the best of them;
// backward each adds w d_own ((j is own) - p_j) to those. By tokens of a warp, in double.
BLOCK_KERNEL(route_near, struct route_args, a)
{
    __shared__ double ranked[ROUTE_EXPERT_MAX], shares[ROUTE_EXPERT_MAX], sums[ROUTE_EXPERT_MAX];
    int lane = (int)threadIdx.x;
    for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
        int64_t at = token * a.count;
        for (int i = lane; i < a.count; i += LANES) {
            ranked[i] = load(a.logits, at + i);
            sums[i] = 0;
        }
        __syncthreads();
        for (int n = 0; n < a.top_k; n++) {
            int best = best_of(ranked, a.count, lane);
            double most = ranked[best], sum = 0;
            for (int i = lane; i < a.count; i += LANES) {
                double x = ranked[i], apart = most - x;
                bool is_near = x > -INFINITY && apart <= a.scalar * fmax(fabs(x), most);
                shares[i] = is_near ? exp(-apart) : 0;
                sum += shares[i];
            }
            sum = lanes_sum(sum);
            double own = a.d.data ? (double)load(a.d, at + best) / sum : 1 / sum;
            for (int i = lane; i < a.count; i += LANES) {
                double slope = (i == best) - shares[i] / sum;
                if (a.d.data && shares[i] > 0) sums[i] += own * slope;
                if (!a.d.data && i == best) sums[i] = own;
            }
            __syncthreads();
            if (lane == 0) ranked[best] = -INFINITY;
            __syncthreads();
        }
        for (int i = lane; i < a.count; i += LANES)
            store_sum(a.d.data ? a.d_logits : a.weights, at + i, a.adds, (float)sums[i]);
        __syncthreads();
    }
}

void kernel_route_near(struct CUstream_st *stream, const struct route_args *args)
{
    LAUNCH(route_near, *args, blocks_for(args->tokens, 1), LANES, stream);
}
