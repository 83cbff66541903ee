//! The rows, by family. Each family is one generated test.

pub mod activation;
pub mod attention;
pub mod boolean;
pub mod comparison;
pub mod conv;
pub mod conv_transpose;
pub mod ctc;
pub mod deform_conv;
pub mod fft;
pub mod float_binary;
pub mod float_unary;
pub mod integer;
pub mod matmul;
pub mod norm;
pub mod pool;
pub mod quantization;
pub mod quantized;
pub mod reduction;
pub mod vision;
