#include "core/gzip.h"

#include <assert.h>
#include <limits.h>
#include <string.h>
#define ZLIB_CONST  // what is packed is only read
#include <zlib.h>

enum { PACKED_BYTES = 1 << 16, WINDOW_BITS = 15, AS_GZIP = 16 };

struct gzip_writer {
    struct file_writer *file;
    z_stream stream;
    unsigned char packed[PACKED_BYTES];
};

// Of the arena, which frees it all at its end: running out aborts as it does everywhere.
static void *take(void *arena, unsigned count, unsigned bytes)
{
    return arena_alloc(arena, count, bytes);
}

static void leave(void *arena, void *memory)
{
    (void)arena;
    (void)memory;
}

static void begin(struct arena *arena, z_stream *stream)
{
    enum { MEMORY_LEVEL = 8 };
    stream->zalloc = take;
    stream->zfree = leave;
    stream->opaque = arena;
    int code = deflateInit2(stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW_BITS + AS_GZIP,
                            MEMORY_LEVEL, Z_DEFAULT_STRATEGY);
    assert(code == Z_OK && "zlib is as its header says");
    (void)code;
}

struct gzip_writer *gzip_open(struct arena *arena, struct file_writer *file)
{
    struct gzip_writer *writer = ARENA_NEW(arena, struct gzip_writer, 1);
    writer->file = file;
    begin(arena, &writer->stream);
    return writer;
}

unsigned char *gzip_pack(struct arena *arena, const char *text, size_t bytes, size_t *packed_bytes)
{
    z_stream stream = {0};
    assert(bytes <= UINT_MAX);
    begin(arena, &stream);
    unsigned long most = deflateBound(&stream, bytes);
    unsigned char *packed = ARENA_NEW(arena, unsigned char, most);
    stream.next_in = (const unsigned char *)text;
    stream.avail_in = (unsigned)bytes;
    stream.next_out = packed;
    stream.avail_out = (unsigned)most;
    int code = deflate(&stream, Z_FINISH);
    assert(code == Z_STREAM_END && "the bound holds all of it");
    (void)code;
    *packed_bytes = stream.total_out;
    deflateEnd(&stream);
    return packed;
}

bool gzip_is_packed(const char *bytes, size_t count)
{
    return count > 2 && memcmp(bytes, "\x1f\x8b", 2) == 0;
}

// `window_bits` say which frame is around what deflate made, as zlib's inflateInit2 has them.
static char *unpack(struct arena *arena, const char *path, int window_bits, const char *packed,
                    size_t packed_bytes, size_t limit_bytes, size_t *bytes, struct err *err)
{
    enum { FIRST_RATIO = 8, FIRST_BYTES = 1 << 12 };
    z_stream stream = {.zalloc = take, .zfree = leave, .opaque = arena};
    assert(packed_bytes <= UINT_MAX && limit_bytes < UINT_MAX);
    int code = inflateInit2(&stream, window_bits);
    assert(code == Z_OK && "zlib is as its header says");
    stream.next_in = (const unsigned char *)packed;
    stream.avail_in = (unsigned)packed_bytes;
    size_t room = FIRST_RATIO * packed_bytes + FIRST_BYTES;
    char *text = NULL;
    while (code == Z_OK && stream.total_out <= limit_bytes) {
        room = 2 * room < limit_bytes ? 2 * room : limit_bytes + 1;
        char *more = ARENA_NEW(arena, char, room + 1);
        if (text) memcpy(more, text, stream.total_out);
        text = more;
        stream.next_out = (unsigned char *)text + stream.total_out;
        stream.avail_out = (unsigned)(room - stream.total_out);
        code = inflate(&stream, Z_FINISH);
        if (code == Z_BUF_ERROR && stream.avail_out == 0) code = Z_OK;
    }
    *bytes = stream.total_out;
    inflateEnd(&stream);
    if (code == Z_STREAM_END && *bytes <= limit_bytes) return text[*bytes] = '\0', text;
    err_set(err, ERR_INPUT, "%s: %s", path,
            code == Z_OK ? "unpacks to more than is taken" : "is damaged: it cannot be unpacked");
    return NULL;
}

char *gzip_unpack(struct arena *arena, const char *path, const char *packed, size_t packed_bytes,
                  size_t limit_bytes, size_t *bytes, struct err *err)
{
    return unpack(arena, path, WINDOW_BITS + AS_GZIP, packed, packed_bytes, limit_bytes, bytes,
                  err);
}

char *gzip_unpack_bare(struct arena *arena, const char *path, const char *packed,
                       size_t packed_bytes, size_t limit_bytes, size_t *bytes, struct err *err)
{
    return unpack(arena, path, -WINDOW_BITS, packed, packed_bytes, limit_bytes, bytes, err);
}

static void push(struct gzip_writer *writer, int flush)
{
    z_stream *stream = &writer->stream;
    do {
        stream->next_out = writer->packed;
        stream->avail_out = PACKED_BYTES;
        int code = deflate(stream, flush);
        assert(code != Z_STREAM_ERROR);
        (void)code;
        size_t bytes = PACKED_BYTES - stream->avail_out;
        if (bytes > 0) file_put(writer->file, (const char *)writer->packed, bytes);
    } while (stream->avail_out == 0);
}

void gzip_put(struct gzip_writer *writer, const char *text, size_t bytes)
{
    assert(bytes <= UINT_MAX);
    writer->stream.next_in = (const unsigned char *)text;
    writer->stream.avail_in = (unsigned)bytes;
    push(writer, Z_NO_FLUSH);
}

void gzip_end(struct gzip_writer *writer)
{
    writer->stream.avail_in = 0;
    push(writer, Z_FINISH);
    deflateEnd(&writer->stream);
}
