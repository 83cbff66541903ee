//! Imports the model: burn-onnx writes its graph as Rust code beside its weights, into cargo's folder for
//! what a build script makes.

use burn_onnx::{LoadStrategy, ModelGen};
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=model");
    for file in ["magika.onnx", "config.json", "types.json"] {
        if !Path::new("model").join(file).is_file() {
            println!("cargo::error=examples/onnx/model/{file} is missing: examples/onnx/fetch downloads it");
            return;
        }
    }
    ModelGen::new()
        .input("model/magika.onnx")
        .out_dir("model/")
        .load_strategy(LoadStrategy::Embedded)
        .run_from_script();
}
