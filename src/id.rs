//! Ids and their digests.

use std::fmt;
use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher24};
use smallvec::SmallVec;

/// The canonical bytes of a resource id, at most [`Id::MAX_LEN`] of them.
///
/// Whatever the handler treats as the same record must have the same bytes here, in requests, in
/// inserts and in rebuilds alike; the extractor's [`canonical`](crate::extract::IdExtractor::canonical) sees
/// to that. `Debug` shows the length only, so an id cannot slip into a log line.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(SmallVec<[u8; 40]>);

impl Id {
    /// The longest id, in bytes.
    pub const MAX_LEN: usize = 256;

    /// The most ids that one request may list.
    pub const MAX_LISTED: usize = 100;

    /// Returns the id made of these bytes, taken as they are.
    ///
    /// # Errors
    ///
    /// [`InvalidId::TooLong`] when there are more than [`Id::MAX_LEN`] bytes.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, InvalidId> {
        let bytes = bytes.as_ref();
        if bytes.len() > Self::MAX_LEN {
            return Err(InvalidId::TooLong { len: bytes.len() });
        }
        Ok(Self(SmallVec::from_slice(bytes)))
    }

    /// Returns the id that a value's [`Display`](fmt::Display) form spells.
    ///
    /// # Errors
    ///
    /// [`InvalidId::TooLong`] when the text has more than [`Id::MAX_LEN`] bytes.
    pub fn display(value: &(impl fmt::Display + ?Sized)) -> Result<Self, InvalidId> {
        let mut text = Text { id: Self(SmallVec::new()), len: 0 };
        match fmt::Write::write_fmt(&mut text, format_args!("{value}")) {
            Ok(()) if text.len <= Self::MAX_LEN => Ok(text.id),
            Ok(()) => Err(InvalidId::TooLong { len: text.len }),
            Err(fmt::Error) => Err(InvalidId::Malformed),
        }
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({} bytes)", self.0.len())
    }
}

/// Collects formatted text up to the limit, and counts what is beyond.
struct Text {
    id: Id,
    len: usize,
}

impl fmt::Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.len = self.len.saturating_add(s.len());
        if self.len <= Id::MAX_LEN {
            self.id.0.extend_from_slice(s.as_bytes());
        }
        Ok(())
    }
}

/// Why a text is not an id. A check refuses and an insert reports exactly the same texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidId {
    /// More than [`Id::MAX_LEN`] bytes.
    #[error("id of {len} bytes is longer than the limit of {}", Id::MAX_LEN)]
    TooLong {
        /// How many bytes there were.
        len: usize,
    },
    /// The bytes are not UTF-8 where the handler would want text.
    #[error("id is not valid UTF-8")]
    NotText,
    /// The text does not parse as the id's type.
    #[error("id does not parse as its type")]
    Malformed,
    /// The request names the id more than once.
    #[error("id is named more than once")]
    Ambiguous,
    /// The request lists more than [`Id::MAX_LISTED`] ids. Some of them may exist: it is never answered 404.
    #[error("list of {len} ids is longer than the limit of {}", Id::MAX_LISTED)]
    TooMany {
        /// How many there were.
        len: usize,
    },
}

/// The keyed 128-bit digest of an id: all that ever leaves this process.
///
/// SipHash-2-4-128 ([Aumasson & Bernstein 2012](https://eprint.iacr.org/2012/351)) with the filter's
/// secret key over `len(namespace) ‖ namespace ‖ id bytes`, the length being one byte. The key is what keeps others from forging
/// false positives (Gerbet, Kumar & Lauradoux 2015).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Digest([u8; 16]);

impl Digest {
    pub(crate) const LEN: usize = 16;

    pub(crate) const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the number of the id's shard. It grows with the digest's bytes.
    pub(crate) const fn shard(&self, shards: usize) -> usize {
        (u16::from_be_bytes([self.0[0], self.0[1]]) as usize * shards) >> 16
    }

    pub(crate) const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    pub(crate) fn hex(&self) -> [u8; 2 * Self::LEN] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; 2 * Self::LEN];
        for (pair, byte) in hex.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *pair = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
        }
        hex
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.hex()).map_err(|_| fmt::Error)?)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyedDigest {
    pub(crate) digest: Digest,
    key_id: u32,
}

impl KeyedDigest {
    pub(crate) fn by(&self, digester: &Digester) -> Option<Digest> {
        (self.key_id == digester.key_id).then_some(self.digest)
    }
}

/// The 128-bit key of a filter's digests.
///
/// `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey([u8; 16]);

impl SecretKey {
    /// Returns the key with these bytes. They should come from a secret store or a random source.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Returns the number that stands for the key in the header of the filter with this name. It tells nothing about the key.
    pub(crate) fn id_for(&self, namespace: &str) -> u32 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(b"bloom-guard key id of ");
        hasher.write(namespace.as_bytes());
        let digest = hasher.finish128().as_bytes();
        u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

#[derive(Clone)]
pub(crate) struct Digester {
    /// Key and namespace, hashed ahead.
    beginning: SipHasher24,
    key_id: u32,
}

impl Digester {
    /// Returns the digester of a namespace (a filter's name, at most 255 bytes) under a key.
    pub(crate) fn new(key: &SecretKey, namespace: &str) -> Self {
        let len = u8::try_from(namespace.len()).unwrap_or(u8::MAX);
        let mut beginning = SipHasher24::new_with_key(key.as_bytes());
        beginning.write(&[len]);
        beginning.write(namespace.as_bytes());
        Self { beginning, key_id: key.id_for(namespace) }
    }

    pub(crate) fn digest(&self, id: &Id) -> Digest {
        let mut hasher = self.beginning;
        hasher.write(id.as_bytes());
        Digest::from_bytes(hasher.finish128().as_bytes())
    }

    /// Returns the digest of an id: `made`, if that was made with this key.
    pub(crate) fn digest_once(&self, id: &Id, made: Option<KeyedDigest>) -> KeyedDigest {
        let digest = made.and_then(|made| made.by(self)).unwrap_or_else(|| self.digest(id));
        KeyedDigest { digest, key_id: self.key_id }
    }

    #[cfg(feature = "redis")]
    pub(crate) const fn keyed(&self, digest: Digest) -> KeyedDigest {
        KeyedDigest { digest, key_id: self.key_id }
    }

    #[cfg(feature = "redis")]
    pub(crate) const fn key_id(&self) -> u32 {
        self.key_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_at_most_256_bytes() {
        assert!(Id::new([7; 256]).is_ok());
        assert_eq!(Id::new([7; 257]), Err(InvalidId::TooLong { len: 257 }));
        assert_eq!(Id::display(&"x".repeat(300)), Err(InvalidId::TooLong { len: 300 }));
    }

    #[test]
    fn a_displayed_number_is_its_decimal_text() {
        assert_eq!(Id::display(&-7_i64).unwrap().as_bytes(), b"-7");
    }

    #[test]
    fn debug_output_never_shows_an_id_or_a_key() {
        let id = Id::new("alice@example.org").unwrap();
        assert_eq!(format!("{id:?}"), "Id(17 bytes)");
        let key = SecretKey::new([0x5a; 16]);
        assert!(!format!("{key:?}").contains("5a5a"));
    }

    #[test]
    fn a_digest_of_another_key_is_not_taken_for_ones_own() {
        let of = |key| Digester::new(&SecretKey::new([key; 16]), "users");
        let (id, one, other) = (Id::new("7").unwrap(), of(1), of(2));
        let made = Some(one.digest_once(&id, None));
        assert_eq!(one.digest_once(&id, made).digest, one.digest(&id));
        assert_eq!(other.digest_once(&id, made).digest, other.digest(&id));
    }

    #[test]
    fn namespace_and_id_cannot_be_shifted_into_each_other() {
        let key = SecretKey::new([1; 16]);
        let left = Digester::new(&key, "ab").digest(&Id::new("c").unwrap());
        let right = Digester::new(&key, "a").digest(&Id::new("bc").unwrap());
        assert_ne!(left, right);
    }
}
