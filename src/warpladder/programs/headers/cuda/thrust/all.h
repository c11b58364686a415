// Thrust, by all names of its headers (programs/sources.py).
#pragma once
#include "complex.h"
#include "random.h"
#include "vectors.h"
#define THRUST_VERSION 200302
#define THRUST_MAJOR_VERSION 2
#define THRUST_MINOR_VERSION 3
