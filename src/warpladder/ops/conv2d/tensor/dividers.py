"""Integer division by multiplication: the factor of `Divider` in narrow.cuh."""


def inverse(number: int) -> int:
    """2^32 / number, rounded up; 0 for 1, whose inverse does not fit 32 bits."""
    return 0 if number == 1 else (2**32 - 1) // number + 1
