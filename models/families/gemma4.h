#pragma once
#include "models/families/family.h"

// Of num_kv_shared_layers that there are layers in front of them which make keys of each kind.
void gemma_check_shared(struct family_reader *reader, const struct decoder *decoder);
