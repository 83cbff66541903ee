//! The data set: 1,797 images of 8x8 pixels, embedded in the program. Of no Burn release: the examples of
//! both use this file.

use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};

/// Width and height of an image.
pub const SIDE: usize = 8;
/// Number of classes.
pub const CLASSES: usize = 10;

/// Largest pixel value in the file.
const WHITE: f32 = 16.0;
/// The split is the same for every run and every backend.
const SPLIT_SEED: u64 = 1998;

static FILE: &[u8] = include_bytes!("../../digits/digits.csv.gz");

/// Images with their labels.
#[derive(Clone, Debug)]
pub struct Digits {
    /// `SIDE * SIDE` pixels per image, in 0..=1.
    pixels: Vec<f32>,
    labels: Vec<i32>,
}

/// The two parts of the data.
#[derive(Clone, Debug)]
pub struct Split {
    /// Four fifths, for training.
    pub train: Digits,
    /// One fifth, for evaluation.
    pub test: Digits,
}

impl Digits {
    /// Reads the whole set.
    ///
    /// # Panics
    /// Panics if the file inside the program is damaged.
    pub fn load() -> Self {
        let mut reader =
            csv::ReaderBuilder::new().has_headers(false).from_reader(flate2::read::GzDecoder::new(FILE));
        let (mut pixels, mut labels) = (Vec::new(), Vec::new());
        for (line, row) in reader.deserialize::<Vec<u8>>().enumerate() {
            let row = row.unwrap_or_else(|e| panic!("digits.csv.gz, line {}: {e}", line + 1));
            assert_eq!(row.len(), SIDE * SIDE + 1, "digits.csv.gz, line {}", line + 1);
            pixels.extend(row[..SIDE * SIDE].iter().map(|&p| p as f32 / WHITE));
            labels.push(row[SIDE * SIDE] as i32);
        }
        Self { pixels, labels }
    }

    /// Shuffles with a fixed seed and splits off one fifth for testing.
    pub fn split(&self) -> Split {
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.shuffle(&mut StdRng::seed_from_u64(SPLIT_SEED));
        let (test, train) = order.split_at(self.len().div_ceil(5));
        Split { train: self.pick(train), test: self.pick(test) }
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no image.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The images at these positions, in this order.
    pub fn pick(&self, order: &[usize]) -> Self {
        let image = |&i: &usize| &self.pixels[i * SIDE * SIDE..(i + 1) * SIDE * SIDE];
        Self {
            pixels: order.iter().flat_map(image).copied().collect(),
            labels: order.iter().map(|&i| self.labels[i]).collect(),
        }
    }

    /// The pixels of all images, row by row: `len() * SIDE * SIDE` of them, in 0..=1.
    pub fn pixels(&self) -> &[f32] {
        &self.pixels
    }

    /// The class of each image, in `0..CLASSES`.
    pub fn labels(&self) -> &[i32] {
        &self.labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_holds_1797_digits_in_ten_classes() {
        let digits = Digits::load();
        assert_eq!(digits.len(), 1797);
        assert!(digits.pixels.iter().all(|p| (0.0..=1.0).contains(p)));
        let mut counts = [0; CLASSES];
        digits.labels.iter().for_each(|&l| counts[l as usize] += 1);
        // Class sizes as the repository documents them for this part of the data.
        assert_eq!(counts, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
    }

    #[test]
    fn the_split_is_fixed_and_loses_nothing() {
        let digits = Digits::load();
        let (a, b) = (digits.split(), digits.split());
        assert_eq!((a.train.len(), a.test.len()), (1437, 360));
        assert_eq!(a.test.pixels, b.test.pixels);
        let sum = |d: &Digits| d.pixels.iter().map(|&p| p as f64).sum::<f64>();
        assert_eq!(sum(&a.train) + sum(&a.test), sum(&digits));
    }
}
