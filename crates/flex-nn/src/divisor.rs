//! Divisors of sizes.

/// The greatest common divisor, by Euclid's algorithm; the other number if one is zero.
pub(crate) fn gcd(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
