#pragma once
#include "core/zipf.h"
#include "cost_models/tables/price.h"

// What a piece does in a step on the rank that holds it.
struct piece_work {
    double lookups;       // ids that fall into it
    double unique;        // different rows of them
    double hits;          // look-ups of rows that are on the device
    double fetched;       // different rows that come from the host or from NVMe
    double from_nvme;     // of them
    double read_bytes;    // of the device's memory, look-up
    double update_bytes;  // moved there by the update, sorting included
    double fetch_bytes;   // over PCIe, one direction
    double nvme_bytes;    // from drives, in blocks
};
struct table_law {
    struct zipf zipf;
    double unique;  // different rows of a step's samples
};
struct piece_work piece_work(const struct table_request *request, const struct table_piece *piece);
