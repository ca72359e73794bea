//! From waiting samples to waves of chunks.

pub mod boxes;
pub mod cut;
pub mod find;
pub mod foresee;
pub mod planned;
pub mod window;
