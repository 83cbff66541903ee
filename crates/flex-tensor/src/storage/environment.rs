//! Settings in the environment.

/// The number of bytes that the environment variable `name` holds, where `off` stands for the number `off`.
/// Nothing if the variable is unset or empty.
///
/// # Panics
/// When it holds something else.
pub fn bytes(name: &str, off: usize) -> Option<usize> {
    parse(name, &std::env::var(name).ok()?, off)
}

fn parse(name: &str, value: &str, off: usize) -> Option<usize> {
    match value {
        "" => None,
        "off" => Some(off),
        bytes => {
            let bytes = bytes.parse();
            Some(bytes.unwrap_or_else(|_| panic!("{name} is {value:?}, expected a number of bytes, or off")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbers_of_bytes_or_off() {
        assert_eq!(parse("NAME", "4096", 7), Some(4096));
        assert_eq!(parse("NAME", "off", 7), Some(7));
        assert_eq!(parse("NAME", "", 7), None);
        assert_eq!(bytes("FLEX_NO_SUCH_SETTING", 7), None);
    }

    #[test]
    #[should_panic(expected = "NAME is \"4 KiB\", expected a number of bytes, or off")]
    fn other_values_are_refused() {
        parse("NAME", "4 KiB", 7);
    }
}
