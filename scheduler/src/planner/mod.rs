//! From a logical plan to a distributed one whose every leaf runs on the owner of its data.
//!
//! * [`topology`] – the one view of the cluster that a query plans on
//! * [`catalog`], [`table`] – tables of the replicated state, for the query engine; `system` tables
//! * [`published`] – a snapshot in an object store as a table
//! * [`partitioners`] – partition expressions, checked once per table
//! * [`session`] – the session a query is planned and run in
//! * [`subqueries`] – uncorrelated scalar subqueries, run first and planned as literals
//! * [`copies`] – set operations that count how often a row is there
//! * [`memberships`] – `EXISTS` and `IN` over aggregates, or past an `OFFSET`
//! * [`values`] – `EXISTS`, `IN` and subqueries as values
//! * [`intervals`] – compared by their lengths
//! * `ties` – what ties subqueries to the outer query
//! * [`limits`] – `LIMIT` in subqueries that refer to the outer query
//! * [`single_row`] – subqueries that stand for one value, in forms that the engine plans
//! * [`each`] – subqueries run for each distinct outer row
//! * [`on_subqueries`] – subqueries in the ON of joins, put where the engine plans them
//! * [`grouped_subqueries`] – subqueries that are grouped by or aggregated, computed below
//! * [`parameters`] – parameters that are points in time
//! * [`misread`] – what the engine would answer wrongly, refused
//! * [`recursion`] – tables inside recursive terms, gathered first
//! * [`pushdown`] – filters are pushed into scans by the positions of their columns
//! * [`rules`] – the rules of the physical optimizer, in order
//! * [`spread`] – joins that one process would run otherwise than several
//! * [`slots`] – one slot list for all leaves of a query
//! * [`colocate`] – joins and aggregates of tables bucketed alike, without a shuffle
//! * [`handlers`] – task counts, variants and routing for the distribution library
//! * [`gather`] – plans that run in one piece, above scans on the owners
//! * [`guard`] – refuses a plan that would not read each partition exactly once, on its owner
//! * [`refusal`] – errors of planning that say how to plan instead
//! * [`time_travel`] – tables as they were
//! * [`write`] – the logical and physical ends of a write
pub mod catalog;
pub mod colocate;
pub mod copies;
pub mod each;
pub mod gather;
pub mod grouped_subqueries;
pub mod guard;
pub mod handlers;
pub mod intervals;
pub mod limits;
pub mod memberships;
pub mod misread;
pub mod on_subqueries;
pub mod parameters;
pub mod partitioners;
pub mod projections;
pub mod published;
pub mod pushdown;
pub mod recursion;
pub mod refusal;
pub mod rules;
pub mod session;
pub mod single_row;
pub mod slots;
pub mod spread;
pub mod subqueries;
pub mod system;
pub mod table;
mod ties;
pub mod time_travel;
pub mod topology;
pub mod values;
pub mod write;

#[cfg(test)]
mod tests;
