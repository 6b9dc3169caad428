"""As much of PyTorch as the script of `measure-next` calls: shapes are checked, nothing is computed."""
import time

__version__ = 'stub'
bfloat16, float16, float32 = 'bf16', 'fp16', 'fp32'


class Tensor:
    def __init__(self, *shape):
        self.shape = shape

    def transpose(self, a, b):
        shape = list(self.shape)
        shape[a], shape[b] = shape[b], shape[a]
        return Tensor(*shape)

    def numel(self):
        count = 1
        for size in self.shape:
            count *= size
        return count

    def copy_(self, other):
        assert self.shape == other.shape
        return self

    def add_(self, other):
        return self


def made(*shape, device, dtype=None, requires_grad=False):
    assert device == 'cuda'
    return Tensor(*shape)


randn = empty = zeros = made


def empty_like(tensor):
    return Tensor(*tensor.shape)


randn_like = empty_like


def matmul(a, b):
    assert a.shape[0] == b.shape[0] and a.shape[-1] == b.shape[-2], (a.shape, b.shape)
    time.sleep(0.01)
    return Tensor(*a.shape[:-1], b.shape[-1])


class cuda:
    set_device = staticmethod(lambda rank: None)
    synchronize = staticmethod(lambda: None)


class autograd:
    @staticmethod
    def grad(out, inputs, grad, retain_graph=False):
        assert out.shape == grad.shape
        return inputs
