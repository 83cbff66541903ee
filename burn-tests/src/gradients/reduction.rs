//! Reductions and scans.

use super::check::Cases;
use super::{distinct, smooth};
use burn_backend::Backend;
use burn_backend::IntDType;

/// Cases of this family.
pub fn cases<B: Backend>(cases: &mut Cases<B>) {
    for shape in [&[1][..], &[13], &[3, 5], &[2, 3, 4], &[2, 1, 3, 2]] {
        let name = format!("{shape:?}");
        let any = || [smooth(shape, (-2.0, 2.0), 1)];
        let apart = || [distinct(shape, 1)];
        // The default product is exp(sum(log)), which needs positive values.
        let near_one = || [smooth(shape, (0.8, 1.25), 1)];
        macro_rules! whole {
            ($inputs:ident: $($method:ident),*) => {
                $(cases.add(&[stringify!($method)], name.clone(), $inputs(), |[x]| B::$method(x));)*
            };
        }
        whole!(any: float_sum, float_mean);
        whole!(near_one: float_prod);
        whole!(apart: float_max, float_min, float_max_abs);
        for axis in 0..shape.len() {
            let name = format!("{shape:?} axis {axis}");
            macro_rules! along {
                ($inputs:ident: $($method:ident),*) => {
                    $(cases.add(&[stringify!($method)], name.clone(), $inputs(), move |[x]| B::$method(x, axis));)*
                };
            }
            along!(any: float_sum_dim, float_mean_dim, float_cumsum);
            along!(near_one: float_prod_dim, float_cumprod);
            along!(apart: float_max_dim, float_min_dim, float_max_abs_dim, float_cummax, float_cummin);
            for int in [IntDType::I64, IntDType::I32] {
                cases.add(&["float_max_dim_with_indices"], format!("{name} {int:?}"), apart(), move |[x]| {
                    B::float_max_dim_with_indices(x, axis, int).0
                });
                cases.add(&["float_min_dim_with_indices"], format!("{name} {int:?}"), apart(), move |[x]| {
                    B::float_min_dim_with_indices(x, axis, int).0
                });
            }
        }
    }
    let with_zeros = smooth(&[2, 4], (0.8, 1.25), 1);
    let mut k = 0;
    let with_zeros = with_zeros.map(|x| {
        k += 1;
        if k == 3 { 0.0 } else { x }
    });
    cases.add(&["float_cumprod"], "with a zero", [with_zeros], |[x]| B::float_cumprod(x, 1));
    cases.known_wrong("the derivative divides by the input: 0 / 0 where it is zero");
}
