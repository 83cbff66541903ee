//! Operands that have one number for each row, which passes take row by row.

use super::super::pass::LEAST_ROW;
use super::*;

/// Rows of these lengths begin and end anywhere in a vector and in a group of vectors; several lie in one
/// group, and one in several tiles. The shortest are not read by row.
const ROWS: [usize; 12] = [LEAST_ROW - 1, LEAST_ROW, 17, 49, 100, 127, 128, 129, 196, 1000, 5001, 40_000];

/// A batch norm of two operands with a number for each channel. Between its steps a function that is not
/// light may store in a register, and the result of one of them may be held. `read` may read each result.
fn norm(x: &Tensor, channels: usize, heavy: bool, read: &dyn Fn(&Tensor)) -> Vec<Tensor> {
    let vector = |seed| {
        // A view into a longer vector.
        let all = values(&[channels + 3], seed);
        all.narrow(0, 2, channels).unwrap().reshape([channels, 1]).unwrap()
    };
    let op = |op, a: &Tensor, b: &Tensor| {
        let result = binary(op, a.clone(), b.clone()).unwrap();
        read(&result);
        result
    };
    let centred = op(Binary::Sub, x, &vector(1));
    let scaled = op(Binary::Div, &centred, &vector(2));
    let middle = if heavy { unary(Unary::Tanh, scaled).unwrap() } else { scaled };
    read(&middle);
    // The number as the first operand.
    let moved = op(Binary::Sub, &vector(3), &middle);
    let last = unary(Unary::Relu, moved.clone()).unwrap();
    read(&last);
    if channels.is_multiple_of(2) { vec![moved, last] } else { vec![last] }
}

#[test]
fn numbers_of_channels_have_the_same_bits() {
    for (row, batch, heavy) in ROWS.into_iter().flat_map(|row| [(row, 1, false), (row, 3, true)]) {
        for channels in [150_000 / (row * batch) + 1, 150_000 / (row * batch) + 2] {
            let x = values(&[batch, channels, row], 4);
            let waiting = norm(&x, channels, heavy, &|_| ());
            assert!(waits(waiting.last().unwrap()));
            let at_once = norm(&x, channels, heavy, &|result| result.evaluate().unwrap());
            for (got, want) in waiting.iter().zip(&at_once).rev() {
                assert!(bits(got) == bits(want), "{batch} x {channels} x {row}, heavy: {heavy}");
            }
        }
    }
}

/// Numbers that are no neighbours, that other functions read, or of rows of two lengths.
#[test]
fn other_numbers_of_rows_have_the_same_bits() {
    let (channels, row) = (300, 500);
    let x = values(&[2, channels, row], 1);
    let near = values(&[channels, 1], 2);
    let apart = values(&[channels, 2], 3).narrow(1, 1, 1).unwrap();
    let longer = values(&[2, 1, 1], 4);
    let each = values(&[2, channels, 1], 6);
    let line = values(&[row], 5);
    for (name, other) in [("apart", &apart), ("longer", &longer), ("each", &each), ("line", &line)] {
        for function in [Binary::Add, Binary::Atan2] {
            let run = |read: &dyn Fn(&Tensor)| {
                let first = binary(Binary::Mul, x.clone(), near.clone()).unwrap();
                read(&first);
                let second = binary(function, first, other.clone()).unwrap();
                read(&second);
                binary(Binary::Sub, second, near.clone()).unwrap()
            };
            let (waiting, at_once) = (run(&|_| ()), run(&|result| result.evaluate().unwrap()));
            assert!(bits(&waiting) == bits(&at_once), "{name}, {function:?}");
        }
    }
}

/// A group norm: numbers of groups of channels, and of channels.
#[test]
fn numbers_of_groups_and_of_channels_have_the_same_bits() {
    for (batch, groups, channels, row) in [(2, 3, 12, 1000), (1, 8, 32, 256), (1, 32, 320, 49), (2, 2, 6, 15)]
    {
        let x = values(&[batch, groups, channels / groups * row], 1);
        let of_group = values(&[batch, groups, 1], 2);
        let [scale, offset] = [3, 4].map(|seed| values(&[channels, 1], seed));
        let run = |read: &dyn Fn(&Tensor)| {
            let centred = binary(Binary::Sub, x.clone(), of_group.clone()).unwrap();
            read(&centred);
            let scaled = binary(Binary::Div, centred, of_group.clone()).unwrap();
            read(&scaled);
            let apart = scaled.reshape([batch, channels, row]).unwrap();
            let scaled = binary(Binary::Mul, apart, scale.clone()).unwrap();
            read(&scaled);
            binary(Binary::Add, scaled, offset.clone()).unwrap()
        };
        let (waiting, at_once) = (run(&|_| ()), run(&|result| result.evaluate().unwrap()));
        assert!(bits(&waiting) == bits(&at_once), "{batch} x {groups} x {channels} x {row}");
    }
}

/// A kernel that completes pieces of a length.
struct InPieces {
    values: Tensor,
    piece: usize,
}

impl Producer for InPieces {
    fn produce(&self, finish: Option<Finish<'_>>) -> Result<Tensor> {
        let mut result = scaled(self.values.clone(), 1.0).into_contiguous()?;
        result.evaluate()?;
        let bytes = result.dense_bytes_mut().expect("a result that nothing shares");
        for (k, piece) in bytes.chunks_mut(self.piece * size_of::<f32>()).enumerate() {
            finish.expect("operations follow")(k * self.piece, piece);
        }
        Ok(result)
    }
}

#[test]
fn a_kernel_may_complete_any_piece_of_rows() {
    for (row, channels) in [(17, 600), (49, 200), (196, 60), (1000, 9)] {
        let shape = Shape::from([2, channels, row]);
        let x = values(&shape, 4);
        let want = norm(&x, channels, false, &|result| result.evaluate().unwrap());
        for piece in [1, 3, 16, 40, 128, row - 1, row, 3 * row + 5, channels * row + 7, usize::MAX / 8] {
            let kernel = InPieces { values: x.clone(), piece };
            let produced = produce(kernel, shape.clone(), DType::F32).unwrap();
            let got = norm(&produced, channels, false, &|_| ()).pop().unwrap();
            drop(produced);
            assert!(waits(&got));
            assert!(bits(&got) == bits(want.last().unwrap()), "pieces of {piece}, rows of {row}");
        }
    }
}

/// Tiles of several rows, whose row operands passes read by row, and of one row; rows that passes do not read
/// so, because they are no whole vectors, because they are short, or because a function is not light.
#[test]
fn operands_of_rows_are_read_by_row() {
    for row in [15, 16, 50, 112, 128, 131, 136, 144, 1024, 1030, 6000] {
        let rows = 300_000 / row;
        let (x, y) = (values(&[rows, row], 1), values(&[rows, row], 2));
        let (column, line) = (values(&[rows, 1], 3), values(&[1, row], 4));
        // Numbers of rows that do not lie next to each other.
        let apart = values(&[rows, 2], 5).narrow(1, 1, 1).unwrap();
        for heavy in [false, true] {
            let run = |read: &dyn Fn(&Tensor)| {
                let op = |op, a: &Tensor, b: &Tensor| {
                    let result = binary(op, a.clone(), b.clone()).unwrap();
                    read(&result);
                    result
                };
                let product = op(Binary::Mul, &x, &column);
                let sums = row_sums(&product);
                read(&sums);
                let halved = scaled(sums.clone(), 0.5);
                let centred = op(Binary::Sub, &product, &sums);
                let other = if heavy { op(Binary::Atan2, &y, &halved) } else { op(Binary::Add, &y, &halved) };
                let top =
                    op(Binary::Add, &op(Binary::Mul, &centred, &line), &op(Binary::Div, &other, &column));
                let squares = row_sums(&op(Binary::Mul, &top, &top));
                let last = op(Binary::Mul, &squares, &op(Binary::Sub, &top, &line));
                [sums, centred, op(Binary::Add, &last, &apart)]
            };
            let waiting = run(&|_| ());
            assert!(waits(&waiting[2]));
            let at_once = run(&|result| result.evaluate().unwrap());
            for (k, (got, want)) in waiting.iter().zip(&at_once).enumerate() {
                assert!(bits(got) == bits(want), "result {k} of rows of {row}, heavy: {heavy}");
            }
        }
    }
}
