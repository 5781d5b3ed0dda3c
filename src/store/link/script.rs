//! A Lua script, and how it is sent. Each script lies beside the Rust that calls it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use ::redis::{Cmd, cmd};

use crate::filter::Header;
use crate::filter::lengths::BLOCK_LEN;
use crate::id::Digest;

/// One Lua script. It is sent by its hash, and whole only where the server does not know it.
pub(crate) struct Script {
    name: &'static str,
    code: &'static str,
    hash: OnceLock<String>,
}

/// How a script is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    ByHash,
    Whole,
}

impl Script {
    pub(crate) const fn new(name: &'static str, code: &'static str) -> Self {
        Self { name, code, hash: OnceLock::new() }
    }

    /// Returns the script's file name, which errors quote.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the command that runs the script.
    pub(crate) fn command(&self, sending: Sending, keys: &[&str], args: &[&[u8]]) -> Cmd {
        let mut command = match sending {
            Sending::ByHash => {
                let hash = || ::redis::Script::new(self.code).get_hash().to_owned();
                cmd("EVALSHA").arg(self.hash.get_or_init(hash)).clone()
            }
            Sending::Whole => cmd("EVAL").arg(self.code).clone(),
        };
        command.arg(keys.len());
        for key in keys {
            command.arg(*key);
        }
        for arg in args {
            command.arg(*arg);
        }
        command
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
