#include "models/stablehlo/rules.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double SLACK = 1e-6;  // of a number written as a float

static bool is_clean(const struct hlo_op *op)
{
    return !op->reader->text.err->kind;
}

static double truth(bool answer)
{
    return answer ? 1 : 0;
}

// The number that a function of numbers is; false: it is none of those that we compute.
static bool evaluate(const char *type, const double *x, double *y)
{
    if (strcmp(type, "Add") == 0) return *y = x[0] + x[1], true;
    if (strcmp(type, "Sub") == 0) return *y = x[0] - x[1], true;
    if (strcmp(type, "Mul") == 0) return *y = x[0] * x[1], true;
    if (strcmp(type, "Div") == 0 && x[1] != 0) return *y = x[0] / x[1], true;
    if (strcmp(type, "Max") == 0) return *y = fmax(x[0], x[1]), true;
    if (strcmp(type, "Min") == 0) return *y = fmin(x[0], x[1]), true;
    if (strcmp(type, "Pow") == 0) return *y = pow(x[0], x[1]), true;
    if (strcmp(type, "Sqrt") == 0) return *y = sqrt(x[0]), true;
    if (strcmp(type, "Neg") == 0) return *y = -x[0], true;
    if (strcmp(type, "Exp") == 0) return *y = exp(x[0]), true;
    if (strcmp(type, "Log") == 0) return *y = log(x[0]), true;
    if (strcmp(type, "EQ") == 0) return *y = truth(x[0] == x[1]), true;
    if (strcmp(type, "NE") == 0) return *y = truth(x[0] != x[1]), true;
    if (strcmp(type, "LT") == 0) return *y = truth(x[0] < x[1]), true;
    if (strcmp(type, "LE") == 0) return *y = truth(x[0] <= x[1]), true;
    if (strcmp(type, "GT") == 0) return *y = truth(x[0] > x[1]), true;
    if (strcmp(type, "GE") == 0) return *y = truth(x[0] >= x[1]), true;
    return false;
}

// All elements of a constant are one number: the result is its view.
static bool answer_number(struct hlo_op *op, double number)
{
    enum onnx_element element = op->types[0].element;
    bool is_whole = !element_is_float(element) && element != ELEMENT_BOOL;
    int map[RANK_MOST];
    for (int i = 0; i < op->types[0].rank; i++)
        map[i] = -1;
    if (is_whole) number = trunc(number);
    return hlo_view(op, hlo_value_number(op->draft, element, number), map);
}

static bool is_of_result(const struct hlo_op *op, const struct hlo_value *value)
{
    const struct draft_value *out = &op->types[0];
    bool is_it = value->as.rank == out->rank;
    for (int i = 0; i < out->rank && is_it; i++)
        is_it = value->as.dims[i] == out->dims[i];
    return is_it;
}

static int64_t own_elements(const struct hlo_value *value)
{
    int64_t product = 1;
    for (int i = 0; i < value->tensor->as.rank; i++)
        product *= value->tensor->as.dims[i] ? value->tensor->as.dims[i] : 1;
    return product;
}

// Where each dimension of a view is repeated by the tensor.
static bool is_repeated(const struct hlo_value *value, int i)
{
    return value->map[i] < 0 || value->tensor->as.dims[value->map[i]] == 1;
}

// The order of dimensions in which an operator is written: that of its largest operand where that
// has all that any of them has, so that images stay as they lie, else that of the program.
static int find_order(const struct hlo_op *op, int count, int *order)
{
    assert(count > 0 && count <= op->operand_count);
    const struct hlo_value *leader = NULL;
    for (int k = 0; k < count; k++) {
        const struct hlo_value *x = op->operands[k];
        bool is_larger = !leader || own_elements(x) > own_elements(leader);
        if (is_larger && !hlo_is_single(x)) leader = x;
    }
    int rank = op->types[0].rank;
    for (int i = 0; i < rank; i++)
        order[i] = i;
    if (!leader) return 0;
    for (int i = 0; i < rank; i++)
        for (int k = 0; k < count; k++)
            if (leader->map[i] < 0 && !is_repeated(op->operands[k], i)) return rank;
    rank = leader->tensor->as.rank;
    for (int i = 0; i < rank; i++)
        order[i] = -1;
    for (int i = 0; i < op->types[0].rank; i++)
        if (leader->map[i] >= 0) order[leader->map[i]] = i;
    return rank;
}

static void join_dims(int64_t *dims, int *rank, const int64_t *more, int more_rank)
{
    assert(*rank >= 0 && *rank <= RANK_MOST && more_rank >= 0 && more_rank <= RANK_MOST);
    int widest = *rank > more_rank ? *rank : more_rank;
    int64_t joined[RANK_MOST];
    for (int i = 0; i < widest; i++) {
        int at = i - (widest - *rank), other = i - (widest - more_rank);
        joined[i] = at < 0 ? 1 : dims[at];
        if (other >= 0 && joined[i] == 1) joined[i] = more[other];
    }
    if (widest) memcpy(dims, joined, (size_t)widest * sizeof *dims);
    *rank = widest;
}

// The operator of ONNX over operands that repeat to the result's dimensions, and its result as a
// view: constants alone make one. NULL and an error.
static Onnx__NodeProto *put_each(struct hlo_op *op, const char *type, int count)
{
    assert(count > 0 && count <= 3 && count <= op->operand_count);
    int order[RANK_MOST] = {0}, rank = 0, map[RANK_MOST];
    int64_t *dims = ARENA_NEW(op->draft->arena, int64_t, RANK_MOST);
    const char *names[3] = {NULL};
    bool is_fixed = true;
    int asked = find_order(op, count, order);
    for (int k = 0; k < count; k++)
        is_fixed = is_fixed && hlo_is_fixed(op->operands[k]);
    for (int k = 0; k < count; k++) {
        int64_t own[RANK_MOST] = {0};
        int own_rank = 0;
        const struct hlo_value *x = op->operands[k];
        if (hlo_is_single(x)) {
            names[k] = is_fixed ? NULL : hlo_name(op->draft, x->tensor);
            continue;
        }
        names[k] = hlo_lay(op->draft, x, order, asked, HLO_LOOSE, own, &own_rank);
        join_dims(dims, &rank, own, own_rank);
    }
    for (int i = 0; i < op->types[0].rank; i++)
        map[i] = -1;
    for (int j = 0; j < rank; j++) {
        int i = order[j + asked - rank];
        if (i >= 0) map[i] = j;
    }
    struct draft_value as = {.name = is_fixed ? NULL : draft_between(op->draft),
                             .element = op->types[0].element,
                             .rank = rank,
                             .dims = dims,
                             .is_fixed = is_fixed};
    struct hlo_value *made = hlo_value_new(op->draft, &as);
    hlo_view(op, made, map);
    return is_fixed ? NULL : draft_put(op->draft, type, as.name, count, names);
}

// Of numbers the number, else the operator; what made it is kept for rules that ask.
static bool each(struct hlo_op *op, const char *type, int count, const char *evaluated)
{
    double numbers[3] = {0}, number = 0;
    bool is_known = true;
    for (int k = 0; k < count; k++) {
        const struct hlo_value *x = hlo_operand(op, k);
        if (!x) return false;
        bool is_choice = strcmp(type, "Where") == 0 && k == 0 && hlo_is_single(x);
        if (!is_of_result(op, x) && !is_choice)
            return hlo_fail(op, "operand %d is not of the size of the result", k);
        is_known = is_known && x->tensor->has_number;
        numbers[k] = x->tensor->number;
    }
    if (is_known && evaluate(evaluated ? evaluated : type, numbers, &number))
        return answer_number(op, number);
    put_each(op, type, count);
    struct hlo_made *made = ARENA_NEW(op->draft->arena, struct hlo_made, 1);
    *made = (struct hlo_made){.operator= op->name, .mode = evaluated};
    for (int k = 0; k < count; k++)
        made->operands[k] = op->operands[k];
    made->result = op->results[0];
    op->results[0]->tensor->made = made;
    return is_clean(op);
}

bool hlo_unary(struct hlo_op *op, const char *type)
{
    return each(op, type, 1, NULL);
}

bool hlo_binary(struct hlo_op *op, const char *type)
{
    return each(op, type, 2, NULL);
}

// A function of two, the second of them a number, of the operand alone.
static bool with_number(struct hlo_op *op, const char *type, double number, bool is_first)
{
    assert(op->result_count >= 1);
    const struct hlo_value *x = hlo_operand(op, 0);
    if (!x) return false;
    int map[RANK_MOST];
    for (int i = 0; i < x->as.rank; i++)
        map[i] = -1;
    struct hlo_value *one = hlo_value_number(op->draft, x->as.element, number);
    struct hlo_op inner = *op;
    const struct hlo_value *operands[2], *of = hlo_value_of(op->draft, one->tensor, &x->as, map);
    operands[is_first ? 0 : 1] = of;
    operands[is_first ? 1 : 0] = x;
    inner.operands = operands;
    inner.operand_count = 2;
    return each(&inner, type, 2, NULL);
}

// The operator over what the one before it made.
static bool then(struct hlo_op *op, const char *type)
{
    struct hlo_op inner = *op;
    const struct hlo_value *operands[] = {op->results[0]};
    inner.operands = operands;
    inner.operand_count = 1;
    return each(&inner, type, 1, NULL);
}

bool hlo_rsqrt(struct hlo_op *op, const char *type)
{
    (void)type;
    return hlo_unary(op, "Sqrt") && then(op, "Reciprocal");
}

// exp(x) - 1 and log(1 + x).
bool hlo_shifted(struct hlo_op *op, const char *type)
{
    if (strcmp(type, "Log") == 0) return with_number(op, "Add", 1, true) && then(op, "Log");
    if (!hlo_unary(op, "Exp")) return false;
    struct hlo_op inner = *op;
    inner.operands = (const struct hlo_value *[]){op->results[0]};
    return with_number(&inner, "Sub", 1, false);
}

// 1 - erf(x), which of -x y is 1 + erf(x y): so JAX writes GELU.
bool hlo_erfc(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_value *x = hlo_operand(op, 0);
    const struct hlo_made *product = x ? hlo_made_by(x, "multiply") : NULL;
    struct hlo_op inner = *op;
    bool is_turned = false;
    for (int i = 0; i < 2 && product && !is_turned; i++) {
        const struct hlo_made *negated = hlo_made_by(product->operands[i], "negate");
        if (!negated) continue;
        is_turned = true;
        inner.operands =
            (const struct hlo_value *[]){negated->operands[0], product->operands[1 - i]};
        inner.operand_count = 2;
        if (!each(&inner, "Mul", 2, NULL)) return false;
        inner.operands = (const struct hlo_value *[]){op->results[0]};
        inner.operand_count = 1;
        if (!each(&inner, "Erf", 1, NULL)) return false;
    }
    if (!is_turned && !hlo_unary(op, "Erf")) return false;
    inner.operands = (const struct hlo_value *[]){op->results[0]};
    return with_number(&inner, is_turned ? "Add" : "Sub", 1, true);
}

bool hlo_square(struct hlo_op *op, const char *type)
{
    (void)type;
    if (op->operand_count != 1) return hlo_fail(op, "it has %d operands", op->operand_count);
    struct hlo_op inner = *op;
    inner.operands = (const struct hlo_value *[]){op->operands[0], op->operands[0]};
    inner.operand_count = 2;
    return each(&inner, "Mul", 2, NULL);
}

bool hlo_convert(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_value *x = hlo_operand(op, 0);
    if (!x) return false;
    if (x->tensor->has_number) return answer_number(op, x->tensor->number);
    if (x->as.element == op->types[0].element) return hlo_answer(op, x);
    if (!is_of_result(op, x)) return hlo_fail(op, "its operand is not of the size of the result");
    Onnx__NodeProto *proto = put_each(op, "Cast", 1);
    if (proto) draft_put_int(op->draft, proto, "to", op->types[0].element);
    return is_clean(op);
}

// What is below all numbers leaves the maximum as it is, and above 0 it is Relu.
bool hlo_maximum(struct hlo_op *op, const char *type)
{
    const struct hlo_value *a = hlo_operand(op, 0), *b = hlo_operand(op, 1);
    if (!a || !b) return false;
    bool is_max = strcmp(type, "Max") == 0;
    for (int i = 0; i < 2; i++) {
        const struct hlo_value *bound = i ? b : a, *x = i ? a : b;
        if (x->tensor->has_number || !element_is_float(x->as.element)) continue;
        if (hlo_is_number(bound, is_max ? -HUGE_VAL : HUGE_VAL)) return hlo_answer(op, x);
        if (!is_max || !hlo_is_number(bound, 0)) continue;
        struct hlo_op inner = *op;
        inner.operands = (const struct hlo_value *[]){x};
        inner.operand_count = 1;
        return each(&inner, "Relu", 1, NULL);
    }
    return each(op, type, 2, NULL);
}

// A sum over as many elements as it is divided by is their mean.
bool hlo_divide(struct hlo_op *op, const char *type)
{
    const struct hlo_value *x = hlo_operand(op, 0), *y = hlo_operand(op, 1);
    if (!x || !y) return false;
    const struct hlo_tensor *sum = x->tensor;
    double count = (double)sum->reduced_count;
    bool is_sum = sum->mean || (sum->reduction && strcmp(sum->reduction, "ReduceSum") == 0);
    bool is_mean = is_sum && y->tensor->has_number && is_of_result(op, x) &&
                   fabs(y->tensor->number - count) <= SLACK * count;
    if (!is_mean) return each(op, type, 2, NULL);
    if (sum->mean) return hlo_view(op, hlo_value_of(op->draft, sum->mean, &x->as, x->map), x->map);
    struct hlo_tensor *mean = ARENA_NEW(op->draft->arena, struct hlo_tensor, 1);
    *mean = *sum;
    mean->as.name = NULL;
    mean->reduction = "ReduceMean";
    return hlo_view(op, hlo_value_of(op->draft, mean, &x->as, x->map), x->map);
}

bool hlo_compare(struct hlo_op *op, const char *type)
{
    (void)type;
    static const char *const TYPES[][2] = {{"EQ", "Equal"},   {"NE", "Equal"},
                                           {"LT", "Less"},    {"LE", "LessOrEqual"},
                                           {"GT", "Greater"}, {"GE", "GreaterOrEqual"}};
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        if (!hlo_says(op, TYPES[i][0])) continue;
        bool is_not = strcmp(TYPES[i][0], "NE") == 0;
        if (!each(op, TYPES[i][1], 2, TYPES[i][0])) return false;
        return !is_not || op->results[0]->tensor->has_number || then(op, "Not");
    }
    return hlo_fail(op, "a comparison that we do not know");
}

// Indices below 0 are counted from the end, as gathers of ONNX do by themselves: x < 0 ? x + n : x
// is x.
static bool is_wrapped(const struct hlo_value *condition, const struct hlo_value *wrapped,
                       const struct hlo_value *x)
{
    const struct hlo_made *asks = hlo_made_by(condition, "compare");
    const struct hlo_made *adds = hlo_made_by(wrapped, "add");
    bool is_asked = asks && asks->mode && strcmp(asks->mode, "LT") == 0 &&
                    hlo_is_same(asks->operands[0], x) && hlo_is_number(asks->operands[1], 0);
    return is_asked && adds && hlo_is_same(adds->operands[0], x) &&
           adds->operands[1]->tensor->has_number && !element_is_float(x->as.element);
}

// mask ? x / p : 0 with a mask drawn with probability p.
static bool drop(struct hlo_op *op, bool *is_it)
{
    const struct hlo_made *mask = hlo_made_by(op->operands[0], "bernoulli");
    const struct hlo_made *scaled = hlo_made_by(op->operands[1], "divide");
    *is_it = mask && scaled && hlo_is_number(op->operands[2], 0) &&
             mask->operands[0]->tensor->has_number &&
             hlo_is_number(scaled->operands[1], mask->operands[0]->tensor->number) &&
             is_of_result(op, scaled->operands[0]);
    if (!*is_it) return false;
    struct hlo_op inner = *op;
    inner.operands = (const struct hlo_value *[]){scaled->operands[0]};
    inner.operand_count = 1;
    Onnx__NodeProto *proto = put_each(&inner, "Dropout", 1);
    if (proto) draft_put_float(op->draft, proto, "ratio", 1 - mask->operands[0]->tensor->number);
    return is_clean(op);
}

bool hlo_select(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_value *condition = hlo_operand(op, 0), *a = hlo_operand(op, 1);
    const struct hlo_value *b = hlo_operand(op, 2);
    if (!condition || !a || !b) return false;
    if (condition->tensor->has_number)
        return hlo_answer(op, condition->tensor->number != 0 ? a : b);
    if (is_wrapped(condition, a, b)) return hlo_answer(op, b);
    // Rows that a table has not are no numbers (jnp.take), and gathers of ONNX have none of them.
    if (b->tensor->has_number && isnan(b->tensor->number)) return hlo_answer(op, a);
    bool drops = false;
    if (drop(op, &drops) || drops) return is_clean(op);
    return each(op, "Where", 3, NULL);
}

// (low, x, high)
bool hlo_clamp(struct hlo_op *op, const char *type)
{
    (void)type;
    const struct hlo_value *low = hlo_operand(op, 0), *x = hlo_operand(op, 1);
    const struct hlo_value *high = hlo_operand(op, 2);
    if (!low || !x || !high) return false;
    if (!low->tensor->has_number || !high->tensor->has_number)
        return hlo_fail(op, "bounds that are no numbers");
    struct hlo_op inner = *op;
    inner.operands = &x;
    inner.operand_count = 1;
    if (!is_of_result(op, x)) return hlo_fail(op, "its operand is not of the size of the result");
    Onnx__NodeProto *proto = put_each(&inner, "Clip", 1);
    if (!proto) return is_clean(op);
    draft_put_float(op->draft, proto, "min", low->tensor->number);
    draft_put_float(op->draft, proto, "max", high->tensor->number);
    return is_clean(op);
}
