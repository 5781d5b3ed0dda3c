//! The names of the keys of a shard. All share one hash slot; ids never appear in one.

use crate::id::Digest;

/// The most shards of a filter.
pub(crate) const MOST_SHARDS: u32 = 1_024;

#[derive(Debug, Clone)]
pub(crate) struct Keys {
    pub(crate) bits: String,
    pub(crate) next: String,
    /// The record of recent inserts.
    pub(crate) recent: String,
    /// The metadata. Versions before had theirs under another name.
    pub(crate) meta: String,
    pub(crate) lock: String,
    /// Blocks and masks, while an insert sets bits.
    scratch: [String; 2],
    nulls: String,
}

impl Keys {
    /// Returns the keys of a shard, by its number and how many there are. No filter's name holds `#` or `/`.
    pub(crate) fn of_shard(name: &str, number: u32, shards: u32) -> Self {
        if shards > 1 { Self::new(&format!("{name}#{number}/{shards}")) } else { Self::new(name) }
    }

    pub(crate) fn new(name: &str) -> Self {
        let key = |part: &str| format!("bg:{{{name}}}:{part}");
        Self {
            bits: key("bits"),
            next: key("next"),
            recent: key("recent"),
            meta: key("fleet"),
            lock: key("lock"),
            scratch: [key("blocks"), key("masks")],
            nulls: key("null:"),
        }
    }

    pub(crate) fn of_add(&self, digests: &[Digest]) -> Vec<String> {
        let [blocks, masks] = &self.scratch;
        let filter = [&self.meta, &self.recent, &self.bits, &self.next, &self.lock, blocks, masks];
        filter.into_iter().cloned().chain(digests.iter().map(|digest| self.null(digest))).collect()
    }

    pub(crate) fn null(&self, digest: &Digest) -> String {
        format!("{}{digest}", self.nulls)
    }

    /// Returns the parts of a null's key, of a digest written in hex.
    pub(crate) fn null_parts<'a>(&'a self, hex: &'a [u8; 32]) -> [&'a [u8]; 2] {
        [self.nulls.as_bytes(), hex]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_share_one_hash_slot() {
        let keys = Keys::new("users");
        assert_eq!(keys.bits, "bg:{users}:bits");
        let null = keys.null(&Digest::from_bytes([0xab; 16]));
        assert_eq!(null, format!("bg:{{users}}:null:{}", "ab".repeat(16)));
        assert_eq!(Keys::of_shard("users", 0, 1).bits, "bg:{users}:bits");
        assert_eq!(Keys::of_shard("users", 3, 8).bits, "bg:{users#3/8}:bits");
    }
}
