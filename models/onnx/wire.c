#include "models/onnx/wire.h"

#include <assert.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_64_BIT = 1, WIRE_LENGTH = 2, WIRE_32_BIT = 5 };

// A length is written as this many bytes because it is known only when its message has been
// written: a varint may carry leading zeros, and five bytes hold 35 bits.
enum { LENGTH_BYTES = 5 };

struct output {
    struct arena *arena;
    uint8_t *bytes;
    size_t count, capacity;
};

static void put(struct output *output, const uint8_t *bytes, size_t count)
{
    output->bytes = (uint8_t *)arena_text_room(output->arena, (char *)output->bytes, output->count,
                                               count, &output->capacity);
    if (count) memcpy(output->bytes + output->count, bytes, count);
    output->count += count;
}

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

// Moves past the payload of a field; `start` is set to where the payload itself begins.
static bool skip_payload(const uint8_t **at, const uint8_t *end, uint64_t wire,
                         const uint8_t **start)
{
    uint64_t count = wire == WIRE_64_BIT ? 8 : 4;
    *start = *at;
    if (wire == WIRE_VARINT) return read_varint(at, end, &count);
    if (wire == WIRE_LENGTH) {
        if (!read_varint(at, end, &count)) return false;
        *start = *at;
    } else if (wire != WIRE_64_BIT && wire != WIRE_32_BIT) {
        return false;
    }
    if (count > (uint64_t)(end - *at)) return false;
    *at += count;
    return true;
}

// Text is always needed; lists of numbers and raw data only where they are short.
static bool is_wanted(const ProtobufCFieldDescriptor *field, uint64_t wire, size_t payload_bytes)
{
    if (!field) return false;
    if (wire != WIRE_LENGTH || field->type == PROTOBUF_C_TYPE_STRING) return true;
    return payload_bytes <= WIRE_DATA_BYTES;
}

// Depth is bounded: no message of the subset contains itself.
static bool copy_wanted(struct output *output, const uint8_t *at, const uint8_t *end,
                        const ProtobufCMessageDescriptor *message)  // NOLINT(misc-no-recursion)
{
    while (at < end) {
        const uint8_t *tag = at, *start = NULL;
        uint64_t key = 0;
        if (!read_varint(&at, end, &key) || key >> 3 == 0 || key >> 3 > 0x1fffffff) return false;
        const uint8_t *payload = at;
        if (!skip_payload(&at, end, key & 7, &start)) return false;
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field(message, (unsigned)(key >> 3));
        if (field && field->type == PROTOBUF_C_TYPE_MESSAGE) {
            if ((key & 7) != WIRE_LENGTH) return false;
            put(output, tag, (size_t)(payload - tag));
            size_t length_at = output->count;
            put(output, (const uint8_t[LENGTH_BYTES]){0}, LENGTH_BYTES);
            if (!copy_wanted(output, start, at, field->descriptor)) return false;
            // What is dropped makes messages shorter, so the length that stood there no longer
            // holds.
            uint64_t length = output->count - length_at - LENGTH_BYTES;
            assert(length >> 7 * LENGTH_BYTES == 0);
            for (int i = 0; i < LENGTH_BYTES; i++) {
                unsigned more = i < LENGTH_BYTES - 1 ? 0x80 : 0;
                output->bytes[length_at + (size_t)i] = (uint8_t)((length >> 7 * i & 0x7f) | more);
            }
        } else if (is_wanted(field, key & 7, (size_t)(at - start))) {
            put(output, tag, (size_t)(at - tag));
        }
    }
    return true;
}

static void *allocate(void *arena, size_t bytes)
{
    return arena_alloc(arena, 1, bytes);
}

// What the arena handed out goes with the arena.
static void give_back(void *arena, void *memory)
{
    (void)arena;
    (void)memory;
}

const Onnx__ModelProto *wire_decode(struct arena *arena, const uint8_t *bytes, size_t byte_count)
{
    struct output output = {.arena = arena};
    if (!copy_wanted(&output, bytes, bytes + byte_count, &onnx__model_proto__descriptor)) {
        return NULL;
    }
    ProtobufCAllocator allocator = {.alloc = allocate, .free = give_back, .allocator_data = arena};
    return onnx__model_proto__unpack(&allocator, output.count, output.bytes);
}
