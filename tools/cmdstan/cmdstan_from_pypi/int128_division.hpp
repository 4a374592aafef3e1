// Included before all else where the compiler is ziglang's.
//
// Its C++ library divides integers of 128 bits in one place, the times of files, by a function of
// zig's runtime library; and whatever is taken from there brings all of it, an exp, a log and a
// memcpy that are up to four times slower than the system's. So that one function is here.
#ifndef BDR_STAN_INT128_DIVISION_HPP
#define BDR_STAN_INT128_DIVISION_HPP

extern "C" __attribute__((weak, used)) __int128 __divti3(__int128 a, __int128 b) {
  using Unsigned = unsigned __int128;
  const Unsigned dividend = a < 0 ? -static_cast<Unsigned>(a) : static_cast<Unsigned>(a);
  const Unsigned divisor = b < 0 ? -static_cast<Unsigned>(b) : static_cast<Unsigned>(b);
  Unsigned quotient = 0;
  Unsigned rest = 0;
  for (int bit = 127; bit >= 0; --bit) {
    rest = (rest << 1) | ((dividend >> bit) & 1);
    if (rest >= divisor) {
      rest -= divisor;
      quotient |= static_cast<Unsigned>(1) << bit;
    }
  }
  return static_cast<__int128>((a < 0) == (b < 0) ? quotient : -quotient);
}

#endif
