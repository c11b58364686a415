// Random numbers of Thrust: engines of the C++ library, and its own distributions.
#pragma once
#include <random>

namespace thrust {

namespace random {

using minstd_rand = std::minstd_rand;
using minstd_rand0 = std::minstd_rand0;
using default_random_engine = std::minstd_rand;
using ranlux24 = std::ranlux24;
using ranlux48 = std::ranlux48;

template <class T = double> class uniform_real_distribution {
    T low, high;

  public:
    explicit uniform_real_distribution(T low = 0, T high = 1) : low(low), high(high) {}
    template <class E> T operator()(E& engine) {
        T number = T(engine() - E::min()) / (T(1) + T(E::max() - E::min()));
        return number * (high - low) + low;
    }
};
template <class I = int> class uniform_int_distribution {
    I low, high;

  public:
    explicit uniform_int_distribution(I low = 0, I high = std::numeric_limits<I>::max()) : low(low), high(high) {}
    template <class E> I operator()(E& engine) {
        return I(uniform_real_distribution<double>(double(low), double(high) + 1)(engine)); }
};
template <class T = double> using normal_distribution = std::normal_distribution<T>;
namespace experimental {
using random::normal_distribution;
}

}  // namespace random

using namespace random;

}  // namespace thrust
