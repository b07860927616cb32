//! Names of the storage certificates on which a block relies.

use crate::codec::{DecodeError, Decoder, Encoder, Wire, encode_list};
use crate::digest::Digest;

/// Index of a bundle that relies on no certificate.
const NONE: u16 = u16::MAX;

/// Names of certificates, and for each bundle of a block the one that proves its storage. A name is a digest of the
/// certificate's subject and signers. Empty if replicas certify no storage.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CoverNames {
    /// In the order of the first bundles that rely on them.
    names: Vec<Digest>,
    /// Index into `names` for each bundle; empty if there are no names.
    of: Vec<u16>,
}

impl CoverNames {
    /// Creates the names from the certificate's name of each bundle, in the order of the payload; `None` for a bundle
    /// without one.
    pub fn new(of_bundles: impl IntoIterator<Item = Option<Digest>>) -> CoverNames {
        let (mut names, mut of): (Vec<Digest>, Vec<u16>) = (Vec::new(), Vec::new());
        for name in of_bundles {
            let Some(name) = name else {
                of.push(NONE);
                continue;
            };
            // The bundles of one certificate are often adjacent.
            let last = of.last().filter(|at| names.get(usize::from(**at)) == Some(&name)).copied();
            let known = last.map(usize::from).or_else(|| names.iter().position(|known| *known == name));
            let at = known.unwrap_or(names.len());
            if at == names.len() && at < usize::from(NONE) {
                names.push(name);
            }
            of.push(u16::try_from(at).unwrap_or(NONE));
        }
        if names.is_empty() {
            of.clear();
        }
        CoverNames { names, of }
    }

    /// Returns whether no certificate is named.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the names, each once.
    pub fn names(&self) -> &[Digest] {
        &self.names
    }

    /// Returns the name of the certificate of the bundle at this index of the payload.
    pub fn of(&self, position: usize) -> Option<&Digest> {
        self.names.get(usize::from(*self.of.get(position)?))
    }

    /// Returns the name of the certificate of each bundle, in the order of the payload. Empty if none is named.
    pub fn of_bundles(&self) -> impl ExactSizeIterator<Item = Option<&Digest>> {
        self.of.iter().map(|at| self.names.get(usize::from(*at)))
    }

    /// Returns whether these names match a payload of `bundles` bundles.
    pub(crate) fn fit(&self, bundles: usize) -> bool {
        self.is_empty() || self.of.len() == bundles
    }

    /// Returns the length of the names on the wire, in bytes.
    pub fn wire_bytes(&self) -> usize {
        if self.is_empty() { 0 } else { 4 + self.names.len() * size_of::<Digest>() + self.of.len() * size_of::<u16>() }
    }

    pub(crate) fn encode(&self, out: &mut Encoder) {
        encode_list(&self.names, out);
        self.of.iter().for_each(|at| out.put_u16(*at));
    }

    /// Decodes the names of a block with this many bundles.
    pub(crate) fn decode(input: &mut Decoder, bundles: usize) -> Result<CoverNames, DecodeError> {
        let count = input.get_count("certificates of a block", bundles.min(usize::from(NONE)), size_of::<Digest>())?;
        let names = (0..count).map(|_| Digest::decode(input)).collect::<Result<Vec<_>, _>>()?;
        let (mut of, mut seen) = (Vec::with_capacity(bundles), 0);
        for _ in 0..bundles {
            let at = input.get_u16("certificate of a bundle")?;
            if at != NONE && at > seen {
                return Err(input.invalid("certificate of a bundle", "names are not in the order of their bundles"));
            }
            seen += u16::from(at == seen && at != NONE);
            of.push(at);
        }
        if names.is_empty() || usize::from(seen) != names.len() {
            return Err(input.invalid("certificates of a block", "a block names those that its bundles rely on"));
        }
        Ok(CoverNames { names, of })
    }
}
