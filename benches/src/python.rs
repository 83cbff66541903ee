//! PyTorch as a peer: a Python process that runs the cases of the same names when it is asked to.

use crate::timing::Run;
#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

/// The script, whose first lines document the protocol.
const SCRIPT: &str = include_str!("../torch_peer.py");

/// Rest before a sample, so that this process's own idle threads have gone to sleep.
const REST: Duration = Duration::from_millis(1);

/// A running Python process.
#[derive(Clone, Debug)]
pub struct Python(Rc<RefCell<Process>>);

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
    /// What is missing, and how to install it.
    pub fn start(python: &str, threads: usize) -> Result<Self, String> {
        let hint = format!(
            "install PyTorch with `python3 -m venv torch && torch/bin/pip install torch numpy` and name that \
             interpreter: --python torch/bin/python (tried {python:?})"
        );
        let mut child = Command::new(python)
            .args(["-c", SCRIPT, &threads.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start Python: {e}; {hint}"))?;
        let (Some(ask), Some(answer)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("cannot talk to Python".into());
        };
        let python = Self(Rc::new(RefCell::new(Process { child, ask, answer: BufReader::new(answer) })));
        match python.0.borrow_mut().request("version") {
            Some(version) => eprintln!("{version}"),
            None => return Err(format!("Python cannot import torch; {hint}")),
        }
        Ok(python)
    }

    /// The case of this name, or nothing when the script does not have it.
    pub fn case(&self, name: &str) -> Option<Box<dyn Run>> {
        self.0.borrow_mut().request(&format!("setup {name}")).filter(|answer| answer == "ok")?;
        Some(Box::new(Case(self.clone())))
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

    /// Stops the process: idle OpenMP threads spin for milliseconds, on the cores that the next peer is timed on.
    #[cfg(unix)]
    fn freeze(&self) {
        // A process that has ended cannot be stopped, nor need it be.
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
        // The script ends with its input; a process that does not is of no use either.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The case that was set up last.
struct Case(Python);

impl Run for Case {
    fn sample(&mut self, repeats: usize) -> f64 {
        std::thread::sleep(REST);
        let answer = self.0.0.borrow_mut().request(&format!("run {repeats}"));
        answer.and_then(|a| a.parse().ok()).expect("the Python process answers with seconds")
    }
}
