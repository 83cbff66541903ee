//! Arguments of the benches.

use std::time::Duration;

/// A number of seconds, more than none.
///
/// # Errors
/// The text is no such number.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && Duration::try_from_secs_f64(seconds).is_ok() => Ok(seconds),
        Ok(_) => Err("seconds of more than zero are needed".into()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_durations_are_numbers_of_seconds() {
        assert_eq!(positive("0.5"), Ok(0.5));
        for text in ["0", "-1", "nan", "inf", "1e300", "", "one"] {
            assert!(positive(text).is_err(), "{text}");
        }
    }
}
