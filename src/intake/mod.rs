//! What the caller pushes: samples that wait, and the arrays that they name.

pub mod arrays;
pub mod draft;
pub mod parts;
pub mod queue;
