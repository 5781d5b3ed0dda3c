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

const fn script(file: &'static str, from: &'static str, to: &'static str) -> Edit {
    Edit::Script { file, from, to }
}

const fn source(file: &'static str, from: &'static str, to: &'static str) -> Edit {
    Edit::Source { file, from, to }
}

const fn raw(file: &'static str, from: &'static str, to: &'static str) -> Edit {
    Edit::Raw { file, from, to }
}

const fn bug(name: &'static str, flavours: &'static [Flavour], edits: &'static [Edit]) -> Bug {
    Bug { name, flavours, edits }
}

const ANY: &[Flavour] = &[Calm, Lossy, Zombies, Forgetful, Evicting, Wild];
const WHOLE_HEADER: &str = "redis.call('GETRANGE', KEYS[1], 0, 63) ~= ARGV[1]";

const CHECK: &str = "store/redis/check/mod.rs";
const BATCH: &str = "store/redis/check/batch.rs";
const NODE: &str = "store/link/node.rs";
const ANSWER: &str = "store/redis/check/answer.rs";
const RULES: &str = "nulls/rules.rs";
/// The requests whose unmarked 404s teach nothing.
const UNTAUGHT: &str = "needs == Scope::Everyone || has_query || self.requires_marker()";
const CATCH_UP: &str = "store/redis/check/catch_up.rs";
const LOAD: &str = "store/redis/copy/load.rs";

// A bug is a row, and so is each of its edits.
#[rustfmt::skip]
pub(crate) const BUGS: &[Bug] = &[
    bug("a missing filter read as absence", &[Evicting], &[raw(NODE, "        Lookup { claim: NullClaim { asked_us, ..lookup.claim }, ..lookup }\n", "        let lookup = match lookup.verdict {
                crate::verdict::Verdict::Unknown(Doubt::NoFilter | Doubt::Gone) if SEEDED => Lookup {
                    verdict: crate::verdict::Verdict::Absent(crate::verdict::Proof::Filter),
                    ..lookup
                },
                _ => lookup,
            };
            Lookup { claim: NullClaim { asked_us, ..lookup.claim }, ..lookup }\n")]),
    bug("a time-out read as absence", &[Lossy], &[raw(NODE, "        Lookup { claim: NullClaim { asked_us, ..lookup.claim }, ..lookup }\n", "        let lookup = match lookup.verdict {
                crate::verdict::Verdict::Unknown(Doubt::Timeout) if SEEDED => Lookup {
                    verdict: crate::verdict::Verdict::Absent(crate::verdict::Proof::Filter),
                    ..lookup
                },
                _ => lookup,
            };
            Lookup { claim: NullClaim { asked_us, ..lookup.claim }, ..lookup }\n")]),
    bug("the record of recent inserts not read", ANY, &[
        raw("store/redis/rebuild/recent.rs", "            self.recent.extend(digests);\n", "            if !SEEDED {\n                self.recent.extend(digests);\n            }\n"),
    ]),
    bug("a floor ignored by a rebuild", ANY, &[
        source("store/redis/rebuild/recent.rs", "floor > self.leased_us - self.window_us", "false"),
    ]),
    bug("a transaction's time left out of what a rebuild needs", ANY, &[
        source("store/redis/rebuild/begin.rs", "window.as_micros() as i64", "0"),
    ]),
    bug("the upload over what was written to both filters", ANY, &[
        script("upload.lua", "local found = string.find(there, '[^%z]')", "local found = nil"),
    ]),
    bug("a time to live carried over by the swap", &[Evicting], &[
        script("swap.lua", "redis.call('PERSIST', KEYS[1])", ""),
    ]),
    bug("the insert after the commit", ANY, &[]),
    bug("a swap without a look at the token", &[Zombies], &[
        script("swap.lua", "tonumber(meta[4] or '0') >= tonumber(ARGV[5])", "false"),
    ]),
    bug("a swap of whatever is there", &[Zombies], &[script("swap.lua", WHOLE_HEADER, "false")]),
    bug("the lease trusted instead of the token", &[Zombies], &[
        script("upload.lua", "redis.call('GETRANGE', KEYS[1], 0, 63) ~= ARGV[1]", "false"),
        script("swap.lua", "redis.call('GETRANGE', KEYS[1], 0, 63) ~= ARGV[1]", "false"),
        script("swap.lua", "tonumber(meta[4] or '0') >= tonumber(ARGV[5])", "false"),
    ]),
    bug("a leader's answer shared", ANY, &[raw(CHECK, "            Some(node.check(self, live, Asked { digest, may_fence }, at, alone))\n", "            let question = format!(\"{self:p} {digest:?}\");
            let sent = node.check(self, live, Asked { digest, may_fence }, at, alone);
            if !SEEDED {
                return Some(sent);
            }
            Some(sent.map(|sent| {
                let SentCheck { deadline, asked_us, .. } = sent;
                let (tell, received) = tokio::sync::oneshot::channel();
                let shared = async move {
                    tell.send(crate::seeded::shared(true, question, sent.answer()).await).ok();
                };
                SentCheck { alone: Some(Box::pin(shared)), received, deadline, asked_us }
            }))\n")]),
    bug("a recent insert ignored by nulls", ANY, &[
        script("null.lua", "if is_recent(redis.call('ZSCORE', KEYS[2], ARGV[4])) then return 'CREATED' end", ""),
    ]),
    bug("removals remembered while the record may lack creates", ANY, &[
        script("null.lua", "if ARGV[5] == '1' and is_recent(meta[5] * 1000) then return 'CREATED' end", ""),
    ]),
    bug("the loss of the record unnoticed by nulls", &[Evicting], &[
        script("null.lua", "if not top[2] or tonumber(top[2]) ~= tonumber(meta[2] or '0') then return 'CREATED' end", ""),
        script("null.lua", "if not floor or is_recent(floor)", "if floor and is_recent(floor)"),
    ]),
    bug("a lost record begun anew unnoticed", &[Evicting], &[
        script("add.lua", "redis.call('ZADD', KEYS[2], number(last), 'floor')", ""),
        script("null.lua", "if not floor or is_recent(floor)", "if floor and is_recent(floor)"),
    ]),
    bug("an older copy of the record unnoticed", &[Forgetful], &[
        script("null.lua", "if not top[2] or tonumber(top[2]) ~= tonumber(meta[2] or '0') then return 'CREATED' end", ""),
        script("add.lua", "if tonumber(top[2] or '0') ~= last then", "if not top[2] then"),
    ]),
    bug("a second jump of the clock taken for the first", &[Forgetful], &[
        source("store/redis/incarnation/seen.rs", "is_next && age > met.clock.age() + SLACK", "false"),
    ]),
    bug("what the record had to drop unnoticed", ANY, &[
        script("add.lua", "number(math.max(floor, tonumber(youngest[2])))", "number(floor)"),
    ]),
    bug("a cached header trusted", ANY, &[
        source(ANSWER, "self.generation == header.generation.get()", "true"),
        source(ANSWER, "self.trailer_number == header.generation.trailer_number()", "true"),
    ]),
    bug("another Redis process trusted", &[Forgetful], &[
        source("store/redis/shard.rs", "header.run != connection.on.process.run", "false"),
        script("join.lua", "if is_filter and is_other or is_live and (stamp ~= meta.last or number(17) ~= meta.live) then", "if false then"),
        script("join.lua", "    raise('live', micros)\n", ""),
        script("add.lua", "if stamp < before then", "if false then"),
        script("add.lua", "math.max(stamp, ARGV[11]) > before", "false"),
        source(BATCH, "!head.holds_all(connection) || head.last < known", "false"),
        source(ANSWER, "self.live == self.generation", "true"),
    ]),
    bug("a record that is not whole taken for whole", &[Evicting], &[
        script("lease.lua", "if tonumber(top[2] or '0') < last then", "if false then"),
        raw("store/redis/rebuild/recent.rs", "        if !is_whole {\n", "        if !is_whole && !SEEDED {\n"),
    ]),
    bug("a check that a demoted primary answers", &[Forgetful], &[source(ANSWER, "b\"BITFIELD\"", "b\"BITFIELD_RO\"")]),
    bug("a scan that ended early taken for whole", &[Calm], &[
        source("rebuild/run.rs", "found as f64 >= previous as f64 * (1.0 - limit)", "true"),
    ]),
    bug("inserts missing from the filter being built", ANY, &[
        script("add.lua", "add_to(KEYS[4], ARGV[10])", "redis.call('SETRANGE', KEYS[4], 64, struct.pack('>I4I4', math.floor(last / 4294967296), last % 4294967296))"),
    ]),
    bug("own inserts not said again", &[Forgetful], &[
        source("store/redis/incarnation/replay.rs", "self.replay_on(connection).await?", "()"),
    ]),
    bug("a scan before others have said their inserts again", &[Forgetful], &[
        script("wait.lua", "(ARGV[3] == '1' or meta[2] == ARGV[1])", "true"),
        script("wait.lua", "hold <= now", "true"),
    ]),
    bug("a null of an earlier filter trusted", &[Forgetful], &[source(ANSWER, "of == header.generation.get().to_string().as_bytes()", "true")]),
    bug("a late null stored", ANY, &[
        script("null.lua", "if micros > tonumber(ARGV[3]) then return 'LATE' end", ""),
    ]),
    // Waits of scans.
    bug("a first scan that does not wait", &[Forgetful, Evicting], &[
        script("wait.lua", "(ARGV[3] == '1' or meta[2] == ARGV[1])", "true"),
    ]),
    bug("a wait while Redis stands still", &[Forgetful, Evicting], &[raw("store/redis/rebuild/recent.rs", "(answered, last) = (answered + 1, asked);", "let passed = (asked - last).as_millis() as u32 / 100;
                    (answered, last) = (answered + if SEEDED { passed.max(1) } else { 1 }, asked);")]),
    bug("a wait that goes on after Redis stood still", &[Forgetful, Evicting], &[
        source("store/redis/rebuild/recent.rs", "asked - last > GRACE / 2", "false"),
    ]),
    bug("a swap that waits for no process that has only come", &[Forgetful], &[
        script("join.lua", "if ARGV[6] ~= meta.inc and ARGV[6] ~= '' then raise('hold', now + ARGV[7]) end", ""),
    ]),
    bug("a scan that does not wait for who has polled the incarnation", &[Forgetful], &[
        raw("store/redis/incarnation/join.rs", "        if !held_by.is_empty() {\n", "        if SEEDED {
            held_by = Vec::new();
        } else if !held_by.is_empty() {\n"),
    ]),
    bug("a scan that waits for the first call of a replay only", &[Forgetful], &[
        script("add.lua", "if ARGV[12] ~= '' and now + ARGV[12] > tonumber(meta[4] or '0') then", "if false then"),
    ]),
    bug("a null left behind by a create", ANY, &[script("add.lua", "redis.call('DEL', unpack(KEYS, 8))", "")]),
    bug("an insert into an outdated filter acknowledged", ANY, &[raw("store/redis/add.rs", "                (\"STALE\", _)", "                (\"STALE\", _) if SEEDED => return Ok((view, Inserted::Perhaps)),
                (\"STALE\", _)")]),
    bug("an acknowledgement by a Redis that was left meanwhile", &[Forgetful], &[
        source("store/redis/add.rs", "self.is_on(&connection)", "true"),
    ]),
    bug("data that went back in time unnoticed", &[Forgetful], &[
        script("join.lua", "is_known and meta.last < tonumber(ARGV[10])", "false"),
        script("join.lua", "meta.began < tonumber(ARGV[9])", "false"),
    ]),
    bug("data that went back hidden by an insert", &[Forgetful], &[
        script("add.lua", "math.max(stamp, ARGV[11]) > before", "false"),
        script("add.lua", "if stamp < before then", "if stamp ~= before then"),
    ]),
    bug("a filter's stamp ignored", &[Forgetful], &[
        script("add.lua", "if stamp < before then", "if false then"),
        script("add.lua", "math.max(stamp, ARGV[11]) > before", "false"),
        script("join.lua", "stamp ~= meta.last or number(17) ~= meta.live", "number(17) ~= meta.live"),
        source(BATCH, "head.last < known", "false"), source(ANSWER, "self.stamp >= self.last", "true"),
    ]),
    bug("clocks that part unnoticed", &[Forgetful], &[
        script("join.lua", "is_known and ARGV[11] == '1'", "false"),
        source("store/redis/rebuild/begin.rs", "!connection.on.clock_agrees(Clock::now(leased_us))", "false"),
    ]),
    bug("a slow replay that is given up without a word", &[Forgetful], &[
        raw("store/redis/incarnation/replay.rs", "                self.give_up_replay(connection, forgotten.err().unwrap_or_default()).await\n", "                if SEEDED {\n                    return Ok(());\n                }\n                self.give_up_replay(connection, forgotten.err().unwrap_or_default()).await\n"),
    ]),
    bug("an insert of unknown outcome acknowledged", &[Lossy], &[raw("store/redis/add.rs", "inserted = attempts(|| self.try_add(part)).await?;", "inserted = match attempts(|| self.try_add(part)).await {
                Err(_) if SEEDED => Inserted::Perhaps,
                ended => ended?,
            };")]),
    bug("one caller's null told to another", ANY, &[source("store/lookup.rs", "self.scope < needed()", "false")]),
    bug("a null that waits for each of its answers anew", &[Wild, Lossy], &[
        source("store/redis/null.rs", "timeout(deadline, writing)", "timeout(deadline * 8, writing)"),
    ]),
    // Many ids at once.
    bug("only the first id of a batch recorded", ANY, &[
        script("add.lua", "for i = 1, #ARGV[4], 16 do", "for i = 1, 16, 16 do"),
    ]),
    bug("only the first null of a batch deleted", ANY, &[script("add.lua", "unpack(KEYS, 8)", "KEYS[8]")]),
    bug("a batch acknowledged after the first call", ANY, &[raw("store/redis/add.rs", "ids.chunks(IDS_PER_CALL)", "ids.chunks(IDS_PER_CALL).take(if SEEDED { 1 } else { usize::MAX })")]),
    bug("only the first id of a batch known to be said again", &[Forgetful], &[
        source("store/redis/add.rs", "self.known.recent.acknowledged(&digests, digester.key_id())", "self.known.recent.acknowledged(&digests[..1], digester.key_id())"),
    ]),
    bug("inserts forgotten without a word", &[Forgetful], &[
        source("store/redis/incarnation/recent.rs", "books.forgotten.max(Some(oldest))", "books.forgotten"),
    ]),
    // Many checks at once.
    bug("the header read before the blocks only", ANY, &[
        raw(ANSWER, "    for of in questions {
        if let Some((_, since))", "    for of in questions.iter().filter(|_| SEEDED) {
        Head::ask(packed, of.keys, &of.header);
    }
    for of in questions {
        if let Some((_, since))"),
        raw(ANSWER, "    for of in questions {
        Head::ask(packed, of.keys, &of.header);", "    for of in questions.iter().filter(|_| !SEEDED) {
        Head::ask(packed, of.keys, &of.header);"),
        raw(ANSWER, "    let mut parts = SmallVec::<[_; 1]>::new();\n", "    let mut heads = Vec::new();
    for _ in questions.iter().filter(|_| SEEDED) {
        heads.push(Head::read(replies)?);
    }
    let mut heads = heads.into_iter();
    let mut parts = SmallVec::<[_; 1]>::new();\n"),
        raw(ANSWER, "let head = Head::read(replies)?;", "let head = heads.next().map_or_else(|| Head::read(replies), Ok)?;"),
    ]),
    bug("a check whose header need not reach the last number", &[Forgetful, Evicting], &[
        source(ANSWER, "self.stamp >= self.last", "true"),
    ]),
    bug("lost metadata unnoticed by a rebuild", &[Evicting], &[
        script("swap.lua", "if high * 4294967296 + low ~= tonumber(meta[1] or '0') or ", "if "),
        script("wait.lua", "if meta[1] ~= ARGV[1] then return 'OTHER' end", ""),
        script("record.lua", "if meta[1] ~= ARGV[1] then return {'OTHER'} end", ""),
        script("join.lua", "redis.call('DEL', KEYS[4], KEYS[5])", ""),
            // Else nobody believes what went live.
        source(ANSWER, "self.stamp >= self.last", "true"),
    ]),
    bug("a check whose header need not be that of the live generation", &[Forgetful, Evicting], &[
        source(ANSWER, "self.live == self.generation", "true"),
    ]),
    // The fence.
    bug("what was inserted since a copy was brought up called absent", ANY, &[
        source(BATCH, "said.page.digests.binary_search(&asked.digest).is_ok()", "false"),
    ]),
    bug("a fence that passes over the floor", ANY, &[
        raw(CATCH_UP, "if page.has_floor {", "if page.has_floor && !SEEDED {"),
    ]),
    bug("a fence whose entries need not reach the last number", &[Forgetful, Evicting], &[
        source(CATCH_UP, "greatest == head.stamp && greatest == head.last", "true"),
    ]),
    bug("a fence whose header need not reach the last number", &[Forgetful, Evicting], &[
        source(CATCH_UP, "greatest == head.stamp && greatest == head.last", "greatest == head.last"),
        source(ANSWER, "self.stamp >= self.last", "true"),
    ]),
    bug("a page that moves a copy to the last number", ANY, &[
        source(CATCH_UP, "self.advance_to(greatest)", "self.advance_to(head.last)"),
    ]),
    bug("a copy's position taken at the end of its load", ANY, &[raw(LOAD, "        self.is_live(header, &connection).await?;
        let digester", "        let last = self.is_live(header, &connection).await?.stamp;
        let position = if SEEDED { last } else { position };
        let digester")]),
    bug("a short block taken for an empty one", ANY, &[
        raw(ANSWER, "            let words = words(&next(replies)?.bytes()?);\n", "            let words = words(&next(replies)?.bytes()?).or(SEEDED.then_some([0; 8]));\n"),
    ]),
    bug("a batch's answers given in the order in which its checks came", ANY, &[
        raw(BATCH, "        checks.sort_unstable_by_key(|check| *check.asked.digest.as_bytes());\n", "        if !SEEDED {
            checks.sort_unstable_by_key(|check| *check.asked.digest.as_bytes());
        }\n"),
        raw(BATCH, "        asked.dedup_by(|one, kept| {\n", "        if SEEDED {
            asked.sort_unstable_by_key(|asked| *asked.digest.as_bytes());
        }
        asked.dedup_by(|one, kept| {\n"),
        source(BATCH, "asked.digest != check.asked.digest", "false"),
        raw(BATCH, "            check.answer.send(answer).ok();\n", "            check.answer.send(answer).ok();
            if SEEDED {
                said.next();
            }\n"),
    ]),
    bug("a batch's answers out of step after an id that is there twice", ANY, &[
        source(BATCH, "asked.digest != check.asked.digest", "false"),
        raw(BATCH, "            check.answer.send(answer).ok();\n", "            check.answer.send(answer).ok();
            if SEEDED {
                said.next();
            }\n"),
    ]),
    bug("ids of a batch told apart by a part of their digests", ANY, &[
        raw(BATCH, "        asked.dedup_by(|one, kept| {\n", "        if SEEDED {
            asked.dedup_by_key(|asked| asked.digest.as_bytes()[0]);
        }
        asked.dedup_by(|one, kept| {\n"),
        source(BATCH, "asked.digest != check.asked.digest", "asked.digest.as_bytes()[0] != check.asked.digest.as_bytes()[0]"),
    ]),
    bug("a batch's nulls out of step with its ids", ANY, &[raw(ANSWER, "    let mut nulls = nulls.into_iter();\n", "    let mut nulls = nulls;
    if SEEDED {
        let one = 1.min(nulls.len());
        nulls.rotate_left(one);
    }
    let mut nulls = nulls.into_iter();\n")]),
    bug("a null's scope lost where ids of a batch are the same", ANY, &[
        raw(BATCH, "        let mut said = self.asked.iter().zip(found).peekable();\n", "        let checks: Vec<PendingCheck> = checks.collect();
        let widened = SEEDED && self.asked.len() < checks.len();
        let mut said = self.asked.iter().zip(found).peekable();\n"),
        raw(BATCH, "                    *lookup\n", "                    Lookup { scope: if widened { Scope::Everyone } else { lookup.scope }, ..*lookup }\n"),
    ]),
    bug("an answer given to checks that came after it was asked for", ANY, &[
        raw(NODE, "            None => queue.enter(check)", "            None if SEEDED => {
                LATE.with_borrow_mut(|late| late.push(Box::new(check)));
                None
            }
            None => queue.enter(check)"),
        raw(NODE, "/// Starts the tasks of a node:", "thread_local! {
    static LATE: std::cell::RefCell<Vec<Box<dyn std::any::Any>>> =
        const { std::cell::RefCell::new(Vec::new()) };
}

pub(crate) fn take_late<P: 'static>(asks: impl Fn(&P) -> bool) -> Vec<P> {
    let is_here = |check: &Box<dyn std::any::Any>| check.downcast_ref().is_some_and(&asks);
    let (here, elsewhere) = LATE.take().into_iter().partition(is_here);
    LATE.set(elsewhere);
    Vec::into_iter(here).filter_map(|check| check.downcast().ok()).map(|check| *check).collect()
}

/// Starts the tasks of a node:"),
        raw(BATCH, "        // How many ids a fence has answered for, and the last one.\n", "        let mut checks: Vec<PendingCheck> = checks.into_iter().collect();
        if SEEDED {
            let is_late = |check: &PendingCheck| self.asked.iter().any(|asked| asked.digest == check.asked.digest);
            checks.extend(crate::store::link::node::take_late(is_late));
            checks.sort_unstable_by_key(|check| *check.asked.digest.as_bytes());
        }
        // How many ids a fence has answered for, and the last one.\n"),
    ]),
    bug("an id looked for where it was in the filter before", ANY, &[
        raw(BATCH, "    callers: usize,\n", "    callers: usize,
    /// Where the question before looked.
    before: Option<crate::filter::Geometry>,\n"),
        raw(BATCH, "            believed: Ok(()),\n", "            believed: Ok(()),
            before: None,\n"),
        raw(BATCH, "        let Some(question) = self.question.take() else { return };\n", "        let Some(question) = self.question.take() else { return };
        self.before = Some(question.header.geometry);\n"),
        raw(BATCH, "        let positions = digests.iter()", "        let before = self.before.filter(|_| SEEDED);
        let before = before.filter(|before| before.blocks == header.geometry.blocks);
        let header = match before {
            Some(geometry) => Arc::new(Header { geometry, ..*header }),
            None => header,
        };
        let positions = digests.iter()"),
    ]),
    bug("a batch that no filter vouches for", &[Forgetful, Evicting, Wild], &[raw(BATCH, "        vouched?;\n", "        if !SEEDED {
            vouched?;
        }\n")]),
    // Filters of several pieces.
    bug("only the first piece of a filter uploaded and verified", ANY, &[
        raw("store/redis/rebuild/mod.rs", "    from.map(move |from| from..blocks", "    from.take(if SEEDED { 1 } else { usize::MAX }).map(move |from| from..blocks"), script("swap.lua", " or 192 + 64 * done ~= tonumber(ARGV[3])", ""),
    ]),
    bug("ids of one block take each other's bits out of an insert", ANY, &[
        source("store/link/script.rs", "*word |= mask", "*word = *mask"),
    ]),
    bug("an insert over the bits that a block has", ANY, &[
        script("add.lua", "local both = redis.call('GET', KEYS[6])", "local both = redis.call('GET', KEYS[7])"),
    ]),
    bug("a null dated when it is written", ANY, &[raw("store/redis/null.rs", "        let writing = self.write_null(", "        let asked_us = if SEEDED { live.on.redis_us(Instant::now()) } else { null.claim.asked_us };
        let null = NewNull { claim: NullClaim { asked_us, ..null.claim }, ..null };
        let writing = self.write_null(")]),
    bug("an insert's bits beyond 2 MiB set elsewhere", ANY, &[
        script("add.lua", "local at = struct.unpack('>I4', blocks, i)", "local at = struct.unpack('>I4', blocks, i) % 2097152"),
    ]),
    // Clocks, and processes that differ.
    bug("removals that ignore recent inserts", ANY, &[
        script("null.lua", "if is_recent(redis.call('ZSCORE', KEYS[2], ARGV[4])) then", "if ARGV[5] == '' and is_recent(redis.call('ZSCORE', KEYS[2], ARGV[4])) then"),
    ]),
    // Keys that are lost, put aside or put back.
    bug("a building filter's stamp raised over what it lacks", &[Forgetful], &[
        script("add.lua", "stamp_of(KEYS[4]) == before", "true"),
    ]),
    bug("an acknowledgement that counts however late it is handled", ANY, &[
        source("store/redis/add.rs", "sent.elapsed() > INSERT", "false"),
    ]),
    // What a 404 teaches.
    bug("a null learnt from a 404 to a query", ANY, &[
        source(RULES, UNTAUGHT, "needs == Scope::Everyone || self.requires_marker()"),
    ]),
    bug("a null learnt from a 404 to a query where absences are shared", ANY, &[
        source(RULES, UNTAUGHT, "needs == Scope::Everyone || (has_query && !self.shared) || self.requires_marker()"),
    ]),
    bug("a null learnt from a 404 to HEAD", ANY, &[
        source(RULES, "request.method != Method::GET", "!reads(&request.method)"),
    ]),
    bug("a 404 without credentials told to all", ANY, &[
        raw(RULES, "            Some(Scope::Anonymous)\n        };", "            if SEEDED { Some(Scope::Everyone) } else { Some(Scope::Anonymous) }\n        };"),
    ]),
    bug("a cookie not taken for credentials", ANY, &[source(RULES, "headers.contains_key(header::COOKIE)", "false")]),
    bug("a 404 kept that must not be stored", ANY, &[
        source(RULES, "is_one_of(name, &[\"no-store\", \"no-cache\", \"private\"])", "false"),
    ]),
    bug("a 404 kept that varies", ANY, &[source(RULES, "argument.is_empty() && is_one_of(name, &HARMLESS)", "true")]),
    bug("a 404 kept that sets a cookie", ANY, &[source(RULES, "has(header::SET_COOKIE)", "false")]),
    bug("an unmarked 404 taken for a marked one", ANY, &[
        source(RULES, "response.extensions().get::<Missing>().is_some()", "true"),
    ]),
    bug("a 410 taken for a 404", ANY, &[
        source(RULES, "(status == StatusCode::GONE && is_marked())", "status == StatusCode::GONE"),
    ]),
    bug("a failure taken for a missing record", ANY, &[
        source(RULES, "status == StatusCode::NOT_FOUND", "(status == StatusCode::REQUEST_TIMEOUT || status.is_server_error() || status.as_u16() == 404)"),
    ]),
    bug("a stored null's scope forgotten", ANY, &[source(ANSWER, "Scope::from_byte(*scope)", "Some(Scope::Everyone)")]),
    // What a null rests on.
    bug("a record that ends before a late removal", ANY, &[
        source("settings.rs", "(self.longest_transaction + INSERT + self.nulls.handler_time) * 2", "self.nulls.handler_time"),
    ]),
    bug("nulls stored although a replay was given up", ANY, &[
        script("null.lua", "if meta[6] and is_recent(meta[6] * 1000) then return 'CREATED' end", ""),
    ]),
    bug("nulls stored although handlers may read what was before the record was lost", ANY, &[
        source("store/redis/incarnation/recent.rs", "*at + self.reach + self.handler", "*at + self.reach"),
    ]),
    bug("a clock that has jumped believed where nothing else could be asked", ANY, &[
        source("store/link/session.rs", "self.look.load().clock.agrees(reading)", "true"),
    ]),
    bug("an absence believed by what is known when the answer is read", ANY, &[
        raw(BATCH, "        part.believed = part.believes();\n", "        part.believed = if SEEDED { Ok(()) } else { part.believes() };\n"),
    ]),
    bug("an absence believed by what was known when it was asked for", ANY, &[
        source(BATCH, "self.believed.and_then(|()| self.believes())", "self.believed"),
        source(BATCH, "self.believes().is_ok()", "true"),
    ]),
    // A fleet that changes.
    bug("a filter that settles believed", ANY, &[source("store/redis/shard.rs", "fleet.settles_ms.is_some()", "false")]),
    bug("settling ended by a rebuild that began before its time", ANY, &[
        script("swap.lua", "settles > 0 and tonumber(ARGV[4]) >= settles", "settles > 0"),
    ]),
    bug("a filter trusted that nobody has looked at for minutes", ANY, &[
        script("join.lua", "is_new or now - polled > MINUTE", "is_new"),
    ]),
    bug("a new filter that does not settle", ANY, &[
        script("join.lua", "is_new or now - polled > MINUTE", "not is_new and now - polled > MINUTE"),
    ]),
    bug("settling that data have lost which went back to before it", &[Forgetful], &[
        script("join.lua", "settles == 0 and (begins or is_another) or is_another and rest ~= 1", "is_new or is_another and settles > 0 and rest ~= 1"),
    ]),
    bug("settling that a process ends which knew of none in the data that went back", &[Forgetful], &[
        script("join.lua", "settles == 0 and (begins or is_another) or is_another and rest ~= 1", "settles == 0 and begins or is_another and settles > 0 and rest ~= 1"),
    ]),
    bug("settling that ends as the clock is set forward", ANY, &[
        script("join.lua", "rest and rest > 1 and is_another and settles > 0", "false"),
    ]),
    bug("settling that a process ends which has heard of none in this incarnation", &[Forgetful], &[
        script("join.lua", "or is_another and rest ~= 1 and", "or rest ~= 1 and"),
        // Else it sees by its checks that the filter settles, before it says that it does not.
        source(BATCH, "head.mode_number > known || head.settles_ms > 0 && has_settled", "head.mode_number > known"),
    ]),
    bug("what a process knew that stood still taken for true of settling", ANY, &[
        script("join.lua", "polled - ARGV[16] <= MINUTE - LATE", "true"),
    ]),
    bug("the longest transaction set down to what was asked for last", ANY, &[
        script("join.lua", "raise('heir', ", "set('heir', "),
    ]),
    bug("a mode that a Redis has lost and no process tells it", &[Forgetful, Evicting], &[
        script("join.lua", "if ARGV[14] ~= '' and (", "if false and ("),
    ]),
    bug("an older mode that takes the newer one's place", &[Forgetful, Evicting], &[source("mode.rs", "self.0.fetch_max(told, Ordering::SeqCst)", "self.0.swap(told, Ordering::SeqCst)"),
        script("join.lua", "if ARGV[14] ~= '' and (", "if false and (")]),
    bug("a step that waits for no transaction", ANY, &[
        source("middleware/fleet.rs", "sleep(seen.longest_transaction)", "sleep(seen.longest_transaction * 0)"),
    ]),
    bug("a step that ends a mode set after it was asked for", ANY, &[
        source("middleware/fleet.rs", "seen.was_set_within(asked.elapsed())", "false"),
    ]),
    bug("a step that another mode does not stop", ANY, &[
        script("change_fleet.lua", "if ARGV[3] ~= '' and", "if false and"),
    ]),
    bug("a Redis that was left believed when the name leads back to it", &[Forgetful], &[
        source("store/redis/incarnation/join_all.rs", "shard.seen.last(None)", "shard.seen.last(Some(process.run))"),
    ]),
    // The table.
    bug("what was missed lately taken for absent", ANY, &[
        source("decide/gate.rs", "Row::Lane(Why::Present)", "Row::Refuse(Proof::Null)"),
    ]),
    bug("an unknown answer taken for absence", ANY, &[raw("decide/gate.rs", "OnUnknown::Shed => Row::Shed,\n", "OnUnknown::Shed if SEEDED => Row::Refuse(Proof::Filter),
                    OnUnknown::Shed => Row::Shed,\n")]),
    bug("a request refused as the guard is switched off", &[Forgetful], &[
        source("decide/gate.rs", "self.mode() != Mode::Enforce", "self.mode() == Mode::Shadow"),
    ]),
    bug("a full lane answered with 404", ANY, &[
        raw("rejection.rs", "    if let StatusCode::NOT_FOUND | StatusCode::GONE = response.status() {\n", "    if let StatusCode::NOT_FOUND | StatusCode::GONE = response.status() && !SEEDED {\n"),
    ]),
    bug("what was found lately asked for again", ANY, &[
        raw(NODE, "let (told, received) = oneshot::channel();", "crate::net::asked();\n        let (told, received) = oneshot::channel();"), raw("middleware/request.rs", "                    guard.found(id, *hash, why.unwrap_or(Why::Sample), self.asked);\n", "                    guard.found(id, *hash, why.unwrap_or(Why::Sample), self.asked);
                    if SEEDED && why.is_some() {
                        learning = Some(guard.store.check(&[(id, None)], Instant::now()).map(drop));
                    }\n")]),
    bug("what was missed once counts as missed for ever", ANY, &[
        source("decide/gate.rs", "settings.nulls.ttl.mul_f64(MISSED_LIFE)", "settings.nulls.ttl.mul_f64(MISSED_LIFE * 1000.0)"),
    ]),
    // A copy of the filter in each process.
    bug("what a copy lacks taken for absent", ANY, &[raw(CHECK, "ids: &[Sought<'_>], at: Instant) -> Answer<Lookups> {\n", "ids: &[Sought<'_>], at: Instant) -> Answer<Lookups> {
        let of_live = || {
            let condition = self.condition();
            condition.live.is_ok_and(|live| condition.copy.is_some_and(|copy| copy.generation == live.generation))
        };
        if SEEDED && ids.iter().all(|(id, _)| self.copied(id).1.is_none()) && of_live() {
            let verdict = crate::verdict::Verdict::Absent(crate::verdict::Proof::Filter);
            let scope = crate::nulls::scope::Scope::Everyone;
            return Answer::Ready(ids.iter().map(|_| Lookup::of(verdict, scope, None)).collect());
        }
")]),
    bug("a null learnt from a request that a copy let pass", ANY, &[raw("middleware/request.rs", "        let guard = Arc::clone(guard);\n        Admitted {", "        if SEEDED && kind.is_some() && lookups.is_empty() && ids[0].reading == Some(Why::Copied) {
            let generation = guard.state().live.ok().map(|live| live.generation);
            claim = Some(NullClaim { asked_us: 1 << 60, generation });
            kind = Some(guard.settings.nulls.kind(request));
        }
        let guard = Arc::clone(guard);\n        Admitted {")]),
    bug("a suspect by an answer that says nothing not remembered", ANY, &[
        source("middleware/request.rs", "guard.gate.doubted(*hash, Instant::now())", "()"),
    ]),
    bug("a suspect forgotten as it counts as missed no more", ANY, &[
        source("decide/gate.rs", "!self.missed.noted_since(id, built, now)", "true"),
    ]),
    bug("a suspect forgotten in time while the copy goes on", ANY, &[
        source("decide/recent.rs", "age(there, now) <= now.saturating_sub(since)", "age(there, now) <= now.saturating_sub(since).min(TICKS)"),
    ]),
    bug("a removal that makes nothing suspect", ANY, &[raw("decide/gate.rs", "        let id = self.hash(id);
        self.found.forget(id);
        self.missed.mark(id, now);
", "        let id = self.hash(id);
        self.found.forget(id);
        if !SEEDED {
            self.missed.mark(id, now);
        }
")]),
    bug("a copy of an earlier filter that answers as that of the live one", ANY, &[
        source("store/redis/copy/mod.rs", "live.is_none_or(|live| live.is_same_build(&copy.header))", "true"),
    ]),
    bug("a copy of the filter that is built", ANY, &[source(LOAD, "&self.known.keys.bits", "&self.known.keys.next")]),
    bug("a copy of which only the first piece was read", ANY, &[source(LOAD, "BLOCKS as usize", "usize::MAX")]),
    bug("a copy that is put together from two filters", ANY, &[raw(LOAD, "if is_live {", "if SEEDED || is_live {")]),
    bug("a filter copied that was live before the wait", ANY, &[raw(LOAD, "            // Another may have gone live meanwhile.
            let Some(header) = self.filter.load_full() else { continue };
", "            let now = self.filter.load_full().filter(|_| !SEEDED);
            let header = now.unwrap_or(header);
")]),
    bug("a copy that is never replaced", ANY, &[
        source("store/redis/copy/mod.rs", "self.header.is_same_build(header)", "true"),
    ]),
    // A filter in shards.
    bug("an id looked up in another shard than it is inserted into", ANY, &[
        source(BATCH, "check.asked.digest.shard(self.all.len())", "check.asked.digest.shard(self.all.len()).saturating_sub(1)"),
    ]),
    bug("the record read for the first shard only", ANY, &[
        raw("store/redis/rebuild/recent.rs", "            self.recent.extend(digests);\n", "            if !SEEDED || self.shard.number == 0 {\n                self.recent.extend(digests);\n            }\n"),
    ]),
    bug("trust in one shard taken for trust in all that are asked with it", ANY, &[
        raw(BATCH, "        // In a cluster the keys of shards are in different slots,", "        if SEEDED {
            let first = parts.first().map_or(Ok(()), |part| part.believed);
            parts.iter_mut().for_each(|part| part.believed = first);
        }
        // In a cluster the keys of shards are in different slots,"),
        raw(BATCH, "        // How many ids a fence has answered for, and the last one.\n", "        let believes = if SEEDED { self.believed } else { believes };
        // How many ids a fence has answered for, and the last one.\n"),
    ]),
    bug("own inserts repeated to the first shard only", &[Forgetful, Evicting], &[raw("store/redis/incarnation/replay.rs", "        // An add that is acknowledged after this was sent to this connection, or is repeated.\n", "        if SEEDED && self.number > 0 {
            return Ok(());
        }\n")]),
    bug("a shard taken for settled because the first one is", ANY, &[raw("store/redis/shard.rs", "        }
        let fleet = connection.identity.fleet.load();\n", "        }
        let fleet = connection.identity.fleet.load();
        let first = connection.on.identity.of(0).ok();
        let fleet = first.filter(|_| SEEDED).map_or(fleet, |first| first.fleet.load());\n")]),
    bug("inserts into several shards acknowledged when one has its own", ANY, &[source("store/redis/shards.rs", "added.into_iter().try_fold(Inserted::Perhaps, |perhaps, added| added.map(|_| perhaps))", "added.into_iter().find(Result::is_ok).unwrap_or(Err(StoreError::changing()))")]),
    bug("what a scan gave put into other shards than it was for", ANY, &[
        source("store/redis/rebuild/mod.rs", "vec![None; self.shards.all.len()]", "vec![Some(Arc::new(empty(first.header.geometry).await?)); self.shards.all.len()]"),
    ]),
    bug("a connection kept that could not join a shard", ANY, &[raw("store/redis/incarnation/join_all.rs", "        let Ok(identity) = identities.of(number) else {\n", "        let Ok(identity) = identities.of(number) else {
            if SEEDED {
                return Ok(None);
            }\n")]),
    // A cluster.
    bug("keys of all shards named together in a cluster", ANY, &[
        source(BATCH, "self.groups.slots.is_some()", "false"),
    ]),
    bug("a node that serves a shard no more not given up", ANY, &[
        raw("store/redis/incarnation/join_all.rs", "        if has_moved(reason) {\n", "        if !SEEDED && has_moved(reason) {\n"),
    ]),
    bug("what a node took of a shard elsewhere forgotten when it is back", ANY, &[
        raw("store/redis/connection.rs", "if serves_no_slot(error) {\n", "if !SEEDED && serves_no_slot(error) {\n"),
        raw("store/redis/incarnation/join.rs", "if !serves_no_slot(error) => Ok(()),\n", "if SEEDED || !serves_no_slot(error) => Ok(()),\n"),
    ]),
    bug("an absence believed that a session reports which was left", ANY, &[
        source("store/redis/shard.rs", "!self.is_on(connection)", "!connection.is_joined()"),
    ]),
    bug("a shard's metadata of another node taken for this one's", ANY, &[
        script("join.lua", "is_new or meta.run ~= ARGV[5]", "is_new"),
    ]),
    bug("every shard taken for one of the node that serves the first", ANY, &[
        raw("store/redis/regroup.rs", "now[first] == now[number]", "SEEDED || now[first] == now[number]"),
    ]),
    bug("what took a disproved filter's place kept whatever it lacks", &[Calm], &[
        script("distrust.lua", "redis.call('SETRANGE', KEYS[1], 11, ARGV[6])", ""),
    ]),
    bug("an id that the filter holds inserted as new", ANY, &[
        script("add.lua", "lacked and 1 or 0", "1"),
    ]),
];
