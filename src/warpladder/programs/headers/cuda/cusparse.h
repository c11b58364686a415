// cuSPARSE: products of sparse matrices in CSR with vectors, as conjugate gradients use them. A product is a launch of
// one thread a row.
#pragma once
#include "cublas_v2.h"

#define CUSPARSEAPI
enum cusparseStatus_t {
    CUSPARSE_STATUS_SUCCESS, CUSPARSE_STATUS_NOT_INITIALIZED, CUSPARSE_STATUS_ALLOC_FAILED,
    CUSPARSE_STATUS_INVALID_VALUE, CUSPARSE_STATUS_ARCH_MISMATCH, CUSPARSE_STATUS_MAPPING_ERROR,
    CUSPARSE_STATUS_EXECUTION_FAILED, CUSPARSE_STATUS_INTERNAL_ERROR, CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED,
    CUSPARSE_STATUS_ZERO_PIVOT, CUSPARSE_STATUS_NOT_SUPPORTED, CUSPARSE_STATUS_INSUFFICIENT_RESOURCES
};
enum cusparseOperation_t {
    CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_TRANSPOSE, CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE
};
enum cusparseIndexType_t { CUSPARSE_INDEX_16U = 1, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_64I };
enum cusparseIndexBase_t { CUSPARSE_INDEX_BASE_ZERO, CUSPARSE_INDEX_BASE_ONE };
enum cusparsePointerMode_t { CUSPARSE_POINTER_MODE_HOST, CUSPARSE_POINTER_MODE_DEVICE };
enum cusparseMatrixType_t {
    CUSPARSE_MATRIX_TYPE_GENERAL, CUSPARSE_MATRIX_TYPE_SYMMETRIC, CUSPARSE_MATRIX_TYPE_HERMITIAN,
    CUSPARSE_MATRIX_TYPE_TRIANGULAR
};
enum cusparseSpMVAlg_t {
    CUSPARSE_SPMV_ALG_DEFAULT, CUSPARSE_SPMV_COO_ALG1, CUSPARSE_SPMV_CSR_ALG1, CUSPARSE_SPMV_CSR_ALG2,
    CUSPARSE_SPMV_COO_ALG2
};
#define CUSPARSE_MV_ALG_DEFAULT CUSPARSE_SPMV_ALG_DEFAULT
#define CUSPARSE_CSRMV_ALG1 CUSPARSE_SPMV_CSR_ALG1
#define CUSPARSE_CSRMV_ALG2 CUSPARSE_SPMV_CSR_ALG2

using cusparseHandle_t = cublasContext*;
struct cusparseSpMatDescr {
    int64_t rows, columns, count;
    const void *begins, *indices, *values;
    cusparseIndexType_t begin_type, index_type;
    int64_t base;
    cudaDataType type;
};
struct cusparseDnVecDescr {
    int64_t size;
    void* values;
    cudaDataType type;
};
struct cusparseMatDescr {
    cusparseMatrixType_t type;
    cusparseIndexBase_t base;
};
using cusparseSpMatDescr_t = cusparseSpMatDescr*;
using cusparseDnVecDescr_t = cusparseDnVecDescr*;
using cusparseMatDescr_t = cusparseMatDescr*;
using cusparseConstSpMatDescr_t = const cusparseSpMatDescr*;
using cusparseConstDnVecDescr_t = const cusparseDnVecDescr*;

namespace emu::sparse {

EMU_UNSEEN inline int64_t index_at(const void* at, cusparseIndexType_t type, int64_t i) {
    return type == CUSPARSE_INDEX_64I ? static_cast<const int64_t*>(at)[i] : static_cast<const int*>(at)[i];
}

// y = alpha A x + beta y for each row.
template <class T> cusparseStatus_t product(cusparseHandle_t h, const void* alpha, const cusparseSpMatDescr& a,
    const void* x, const void* beta, void* y, const char* file, int line) {
    blas::Scalar<T> scale(h, static_cast<const T*>(alpha)), old(h, static_cast<const T*>(beta));
    auto *in = static_cast<const T*>(x), *values = static_cast<const T*>(a.values);
    auto* out = static_cast<T*>(y);
    cublasStatus_t status = blas::each(h, "cusparseSpMV", int(a.rows), [=](int row) {
        T sum = 0, before = old.get();
        int64_t last = index_at(a.begins, a.begin_type, row + 1) - a.base;
        for (int64_t i = index_at(a.begins, a.begin_type, row) - a.base; i < last; ++i)
            sum += values[i] * in[index_at(a.indices, a.index_type, i) - a.base];
        out[row] = before == T(0) ? scale.get() * sum : scale.get() * sum + before * out[row];
    }, file, line);
    return status == CUBLAS_STATUS_SUCCESS ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_EXECUTION_FAILED;
}

}  // namespace emu::sparse

inline cusparseStatus_t cusparseCreate(cusparseHandle_t* h) { return *h = new cublasContext, CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseDestroy(cusparseHandle_t h) { return delete h, CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseSetStream(cusparseHandle_t h, cudaStream_t stream) {
    return h->stream = stream, CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseSetPointerMode(cusparseHandle_t h, cusparsePointerMode_t mode) {
    return h->mode = cublasPointerMode_t(mode), CUSPARSE_STATUS_SUCCESS; }
inline const char* cusparseGetErrorString(cusparseStatus_t status) {
    return status == CUSPARSE_STATUS_SUCCESS ? "success" : status == CUSPARSE_STATUS_NOT_SUPPORTED
        ? "operation not supported" : "invalid value";
}
inline cusparseStatus_t cusparseCreateMatDescr(cusparseMatDescr_t* d) {
    return *d = new cusparseMatDescr{}, CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseDestroyMatDescr(cusparseMatDescr_t d) { return delete d, CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseSetMatType(cusparseMatDescr_t d, cusparseMatrixType_t type) {
    return d->type = type, CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseSetMatIndexBase(cusparseMatDescr_t d, cusparseIndexBase_t base) {
    return d->base = base, CUSPARSE_STATUS_SUCCESS; }

inline cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t* a, int64_t rows, int64_t columns, int64_t count,
    void* begins, void* indices, void* values, cusparseIndexType_t begin_type, cusparseIndexType_t index_type,
    cusparseIndexBase_t base, cudaDataType type) {
    if (begin_type == CUSPARSE_INDEX_16U || index_type == CUSPARSE_INDEX_16U) return CUSPARSE_STATUS_NOT_SUPPORTED;
    *a = new cusparseSpMatDescr{rows, columns, count, begins, indices, values, begin_type, index_type, base, type};
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseDestroySpMat(cusparseConstSpMatDescr_t a) { return delete a, CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseCreateDnVec(cusparseDnVecDescr_t* x, int64_t size, void* values, cudaDataType type) {
    return *x = new cusparseDnVecDescr{size, values, type}, CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseDestroyDnVec(cusparseConstDnVecDescr_t x) { return delete x, CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseDnVecSetValues(cusparseDnVecDescr_t x, void* values) {
    return x->values = values, CUSPARSE_STATUS_SUCCESS; }

inline cusparseStatus_t cusparseSpMV_bufferSize(cusparseHandle_t, cusparseOperation_t, const void*,
    cusparseConstSpMatDescr_t, cusparseConstDnVecDescr_t, const void*, cusparseDnVecDescr_t, cudaDataType,
    cusparseSpMVAlg_t, size_t* bytes) {
    return *bytes = 16, CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseSpMV(cusparseHandle_t h, cusparseOperation_t how, const void* alpha,
    cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, const void* beta, cusparseDnVecDescr_t y,
    cudaDataType type, cusparseSpMVAlg_t, void*, EMU_HERE) {
    if (!h) return CUSPARSE_STATUS_NOT_INITIALIZED;
    if (x->size != a->columns || y->size != a->rows) return CUSPARSE_STATUS_INVALID_VALUE;
    if (how != CUSPARSE_OPERATION_NON_TRANSPOSE || a->type != type || x->type != type || y->type != type)
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    if (type == CUDA_R_32F) return emu::sparse::product<float>(h, alpha, *a, x->values, beta, y->values, file, line);
    if (type == CUDA_R_64F) return emu::sparse::product<double>(h, alpha, *a, x->values, beta, y->values, file, line);
    return CUSPARSE_STATUS_NOT_SUPPORTED;
}
