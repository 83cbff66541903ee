//! Fourier transforms and connectionist temporal classification.

use super::{BadCall, Fixture, calls};
use crate::release::Backend;
use burn_backend::DType;
use burn_backend::tensor::{FloatTensor, IntTensor};

pub fn calls<B: Backend>() -> Vec<BadCall<B>> {
    let mut list = Vec::new();
    calls!(list, t,
        "rfft", "an axis out of range": rfft(t.f(&[2, 8]), 2, None);
        "rfft", "a scalar": rfft(t.f(&[]), 0, None);
        "rfft", "an axis of no elements": rfft(t.f(&[2, 0]), 1, None);
        "rfft", "a length of zero": rfft(t.f(&[2, 8]), 1, Some(0));
        "rfft", "a length that overflows": rfft(t.f(&[2, 8]), 1, Some(usize::MAX));
        "rfft", "more bins than memory": rfft(t.f(&[2, 8]), 1, Some(1 << 60));
        "irfft", "an axis out of range": irfft(t.f(&[2, 5]), t.f(&[2, 5]), 2, None);
        "irfft", "parts of other shapes": irfft(t.f(&[2, 5]), t.f(&[2, 6]), 1, None);
        "irfft", "parts of other ranks": irfft(t.f(&[2, 5]), t.f(&[5]), 1, None);
        "irfft", "parts of other dtypes": irfft(t.f(&[2, 5]), t.float(DType::F64, &[2, 5]), 1, None);
        "irfft", "no bins": irfft(t.f(&[2, 0]), t.f(&[2, 0]), 1, None);
        "irfft", "one bin without a length": irfft(t.f(&[2, 1]), t.f(&[2, 1]), 1, None);
        "irfft", "a length of zero": irfft(t.f(&[2, 5]), t.f(&[2, 5]), 1, Some(0));
        "irfft", "a length that overflows": irfft(t.f(&[2, 5]), t.f(&[2, 5]), 1, Some(usize::MAX));
    );
    ctc(&mut list);
    list
}

/// The arguments of a valid call, to be made invalid in one place: six steps, two samples, five classes,
/// three labels.
struct Arguments<B: Backend> {
    log_probs: FloatTensor<B>,
    targets: IntTensor<B>,
    input_lengths: IntTensor<B>,
    target_lengths: IntTensor<B>,
    grad: FloatTensor<B>,
    blank: usize,
}

impl<B: Backend> Arguments<B> {
    fn legal(t: &Fixture<B>) -> Self {
        Self {
            log_probs: t.f(&[6, 2, 5]),
            targets: t.ints(&[2, 3], &[1, 2, 3]),
            input_lengths: t.ints(&[2], &[6]),
            target_lengths: t.ints(&[2], &[3]),
            grad: t.f(&[2]),
            blank: 0,
        }
    }
}

type Spoil<B> = fn(&Fixture<B>, &mut Arguments<B>);

fn ctc<B: Backend>(list: &mut Vec<BadCall<B>>) {
    let both: [(&str, Spoil<B>); 14] = [
        ("log-probabilities of two axes", |t, a| a.log_probs = t.f(&[6, 5])),
        ("targets of one axis", |t, a| a.targets = t.ints(&[3], &[1, 2, 3])),
        ("targets of another batch", |t, a| a.targets = t.ints(&[3, 3], &[1, 2, 3])),
        ("input lengths of another batch", |t, a| a.input_lengths = t.ints(&[3], &[6])),
        ("input lengths of two axes", |t, a| a.input_lengths = t.ints(&[2, 1], &[6])),
        ("target lengths of another batch", |t, a| a.target_lengths = t.ints(&[1], &[3])),
        ("an input longer than there are steps", |t, a| a.input_lengths = t.ints(&[2], &[6, 7])),
        ("a negative input length", |t, a| a.input_lengths = t.ints(&[2], &[6, -1])),
        ("a target longer than its row", |t, a| a.target_lengths = t.ints(&[2], &[4, 3])),
        ("a negative target length", |t, a| a.target_lengths = t.ints(&[2], &[-3, 3])),
        ("a blank that is no class", |_, a| a.blank = 5),
        ("the largest blank", |_, a| a.blank = usize::MAX),
        ("a label that is no class", |t, a| a.targets = t.ints(&[2, 3], &[1, 2, 5])),
        ("a negative label", |t, a| a.targets = t.ints(&[2, 3], &[1, -2, 3])),
    ];
    let gradient: [(&str, Spoil<B>); 3] = [
        ("a gradient of another batch", |t, a| a.grad = t.f(&[3])),
        ("a gradient of two axes", |t, a| a.grad = t.f(&[2, 1])),
        ("a gradient of another dtype", |t, a| a.grad = t.float(DType::F64, &[2])),
    ];
    let spoiled = |t: &Fixture<B>, spoil: Spoil<B>| {
        let mut arguments = Arguments::legal(t);
        spoil(t, &mut arguments);
        arguments
    };
    for (fault, spoil) in both {
        list.push(BadCall::new("ctc_loss", "ctc_loss", fault, move |t| {
            let Arguments { log_probs, targets, input_lengths, target_lengths, blank, .. } =
                spoiled(t, spoil);
            drop(B::ctc_loss(log_probs, targets, input_lengths, target_lengths, blank));
        }));
    }
    for (fault, spoil) in both.into_iter().chain(gradient) {
        list.push(BadCall::new("ctc_loss_backward", "ctc_loss_backward", fault, move |t| {
            let Arguments { log_probs, targets, input_lengths, target_lengths, grad, blank } =
                spoiled(t, spoil);
            drop(B::ctc_loss_backward(log_probs, targets, input_lengths, target_lengths, grad, blank));
        }));
    }
}
