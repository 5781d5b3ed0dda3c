//! The command `bloom-guard`, as its users run it: its output, its exit status, and what it leaves in Redis.

mod command;
mod reads;

use command::Ran;
