//! The model of the protocol.

mod instance;
mod instances;
mod redis;
mod rules;
mod search;
mod state;
mod steps;

fn main() {
    for i in instances::INSTANCES {
        let found = search::search(i);
        println!("{:<20} {:?} states {} {:?}", i.name, found.verdict, found.states, found.took);
        for line in found.trace {
            println!("    {line}");
        }
    }
}
