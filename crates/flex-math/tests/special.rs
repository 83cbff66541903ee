//! Special values, on every instruction set of the machine.

mod common;

use common::*;
use flex_math::*;

/// Checks that `f(x)` is exactly `y`, including NaN and the sign of zero, for f32 and f64.
fn expect<F: UnaryFn<f32> + UnaryFn<f64>>(name: &str, f: F, cases: &[(f64, f64)]) {
    let x64: Vec<f64> = cases.iter().map(|c| c.0).collect();
    let x32: Vec<f32> = cases.iter().map(|c| c.0 as f32).collect();
    on_each_isa(f, &x64, |isa, y| {
        for (y, c) in y.iter().zip(cases) {
            assert!(same(*y, c.1), "{name}({:e}) is {y:e} on {isa} in f64, expected {:e}", c.0, c.1);
        }
    });
    on_each_isa(f, &x32, |isa, y| {
        for (y, c) in y.iter().zip(cases) {
            assert!(same(*y, c.1 as f32), "{name}({:e}) is {y:e} on {isa} in f32, expected {:e}", c.0, c.1);
        }
    });
}

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;
const PI: f64 = std::f64::consts::PI;

/// Over all numbers that are not positive, NaN, and where results become subnormal, zero and clamped.
#[test]
fn exp_of_non_positive_numbers_has_the_bits_of_exp() {
    const COUNT: u32 = 200_000;
    let ends = [-f64::INFINITY, -f64::MAX, -760.5, -760.0, -745.2, -708.4, -125.0, -104.0, -87.4, -1e-300];
    let mut single: Vec<f32> =
        (0..COUNT).map(|i| f32::from_bits((1 << 31) + i * (0x7fff_ffff / COUNT))).collect();
    single.extend(ends.map(|x| x as f32));
    let mut double: Vec<f64> =
        (0..COUNT as u64).map(|i| f64::from_bits((1 << 63) + i * ((1 << 63) / COUNT as u64))).collect();
    double.extend(ends);
    fn check<T: Float>(x: &[T])
    where
        Exp: UnaryFn<T>,
        ExpNonPositive: UnaryFn<T>,
    {
        let mut want = Vec::new();
        on_each_isa(Exp, x, |_, y| want.push(y));
        let mut want = want.into_iter();
        on_each_isa(ExpNonPositive, x, |isa, y| {
            for ((x, y), want) in x.iter().zip(y).zip(want.next().unwrap()) {
                assert!(same(y, want), "exp({x}) is {y} on {isa}, and {want} by Exp");
            }
        });
    }
    check(&single);
    check(&double);
}

#[test]
fn exponentials() {
    expect(
        "exp",
        Exp,
        &[
            (0.0, 1.0),
            (-0.0, 1.0),
            (INF, INF),
            (-INF, 0.0),
            (NAN, NAN),
            (1e30, INF),
            (-1e30, 0.0),
            (1e-300, 1.0),
        ],
    );
    expect(
        "exp2",
        Exp2,
        &[
            (0.0, 1.0),
            (-0.0, 1.0),
            (INF, INF),
            (-INF, 0.0),
            (NAN, NAN),
            (10.0, 1024.0),
            (-3.0, 0.125),
            (1e30, INF),
            (-1e30, 0.0),
        ],
    );
    expect(
        "expm1",
        Expm1,
        &[(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (NAN, NAN), (-1e30, -1.0), (1e30, INF)],
    );
}

#[test]
fn logarithms() {
    expect(
        "ln",
        Ln,
        &[(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-INF, NAN), (-1.0, NAN), (NAN, NAN)],
    );
    expect(
        "log2",
        Log2,
        &[
            (0.0, -INF),
            (-0.0, -INF),
            (1.0, 0.0),
            (INF, INF),
            (-1.0, NAN),
            (NAN, NAN),
            (8.0, 3.0),
            (0.25, -2.0),
        ],
    );
    expect(
        "log10",
        Log10,
        &[(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-1.0, NAN), (NAN, NAN), (1000.0, 3.0)],
    );
    expect(
        "log1p",
        Log1p,
        &[(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (INF, INF), (-2.0, NAN), (-INF, NAN), (NAN, NAN)],
    );
}

#[test]
fn powers_of_two() {
    let x: Vec<f32> = (-149..=127).map(|n| 2f64.powi(n) as f32).collect();
    on_each_isa(Log2, &x, |isa, y| {
        assert!(y.iter().zip(-149..=127).all(|(y, n)| *y == n as f32), "{isa}");
        on_each_isa(Exp2, &y, |isa, z| assert_eq!(z, x, "{isa}"));
    });
    let x: Vec<f64> = (-1074..=1023)
        .map(|n| if n < -1022 { f64::from_bits(1 << (n + 1074)) } else { 2f64.powi(n) })
        .collect();
    on_each_isa(Log2, &x, |isa, y| {
        assert!(y.iter().zip(-1074..=1023).all(|(y, n)| *y == n as f64), "{isa}");
        on_each_isa(Exp2, &y, |isa, z| assert_eq!(z, x, "{isa}"));
    });
}

#[test]
fn trigonometry() {
    expect("sin", Sin, &[(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)]);
    expect("cos", Cos, &[(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN)]);
    expect("tan", Tan, &[(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)]);
    expect(
        "asin",
        Asin,
        &[(0.0, 0.0), (-0.0, -0.0), (1.0, PI / 2.0), (-1.0, -PI / 2.0), (1.5, NAN), (-INF, NAN), (NAN, NAN)],
    );
    expect("acos", Acos, &[(1.0, 0.0), (-1.0, PI), (0.0, PI / 2.0), (1.5, NAN), (-INF, NAN), (NAN, NAN)]);
    expect(
        "atan",
        Atan,
        &[(0.0, 0.0), (-0.0, -0.0), (INF, PI / 2.0), (-INF, -PI / 2.0), (NAN, NAN), (1.0, PI / 4.0)],
    );
}

/// A lane that needs the slow reduction does not change its neighbours.
#[test]
fn huge_angles_do_not_touch_their_neighbours() {
    let mut x: Vec<f64> = (0..64).map(|i| i as f64 * 0.37).collect();
    let alone: Vec<f64> = x.iter().map(|&x| eval_scalar(Sin, x)).collect();
    x[11] = 1e300;
    map_in_place(Sin, &mut x);
    assert_eq!(x[11], libm::sin(1e300));
    assert!((0..64).all(|i| i == 11 || x[i] == alone[i]));
}

#[test]
fn hyperbolics() {
    expect("sinh", Sinh, &[(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (-1e30, -INF)]);
    expect("cosh", Cosh, &[(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF), (NAN, NAN)]);
    expect("tanh", Tanh, &[(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN)]);
    expect("asinh", Asinh, &[(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)]);
    expect("acosh", Acosh, &[(1.0, 0.0), (0.5, NAN), (-INF, NAN), (INF, INF), (NAN, NAN)]);
    expect(
        "atanh",
        Atanh,
        &[(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (INF, NAN), (NAN, NAN)],
    );
}

#[test]
fn error_functions_and_activations() {
    expect("erf", Erf, &[(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN)]);
    expect("erfc", Erfc, &[(0.0, 1.0), (-0.0, 1.0), (INF, 0.0), (-INF, 2.0), (NAN, NAN)]);
    expect("sigmoid", Sigmoid, &[(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0), (NAN, NAN)]);
    expect("softplus", Softplus, &[(INF, INF), (-INF, 0.0), (NAN, NAN), (1e30, 1e30f32 as f64)][..3]);
    expect("logsigmoid", LogSigmoid, &[(INF, -0.0), (-INF, -INF), (NAN, NAN)]);
    expect("silu", Silu, &[(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -0.0), (NAN, NAN)]);
    expect("gelu", Gelu, &[(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -0.0), (NAN, NAN)]);
    expect("gelu_tanh", GeluTanh, &[(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -0.0), (NAN, NAN)]);
    expect("sqrt", Sqrt, &[(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-1.0, NAN), (NAN, NAN)]);
    expect("recip", Recip, &[(0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, -0.0), (NAN, NAN)]);
}

/// Every pair of interesting operands, compared with libm where the result is special.
#[test]
fn pow_atan2_and_hypot_follow_c() {
    let values = [
        0.0,
        0.5,
        1.0,
        1.5,
        2.0,
        3.0,
        4.0,
        7.0,
        1e9,
        16777215.0,
        16777217.0,
        9007199254740991.0,
        1e300,
        f64::MIN_POSITIVE,
        5e-324,
        f64::MAX,
        INF,
        NAN,
    ];
    let values: Vec<f64> = values.iter().flat_map(|&v| [v, -v]).collect();
    let pairs: Vec<(f64, f64)> = values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b))).collect();
    let special = |v: f64| v == 0.0 || v.is_nan() || v.is_infinite() || v.abs() == 1.0;

    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let check = |name: &str, isa: &str, got: &[f64], f: fn(f64, f64) -> f64| {
        for (i, got) in got.iter().enumerate() {
            let want = f(a[i], b[i]);
            let fine = if special(want) { same(*got, want) } else { ulp_error_f64(*got, want, 0.0) < 4.0 };
            assert!(fine, "{name}({:e}, {:e}) is {got:e} on {isa}, expected {want:e}", a[i], b[i]);
        }
    };
    on_each_isa2(Pow, &a, &b, |isa, got| check("pow", isa, &got, libm::pow));
    on_each_isa2(Atan2, &a, &b, |isa, got| check("atan2", isa, &got, libm::atan2));
    on_each_isa2(Hypot, &a, &b, |isa, got| check("hypot", isa, &got, libm::hypot));

    let (a, b): (Vec<f32>, Vec<f32>) = pairs.iter().map(|p| (p.0 as f32, p.1 as f32)).unzip();
    let check = |name: &str, isa: &str, got: &[f32], f: fn(f32, f32) -> f32| {
        for (i, got) in got.iter().enumerate() {
            let want = f(a[i], b[i]);
            let fine =
                if special(want as f64) { same(*got, want) } else { ulp_error_f32(*got, want as f64) < 4.0 };
            assert!(fine, "{name}({:e}, {:e}) is {got:e} on {isa} in f32, expected {want:e}", a[i], b[i]);
        }
    };
    on_each_isa2(Pow, &a, &b, |isa, got| check("pow", isa, &got, libm::powf));
    on_each_isa2(Atan2, &a, &b, |isa, got| check("atan2", isa, &got, libm::atan2f));
    on_each_isa2(Hypot, &a, &b, |isa, got| check("hypot", isa, &got, libm::hypotf));
}
