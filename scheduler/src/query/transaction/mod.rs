//! Transactions: statements that read one state of all tables, see their own changes, and are committed together.
//!
//! ```text
//! BEGIN      a snapshot: the replicated state, kept in this scheduler's memory
//! statement  planned on the snapshot, with the owners of now; scans show what the transaction has staged
//! write      staged on the owners like any write, on top of what the transaction has staged there; not committed
//! COMMIT     staged parts that other writes came before are checked; then one entry of the log for all tables
//! ```
//!
//! That is snapshot isolation: of two transactions that change one row the first to be committed wins, and the other one
//! gets a conflict, with nothing of it applied. A transaction lives in the scheduler that began it: if that dies, or nobody
//! goes on with the transaction for a while, nothing of it is applied. The first statement that fails ends it.
//!
//! * [`own`] – what a transaction has staged
//! * [`open`] – the transactions of a scheduler
//! * [`service`] – statements inside one
mod open;
mod own;
mod service;

use ancho_common::error::{Error, ErrorKind};

pub use open::{Transaction, Transactions};
pub(super) use own::{OwnWrite, OwnWrites};
pub(super) use service::InTransaction;

/// An error that ends a transaction: what passes by itself helps a later one, not this.
pub(super) fn given_up(error: Error) -> Error {
    match error.kind {
        ErrorKind::Unavailable | ErrorKind::StaleRoute => Error::conflict(format!(
            "{}; the transaction was given up and changed nothing, run it again",
            error.message
        )),
        _ => error,
    }
}
