//! Several statements that read one state, see their own changes, and are applied together or not at all.
mod isolation;
mod meaning;
mod outside;
