#pragma once
#include "core/file.h"

// Text on its way into a file that is packed by gzip. Equal texts give equal bytes: no time and no
// name is written. Failures are the file's: they stick and its commit reports them.
struct gzip_writer;

// A text in memory, packed.
unsigned char *gzip_pack(struct arena *arena, const char *text, size_t bytes, size_t *packed_bytes);

// Whether a file begins as one that gzip packed.
bool gzip_is_packed(const char *bytes, size_t count);
// The text of a packed file, with a NUL behind it. NULL with ERR_INPUT where it is damaged or
// unpacks to more than `limit_bytes`; `path` is for the error.
MUST_CHECK char *gzip_unpack(struct arena *arena, const char *path, const char *packed,
                             size_t packed_bytes, size_t limit_bytes, size_t *bytes,
                             struct err *err);

// The same of what deflate made with nothing around it, as in a zip.
MUST_CHECK char *gzip_unpack_bare(struct arena *arena, const char *path, const char *packed,
                                  size_t packed_bytes, size_t limit_bytes, size_t *bytes,
                                  struct err *err);

// Lives in `arena`, as does the memory that packing needs; `file` is open and outlives it.
struct gzip_writer *gzip_open(struct arena *arena, struct file_writer *file);
void gzip_put(struct gzip_writer *writer, const char *text, size_t bytes);
// Writes what is still held back. Nothing may be put behind it.
void gzip_end(struct gzip_writer *writer);
