//! PyTorch and NumPy as peers: Python processes that run the cases of the same names on request.

use super::Peer;
use crate::timing::Run;
#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

/// A library that is timed in a separate Python process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// PyTorch on the CPU.
    Torch,
    /// PyTorch on its CUDA device.
    TorchCuda,
    /// NumPy.
    NumPy,
}

impl Library {
    fn name(self) -> &'static str {
        match self {
            Self::Torch => "torch",
            Self::TorchCuda => "torch-cuda",
            Self::NumPy => "numpy",
        }
    }

    /// The device of the library's tensors, by PyTorch's name.
    fn device(self) -> &'static str {
        match self {
            Self::TorchCuda => "cuda",
            Self::Torch | Self::NumPy => "cpu",
        }
    }

    /// The Python script: the library's calls, and the loop that serves requests.
    fn script(self) -> &'static str {
        match self {
            Self::Torch | Self::TorchCuda => {
                concat!(include_str!("../../python/torch_peer.py"), include_str!("../../python/serve.py"))
            }
            Self::NumPy => {
                concat!(include_str!("../../python/numpy_peer.py"), include_str!("../../python/serve.py"))
            }
        }
    }
}

/// Pause before a sample, so that this process's own idle threads have gone to sleep.
const REST: Duration = Duration::from_millis(1);

/// A running Python process.
#[derive(Debug)]
pub struct Python {
    library: Library,
    process: Rc<RefCell<Process>>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    ask: ChildStdin,
    answer: BufReader<ChildStdout>,
}

impl Python {
    /// Starts `python` (a path or a name to look up) with as many threads as this process uses.
    ///
    /// # Errors
    /// A message that says what is missing and how to install it.
    pub fn start(library: Library, python: &str, threads: usize) -> Result<Self, String> {
        let hint = format!(
            "install it with `python3 -m venv torch && torch/bin/pip install torch numpy` and name that \
             interpreter by its full path: --python \"$PWD/torch/bin/python\" (tried {python:?})"
        );
        let threads = threads.to_string();
        let mut child = Command::new(python)
            .args(["-c", library.script(), &threads, library.device()])
            // The math libraries of NumPy read the number of threads from these variables.
            .envs(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"].map(|name| (name, &threads)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start Python: {e}; {hint}"))?;
        let (Some(ask), Some(answer)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("cannot talk to Python".into());
        };
        let mut process = Process { child, ask, answer: BufReader::new(answer) };
        match process.request("version") {
            Some(version) => eprintln!("{version}"),
            None => return Err(format!("Python has no {}, as it says above; {hint}", library.name())),
        }
        Ok(Self { library, process: Rc::new(RefCell::new(process)) })
    }
}

impl Peer for Python {
    fn name(&self) -> &str {
        self.library.name()
    }

    fn case(&self, name: &str) -> Option<Box<dyn Run>> {
        self.process.borrow_mut().request(&format!("setup {name}")).filter(|answer| answer == "ok")?;
        Some(Box::new(Case(self.process.clone())))
    }
}

impl Process {
    fn request(&mut self, line: &str) -> Option<String> {
        self.wake();
        writeln!(self.ask, "{line}").ok()?;
        let mut answer = String::new();
        let read = self.answer.read_line(&mut answer).ok().filter(|&n| n > 0);
        self.freeze();
        read.map(|_| answer.trim().to_string())
    }

    /// Suspends the process: idle OpenMP threads spin for milliseconds on the cores on which the next peer is
    /// timed.
    #[cfg(unix)]
    fn freeze(&self) {
        // Suspending fails if the process has ended, which does not matter.
        let _ = kill_process(Pid::from_child(&self.child), Signal::STOP);
    }

    #[cfg(unix)]
    fn wake(&self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::CONT);
    }

    #[cfg(not(unix))]
    fn freeze(&self) {
        std::thread::sleep(Duration::from_millis(20));
    }

    #[cfg(not(unix))]
    fn wake(&self) {}
}

impl Drop for Process {
    fn drop(&mut self) {
        // The script ends with its input; a process that continues is of no use and is killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The case that was set up last.
struct Case(Rc<RefCell<Process>>);

impl Run for Case {
    fn sample(&mut self, repeats: usize) -> f64 {
        std::thread::sleep(REST);
        let answer = self.0.borrow_mut().request(&format!("run {repeats}"));
        answer.and_then(|a| a.parse().ok()).expect("the Python process answers with seconds")
    }
}
