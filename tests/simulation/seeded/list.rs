//! The bugs, and where each is put in.

use crate::plan::Flavour::{self, Calm, Evicting, Forgetful, Lossy, Wild, Zombies};

/// One bug.
pub(crate) struct Bug {
    pub(crate) name: &'static str,
    /// The runs that can find it.
    pub(crate) flavours: &'static [Flavour],
    pub(crate) edits: &'static [Edit],
}

/// One change of a text; `from` must be there exactly once.
pub(crate) enum Edit {
    /// In a script.
    Script { file: &'static str, from: &'static str, to: &'static str },
    /// In a Rust file: an expression, replaced by another while the bug is in.
    Source { file: &'static str, from: &'static str, to: &'static str },
    /// In a Rust file: a text, replaced by one that asks `SEEDED` whether the bug is in.
    Raw { file: &'static str, from: &'static str, to: &'static str },
}

use Edit::{Raw, Script, Source};

const ANY: &[Flavour] = &[Calm, Lossy, Zombies, Forgetful, Evicting, Wild];
const WHOLE_HEADER: &str = "redis.call('GETRANGE', KEYS[1], 0, 63) ~= ARGV[1]";

const CHECK: &str = "store/redis/check/mod.rs";
const BATCH: &str = "store/redis/check/batch.rs";
const NODE: &str = "store/link/node.rs";
const ANSWER: &str = "store/redis/check/answer.rs";
const RULES: &str = "nulls/rules.rs";
/// The requests whose unmarked 404s teach nothing.
const UNTAUGHT: &str = "needs == Scope::Everyone || query || self.requires_marker()";
const GUARD: &str = "guard/mod.rs";
const CATCH_UP: &str = "store/redis/check/catch_up.rs";
const LOAD: &str = "store/redis/copy/load.rs";

pub(crate) const BUGS: &[Bug] = &[
    Bug {
        name: "a missing filter read as absence",
        flavours: &[Evicting],
        edits: &[Raw {
            file: CHECK,
            from: "        Lookup { claim: NullClaim { asked_us, ..lookup.claim }, ..lookup }\n",
            to: "        let lookup = match lookup.verdict {
                crate::verdict::Verdict::Unknown(Doubt::NoFilter | Doubt::Gone) if SEEDED => Lookup {
                    verdict: crate::verdict::Verdict::Absent(crate::verdict::Proof::Filter),
                    ..lookup
                },
                _ => lookup,
            };
            Lookup { claim: NullClaim { asked_us, ..lookup.claim }, ..lookup }\n",
        }],
    },
    Bug {
        name: "a time-out read as absence",
        flavours: &[Lossy],
        edits: &[Raw {
            file: CHECK,
            from: "        Lookup { claim: NullClaim { asked_us, ..lookup.claim }, ..lookup }\n",
            to: "        let lookup = match lookup.verdict {
                crate::verdict::Verdict::Unknown(Doubt::Timeout) if SEEDED => Lookup {
                    verdict: crate::verdict::Verdict::Absent(crate::verdict::Proof::Filter),
                    ..lookup
                },
                _ => lookup,
            };
            Lookup { claim: NullClaim { asked_us, ..lookup.claim }, ..lookup }\n",
        }],
    },
    Bug {
        name: "the record of recent inserts not read",
        flavours: ANY,
        edits: &[
            Raw {
                file: "store/redis/rebuild/recent.rs",
                from: "            self.recent.extend(digests);\n",
                to: "            if !SEEDED {\n                self.recent.extend(digests);\n            }\n",
            },
        ],
    },
    Bug {
        name: "a floor ignored by a rebuild",
        flavours: ANY,
        edits: &[
            Source {
                file: "store/redis/rebuild/recent.rs",
                from: "floor > self.leased_us - self.window_us",
                to: "false",
            },
        ],
    },
    Bug {
        name: "a transaction's time left out of what a rebuild needs",
        flavours: ANY,
        edits: &[
            Source {
                file: "store/redis/rebuild/begin.rs",
                from: "window.as_micros() as i64",
                to: "0",
            },
        ],
    },
    Bug {
        name: "the upload over what was written to both filters",
        flavours: ANY,
        edits: &[
            Script {
                file: "upload.lua",
                from: "local found = string.find(there, '[^%z]')",
                to: "local found = nil",
            },
        ],
    },
    Bug {
        name: "a time to live carried over by the swap",
        flavours: &[Evicting],
        edits: &[Script { file: "swap.lua", from: "redis.call('PERSIST', KEYS[1])", to: "" }],
    },
    Bug { name: "the insert after the commit", flavours: ANY, edits: &[] },
    Bug {
        name: "a swap without a look at the token",
        flavours: &[Zombies],
        edits: &[Script {
            file: "swap.lua",
            from: "token(live) >= token(ARGV[1])",
            to: "false",
        }],
    },
    Bug {
        name: "a swap of whatever is there",
        flavours: &[Zombies],
        edits: &[Script { file: "swap.lua", from: WHOLE_HEADER, to: "false" }],
    },
    Bug {
        name: "the lease trusted instead of the token",
        flavours: &[Zombies],
        edits: &[
            Script {
                file: "upload.lua",
                from: "redis.call('GETRANGE', KEYS[1], 0, 63) ~= ARGV[1]",
                to: "false",
            },
            Script {
                file: "swap.lua",
                from: "redis.call('GETRANGE', KEYS[1], 0, 63) ~= ARGV[1]",
                to: "false",
            },
            Script {
                file: "swap.lua",
                from: "token(live) >= token(ARGV[1])",
                to: "false",
            },
        ],
    },
    Bug {
        name: "a leader's answer shared",
        flavours: ANY,
        edits: &[Raw {
            file: CHECK,
            from: "        Ok(Sent(node.check(self, live, asked, deadline, alone)?, asked_us))\n",
            to: "        let question = format!(\"{self:p} {digest:?}\");
        let sent = node.check(self, live, asked, deadline, alone)?;
        if !SEEDED {
            return Ok(Sent(sent, asked_us));
        }
        let (tell, received) = tokio::sync::oneshot::channel();
        let shared = async move {
            tell.send(crate::seeded::shared(true, question, sent.answer()).await).ok();
        };
        let sent = SentCheck { alone: Some(Box::pin(shared)), received, deadline };
        Ok(Sent(sent, asked_us))\n",
        }],
    },
    Bug {
        name: "a recent insert ignored by nulls",
        flavours: ANY,
        edits: &[
            Script {
                file: "null.lua",
                from: "if is_recent(redis.call('ZSCORE', KEYS[2], ARGV[4])) then return 'CREATED' end",
                to: "",
            },
        ],
    },
    Bug {
        name: "removals remembered while the record may lack creates",
        flavours: ANY,
        edits: &[
            Script {
                file: "null.lua",
                from: "if ARGV[5] == '1' and is_recent(meta[5] * 1000) then return 'CREATED' end",
                to: "",
            },
        ],
    },
    Bug {
        name: "the loss of the record unnoticed by nulls",
        flavours: &[Evicting],
        edits: &[
            Script {
                file: "null.lua",
                from: "if not top[2] or tonumber(top[2]) ~= tonumber(meta[2] or '0') then return 'CREATED' end",
                to: "",
            },
            Script {
                file: "null.lua",
                from: "if not floor or is_recent(floor)",
                to: "if floor and is_recent(floor)",
            },
        ],
    },
    Bug {
        name: "a lost record begun anew unnoticed",
        flavours: &[Evicting],
        edits: &[
            Script {
                file: "add.lua",
                from: "redis.call('ZADD', KEYS[2], number(last), 'floor')",
                to: "",
            },
            Script {
                file: "null.lua",
                from: "if not floor or is_recent(floor)",
                to: "if floor and is_recent(floor)",
            },
        ],
    },
    Bug {
        name: "an older copy of the record unnoticed",
        flavours: &[Forgetful],
        edits: &[
            Script {
                file: "null.lua",
                from: "if not top[2] or tonumber(top[2]) ~= tonumber(meta[2] or '0') then return 'CREATED' end",
                to: "",
            },
            Script {
                file: "add.lua",
                from: "if tonumber(top[2] or '0') ~= last then",
                to: "if not top[2] then",
            },
        ],
    },
    Bug {
        name: "a second jump of the clock taken for the first",
        flavours: &[Forgetful],
        edits: &[Source {
            file: "store/redis/incarnation/seen.rs",
            from: "is_next && age > met.clock.age() + SLACK",
            to: "false",
        }],
    },
    Bug {
        name: "what the record had to drop unnoticed",
        flavours: ANY,
        edits: &[
            Script {
                file: "add.lua",
                from: "number(math.max(floor, tonumber(youngest[2])))",
                to: "number(floor)",
            },
        ],
    },
    Bug {
        name: "a cached header trusted",
        flavours: ANY,
        edits: &[
            Source {
                file: ANSWER,
                from: "self.generation == header.generation.get()",
                to: "true",
            },
            Source {
                file: ANSWER,
                from: "self.trailer_number == header.generation.trailer_number()",
                to: "true",
            },
        ],
    },
    Bug {
        name: "another Redis process trusted",
        flavours: &[Forgetful],
        edits: &[
            Source {
                file: "store/redis/shard.rs",
                from: "header.run != run",
                to: "false",
            },
            Script {
                file: "join.lua",
                from: "if is_filter and is_other or is_live and stamp ~= meta.last then",
                to: "if false then",
            },
            Script {
                file: "join.lua",
                from: "    raise('live', micros)\n",
                to: "",
            },
            Script {
                file: "add.lua",
                from: "if is_whole(head, len, LIVE) and redis.call('GETRANGE', KEYS[3], 64, 71) ~= stamp(before) then",
                to: "if false then",
            },
            Source {
                file: BATCH,
                from: "!head.is_joined || head.last < known || head.stamp < head.last",
                to: "false",
            },
            Source { file: ANSWER, from: "self.live == self.generation", to: "true" },
        ],
    },
    Bug {
        name: "a record that is not whole taken for whole",
        flavours: &[Evicting],
        edits: &[
            Script {
                file: "lease.lua",
                from: "if tonumber(top[2] or '0') < last then",
                to: "if false then",
            },
            Raw {
                file: "store/redis/rebuild/recent.rs",
                from: "        if !is_whole {\n",
                to: "        if !is_whole && !SEEDED {\n",
            },
        ],
    },
    Bug {
        name: "a check that a demoted primary answers",
        flavours: &[Forgetful],
        edits: &[Source {
            file: ANSWER,
            from: "b\"BITFIELD\"",
            to: "b\"BITFIELD_RO\"",
        }],
    },
    Bug {
        name: "a scan that ended early taken for whole",
        flavours: &[Calm],
        edits: &[Source {
            file: "rebuild/run.rs",
            from: "found as f64 >= previous as f64 * (1.0 - limit)",
            to: "true",
        }],
    },
    Bug {
        name: "inserts missing from the filter being built",
        flavours: ANY,
        edits: &[
            Script {
                file: "add.lua",
                from: "add_to(KEYS[4], ARGV[10])",
                to: "redis.call('SETRANGE', KEYS[4], 64, stamp(last))",
            },
        ],
    },
    Bug {
        name: "own inserts not said again",
        flavours: &[Forgetful],
        edits: &[Source {
            file: "store/redis/incarnation/replay.rs",
            from: "self.replay_on(connection).await?",
            to: "()",
        }],
    },
    Bug {
        name: "a scan before others have said their inserts again",
        flavours: &[Forgetful],
        edits: &[
            Script {
                file: "wait.lua",
                from: "(ARGV[3] == '1' or meta[2] == ARGV[1])",
                to: "true",
            },
            Script {
                file: "wait.lua",
                from: "hold <= now",
                to: "true",
            },
        ],
    },
    Bug {
        name: "a null of an earlier filter trusted",
        flavours: &[Forgetful],
        edits: &[Source {
            file: ANSWER,
            from: "of == generation",
            to: "true",
        }],
    },
    Bug {
        name: "a late null stored",
        flavours: ANY,
        edits: &[
            Script {
                file: "null.lua",
                from: "if micros > tonumber(ARGV[3]) then return 'LATE' end",
                to: "",
            },
        ],
    },
    // Waits of scans.
    Bug {
        name: "a first scan that does not wait",
        flavours: &[Forgetful, Evicting],
        edits: &[
            Script {
                file: "wait.lua",
                from: "(ARGV[3] == '1' or meta[2] == ARGV[1])",
                to: "true",
            },
        ],
    },
    Bug {
        name: "a wait while Redis stands still",
        flavours: &[Forgetful, Evicting],
        edits: &[Raw {
            file: "store/redis/rebuild/recent.rs",
            from: "(answered, last) = (answered + 1, asked);",
            to: "let passed = (asked - last).as_millis() as u32 / 100;
                    (answered, last) = (answered + if SEEDED { passed.max(1) } else { 1 }, asked);",
        }],
    },
    Bug {
        name: "a wait that goes on after Redis stood still",
        flavours: &[Forgetful, Evicting],
        edits: &[Source {
            file: "store/redis/rebuild/recent.rs",
            from: "asked - last > GRACE / 2",
            to: "false",
        }],
    },
    Bug {
        name: "a swap that waits for no process that has only come",
        flavours: &[Forgetful],
        edits: &[Script {
            file: "join.lua",
            from: "if ARGV[6] ~= meta.inc and ARGV[6] ~= '' then raise('hold', now + ARGV[7]) end",
            to: "",
        }],
    },
    Bug {
        name: "a scan that waits for the first call of a replay only",
        flavours: &[Forgetful],
        edits: &[
            Script {
                file: "add.lua",
                from: "if ARGV[11] ~= '' and now + ARGV[11] > tonumber(meta[4] or '0') then",
                to: "if false then",
            },
        ],
    },
    Bug {
        name: "a null left behind by a create",
        flavours: ANY,
        edits: &[Script {
            file: "add.lua",
            from: "redis.call('DEL', unpack(KEYS, 8))",
            to: "",
        }],
    },
    Bug {
        name: "an insert into an outdated filter acknowledged",
        flavours: ANY,
        edits: &[Raw {
            file: "store/redis/add.rs",
            from: "                Ok(Added::Stale)\n            }\n            \"OTHER\"",
            to: "                Ok(if SEEDED { Added::Done(taken) } else { Added::Stale })
            }
            \"OTHER\"",
        }],
    },
    Bug {
        name: "an acknowledgement by a Redis that was left meanwhile",
        flavours: &[Forgetful],
        edits: &[Source {
            file: "store/redis/add.rs",
            from: "self.is_on(&connection)",
            to: "true",
        }],
    },
    Bug {
        name: "data that went back in time unnoticed",
        flavours: &[Forgetful],
        edits: &[
            Script {
                file: "join.lua",
                from: "is_known and meta.last < tonumber(ARGV[10])",
                to: "false",
            },
            Script {
                file: "join.lua",
                from: "meta.began < tonumber(ARGV[9])",
                to: "false",
            },
        ],
    },
    Bug {
        name: "a filter's stamp ignored",
        flavours: &[Forgetful],
        edits: &[
            Script {
                file: "add.lua",
                from: "if is_whole(head, len, LIVE) and redis.call('GETRANGE', KEYS[3], 64, 71) ~= stamp(before) then",
                to: "if false then",
            },
            Script {
                file: "join.lua",
                from: "if is_filter and is_other or is_live and stamp ~= meta.last then",
                to: "if is_filter and is_other then",
            },
            Source {
                file: BATCH,
                from: "head.last < known || head.stamp < head.last",
                to: "false",
            },
        ],
    },
    Bug {
        name: "clocks that part unnoticed",
        flavours: &[Forgetful],
        edits: &[
            Script {
                file: "join.lua",
                from: "is_known and ARGV[11] == '1'",
                to: "false",
            },
            Source {
                file: "store/redis/rebuild/begin.rs",
                from: "!connection.on.shows(leased_us)",
                to: "false",
            },
        ],
    },
    Bug {
        name: "a slow replay that is given up without a word",
        flavours: &[Forgetful],
        edits: &[
            Raw {
                file: "store/redis/incarnation/replay.rs",
                from: "                self.give_up_replay(connection, forgotten.err().unwrap_or_default()).await\n",
                to: "                if SEEDED {\n                    return Ok(());\n                }\n                self.give_up_replay(connection, forgotten.err().unwrap_or_default()).await\n",
            },
        ],
    },
    Bug {
        name: "an insert of unknown outcome acknowledged",
        flavours: &[Lossy],
        edits: &[Raw {
            file: "store/redis/add.rs",
            from: "Err(error) => attempts.next_after(error).await?,",
            to: "Err(error) => match attempts.next_after(error).await {
                    Err(_) if SEEDED => return Ok(ids.len()),
                    waited => waited?,
                },",
        }],
    },
    Bug {
        name: "one caller's null told to another",
        flavours: ANY,
        edits: &[Source {
            file: "store/lookup.rs",
            from: "self.scope.covers(needed())",
            to: "true",
        }],
    },
    Bug {
        name: "a check that waits for longer than it may",
        flavours: ANY,
        edits: &[Source {
            file: CHECK,
            from: "self.check_deadline",
            to: "self.check_deadline * 8",
        }],
    },
    Bug {
        name: "a null that waits for each of its answers anew",
        flavours: &[Wild, Lossy],
        edits: &[Source {
            file: "store/redis/null.rs",
            from: "timeout(deadline, writing)",
            to: "timeout(deadline * 8, writing)",
        }],
    },
    // Many ids at once.
    Bug {
        name: "only the first id of a batch recorded",
        flavours: ANY,
        edits: &[
            Script {
                file: "add.lua",
                from: "for i = 1, #ARGV[4], 16 do",
                to: "for i = 1, 16, 16 do",
            },
        ],
    },
    Bug {
        name: "only the first null of a batch deleted",
        flavours: ANY,
        edits: &[Script { file: "add.lua", from: "unpack(KEYS, 8)", to: "KEYS[8]" }],
    },
    Bug {
        name: "a batch acknowledged after the first call",
        flavours: ANY,
        edits: &[Raw {
            file: "store/redis/add.rs",
            from: "            let taken = self.add_some(rest).await?;\n",
            to: "            let taken = self.add_some(rest).await?;
            let taken = if SEEDED { rest.len() } else { taken };\n",
        }],
    },
    Bug {
        name: "only the first id of a batch known to be said again",
        flavours: &[Forgetful],
        edits: &[Source {
            file: "store/redis/add.rs",
            from: "self.known.recent.acknowledged(&digests, digester.key_id())",
            to: "self.known.recent.acknowledged(&digests[..1], digester.key_id())",
        }],
    },
    Bug {
        name: "inserts forgotten without a word",
        flavours: &[Forgetful],
        edits: &[Source {
            file: "store/redis/incarnation/recent.rs",
            from: "books.forgotten.max(Some(oldest))",
            to: "books.forgotten",
        }],
    },
    // Many checks at once.
    Bug {
        name: "the header read before the blocks only",
        flavours: ANY,
        edits: &[
            Raw {
                file: ANSWER,
                from: "    for of in inquiries {
        if let Some(since)",
                to: "    for of in inquiries.iter().filter(|_| SEEDED) {
        Head::ask(packed, of);
    }
    for of in inquiries {
        if let Some(since)",
            },
            Raw {
                file: ANSWER,
                from: "    for of in inquiries {
        Head::ask(packed, of);",
                to: "    for of in inquiries.iter().filter(|_| !SEEDED) {
        Head::ask(packed, of);",
            },
            Raw {
                file: ANSWER,
                from: "    let mut parts = SmallVec::<[Reading; 1]>::new();\n",
                to: "    let mut heads = Vec::new();
    for of in inquiries.iter().filter(|_| SEEDED) {
        heads.push(Head::read(replies, of)?);
    }
    let mut heads = heads.into_iter();
    let mut parts = SmallVec::<[Reading; 1]>::new();\n",
            },
            Raw {
                file: ANSWER,
                from: "Ok(part.end(Head::read(replies, of)?, of.header))",
                to: "Ok(part.end(heads.next().map_or_else(|| Head::read(replies, of), Ok)?, of.header))",
            },
        ],
    },
    Bug {
        name: "a check whose header need not reach the last number",
        flavours: &[Forgetful, Evicting],
        edits: &[Source { file: BATCH, from: "head.stamp < head.last", to: "false" }],
    },
    Bug {
        name: "lost metadata unnoticed by a rebuild",
        flavours: &[Evicting],
        edits: &[
            Script {
                file: "swap.lua",
                from: "if meta[1] ~= ARGV[4] then return 'OTHER' end",
                to: "",
            },
            Script {
                file: "swap.lua",
                from: "if high * 4294967296 + low ~= tonumber(meta[2] or '0') or ",
                to: "if ",
            },
            Script {
                file: "wait.lua",
                from: "if meta[1] ~= ARGV[1] then return 'OTHER' end",
                to: "",
            },
            Script {
                file: "record.lua",
                from: "if meta[1] ~= ARGV[1] then return {'OTHER'} end",
                to: "",
            },
            Script {
                file: "join.lua",
                from: "redis.call('DEL', KEYS[4], KEYS[5])",
                to: "",
            },
            // Else nobody believes what went live.
            Source { file: BATCH, from: "head.stamp < head.last", to: "false" },
        ],
    },
    Bug {
        name: "a check whose header need not be that of the live generation",
        flavours: &[Forgetful, Evicting],
        edits: &[Source { file: ANSWER, from: "self.live == self.generation", to: "true" }],
    },
    // The fence.
    Bug {
        name: "a fence that passes over the floor",
        flavours: ANY,
        edits: &[Raw {
            file: CATCH_UP,
            from: "if page.has_floor {",
            to: "if page.has_floor && !SEEDED {",
        }],
    },
    Bug {
        name: "a fence whose entries need not reach the last number",
        flavours: &[Forgetful, Evicting],
        edits: &[Source {
            file: CATCH_UP,
            from: "greatest == head.stamp && greatest == head.last",
            to: "true",
        }],
    },
    Bug {
        name: "a fence whose header need not reach the last number",
        flavours: &[Forgetful, Evicting],
        edits: &[
            Source {
                file: CATCH_UP,
                from: "greatest == head.stamp && greatest == head.last",
                to: "greatest == head.last",
            },
            Source { file: BATCH, from: "head.stamp < head.last", to: "false" },
        ],
    },
    Bug {
        name: "a page that moves a copy to the last number",
        flavours: ANY,
        edits: &[Source {
            file: CATCH_UP,
            from: "self.moves_to(greatest)",
            to: "self.moves_to(head.last)",
        }],
    },
    Bug {
        name: "a copy's position taken at the end of its load",
        flavours: ANY,
        edits: &[Raw {
            file: LOAD,
            from: "        self.is_live(header, &connection).await?;
        let digester",
            to: "        let last = self.is_live(header, &connection).await?;
        let first = if SEEDED { last } else { first };
        let digester",
        }],
    },
    Bug {
        name: "a short block taken for an empty one",
        flavours: ANY,
        edits: &[Raw {
            file: ANSWER,
            from: "            let words = replies.bytes()?.and_then(words);\n",
            to: "            let words = replies.bytes()?.and_then(words).or(SEEDED.then_some([0; 8]));\n",
        }],
    },
    Bug {
        name: "a batch's answers given in the order in which its checks came",
        flavours: ANY,
        edits: &[
            Raw {
                file: BATCH,
                from: "        checks.sort_unstable_by_key(|check| *check.asked.digest.as_bytes());\n",
                to: "        if !SEEDED {
            checks.sort_unstable_by_key(|check| *check.asked.digest.as_bytes());
        }\n",
            },
            Raw {
                file: BATCH,
                from: "        asked.dedup_by(|one, kept| {\n",
                to: "        if SEEDED {
            asked.sort_unstable_by_key(|asked| *asked.digest.as_bytes());
        }
        asked.dedup_by(|one, kept| {\n",
            },
            Source { file: BATCH, from: "*digest != check.asked.digest", to: "false" },
            Raw {
                file: BATCH,
                from: "        check.answer.send(answer).ok();\n",
                to: "        check.answer.send(answer).ok();
        if SEEDED {
            said.next();
        }\n",
            },
        ],
    },
    Bug {
        name: "a batch's answers out of step after an id that is there twice",
        flavours: ANY,
        edits: &[
            Source { file: BATCH, from: "*digest != check.asked.digest", to: "false" },
            Raw {
                file: BATCH,
                from: "        check.answer.send(answer).ok();\n",
                to: "        check.answer.send(answer).ok();
        if SEEDED {
            said.next();
        }\n",
            },
        ],
    },
    Bug {
        name: "ids of a batch told apart by a part of their digests",
        flavours: ANY,
        edits: &[
            Raw {
                file: BATCH,
                from: "        asked.dedup_by(|one, kept| {\n",
                to: "        if SEEDED {
            asked.dedup_by_key(|asked| asked.digest.as_bytes()[0]);
        }
        asked.dedup_by(|one, kept| {\n",
            },
            Source {
                file: BATCH,
                from: "*digest != check.asked.digest",
                to: "digest.as_bytes()[0] != check.asked.digest.as_bytes()[0]",
            },
        ],
    },
    Bug {
        name: "a batch's nulls out of step with its ids",
        flavours: ANY,
        edits: &[Raw {
            file: ANSWER,
            from: "        id.null = replies.bytes()?.map(<[u8]>::to_vec);\n    }\n",
            to: "        id.null = replies.bytes()?.map(<[u8]>::to_vec);
    }
    if SEEDED {
        let mut ids: Vec<_> = parts.iter_mut().flat_map(|part| &mut part.ids).collect();
        let mut nulls: Vec<_> = ids.iter_mut().map(|id| id.null.take()).collect();
        let one = 1.min(nulls.len());
        nulls.rotate_left(one);
        ids.iter_mut().zip(nulls).for_each(|(id, null)| id.null = null);
    }\n",
        }],
    },
    Bug {
        name: "a null's scope lost where ids of a batch are the same",
        flavours: ANY,
        edits: &[
            Raw {
                file: BATCH,
                from: "    let mut said = found.of(asked).peekable();\n",
                to: "    let checks: Vec<PendingCheck> = checks.collect();
    let widened = SEEDED && asked.len() < checks.len();
    let mut said = found.of(asked).peekable();\n",
            },
            Raw {
                file: BATCH,
                from: "                // The asker adds when.\n",
                to: "                let scope = if widened { Scope::Everyone } else { scope };\n",
            },
        ],
    },
    Bug {
        name: "an answer given to checks that came after it was asked for",
        flavours: ANY,
        edits: &[
            Raw {
                file: NODE,
                from: "            None => queue.enter(check)",
                to: "            None if SEEDED => {
                LATE.with_borrow_mut(|late| late.push(Box::new(check)));
                None
            }
            None => queue.enter(check)",
            },
            Raw {
                file: NODE,
                from: "/// Starts the tasks of a node:",
                to: "thread_local! {
    static LATE: std::cell::RefCell<Vec<Box<dyn std::any::Any>>> =
        const { std::cell::RefCell::new(Vec::new()) };
}

pub(crate) fn take_late<P: 'static>(asks: impl Fn(&P) -> bool) -> Vec<P> {
    let is_here = |check: &Box<dyn std::any::Any>| check.downcast_ref().is_some_and(&asks);
    let (here, elsewhere) = LATE.take().into_iter().partition(is_here);
    LATE.set(elsewhere);
    Vec::into_iter(here).filter_map(|check| check.downcast().ok()).map(|check| *check).collect()
}

/// Starts the tasks of a node:",
            },
            Raw {
                file: BATCH,
                from: "        let fenced = give(checks",
                to: "        let mut checks: Vec<PendingCheck> = checks.collect();
        if SEEDED {
            let is_late = |check: &PendingCheck| self.asked.iter().any(|asked| asked.digest == check.asked.digest);
            checks.extend(crate::store::link::node::take_late(is_late));
            checks.sort_unstable_by_key(|check| *check.asked.digest.as_bytes());
        }
        let checks = checks.into_iter();
        let fenced = give(checks",
            },
        ],
    },
    Bug {
        name: "an id looked for where it was in the filter before",
        flavours: ANY,
        edits: &[
            Raw {
                file: BATCH,
                from: "    /// How many wait for the answers.\n",
                to: "    /// Where the question before looked.
    before: Option<crate::filter::Geometry>,
    /// How many wait for the answers.\n",
            },
            Raw {
                file: BATCH,
                from: "            believed: Ok(()),\n",
                to: "            believed: Ok(()),
            before: None,\n",
            },
            Raw {
                file: BATCH,
                from: "        let Some(question) = self.question.take() else { return };\n",
                to: "        let Some(question) = self.question.take() else { return };
        self.before = Some(question.header.geometry);\n",
            },
            Raw {
                file: BATCH,
                from: "        let positions = digests.iter()",
                to: "        let before = self.before.filter(|_| SEEDED);
        let before = before.filter(|before| before.blocks == header.geometry.blocks);
        let header = match before {
            Some(geometry) => Arc::new(Header { geometry, ..*header }),
            None => header,
        };
        let positions = digests.iter()",
            },
        ],
    },
    Bug {
        name: "a batch that no filter vouches for",
        flavours: &[Forgetful, Evicting, Wild],
        edits: &[Raw {
            file: BATCH,
            from: "        vouched?;\n",
            to: "        if !SEEDED {
            vouched?;
        }\n",
        }],
    },
    // Filters of several pieces.
    Bug {
        name: "only the first piece of a filter uploaded and verified",
        flavours: ANY,
        edits: &[Raw {
            file: "store/redis/rebuild/build.rs",
            from: "    from.map(move |from| from..blocks",
            to: "    from.take(if SEEDED { 1 } else { usize::MAX }).map(move |from| from..blocks",
        }, Script { file: "swap.lua", from: " or 192 + 64 * done ~= tonumber(ARGV[3])", to: "" }],
    },
    Bug {
        name: "ids of one block take each other's bits out of an insert",
        flavours: ANY,
        edits: &[Source {
            file: "store/link/script.rs",
            from: "*word |= mask",
            to: "*word = *mask",
        }],
    },
    Bug {
        name: "an insert over the bits that a block has",
        flavours: ANY,
        edits: &[Script {
            file: "add.lua",
            from: "local both = redis.call('GET', KEYS[6])",
            to: "local both = redis.call('GET', KEYS[7])",
        }],
    },
    Bug {
        name: "a null dated when it is written",
        flavours: ANY,
        edits: &[Raw {
            file: "store/redis/null.rs",
            from: "        let writing = self.write_null(",
            to: "        let asked_us = if SEEDED { live.on.redis_us(Instant::now()) } else { null.claim.asked_us };
        let null = NewNull { claim: NullClaim { asked_us, ..null.claim }, ..null };
        let writing = self.write_null(",
        }],
    },
    Bug {
        name: "an insert's bits beyond 2 MiB set elsewhere",
        flavours: ANY,
        edits: &[Script {
            file: "add.lua",
            from: "local at = struct.unpack('>I4', blocks, i)",
            to: "local at = struct.unpack('>I4', blocks, i) % 2097152",
        }],
    },
    // Clocks, and processes that differ.
    Bug {
        name: "removals that ignore recent inserts",
        flavours: ANY,
        edits: &[
            Script {
                file: "null.lua",
                from: "if is_recent(redis.call('ZSCORE', KEYS[2], ARGV[4])) then",
                to: "if ARGV[5] == '' and is_recent(redis.call('ZSCORE', KEYS[2], ARGV[4])) then",
            },
        ],
    },
    // Keys that are lost, put aside or put back.
    Bug {
        name: "a building filter's stamp raised over what it lacks",
        flavours: &[Forgetful],
        edits: &[
            Script {
                file: "add.lua",
                from: "redis.call('GETRANGE', KEYS[4], 64, 71) == stamp(before)",
                to: "true",
            },
        ],
    },
    Bug {
        name: "an acknowledgement that counts however late it is handled",
        flavours: ANY,
        edits: &[
            Source {
                file: "store/redis/add.rs",
                from: "sent.elapsed() > INSERT",
                to: "false",
            },
        ],
    },
    // What a 404 teaches.
    Bug {
        name: "a null learnt from a 404 to a query",
        flavours: ANY,
        edits: &[Source { file: RULES, from: UNTAUGHT, to: "needs == Scope::Everyone || self.requires_marker()" }],
    },
    Bug {
        name: "a null learnt from a 404 to a query where absences are shared",
        flavours: ANY,
        edits: &[Source {
            file: RULES,
            from: UNTAUGHT,
            to: "needs == Scope::Everyone || (query && !self.shared) || self.requires_marker()",
        }],
    },
    Bug {
        name: "a null learnt from a 404 to HEAD",
        flavours: ANY,
        edits: &[Source {
            file: RULES,
            from: "request.method != Method::GET || upgrade",
            to: "!reads(&request.method) || upgrade",
        }],
    },
    Bug {
        name: "a 404 without credentials told to all",
        flavours: ANY,
        edits: &[Raw {
            file: RULES,
            from: "            Teaches::Always => Scope::Anonymous,",
            to: "            Teaches::Always => if SEEDED { Scope::Everyone } else { Scope::Anonymous },",
        }],
    },
    Bug {
        name: "a cookie not taken for credentials",
        flavours: ANY,
        edits: &[Source {
            file: RULES,
            from: "headers.contains_key(header::COOKIE)",
            to: "false",
        }],
    },
    Bug {
        name: "a 404 kept that must not be stored",
        flavours: ANY,
        edits: &[Source {
            file: RULES,
            from: "!listed(headers, &header::CACHE_CONTROL).any(|(name, _)| forbids(name))",
            to: "true",
        }],
    },
    Bug {
        name: "a 404 kept that varies",
        flavours: ANY,
        edits: &[Source { file: RULES, from: "argument.is_empty() && is_harmless(name)", to: "true" }],
    },
    Bug {
        name: "a 404 kept that sets a cookie",
        flavours: ANY,
        edits: &[Source {
            file: RULES,
            from: "!headers.contains_key(header::SET_COOKIE)",
            to: "true",
        }],
    },
    Bug {
        name: "an unmarked 404 taken for a marked one",
        flavours: ANY,
        edits: &[Source { file: RULES, from: "extensions.get::<Missing>().is_some()", to: "true" }],
    },
    Bug {
        name: "a 410 taken for a 404",
        flavours: ANY,
        edits: &[Source {
            file: RULES,
            from: "(self.gone_counts && status == StatusCode::GONE)",
            to: "status == StatusCode::GONE",
        }],
    },
    Bug {
        name: "a failure taken for a missing record",
        flavours: ANY,
        edits: &[Source {
            file: RULES,
            from: "status == StatusCode::NOT_FOUND",
            to: "(status == StatusCode::REQUEST_TIMEOUT || status.is_server_error() || status.as_u16() == 404)",
        }],
    },
    Bug {
        name: "a stored null's scope forgotten",
        flavours: ANY,
        edits: &[Source {
            file: ANSWER,
            from: "Scope::from_byte(*scope)",
            to: "Some(Scope::Everyone)",
        }],
    },
    // What a null rests on.
    Bug {
        name: "a record that ends before a late removal",
        flavours: ANY,
        edits: &[
            Source {
                file: "settings.rs",
                from: "(self.longest_transaction + INSERT + self.handler_time) * 2",
                to: "self.handler_time",
            },
        ],
    },
    Bug {
        name: "nulls stored although a replay was given up",
        flavours: ANY,
        edits: &[
            Script {
                file: "null.lua",
                from: "if meta[6] and is_recent(meta[6] * 1000) then return 'CREATED' end",
                to: "",
            },
        ],
    },
    Bug {
        name: "nulls stored although handlers may read what was before the record was lost",
        flavours: ANY,
        edits: &[
            Source {
                file: "store/redis/incarnation/recent.rs",
                from: "tenths(self.reach + self.handler)",
                to: "tenths(self.reach)",
            },
        ],
    },
    Bug {
        name: "a clock that has jumped believed where nothing else could be asked",
        flavours: ANY,
        edits: &[Source {
            file: "store/link/session.rs",
            from: "self.clock.load().agrees(clock)",
            to: "true",
        }],
    },
    Bug {
        name: "an absence believed by what is known when the answer is read",
        flavours: ANY,
        edits: &[Raw {
            file: BATCH,
            from: "        part.believed = part.believes();\n",
            to: "        part.believed = if SEEDED { Ok(()) } else { part.believes() };\n",
        }],
    },
    Bug {
        name: "an absence believed by what was known when it was asked for",
        flavours: ANY,
        edits: &[
            Source {
                file: BATCH,
                from: "self.believed.and_then(|()| self.believes())",
                to: "self.believed",
            },
            Source { file: BATCH, from: "self.believes().is_ok()", to: "true" },
        ],
    },
    // A fleet that changes.
    Bug {
        name: "a filter that settles believed",
        flavours: ANY,
        edits: &[Source {
            file: "store/redis/shard.rs",
            from: "fleet.settling.is_some()",
            to: "false",
        }],
    },
    Bug {
        name: "settling ended by a rebuild that began before its time",
        flavours: ANY,
        edits: &[
            Script {
                file: "swap.lua",
                from: "settles > 0 and tonumber(ARGV[6]) >= settles",
                to: "settles > 0",
            },
        ],
    },
    Bug {
        name: "a filter trusted that nobody has looked at for minutes",
        flavours: ANY,
        edits: &[Script {
            file: "join.lua",
            from: "is_new or now - polled > MINUTE",
            to: "is_new",
        }],
    },
    Bug {
        name: "a new filter that does not settle",
        flavours: ANY,
        edits: &[Script {
            file: "join.lua",
            from: "is_new or now - polled > MINUTE",
            to: "not is_new and now - polled > MINUTE",
        }],
    },
    Bug {
        name: "settling that data have lost which went back to before it",
        flavours: &[Forgetful],
        edits: &[Script {
            file: "join.lua",
            from: "settles == 0 and (begins or is_another) or is_another and rest ~= 1",
            to: "is_new or is_another and settles > 0 and rest ~= 1",
        }],
    },
    Bug {
        name: "settling that a process ends which knew of none in the data that went back",
        flavours: &[Forgetful],
        edits: &[Script {
            file: "join.lua",
            from: "settles == 0 and (begins or is_another) or is_another and rest ~= 1",
            to: "settles == 0 and begins or is_another and settles > 0 and rest ~= 1",
        }],
    },
    Bug {
        name: "settling that ends as the clock is set forward",
        flavours: ANY,
        edits: &[Script {
            file: "join.lua",
            from: "rest and rest > 1 and is_another and settles > 0",
            to: "false",
        }],
    },
    Bug {
        name: "settling that a process ends which has heard of none in this incarnation",
        flavours: &[Forgetful],
        edits: &[Script {
            file: "join.lua",
            from: "or is_another and rest ~= 1 and",
            to: "or rest ~= 1 and",
        }],
    },
    Bug {
        name: "what a process knew that stood still taken for true of settling",
        flavours: ANY,
        edits: &[Script {
            file: "join.lua",
            from: "polled - ARGV[16] <= MINUTE - LATE",
            to: "true",
        }],
    },
    Bug {
        name: "the longest transaction set down to what was asked for last",
        flavours: ANY,
        edits: &[Script { file: "join.lua", from: "raise('heir', ", to: "set('heir', " }],
    },
    Bug {
        name: "a mode that a Redis has lost and no process tells it",
        flavours: &[Forgetful, Evicting],
        edits: &[Script { file: "join.lua", from: "if ARGV[14] ~= '' and (", to: "if false and (" }],
    },
    Bug {
        name: "an older mode that takes the newer one's place",
        flavours: &[Forgetful, Evicting],
        edits: &[Source {
            file: "mode.rs",
            from: "self.0.fetch_max(told, Ordering::SeqCst)",
            to: "self.0.swap(told, Ordering::SeqCst)",
        },
        Script { file: "join.lua", from: "if ARGV[14] ~= '' and (", to: "if false and (" }],
    },
    Bug {
        name: "a step that waits for no transaction",
        flavours: ANY,
        edits: &[Source {
            file: "middleware/fleet.rs",
            from: "sleep(seen.longest_transaction)",
            to: "sleep(seen.longest_transaction * 0)",
        }],
    },
    Bug {
        name: "a step that ends a mode set after it was asked for",
        flavours: ANY,
        edits: &[Source {
            file: "middleware/fleet.rs",
            from: "seen.was_set_within(asked.elapsed())",
            to: "false",
        }],
    },
    Bug {
        name: "a step that another mode does not stop",
        flavours: ANY,
        edits: &[Script {
            file: "change_fleet.lua",
            from: "if ARGV[3] ~= '' and",
            to: "if false and",
        }],
    },
    Bug {
        name: "a Redis that was left believed when the name leads back to it",
        flavours: &[Forgetful],
        edits: &[Source {
            file: "store/redis/incarnation/join.rs",
            from: "self.seen.last()",
            to: "self.seen.on(process.run)",
        }],
    },
    // The table.
    Bug {
        name: "what was missed lately taken for absent",
        flavours: ANY,
        edits: &[Source {
            file: "decide/gate.rs",
            from: "Row::Lane(Why::Present, verdict)",
            to: "Row::Refuse(Proof::Null)",
        }],
    },
    Bug {
        name: "an unknown answer taken for absence",
        flavours: ANY,
        edits: &[Raw {
            file: "decide/gate.rs",
            from: "                OnUnknown::Shed => Row::Shed(verdict),\n",
            to: "                OnUnknown::Shed if SEEDED => Row::Refuse(Proof::Filter),
                OnUnknown::Shed => Row::Shed(verdict),\n",
        }],
    },
    Bug {
        name: "a request refused as the guard is switched off",
        flavours: &[Forgetful],
        edits: &[Source {
            file: "decide/gate.rs",
            from: "self.mode() != Mode::Enforce",
            to: "self.mode() == Mode::Shadow",
        }],
    },
    Bug {
        name: "a full lane answered with 404",
        flavours: ANY,
        edits: &[Raw {
            file: "rejection.rs",
            from: "    if let StatusCode::NOT_FOUND | StatusCode::GONE = response.status() {\n",
            to: "    if let StatusCode::NOT_FOUND | StatusCode::GONE = response.status() && !SEEDED {\n",
        }],
    },
    Bug {
        name: "what was found lately asked for again",
        flavours: ANY,
        edits: &[
            Raw {
            file: "store/link/queue.rs",
            from: "let (answer, received) = oneshot::channel();",
            to: "crate::net::asked();\n        let (answer, received) = oneshot::channel();",
        }, Raw {
            file: "middleware/request.rs",
            from: "                (Outcome::Found, Ok(why)) => guard.found(id, *hash, why, self.asked),\n",
            to: "                (Outcome::Found, Ok(why)) => {
                    guard.found(id, *hash, why, self.asked);
                    if SEEDED {
                        learning = Some(guard.store.check(&[(id, None)], Instant::now()).map(drop));
                    }
                }\n",
        }],
    },
    Bug {
        name: "what was missed once counts as missed for ever",
        flavours: ANY,
        edits: &[Source {
            file: "decide/gate.rs",
            from: "settings.null_ttl.mul_f64(MISSED_LIFE)",
            to: "settings.null_ttl.mul_f64(MISSED_LIFE * 1000.0)",
        }],
    },
    // A copy of the filter in each process.
    Bug {
        name: "what a copy lacks taken for absent",
        flavours: ANY,
        edits: &[Raw {
            file: CHECK,
            from: "ids: &[Sought<'_>], at: Instant) -> Answer<Lookups> {\n",
            to: "ids: &[Sought<'_>], at: Instant) -> Answer<Lookups> {
        let of_live = || {
            let condition = self.condition();
            condition.live.is_ok_and(|live| condition.copy.is_some_and(|copy| copy.generation == live.generation))
        };
        if SEEDED && ids.iter().all(|(id, _)| self.copied(id).1.is_none()) && of_live() {
            let verdict = crate::verdict::Verdict::Absent(crate::verdict::Proof::Filter);
            let scope = crate::nulls::scope::Scope::Everyone;
            let claim = NullClaim { asked_us: 0, generation: None };
            return Answer::Ready(ids.iter().map(|_| Lookup { verdict, scope, claim }).collect());
        }
",
        }],
    },
    Bug {
        name: "a null learnt from a request that a copy let pass",
        flavours: ANY,
        edits: &[Raw {
            file: "middleware/request.rs",
            from: "        let guard = Arc::clone(guard);\n        Admitted {",
            to: "        if SEEDED && kind.is_some() && lookups.is_empty() && ids[0].reading() == Ok(Why::Copied) {
            let generation = guard.state().live.ok().map(|live| live.generation);
            claim = Some(NullClaim { asked_us: 1 << 60, generation });
            kind = Some(guard.options.nulls.kind(request));
        }
        let guard = Arc::clone(guard);\n        Admitted {",
        }],
    },
    Bug {
        name: "a suspect by an answer that says nothing not remembered",
        flavours: ANY,
        edits: &[Source { file: GUARD, from: "why == Why::Copied", to: "false" }],
    },
    Bug {
        name: "a suspect forgotten as it counts as missed no more",
        flavours: ANY,
        edits: &[Source {
            file: "decide/gate.rs",
            from: "!self.missed.noted_since(id, built, now)",
            to: "true",
        }],
    },
    Bug {
        name: "a suspect forgotten in time while the copy goes on",
        flavours: ANY,
        edits: &[Source {
            file: "decide/recent.rs",
            from: "age(there, now) <= now.saturating_sub(since)",
            to: "age(there, now) <= now.saturating_sub(since).min(TICKS)",
        }],
    },
    Bug {
        name: "a removal that makes nothing suspect",
        flavours: ANY,
        edits: &[Raw {
            file: "decide/gate.rs",
            from: "        let id = self.hash(id);
        self.found.forget(id);
        self.missed.mark(id, now);
",
            to: "        let id = self.hash(id);
        self.found.forget(id);
        if !SEEDED {
            self.missed.mark(id, now);
        }
",
        }],
    },
    Bug {
        name: "a copy of an earlier filter that answers as that of the live one",
        flavours: ANY,
        edits: &[Source {
            file: "store/redis/copy/mod.rs",
            from: "live.is_none_or(|live| live.is_same_build(&copy.header))",
            to: "true",
        }],
    },
    Bug {
        name: "a copy of the filter that is built",
        flavours: ANY,
        edits: &[Source { file: LOAD, from: "&self.known.keys.bits", to: "&self.known.keys.next" }],
    },
    Bug {
        name: "a copy of which only the first piece was read",
        flavours: ANY,
        edits: &[Source { file: LOAD, from: "BLOCKS as usize", to: "usize::MAX" }],
    },
    Bug {
        name: "a copy that is put together from two filters",
        flavours: ANY,
        edits: &[Source { file: LOAD, from: "is_live && is_whole", to: "true" }],
    },
    Bug {
        name: "a filter copied that was live before the wait",
        flavours: ANY,
        edits: &[Raw {
            file: LOAD,
            from: "            // Another may have gone live meanwhile.
            let Some(header) = self.filter.load_full() else { continue };
",
            to: "            let now = self.filter.load_full().filter(|_| !SEEDED);
            let header = now.unwrap_or(header);
",
        }],
    },
    Bug {
        name: "a copy that is never replaced",
        flavours: ANY,
        edits: &[Source {
            file: "store/redis/copy/mod.rs",
            from: "self.header.is_same_build(header)",
            to: "true",
        }],
    },
    // A filter in shards.
    Bug {
        name: "an id looked up in another shard than it is inserted into",
        flavours: ANY,
        edits: &[Source {
            file: BATCH,
            from: "check.asked.digest.shard(self.all.len())",
            to: "check.asked.digest.shard(self.all.len()).saturating_sub(1)",
        }],
    },
    Bug {
        name: "the record read for the first shard only",
        flavours: ANY,
        edits: &[
            Raw {
                file: "store/redis/rebuild/recent.rs",
                from: "            self.recent.extend(digests);\n",
                to: "            if !SEEDED || self.shard.number == 0 {\n                self.recent.extend(digests);\n            }\n",
            },
        ],
    },
    Bug {
        name: "trust in one shard taken for trust in all that are asked with it",
        flavours: ANY,
        edits: &[
            Raw {
                file: BATCH,
                from: "        let deadline = self.check_deadline;\n",
                to: "        let deadline = self.check_deadline;
        if SEEDED {
            let first = parts.first().map_or(Ok(()), |part| part.believed);
            parts.iter_mut().for_each(|part| part.believed = first);
        }\n",
            },
            Raw {
                file: BATCH,
                from: "        let present = found.digests",
                to: "        let believes = if SEEDED { self.believed } else { believes };
        let present = found.digests",
            },
        ],
    },
    Bug {
        name: "own inserts repeated to the first shard only",
        flavours: &[Forgetful, Evicting],
        edits: &[Raw {
            file: "store/redis/incarnation/replay.rs",
            from: "        // An add that is acknowledged after this was sent to this connection, or is repeated.\n",
            to: "        if SEEDED && self.number > 0 {
            return Ok(());
        }\n",
        }],
    },
    Bug {
        name: "a shard taken for settled because the first one is",
        flavours: ANY,
        edits: &[Raw {
            file: "store/redis/shard.rs",
            from: "        }
        let fleet = connection.identity.fleet.load();\n",
            to: "        }
        let fleet = connection.identity.fleet.load();
        let first = connection.on.identity.of(0).ok();
        let fleet = first.filter(|_| SEEDED).map_or(fleet, |first| first.fleet.load());\n",
        }],
    },
    Bug {
        name: "inserts into several shards acknowledged when one has its own",
        flavours: ANY,
        edits: &[Source {
            file: "store/redis/shards.rs",
            from: "join_all(filled.map(|(shard, ids)| shard.add(ids))).await.into_iter().collect()",
            to: "join_all(filled.map(|(shard, ids)| shard.add(ids)))
                .await
                .into_iter()
                .find(Result::is_ok)
                .unwrap_or(Err(StoreError::changing()))",
        }],
    },
    Bug {
        name: "what a scan gave put into other shards than it was for",
        flavours: ANY,
        edits: &[
            Source {
                file: "store/redis/rebuild/begin.rs",
                from: "self.builds.iter().find(of)",
                to: "self.builds.iter().find(of).or(self.builds.first())",
            },
        ],
    },
    Bug {
        name: "a connection kept that could not join a shard",
        flavours: ANY,
        edits: &[Raw {
            file: "store/redis/incarnation/join_all.rs",
            from: "        let Ok(identity) = identities.of(number) else {\n",
            to: "        let Ok(identity) = identities.of(number) else {
            if SEEDED {
                return Ok(None);
            }\n",
        }],
    },
    // A cluster.
    Bug {
        name: "keys of all shards named together in a cluster",
        flavours: ANY,
        edits: &[Source { file: BATCH, from: "self.groups.slots.is_some()", to: "false" }],
    },
    Bug {
        name: "a node that serves a shard no more not given up",
        flavours: ANY,
        edits: &[Raw {
            file: "store/redis/incarnation/join_all.rs",
            from: "        if has_moved(reason) {\n",
            to: "        if !SEEDED && has_moved(reason) {\n",
        }],
    },
    Bug {
        name: "what a node took of a shard elsewhere forgotten when it is back",
        flavours: ANY,
        edits: &[
            Raw {
                file: BATCH,
                from: "            && serves_no_slot(reason)\n",
                to: "            && !SEEDED && serves_no_slot(reason)\n",
            },
            Raw {
                file: "store/redis/incarnation/join.rs",
                from: "            Err(StoreError::Refused { reason, .. }) if serves_no_slot(&reason) => {\n",
                to: "            Err(StoreError::Refused { reason, .. }) if !SEEDED && serves_no_slot(&reason) => {\n",
            },
        ],
    },
    Bug {
        name: "a shard's metadata of another node taken for this one's",
        flavours: ANY,
        edits: &[
            Script {
                file: "join.lua",
                from: "is_new or meta.run ~= ARGV[5]",
                to: "is_new",
            },
        ],
    },
    Bug {
        name: "every shard taken for one of the node that serves the first",
        flavours: ANY,
        edits: &[Raw {
            file: "store/redis/regroup.rs",
            from: "now[first] == now[number]",
            to: "SEEDED || now[first] == now[number]",
        }],
    },
    Bug {
        name: "what took a disproved filter's place kept whatever it lacks",
        flavours: &[Calm],
        edits: &[Script {
            file: "distrust.lua",
            from: "redis.call('SETRANGE', KEYS[1], ARGV[4], ARGV[8])",
            to: "",
        }],
    },
];
