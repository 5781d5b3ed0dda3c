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

    /// Members with scores of this one and beyond, highest first.
    fn from(&self, score: i64) -> impl Iterator<Item = &Bytes> {
        let from = self.order.iter().rev().take_while(move |(other, _)| *other >= score);
        from.map(|(_, member)| member)
    }

    /// Members by rank, both ends included and counted from the end where negative.
    fn ranks(&self, from: &[u8], to: &[u8]) -> Vec<Bytes> {
        let len = self.order.len() as i64;
        let index = |text: &[u8]| {
            let index = number(text);
            if index < 0 { index + len } else { index }
        };
        let (from, to) = (index(from).max(0), index(to).min(len - 1));
        let ranked = self.order.iter().skip(from as usize).map(|(_, member)| member.clone());
        ranked.take((to - from + 1).max(0) as usize).collect()
    }
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
        let members =
            |members: Vec<Bytes>| Reply::Array(members.into_iter().map(Reply::Bulk).collect());
        let reply =
            match (name, args) {
                ("ZADD", [key, b"GT", scored @ ..]) => self.add_all(key, scored),
                ("ZCARD", [key]) => {
                    self.with_sorted(key, |sorted| Reply::Int(sorted.scores.len() as i64))
                }
                ("ZSCORE", [key, member]) => self.with_sorted(key, |sorted| {
                    sorted
                        .scores
                        .get(*member)
                        .map_or(Reply::Nil, |score| Reply::bulk(score.to_string()))
                }),
                ("ZCOUNT", [key, b"-inf", max]) => self.with_sorted(key, |sorted| {
                    Reply::Int(sorted.up_to(number(max)).count() as i64)
                }),
                ("ZCOUNT", [key, min, b"+inf"]) => self
                    .with_sorted(key, |sorted| Reply::Int(sorted.from(number(min)).count() as i64)),
                ("ZRANGEBYSCORE", [key, b"-inf", max, b"LIMIT", b"0", count]) => {
                    self.with_sorted(key, |sorted| {
                        let found = sorted.up_to(number(max)).take(number(count) as usize);
                        members(found.cloned().collect())
                    })
                }
                ("ZREM", [key, names @ ..]) => self
                    .drop_members(key, &names.iter().map(|name| name.to_vec()).collect::<Vec<_>>()),
                ("ZREMRANGEBYRANK", [key, from, to]) => {
                    match self.with_sorted(key, |sorted| sorted.ranks(from, to)) {
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
                    let before = sorted.scores.get(member).copied();
                    if before.is_none_or(|before| before < score) {
                        sorted.set(member, score);
                    }
                    added += i64::from(before.is_none());
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
