//! Gathers, scatters, selections, embeddings; concatenation, assignment, repetition.

use super::{Cases, Family, backward, permutation, tensor};
use burn::backend::Autodiff;
use burn_tensor::backend::Backend;
use burn_tensor::module::embedding;
use burn_tensor::{IndexingUpdateOp, Tensor};

const N: usize = 1024;

impl<B: Backend> Cases<B> {
    pub(super) fn index(&mut self) {
        self.family = Family::Index;
        let square = |d: &B::Device| tensor::<B, 2>([N, N], d);
        let (read, both) = (4 * N * N, 8 * N * N);
        self.short = true;
        self.add(
            "cat_dim1_1024",
            4 * read,
            move |d| (square(d), square(d)),
            |(a, b)| Tensor::cat(vec![a.clone(), b.clone()], 1),
        );
        let rows = move |d: &B::Device| (square(d), permutation::<B>(N, d));
        self.add("select_rows_1024", both, rows, |(a, i)| a.clone().select(0, i.clone()));
        self.short = false;
        self.add("select_columns_1024", both, rows, |(a, i)| a.clone().select(1, i.clone()));
        self.add(
            "cat_dim0_1024",
            4 * read,
            move |d| (square(d), square(d)),
            |(a, b)| Tensor::cat(vec![a.clone(), b.clone()], 0),
        );
        // One index for every element, a permutation along each line.
        let each = move |d: &B::Device| {
            let order = permutation::<B>(N, d);
            (
                square(d),
                order.clone().unsqueeze_dim::<2>(0).repeat_dim(0, N),
                order.unsqueeze_dim::<2>(1).repeat_dim(1, N),
            )
        };
        self.add("gather_dim1_1024", 3 * read, each, |(a, i, _)| a.clone().gather(1, i.clone()));
        self.add("gather_dim0_1024", 3 * read, each, |(a, _, i)| a.clone().gather(0, i.clone()));
        self.add("scatter_add_dim1_1024", 4 * read, each, |(a, i, _)| {
            a.clone().scatter(1, i.clone(), a.clone(), IndexingUpdateOp::Add)
        });
        self.add("scatter_add_dim0_1024", 4 * read, each, |(a, _, i)| {
            a.clone().scatter(0, i.clone(), a.clone(), IndexingUpdateOp::Add)
        });
        self.add("select_add_rows_1024", 4 * read, rows, |(a, i)| {
            a.clone().select_assign(0, i.clone(), a.clone(), IndexingUpdateOp::Add)
        });
        let words =
            |d: &B::Device| (tensor::<B, 2>([8192, 512], d), permutation::<B>(4096, d).unsqueeze_dim::<2>(0));
        let passed = 4096 * 512 * 4;
        self.add("embedding_4096x512", 2 * passed, words, |(w, i)| embedding(w.clone(), i.clone()));
        self.add(
            "embedding_grad_4096x512",
            2 * passed + 2 * 8192 * 512 * 4,
            |d| {
                let indices = permutation::<Autodiff<B>>(4096, d).unsqueeze_dim::<2>(0);
                (tensor::<Autodiff<B>, 2>([8192, 512], d), indices)
            },
            |(w, i)| backward(embedding(w.clone().require_grad(), i.clone())),
        );
        self.add(
            "slice_assign_1024",
            3 * read,
            move |d| (square(d), tensor::<B, 2>([N / 2, N / 2], d)),
            |(a, b)| a.clone().slice_assign([100..100 + N / 2, 200..200 + N / 2], b.clone()),
        );
        self.add("repeat_dim0_1024", 5 * read, square, |a| a.clone().repeat_dim(0, 4));
        self.add("repeat_dim1_1024", 5 * read, square, |a| a.clone().repeat_dim(1, 4));
    }
}
