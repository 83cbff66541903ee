//! Layout algebra against a naive oracle: the list of positions of a layout's elements in row-major order.

use super::*;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Positions in row-major order, by plain index arithmetic.
fn positions(layout: &Layout) -> Vec<usize> {
    let shape = layout.shape().to_vec();
    let mut out = vec![];
    let total: usize = shape.iter().product();
    for flat in 0..total {
        let mut rest = flat;
        let mut index = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            index[axis] = rest % shape[axis];
            rest /= shape[axis];
        }
        out.push(layout.position(&index));
    }
    out
}

/// The oracle's positions in row-major order, indexed as an n-dimensional array.
fn at(list: &[usize], shape: &[usize], index: &[usize]) -> usize {
    let flat = index.iter().zip(shape).fold(0, |acc, (&i, &s)| acc * s + i);
    list[flat]
}

#[derive(Clone, Debug)]
enum Step {
    Swap(usize, usize),
    Flip(usize),
    Slice(usize, isize, Option<isize>, isize),
    Unfold(usize, usize, usize),
    Expand(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4usize, 0..4usize).prop_map(|(a, b)| Step::Swap(a, b)),
        (0..4usize).prop_map(Step::Flip),
        (0..4usize, -4..5isize, proptest::option::of(-4..8isize), prop_oneof![-3..0isize, 1..4isize])
            .prop_map(|(a, s, e, st)| Step::Slice(a, s, e, st)),
        (0..4usize, 1..3usize, 1..3usize).prop_map(|(a, n, s)| Step::Unfold(a, n, s)),
        (1..4usize).prop_map(Step::Expand),
    ]
}

/// Applies a view both to the layout and, by naive indexing, to its list of positions.
fn apply(layout: Layout, step: &Step) -> Option<(Layout, Vec<usize>)> {
    let before = positions(&layout);
    let shape = layout.shape().to_vec();
    let rank = shape.len();
    let pick = |new_shape: &[usize], source: &dyn Fn(&[usize]) -> Vec<usize>| -> Vec<usize> {
        coordinates(new_shape).iter().map(|i| at(&before, &shape, &source(i))).collect()
    };
    match *step {
        Step::Swap(a, b) if a < rank && b < rank => {
            let mut s = shape.clone();
            s.swap(a, b);
            let want = pick(&s, &|i| {
                let mut i = i.to_vec();
                i.swap(a, b);
                i
            });
            Some((layout.swap_axes(a, b).unwrap(), want))
        }
        Step::Flip(a) if a < rank => {
            let want = pick(&shape, &|i| {
                let mut i = i.to_vec();
                i[a] = shape[a] - 1 - i[a];
                i
            });
            Some((layout.flip(&[a]).unwrap(), want))
        }
        Step::Slice(a, start, end, st) if a < rank => {
            let slice = Slice::new(start, end, st);
            let range = slice.to_range(shape[a]);
            let mut kept: Vec<usize> = range.collect();
            if st < 0 {
                kept.reverse();
            }
            let kept: Vec<usize> = kept.into_iter().step_by(st.unsigned_abs()).collect();
            let mut s = shape.clone();
            s[a] = kept.len();
            let want = pick(&s, &|i| {
                let mut i = i.to_vec();
                i[a] = kept[i[a]];
                i
            });
            let mut slices = vec![Slice::full(); a];
            slices.push(slice);
            Some((layout.slice(&slices).unwrap(), want))
        }
        Step::Unfold(a, size, st) if a < rank && rank < 6 => {
            let mut s = shape.clone();
            s[a] = (0..shape[a]).step_by(st).filter(|start| start + size <= shape[a]).count();
            s.push(size);
            let want = pick(&s, &|i| {
                let mut i = i.to_vec();
                let inner = i.pop().unwrap();
                i[a] = i[a] * st + inner;
                i
            });
            Some((layout.unfold(a, size, st).unwrap(), want))
        }
        Step::Expand(n) if rank < 6 => {
            let mut s = vec![n];
            s.extend(&shape);
            let want = pick(&s, &|i| i[1..].to_vec());
            Some((layout.expand(&s).unwrap(), want))
        }
        _ => None,
    }
}

proptest! {
    #[test]
    fn chains_of_views_visit_what_naive_indexing_visits(
        shape in proptest::collection::vec(0..5usize, 0..4),
        steps in proptest::collection::vec(step(), 0..6),
    ) {
        let total: usize = shape.iter().product();
        let mut layout = Layout::contiguous(Shape::from(shape));
        for s in &steps {
            if layout.num_elements() > 4096 { break; }
            if let Some((next, want)) = apply(layout.clone(), s) {
                prop_assert_eq!(positions(&next), want, "{:?} of {:?}", s, layout);
                let span = next.span();
                prop_assert!(positions(&next).iter().all(|p| span.contains(p)));
                prop_assert!(span.end <= total || next.num_elements() == 0);
                layout = next;
            }
        }
        // Compares the predicates with their definitions.
        let visited = positions(&layout);
        let consecutive = visited.windows(2).all(|w| w[1] == w[0] + 1);
        prop_assert_eq!(layout.is_contiguous(), consecutive);
        let mut sorted = visited.clone();
        sorted.sort_unstable();
        let fills = sorted.windows(2).all(|w| w[1] == w[0] + 1);
        prop_assert_eq!(layout.is_dense(), fills, "{:?}", layout);
    }

    #[test]
    fn reshape_without_copy_keeps_the_order(
        shape in proptest::collection::vec(1..5usize, 1..4),
        steps in proptest::collection::vec(step(), 0..4),
        cut in 0..5usize,
    ) {
        let mut layout = Layout::contiguous(Shape::from(shape));
        for s in &steps {
            if let Some((next, _)) = apply(layout.clone(), s) { layout = next; }
        }
        let n = layout.num_elements();
        let targets = [vec![n], vec![1, n, 1], {
            let d = [1, 2, 3, 4, 6][cut];
            if n % d == 0 { vec![d, n / d] } else { vec![n] }
        }];
        for target in targets {
            if let Some(view) = layout.reshape(&Shape::from(target.clone())).unwrap() {
                prop_assert_eq!(positions(&view), positions(&layout), "{:?} -> {:?}", layout, target);
            } else {
                prop_assert!(!layout.is_contiguous());
            }
        }
    }
}

#[test]
fn reshape_adds_and_removes_size_one_axes_of_any_layout() {
    let t = Layout::contiguous(Shape::from(vec![4, 6])).swap_axes(0, 1).unwrap();
    let u = t.reshape(&Shape::from(vec![6, 1, 4, 1])).unwrap().unwrap();
    assert_eq!(positions(&u), positions(&t));
    let split = t.reshape(&Shape::from(vec![2, 3, 2, 2])).unwrap().unwrap();
    assert_eq!(positions(&split), positions(&t));
    assert!(t.reshape(&Shape::from(vec![24])).unwrap().is_none());
    let flipped = Layout::contiguous(Shape::from(vec![3, 4])).flip(&[0, 1]).unwrap();
    let flat = flipped.reshape(&Shape::from(vec![12])).unwrap().unwrap();
    assert_eq!(flat.strides(), &[-1]);
}

#[test]
fn bad_views_are_refused_by_name() {
    let l = || Layout::contiguous(Shape::from(vec![2, 3]));
    assert!(l().swap_axes(0, 2).unwrap_err().to_string().starts_with("swap_dims"));
    assert!(l().permute(&[0, 0]).unwrap_err().to_string().starts_with("permute"));
    assert!(l().flip(&[1, 1]).unwrap_err().to_string().starts_with("flip"));
    assert!(l().narrow(1, 2, 2).unwrap_err().to_string().starts_with("narrow"));
    assert!(l().narrow(1, usize::MAX, 2).is_err());
    assert!(l().expand(&[2, 4]).unwrap_err().to_string().starts_with("expand"));
    assert!(l().expand(&[usize::MAX, 2, 3]).is_err());
    assert!(l().unfold(1, usize::MAX, 1).unwrap_err().to_string().starts_with("unfold"));
    assert!(l().unfold(1, 1, 0).is_err());
    assert!(l().reshape(&Shape::from(vec![7])).unwrap_err().to_string().starts_with("reshape"));
    assert!(matches!(
        checked_num_elements("zeros", &[usize::MAX, 2, 0]),
        Err(Error::Overflow { op: "zeros", .. })
    ));
}

#[test]
fn broadcasting_follows_numpy() {
    assert_eq!(broadcast_shapes("add", &[3, 1, 2], &[4, 1]).unwrap().to_vec(), vec![3, 4, 2]);
    assert_eq!(broadcast_shapes("add", &[0, 2], &[1, 2]).unwrap().to_vec(), vec![0, 2]);
    assert_eq!(broadcast_shapes("add", &[], &[5]).unwrap().to_vec(), vec![5]);
    assert!(broadcast_shapes("add", &[2], &[3]).unwrap_err().to_string().starts_with("add"));
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "catches a panic")]
fn layouts_that_no_buffer_holds_are_refused() {
    let huge = isize::MAX;
    let refused = [
        (vec![2], vec![-1], 0),
        (vec![3], vec![huge], 0),
        (vec![3], vec![-huge], 5),
        (vec![2, 2], vec![huge, huge], 0),
        (vec![2, 2], vec![huge, -huge], huge as usize),
        (vec![2], vec![1], huge as usize),
        (vec![2], vec![1], usize::MAX),
        (vec![usize::MAX], vec![2], 0),
    ];
    for (shape, strides, offset) in refused {
        let layout = || Layout::new(Shape::from(&shape), strides.iter().copied().collect(), offset);
        let panic = std::panic::catch_unwind(layout).expect_err("a layout that no buffer holds");
        let message = panic.downcast::<&str>().expect("a message");
        assert!(message.starts_with("Layout: an element would lie"), "{shape:?} {strides:?}: {message}");
    }
    assert_eq!(Layout::new([2, 3].into(), [-3, 1].into_iter().collect(), 3).span(), 0..6);
    assert_eq!(Layout::new([0, 3].into(), [huge, huge].into_iter().collect(), 3).span(), 3..3);
    // The strides of such a shape wrap.
    assert_eq!(Layout::contiguous([usize::MAX / 2, usize::MAX / 2].into()).span().end, usize::MAX);
}
