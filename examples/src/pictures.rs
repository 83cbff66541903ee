//! Pictures as ImageNet's models want them.

use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
#[cfg(feature = "classify")]
use std::path::Path;

/// Width and height of a picture.
pub const SIDE: usize = 224;
/// The shorter side before the middle is cut out.
#[cfg(feature = "classify")]
const SHORTER: u32 = 256;
/// The most that the longer side may be, as a multiple of the shorter. Every picture grows to a shorter side
/// of 256 pixels before its middle is cut out: a line of 65,535 pixels would take gigabytes.
#[cfg(feature = "classify")]
const LONGEST: u32 = 64;
/// Mean and standard deviation of ImageNet's red, green and blue, as torchvision has them.
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];

/// `SIDE * SIDE` pixels.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Red, green and blue of each pixel, row by row.
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    /// A test picture: a red disc on a ground that fades from blue to green.
    pub fn generated() -> Self {
        let pixel = |k: usize| {
            let (x, y) = (k % SIDE, k / SIDE);
            let from_middle = |v: usize| v.abs_diff(SIDE / 2);
            if from_middle(x).pow(2) + from_middle(y).pow(2) < (SIDE / 3).pow(2) {
                return [220, 40, 30];
            }
            [30, y as u8, 255 - y as u8]
        };
        Self { pixels: (0..SIDE * SIDE).map(pixel).collect() }
    }

    /// A PNG or JPEG file: its shorter side becomes 256 pixels, and the middle 224 by 224 are taken.
    ///
    /// # Errors
    /// The file can't be read, or is no such picture, or one side has 64 times the other's pixels or more.
    #[cfg(feature = "classify")]
    pub fn open(path: &Path) -> Result<Self, String> {
        let describe = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let file = image::ImageReader::open(path).map_err(|error| describe(&error))?;
        let file = file.with_guessed_format().map_err(|error| describe(&error))?;
        let picture = file.decode().map_err(|error| describe(&error))?;
        let (width, height) = (picture.width().max(1), picture.height().max(1));
        let longer = |side: u32, shorter: u32| (side as u64 * SHORTER as u64 / shorter as u64) as u32;
        let shorter = width.min(height);
        if width.max(height) / shorter >= LONGEST {
            return Err(describe(&format!(
                "a picture of {width} by {height} pixels, and the longer side may have less than {LONGEST} \
                 times the shorter's"
            )));
        }
        let (width, height) = (longer(width, shorter), longer(height, shorter));
        // Bilinear, over all pixels that a new one covers.
        let picture = picture.resize_exact(width, height, image::imageops::FilterType::Triangle);
        let (left, top) = ((width - SIDE as u32) / 2, (height - SIDE as u32) / 2);
        let picture = picture.crop_imm(left, top, SIDE as u32, SIDE as u32).into_rgb8();
        Ok(Self { pixels: picture.pixels().map(|pixel| pixel.0).collect() })
    }

    /// The picture as a tensor of shape `[1, 3, SIDE, SIDE]`, less ImageNet's mean and divided by its
    /// deviation.
    pub fn normalised<B: Backend>(&self, device: &B::Device) -> Tensor<B, 4> {
        let plane = |colour: usize| {
            let value =
                move |pixel: &[u8; 3]| (pixel[colour] as f32 / 255.0 - MEAN[colour]) / DEVIATION[colour];
            self.pixels.iter().map(value)
        };
        let values: Vec<f32> = (0..3).flat_map(plane).collect();
        Tensor::from_data(TensorData::new(values, [1, 3, SIDE, SIDE]), device)
    }
}

#[cfg(all(test, feature = "classify"))]
mod tests {
    use super::*;

    #[test]
    fn lines_are_refused_and_long_pictures_are_cut() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("picture.png");
        image::RgbImage::new(1, 65_535).save(&path).expect("a picture");
        let error = Picture::open(&path).expect_err("a refusal");
        assert!(error.contains("1 by 65535 pixels"), "{error}");
        image::RgbImage::new(10, 630).save(&path).expect("a picture");
        assert_eq!(Picture::open(&path).expect("a picture").pixels.len(), SIDE * SIDE);
    }
}
