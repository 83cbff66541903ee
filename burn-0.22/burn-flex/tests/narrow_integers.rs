//! A backend whose integers have 16 bits by default. Settings are made once in a process, so this is a
//! program of its own.

use burn_backend::{BoolDType, FloatDType, IntDType, set_default_dtypes};
use burn_flex::{Flex, FlexDevice};
use burn_tensor::{Bool, Device, Int, Tensor};

#[test]
fn masks_select_from_more_elements_than_the_default_integers_count() {
    // Those of `Flex` itself: `Device::configure` has the settings of burn-dispatch, which pass it by.
    set_default_dtypes::<Flex>(&FlexDevice, FloatDType::F32, IntDType::I16, BoolDType::Native)
        .expect("nothing was computed before");
    let device = Device::flex();
    let numbers = Tensor::<1>::ones([40_000], &device).cumsum(0);
    let mask = numbers.clone().greater_elem(39_997.0);
    let floats = numbers.clone().mask_select(mask.clone()).into_data();
    assert_eq!(floats.iter::<f32>().collect::<Vec<_>>(), [39_998.0, 39_999.0, 40_000.0]);
    let ints = Tensor::<1, Int>::full([40_000], 7, &device).mask_select(mask.clone()).into_data();
    assert_eq!(ints.iter::<i64>().collect::<Vec<_>>(), [7; 3]);
    let bools: Tensor<1, Bool> = mask.clone().mask_select(mask);
    assert_eq!(bools.into_data().iter::<bool>().collect::<Vec<_>>(), [true; 3]);
}
