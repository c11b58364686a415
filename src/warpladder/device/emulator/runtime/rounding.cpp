// Arithmetic rounded down, up or to zero, by the processor's own rounding mode. Volatile operands keep each operation
// between the two changes of the mode.
#include <cfenv>

template <class T> static T rounded_to(int mode, char operation, volatile T a, volatile T b, volatile T c) {
    const int before = fegetround();
    fesetround(mode < 0 ? FE_DOWNWARD : mode > 0 ? FE_UPWARD : FE_TOWARDZERO);
    volatile T out = 0;
    switch (operation) {
        case '+': out = a + b; break;
        case '-': out = a - b; break;
        case '*': out = a * b; break;
        case '/': out = a / b; break;
        case 'r': out = std::sqrt(a); break;
        default: out = std::fma(a, b, c);
    }
    fesetround(before);
    return out;
}
EMU_EXPORT float emu_round_float(int mode, char operation, float a, float b, float c) {
    return rounded_to<float>(mode, operation, a, b, c); }
EMU_EXPORT double emu_round_double(int mode, char operation, double a, double b, double c) {
    return rounded_to<double>(mode, operation, a, b, c); }
EMU_EXPORT float emu_narrow(int mode, double a) {
    const int before = fegetround();
    fesetround(mode < 0 ? FE_DOWNWARD : mode > 0 ? FE_UPWARD : FE_TOWARDZERO);
    volatile double wide = a;
    volatile float out = float(wide);
    fesetround(before);
    return out;
}
