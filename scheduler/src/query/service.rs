//! The engine as the front ends know it.
use super::engine::QueryEngine;
use crate::frontend::boxed::sql_service;

sql_service!(QueryEngine: prepare, query, update, ingest, begin, commit, roll_back, within, catalog, action, ready);
