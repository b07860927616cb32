//! Configuration values that must be equal on all replicas of a cluster. Replicas compare them when they connect.

use crate::codec::{DecodeError, Decoder, Encoder, Wire};
use crate::digest::{Digest, Hasher};
use crate::tags;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Maximum length of encoded parameters, in bytes, so that they fit into one packet of every transport.
pub const MAX_PARAMETERS_BYTES: usize = 1100;
/// Maximum length of a key or a value, in bytes.
const MAX_TEXT_BYTES: usize = 127;

/// Keys and values that must be equal on all replicas, ordered by key. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parameters(Arc<BTreeMap<String, String>>);

/// A key with different values. `None` for an end that does not know the key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    pub key: String,
    pub own: Option<String>,
    pub peer: Option<String>,
}

impl Difference {
    /// Creates the difference of a key known to both ends.
    pub fn new(key: &str, own: String, peer: String) -> Difference {
        Difference { key: key.to_owned(), own: Some(own), peer: Some(peer) }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        write!(f, "`{}` is {} here and {} there", self.key, value(&self.own), value(&self.peer))
    }
}

/// Formats differences as a sentence.
pub fn list(differences: &[Difference]) -> String {
    let texts: Vec<String> = differences.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

impl Parameters {
    /// Creates parameters from keys and values.
    ///
    /// # Panics
    /// If a string is longer than 127 bytes or not printable ASCII, or the encoding exceeds [`MAX_PARAMETERS_BYTES`].
    pub fn new<K: Into<String>>(values: impl IntoIterator<Item = (K, String)>) -> Parameters {
        let values: BTreeMap<String, String> = values.into_iter().map(|(key, value)| (key.into(), value)).collect();
        let sound = values.iter().all(|(key, value)| is_text(key.as_bytes()) && is_text(value.as_bytes()));
        assert!(sound, "keys and values are short printable ASCII: {values:?}");
        let parameters = Parameters(Arc::new(values));
        assert!(parameters.encode().len() <= MAX_PARAMETERS_BYTES, "the parameters fit into one packet");
        parameters
    }

    /// Returns a digest of all keys and values.
    pub fn digest(&self) -> Digest {
        let mut hasher = Hasher::new(tags::PARAMETERS);
        hasher.update(&self.encode());
        hasher.finish()
    }

    /// Returns the encoding: each key and each value as a one-byte length and its text.
    pub fn encode(&self) -> Vec<u8> {
        let texts = self.0.iter().flat_map(|(key, value)| [key, value]);
        texts.flat_map(|text| [&[text.len() as u8], text.as_bytes()].concat()).collect()
    }

    /// Decodes another end's [encoding](Parameters::encode). `None` if it is malformed, not printable, or has keys out
    /// of order.
    pub fn decode(mut bytes: &[u8]) -> Option<Parameters> {
        if bytes.len() > MAX_PARAMETERS_BYTES {
            return None;
        }
        let mut text = || {
            let (length, rest) = bytes.split_first()?;
            let (text, rest) = rest.split_at_checked(usize::from(*length))?;
            bytes = rest;
            Some(String::from_utf8(text.to_vec()).ok().filter(|text| is_text(text.as_bytes())))
        };
        let mut values = BTreeMap::new();
        while let Some(key) = text() {
            let (key, value) = (key?, text()??);
            if values.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return None;
            }
            values.insert(key, value);
        }
        bytes.is_empty().then(|| Parameters(Arc::new(values)))
    }

    /// Returns this end's values of the keys for which the peer has a different value.
    pub fn differing(&self, peer: &Parameters) -> Parameters {
        let differs = |(key, theirs): (&String, &String)| {
            let own = self.0.get(key).filter(|own| *own != theirs)?;
            Some((key.clone(), own.clone()))
        };
        Parameters(Arc::new(peer.0.iter().filter_map(differs).collect()))
    }

    /// Returns the keys and their values, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns the keys whose values differ from a peer's, in order.
    pub fn differences(&self, peer: &Parameters) -> Vec<Difference> {
        let keys: std::collections::BTreeSet<&String> = self.0.keys().chain(peer.0.keys()).collect();
        let difference = |key: &String| {
            let (own, theirs) = (self.0.get(key), peer.0.get(key));
            (own != theirs).then(|| Difference { key: key.clone(), own: own.cloned(), peer: theirs.cloned() })
        };
        keys.into_iter().filter_map(difference).collect()
    }
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.len() <= MAX_TEXT_BYTES && bytes.iter().all(|byte| (b' '..=b'~').contains(byte))
}

/// By hand: the handshake has the same text without a length, and one parser serves both.
impl Wire for Parameters {
    fn encode(&self, out: &mut Encoder) {
        out.put_bytes(&Parameters::encode(self));
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let bytes = input.get_bytes("parameters", MAX_PARAMETERS_BYTES)?;
        Parameters::decode(&bytes)
            .ok_or_else(|| input.invalid("parameters", "they are not keys in order with short values"))
    }
}
