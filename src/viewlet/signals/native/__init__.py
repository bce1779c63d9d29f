"""C kernels over micro-batches: built once by the system compiler, called through ctypes."""
