//! The parts of each model, from the models' sizes.

use super::{CONTEXT, Task};
use crate::cases::{Conv, Part, Pass};

/// Parts and how often a call of the model computes them. A part is listed once.
pub(super) fn of(task: Task) -> Vec<(Part, usize)> {
    let mut parts = Parts(Vec::new());
    match task {
        Task::MiniLm { batch, tokens } => {
            parts.encoder(6, batch, tokens, [384, 1536], 12, Pass::Forward);
        }
        Task::ResNet50 { batch, .. } => {
            parts.resnet(batch, 224, [3, 4, 6, 3], true, Pass::Forward);
        }
        Task::Prefill => parts.decoder(CONTEXT, CONTEXT),
        Task::Token => parts.decoder(1, CONTEXT + 1),
        // Each of the four gates multiplies the step's input and the state.
        Task::Lstm => parts.linear(8 * 128, 8, [256, 256], Pass::Forward),
        Task::TrainResNet18 => parts.resnet(16, 64, [2, 2, 2, 2], false, Pass::Gradients),
        Task::TrainTransformer => {
            parts.encoder(4, 16, 128, [256, 1024], 8, Pass::Gradients);
            parts.linear(1, 16, [256, 10], Pass::Gradients);
        }
        Task::TrainMlp => {
            parts.linear(1, 32, [784, 128], Pass::WeightGradients);
            parts.linear(1, 32, [128, 10], Pass::Gradients);
        }
    }
    parts.0
}

struct Parts(Vec<(Part, usize)>);

impl Parts {
    fn add(&mut self, times: usize, part: Part) {
        match self.0.iter_mut().find(|(known, _)| *known == part) {
            Some((_, count)) => *count += times,
            None => self.0.push((part, times)),
        }
    }

    fn linear(&mut self, times: usize, rows: usize, [inputs, outputs]: [usize; 2], pass: Pass) {
        self.add(times, Part::Linear { rows, inputs, outputs, pass });
    }

    /// Layers of attention and two linear layers, which are `widths` wide.
    fn encoder(
        &mut self,
        layers: usize,
        batch: usize,
        tokens: usize,
        widths: [usize; 2],
        heads: usize,
        pass: Pass,
    ) {
        let (rows, [width, hidden]) = (batch * tokens, widths);
        self.linear(4 * layers, rows, [width, width], pass);
        self.linear(layers, rows, [width, hidden], pass);
        self.linear(layers, rows, [hidden, width], pass);
        let (heads, width) = (batch * heads, width / heads);
        let (queries, keys, causal) = (tokens, tokens, false);
        self.add(layers, Part::Attention { heads, queries, keys, width, causal, pass });
    }

    /// GPT-2-small on so many new tokens, of which the last is scored.
    fn decoder(&mut self, rows: usize, keys: usize) {
        let (layers, width, pass) = (12, 768, Pass::Forward);
        for widths in [[width, 3 * width], [width, width], [width, 4 * width], [4 * width, width]] {
            self.linear(layers, rows, widths, pass);
        }
        // A single query sees all keys.
        let causal = rows > 1;
        self.add(layers, Part::Attention { heads: 12, queries: rows, keys, width: width / 12, causal, pass });
        self.add(1, Part::Head { rows: 1, inputs: width, outputs: 50257 });
    }

    /// A residual network on square images.
    fn resnet(&mut self, batch: usize, size: usize, depths: [usize; 4], bottleneck: bool, pass: Pass) {
        let mut conv = |channels, size, kernel, stride, pass| {
            self.add(1, Part::Conv(Conv { batch, channels, size, kernel, stride, groups: 1 }, pass));
        };
        // Images need no gradient.
        let stem = if pass == Pass::Gradients { Pass::WeightGradients } else { pass };
        conv([3, 64], size, 7, 2, stem);
        let (mut from, mut size) = (64, size / 4);
        for (stage, depth) in depths.into_iter().enumerate() {
            let width = 64 << stage;
            let to = if bottleneck { 4 * width } else { width };
            for block in 0..depth {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                if bottleneck {
                    conv([from, width], size, 1, 1, pass);
                    conv([width, width], size, 3, stride, pass);
                    conv([width, to], size / stride, 1, 1, pass);
                } else {
                    conv([from, width], size, 3, stride, pass);
                    conv([width, width], size / stride, 3, 1, pass);
                }
                if stride != 1 || from != to {
                    conv([from, to], size, 1, stride, pass);
                }
                (from, size) = (to, size / stride);
            }
        }
        self.linear(1, batch, [from, 1000], pass);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(task: Task) -> (f64, usize) {
        let parts = of(task);
        let flops: usize = parts.iter().map(|(part, times)| part.flops() * times).sum();
        (flops as f64, parts.iter().map(|(_, times)| times).sum())
    }

    /// Against the figures that others publish for these models.
    #[test]
    fn parts_add_up_to_the_models() {
        // torchvision: 4.09 billion multiply-adds for an image; 53 convolutions and a linear layer.
        let (flops, parts) = count(Task::ResNet50 { batch: 1, folded: false });
        assert!((flops / 2.0 - 4.09e9).abs() < 0.01e9, "{flops}");
        assert_eq!(parts, 54);
        // torchvision: 1.814 billion for 224 x 224, of which the stem has 0.118. Convolutions scale by the
        // pixels, and gradients triple them, but images have none.
        let (flops, parts) = count(Task::TrainResNet18);
        let of_large_image = flops / 6.0 / 16.0 * (224.0f64 / 64.0).powi(2);
        assert!((of_large_image - (1.814e9 - 0.118e9 / 3.0)).abs() < 0.01e9, "{flops}");
        assert_eq!(parts, 21);
        // Two operations for each of the layers' weights and token: 6 * 12 * 384^2 weights, and attention
        // beside them.
        let (flops, _) = count(Task::MiniLm { batch: 8, tokens: 128 });
        let products = 2.0 * 1024.0 * (6 * 12 * 384 * 384) as f64;
        let attention = 4.0 * (6 * 8 * 12 * 128 * 128 * 32) as f64;
        assert_eq!(flops, products + attention);
        // 85 million weights in the layers of GPT-2, and 38.6 million in its head.
        let (flops, _) = count(Task::Token);
        assert!((flops / 2.0 - 123.5e6).abs() < 3e6, "{flops}");
    }

    #[test]
    fn equal_parts_are_listed_once() {
        let parts = of(Task::ResNet50 { batch: 1, folded: true });
        for (k, (part, _)) in parts.iter().enumerate() {
            assert!(parts[..k].iter().all(|(other, _)| other.name() != part.name()), "{part:?}");
        }
        assert_eq!(parts.len(), 24);
    }
}
