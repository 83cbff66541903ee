//! The parts of a case's name. Peers that are not Burn backends find their call by the name; for GPUs the
//! name tells which dtypes the case needs.

use burn_tensor::DType;

/// A parsed case name: `op[.dtype][.layout]_numbers`.
#[derive(Clone, Debug, PartialEq)]
pub struct Name<'a> {
    /// The operation, with its axis or target dtype: `exp`, `sum_dim0`, `cast_f16`.
    pub op: &'a str,
    /// Dtype of the operands; f32 if the name has none.
    pub dtype: DType,
    /// Memory layout of an operand, empty if contiguous: `t`, `tt`, `sliced`, `flipped`.
    pub layout: &'a str,
    /// The numbers after the operation, in order, without the letters between them.
    pub numbers: Vec<usize>,
}

impl<'a> Name<'a> {
    /// Splits a name into its parts. An unknown operation is not an error; no peer will have it.
    pub fn parse(name: &'a str) -> Self {
        let (name, mut layout) = match name.strip_suffix("_T") {
            Some(name) => (name, "t"),
            None => (name, ""),
        };
        let mut op = name;
        let mut numbers = Vec::new();
        while let Some((before, last)) = op.rsplit_once('_') {
            let Some(found) = numbers_of(last) else { break };
            numbers.splice(0..0, found);
            op = before;
        }
        let mut dtype = DType::F32;
        while let Some((before, last)) = op.rsplit_once('.') {
            match dtype_of(last) {
                Some(found) => dtype = found,
                None => layout = last,
            }
            op = before;
        }
        Self { op, dtype, layout, numbers }
    }

    /// The dtypes in the name: the dtype of the operands, and the target dtype of a cast.
    #[cfg_attr(not(any(feature = "wgpu", feature = "cuda")), allow(dead_code, reason = "GPUs ask for it"))]
    pub fn dtypes(&self) -> impl Iterator<Item = DType> {
        [Some(self.dtype), self.op.strip_prefix("cast_").and_then(dtype_of)].into_iter().flatten()
    }

    /// The number, if there is exactly one.
    pub fn length(&self) -> Option<usize> {
        if let [n] = self.numbers[..] { Some(n) } else { None }
    }
}

/// The numbers of a part such as `1024`, `12x512x64`, `b1` or `k3s2`; `None` if the part is a word.
fn numbers_of(part: &str) -> Option<Vec<usize>> {
    let letters = part.chars().take_while(char::is_ascii_alphabetic).count();
    let ends_in_digit = part.ends_with(|c: char| c.is_ascii_digit());
    if letters > 1 || !ends_in_digit || dtype_of(part).is_some() {
        return None;
    }
    part[letters..].split(|c: char| c.is_ascii_alphabetic()).map(|digits| digits.parse().ok()).collect()
}

fn dtype_of(part: &str) -> Option<DType> {
    Some(match part {
        "f64" => DType::F64,
        "f32" => DType::F32,
        "f16" => DType::F16,
        "bf16" => DType::BF16,
        "i64" => DType::I64,
        "i32" => DType::I32,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_apart() {
        let check = |name, op, dtype, layout, numbers: &[usize]| {
            let expected = Name { op, dtype, layout, numbers: numbers.to_vec() };
            assert_eq!(Name::parse(name), expected, "{name}");
        };
        check("exp_65536", "exp", DType::F32, "", &[65_536]);
        check("mul_scalar.bf16_64", "mul_scalar", DType::BF16, "", &[64]);
        check("cast_f16_4096", "cast_f16", DType::F32, "", &[4096]);
        check("cast_f64.f16_4096", "cast_f64", DType::F16, "", &[4096]);
        check("sum_dim0.t_1024", "sum_dim0", DType::F32, "t", &[1024]);
        check("sum_dim1.i64_1024", "sum_dim1", DType::I64, "", &[1024]);
        check("gemv_1x4096x4096_T", "gemv", DType::F32, "t", &[1, 4096, 4096]);
        check("conv2d_b1_c3_h224_o64_k7_s2", "conv2d", DType::F32, "", &[1, 3, 224, 64, 7, 2]);
        check("maxpool_4x64x112_k3s2", "maxpool", DType::F32, "", &[4, 64, 112, 3, 2]);
        check("digits_train_epoch", "digits_train_epoch", DType::F32, "", &[]);
    }

    #[test]
    fn a_cast_names_two_dtypes() {
        let dtypes = |name| Name::parse(name).dtypes().collect::<Vec<_>>();
        assert_eq!(dtypes("exp_4096"), [DType::F32]);
        assert_eq!(dtypes("sum_dim1.i64_1024"), [DType::I64]);
        assert_eq!(dtypes("cast_f64.bf16_4096"), [DType::BF16, DType::F64]);
        assert_eq!(dtypes("cast_f16_4096"), [DType::F32, DType::F16]);
    }
}
