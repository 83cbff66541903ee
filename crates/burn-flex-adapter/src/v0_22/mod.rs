//! The backend traits of Burn 0.22.

mod backend;
mod controller;
#[path = "../shared/convert/mod.rs"]
mod convert;
mod data;
mod face;
pub mod fft;
mod ir;
mod metadata;
mod ops;
mod options;
#[path = "../shared/random.rs"]
mod random;
mod scheme;
#[path = "../shared/tensor.rs"]
mod tensor;
#[path = "../shared/vocabulary.rs"]
mod vocabulary;

pub use backend::{Flex, FlexDevice};
use burn_backend_22 as burn_backend;
use burn_std_22 as burn_std;
pub use tensor::{FlexQTensor, FlexTensor};
