"""Training by kernels on a device: a step is a list of launches, a feed brings its samples."""
