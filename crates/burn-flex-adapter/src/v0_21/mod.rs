//! The backend traits of Burn 0.21.

mod backend;
mod controller;
#[path = "../shared/convert/mod.rs"]
mod convert;
mod data;
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

pub use backend::{Flex, FlexDevice, FlexFloat, FlexInt};
use burn_backend_21 as burn_backend;
use burn_std_21 as burn_std;
pub use tensor::{FlexQTensor, FlexTensor};
