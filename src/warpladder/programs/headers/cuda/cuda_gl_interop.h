// Buffers and pictures that CUDA shares with graphics: declared, so that a program which needs none of them runs; one
// that comes to such a call ends with its name.
#pragma once
#include "../refused.h"

using cudaGraphicsResource_t = struct cudaGraphicsResource*;
enum cudaGraphicsMapFlags { cudaGraphicsMapFlagsNone, cudaGraphicsMapFlagsReadOnly, cudaGraphicsMapFlagsWriteDiscard };
enum cudaGraphicsRegisterFlags {
    cudaGraphicsRegisterFlagsNone, cudaGraphicsRegisterFlagsReadOnly, cudaGraphicsRegisterFlagsWriteDiscard,
    cudaGraphicsRegisterFlagsSurfaceLoadStore = 4, cudaGraphicsRegisterFlagsTextureGather = 8
};
enum cudaGLDeviceList { cudaGLDeviceListAll = 1, cudaGLDeviceListCurrentFrame, cudaGLDeviceListNextFrame };

#define EMU_GRAPHICS(name) EMU_REFUSED(cudaError_t, name, "graphics interoperability")
EMU_GRAPHICS(cudaGraphicsGLRegisterBuffer) EMU_GRAPHICS(cudaGraphicsGLRegisterImage)
EMU_GRAPHICS(cudaGraphicsMapResources) EMU_GRAPHICS(cudaGraphicsUnmapResources)
EMU_GRAPHICS(cudaGraphicsUnregisterResource) EMU_GRAPHICS(cudaGraphicsResourceSetMapFlags)
EMU_GRAPHICS(cudaGraphicsResourceGetMappedPointer) EMU_GRAPHICS(cudaGraphicsSubResourceGetMappedArray)
EMU_GRAPHICS(cudaGLGetDevices) EMU_GRAPHICS(cudaGLSetGLDevice) EMU_GRAPHICS(cudaGLRegisterBufferObject)
EMU_GRAPHICS(cudaGLUnregisterBufferObject) EMU_GRAPHICS(cudaGLMapBufferObject) EMU_GRAPHICS(cudaGLUnmapBufferObject)
