#include "executor/cuda/device_code.h"

// A scan in chunks (plan/scan_chunks.h), what lies between its products of matrices: sums of
// exponents, operands turned so that the tokens of a chunk lie side by side, the decays between
// tokens, states that pass from chunk to chunk, and the way back through each.

enum { TILE = 32 };

// A chunk of a head: where its tokens and numbers are.
struct chunk_place {
    int64_t head, chunk, at, group;  // at: among the rooms of heads; group: among those of groups
    int64_t first, count;            // its tokens
    const float *exponents;
    float end;  // the last of them
};

DEVICE struct chunk_place place_of(const struct chunk_args *a, int64_t at)
{
    struct split in = split_of(at, a->share), of = split_of(in.line, a->chunks);
    int64_t each = a->chunks / a->batch;
    struct split sequence = split_of(of.column, each);
    int64_t begin = sequence.column * a->length, left = a->seq - begin;
    int64_t head = a->first_head + of.line * a->share + in.column;
    const float *exponents = a->exponents + (of.column * a->heads + head) * a->length;
    struct chunk_place place = {head,
                                of.column,
                                at,
                                in.line,
                                sequence.line * a->seq + begin,
                                left < a->length ? left : a->length,
                                exponents,
                                exponents[a->length - 1]};
    return place;
}
DEVICE int64_t row_of(const struct chunk_args *a, const struct chunk_place *place, int64_t token)
{
    return (place->first + token) * a->heads + place->head;
}
DEVICE float step_of(const struct chunk_args *a, const struct chunk_place *place, int64_t token)
{
    if (token >= place->count) return 0;
    return a->dt.data ? load(a->dt, row_of(a, place, token)) : 1;
}
// Of a head, which a token's step multiplies.
DEVICE float rate_of(const struct chunk_args *a, int64_t head)
{
    float rate = load(a->a_log, head);
    return a->dt.data ? -expf(rate) : -rate;
}
DEVICE float rounded(int number, float x)
{
    return number == NUMBER_FP32 ? x : narrow_float(number, float_narrow(number, x));
}

KERNEL(chunk_exponents, struct chunk_args, a)
{
    int64_t each = a.chunks / a.batch;
    for (int64_t i = INDEX; i < a.chunks * a.heads; i += INDICES) {
        int64_t head = i % a.heads, chunk = i / a.heads, begin = chunk % each * a.length;
        int64_t first = chunk / each * a.seq + begin;
        float rate = rate_of(&a, head), sum = 0;
        for (int64_t t = 0; t < a.length; t++) {
            float step = begin + t >= a.seq ? 0 : 1;
            if (step > 0 && a.dt.data) step = load(a.dt, (first + t) * a.heads + head);
            sum += rate * step;
            a.exponents[i * a.length + t] = sum;
        }
    }
}

// B and C by group; what a sequence lacks of its last chunk is 0.
KERNEL(chunk_groups, struct chunk_args, a)
{
    int64_t count = a.groups * a.chunks * a.length * a.state, each = a.chunks / a.batch;
    for (int64_t i = INDEX; i < count; i += INDICES) {
        struct split row = split_of(i, a.state), token = split_of(row.line, a.length);
        struct split chunk = split_of(token.line, a.chunks);
        struct split sequence = split_of(chunk.column, each);
        int64_t t = sequence.column * a.length + token.column;
        int64_t from = ((sequence.line * a.seq + t) * a.groups + chunk.line) * a.state + row.column;
        bool is_there = t < a.seq;
        store(a.room[CHUNK_B], i, is_there ? load(a.b, from) : 0);
        store(a.room[CHUNK_C], i, is_there ? load(a.c, from) : 0);
    }
}

void kernel_chunk_begin(struct CUstream_st *stream, const struct chunk_args *args)
{
    int64_t count = args->groups * args->chunks * args->length * args->state;
    LAUNCH(chunk_exponents, *args, blocks_for(args->chunks * args->heads, THREADS), THREADS,
           stream);
    LAUNCH(chunk_groups, *args, blocks_for(count, THREADS), THREADS, stream);
}

// Tiles of tokens and channels, whose rows are read along the channels and written along the
// tokens, or the other way round.
struct chunk_tile {
    struct chunk_place place;
    int64_t token, channel;
};
static inline HOST_AND_DEVICE int64_t tiles_of(const struct chunk_args *a)
{
    return a->part_heads * a->chunks * ((a->width + TILE - 1) / TILE) *
           ((a->length + TILE - 1) / TILE);
}
DEVICE struct chunk_tile tile_at(const struct chunk_args *a, int64_t i)
{
    struct split by_token = split_of(i, (a->length + TILE - 1) / TILE);
    struct split by_channel = split_of(by_token.line, (a->width + TILE - 1) / TILE);
    struct chunk_tile tile = {place_of(a, by_channel.line), by_token.column * TILE,
                              by_channel.column * TILE};
    return tile;
}
// Of an array by token, 0 where there is none.
DEVICE float load_token(const struct chunk_args *a, const struct chunk_place *place,
                        struct reals from, int64_t token, int64_t channel)
{
    if (token >= place->count || channel >= a->width) return 0;
    return load(from, row_of(a, place, token) * a->width + channel);
}

BLOCK_KERNEL(chunk_heads, struct chunk_args, a)
{
    __shared__ float x[TILE][TILE + 1], d[TILE][TILE + 1];
    int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);
    int warps = (int)(blockDim.x / 32);
    int64_t tiles = tiles_of(&a);
    for (int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
        struct chunk_tile tile = tile_at(&a, i);
        const struct chunk_place *place = &tile.place;
        bool has_d = a.d_y.data != NULL;
        __syncthreads();
        for (int r = warp; r < TILE; r += warps) {
            int64_t token = tile.token + r, channel = tile.channel + lane;
            x[r][lane] = load_token(&a, place, a.x, token, channel);
            if (has_d) d[r][lane] = load_token(&a, place, a.d_y, token, channel);
        }
        __syncthreads();
        int64_t token = tile.token + lane;
        if (token >= a.length) continue;
        float step = step_of(&a, place, token), exponent = place->exponents[token];
        float left = expf(place->end - exponent), past = expf(exponent);
        for (int r = warp; r < TILE && tile.channel + r < a.width; r += warps) {
            int64_t at = (place->at * a.width + tile.channel + r) * a.length + token;
            float input = step * x[lane][r];
            store(a.room[CHUNK_X], at, input);
            store(a.room[CHUNK_X_LEFT], at, left * input);
            if (has_d) {
                store(a.room[CHUNK_D], at, d[lane][r]);
                store(a.room[CHUNK_D_PAST], at, past * d[lane][r]);
            }
        }
    }
}

void kernel_chunk_heads(struct CUstream_st *stream, const struct chunk_args *args)
{
    LAUNCH(chunk_heads, *args, blocks_for(tiles_of(args), 1), THREADS, stream);
}

// Eight keys of a query at a time, of which those behind it have 0; lengths are multiples of 16.
KERNEL(chunk_matrix, struct chunk_args, a)
{
    int64_t keys = a.length / CHUNK, count = a.part_heads * a.chunks * a.length * keys;
    for (int64_t i = INDEX; i < count; i += INDICES) {
        struct split query = split_of(i, keys), of = split_of(query.line, a.length);
        struct chunk_place place = place_of(&a, of.line);
        int64_t group = split_of(of.line, a.share).line, key = query.column * CHUNK;
        float v[CHUNK] = {0}, from[CHUNK];
        float exponent = place.exponents[of.column];
        if (key <= of.column) {
            int64_t at = (group * a.length + of.column) * a.length + key;
            load_chunk(a.room[CHUNK_SCORES], at, CHUNK, from);
            UNROLL
            for (int j = 0; j < CHUNK; j++) {
                bool is_seen = key + j <= of.column;
                v[j] = is_seen ? from[j] * expf(exponent - place.exponents[key + j]) : 0;
            }
        }
        store_chunk(a.room[CHUNK_MATRIX], i * CHUNK, CHUNK, v);
    }
}

void kernel_chunk_matrix(struct CUstream_st *stream, const struct chunk_args *args)
{
    int64_t count = args->part_heads * args->chunks * args->length * (args->length / CHUNK);
    LAUNCH(chunk_matrix, *args, blocks_for(count, THREADS), THREADS, stream);
}

// A number of the state of one head of a sequence, from chunk to chunk: its place among the rooms
// of heads in the sequence's first chunk, and what is from there to the next.
struct passage {
    int64_t at, next, each, begin;
};
DEVICE struct passage passage_of(const struct chunk_args *a, int64_t i)
{
    int64_t numbers = a->width * a->state, each = a->chunks / a->batch;
    struct split number = split_of(i, numbers), head = split_of(number.line, a->share);
    struct split sequence = split_of(head.line, a->batch);
    int64_t first = (sequence.line * a->chunks + sequence.column * each) * a->share + head.column;
    struct passage of = {first * numbers + number.column, a->share * numbers, each, first};
    return of;
}
static inline HOST_AND_DEVICE int64_t passages(const struct chunk_args *a)
{
    return a->batch * a->part_heads * a->width * a->state;
}

KERNEL(chunk_pass, struct chunk_args, a)
{
    for (int64_t i = INDEX; i < passages(&a); i += INDICES) {
        struct passage of = passage_of(&a, i);
        float state = 0;
        for (int64_t c = 0; c < of.each; c++) {
            struct chunk_place place = place_of(&a, of.begin + c * a.share);
            int64_t at = of.at + c * of.next;
            store(a.room[CHUNK_BEFORE], at, state);
            state = expf(place.end) * state + load(a.room[CHUNK_STATE], at);
        }
    }
}

void kernel_chunk_pass(struct CUstream_st *stream, const struct chunk_args *args)
{
    LAUNCH(chunk_pass, *args, blocks_for(passages(args), THREADS), THREADS, stream);
}

// The gradient of the state behind each chunk, from the last to the first.
KERNEL(chunk_pass_back, struct chunk_args, a)
{
    for (int64_t i = INDEX; i < passages(&a); i += INDICES) {
        struct passage of = passage_of(&a, i);
        float gradient = 0;
        for (int64_t c = of.each - 1; c >= 0; c--) {
            struct chunk_place place = place_of(&a, of.begin + c * a.share);
            int64_t at = of.at + c * of.next;
            store(a.room[CHUNK_D_STATE], at, gradient);
            gradient = expf(place.end) * gradient + load(a.room[CHUNK_STATE], at);
        }
    }
}

void kernel_chunk_pass_back(struct CUstream_st *stream, const struct chunk_args *args)
{
    LAUNCH(chunk_pass_back, *args, blocks_for(passages(args), THREADS), THREADS, stream);
}

BLOCK_KERNEL(chunk_out, struct chunk_args, a)
{
    __shared__ float y[TILE][TILE + 1];
    int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);
    int warps = (int)(blockDim.x / 32);
    for (int64_t i = blockIdx.x; i < tiles_of(&a); i += gridDim.x) {
        struct chunk_tile tile = tile_at(&a, i);
        const struct chunk_place *place = &tile.place;
        int64_t token = tile.token + lane, channel = tile.channel + lane;
        float past = token < a.length ? expf(place->exponents[token]) : 0;
        float skip = a.d.data ? load(a.d, place->head) : 0;
        __syncthreads();
        for (int r = warp; r < TILE && tile.channel + r < a.width && token < a.length; r += warps) {
            int64_t at = (place->at * a.width + tile.channel + r) * a.length + token;
            y[r][lane] = load(a.room[CHUNK_OWN], at) + past * load(a.room[CHUNK_PAST], at);
        }
        __syncthreads();
        for (int r = warp; r < TILE && tile.token + r < place->count; r += warps) {
            if (channel >= a.width) continue;
            int64_t at = row_of(&a, place, tile.token + r) * a.width + channel;
            store(a.y, at, a.d.data ? y[lane][r] + skip * load(a.x, at) : y[lane][r]);
        }
    }
}

void kernel_chunk_out(struct CUstream_st *stream, const struct chunk_args *args)
{
    LAUNCH(chunk_out, *args, blocks_for(tiles_of(args), 1), THREADS, stream);
}

// The gradient of the scores, a sum over the heads of a group, and of each head what the query's
// exponent has of it: a warp has a query. Products are of the matrix as it was rounded, so that
// what a query and its keys say of one exponent is taken from each other exactly.
BLOCK_KERNEL(chunk_scores_back, struct chunk_args, a)
{
    enum { LANE_TOKENS = CHUNK_LENGTH_MAX / 32 };
    int64_t rows = a.part_heads / a.share * a.chunks * a.length, warps = blockDim.x / 32;
    int64_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int64_t begin = blockIdx.x * warps; begin < rows; begin += gridDim.x * warps) {
        int64_t row = begin + warp < rows ? begin + warp : rows - 1;
        struct split of = split_of(row, a.length);
        int64_t query = of.column;
        float scores[LANE_TOKENS], sums[LANE_TOKENS];
        bool says = a.d_dt.data != NULL;
        UNROLL
        for (int j = 0; j < LANE_TOKENS; j++) {
            int64_t key = lane + 32 * j;
            sums[j] = 0;
            bool is_read = says && key <= query;
            scores[j] = is_read ? load(a.room[CHUNK_SCORES], row * a.length + key) : 0;
        }
        for (int64_t head = 0; head < a.share; head++) {
            struct chunk_place place = place_of(&a, of.line * a.share + head);
            int64_t at = (place.at * a.length + query) * a.length;
            float exponent = place.exponents[query], said = 0;
            UNROLL
            for (int j = 0; j < LANE_TOKENS; j++) {
                int64_t key = lane + 32 * j;
                if (key > query) continue;
                float left = expf(exponent - place.exponents[key]);
                float d = load(a.room[CHUNK_D_MATRIX], at + key);
                sums[j] += left * d;
                said += rounded(a.room[CHUNK_MATRIX].number, scores[j] * left) * d;
            }
            if (!says) continue;
            said = warp_sum(said);
            if (lane == 0 && begin + warp < rows)
                a.d_exponents[(place.chunk * a.heads + place.head) * a.length + query] = said;
        }
        UNROLL
        for (int j = 0; j < LANE_TOKENS; j++) {
            int64_t key = lane + 32 * j;
            if (key < a.length && begin + warp < rows)
                store(a.room[CHUNK_D_SCORES], row * a.length + key, sums[j]);
        }
    }
}

void kernel_chunk_scores_back(struct CUstream_st *stream, const struct chunk_args *args)
{
    int64_t rows = args->part_heads / args->share * args->chunks * args->length;
    LAUNCH(chunk_scores_back, *args, blocks_for(rows, THREADS / 32), THREADS, stream);
}

// Of one token of a chunk and head, sums over channels.
struct token_sums {
    float step, own, left, past, skip;
};

// What the numbers of one channel at a token come to, with x and d_y; returns d_x.
DEVICE float channel_back(const struct chunk_args *a, int64_t at, float left, float x, float d,
                          struct token_sums *sums)
{
    float own = load(a->room[CHUNK_OWN], at), kept = load(a->room[CHUNK_D_INPUT], at);
    float input = own + left * kept;
    if (!a->d_dt.data) return input;
    sums->step += x * input;
    sums->own += load(a->room[CHUNK_X], at) * own;
    sums->left += x * kept;
    sums->past += d * load(a->room[CHUNK_PAST], at);
    sums->skip += d * x;
    return input;
}

DEVICE void add_token_sums(struct token_sums *sums, const struct token_sums *part)
{
    sums->step += part->step;
    sums->own += part->own;
    sums->left += part->left;
    sums->past += part->past;
    sums->skip += part->skip;
}

// What the state in front of the chunk says of the chunk's last exponent, by thread.
DEVICE float end_back(const struct chunk_args *a, const struct chunk_place *place)
{
    int64_t numbers = a->width * a->state, first = place->at * numbers;
    float sum = 0;
    for (int64_t e = threadIdx.x; e < numbers; e += blockDim.x)
        sum += load(a->room[CHUNK_BEFORE], first + e) * load(a->room[CHUNK_D_STATE], first + e);
    return expf(place->end) * sum;
}

// Gradients of x, and what tokens and the chunk's end say of exponents and steps: a block has a
// chunk of a head.
BLOCK_KERNEL(chunk_heads_back, struct chunk_args, a)
{
    __shared__ float x[TILE][TILE + 1], d[TILE][TILE + 1];
    __shared__ struct token_sums parts[THREADS / 32][TILE];
    int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);
    int warps = (int)(blockDim.x / 32);
    for (int64_t i = blockIdx.x; i < a.part_heads * a.chunks; i += gridDim.x) {
        struct chunk_place place = place_of(&a, i);
        int64_t of_head = place.chunk * a.heads + place.head;
        bool says = a.d_dt.data != NULL;
        float skip = says ? load(a.d, place.head) : 0, at_end = 0, of_skip = 0;
        ROLLED
        for (int64_t token = 0; token < place.count; token += TILE) {
            int64_t t = token + lane;
            float step = step_of(&a, &place, t), exponent = t < a.length ? place.exponents[t] : 0;
            float left = expf(place.end - exponent);
            struct token_sums sums = {0, 0, 0, 0, 0};
            ROLLED
            for (int64_t channel = 0; channel < a.width; channel += TILE) {
                __syncthreads();
                for (int r = warp; r < TILE && says; r += warps) {
                    x[r][lane] = load_token(&a, &place, a.x, token + r, channel + lane);
                    d[r][lane] = load_token(&a, &place, a.d_y, token + r, channel + lane);
                }
                __syncthreads();
                for (int r = warp; r < TILE && channel + r < a.width && t < place.count;
                     r += warps) {
                    int64_t at = (place.at * a.width + channel + r) * a.length + t;
                    float in = says ? x[lane][r] : 0, out = says ? d[lane][r] : 0;
                    x[lane][r] = step * channel_back(&a, at, left, in, out, &sums) + skip * out;
                }
                __syncthreads();
                for (int r = warp; r < TILE && token + r < place.count; r += warps) {
                    int64_t at = row_of(&a, &place, token + r) * a.width + channel + lane;
                    if (channel + lane < a.width) store(a.d_x, at, x[r][lane]);
                }
            }
            if (!says) continue;
            parts[warp][lane] = sums;
            __syncthreads();
            if (warp > 0 || t >= place.count) continue;
            for (int w = 1; w < warps; w++)
                add_token_sums(&sums, &parts[w][lane]);
            float kept = step * left * sums.left;
            a.d_dts[of_head * a.length + t] = sums.step;
            a.d_exponents[of_head * a.length + t] += expf(exponent) * sums.past - sums.own - kept;
            at_end += kept;
            of_skip += sums.skip;
        }
        if (!says) continue;
        at_end += end_back(&a, &place);
        block_sums(&at_end, &of_skip);
        if (threadIdx.x == 0) {
            a.d_ends[of_head] = at_end;
            a.of_heads[2 * of_head + 1] = of_skip;
        }
    }
}

void kernel_chunk_heads_back(struct CUstream_st *stream, const struct chunk_args *args)
{
    LAUNCH(chunk_heads_back, *args, blocks_for(args->part_heads * args->chunks, 1), THREADS,
           stream);
}

// An exponent is that of its own token and all before it in the chunk.
KERNEL(chunk_steps_back, struct chunk_args, a)
{
    int64_t each = a.chunks / a.batch;
    for (int64_t i = INDEX; i < a.chunks * a.heads; i += INDICES) {
        int64_t head = i % a.heads, chunk = i / a.heads, begin = chunk % each * a.length;
        int64_t first = chunk / each * a.seq + begin, left = a.seq - begin;
        float rate = -expf(load(a.a_log, head)), sum = a.d_ends[i], d_a_log = 0;
        for (int64_t t = (left < a.length ? left : a.length) - 1; t >= 0; t--) {
            int64_t step = (first + t) * a.heads + head;
            sum += a.d_exponents[i * a.length + t];
            store(a.d_dt, step, a.d_dts[i * a.length + t] + rate * sum);
            d_a_log += rate * sum * load(a.dt, step);
        }
        a.of_heads[2 * i] = d_a_log;
    }
}

KERNEL(chunk_store, struct chunk_args, a)
{
    int64_t count = a.batch * a.seq * a.groups * a.state, each = a.chunks / a.batch;
    int64_t heads = a.d_a_log.data ? a.heads : 0;
    for (int64_t i = INDEX; i < count + heads; i += INDICES) {
        if (i < count) {
            struct split row = split_of(i, a.state), token = split_of(row.line, a.groups);
            struct split sequence = split_of(token.line, a.seq);
            struct split chunk = split_of(sequence.column, a.length);
            int64_t of = token.column * a.chunks + sequence.line * each + chunk.line;
            int64_t from = (of * a.length + chunk.column) * a.state + row.column;
            store_sum(a.d_b, i, a.adds_b, load(a.room[CHUNK_D_B], from));
            store_sum(a.d_c, i, a.adds_c, load(a.room[CHUNK_D_C], from));
            continue;
        }
        int64_t head = i - count;
        float d_a_log = 0, d_d = 0;
        for (int64_t chunk = 0; chunk < a.chunks; chunk++) {
            d_a_log += a.of_heads[2 * (chunk * a.heads + head)];
            d_d += a.of_heads[2 * (chunk * a.heads + head) + 1];
        }
        store_sum(a.d_a_log, head, a.adds_a_log, d_a_log);
        store_sum(a.d_d, head, a.adds_d, d_d);
    }
}

void kernel_chunk_sums(struct CUstream_st *stream, const struct chunk_args *args)
{
    int64_t count = args->batch * args->seq * args->groups * args->state + args->heads;
    if (args->d_dt.data)
        LAUNCH(chunk_steps_back, *args, blocks_for(args->chunks * args->heads, THREADS), THREADS,
               stream);
    LAUNCH(chunk_store, *args, blocks_for(count, THREADS), THREADS, stream);
}
