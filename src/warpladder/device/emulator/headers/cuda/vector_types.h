// What CUDA has in this header the emulator has built in.
