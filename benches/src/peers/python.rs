//! PyTorch, NumPy and ONNX Runtime as peers: Python processes that run the cases of the same names on
//! request.

use super::Peer;
use crate::timing::Run;
#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process};
use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

/// A library that is timed in a separate Python process, and what it is asked to run.
#[derive(Clone, Debug)]
pub struct Library {
    name: &'static str,
    /// What pip calls the packages.
    packages: &'static str,
    /// The parts of the Python script: the library's calls, and the loop that serves requests.
    script: &'static [&'static str],
    /// Arguments of the script after the number of threads.
    arguments: Vec<String>,
}

const SERVE: &str = include_str!("../../python/serve.py");
const CASES: &str = include_str!("../../python/cases.py");
const WEIGHTS: &str = include_str!("../../python/weights.py");
const TORCH: &[&str] = &[include_str!("../../python/torch_peer.py"), CASES, SERVE];
const NUMPY: &[&str] = &[include_str!("../../python/numpy_peer.py"), CASES, SERVE];
const TORCH_MODELS: &[&str] = &[WEIGHTS, include_str!("../../python/torch_models.py"), SERVE];
const ONNX: &[&str] = &[WEIGHTS, include_str!("../../python/onnx_models.py"), SERVE];

impl Library {
    /// PyTorch on the CPU.
    pub fn torch() -> Self {
        Self::torch_with("torch", &["cpu"])
    }

    /// PyTorch's compiler on the CPU, for chains of operations alone.
    pub fn torch_compile() -> Self {
        Self::torch_with("torch-compile", &["cpu", "compile"])
    }

    /// PyTorch on its CUDA device.
    pub fn torch_cuda() -> Self {
        Self::torch_with("torch-cuda", &["cuda"])
    }

    /// PyTorch with these arguments of torch_peer.py after the number of threads.
    fn torch_with(name: &'static str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.into()).collect();
        Self { name, packages: "torch numpy", script: TORCH, arguments }
    }

    /// NumPy.
    pub fn numpy() -> Self {
        Self { name: "numpy", packages: "numpy", script: NUMPY, arguments: vec![] }
    }

    /// PyTorch on the CPU, with whole models instead of cases. The models' weights and inputs are in
    /// `folder`; see torch_models.py for the other arguments.
    pub fn torch_models(folder: &Path, others: impl IntoIterator<Item = String>) -> Self {
        let arguments = [folder.display().to_string()].into_iter().chain(others).collect();
        Self { name: "torch", packages: "torch numpy onnx onnxscript", script: TORCH_MODELS, arguments }
    }

    /// ONNX Runtime, with the models that PyTorch exported into `folder`, and with the parts that models are
    /// made of.
    pub fn onnx(folder: &Path) -> Self {
        let arguments = vec![folder.display().to_string()];
        Self { name: "onnx", packages: "onnxruntime onnx numpy", script: ONNX, arguments }
    }
}

/// Pause before a sample, so that this process's own idle threads have gone to sleep.
const REST: Duration = Duration::from_millis(1);

/// A running Python process.
#[derive(Debug)]
pub struct Python {
    name: &'static str,
    process: Rc<RefCell<Process>>,
    /// What the process said about the case that was set up last.
    note: RefCell<Option<String>>,
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
    pub fn start(library: &Library, python: &str, threads: usize) -> Result<Self, String> {
        let hint = format!(
            "install it with `python3 -m venv torch && torch/bin/pip install {}` and name that \
             interpreter by its full path: --python \"$PWD/torch/bin/python\" (tried {python:?})",
            library.packages
        );
        let threads = threads.to_string();
        let mut child = Command::new(python)
            .args(["-c", &library.script.concat(), &threads])
            .args(&library.arguments)
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
            None => return Err(format!("Python has no {}, as it says above; {hint}", library.name)),
        }
        Ok(Self { name: library.name, process: Rc::new(RefCell::new(process)), note: RefCell::new(None) })
    }

    /// Sets up a case in one of the variants that it can be run in, by the name that [`Peer::note`] gives it.
    pub fn variant(&self, name: &str, variant: &str) -> Option<Box<dyn Run>> {
        let answer = self.process.borrow_mut().request(&format!("setup {name} {variant}"))?;
        let note = answer.strip_prefix("ok")?.trim();
        *self.note.borrow_mut() = (!note.is_empty()).then(|| note.to_string());
        Some(Box::new(Case { library: self.name, process: self.process.clone() }))
    }

    /// Writes the model of a case into a file that ONNX Runtime reads; whether that succeeded.
    pub fn export(&self, name: &str, path: &Path) -> bool {
        let answer = self.process.borrow_mut().request(&format!("export {name} {}", path.display()));
        answer.as_deref() == Some("ok")
    }

    /// The most bytes that the process had in memory; `None` where the system does not tell.
    pub fn peak(&self) -> Option<u64> {
        self.process.borrow_mut().request("peak")?.parse().ok()
    }
}

impl Peer for Python {
    fn name(&self) -> &str {
        self.name
    }

    fn case(&self, name: &str) -> Option<Box<dyn Run>> {
        self.variant(name, "")
    }

    fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        let path = std::env::temp_dir().join(format!("flex-bench-{}.f32", std::process::id()));
        let request = format!("numbers {name} {}", path.display());
        self.process.borrow_mut().request(&request).filter(|answer| answer == "ok")?;
        let bytes = fs::read(&path).ok()?;
        // Removing fails if somebody else did it, which does not matter.
        let _ = fs::remove_file(&path);
        let numbers = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]).into());
        Some(numbers.collect())
    }

    fn note(&self) -> Option<String> {
        self.note.borrow().clone()
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
struct Case {
    library: &'static str,
    process: Rc<RefCell<Process>>,
}

impl Run for Case {
    fn sample(&mut self, repeats: usize) -> f64 {
        std::thread::sleep(REST);
        let answer = self.process.borrow_mut().request(&format!("run {repeats}"));
        let seconds = answer.as_ref().and_then(|answer| answer.parse().ok());
        seconds.unwrap_or_else(|| {
            let came = answer.as_deref().unwrap_or("no answer: the process has ended");
            panic!("{} was asked for seconds, and gave {came:?}", self.library)
        })
    }
}
