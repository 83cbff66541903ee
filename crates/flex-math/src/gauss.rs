//! The tail of the normal distribution, which gelu and its derivative are made of.
//!
//! `Phi(-a) = exp(-a^2 / 2) r(a)`, where r is `erfcx(a / sqrt 2) / 2`, a smooth function that decays like `1/a`. With a
//! [table](avx512::lookup) in registers, r is a polynomial of low degree in each of sixteen pieces that get longer with `a`
//! (`tools/coefficients.py`). That takes half as many instructions as the division, the correction of its rounding errors and
//! the long polynomial of [`erfcx`]: gelu of f32 went from 0.69 to 0.36 ns per element on one thread of Zen 5.

use crate::Float;
use crate::avx512;
use crate::erf::{ErfConsts, erfcx, exp_neg_prod};
use crate::exp::Scaled;
use crate::float::*;
use crate::simd::*;

/// Constants of the tail.
pub trait GaussConsts: ErfConsts {
    /// `x Phi(x)` rounds to zero at minus this argument. Below 15 where there are pieces.
    const GELU_MAX: Self;
    const FRAC_1_SQRT_8: Self;
    /// `1 / sqrt(2 pi)`.
    const FRAC_1_SQRT_TAU: Self;
    /// r in pieces: their centres, then the coefficients from the lowest power up.
    const TAIL_PIECES: Option<&'static [[Self; 16]]>;
}

impl GaussConsts for f32 {
    const GELU_MAX: f32 = 14.5;
    const FRAC_1_SQRT_8: f32 = core::f32::consts::FRAC_1_SQRT_2 / 2.0;
    const FRAC_1_SQRT_TAU: f32 = 0.398_942_28;
    /// Degree 6, relative error 2^-27.7.
    #[rustfmt::skip]
    const TAIL_PIECES: Option<&'static [[f32; 16]]> = Some(&[
        [
            1.25, 1.75, 2.25, 2.75, 3.5, 4.5, 5.5, 6.5,
            8.0, 1.0e+1, 1.2e+1, 1.4e+1, 1.25e-1, 3.75e-1, 6.25e-1, 8.75e-1,
        ],
        [
            2.307603213e-1, 1.852316647e-1, 1.536519374e-1, 1.307247341e-1, 1.063451536e-1, 8.480339211e-2, 7.034269403e-2, 6.001567534e-2,
            4.912254621e-2, 3.95066941e-2, 3.301897108e-2, 2.835266053e-2, 4.53793222e-1, 3.796044279e-1, 3.233561687e-1, 2.797705703e-1,
        ],
        [
            -1.104918835e-1, -7.478686884e-2, -5.322542181e-2, -3.944926187e-2, -2.673424744e-2, -1.732701704e-2, -1.205746358e-2, -8.840390777e-3,
            -5.96191232e-3, -3.875339706e-3, -2.714627556e-3, -2.005033044e-3, -3.422181288e-1, -2.565906205e-1, -1.968446753e-1, -1.541430316e-1,
        ],
        [
            4.632273525e-2, 2.717732331e-2, 1.694736983e-2, 1.111963232e-2, 6.387652313e-3, 3.415910323e-3, 2.013323066e-3, 1.276568001e-3,
            7.136304352e-4, 3.766501375e-4, 2.217206951e-4, 1.410991348e-4, 2.055079772e-1, 1.416914723e-1, 1.001641233e-1, 7.244770883e-2,
        ],
        [
            -1.752888477e-2, -9.075308312e-3, -5.031200887e-3, -2.95672552e-3, -1.459001093e-3, -6.517705089e-4, -3.280519137e-4, -1.808961908e-4,
            -8.427651028e-5, -3.627687712e-5, -1.799241904e-5, -9.881517744e-6, -1.055092976e-1, -6.781847201e-2, -4.474720549e-2, -3.025034076e-2,
        ],
        [
            6.102659342e-3, 2.823766262e-3, 1.406736891e-3, 7.471326878e-4, 3.20132184e-4, 1.206902373e-4, 5.224396339e-5, 2.517979456e-5,
            9.827372786e-6, 3.463756561e-6, 1.450921951e-6, 6.887580515e-7, 4.807982562e-2, 2.906485374e-2, 1.804924719e-2, 1.149463947e-2,
        ],
        [
            -1.999446197e-3, -8.334489147e-4, -3.757384077e-4, -1.814513177e-4, -6.89383397e-5, -2.202387416e-5, -8.224666718e-6, -3.47271031e-6,
            -1.157720069e-6, -3.329961749e-7, -1.175763173e-7, -4.818303773e-8, -1.997412101e-2, -1.142236269e-2, -6.713850479e-3, -4.049778787e-3,
        ],
        [
            6.087508409e-4, 2.308925114e-4, 9.500750637e-5, 4.202362828e-5, 1.406732219e-5, 3.85921832e-6, 1.254925584e-6, 4.672876365e-7,
            1.316044258e-7, 3.124579846e-8, 9.362927111e-9, 3.326772562e-9, 7.614657392e-3, 4.141068985e-3, 2.315522138e-3, 1.329305653e-3,
        ],
    ]);
}

impl GaussConsts for f64 {
    const GELU_MAX: f64 = 39.0;
    const FRAC_1_SQRT_8: f64 = core::f64::consts::FRAC_1_SQRT_2 / 2.0;
    const FRAC_1_SQRT_TAU: f64 = 0.398_942_280_401_432_68;
    /// Eight lanes would take two registers for each row of a table, and pieces polynomials of degree 14.
    const TAIL_PIECES: Option<&'static [[f64; 16]]> = None;
}

/// `Phi(-|x|) = e r`, with `a = |x|` limited to where it matters.
pub(crate) struct Tail<S: Simd, T: Float> {
    pub a: Vector<S, T>,
    pub e: Scaled<S, T>,
    pub r: Vector<S, T>,
}

impl<S: Simd, T: Float> Tail<S, T> {
    #[inline(always)]
    pub fn of(x: Vector<S, T>) -> Self {
        let a = at_most(abs(x), T::GELU_MAX);
        let half = splat(0.5);
        let e = exp_neg_prod(a * half, a);
        let r = match T::TAIL_PIECES {
            Some(table) if avx512::available::<S>() => in_pieces(a, table),
            _ => erfcx(a, T::FRAC_1_SQRT_8) * half,
        };
        Self { a, e, r }
    }
}

/// The function of `table` at `a` in `[0, 15)`.
#[inline(always)]
fn in_pieces<S: Simd, T: Float>(a: Vector<S, T>, table: &'static [[T; 16]]) -> Vector<S, T> {
    let index = bits(a + splat(1.0)) >> (T::MANTISSA - 2);
    let t = a - avx512::lookup(&table[0], index);
    let mut i = table.len() - 1;
    let mut r = avx512::lookup(&table[i], index);
    while i > 1 {
        i -= 1;
        r = madd(r, t, avx512::lookup(&table[i], index));
    }
    r
}
