//! The scripts, and how they reach the server.

use std::sync::LazyLock;

use ::redis::{Cmd, Script as Source, cmd};

/// One Lua script, sent by its hash and whole only where the server does not know it.
pub(crate) struct Script {
    name: &'static str,
    code: &'static str,
    plain: LazyLock<Source>,
}

/// How a script is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    ByHash,
    Whole,
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {$(
        $(#[$doc])*
        pub(crate) static $name: Script = Script {
            name: $file,
            code: include_str!($file),
            plain: LazyLock::new(|| Source::new(include_str!($file))),
        };
    )*};
}

scripts! {
    JOIN = "incarnation/join.lua";
    VIEW = "view.lua";
    ADD = "add.lua";
    DISTRUST = "distrust.lua";
    NULL = "null.lua";
    LEASE = "rebuild/lease.lua";
    RENEW = "rebuild/renew.lua";
    RELEASE = "rebuild/release.lua";
    ALLOCATE = "rebuild/allocate.lua";
    UPLOAD = "rebuild/upload.lua";
    CATCH_UP = "rebuild/catch_up.lua";
    REPLAY = "rebuild/replay.lua";
    SWAP = "rebuild/swap.lua";
    GIVE_UP_REPLAY = "incarnation/give_up_replay.lua";
}

/// The add script under `allow-oom`: an add that memory pressure refuses would fail the
/// application's write, though it needs next to no memory itself. Redis 7 and later know the flag.
static ADD_DESPITE_OOM: LazyLock<Source> =
    LazyLock::new(|| Source::new(&format!("#!lua flags=allow-oom\n{}", ADD.code)));

impl Script {
    /// Returns the script's path from here, which is how errors speak of it.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the command that runs the script on a server of this major version.
    pub(crate) fn command(
        &'static self,
        sending: Sending,
        server_major: u32,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Cmd {
        let flagged = std::ptr::eq(self, &raw const ADD) && server_major >= 7;
        let source = if flagged { &*ADD_DESPITE_OOM } else { &*self.plain };
        let mut command = match sending {
            Sending::ByHash => {
                let mut command = cmd("EVALSHA");
                command.arg(source.get_hash());
                command
            }
            Sending::Whole => {
                let mut command = cmd("EVAL");
                if flagged {
                    command.arg(format!("#!lua flags=allow-oom\n{}", self.code));
                } else {
                    command.arg(self.code);
                }
                command
            }
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
