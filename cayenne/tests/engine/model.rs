//! Random histories against a map.
