//! Buffers, passed without a copy: the engine adopts Burn's buffers, and Burn gets the engine's behind a
//! controller.

use super::super::controller::Controller;
use super::burn_std::{AllocationProperty, Bytes};
use alloc::boxed::Box;
use flex_core::storage::Adopted;

/// Burn's buffer as the engine's.
pub fn to_engine(bytes: Bytes) -> flex_core::Bytes {
    flex_core::Bytes::adopt(Lent(bytes))
}

/// The engine's buffer as Burn's; a buffer that the engine adopted from Burn is returned as it was.
pub fn to_burn(bytes: flex_core::Bytes) -> Bytes {
    match bytes.release::<Lent>() {
        Ok(Lent(bytes)) => bytes,
        Err(bytes) => {
            let len = bytes.len();
            // SAFETY: the controller's memory is the memory of `bytes`, whose `len` bytes are all
            // initialised.
            unsafe { Bytes::from_controller(Box::new(Controller(bytes)), len) }
        }
    }
}

/// A buffer of Burn that the engine has adopted.
struct Lent(Bytes);

impl Adopted for Lent {
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Not writable: files, which are copied on write, pinned memory, which belongs to a device, and memory
    /// of which nothing is known. The label of [`Bytes::from_shared`] is whatever its caller says: shared
    /// memory under the label `Native` is copied whole when a tensor that covers all of it is written.
    fn is_writable(&self) -> bool {
        matches!(self.0.property(), AllocationProperty::Native)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use flex_core::Tensor;

    #[test]
    fn a_buffer_that_came_in_goes_out_again() {
        let bytes = Bytes::from_elems(vec![1f32, 2.0, 3.0]);
        let address = bytes.as_ptr();
        let adopted = to_engine(bytes);
        assert!(adopted.is_writable() && adopted.as_ptr() == address);
        // It still has Burn's controller, so it can be turned back into the vector that it was made from.
        let values = to_burn(adopted).try_into_vec::<f32>().expect("the buffer of a vector");
        assert_eq!(values.as_ptr().cast(), address);
    }

    #[test]
    fn a_buffer_of_the_engine_is_lent_and_returned_without_a_copy() {
        for len in [1, 40, 5000] {
            let tensor = Tensor::full([len], 2.0, flex_core::DType::F32).unwrap();
            let address = tensor.storage::<u32>().as_ptr();
            let mut bytes = to_burn(tensor.into_bytes().unwrap());
            // A single number is stored beside its length, and moves with it.
            assert!(len == 1 || bytes.as_ptr() == address.cast());
            assert_eq!((bytes.len(), bytes.property()), (4 * len, AllocationProperty::Native));
            bytes[0] = 7;
            let (address, copy) = (bytes.as_ptr(), bytes.clone());
            assert_eq!(copy, bytes);
            // It may be passed back and forth any number of times.
            let bytes = to_burn(to_engine(to_burn(to_engine(bytes))));
            assert_eq!((bytes.as_ptr(), bytes), (address, copy));
        }
    }

    /// Burn's bytes of a file read the file when they are first looked at, without a lock, although threads
    /// may share them. So that must have happened when the engine has adopted them.
    #[test]
    #[cfg(feature = "std")]
    fn files_are_read_before_threads_share_them() {
        // The tests of both releases may run at once.
        let module = module_path!().replace("::", "-");
        let path = std::env::temp_dir().join(alloc::format!("{module}-{}", std::process::id()));
        let values: vec::Vec<f32> = (0..5000).map(|i| i as f32).collect();
        std::fs::write(&path, bytes_of(&values)).expect("a file");
        let bytes = to_engine(Bytes::from_file(&path, 4 * values.len() as u64, 0));
        std::fs::remove_file(&path).expect("the file");
        assert!(!bytes.is_writable());
        let addresses: vec::Vec<usize> = std::thread::scope(|scope| {
            let readers: vec::Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        assert_eq!(bytes[..], bytes_of(&values)[..]);
                        bytes.as_ptr() as usize
                    })
                })
                .collect();
            readers.into_iter().map(|reader| reader.join().expect("the bytes of the file")).collect()
        });
        assert_eq!(addresses, [addresses[0]; 4]);
    }

    #[cfg(feature = "std")]
    fn bytes_of(values: &[f32]) -> vec::Vec<u8> {
        values.iter().flat_map(|v| v.to_ne_bytes()).collect()
    }

    #[test]
    fn memory_that_is_not_known_to_be_native_is_not_written() {
        let shared = |property| to_engine(Bytes::from_shared(bytes::Bytes::from(vec![1u8; 8]), property));
        assert!(!shared(AllocationProperty::File).is_writable());
        assert!(!shared(AllocationProperty::Pinned).is_writable());
        // Burn copies shared bytes whole when they are written.
        assert!(!shared(AllocationProperty::Other).is_writable());
    }
}
