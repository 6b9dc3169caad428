#include "models/onnx/chains.h"

#include "models/onnx/chains_find.h"
#include "models/onnx/operators.h"

#include <math.h>
#include <string.h>

// Constants are written with few digits, or in 16 bits, of which bf16 has 8 digits of two.
static const double SLACK = 1e-3, SLACK_BF16 = 0x1p-8;

bool chain_is_number(const struct chain_model *c, int value, double number)
{
    const struct onnx_value *of = &c->model->values[value];
    bool is_one = of->numbers && of->elements == 1;
    double slack = of->element == ELEMENT_BFLOAT16 ? SLACK_BF16 : SLACK;
    return is_one && fabs(of->numbers[0] - number) <= slack * fabs(number);
}

bool chain_is_factor(const struct chain_model *c, int value)
{
    const struct onnx_value *of = &c->model->values[value];
    return of->is_constant && of->elements == 1;
}

static bool casts(const struct chain_model *c, const struct onnx_call *call)
{
    bool is_it = strcmp(call->type, "Cast") == 0 || strcmp(call->type, "CastLike") == 0;
    return is_it && !call->is_folded &&
           element_is_float(c->model->values[call->inputs[0]].element) &&
           element_is_float(c->model->values[call->outputs[0]].element);
}

int chain_origin(const struct chain_model *c, int value)
{
    while (value >= 0 && c->maker[value] >= 0) {
        const struct onnx_call *call = &c->model->calls[c->maker[value]];
        if (!casts(c, call)) break;
        value = call->inputs[0];
    }
    return value;
}

const struct onnx_call *chain_maker(const struct chain_model *c, int value, const char *type,
                                    int input_count)
{
    value = chain_origin(c, value);
    int maker = value < 0 ? -1 : c->maker[value];
    const struct onnx_call *call = maker < 0 ? NULL : &c->model->calls[maker];
    bool is_it = call && strcmp(call->type, type) == 0 && !call->is_folded;
    return is_it && call->input_count == input_count ? call : NULL;
}

int chain_beside(const struct chain_model *c, int value, const char *type, double number)
{
    const struct onnx_call *call = chain_maker(c, value, type, 2);
    if (!call) return -1;
    if (chain_is_number(c, call->inputs[1], number)) return chain_origin(c, call->inputs[0]);
    bool turns = strcmp(type, "Div") != 0;
    return turns && chain_is_number(c, call->inputs[0], number) ? chain_origin(c, call->inputs[1])
                                                                : -1;
}

// Takes a call from the readers of its inputs, and those from theirs that nothing reads any more.
static void leave(const struct chain_model *c, const struct onnx_call *call)
{
    struct arena_mark mark = arena_mark(c->model->arena);
    const struct onnx_call **gone = NULL;
    int count = 0, room = 0;
    ARENA_GROW(c->model->arena, gone, count, room);
    gone[count++] = call;
    while (count) {
        const struct onnx_call *at = gone[--count];
        for (int i = 0; i < at->input_count; i++) {
            int value = at->inputs[i], maker = value < 0 ? -1 : c->maker[value];
            if (!call_reads(at, i) || --c->reader_count[value] > 0 || maker < 0) continue;
            const struct onnx_call *made = &c->model->calls[maker];
            if (made->is_folded || made->output_count != 1) continue;
            ARENA_GROW(c->model->arena, gone, count, room);
            gone[count++] = made;
        }
    }
    arena_reset(c->model->arena, mark);
}

void chain_become(const struct chain_model *c, struct onnx_call *call, const char *type,
                  const int *inputs, int input_count)
{
    int *own = ARENA_COPY(c->model->arena, int, inputs, input_count);
    for (int i = 0; i < input_count; i++)
        c->reader_count[own[i]]++;
    leave(c, call);
    call->inputs = own;
    call->input_count = input_count;
    call->type = type;
    call->row = operator_find("", type);
    call->flop = 0;
}

// One attribute more, behind the first `kept` of those that are there.
static Onnx__AttributeProto *say(const struct chain_model *c, struct onnx_call *call,
                                 const char *name, size_t kept)
{
    struct arena *arena = c->model->arena;
    Onnx__NodeProto *proto = ARENA_NEW(arena, Onnx__NodeProto, 1);
    Onnx__AttributeProto *said = ARENA_NEW(arena, Onnx__AttributeProto, 1);
    *proto = *call->proto;
    onnx__attribute_proto__init(said);
    said->name = arena_copy(arena, name);
    proto->attribute = ARENA_NEW(arena, Onnx__AttributeProto *, kept + 1);
    for (size_t i = 0; i < kept; i++)
        proto->attribute[i] = call->proto->attribute[i];
    proto->attribute[kept] = said;
    proto->n_attribute = kept + 1;
    call->proto = proto;
    return said;
}

void chain_say(const struct chain_model *c, struct onnx_call *call, const char *name, double number)
{
    Onnx__AttributeProto *said = say(c, call, name, 0);
    said->has_f = 1;
    said->f = (float)number;
}

void chain_say_int(const struct chain_model *c, struct onnx_call *call, const char *name,
                   int64_t number)
{
    Onnx__AttributeProto *said = say(c, call, name, call->proto->n_attribute);
    said->has_i = 1;
    said->i = number;
}

// A function that a chain became gives its result in the type that only a cast of it has.
static bool join_cast(const struct chain_model *c, struct onnx_call *call)
{
    if (!casts(c, call)) return false;
    int made = call->inputs[0], maker = c->maker[made];
    const struct onnx_call *of = maker < 0 ? NULL : &c->model->calls[maker];
    bool is_joined = of && !of->is_folded && of->proto->op_type &&
                     strcmp(of->type, of->proto->op_type) != 0 && of->output_count == 1;
    if (!is_joined || c->reader_count[made] != 1) return false;
    const struct onnx_call kept = *of;
    chain_become(c, call, kept.type, kept.inputs, kept.input_count);
    call->proto = kept.proto;
    call->flop = kept.flop;
    call->mode = kept.mode;
    memcpy(call->windows, kept.windows, sizeof kept.windows);
    return true;
}

// Masks and scales are constants, too, but what trains is larger than one number.
static bool trains(const struct onnx_model *model, const struct chain_model *c, int value)
{
    const struct onnx_value *of = &model->values[value];
    return c->is_trained[value] || (of->is_constant && of->is_learned && of->elements > 1);
}

static void count_readers(struct chain_model *c)
{
    const struct onnx_model *model = c->model;
    for (int v = 0; v < model->value_count; v++) {
        c->maker[v] = -1;
        c->reader_count[v] = model->values[v].is_output;
    }
    for (int i = 0; i < model->call_count; i++) {
        const struct onnx_call *call = &model->calls[i];
        bool is_trained = false;
        for (int j = 0; j < call->input_count && !call->is_folded; j++) {
            if (!call_reads(call, j)) continue;
            c->reader_count[call->inputs[j]]++;
            is_trained = is_trained || (operator_differentiates(call->row, j) &&
                                        trains(model, c, call->inputs[j]));
        }
        for (int o = 0; o < call->output_count; o++) {
            if (call->outputs[o] < 0) continue;
            c->maker[call->outputs[o]] = i;
            c->is_trained[call->outputs[o]] = is_trained;
        }
    }
}

void chains_join(struct onnx_model *model)
{
    struct chain_model c = {
        .model = model,
        .maker = ARENA_NEW(model->arena, int, model->value_count),
        .reader_count = ARENA_NEW(model->arena, int, model->value_count),
        .is_trained = ARENA_NEW(model->arena, bool, model->value_count),
    };
    count_readers(&c);
    // In the order of the edges: what ends inside another chain is joined before it.
    for (int i = 0; i < model->call_count; i++) {
        struct onnx_call *call = &model->calls[i];
        if (call->is_folded || call->outputs[0] < 0) continue;
        (void)(chain_join_softmax(&c, call) || chain_join_sigmoid(&c, call) ||
               chain_join_gelu(&c, call) || chain_join_product(&c, call) ||
               chain_join_drop(&c, call) || chain_join_bias(&c, call) ||
               chain_join_norm(&c, call) || chain_join_groups(&c, call) ||
               chain_join_group_norm(&c, call) || chain_join_attention(&c, call) ||
               join_cast(&c, call));
    }
}
