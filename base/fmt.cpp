// fmt's functions, compiled once for every layer. Debian ships fmt's headers and a shared library,
// which a program that is copied to another machine could not bring along, and header-only fmt is
// compiled again in every file that includes it. This is what fmt's own archive holds, made from
// the same header; its templates below are the ones that fmt/format.h declares extern or never
// defines.
//
// Weak, so that a user's program may link another copy of the same fmt.
// NOLINTNEXTLINE(readability-identifier-naming): the name is what fmt looks for.
#define FMT_API __attribute__((weak))
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;
template locale_ref::locale_ref(const std::locale&);
template auto locale_ref::get<std::locale>() const -> std::locale;
template auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;

}  // namespace detail
FMT_END_NAMESPACE
