//! The suite with each element type as the default one.
//!
//! Burn fixes the default dtypes of a device for the life of the process, by the backend type that uses the
//! device first: here `Flex<F, I>`. So each pair of element types runs in a separate process: this test's
//! program, started again for one test.
//!
//! `Flex<F, I>` forwards every method to the same code for all `F` and `I`. So the rows are compiled once,
//! for `Flex`, and use the defaults that `Flex<F, I>` has set. Only the parts that depend on the type are
//! checked on the type itself.

use burn_backend::{
    Backend, BoolStore, DType, DTypeUsage, FloatDType, IntDType, bf16, f16, get_device_settings,
};
use burn_flex::{Flex, FlexFloat, FlexInt};
use burn_tests::{Capabilities, pass_all};
use std::process::Command;

/// Environment variable with the name of the test that a process was started for.
const VARIABLE: &str = "BURN_TESTS_ELEMENTS";

fn in_a_process_of_its_own(test: &str, run: fn()) {
    if std::env::var(VARIABLE).as_deref() == Ok(test) {
        return run();
    }
    let program = std::env::current_exe().expect("the test knows its program");
    let arguments = [test, "--exact", "--nocapture", "--include-ignored"];
    let output = Command::new(program).args(arguments).env(VARIABLE, test).output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{}", text(&output.stderr));
    assert!(stdout.contains("1 passed"), "nothing ran:\n{stdout}");
}

fn check<F: FlexFloat, I: FlexInt>() {
    type Device = burn_flex::FlexDevice;
    let (float, int) = (F::dtype(), I::dtype());
    let settings = get_device_settings::<Flex<F, I>>(&Device::default());
    assert_eq!(DType::from(settings.float_dtype), float);
    assert_eq!(DType::from(settings.int_dtype), int);
    assert_eq!(DType::from(settings.bool_dtype), DType::Bool(BoolStore::Native));
    for dtype in [float, int] {
        assert!(Flex::<F, I>::dtype_usage(&Device::default(), dtype).contains(DTypeUsage::Arithmetic));
    }
    // The default dtypes belong to the device, so plain `Flex` has them too.
    assert_eq!(get_device_settings::<Flex>(&Device::default()), settings);

    let mut capabilities = Capabilities::full();
    capabilities.floats = vec![FloatDType::from(float)];
    capabilities.ints = vec![IntDType::from(int)];
    capabilities.bools = vec![BoolStore::Native];
    pass_all::<Flex>(&capabilities, |family, _| match family {
        "quantized" if float.size() < 4 => {
            Some("Burn computes it in the default float type; the rows ask for the accuracy of f32")
        }
        "golden" => Some("the file chooses the dtypes"),
        _ => None,
    });
}

macro_rules! elements {
    ($($name:ident: $float:ty, $int:ty;)*) => {
        $(
            #[test]
            fn $name() {
                in_a_process_of_its_own(concat!("elements::", stringify!($name)), check::<$float, $int>);
            }
        )*
    };
}

elements! {
    f32_i32: f32, i32;
    f64_i64: f64, i64;
    f16_i16: f16, i16;
    bf16_i8: bf16, i8;
    f32_u8: f32, u8;
    f64_u16: f64, u16;
    f16_u32: f16, u32;
    bf16_u64: bf16, u64;
}
