import time

import torch


def scaled_dot_product_attention(q, k, v, is_causal=False, enable_gqa=False):
    assert q.shape[-1] == k.shape[-1] and k.shape[:3] == v.shape[:3]
    assert enable_gqa == (q.shape[1] != k.shape[1])
    time.sleep(0.01)
    return torch.Tensor(*q.shape[:-1], v.shape[-1])
