#pragma once
#include <stdint.h>

// The header of our files of tokens (executor/data/tokens.h), for who reads and who writes them.

#define TOKENS_MAGIC "MWTOKENS"

struct tokens_header {
    char magic[8];
    uint32_t version, id_bytes;
    uint64_t count, vocab, document_count, checksum;
    uint64_t reserved[2];
};

static inline int64_t tokens_padded_bytes(int64_t bytes)
{
    return (bytes + 7) / 8 * 8;
}
