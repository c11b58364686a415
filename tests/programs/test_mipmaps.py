"""Mipmaps: arrays of levels, and textures that read one of them or mix two."""

from __future__ import annotations

import pytest

from warpladder.device.emulator.toolchain import why_not
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import run

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

#: Level l of 16 x 8 texels and its halves holds 10 l everywhere.
PROGRAM = r"""
#include <cstdio>
#include <vector>
void ok(cudaError_t error) { if (error != cudaSuccess) printf("%d\n", error); }
__global__ void look(cudaTextureObject_t t, float* out, float level, float step) {
    out[0] = tex2DLod<float>(t, 0.3f, 0.6f, level);
    out[1] = tex2DGrad<float>(t, 0.3f, 0.6f, make_float2(step, 0), make_float2(0, step));
    out[2] = tex2D<float>(t, 0.3f, 0.6f);
}
int main() {
    const unsigned levels = 5;
    cudaChannelFormatDesc of = cudaCreateChannelDesc<float>();
    cudaMipmappedArray_t array;
    cudaArray_t one;
    ok(cudaMallocMipmappedArray(&array, &of, make_cudaExtent(16, 8, 0), levels));
    for (unsigned level = 0; level < levels; ++level) {
        ok(cudaGetMipmappedArrayLevel(&one, array, level));
        cudaExtent size;
        ok(cudaArrayGetInfo(nullptr, &size, nullptr, one));
        printf("%zu x %zu\n", size.width, size.height);
        std::vector<float> host(size.width * size.height, 10.0f * level);
        ok(cudaMemcpy2DToArray(one, 0, 0, host.data(), size.width * 4, size.width * 4, size.height,
            cudaMemcpyHostToDevice));
    }
    printf("%d\n", cudaGetMipmappedArrayLevel(&one, array, levels));
    cudaGetLastError();
    cudaResourceDesc from = {};
    from.resType = cudaResourceTypeMipmappedArray, from.res.mipmap.mipmap = array;
    cudaTextureDesc how = {};
    how.normalizedCoords = 1, how.filterMode = cudaFilterModeLinear, how.readMode = cudaReadModeElementType;
    how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp, how.maxMipmapLevelClamp = 3.25f;
    float *out, host[3];
    ok(cudaMalloc(&out, 12));
    for (auto mode : {cudaFilterModeLinear, cudaFilterModePoint}) {
        how.mipmapFilterMode = mode;
        cudaTextureObject_t texture;
        ok(cudaCreateTextureObject(&texture, &from, &how, nullptr));
        for (float level : {0.0f, 1.25f, 9.0f}) {
            look<<<1, 1>>>(texture, out, level, 0.25f);
            ok(cudaGetLastError()), ok(cudaMemcpy(host, out, 12, cudaMemcpyDeviceToHost));
            printf("%g %g %g\n", host[0], host[1], host[2]);
        }
        ok(cudaDestroyTextureObject(texture));
    }
    ok(cudaFree(out)), ok(cudaFreeMipmappedArray(array));
}
"""


def test_levels_are_read_and_mixed(tmp_path, capfd) -> None:
    file = tmp_path / "program.cu"
    file.write_text(PROGRAM)
    outcome = run([file], ProgramOptions(find("H100"), "check"), (), limit=120)
    printed = capfd.readouterr().out.split("\n")
    assert (outcome.code, outcome.problems, outcome.remarks) == (0, (), ()), outcome
    assert printed[:6] == ["16 x 8", "8 x 4", "4 x 2", "2 x 1", "1 x 1", "1"]
    # a step of a quarter is four texels across: level 2
    assert printed[6:12] == ["0 20 0", "12.5 20 0", "32.5 20 0", "0 20 0", "10 20 0", "30 20 0"]
