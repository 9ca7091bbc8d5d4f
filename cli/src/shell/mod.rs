//! The parts of `ancho sql`.
//!
//! * [`split`] – statements out of a text
//! * [`render`] – rows as a table, as CSV or as JSON
//! * [`runner`] – one statement from text to output
//! * [`catalog`] – names and columns of tables
//! * [`complete`] – completion at the prompt
//! * [`repl`] – the interactive loop
pub mod catalog;
pub mod complete;
pub mod render;
pub mod repl;
pub mod runner;
pub mod split;
