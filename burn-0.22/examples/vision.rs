//! burn-vision on the Flex device: counts the connected parts of a picture.
//!
//! `cargo run --release --features vision --example vision` in the folder `burn-0.22/examples`. The feature
//! takes minutes to build, because burn-vision brings codecs of pictures.

use burn::tensor::{Bool, Device, Int, Tensor};
use burn::vision::{ConnectedComponents, Connectivity};

fn main() -> Result<(), String> {
    // Two parts that touch at a corner are one part if corners count.
    let picture = [[1, 1, 0, 0], [1, 0, 1, 1], [0, 0, 1, 0], [0, 0, 0, 0]];
    let picture: Tensor<2, Bool> = Tensor::<2, Int>::from_data(picture, &Device::flex()).equal_elem(1);
    for (connectivity, expected) in [(Connectivity::Four, 2), (Connectivity::Eight, 1)] {
        let what = format!("parts of the picture, {connectivity:?} neighbours");
        let parts = picture.clone().connected_components(connectivity).max().into_scalar::<i64>();
        println!("{what}: {parts}, expected {expected}");
        if parts != expected {
            return Err(format!("{what}: {parts}"));
        }
    }
    Ok(())
}
