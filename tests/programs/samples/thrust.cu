#include <thrust/complex.h>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/sort.h>
#include <thrust/reduce.h>
#include <thrust/transform.h>
#include <thrust/functional.h>
#include <thrust/scan.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/random.h>
#include <thrust/execution_policy.h>
#include <iostream>
#include <list>
struct saxpy { const float a; saxpy(float a) : a(a) {} __host__ __device__ float operator()(const float& x, const float& y) const { return a * x + y; } };
struct add3 { template <class T> __device__ void operator()(T t) { thrust::get<2>(t) = thrust::get<0>(t) + thrust::get<1>(t); } };
__global__ void k(float* x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }
__global__ void turned(thrust::complex<float>* z) {
    thrust::complex<float> old = z[threadIdx.x];
    z[threadIdx.x] = 0.5 * old * thrust::complex<float>(0, 1) + thrust::conj(old);
}
int main() {
    thrust::host_vector<int> h(1000);
    thrust::default_random_engine rng; thrust::uniform_int_distribution<int> dist(0, 99);
    for (auto& v : h) v = dist(rng);
    thrust::device_vector<int> d = h;
    thrust::sort(d.begin(), d.end());
    std::cout << d[0] << " " << d[999] << " " << thrust::is_sorted(d.begin(), d.end()) << " " << thrust::reduce(d.begin(), d.end()) << "\n";
    thrust::device_vector<float> x(100, 2.0f), y(100);
    thrust::sequence(y.begin(), y.end());
    thrust::transform(x.begin(), x.end(), y.begin(), y.begin(), saxpy(3));
    using namespace thrust::placeholders;
    thrust::transform(x.begin(), x.end(), y.begin(), x.begin(), 2 * _1 + _2);
    k<<<1, 128>>>(thrust::raw_pointer_cast(x.data()), 100);
    thrust::host_vector<float> hx = x;
    std::cout << hx[0] << " " << hx[99] << " " << *thrust::max_element(x.begin(), x.end()) << " " << thrust::max_element(x.begin(), x.end()) - x.begin() << "\n";
    thrust::device_vector<float> z(100);
    thrust::for_each(thrust::make_zip_iterator(thrust::make_tuple(x.begin(), y.begin(), z.begin())), thrust::make_zip_iterator(thrust::make_tuple(x.end(), y.end(), z.end())), add3());
    std::cout << z[99] << "\n";
    thrust::device_vector<int> key(10), val(10), ko(10), vo(10);
    for (int i = 0; i < 10; ++i) key[i] = (i * 7) % 3, val[i] = i;
    thrust::stable_sort_by_key(key.begin(), key.end(), val.begin(), thrust::greater<int>());
    auto e = thrust::reduce_by_key(key.begin(), key.end(), val.begin(), ko.begin(), vo.begin());
    for (int i = 0; i < e.first - ko.begin(); ++i) std::cout << ko[i] << ":" << vo[i] << " ";
    thrust::exclusive_scan(val.begin(), val.end(), vo.begin());
    thrust::copy(vo.begin(), vo.end(), std::ostream_iterator<int>(std::cout, " "));
    std::cout << thrust::transform_reduce(thrust::make_counting_iterator(0), thrust::make_counting_iterator(10), [] __device__ (int i) { return i * i; }, 0, thrust::plus<int>()) << "\n";
    int* raw; cudaMalloc(&raw, 40); thrust::device_ptr<int> p(raw); thrust::fill(p, p + 10, 7); thrust::fill(thrust::device, raw, raw + 5, 8);
    std::cout << thrust::reduce(thrust::device, raw, raw + 10) << " " << thrust::count(p, p + 10, 8) << "\n"; cudaFree(raw);
    std::list<int> l{3, 1, 2}; thrust::device_vector<int> dl(l.begin(), l.end()); dl.push_back(9); std::cout << dl.size() << dl[3] << "\n";
    auto n = thrust::remove_if(d.begin(), d.end(), [] __host__ __device__ (int v) { return v % 2; }) - d.begin(); std::cout << (n > 400) << " " << thrust::count_if(d.begin(), d.begin() + n, [] __host__ __device__ (int v) { return v % 2; }) << "\n";
    thrust::device_vector<thrust::complex<float>> c(2, thrust::complex<float>(3, 4));
    turned<<<1, 2>>>(thrust::raw_pointer_cast(c.data()));
    thrust::complex<float> turn = c[1], power = thrust::exp(thrust::complex<double>(0, 0));
    std::cout << turn.real() << " " << turn.imag() << " " << thrust::norm(turn) << " " << thrust::abs(thrust::complex<double>(3, 4)) << " " << (power == 1) << "\n";
}
