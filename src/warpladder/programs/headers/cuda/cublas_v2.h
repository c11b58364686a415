// cuBLAS: vectors and matrices of float, double, half and bfloat16 that courses multiply. Each call is a launch of one
// thread a row or column of the result.
#pragma once
#include "../library.h"
#include "cuComplex.h"

#define CUBLAS_API_H_
#define CUBLAS_V2_H_
enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_STATUS_ARCH_MISMATCH, CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13, CUBLAS_STATUS_INTERNAL_ERROR,
    CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_LICENSE_ERROR
};
using cublasStatus = cublasStatus_t;
using cublasDataType_t = cudaDataType_t;
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C };
enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE };
enum cublasMath_t { CUBLAS_DEFAULT_MATH, CUBLAS_TENSOR_OP_MATH, CUBLAS_PEDANTIC_MATH, CUBLAS_TF32_TENSOR_OP_MATH };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 };
enum cublasComputeType_t {
    CUBLAS_COMPUTE_16F = 64, CUBLAS_COMPUTE_16F_PEDANTIC, CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_PEDANTIC,
    CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_64F_PEDANTIC, CUBLAS_COMPUTE_32I, CUBLAS_COMPUTE_32F_FAST_16F = 74,
    CUBLAS_COMPUTE_32F_FAST_16BF, CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};

struct cublasContext {
    cudaStream_t stream = 0;
    cublasPointerMode_t mode = CUBLAS_POINTER_MODE_HOST;
};
using cublasHandle_t = cublasContext*;

namespace emu::blas {

// Result of a launch as a status.
inline cublasStatus_t ended() {
    return cudaPeekAtLastError() == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED; }

// True if a number is less than cuBLAS takes, which is reported: few programs read the status.
inline bool is_less(const char* call, const char* name, int number, int least, const char* file, int line) {
    if (number < least) emu_too_small(call, name, number, least, file, line);
    return number < least;
}

// body(i) for i below n, each by a thread.
template <class F> cublasStatus_t each(cublasHandle_t h, const char* name, int n, F body, const char* file, int line) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (is_less(name, "n", n, 0, file, line)) return CUBLAS_STATUS_INVALID_VALUE;
    if (n == 0) return CUBLAS_STATUS_SUCCESS;
    deduced([](auto& f, int most) {
        int i = int(blockIdx.x * blockDim.x + threadIdx.x);
        if (i < most) f(i);
    }, name, 0, Config(unsigned(n + 127) / 128, 128, 0, h->stream, file, line), body, n);
    return ended();
}

// A number that the program gives: by the handle's mode on the host or on the device.
template <class T> struct Scalar {
    T value;
    const T* place;
    Scalar(cublasHandle_t h, const T* given)
        : value(h && h->mode == CUBLAS_POINTER_MODE_HOST ? *given : T()),
          place(h && h->mode == CUBLAS_POINTER_MODE_HOST ? nullptr : given) {}
    T get() const { return place ? *place : value; }
};

// A sum that goes to the host or to the device.
template <class R, class F> cublasStatus_t result(cublasHandle_t h, const char* name, R* out, F compute,
    const char* file, int line) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (h->mode == CUBLAS_POINTER_MODE_DEVICE) {
        on_device(name, [=] { *out = compute(); }, file, line, h->stream);
        return ended();
    }
    Temporary<R> place(1, file, line);
    R* there = place.data;
    on_device(name, [=] { *there = compute(); }, file, line, h->stream);
    cudaMemcpy(out, there, sizeof(R), cudaMemcpyDeviceToHost, file, line);
    return ended();
}

// Matrices of a product: `of(which)` has the pointers of the batch's products.
template <class A, class C> struct Matrices {
    const A *a, *b;
    C* c;
};

// C = alpha op(A) op(B) + beta C in columns, sums in S.
template <class S, class F> cublasStatus_t products(cublasHandle_t h, const char* name, cublasOperation_t ta,
    cublasOperation_t tb, int m, int n, int k, Scalar<S> alpha, int lda, int ldb, Scalar<S> beta, int ldc, F of,
    int batch, const char* file, int line) {
    auto less = [=](const char* what, int number, int least) { return is_less(name, what, number, least, file, line); };
    if (less("batch", batch, 0) || less("m", m, 0) || less("n", n, 0) || less("k", k, 0)
        || less("lda", lda, std::max(1, ta ? k : m)) || less("ldb", ldb, std::max(1, tb ? n : k))
        || less("ldc", ldc, std::max(1, m))) return CUBLAS_STATUS_INVALID_VALUE;
    return each(h, name, n * batch, [=](int column) {
        int j = column % n, which = column / n;
        auto [x, y, z] = of(which);
        z += size_t(j) * size_t(ldc);
        const S scale = alpha.get(), keep = beta.get();
        for (int i = 0; i < m; ++i) {
            S sum = 0;
            for (int l = 0; l < k; ++l)
                sum += S(ta ? x[l + size_t(i) * size_t(lda)] : x[i + size_t(l) * size_t(lda)])
                    * S(tb ? y[j + size_t(l) * size_t(ldb)] : y[l + size_t(j) * size_t(ldb)]);
            z[i] = std::remove_reference_t<decltype(z[i])>(keep == S(0) ? scale * sum : scale * sum + keep * S(z[i]));
        }
    }, file, line);
}
template <class S, class A, class C> cublasStatus_t gemm(cublasHandle_t h, const char* name, cublasOperation_t ta,
    cublasOperation_t tb, int m, int n, int k, Scalar<S> alpha, const A* a, int lda, const A* b, int ldb,
    Scalar<S> beta, C* c, int ldc, const char* file, int line, int batch = 1, long long next_a = 0,
    long long next_b = 0, long long next_c = 0) {
    return products(h, name, ta, tb, m, n, k, alpha, lda, ldb, beta, ldc, [=](int i) {
        return Matrices<A, C>{a + i * next_a, b + i * next_b, c + i * next_c}; }, batch, file, line);
}

}  // namespace emu::blas

inline cublasStatus_t cublasCreate(cublasHandle_t* h) { return *h = new cublasContext, CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasDestroy(cublasHandle_t h) { return delete h, CUBLAS_STATUS_SUCCESS; }
#define cublasCreate_v2 cublasCreate
#define cublasDestroy_v2 cublasDestroy
inline cublasStatus_t cublasSetStream(cublasHandle_t h, cudaStream_t stream) {
    return h->stream = stream, CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasGetStream(cublasHandle_t h, cudaStream_t* stream) {
    return *stream = h->stream, CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetPointerMode(cublasHandle_t h, cublasPointerMode_t mode) {
    return h->mode = mode, CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) { return *version = 120405,
    CUBLAS_STATUS_SUCCESS; }
inline const char* cublasGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS ? "success" : status == CUBLAS_STATUS_INVALID_VALUE ? "an unsupported value"
        : status == CUBLAS_STATUS_NOT_INITIALIZED ? "the library was not initialized" : "the function failed to launch";
}

// Copies of vectors and matrices; element: bytes of a number.
inline cublasStatus_t emu_blas_copy(int rows, int columns, int element, const void* from, int from_rows, void* to,
    int to_rows, cudaMemcpyKind kind, const char* file, int line) {
    return cudaMemcpy2D(to, size_t(to_rows) * element, from, size_t(from_rows) * element, size_t(rows) * element,
        size_t(columns), kind, file, line) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_MAPPING_ERROR;
}
inline cublasStatus_t cublasSetMatrix(int rows, int columns, int element, const void* a, int lda, void* b, int ldb,
    EMU_HERE) { return emu_blas_copy(rows, columns, element, a, lda, b, ldb, cudaMemcpyHostToDevice, file, line); }
inline cublasStatus_t cublasGetMatrix(int rows, int columns, int element, const void* a, int lda, void* b, int ldb,
    EMU_HERE) { return emu_blas_copy(rows, columns, element, a, lda, b, ldb, cudaMemcpyDeviceToHost, file, line); }
inline cublasStatus_t cublasSetVector(int n, int element, const void* x, int step_x, void* y, int step_y, EMU_HERE) {
    return emu_blas_copy(1, n, element, x, step_x, y, step_y, cudaMemcpyHostToDevice, file, line); }
inline cublasStatus_t cublasGetVector(int n, int element, const void* x, int step_x, void* y, int step_y, EMU_HERE) {
    return emu_blas_copy(1, n, element, x, step_x, y, step_y, cudaMemcpyDeviceToHost, file, line); }
inline cublasStatus_t cublasSetMatrixAsync(int rows, int columns, int element, const void* a, int lda, void* b, int ldb,
    cudaStream_t, EMU_HERE) { return cublasSetMatrix(rows, columns, element, a, lda, b, ldb, file, line); }
inline cublasStatus_t cublasGetMatrixAsync(int rows, int columns, int element, const void* a, int lda, void* b, int ldb,
    cudaStream_t, EMU_HERE) { return cublasGetMatrix(rows, columns, element, a, lda, b, ldb, file, line); }

#define EMU_BLAS(P, T)                                                                                                \
    inline cublasStatus_t cublas##P##gemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, \
        int k, const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc, EMU_HERE) {    \
        return emu::blas::gemm<T>(h, "cublas" #P "gemm", ta, tb, m, n, k, emu::blas::Scalar(h, alpha), a, lda, b,     \
            ldb, emu::blas::Scalar(h, beta), c, ldc, file, line);                                                     \
    }                                                                                                                 \
    inline cublasStatus_t cublas##P##gemmStridedBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, \
        int m, int n, int k, const T* alpha, const T* a, int lda, long long next_a, const T* b, int ldb,              \
        long long next_b, const T* beta, T* c, int ldc, long long next_c, int batch, EMU_HERE) {                      \
        return emu::blas::gemm<T>(h, "cublas" #P "gemmStridedBatched", ta, tb, m, n, k, emu::blas::Scalar(h, alpha),  \
            a, lda, b, ldb, emu::blas::Scalar(h, beta), c, ldc, file, line, batch, next_a, next_b, next_c);           \
    }                                                                                                                 \
    inline cublasStatus_t cublas##P##gemmBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, \
        int n, int k, const T* alpha, const T* const a[], int lda, const T* const b[], int ldb, const T* beta,        \
        T* const c[], int ldc, int batch, EMU_HERE) {                                                                 \
        return emu::blas::products(h, "cublas" #P "gemmBatched", ta, tb, m, n, k, emu::blas::Scalar(h, alpha), lda,   \
            ldb, emu::blas::Scalar(h, beta), ldc, [=](int i) { return emu::blas::Matrices<T, T>{a[i], b[i], c[i]}; }, \
            batch, file, line);                                                                                       \
    }                                                                                                                 \
    inline cublasStatus_t cublas##P##gemv(cublasHandle_t h, cublasOperation_t ta, int m, int n, const T* alpha,       \
        const T* a, int lda, const T* x, int step_x, const T* beta, T* y, int step_y, EMU_HERE) {                     \
        emu::blas::Scalar<T> scale(h, alpha), keep(h, beta);                                                          \
        if (emu::blas::is_less("cublas" #P "gemv", "lda", lda, std::max(1, m), file, line))                           \
            return CUBLAS_STATUS_INVALID_VALUE;                                                                       \
        return emu::blas::each(h, "cublas" #P "gemv", ta ? n : m, [=](int i) {                                        \
            T sum = 0;                                                                                                \
            for (int j = 0; j < (ta ? m : n); ++j)                                                                    \
                sum += (ta ? a[j + size_t(i) * lda] : a[i + size_t(j) * lda]) * x[size_t(j) * step_x];                \
            T& to = y[size_t(i) * step_y];                                                                            \
            to = keep.get() == T(0) ? scale.get() * sum : scale.get() * sum + keep.get() * to;                        \
        }, file, line);                                                                                               \
    }                                                                                                                 \
    inline cublasStatus_t cublas##P##geam(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, \
        const T* alpha, const T* a, int lda, const T* beta, const T* b, int ldb, T* c, int ldc, EMU_HERE) {           \
        if (m < 0 || lda < (ta ? n : m) || ldb < (tb ? n : m) || ldc < m) return CUBLAS_STATUS_INVALID_VALUE;         \
        emu::blas::Scalar<T> first(h, alpha), second(h, beta);                                                        \
        return emu::blas::each(h, "cublas" #P "geam", m * n, [=](int place) {                                         \
            const size_t i = place % m, j = place / m;                                                                \
            T sum = first.get() == T(0) ? T(0) : first.get() * (ta ? a[j + i * lda] : a[i + j * lda]);                \
            if (second.get() != T(0)) sum += second.get() * (tb ? b[j + i * ldb] : b[i + j * ldb]);                   \
            c[i + j * ldc] = sum;                                                                                     \
        }, file, line);                                                                                               \
    }                                                                                                                 \
    inline cublasStatus_t cublas##P##axpy(cublasHandle_t h, int n, const T* alpha, const T* x, int step_x, T* y,      \
        int step_y, EMU_HERE) {                                                                                       \
        emu::blas::Scalar<T> scale(h, alpha);                                                                         \
        return emu::blas::each(h, "cublas" #P "axpy", n, [=](int i) {                                                 \
            y[size_t(i) * step_y] += scale.get() * x[size_t(i) * step_x]; }, file, line);                             \
    }                                                                                                                 \
    inline cublasStatus_t cublas##P##scal(cublasHandle_t h, int n, const T* alpha, T* x, int step, EMU_HERE) {        \
        emu::blas::Scalar<T> scale(h, alpha);                                                                         \
        return emu::blas::each(h, "cublas" #P "scal", n, [=](int i) { x[size_t(i) * step] *= scale.get(); }, file,    \
            line);                                                                                                    \
    }                                                                                                                 \
    inline cublasStatus_t cublas##P##copy(cublasHandle_t h, int n, const T* x, int step_x, T* y, int step_y,          \
        EMU_HERE) {                                                                                                   \
        return emu::blas::each(h, "cublas" #P "copy", n, [=](int i) {                                                 \
            y[size_t(i) * step_y] = x[size_t(i) * step_x]; }, file, line);                                            \
    }                                                                                                                 \
    inline cublasStatus_t cublas##P##dot(cublasHandle_t h, int n, const T* x, int step_x, const T* y, int step_y,     \
        T* out, EMU_HERE) {                                                                                           \
        return emu::blas::result(h, "cublas" #P "dot", out, [=] {                                                     \
            T sum = 0;                                                                                                \
            for (int i = 0; i < n; ++i) sum += x[size_t(i) * step_x] * y[size_t(i) * step_y];                         \
            return sum;                                                                                               \
        }, file, line);                                                                                               \
    }                                                                                                                 \
    inline cublasStatus_t cublas##P##nrm2(cublasHandle_t h, int n, const T* x, int step, T* out, EMU_HERE) {          \
        return emu::blas::result(h, "cublas" #P "nrm2", out, [=] {                                                    \
            double sum = 0;                                                                                           \
            for (int i = 0; i < n; ++i) sum += double(x[size_t(i) * step]) * double(x[size_t(i) * step]);             \
            return T(sqrt(sum));                                                                                      \
        }, file, line);                                                                                               \
    }                                                                                                                 \
    inline cublasStatus_t cublas##P##asum(cublasHandle_t h, int n, const T* x, int step, T* out, EMU_HERE) {          \
        return emu::blas::result(h, "cublas" #P "asum", out, [=] {                                                    \
            T sum = 0;                                                                                                \
            for (int i = 0; i < n; ++i) sum += x[size_t(i) * step] < 0 ? -x[size_t(i) * step] : x[size_t(i) * step];  \
            return sum;                                                                                               \
        }, file, line);                                                                                               \
    }
EMU_BLAS(S, float)
EMU_BLAS(D, double)
#undef EMU_BLAS
inline cublasStatus_t cublasHgemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
    const __half* alpha, const __half* a, int lda, const __half* b, int ldb, const __half* beta, __half* c, int ldc,
    EMU_HERE) {
    float scale = float(*alpha), keep = float(*beta);
    return emu::blas::gemm<float>(h, "cublasHgemm", ta, tb, m, n, k, emu::blas::Scalar(h, &scale), a, lda, b, ldb,
        emu::blas::Scalar(h, &keep), c, ldc, file, line);
}
namespace emu::blas {
// Products of matrices whose types are numbers; the scales are the host's.
inline cublasStatus_t typed(cublasHandle_t h, const char* name, cublasOperation_t ta, cublasOperation_t tb, int m,
    int n, int k, const void* alpha, Matrices<void, void> of, cudaDataType_t factors, cudaDataType_t sums, int lda,
    int ldb, const void* beta, int ldc, int compute, const char* file, int line, int batch = 1, long long next_a = 0,
    long long next_b = 0, long long next_c = 0) {
    if (compute == CUBLAS_COMPUTE_64F) return CUBLAS_STATUS_NOT_SUPPORTED;
    const bool is_half = compute == CUBLAS_COMPUTE_16F || compute == CUDA_R_16F;
    float scale = is_half ? float(*(const __half*)alpha) : *(const float*)alpha;
    float keep = is_half ? float(*(const __half*)beta) : *(const float*)beta;
    auto run = [&]<class A, class C>(const A* x, const A* y, C* z) {
        return gemm<float>(h, name, ta, tb, m, n, k, Scalar(h, &scale), x, lda, y, ldb, Scalar(h, &keep), z, ldc, file,
            line, batch, next_a, next_b, next_c);
    };
    auto with = [&]<class A>(const A*) {
        auto x = (const A*)of.a, y = (const A*)of.b;
        if (sums == CUDA_R_32F) return run(x, y, (float*)of.c);
        if (sums == CUDA_R_16F) return run(x, y, (__half*)of.c);
        if (sums == CUDA_R_16BF) return run(x, y, (__nv_bfloat16*)of.c);
        return CUBLAS_STATUS_NOT_SUPPORTED;
    };
    if (factors == CUDA_R_32F) return with((const float*)nullptr);
    if (factors == CUDA_R_16F) return with((const __half*)nullptr);
    if (factors == CUDA_R_16BF) return with((const __nv_bfloat16*)nullptr);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
}  // namespace emu::blas
inline cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
    const void* alpha, const void* a, cudaDataType_t type_a, int lda, const void* b, cudaDataType_t type_b, int ldb,
    const void* beta, void* c, cudaDataType_t type_c, int ldc, int compute, cublasGemmAlgo_t, EMU_HERE) {
    if (type_a != type_b) return CUBLAS_STATUS_NOT_SUPPORTED;
    return emu::blas::typed(h, "cublasGemmEx", ta, tb, m, n, k, alpha, {a, b, c}, type_a, type_c, lda, ldb, beta, ldc,
        compute, file, line);
}
inline cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
    int n, int k, const void* alpha, const void* a, cudaDataType_t type_a, int lda, long long next_a, const void* b,
    cudaDataType_t type_b, int ldb, long long next_b, const void* beta, void* c, cudaDataType_t type_c, int ldc,
    long long next_c, int batch, int compute, cublasGemmAlgo_t, EMU_HERE) {
    if (type_a != type_b) return CUBLAS_STATUS_NOT_SUPPORTED;
    return emu::blas::typed(h, "cublasGemmStridedBatchedEx", ta, tb, m, n, k, alpha, {a, b, c}, type_a, type_c, lda,
        ldb, beta, ldc, compute, file, line, batch, next_a, next_b, next_c);
}
#define EMU_BLAS_EXTREME(name, T, sign)                                                                               \
    inline cublasStatus_t name(cublasHandle_t h, int n, const T* x, int step, int* out, EMU_HERE) {                   \
        return emu::blas::result(h, #name, out, [=] {                                                                 \
            int best = 0;                                                                                             \
            for (int i = 1; i < n; ++i)                                                                               \
                if (fabs(x[size_t(i) * step]) sign fabs(x[size_t(best) * step])) best = i;                            \
            return best + 1;                                                                                          \
        }, file, line);                                                                                               \
    }
EMU_BLAS_EXTREME(cublasIsamax, float, >)
EMU_BLAS_EXTREME(cublasIdamax, double, >)
EMU_BLAS_EXTREME(cublasIsamin, float, <)
#undef EMU_BLAS_EXTREME
