// Helper files of NVIDIA's samples without those of images.
#pragma once
#include <cmath>

#include "helper_string.h"
#include "helper_timer.h"

// True if the differences' length is at most epsilon times that of the reference.
inline bool sdkCompareL2fe(const float* reference, const float* data, unsigned count, float epsilon) {
    double error = 0, size = 0;
    for (unsigned i = 0; i < count; ++i) {
        double difference = double(reference[i]) - data[i];
        error += difference * difference, size += double(reference[i]) * reference[i];
    }
    return size > 1e-7 && std::sqrt(error) <= epsilon * std::sqrt(size);
}
// True if at most a part `threshold` of the elements differs by more than epsilon.
template <class T, class S>
bool compareData(const T* reference, const T* data, unsigned count, S epsilon, float threshold) {
    unsigned wrong = 0;
    for (unsigned i = 0; i < count; ++i) wrong += !(std::fabs(double(reference[i]) - double(data[i])) <= epsilon);
    return wrong <= threshold * count;
}
