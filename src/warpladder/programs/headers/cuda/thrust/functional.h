// Functions as objects, and the expressions with _1 and _2 that stand for one.
#pragma once
#include <functional>

#include "iterators.h"

namespace thrust {

template <class T = void> using plus = std::plus<T>;
template <class T = void> using minus = std::minus<T>;
template <class T = void> using multiplies = std::multiplies<T>;
template <class T = void> using divides = std::divides<T>;
template <class T = void> using modulus = std::modulus<T>;
template <class T = void> using negate = std::negate<T>;
template <class T = void> using less = std::less<T>;
template <class T = void> using less_equal = std::less_equal<T>;
template <class T = void> using greater = std::greater<T>;
template <class T = void> using greater_equal = std::greater_equal<T>;
template <class T = void> using equal_to = std::equal_to<T>;
template <class T = void> using not_equal_to = std::not_equal_to<T>;
template <class T = void> using logical_and = std::logical_and<T>;
template <class T = void> using logical_or = std::logical_or<T>;
template <class T = void> using logical_not = std::logical_not<T>;
template <class T = void> using bit_and = std::bit_and<T>;
template <class T = void> using bit_or = std::bit_or<T>;
template <class T = void> using bit_xor = std::bit_xor<T>;
template <class T = void> struct maximum { template <class U> U operator()(const U& a, const U& b) const {
    return a < b ? b : a; } };
template <class T = void> struct minimum { template <class U> U operator()(const U& a, const U& b) const {
    return b < a ? b : a; } };
template <class T = void> struct identity { template <class U> U operator()(const U& a) const { return a; } };
template <class T = void> struct square { template <class U> U operator()(const U& a) const { return a * a; } };
template <class A, class R> struct unary_function { using argument_type = A; using result_type = R; };
template <class A, class B, class R> struct binary_function {
    using first_argument_type = A;
    using second_argument_type = B;
    using result_type = R;
};
// A function of several numbers as one of a tuple.
template <class F> struct zip_function {
    mutable F f;
    template <class T> decltype(auto) operator()(T&& tuple) const { return std::apply(f, std::forward<T>(tuple)); }
};
template <class F> zip_function<F> make_zip_function(F f) { return {f}; }
template <class P> auto not_fn(P p) { return std::not_fn(p); }
template <class P> auto not1(P p) { return std::not_fn(p); }
template <class P> auto not2(P p) { return std::not_fn(p); }

namespace placeholders {

template <class F> struct Expression : F {
    using F::operator();
    explicit Expression(F f) : F(f) {}
};
template <class> constexpr bool is_expression = false;
template <class F> constexpr bool is_expression<Expression<F>> = true;
template <int n> struct Argument {
    template <class... A> auto operator()(const A&... a) const { return std::get<n>(std::tuple<const A&...>(a...)); }
};
static const Expression<Argument<0>> _1{Argument<0>{}};
static const Expression<Argument<1>> _2{Argument<1>{}};
static const Expression<Argument<2>> _3{Argument<2>{}};
template <class X, class... A> auto value(const X& x, const A&... a) {
    if constexpr (is_expression<X>) return x(a...);
    else return x;
}
#define EMU_OPERATOR(symbol)                                                                                      \
    template <class X, class Y> requires(is_expression<X> || is_expression<Y>) auto operator symbol(X x, Y y) {   \
        return Expression([=](const auto&... a) { return value(x, a...) symbol value(y, a...); });                \
    }
EMU_OPERATOR(+)
EMU_OPERATOR(-)
EMU_OPERATOR(*)
EMU_OPERATOR(/)
EMU_OPERATOR(%)
EMU_OPERATOR(<)
EMU_OPERATOR(>)
EMU_OPERATOR(<=)
EMU_OPERATOR(>=)
EMU_OPERATOR(==)
EMU_OPERATOR(!=)
EMU_OPERATOR(&&)
EMU_OPERATOR(||)
EMU_OPERATOR(&)
EMU_OPERATOR(|)
EMU_OPERATOR(^)
#undef EMU_OPERATOR
template <class X> requires(is_expression<X>) auto operator-(X x) {
    return Expression([=](const auto&... a) { return -value(x, a...); }); }
template <class X> requires(is_expression<X>) auto operator!(X x) {
    return Expression([=](const auto&... a) { return !value(x, a...); }); }

}  // namespace placeholders

}  // namespace thrust
