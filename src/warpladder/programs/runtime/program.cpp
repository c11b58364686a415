// The CUDA runtime of programs in one piece, so that one call of the compiler builds it.
#include "errors.cpp"
#include "memory.cpp"
#include "copies.cpp"
#include "arrays.cpp"
#include "streams.cpp"
#include "device.cpp"
#include "launches.cpp"
#include "graphs.cpp"
