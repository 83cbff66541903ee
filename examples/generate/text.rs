//! Text to tokens and back: by a `tokenizer.json`, or byte by byte where there is none.

use std::path::Path;

/// How text becomes tokens.
pub enum Text {
    /// A token is a byte.
    Bytes,
    /// As the model was trained.
    #[cfg(feature = "tokenizers")]
    Tokenizer(Box<tokenizers::Tokenizer>),
}

impl Text {
    /// The tokenizer of a file, or bytes.
    pub fn open(path: Option<&Path>) -> Result<Self, String> {
        let Some(path) = path else { return Ok(Self::Bytes) };
        #[cfg(feature = "tokenizers")]
        return match tokenizers::Tokenizer::from_file(path) {
            Ok(tokenizer) => Ok(Self::Tokenizer(Box::new(tokenizer))),
            Err(error) => Err(format!("{}: {error}", path.display())),
        };
        #[cfg(not(feature = "tokenizers"))]
        Err(format!("{}: this program was built without `--features tokenizers`", path.display()))
    }

    /// The tokens of a text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        match self {
            Self::Bytes => Ok(text.bytes().map(u32::from).collect()),
            #[cfg(feature = "tokenizers")]
            Self::Tokenizer(tokenizer) => {
                tokenizer.encode(text, false).map(|e| e.get_ids().to_vec()).map_err(|e| e.to_string())
            }
        }
    }

    /// The text of tokens; a token that is no byte is shown by its number.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, String> {
        match self {
            Self::Bytes => {
                let runs = tokens.chunk_by(|&a, &b| a < 256 && b < 256);
                Ok(runs
                    .map(|run| match run {
                        &[token] if token >= 256 => format!("<{token}>"),
                        bytes => {
                            let bytes: Vec<u8> = bytes.iter().map(|&byte| byte as u8).collect();
                            String::from_utf8_lossy(&bytes).into_owned()
                        }
                    })
                    .collect())
            }
            #[cfg(feature = "tokenizers")]
            Self::Tokenizer(tokenizer) => tokenizer.decode(tokens, false).map_err(|e| e.to_string()),
        }
    }
}
