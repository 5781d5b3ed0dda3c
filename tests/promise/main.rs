//! Never a false 404: an id that exists is refused by nothing that Redis, an operator, another process or
//! the application's own timing can do.

mod canary;
mod damage;
mod exactness;
mod fleet;
mod hostile;
mod nulls;
mod own_inserts;
mod places;
mod scope;
mod source;
