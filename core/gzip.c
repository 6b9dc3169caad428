#include "core/gzip.h"

#include <assert.h>
#include <limits.h>
#define ZLIB_CONST  // what is packed is only read
#include <zlib.h>

enum { PACKED_BYTES = 1 << 16 };

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

struct gzip_writer *gzip_open(struct arena *arena, struct file_writer *file)
{
    enum { WINDOW_BITS = 15, AS_GZIP = 16, MEMORY_LEVEL = 8 };
    struct gzip_writer *writer = ARENA_NEW(arena, struct gzip_writer, 1);
    writer->file = file;
    writer->stream.zalloc = take;
    writer->stream.zfree = leave;
    writer->stream.opaque = arena;
    int code = deflateInit2(&writer->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                            WINDOW_BITS + AS_GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY);
    assert(code == Z_OK && "zlib is as its header says");
    (void)code;
    return writer;
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
