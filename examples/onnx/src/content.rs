//! What the model sees of a file.

use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// How many bytes of a file become tokens. The model's own `config.json` says so.
#[derive(Debug, Deserialize)]
pub(crate) struct Sizes {
    /// Tokens from the start of a file.
    #[serde(rename = "beg_size")]
    pub first: usize,
    /// Tokens from its end.
    #[serde(rename = "end_size")]
    pub last: usize,
    /// Bytes that are read at either end.
    #[serde(rename = "block_size")]
    pub block: usize,
    /// The token that stands where a file has no more bytes.
    #[serde(rename = "padding_token")]
    pub padding: i32,
    /// Files with fewer bytes are not shown to the model.
    #[serde(rename = "min_file_size_for_dl")]
    pub least: usize,
}

/// What is known of a path before the model is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A folder.
    Folder,
    /// A file without bytes.
    Empty,
    /// A device, a pipe or a socket, which is not read.
    Special,
    /// A file with too few bytes for the model, which are or are not UTF-8.
    Few {
        /// Whether the bytes are UTF-8.
        text: bool,
    },
    /// The tokens of a file: bytes as numbers.
    Tokens(Vec<i32>),
}

impl Content {
    /// Reads the ends of a file; at most two blocks of it.
    pub(crate) fn of_path(path: &Path, sizes: &Sizes) -> io::Result<Self> {
        let kind = std::fs::metadata(path)?;
        if kind.is_dir() {
            Ok(Self::Folder)
        } else if kind.is_file() {
            Self::of_file(File::open(path)?, sizes)
        } else {
            Ok(Self::Special)
        }
    }

    /// [`of_path`](Self::of_path) for an opened file.
    fn of_file(mut file: impl Read + Seek, sizes: &Sizes) -> io::Result<Self> {
        let size = file.seek(SeekFrom::End(0))?;
        if size == 0 {
            return Ok(Self::Empty);
        }
        let len = size.min(sizes.block as u64);
        let mut block = |start: u64| {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(start))?;
            file.by_ref().take(len).read_to_end(&mut bytes)?;
            Ok::<_, io::Error>(bytes)
        };
        let (first, last) = (block(0)?, block(size - len)?);
        let start = first.iter().position(|&byte| !is_space(byte)).unwrap_or(first.len());
        if first.len() - start < sizes.least {
            return Ok(Self::Few { text: std::str::from_utf8(&first).is_ok() });
        }
        let end = last.iter().rposition(|&byte| !is_space(byte)).map_or(0, |at| at + 1);
        let mut tokens = vec![sizes.padding; sizes.first + sizes.last];
        let (of_first, of_last) = tokens.split_at_mut(sizes.first);
        for (token, &byte) in of_first.iter_mut().zip(&first[start..]) {
            *token = i32::from(byte);
        }
        for (token, &byte) in of_last.iter_mut().rev().zip(last[..end].iter().rev()) {
            *token = i32::from(byte);
        }
        Ok(Self::Tokens(tokens))
    }
}

/// White space as Python's `bytes.strip` has it, with which the model was trained: a vertical tab too.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    const SIZES: Sizes = Sizes { first: 6, last: 4, block: 10, padding: 256, least: 3 };

    fn content(bytes: &[u8]) -> Content {
        Content::of_file(Cursor::new(bytes), &SIZES).expect("memory can be read")
    }

    /// Bytes as tokens; `_` is padding.
    fn tokens(text: &str) -> Content {
        Content::Tokens(text.bytes().map(|b| if b == b'_' { 256 } else { i32::from(b) }).collect())
    }

    #[test]
    fn both_ends_are_padded_on_the_far_side() {
        assert_eq!(content(b"abc"), tokens("abc____abc"));
        assert_eq!(content(b"abcdef"), tokens("abcdefcdef"));
        assert_eq!(content(b"abcdefgh"), tokens("abcdefefgh"));
    }

    #[test]
    fn white_space_counts_inside_alone() {
        assert_eq!(content(b"\n\t a b\x0b\x0c\r\n"), tokens("a b\x0b\x0c\r a b"));
        assert_eq!(content(b"  abc"), tokens("abc___ abc"));
    }

    /// The blocks of a long file do not overlap, and the middle is not read.
    #[test]
    fn long_files_are_read_at_their_ends() {
        assert_eq!(content(b"0123456789abcdefghijklmnopqrstuvwxyz"), tokens("012345wxyz"));
        // Only white space is in the first block.
        assert_eq!(content(b"          abcdefghij"), Content::Few { text: true });
    }

    #[test]
    fn few_bytes_are_text_or_not() {
        assert_eq!(content(b""), Content::Empty);
        assert_eq!(content(b"ab"), Content::Few { text: true });
        assert_eq!(content(b"\xff\xfe"), Content::Few { text: false });
        assert_eq!(content(b"   \n"), Content::Few { text: true });
    }
}
