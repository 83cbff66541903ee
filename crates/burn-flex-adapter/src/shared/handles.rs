//! Handles for the layers that pass tensors by id: remote, router, fusion.

/// A handle is the tensor itself, so passing a handle moves no data. The kind of the tensor is checked when
/// the handle comes back.
macro_rules! handles {
    ($($kind:ident, $tensor:ty, $from:ident, $into:ident;)*) => {$(
        fn $from(handle: TensorHandle<Self::Handle>) -> $tensor {
            match handle.handle {
                HandleKind::$kind(tensor) => tensor,
                other => panic!("{}: the handle holds a {} tensor", stringify!($from), other.name()),
            }
        }

        fn $into(tensor: $tensor) -> Self::Handle {
            HandleKind::$kind(tensor)
        }
    )*};
}
