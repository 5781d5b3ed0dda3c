//! Hashes.

use std::collections::BTreeMap;

use super::keyspace::{Bytes, Keyspace, Value, number};
use super::reply::Reply;

impl Keyspace {
    fn hash(&mut self, key: &[u8]) -> Result<Option<&BTreeMap<Bytes, Bytes>>, Reply> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Hash(hash)) => Ok(Some(hash)),
            Some(_) => Err(Reply::wrong_type()),
        }
    }

    fn hash_mut(&mut self, key: &[u8]) -> Result<&mut BTreeMap<Bytes, Bytes>, Reply> {
        match self.entry(key, || Value::Hash(BTreeMap::new())) {
            Value::Hash(hash) => Ok(hash),
            _ => Err(Reply::wrong_type()),
        }
    }

    pub(crate) fn run_hash(&mut self, name: &str, args: &[&[u8]]) -> Option<Reply> {
        let field = |hash: Option<&BTreeMap<Bytes, Bytes>>, field: &[u8]| {
            hash.and_then(|hash| hash.get(field)).map_or(Reply::Nil, Reply::bulk)
        };
        let reply = match (name, args) {
            ("HGET", [key, name]) => self.hash(key).map(|hash| field(hash, name)),
            ("HMGET", [key, names @ ..]) => self
                .hash(key)
                .map(|hash| Reply::Array(names.iter().map(|name| field(hash, name)).collect())),
            ("HSET", [key, pairs @ ..]) => self.hash_mut(key).map(|hash| {
                let new = pairs
                    .chunks_exact(2)
                    .filter(|pair| hash.insert(pair[0].to_vec(), pair[1].to_vec()).is_none());
                Reply::Int(new.count() as i64)
            }),
            ("HSETNX", [key, name, value]) => self.hash_mut(key).map(|hash| {
                let new = !hash.contains_key(*name);
                if new {
                    hash.insert(name.to_vec(), value.to_vec());
                }
                Reply::Int(i64::from(new))
            }),
            ("HINCRBY", [key, name, by]) => self.hash_mut(key).map(|hash| {
                let value = hash.get(*name).map_or(0, |text| number(text)) + number(by);
                hash.insert(name.to_vec(), value.to_string().into_bytes());
                Reply::Int(value)
            }),
            ("HDEL", [key, names @ ..]) => self.delete_fields(key, names),
            _ => return None,
        };
        Some(reply.unwrap_or_else(|error| error))
    }

    fn delete_fields(&mut self, key: &[u8], names: &[&[u8]]) -> Result<Reply, Reply> {
        if self.hash(key)?.is_none() {
            return Ok(Reply::Int(0));
        }
        let hash = self.hash_mut(key)?;
        let gone = names.iter().filter(|name| hash.remove(**name).is_some()).count();
        if hash.is_empty() {
            self.remove(key);
        }
        Ok(Reply::Int(gone as i64))
    }
}
