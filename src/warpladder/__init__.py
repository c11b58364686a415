"""warpladder trains small neural networks at the speed of the hardware, and shows where the speed comes from."""
