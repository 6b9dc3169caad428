started = []


def is_initialized():
    return bool(started)


def init_process_group(backend):
    started.append(backend)


def destroy_process_group():
    started.clear()


def new_group(ranks):
    return ranks


def all_gather_into_tensor(whole, part, group=None):
    assert whole.numel() == part.numel() * len(group)
