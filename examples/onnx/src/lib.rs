//! Tells file types by the model of [Magika](https://pypi.org/project/magika/), an ONNX file that burn-onnx
//! turns into Rust code when this package is built. The first and the last bytes of a file go in, and a score
//! for each of some 200 types comes out.

mod content;
mod types;

pub use content::Content;
pub use types::{Answer, FileTypes};

/// What burn-onnx wrote: `Model`, its weights, and `forward`.
#[allow(missing_docs, dead_code, clippy::all)]
mod imported {
    include!(concat!(env!("OUT_DIR"), "/model/magika.rs"));
}
