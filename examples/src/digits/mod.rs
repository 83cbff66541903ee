//! Classifying handwritten digits with a small convolutional network.

mod data;
mod model;
mod train;

pub use data::{CLASSES, Digits, SIDE, Split};
pub use model::Model;
pub use train::{Score, TrainConfig, Update, evaluate, images, load, save, train};
