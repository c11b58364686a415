// CUB: algorithms of a warp and of a block for kernels, and of the whole device for host code.
#pragma once
#include "block.h"
#include "device.h"
#define CUB_VERSION 200302
