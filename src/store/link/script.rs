//! A Lua script, and how it is sent. Each script lies beside the Rust that calls it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use ::redis::{Cmd, cmd};

use super::reply::Reply;
use crate::error::StoreError;
use crate::filter::Header;
use crate::filter::lengths::BLOCK_LEN;
use crate::id::Digest;

/// Has Redis 7 and later run a script also while the memory is full.
const DESPITE_OOM: &str = "#!lua flags=allow-oom\n";

/// A Lua script. It is sent by its hash, and whole only where the server does not know it.
pub(crate) struct Script {
    name: &'static str,
    code: &'static str,
    despite_oom: bool,
    /// Without the flag, and with it.
    hashes: [OnceLock<String>; 2],
}

impl Script {
    pub(crate) const fn new(name: &'static str, code: &'static str) -> Self {
        Self { name, code, despite_oom: false, hashes: [OnceLock::new(), OnceLock::new()] }
    }

    /// Returns a script that a full memory must not stop.
    pub(crate) const fn despite_oom(name: &'static str, code: &'static str) -> Self {
        let mut script = Self::new(name, code);
        script.despite_oom = true;
        script
    }

    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) async fn run<F>(
        &self,
        major: u32,
        keys: &[&str],
        args: &[&[u8]],
        send: impl Fn(Cmd) -> F,
    ) -> Result<Reply, StoreError>
    where
        F: Future<Output = Result<Reply, StoreError>>,
    {
        let knows_flag = self.despite_oom && major >= 7;
        let flag = if knows_flag { DESPITE_OOM } else { "" };
        let code = || format!("{flag}{}", self.code);
        let hash = self.hashes[usize::from(knows_flag)]
            .get_or_init(|| ::redis::Script::new(&code()).get_hash().to_owned());
        let by_hash = cmd("EVALSHA").arg(hash).arg(keys.len()).arg(keys).arg(args).clone();
        match send(by_hash).await {
            Err(StoreError::Refused { reason, .. }) if reason.starts_with("NOSCRIPT") => {
                send(cmd("EVAL").arg(code()).arg(keys.len()).arg(keys).arg(args).clone()).await
            }
            other => other,
        }
    }
}

/// Returns the id of a secret key or of a Redis process, as scripts take it.
pub(crate) fn hex(id: u32) -> String {
    format!("{id:08x}")
}

/// Returns the bits of digests in a filter as scripts take them, block by block: the block's offset in bytes, u32
/// big-endian, and a mask of 64 bytes.
pub(crate) fn masks(header: &Header, digests: &[Digest]) -> Vec<u8> {
    let mut blocks = BTreeMap::<u32, [u64; 8]>::new();
    for digest in digests {
        let position = header.geometry.position(digest);
        let block = blocks.entry(position.byte_offset()).or_default();
        for (word, mask) in block.iter_mut().zip(&position.mask) {
            *word |= mask;
        }
    }
    let mut bytes = Vec::with_capacity(blocks.len() * (4 + BLOCK_LEN));
    for (offset, mask) in blocks {
        bytes.extend(offset.to_be_bytes());
        bytes.extend(mask.into_iter().flat_map(u64::to_be_bytes));
    }
    bytes
}
