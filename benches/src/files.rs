//! Files of measurements.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::path::Path;

/// Reads what [`json`] wrote.
///
/// # Errors
/// The file cannot be read or holds something else.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{} holds no report: {e}", path.display()))
}

/// Measurements as JSON.
pub fn json(measured: &impl Serialize) -> String {
    serde_json::to_string_pretty(measured).expect("measurements are made of numbers and names") + "\n"
}

/// Writes a file.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
}
