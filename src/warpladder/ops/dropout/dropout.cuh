// Mask of one number: a hash of the layer's key in the epoch, the sample's position and the number's index.
#pragma once
#include "order.cuh"

// Mask 0 if the number's hash is below `threshold`, else `scale`. key: the epoch's mask key. layer: added to the key.
// position: of the sample in the epoch's order. element: the number's index in the sample.
__device__ __forceinline__ float dropout_mask(unsigned key, unsigned layer, unsigned position, unsigned element,
    unsigned threshold, float scale) {
    const unsigned of_sample = order_mix(order_mix(key + layer) ^ position);
    return order_mix(of_sample ^ element) < threshold ? 0.0f : scale;
}
