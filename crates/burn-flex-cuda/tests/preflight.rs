//! Checks that hold on any machine, with a GPU or without: there is an answer, nothing panics, and an error
//! says what to do.
#![allow(missing_docs)]

use burn_flex_cuda::{Cuda, CudaDevice, CudaFused, DeviceError, check, checked, devices, info, supported};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The messages of all panics during `run`, on any thread.
fn panics_during(run: impl FnOnce()) -> Vec<String> {
    static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    std::panic::set_hook(Box::new(|info| {
        PANICS.lock().expect("the hook does not panic").push(info.to_string())
    }));
    run();
    let _ = std::panic::take_hook();
    std::mem::take(&mut PANICS.lock().expect("the hook does not panic"))
}

// A single test, since the panic hook is global.
#[test]
fn there_is_an_answer_and_no_panic() {
    let start = Instant::now();
    let panics = panics_during(|| {
        let device = CudaDevice::default();
        match (devices(), check(&device)) {
            (Ok(all), outcome) => {
                assert!(!all.is_empty(), "no device is an error");
                // A driver without the toolkit's compiler and headers lists devices that cannot be used, as
                // does one whose devices are reserved for another process.
                use DeviceError::{Failed, Library};
                assert!(matches!(outcome, Ok(()) | Err(Library { .. } | Failed { .. })), "{outcome:?}");
            }
            (Err(listing), Err(checking)) => {
                assert_eq!(listing, checking, "both for the same reason");
                let text = listing.to_string();
                assert!(text.starts_with("CUDA: "), "{text}");
                assert!(text.contains("Install") || text.contains("See that"), "what to do: {text}");
                assert_eq!(supported(&device).unwrap_err(), listing);
                assert_eq!(info(&device).unwrap_err(), listing);
                assert_eq!(checked::<Cuda>(device).unwrap_err(), listing);
            }
            (Err(listing), Ok(())) => panic!("no devices ({listing}), but one that can be used"),
        }
    });
    assert_eq!(panics, Vec::<String>::new());
    assert!(start.elapsed() < Duration::from_secs(60), "nothing hangs");
}

/// The types are backends: code that is generic over a backend compiles with them, whether or not it can run.
#[test]
fn the_types_are_backends() {
    fn is_backend<B: burn_backend::Backend<Device = CudaDevice>>() {}
    is_backend::<Cuda>();
    is_backend::<CudaFused>();
    is_backend::<Cuda<f64, i64>>();
    is_backend::<CudaFused<burn_backend::f16, i32>>();
}
