"""The GPU: kernels compiled, launched, timed and captured, through CUDA's driver."""
