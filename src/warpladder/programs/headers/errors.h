// Errors that nothing here returns: programs have tables of all names.
#pragma once
#define EMU_FOREIGN_ERRORS(X) \
    X(cudaErrorProfilerNotInitialized, 6, "profiler not initialized: call cudaProfilerInitialize()") \
    X(cudaErrorProfilerAlreadyStarted, 7, "profiler already started") \
    X(cudaErrorProfilerAlreadyStopped, 8, "profiler already stopped") \
    X(cudaErrorAddressOfConstant, 22, "invalid address of constant") \
    X(cudaErrorTextureFetchFailed, 23, "fetch from texture failed") \
    X(cudaErrorTextureNotBound, 24, "cannot fetch from a texture that is not bound") \
    X(cudaErrorSynchronizationError, 25, "incorrect use of __syncthreads()") \
    X(cudaErrorInvalidNormSetting, 27, "read as normalized float not supported for data type") \
    X(cudaErrorMixedDeviceExecution, 28, "device emulation mode and device execution mode cannot be mixed") \
    X(cudaErrorNotYetImplemented, 31, "feature not yet implemented") \
    X(cudaErrorMemoryValueTooLarge, 32, "memory size or pointer value too large to fit in 32 bit") \
    X(cudaErrorStubLibrary, 34, "CUDA driver is a stub library") \
    X(cudaErrorCallRequiresNewerDriver, 36, "API call is not supported in the installed CUDA driver") \
    X(cudaErrorDuplicateVariableName, 43, "duplicate global variable looked up by string name") \
    X(cudaErrorDuplicateTextureName, 44, "duplicate texture looked up by string name") \
    X(cudaErrorDuplicateSurfaceName, 45, "duplicate surface looked up by string name") \
    X(cudaErrorIncompatibleDriverContext, 49, "incompatible driver context") \
    X(cudaErrorLaunchFileScopedTex, 66, \
        "launch failed because kernel uses unsupported, file-scoped textures (texture objects are supported)") \
    X(cudaErrorLaunchFileScopedSurf, 67, \
        "launch failed because kernel uses unsupported, file-scoped surfaces (surface objects are supported)") \
    X(cudaErrorDeviceNotLicensed, 102, "device doesn't have valid Grid license") \
    X(cudaErrorSoftwareValidityNotEstablished, 103, "integrity checks failed") \
    X(cudaErrorDeviceUninitialized, 201, "invalid device context") \
    X(cudaErrorMapBufferObjectFailed, 205, "mapping of buffer object failed") \
    X(cudaErrorUnmapBufferObjectFailed, 206, "unmapping of buffer object failed") \
    X(cudaErrorArrayIsMapped, 207, "array is mapped") \
    X(cudaErrorAlreadyMapped, 208, "resource already mapped") \
    X(cudaErrorAlreadyAcquired, 210, "resource already acquired") \
    X(cudaErrorNotMapped, 211, "resource not mapped") \
    X(cudaErrorNotMappedAsArray, 212, "resource not mapped as array") \
    X(cudaErrorNotMappedAsPointer, 213, "resource not mapped as pointer") \
    X(cudaErrorUnsupportedLimit, 215, "limit is not supported on this architecture") \
    X(cudaErrorDeviceAlreadyInUse, 216, "exclusive-thread device already in use by a different thread") \
    X(cudaErrorInvalidGraphicsContext, 219, "invalid OpenGL or DirectX context") \
    X(cudaErrorNvlinkUncorrectable, 220, "uncorrectable NVLink error detected during the execution") \
    X(cudaErrorJitCompilerNotFound, 221, "PTX JIT compiler library not found") \
    X(cudaErrorUnsupportedPtxVersion, 222, "the provided PTX was compiled with an unsupported toolchain.") \
    X(cudaErrorJitCompilationDisabled, 223, "PTX JIT compilation was disabled") \
    X(cudaErrorUnsupportedExecAffinity, 224, "the provided execution affinity is not supported") \
    X(cudaErrorUnsupportedDevSideSync, 225, "the provided PTX contains unsupported call to cudaDeviceSynchronize") \
    X(cudaErrorContained, 226, "Invalid access of peer GPU memory over nvlink or a hardware error") \
    X(cudaErrorInvalidSource, 300, "device kernel image is invalid") \
    X(cudaErrorSharedObjectSymbolNotFound, 302, "shared object symbol not found") \
    X(cudaErrorSharedObjectInitFailed, 303, "shared object initialization failed") \
    X(cudaErrorLossyQuery, 402, "attempted introspection would be semantically lossy") \
    X(cudaErrorLaunchIncompatibleTexturing, 703, "launch uses incompatible texturing mode") \
    X(cudaErrorContextIsDestroyed, 709, "context is destroyed") \
    X(cudaErrorTooManyPeers, 711, "peer mapping resources exhausted") \
    X(cudaErrorTensorMemoryLeak, 721, "tensor memory not completely freed") \
    X(cudaErrorSystemDriverMismatch, 803, "system has unsupported display driver / cuda driver combination") \
    X(cudaErrorCompatNotSupportedOnDevice, 804, "forward compatibility was attempted on non supported HW") \
    X(cudaErrorMpsConnectionFailed, 805, "MPS client failed to connect to the MPS control daemon or the MPS server") \
    X(cudaErrorMpsRpcFailure, 806, "the remote procedural call between the MPS server and the MPS client failed") \
    X(cudaErrorMpsServerNotReady, 807, "MPS server is not ready to accept new MPS client requests") \
    X(cudaErrorMpsMaxClientsReached, 808, "the hardware resources required to create MPS client have been exhausted") \
    X(cudaErrorMpsMaxConnectionsReached, 809, \
        "the hardware resources required to support device connections have been exhausted") \
    X(cudaErrorMpsClientTerminated, 810, "the MPS client has been terminated by the server") \
    X(cudaErrorCdpNotSupported, 811, \
        "is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not support it") \
    X(cudaErrorCdpVersionMismatch, 812, \
        "unsupported interaction between different versions of CUDA Dynamic Parallelism") \
    X(cudaErrorStreamCaptureMerge, 902, "operation would result in a merge of separate capture sequences") \
    X(cudaErrorStreamCaptureWrongThread, 908, \
        "attempt to terminate a thread-local capture sequence from another thread") \
    X(cudaErrorGraphExecUpdateFailure, 910, \
        "the graph update was not performed because it included changes which violated constraints specific to " \
        "instantiated graph update") \
    X(cudaErrorExternalDevice, 911, "an async error has occured in external entity outside of CUDA") \
    X(cudaErrorInvalidClusterSize, 912, "a kernel launch error has occurred due to cluster misconfiguration") \
    X(cudaErrorFunctionNotLoaded, 913, \
        "the function handle is not loaded when calling an API that requires a loaded function") \
    X(cudaErrorInvalidResourceType, 914, \
        "one or more resources passed in are not valid resource types for the operation") \
    X(cudaErrorInvalidResourceConfiguration, 915, \
        "one or more resources are insufficient or non-applicable for the operation") \
    X(cudaErrorApiFailureBase, 10000, "api failure base")
