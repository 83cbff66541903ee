//! Operands for malformed calls, and the tensors that must survive them.

use crate::array::Array;
use crate::compare::compare_exact;
use crate::kind::{Bool, Float, Int, Kind};
use crate::release::shape_of;
use burn_backend::quantization::{QuantScheme, QuantStore};
use burn_backend::tensor::{BoolTensor, Device, FloatTensor, IntTensor, QuantizedTensor};
use burn_backend::{Backend, DType, Shape, TensorData};
use futures_lite::future::block_on;
use std::cell::RefCell;

/// Makes operands, and keeps clones of them if `shared` is set.
pub struct Fixture<B: Backend> {
    /// The device of the tensors.
    pub device: Device<B>,
    kept: Option<RefCell<Vec<Kept<B>>>>,
}

/// A tensor and the data it was made from.
enum Kept<B: Backend> {
    Float(FloatTensor<B>, TensorData),
    Int(IntTensor<B>, TensorData),
    Bool(BoolTensor<B>, TensorData),
    Quantized(QuantizedTensor<B>, TensorData),
}

impl<B: Backend> Kept<B> {
    fn verify(&self) -> Result<(), String> {
        let (now, before) = match self {
            Self::Float(tensor, before) => (<Float as Kind<B>>::into_data(tensor.clone()), before),
            Self::Int(tensor, before) => (<Int as Kind<B>>::into_data(tensor.clone()), before),
            Self::Bool(tensor, before) => (<Bool as Kind<B>>::into_data(tensor.clone()), before),
            Self::Quantized(tensor, before) => (quantized_data::<B>(tensor.clone()), before),
        };
        if now.as_bytes() == before.as_bytes() && shape_of(&now) == shape_of(before) {
            Ok(())
        } else {
            Err(format!("a tensor of shape {:?} was changed", shape_of(before)))
        }
    }
}

fn quantized_data<B: Backend>(tensor: QuantizedTensor<B>) -> TensorData {
    block_on(B::q_into_data(tensor)).expect("the tensor can be read back")
}

impl<B: Backend> Fixture<B> {
    /// With `shared`, the fixture holds clones of all operands.
    pub fn new(shared: bool) -> Self {
        Self { device: Default::default(), kept: shared.then(Default::default) }
    }

    /// Whether the operands that were handed out still hold their data.
    ///
    /// # Errors
    /// Fails if an operand has changed.
    pub fn verify(&self) -> Result<(), String> {
        self.kept.iter().try_for_each(|kept| kept.borrow().iter().try_for_each(Kept::verify))
    }

    fn keep(&self, kept: impl FnOnce() -> Kept<B>) {
        if let Some(list) = &self.kept {
            list.borrow_mut().push(kept());
        }
    }

    /// An `f32` tensor.
    pub fn f(&self, shape: &[usize]) -> FloatTensor<B> {
        self.float(DType::F32, shape)
    }

    /// A float tensor.
    pub fn float(&self, dtype: DType, shape: &[usize]) -> FloatTensor<B> {
        let mut next = -1.0;
        let array = Array::from_fn(shape, |_| {
            next += 0.25;
            next
        });
        let data = <Float as Kind<B>>::encode(&array, dtype);
        let tensor = B::float_from_data(data.clone(), &self.device);
        self.keep(|| Kept::Float(tensor.clone(), data));
        tensor
    }

    /// An `i32` tensor of zeros, which are valid as indices.
    pub fn i(&self, shape: &[usize]) -> IntTensor<B> {
        self.int(DType::I32, shape, &[0])
    }

    /// An `i32` tensor of these values, repeated as needed.
    pub fn ints(&self, shape: &[usize], values: &[i128]) -> IntTensor<B> {
        self.int(DType::I32, shape, values)
    }

    /// An integer tensor of these values, repeated as needed.
    pub fn int(&self, dtype: DType, shape: &[usize], values: &[i128]) -> IntTensor<B> {
        let mut next = values.iter().copied().cycle();
        let array = Array::from_fn(shape, |_| next.next().expect("a value"));
        let data = <Int as Kind<B>>::encode(&array, dtype);
        let tensor = B::int_from_data(data.clone(), &self.device);
        self.keep(|| Kept::Int(tensor.clone(), data));
        tensor
    }

    /// A bool tensor, true and false in turn.
    pub fn b(&self, shape: &[usize]) -> BoolTensor<B> {
        let mut next = false;
        let array = Array::from_fn(shape, |_| {
            next = !next;
            next
        });
        let data = TensorData::new(array.data().to_vec(), shape.to_vec());
        let tensor = B::bool_from_data(data.clone(), &self.device);
        self.keep(|| Kept::Bool(tensor.clone(), data));
        tensor
    }

    /// An 8-bit quantized tensor with one scale.
    pub fn q(&self, shape: &[usize]) -> QuantizedTensor<B> {
        self.quantized(shape, QuantScheme::default().with_store(QuantStore::Native))
    }

    /// A quantized tensor.
    pub fn quantized(&self, shape: &[usize], scheme: QuantScheme) -> QuantizedTensor<B> {
        let tensor = B::quantize_dynamic(self.f(shape), &scheme);
        self.keep(|| Kept::Quantized(tensor.clone(), quantized_data::<B>(tensor.clone())));
        tensor
    }
}

/// Tensors of every kind, views among them, that were made before any malformed call.
pub(super) struct Witnesses<B: Backend>(Fixture<B>);

impl<B: Backend> Witnesses<B> {
    pub fn new() -> Self {
        let fixture = Fixture::new(true);
        let float = fixture.f(&[3, 5]);
        let view = B::float_permute(float, &[1, 0]);
        let data = <Float as Kind<B>>::into_data(view.clone());
        fixture.keep(|| Kept::Float(view, data));
        fixture.int(DType::I64, &[7], &[i64::MIN.into(), -1, 0, i64::MAX.into()]);
        fixture.b(&[2, 9]);
        fixture.q(&[4, 8]);
        Self(fixture)
    }

    /// Checks that the witnesses are intact, and that the backend still computes.
    pub fn verify(&self) -> Result<(), String> {
        self.0.verify()?;
        let sample = Array::from_fn([4, 33], |index| (index[0] * 33 + index[1]) as f64);
        let upload = || B::float_from_data(<Float as Kind<B>>::encode(&sample, DType::F32), &self.0.device);
        let sum = B::float_add(upload(), B::float_expand(B::float_sum(upload()), Shape::new([4, 33])));
        let total: f64 = sample.data().iter().sum();
        let got = <Float as Kind<B>>::decode(&<Float as Kind<B>>::into_data(sum));
        compare_exact(&got, &sample.map(|x| x + total))
            .map_err(|reason| format!("addition afterwards: {reason}"))
    }
}
