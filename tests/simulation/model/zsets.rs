//! Sorted sets.

use super::keyspace::{Bytes, Keyspace, Sorted, Value, number};
use super::reply::Reply;

impl Sorted {
    fn remove(&mut self, member: &[u8]) -> bool {
        let Some(score) = self.scores.remove(member) else { return false };
        self.order.remove(&(score, member.to_vec()))
    }

    fn set(&mut self, member: &[u8], score: i64) {
        self.remove(member);
        self.scores.insert(member.to_vec(), score);
        self.order.insert((score, member.to_vec()));
    }

    /// Members with scores up to and including this one, lowest first.
    fn up_to(&self, score: i64) -> impl Iterator<Item = &Bytes> {
        self.order.iter().take_while(move |(other, _)| *other <= score).map(|(_, member)| member)
    }

    /// The ranks between two, both included and counted from the end where negative: how many come before, and how many there
    /// are.
    fn ranks(&self, from: &[u8], to: &[u8]) -> (usize, usize) {
        let len = self.order.len() as i64;
        let index = |text: &[u8]| {
            let index = number(text);
            if index < 0 { index + len } else { index }
        };
        let (from, to) = (index(from).max(0), index(to).min(len - 1));
        (from as usize, (to - from + 1).max(0) as usize)
    }
}

/// Members, each with its score where that is asked for.
fn members<'a>(found: impl Iterator<Item = &'a (i64, Bytes)>, rest: &[&[u8]]) -> Reply {
    let scores = rest.first().is_some_and(|word| *word == b"WITHSCORES");
    let fields = found.flat_map(|(score, member)| {
        let score = scores.then(|| Reply::bulk(score.to_string()));
        [Some(Reply::Bulk(member.clone())), score]
    });
    Reply::Array(fields.flatten().collect())
}

impl Keyspace {
    fn sorted(&mut self, key: &[u8]) -> Result<Sorted, Reply> {
        match self.get(key) {
            None => Ok(Sorted::default()),
            Some(Value::Sorted(sorted)) => Ok(sorted.clone()),
            Some(_) => Err(Reply::wrong_type()),
        }
    }

    /// Looks at a sorted set without a copy.
    fn with_sorted<T>(&mut self, key: &[u8], see: impl FnOnce(&Sorted) -> T) -> Result<T, Reply> {
        match self.get(key) {
            None => Ok(see(&Sorted::default())),
            Some(Value::Sorted(sorted)) => Ok(see(sorted)),
            Some(_) => Err(Reply::wrong_type()),
        }
    }

    pub(crate) fn run_sorted(&mut self, name: &str, args: &[&[u8]]) -> Option<Reply> {
        let reply = match (name, args) {
            ("ZADD", [key, scored @ ..]) => self.add_all(key, scored),
            ("ZCARD", [key]) => {
                self.with_sorted(key, |sorted| Reply::Int(sorted.scores.len() as i64))
            }
            ("ZSCORE", [key, member]) => self.with_sorted(key, |sorted| {
                sorted
                    .scores
                    .get(*member)
                    .map_or(Reply::Nil, |score| Reply::bulk(score.to_string()))
            }),
            ("ZCOUNT", [key, b"-inf", max]) => {
                self.with_sorted(key, |sorted| Reply::Int(sorted.up_to(number(max)).count() as i64))
            }
            ("ZRANGE", [key, from, to, rest @ ..]) => self.with_sorted(key, |sorted| {
                let (skip, take) = sorted.ranks(from, to);
                members(sorted.order.iter().skip(skip).take(take), rest)
            }),
            ("ZREVRANGE", [key, from, to, rest @ ..]) => self.with_sorted(key, |sorted| {
                let (skip, take) = sorted.ranks(from, to);
                members(sorted.order.iter().rev().skip(skip).take(take), rest)
            }),
            ("ZRANGEBYSCORE", [key, from, b"+inf", b"WITHSCORES", b"LIMIT", b"0", count]) => self
                .with_sorted(key, |sorted| {
                    let after = from.strip_prefix(b"(").map_or(i64::MIN, number);
                    let found = sorted.order.iter().filter(|(score, _)| *score > after);
                    members(found.take(number(count) as usize), &[b"WITHSCORES"])
                }),
            ("ZREMRANGEBYRANK", [key, from, to]) => {
                let ranked = self.with_sorted(key, |sorted| {
                    let (skip, take) = sorted.ranks(from, to);
                    let ranked = sorted.order.iter().skip(skip).take(take);
                    ranked.map(|(_, member)| member.clone()).collect::<Vec<_>>()
                });
                match ranked {
                    Ok(ranked) => self.drop_members(key, &ranked),
                    Err(error) => Err(error),
                }
            }
            _ => return None,
        };
        Some(reply.unwrap_or_else(|error| error))
    }

    /// Adds members, each after its score.
    fn add_all(&mut self, key: &[u8], scored: &[&[u8]]) -> Result<Reply, Reply> {
        match self.entry(key, || Value::Sorted(Sorted::default())) {
            Value::Sorted(sorted) => {
                let mut added = 0;
                for pair in scored.chunks_exact(2) {
                    let (score, member) = (number(pair[0]), pair[1]);
                    added += i64::from(!sorted.scores.contains_key(member));
                    sorted.set(member, score);
                }
                Ok(Reply::Int(added))
            }
            _ => Err(Reply::wrong_type()),
        }
    }

    fn drop_members(&mut self, key: &[u8], members: &[Bytes]) -> Result<Reply, Reply> {
        let mut gone = 0;
        match self.get_mut(key) {
            None => return Ok(Reply::Int(0)),
            Some(Value::Sorted(sorted)) => {
                gone += members.iter().filter(|member| sorted.remove(member)).count() as i64;
            }
            Some(_) => return Err(Reply::wrong_type()),
        }
        if self.sorted(key)?.scores.is_empty() {
            self.remove(key);
        }
        Ok(Reply::Int(gone))
    }
}
